"""torch.types: type names for annotations."""
import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, Union

from tede import _C, inf, nan  # noqa: F401
from tede._C import Size, Tensor, device as _device_type, dtype as _dtype, layout as _layout, memory_format  # noqa: F401
from tede.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_int, _float, _bool, _complex, _str = builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.str
_device, _device_or_none = _device_type, Union[_device_type, None]
_size = Union[Size, list[int], tuple[int, ...]]
_dispatchkey = str
Number = Union[int, float, bool]
_Number = (int, float, bool)
Device = Union[_device_type, str, int, None]
FileLike = Union[str, os.PathLike, IO[bytes]]
Storage = Union[TypedStorage, UntypedStorage]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrTensorsOrGradEdge = Any
_dtype_or_none = Union[_dtype, None]
_qscheme = Any
