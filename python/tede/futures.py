"""Results that may come later."""
import threading


class Future:
    """A value or an exception that somebody sets and others wait for."""

    def __init__(self, *, devices=None):
        self._event, self._value, self._error, self._callbacks = threading.Event(), None, None, []

    __class_getitem__ = classmethod(lambda cls, item: cls)

    def done(self):
        return self._event.is_set()

    def wait(self):
        self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self):
        if not self.done():
            raise RuntimeError("Future: the value isn't there yet")
        return self.wait()

    def _finish(self):
        self._event.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result):
        if self.done():
            raise RuntimeError("Future already completed")
        self._value = result
        self._finish()

    def set_exception(self, result):
        self._error = result
        self._finish()

    def add_done_callback(self, callback):
        if self.done():
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback):
        """A future of callback(self)."""
        following = Future()

        def run(done):
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)
        self.add_done_callback(run)
        return following


def wait_all(futures):
    return [future.wait() for future in futures]


def collect_all(futures):
    collected = Future()
    wait_all(futures)
    collected.set_result(futures)
    return collected
