"""Checkpoints in a folder, as PyTorch lays them out: a file `__<rank>_<n>.distcp` for each rank, one saved object behind the other, and `.metadata`, which says
where in which file each chunk is. `.metadata` is written last, under another name first, so a folder that has it is whole."""
import dataclasses
import io
import os
import pickle
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tede
from tede.distributed.checkpoint.metadata import StorageMeta
from tede.distributed.checkpoint.planner import LoadItemType, WriteItemType
from tede.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from tede.futures import Future

__all__ = ["FileSystemWriter", "FileSystemReader"]


@dataclass
class _StorageInfo:
    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


@dataclass
class _StoragePrefix:
    prefix: str


def _done(value):
    future = Future()
    future.set_result(value)
    return future


class _Folder:
    """What writer and reader share."""

    def __init__(self, path):
        self.reset(path)

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.id = self.save_id = self.load_id = str(uuid.uuid4())         # PyTorch's names, by who writes and who reads

    @property
    def checkpoint_id(self):
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        if isinstance(checkpoint_id, Path):
            return True
        return "://" not in str(checkpoint_id) and any(os.access(str(p), os.W_OK) for p in Path(checkpoint_id).absolute().parents)


class FileSystemWriter(_Folder, StorageWriter):
    """Writes a checkpoint to a folder."""

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1, per_thread_copy_ahead=10_000_000, cache_staged_state_dict=False,
                 overwrite=True, _extensions=None, serialization_format=None):
        super().__init__(path)
        self.single_file_per_rank, self.sync_files, self.overwrite = single_file_per_rank, sync_files, overwrite

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.is_coordinator = is_coordinator

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self.path, save_id=self.id)

    def prepare_local_plan(self, plan):
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / ".metadata").exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        return plan

    def prepare_global_plan(self, plans):
        return [dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{i}_")) for i, plan in enumerate(plans)]

    def write_data(self, plan, planner):
        """One file, or one for each item without single_file_per_rank."""
        groups = [plan.items] if self.single_file_per_rank else [[item] for item in plan.items]
        results = []
        for i, items in enumerate(group for group in groups if group):
            name = f"{plan.storage_data.prefix}{i}.distcp"
            with open(self.path / name, "wb") as file:
                for item in sorted(items, key=lambda item: item.type is not WriteItemType.BYTE_IO):
                    start, data = file.tell(), planner.resolve_data(item)
                    if item.type is WriteItemType.BYTE_IO:
                        file.write(data.getbuffer())
                    else:
                        data = data.detach().cpu()
                        whole = data.untyped_storage().size() == data.numel() * data.element_size()
                        stream = io.BytesIO()
                        tede.save(data if whole else data.clone(), stream)      # of the part's own elements alone
                        file.write(stream.getbuffer())
                    length = file.tell() - start
                    results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
                if self.sync_files:
                    file.flush()
                    os.fsync(file.fileno())
        return _done(results)

    def finish(self, metadata, results):
        from tede.serialization import _pickler
        metadata.storage_data = {r.index: r.storage_data for listed in results for r in listed}
        metadata.storage_meta = self.storage_meta()
        temporary = self.path / ".metadata.tmp"
        with open(temporary, "wb") as file:
            _pickler(pickle, lambda obj: None)(file, protocol=4).dump(metadata)
            if self.sync_files:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, self.path / ".metadata")


class FileSystemReader(_Folder, StorageReader):
    """Reads a checkpoint of a folder."""

    def __init__(self, path, _extension_registry=None):
        super().__init__(path)
        self.storage_data = {}

    def read_metadata(self, *args, **kwargs):
        from tede._checkpoint import unpickler
        with open(self.path / ".metadata", "rb") as file:
            metadata = unpickler(pickle, None, file, {}).load()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def read_data(self, plan, planner):
        by_file = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with open(self.path / name, "rb") as file:
                for item in items:
                    info = self.storage_data[item.storage_index]
                    file.seek(info.offset)
                    stream = io.BytesIO(file.read(info.length))
                    if item.type is LoadItemType.BYTE_IO:
                        planner.load_bytes(item, stream)
                        continue
                    x = tede.load(stream, map_location="cpu", weights_only=True)
                    for d, (start, n) in enumerate(zip(item.storage_offsets, item.lengths)):
                        x = x.narrow(d, start, n)
                    target = planner.resolve_tensor(item).detach()
                    if target.size() != x.size():
                        raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {x.size()}")
                    target.copy_(x)
                    planner.commit_tensor(item, target)
        return _done(None)
