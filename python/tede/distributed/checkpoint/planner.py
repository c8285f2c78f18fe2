"""Plans of what each rank writes and reads, and the classes that make them; programs derive from these."""
import abc
import io
import operator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import reduce
from typing import Any

from tede.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata

__all__ = ["WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem", "SavePlan", "LoadPlan", "SavePlanner",
           "LoadPlanner", "StorageMeta", "Metadata", "TensorStorageMetadata"]


class WriteItemType(Enum):
    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """One thing that a rank writes."""
    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self):
        """Bytes of its tensor; None of another object."""
        if self.tensor_data is None:
            return None
        return reduce(operator.mul, self.tensor_data.chunk.sizes, 1) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A block that a rank reads from a chunk into a part of a tensor."""
    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    items: list
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    items: list = field(default_factory=list)
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """What a save asks for, in this order: set_up_planner and create_local_plan on each rank, create_global_plan on the coordinator, finish_plan on each
    rank, resolve_data for each item."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False): ...

    @abc.abstractmethod
    def create_local_plan(self): ...

    @abc.abstractmethod
    def create_global_plan(self, all_plans): ...

    @abc.abstractmethod
    def finish_plan(self, new_plan): ...

    @abc.abstractmethod
    def resolve_data(self, write_item): ...


class LoadPlanner(abc.ABC):
    """What a load asks for: set_up_planner and create_local_plan on each rank, create_global_plan on the coordinator, finish_plan on each rank, then for
    each item load_bytes, or resolve_tensor and commit_tensor."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False): ...

    @abc.abstractmethod
    def create_local_plan(self): ...

    @abc.abstractmethod
    def create_global_plan(self, global_plan): ...

    @abc.abstractmethod
    def finish_plan(self, central_plan): ...

    @abc.abstractmethod
    def load_bytes(self, read_item, value): ...

    def resolve_bytes(self, read_item):
        return io.BytesIO()

    @abc.abstractmethod
    def resolve_tensor(self, read_item): ...

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor): ...
