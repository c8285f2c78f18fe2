"""Sequences and mappings as pipes, and what can be made of them."""
import copy
import warnings

from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from tede.utils.data.datapipes.iter.combinatorics import Shuffling, new_seed
from tede.utils.data.datapipes.iter.grouping import Batching
from tede.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = ["BatcherMapDataPipe", "ConcaterMapDataPipe", "MapperMapDataPipe", "SequenceWrapperMapDataPipe", "ShufflerIterDataPipe",
           "ZipperMapDataPipe", "default_fn"]


def default_fn(data):
    """The item itself."""
    return data


class SequenceWrapperMapDataPipe(MapDataPipe):
    """A copy of a sequence or mapping, or the thing itself where it can't be copied."""

    def __init__(self, sequence, deepcopy=True):
        try:
            self.sequence = copy.deepcopy(sequence) if deepcopy else sequence
        except TypeError:
            warnings.warn("The input sequence can not be deepcopied, please be aware of in-place modification would affect source "
                          "data", stacklevel=2)
            self.sequence = sequence

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """fn(item).

    Args:
        datapipe: the source
        fn: what is called with each item

    Example:
        >>> list(SequenceWrapper(range(3)).map(lambda x: 2 * x))
        [0, 2, 4]
    """

    def __init__(self, datapipe, fn=default_fn):
        super().__init__()
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)


class ShufflerIterDataPipe(Shuffling, IterDataPipe):
    """The items in random order: a pipe to be iterated.

    (functional name: ``shuffle``)

    Args:
        datapipe: the source, a map
        indices: its keys; None: 0 to its length

    Example:
        >>> sorted(SequenceWrapper(range(3)).shuffle())
        [0, 1, 2]
    """

    def __init__(self, datapipe, *, indices=None):
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._shuffled_indices = self.indices

    def __iter__(self):
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self):
        if self._enabled and self._seed is None:
            self._seed = new_seed()
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)


def _check_pipes(datapipes, need_length):
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if need_length and not all(hasattr(type(pipe), "__len__") for pipe in datapipes):
        raise TypeError("Expected all inputs to be `Sized`")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """One pipe's items after the other's, by number.

    Args:
        datapipes: the pipes, in their order

    Example:
        >>> list(SequenceWrapper([1]).concat(SequenceWrapper([2, 3])))
        [1, 2, 3]
    """

    def __init__(self, *datapipes):
        _check_pipes(datapipes, need_length=True)
        self.datapipes = datapipes

    def __getitem__(self, index):
        offset = 0
        for pipe in self.datapipes:
            if index - offset < len(pipe):
                return pipe[index - offset]
            offset += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the pipes' items of one key.

    Args:
        datapipes: the pipes, in their order

    Example:
        >>> list(SequenceWrapper([1, 2]).zip(SequenceWrapper([3, 4])))
        [(1, 3), (2, 4)]
    """

    def __init__(self, *datapipes):
        _check_pipes(datapipes, need_length=True)
        self.datapipes = datapipes

    def __getitem__(self, index):
        items = []
        for pipe in self.datapipes:
            try:
                items.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(items)

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("batch")
class BatcherMapDataPipe(Batching, MapDataPipe):
    """Lists of `batch_size` neighbours.

    Args:
        datapipe: the source
        batch_size: how many items make a list
        drop_last: whether a shorter list at the end is left out
        wrapper_class: the class of the lists

    Example:
        >>> list(SequenceWrapper(range(3)).batch(2))
        [[0, 1], [2]]
    """

    def __getitem__(self, index):
        batch = []
        try:
            for i in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[i])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)
