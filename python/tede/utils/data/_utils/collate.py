"""default_collate: from a list of items to a batch: tensors are stacked, numbers become tensors, containers are entered."""
import collections.abc
import copy
import re
import sys

from tede import _C
from tede._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401

default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
np_str_obj_array_pattern = re.compile(r"[SaUO]")       # of NumPy's dtypes: text and objects
_stack = _C._functions["stack"]


def _numpy():
    return sys.modules.get("numpy")


def default_convert(data) -> "Any":
    """Arrays, also within containers, as tensors; everything else as it is. What a `DataLoader` does with
    batch_size=None.

    >>> import numpy
    >>> tede.utils.data.default_convert([numpy.zeros(2), "a"])
    [tensor([0., 0.], dtype=torch.float64), 'a']
    """
    numpy = _numpy()
    if isinstance(data, Tensor):
        return data
    if numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic)):
        if isinstance(data, numpy.ndarray) and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return _C.as_tensor(data) if not (isinstance(data, numpy.generic) and data.dtype.kind in "SU") else data
    if isinstance(data, collections.abc.Mapping):
        return _mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, [default_convert(item) for item in data])
    return data


def _mapping(original, items):
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:
        return items


def _sequence(original, items):
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)
    except TypeError:
        return items


def collate(batch, *, collate_fn_map=None):
    """Collate by the type of the first item: through the map, else as a container."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known in collate_fn_map:
            if isinstance(first, known):
                return collate_fn_map[known](batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        return _mapping(first, {key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(items, collate_fn_map=collate_fn_map) for items in zip(*batch)]
        return columns if isinstance(first, tuple) else _sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch, *, collate_fn_map=None):
    if batch[0].layout is not _C.strided:
        raise RuntimeError("Batches of sparse tensors are not currently supported by the default collate_fn; please provide a "
                           "custom collate_fn to handle them appropriately.")
    return _stack(list(batch), 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([_C.as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return _C.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return _C.tensor(batch, dtype=_C.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return _C.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {Tensor: collate_tensor_fn}


def _complete():
    """NumPy's types come into the map once NumPy is there: it isn't imported for this."""
    numpy = _numpy()
    if numpy is not None and numpy.ndarray not in default_collate_fn_map:
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
    if float not in default_collate_fn_map:
        default_collate_fn_map.update({float: collate_float_fn, int: collate_int_fn, str: collate_str_fn,
                                       bytes: collate_str_fn})


def default_collate(batch) -> "Any":
    """A batch of a list of items: tensors and arrays are stacked along a new first dimension, numbers become a tensor,
    dicts, tuples and lists are entered, strings stay a list. RuntimeError if shapes differ: pad them, or write a
    collate_fn; TypeError for other types.

    >>> tede.utils.data.default_collate([{"x": tede.zeros(2), "y": 1}, {"x": tede.ones(2), "y": 2}])
    {'x': tensor([[0., 0.],
            [1., 1.]]), 'y': tensor([1, 2])}
    """
    _complete()
    return collate(batch, collate_fn_map=default_collate_fn_map)


_complete()
