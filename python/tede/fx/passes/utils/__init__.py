"""Utilities for passes: the pattern matcher."""
