"""torch.futures: Future, collect_all and wait_all."""
import threading

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value or an exception that somebody sets, once, and others wait for.

        devices: kept for PyTorch's signature.

    >>> future = tede.futures.Future()
    >>> then = future.then(lambda done: done.value() + 1)
    >>> future.set_result(1)
    >>> then.wait()
    2
    """

    def __init__(self, *, devices=None):
        self._event, self._lock, self._value, self._error, self._callbacks = threading.Event(), threading.Lock(), None, None, []

    __class_getitem__ = classmethod(lambda cls, item: cls)

    def __reduce__(self):
        raise RuntimeError("Can not pickle torch.futures.Future")

    def done(self):
        """Whether it has been set."""
        return self._event.is_set()

    def wait(self):
        """The value, once it is there; or its exception is raised."""
        self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self):
        """The value that is there already (RuntimeError if none is)."""
        if not self.done():
            raise RuntimeError("Future: the value isn't there yet")
        return self.wait()

    def _finish(self, value, error):
        with self._lock:
            if self.done():
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error = value, error
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _when_done(self, callback):
        with self._lock:
            done = self.done()
            if not done:
                self._callbacks.append(callback)
        if done:
            callback()

    def set_result(self, result):
        """Set the value; once (RuntimeError)."""
        self._finish(result, None)

    def set_exception(self, result):
        """Set the exception that waiting raises."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def add_done_callback(self, callback):
        """Call callback(self) once the future is done. Its errors are printed, and go no further."""
        def run():
            try:
                callback(self)
            except Exception as error:
                import sys
                print(f"Got the following error when running the callback: {type(error).__name__}: {error}", file=sys.stderr)
        self._when_done(run)

    def then(self, callback):
        """A future of callback(self); a RuntimeError that names the error if the callback raises one."""
        following = Future()

        def run():
            try:
                result = callback(self)
            except Exception as error:
                failed = RuntimeError(f"Got the following error when running the callback: {type(error).__name__}: {error}")
                failed.__cause__ = error
                following.set_exception(failed)
            else:
                following.set_result(result)
        self._when_done(run)
        return following


def collect_all(futures):
    """A future of the list of all of them: done when they are, or with the first error."""
    futures = list(futures)
    for future in futures:
        if future is None:
            raise RuntimeError("Future can't be None")
    collected, left, lock = Future(), [len(futures)], threading.Lock()

    def one_done(future):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if future._error is not None and not collected.done():
            collected.set_exception(future._error)
        elif last and not collected.done():
            collected.set_result(futures)
    for future in futures:
        future._when_done(lambda future=future: one_done(future))
    if not futures:
        collected.set_result(futures)
    return collected


def wait_all(futures):
    """The values of all of them, in order; the first error that one of them has."""
    return [future.wait() for future in collect_all(futures).wait()]
