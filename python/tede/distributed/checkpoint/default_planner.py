"""The planners that save and load use: whole tensors and objects are written once, DTensors by the ranks that have them.

A state dict is flattened first, so that each name is one tensor or object. Loading finds for each part of the program's tensors the chunks that overlap it,
whoever wrote them, so the number of ranks may be another one."""
import dataclasses
import io

import tede
from tede import Tensor
from tede.distributed.checkpoint._dedup_tensors import dedup_tensors
from tede.distributed.checkpoint._nested_dict import flatten_state_dict
from tede.distributed.checkpoint._traverse import set_element, traverse_state_dict_v_2_3
from tede.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from tede.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from tede.distributed.checkpoint.planner_helpers import _create_read_items, _create_write_items
from tede.distributed.checkpoint.utils import find_state_dict_object

__all__ = ["DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_save_plan", "create_default_global_save_plan",
           "create_default_local_load_plan", "create_default_global_load_plan"]

VERSION = "1.0.0"


def create_default_local_save_plan(state_dict, is_coordinator):
    """What a rank has to write. Which of several that have the same is decided on for all."""
    return SavePlan([item for name, x in state_dict.items() for item in _create_write_items(name, x)])


def _create_default_local_metadata(state_dict):
    """The metadata of a checkpoint, as far as one rank's state dict says what others write."""
    items = [item for name, x in state_dict.items() for item in getattr(x, "__create_items_of_all__", _create_write_items)(name, x)]
    return create_default_global_save_plan([SavePlan(items)])[1]


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """(the plans, the checkpoint's metadata)."""
    known, plans = {}, []
    for plan in all_plans:
        items = []
        for item in plan.items:
            if item.type is WriteItemType.BYTE_IO:
                known[item.index.fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            tensor = known.setdefault(item.index.fqn, TensorStorageMetadata(data.properties, data.size, []))
            index = MetadataIndex(item.index.fqn, item.index.offset, len(tensor.chunks)) if rewrite_index_hints else item.index
            tensor.chunks.append(data.chunk)
            items.append(dataclasses.replace(item, index=index))
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(known)


def create_default_local_load_plan(state_dict, metadata, strict=True):
    items = []
    for name, x in state_dict.items():
        if name not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        stored = metadata.state_dict_metadata[name]
        if isinstance(stored, TensorStorageMetadata):
            if not isinstance(x, Tensor):
                raise ValueError(f"Invalid checkpoint metadata for {name}, expected a tensor in the state dict but found {type(x)}")
            if x.size() != stored.size:
                raise ValueError(f"Size mismatch between saved {stored.size} and current: {x.size()} for {name}")
        items += _create_read_items(name, stored, x)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans):
    return all_plans


class DefaultSavePlanner(SavePlanner):
    """See the file's comment."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None, dedup_save_to_lowest_rank=False,
                 enable_plan_caching=False):
        self.flatten_state_dict, self.mappings = flatten_state_dict, {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self):
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans):
        plans, metadata = create_default_global_save_plan(dedup_tensors(all_plans))
        if self.flatten_state_dict:
            metadata.planner_data = {name: path for plan in plans for name, path in (plan.planner_data or {}).items()}
        metadata.version = VERSION
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """What the state dict has by this name: of a tensor the rank's part."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item, object):
        if write_item.type is WriteItemType.BYTE_IO:
            stream = io.BytesIO()
            tede.save(object, stream)
            object = stream
        return object


class DefaultLoadPlanner(LoadPlanner):
    """See the file's comment. `allow_partial_load`: names that the checkpoint hasn't are left as they are."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict, self.allow_partial_load, self.mappings = flatten_state_dict, allow_partial_load, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self):
        unknown = set(self.metadata.state_dict_metadata) - set(self.state_dict)
        if self.flatten_state_dict and unknown:
            older, paths = flatten_state_dict(self.original_state_dict, traverse_state_dict_v_2_3)
            if unknown & set(older):
                self.state_dict, self.mappings = older, paths
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan):
        return new_plan

    def load_bytes(self, read_item, value):
        name = read_item.dest_index.fqn
        found = tede.load(value, weights_only=False)
        self.state_dict[name] = found
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)

    def resolve_tensor(self, read_item):
        x = self.lookup_tensor(read_item.dest_index)
        for d, (start, n) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            x = x.narrow(d, start, n)
        return self.transform_tensor(read_item, x)

    def lookup_tensor(self, index):
        return find_state_dict_object(self.state_dict, index).detach()

    def transform_tensor(self, read_item, tensor):
        return tensor

    def commit_tensor(self, read_item, tensor):
        pass


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state dict with what the checkpoint has, whole; `keys`: the names, or beginnings of names, that are wanted."""

    def __init__(self, keys=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        paths = metadata.planner_data or {}
        for name, stored in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            ancestors = {".".join(map(str, path[:i + 1])) for i in range(len(path))} | {name}
            if self.keys is None or ancestors & set(self.keys):
                x = tede.empty(stored.size, dtype=stored.properties.dtype) if isinstance(stored, TensorStorageMetadata) else None
                set_element(state_dict, path, x)
        super().set_up_planner(state_dict, metadata, is_coordinator)
