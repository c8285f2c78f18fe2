"""Futures of communication hooks: computed by who waits for them, on his thread.

Callbacks of a work's own future run on whichever thread sees the work's end, at a time of its own on each rank. Where they start
collectives, the ranks would call those in different orders, and wait for ever. A reducer waits for the futures of its buckets in
order, so what runs then runs in one order everywhere."""
from tede.futures import Future

__all__ = ["Chain", "reduced"]


class Chain(Future):
    """A future of compute(). `source` is a future that begins it where somebody is to be called when it is done."""

    def __init__(self, compute, source):
        super().__init__()
        self._compute, self._source = compute, source

    def wait(self):
        compute, self._compute = self._compute, None
        if compute is not None:
            try:
                self.set_result(compute())
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
