"""Gradients of operators defined in Python; see tede.library."""
from tede.library import _Info as Info  # noqa: F401
