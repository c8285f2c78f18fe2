"""What a checkpoint holds: for each name the whole tensor's size and the chunks that ranks wrote, and where each chunk lies."""
import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import tede

__all__ = ["ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata", "MetadataIndex", "TensorProperties", "StorageMeta"]


@dataclass
class ChunkStorageMetadata:
    """A block of a tensor: where it begins and how large it is."""
    offsets: tede.Size
    sizes: tede.Size




class _MEM_FORMAT_ENCODING(Enum):
    """How a file names a memory format."""
    TORCH_CONTIGUOUS_FORMAT, TORCH_CHANNELS_LAST, TORCH_PRESERVE_FORMAT = range(3)


_FORMATS = (tede.contiguous_format, tede.channels_last, tede.preserve_format)


@dataclass
class TensorProperties:
    dtype: Any = field(default_factory=tede.get_default_dtype)
    layout: Any = tede.strided
    requires_grad: bool = False
    memory_format: Any = tede.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        return self.dtype, self.layout, self.requires_grad, _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format)), self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoded, self.pin_memory = state
        self.memory_format = _FORMATS[encoded.value]

    @staticmethod
    def create_from_tensor(tensor):
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, tede.contiguous_format, False)


@dataclass
class TensorStorageMetadata:
    properties: TensorProperties
    size: tede.Size
    chunks: list


@dataclass
class BytesStorageMetadata:
    """An object that isn't a tensor."""


@dataclass
class StorageMeta:
    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list = field(default_factory=list)


@dataclass
class Metadata:
    state_dict_metadata: dict
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """A chunk's name and offset; `index` is a hint where to find it, and doesn't count in comparisons."""
    fqn: str
    offset: tede.Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn, offset=None, index=None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else tede.Size(offset))
