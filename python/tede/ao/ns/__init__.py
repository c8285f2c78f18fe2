"""Comparison of a model with its quantized form, layer by layer (`_numeric_suite`)."""
from tede._compat import fill

from . import _numeric_suite  # noqa: F401

__all__ = []
fill(globals())
