"""Who listens to a thread's calls. The core tells one function; here several share what it hears, so that an explanation may
stand inside another one, or inside a profile."""
import threading

from tede import _C

_EVERYTHING = (1 << 32) - 1


class _Listeners(threading.local):
    def __init__(self):
        self.all = []                     # (function, kinds, details), the newest first


_here = _Listeners()


def listen(hear, kinds=_EVERYTHING, details=True):
    """Tell `hear` what happens on this thread, events of those kinds (see `_C._watch`), until unlisten(hear)."""
    _change([(hear, kinds, details), *_here.all])


def unlisten(hear):
    _change([one for one in _here.all if one[0] != hear])


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

        def tell(kind, *event):
            for hear, wanted, _ in listeners:
                if wanted >> kind & 1:
                    hear(kind, *event)
        _C._watch(tell, kinds, any(one[2] for one in listeners))
