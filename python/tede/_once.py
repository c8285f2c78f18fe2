"""Warnings that a process is given once, whatever calls for them; or each time, after set_warn_always(True)."""
import warnings

from tede import _C

_given = set()


def warn_once(text, stacklevel=3):
    """A UserWarning at the caller of who calls this."""
    if text not in _given or _C._warns_always():
        _given.add(text)
        warnings.warn(text, stacklevel=stacklevel)
