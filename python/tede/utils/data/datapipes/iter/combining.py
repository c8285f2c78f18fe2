"""Concater, Zipper, Multiplexer: several pipes made one."""
from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """One pipe's items after the other's.

    Args:
        datapipes: the pipes, in their order

    Example:
        >>> list(IterableWrapper([1]).concat(IterableWrapper([2, 3])))
        [1, 2, 3]
    """

    def __init__(self, *datapipes):
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self):
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self):
        return sum(self._length_of(*self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """An item of each in turn, as long as all have one.

    Args:
        datapipes: the pipes, in their order

    Example:
        >>> list(IterableWrapper([1, 2]).mux(IterableWrapper([3, 4, 5])))
        [1, 3, 2, 4]
    """

    _transient = ("buffer",)

    def __init__(self, *datapipes):
        self.datapipes = datapipes
        self._clear()

    def _clear(self):
        self.buffer = []       # a round is given out only when every pipe had an item for it

    def __iter__(self):
        iterators = [iter(pipe) for pipe in self.datapipes]
        while iterators:
            for iterator in iterators:
                try:
                    self.buffer.append(next(iterator))
                except StopIteration:
                    self.buffer.clear()
                    return
            yield from self.buffer
            self.buffer.clear()

    def __len__(self):
        return min(self._length_of(*self.datapipes)) * len(self.datapipes)

    def reset(self):
        self._clear()


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of an item of each.

    Args:
        datapipes: the pipes, in their order

    Example:
        >>> list(IterableWrapper([1, 2]).zip(IterableWrapper([3, 4])))
        [(1, 3), (2, 4)]
    """

    def __init__(self, *datapipes):
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self):
        yield from zip(*[iter(pipe) for pipe in self.datapipes])

    def __len__(self):
        return min(self._length_of(*self.datapipes))
