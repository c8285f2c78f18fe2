__all__ = ["CyclingIterator"]


class CyclingIterator:
    """An iterator over n epochs: `generator_fn(epoch)` makes that of one."""

    def __init__(self, n, generator_fn, start_epoch=0):
        self._n, self._epoch, self._make = n, start_epoch, generator_fn
        self._iterator = generator_fn(start_epoch)

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            try:
                return next(self._iterator)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iterator = self._make(self._epoch)
