"""Operators by their plain names, without what tede.functional adds to some of them."""
from tede import _C


def __getattr__(name):
    found = _C._functions.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
