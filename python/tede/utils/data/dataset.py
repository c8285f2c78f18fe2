"""Datasets: what has items by number, what can only be iterated over, and what is made of others."""
import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tede import _C

__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset", "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Items by key: subclasses write `__getitem__`, and `__len__` where samplers need it; `__getitems__`, of a list of
    keys, where that is faster.

    >>> class Squares(tede.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> list(tede.utils.data.DataLoader(Squares(), batch_size=2))
    [tensor([0, 1]), tensor([4])]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[_T_co]") -> "ConcatDataset[_T_co]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Items in an order of their own: subclasses write `__iter__`. Every worker of a `DataLoader` has a copy and gives
    all items, unless the iterator looks at `get_worker_info` and takes its part.

    >>> class Stream(tede.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         info = tede.utils.data.get_worker_info()
    ...         first, step = (0, 1) if info is None else (info.id, info.num_workers)
    ...         return iter(range(first, 4, step))
    >>> list(tede.utils.data.DataLoader(Stream(), batch_size=None))
    [0, 1, 2, 3]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[_C.Tensor, ...]]):
    """Item i is the tuple of each tensor's i-th row; the tensors have equal first sizes (AssertionError).

    >>> data = tede.utils.data.TensorDataset(tede.arange(4.0), tede.tensor([0, 1, 0, 1]))
    >>> data[1], len(data)
    ((tensor(1.), tensor(1)), 4)
    """

    def __init__(self, *tensors: _C.Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[_C.Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _several(dataset, indices):
    """Items by number, all at once where the dataset can."""
    if callable(getattr(dataset, "__getitems__", None)):
        items = dataset.__getitems__(indices)
        if len(items) != len(indices):
            raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
        return items
    return [dataset[i] for i in indices]


class StackDataset(Dataset[_T_co]):
    """Item i is the tuple, or of keyword arguments the dict, of each dataset's i-th item; they are of one length
    (ValueError).

    >>> tede.utils.data.StackDataset(image=[10, 20], label=[0, 1])[1]
    {'image': 20, 'label': 1}
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but "
                             "both types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if any(n != lengths[0] for n in lengths):
            raise ValueError("Size mismatch between datasets")
        self._length, self.datasets = lengths[0], args or kwargs

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices):
        if isinstance(self.datasets, dict):
            columns = [_several(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*(_several(dataset, indices) for dataset in self.datasets)))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """One dataset's items after the other's; also ``first + second``. Not of iterable ones (AssertionError).

    >>> tede.utils.data.ConcatDataset([[1, 2], [3]])[2]
    3
    """

    @staticmethod
    def cumsum(sequence):
        """The sums of the first lengths, of the first two, and so on."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[_T_co]):
    """One iterable dataset after the other.

    >>> class Stream(tede.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([1, 2])
    >>> list(tede.utils.data.ChainDataset([Stream(), Stream()]))
    [1, 2, 1, 2]
    """

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _checked(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self):
        for dataset in self._checked():
            yield from dataset

    def __len__(self):
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[_T_co]):
    """The items of a dataset at the keys `indices`.

    >>> list(tede.utils.data.Subset([10, 20, 30], [2, 0]))
    [30, 10]
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[Any]) -> None:
        self.dataset, self.indices = dataset, indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\ndef __getitems__(self, indices):\n    return [self.__getitem__(idx) for idx in "
                "indices]")

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        wanted = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(wanted)
        return [self.dataset[i] for i in wanted]

    def __len__(self):
        return len(self.indices)


def random_split(dataset: Dataset[_T], lengths: Sequence[int | float],
                 generator: _C.Generator | None = _C.default_generator) -> list[Subset[_T]]:
    """Subsets of the given lengths, with items drawn by chance.

        lengths: numbers whose sum is the dataset's length (ValueError), or fractions whose sum is 1.
        generator: what draws; else the default one.

    >>> train, test = tede.utils.data.random_split(range(10), [0.8, 0.2], generator=tede.Generator().manual_seed(0))
    >>> len(train), len(test)
    (8, 2)
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        lengths = [math.floor(len(dataset) * fraction) for fraction in lengths]
        for i in range(len(dataset) - sum(lengths)):
            lengths[i % len(lengths)] += 1
        for i, length in enumerate(lengths):
            if length == 0:
                warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2)
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _C._functions["randperm"](sum(lengths), generator=generator).tolist()
    return [Subset(dataset, order[end - n:end]) for end, n in zip(itertools.accumulate(lengths), lengths)]
