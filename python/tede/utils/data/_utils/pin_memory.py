"""Batches in page-locked memory, from which an accelerator copies faster."""
import collections.abc

from tede._C import Tensor
from tede.utils.data._utils.collate import _mapping, _sequence


def pin_memory(data, device=None):
    """The data, with the tensors within, and whatever has a method of that name, pinned."""
    if isinstance(data, Tensor):
        return data.pin_memory(device) if data.device.type == "cpu" else data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple):
        items = [pin_memory(item, device) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    if isinstance(data, collections.abc.Sequence):
        return _sequence(data, [pin_memory(item, device) for item in data])
    return data
