"""save and async_save."""
import threading
from concurrent.futures import Future
from enum import Enum

import tede.distributed as dist
from tede import Tensor
from tede.distributed.checkpoint._ranks import Ranks
from tede.distributed.checkpoint.default_planner import DefaultSavePlanner
from tede.distributed.checkpoint.filesystem import FileSystemWriter
from tede.distributed.checkpoint.stateful import Stateful
from tede.distributed.checkpoint.utils import _api_bc_check
from tede.distributed.tensor import DTensor
from tede.distributed.tensor._made import made

__all__ = ["save", "async_save", "save_state_dict", "AsyncCheckpointerType"]


class AsyncCheckpointerType(Enum):
    THREAD = "thread"
    PROCESS = "process"


def _states(state_dict):
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}


def _use_dist(no_dist):
    return not no_dist and dist.is_available() and dist.is_initialized()


@_api_bc_check
def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None, no_dist=False, use_collectives=True):
    """Write a state dict, each rank its own part; `checkpoint_id` is the folder. All ranks call it."""
    if storage_writer is None:
        if not checkpoint_id:
            raise RuntimeError("`checkpoint_id` must be specified if storage_writer is None.")
        storage_writer = FileSystemWriter(checkpoint_id)
    storage_writer.reset(checkpoint_id)
    return _save(_states(state_dict), storage_writer, process_group, 0, no_dist, planner)


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    storage_writer.reset()
    return _save(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


def _save(state_dict, writer, group, coordinator, no_dist, planner):
    ranks = Ranks(group, _use_dist(no_dist), coordinator)
    planner = planner or DefaultSavePlanner()
    metadata = None

    def local():
        planner.set_up_planner(state_dict=state_dict, storage_meta=writer.storage_meta(), is_coordinator=ranks.is_coordinator)
        writer.set_up_storage_writer(ranks.is_coordinator)
        return writer.prepare_local_plan(planner.create_local_plan())

    def everyone(plans):
        nonlocal metadata
        plans, metadata = planner.create_global_plan(plans)
        return writer.prepare_global_plan(plans)

    def write():
        work = writer.write_data(planner.finish_plan(plan), planner)
        work.wait()
        return work.value()

    def finish(results):
        writer.finish(metadata=metadata, results=results)
        return metadata
    plan = ranks.reduce_scatter("plan", local, everyone)
    return ranks.reduce("write", write, finish)


def _staged(value):
    """A copy on the CPU, which later changes of the program's tensors don't reach."""
    if isinstance(value, DTensor):
        return made(value._local_tensor.detach().clone().cpu(), value._spec)
    if isinstance(value, Tensor):
        return value.detach().clone().cpu()
    if isinstance(value, dict):
        return {k: _staged(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_staged, value))
    return value


def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=AsyncCheckpointerType.THREAD, async_stager=None, no_dist=False, use_collectives=True):
    """save of a copy of the state dict, by a thread; gives a Future. Give it a group of its own where the program goes on to communicate."""
    state = async_stager.stage(_states(state_dict)) if async_stager is not None else _staged(_states(state_dict))
    future = Future()

    def run():
        try:
            future.set_result(save(state, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner, process_group=process_group,
                                   no_dist=no_dist))
        except BaseException as error:              # the future's, raised by result()
            future.set_exception(error)
    threading.Thread(target=run, name="tede-checkpoint").start()
    return future
