"""Operators by their plain names, without what tede.functional adds to some of them."""
from tede import _C


def __getattr__(name):
    found = _C._functions.get(name)
    if found is None and name in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"):
        found = getattr(_C.Tensor, name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def __dir__():
    return sorted(_C._functions)
