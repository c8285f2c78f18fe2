"""Where checkpoints are kept: the classes that programs derive from."""
import abc
from dataclasses import dataclass
from typing import Any

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclass(frozen=True)
class WriteResult:
    """What was written: which chunk, of how many bytes, and what the storage wants to know of it."""
    index: Any
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """What a save asks for: reset and set_up_storage_writer on each rank, prepare_local_plan, prepare_global_plan on the coordinator, write_data, and
    finish on the coordinator."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None): ...

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs): ...

    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...

    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...

    @abc.abstractmethod
    def write_data(self, plan, planner): ...

    @abc.abstractmethod
    def finish(self, metadata, results): ...

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id): ...

    def storage_meta(self):
        return None


class StorageReader(abc.ABC):
    """What a load asks for: reset, read_metadata, set_up_storage_reader, prepare_local_plan, prepare_global_plan on the coordinator, read_data."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None): ...

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs): ...

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs): ...

    @abc.abstractmethod
    def prepare_local_plan(self, plan): ...

    @abc.abstractmethod
    def prepare_global_plan(self, plans): ...

    @abc.abstractmethod
    def read_data(self, plan, planner): ...

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id): ...
