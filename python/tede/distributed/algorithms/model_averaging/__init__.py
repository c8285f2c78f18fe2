"""Averages of parameters over processes, now and then."""
