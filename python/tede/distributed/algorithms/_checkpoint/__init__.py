"""Wrappers of modules that save memory in training."""
