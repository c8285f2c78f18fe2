"""Futures of communication hooks: computed by who waits for them, on his thread.

Callbacks of a work's own future run on whichever thread sees the work's end, at a time of its own on each rank. Where they start
collectives, the ranks would call those in different orders, and wait for ever. A reducer waits for the futures of its buckets in
order, so what runs then runs in one order everywhere: while a hook runs, or what it has put off, the futures of works are these."""
import contextlib
import threading

from tede.futures import Future

__all__ = ["Chain", "future_of", "in_hook", "reduced"]


class _Where(threading.local):
    in_hook = False


_where = _Where()


@contextlib.contextmanager
def in_hook():
    """On this thread futures of works are chains."""
    before, _where.in_hook = _where.in_hook, True
    try:
        yield
    finally:
        _where.in_hook = before


def future_of(work, make):
    """make(), the future of a work, or a chain that begins with it."""
    return Chain(work.result, make) if _where.in_hook else make()


class Chain(Future):
    """A future of compute(). `source` is a future that begins it where somebody is to be called when it is done."""

    def __init__(self, compute, source):
        super().__init__()
        self._compute, self._source = compute, source

    def wait(self):
        compute, self._compute = self._compute, None
        if compute is not None:
            try:
                with in_hook():
                    result = compute()
                self.set_result(result)
            except Exception as error:
                self.set_exception(error)
        return super().wait()

    value = wait

    def then(self, callback):
        def call():
            self.wait()
            return callback(self)
        return Chain(call, self._source)

    def _when_done(self, callback):
        super()._when_done(callback)
        if self._compute is not None:
            self._source()._when_done(self._begin)

    def _begin(self):
        try:
            self.wait()
        except Exception:
            pass                        # it is the future's, whom others ask


def reduced(group, x):
    """A future of [x], when it is the sum over the ranks of the group."""
    work = group.allreduce([x])

    def wait():
        work.wait()
        return [x]
    return Chain(wait, work.get_future)
