"""Layers of quantized tensors; `dynamic` has those that quantize their input as it comes, `functional` functions."""
from tede._compat import fill

from . import functional, modules  # noqa: F401
from .modules import *  # noqa: F403
from .modules import MaxPool2d  # noqa: F401
from . import dynamic  # noqa: F401, I001

__all__ = [*(name for name in modules.__all__ if name != "MaxPool2d"), "LSTM", "MultiheadAttention"]     # noqa: F405     the last two say that they aren't there
fill(globals())
