"""IterableWrapper: an iterable as the first pipe."""
import copy
import warnings

from tede.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of an iterable; of a copy of it, made for each iterator, unless `deepcopy` is False."""

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn("The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                              "source data.", stacklevel=2)
        yield from source

    def __len__(self):
        return self._length_of(self.iterable)[0]
