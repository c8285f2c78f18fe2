"""load."""
from tede.distributed.checkpoint._ranks import Ranks
from tede.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from tede.distributed.checkpoint.filesystem import FileSystemReader
from tede.distributed.checkpoint.state_dict_saver import _use_dist
from tede.distributed.checkpoint.stateful import Stateful
from tede.distributed.checkpoint.utils import _api_bc_check
from tede.nn import Module

__all__ = ["load", "load_state_dict"]


@_api_bc_check
def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Read into the tensors of a state dict, in place, whatever number of ranks has written them. All ranks call it."""
    if storage_reader is None:
        if not checkpoint_id:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
        storage_reader = FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    plain = {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}
    _load(plain, storage_reader, process_group, 0, no_dist, planner)
    for key, value in state_dict.items():
        if isinstance(value, Module):
            value.load_state_dict(plain[key])
        elif isinstance(value, Stateful):
            value.load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    storage_reader.reset()
    return _load(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None):
    """What a checkpoint has by these names, or all of it, as whole tensors."""
    state_dict = {}
    reader = storage_reader or FileSystemReader(checkpoint_id)
    _load(state_dict, reader, process_group, 0, False, _EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys))
    return state_dict


def _load(state_dict, reader, group, coordinator, no_dist, planner):
    ranks = Ranks(group, _use_dist(no_dist), coordinator)
    planner = planner or DefaultLoadPlanner()

    def local():
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return reader.prepare_local_plan(planner.create_local_plan())

    def everyone(plans):
        return reader.prepare_global_plan(planner.create_global_plan(plans))
    plan = ranks.reduce_scatter("plan", local, everyone)

    def read():
        reader.read_data(planner.finish_plan(plan), planner).wait()
    ranks.together("read", read)
