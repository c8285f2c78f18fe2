"""Layers of quantized models."""
from tede._compat import fill

from . import intrinsic, qat, quantizable, quantized  # noqa: F401

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]
fill(globals())
