"""Listeners for a thread's events. The core notifies one function; here several share its events, so that an explanation may
run inside another one, or inside a profile."""
import threading

from tede import _C

_EVERYTHING = (1 << 32) - 1


class _Listeners(threading.local):
    def __init__(self):
        self.all = []                     # (function, kinds, details), the newest first


_here = _Listeners()


def listen(listener, kinds=_EVERYTHING, details=True):
    """Pass this thread's events of those kinds to `listener` (see `_C._watch`), until unlisten(listener)."""
    _change([(listener, kinds, details), *_here.all])


def unlisten(listener):
    _change([one for one in _here.all if one[0] != listener])


def _change(listeners):
    """Replace this thread's listeners; what the core refuses leaves them as they were."""
    before = _here.all
    if before:
        _C._watch(None)
    try:
        _watch(listeners)
    except BaseException:
        _watch(before)
        raise
    _here.all = listeners


def _watch(listeners):
    if len(listeners) == 1:
        _C._watch(*listeners[0])
    elif listeners:
        kinds = 0
        for one in listeners:
            kinds |= one[1]

        def emit(kind, *event):
            for listener, wanted, _ in listeners:
                if wanted >> kind & 1:
                    listener(kind, *event)
        _C._watch(emit, kinds, any(one[2] for one in listeners))
