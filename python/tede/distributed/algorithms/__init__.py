"""Algorithms over process groups."""
from .join import Join, Joinable, JoinHook  # noqa: F401
