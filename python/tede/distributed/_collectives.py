"""Calls that all ranks of a group make, and managers that make one of several."""
import contextlib
import warnings
from datetime import timedelta

import tede
from tede.distributed._backends import Backend, _check_valid_timeout, _get_default_timeout
from tede.distributed._operands import (
    _check_complex, _check_single_tensor, _check_tensor_list, _ensure_all_tensors_same_dtype, _finish, _options, _real)
from tede.distributed._work import (
    AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions, GatherOptions, ReduceOp,
    ReduceOptions, ReduceScatterOptions, ScatterOptions, Work)
from tede.distributed._world import _canonicalize_group_rank, _get_default_group, _group_or_default, _rank_not_in_group, _warn_not_in_group, _world, get_backend


# ---- coalescing ------------------------------------------------------------------------------------------------------

class _IllegalWork(Work):
    """What a call within a coalescing manager returns: its work is the manager's."""

    def __getattribute__(self, name):
        if name in ("is_success", "exception", "wait", "source_rank", "_source_rank", "result", "synchronize"):
            raise ValueError(f"Illegal to call {name} on IllegalWork object")
        return super().__getattribute__(name)


class _CollOp:
    """A call that is left to a coalescing manager."""

    def __init__(self, op, tensor, dst_tensor=None, redop=None, root=None):
        self.op, self.tensor, self.dst_tensor, self.redop, self.root = op, tensor, dst_tensor, redop, root


class _CoalescingManager:
    def __init__(self):
        self.works = []

    def append(self, work=None):
        if work:
            self.works.append(work)

    def wait(self):
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Calls of one kind in this block are made as one, at its end."""
    pg = _group_or_default(group)
    calls = _world.pg_coalesce_state.setdefault(pg, [])
    if calls:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _CoalescingManager()
    try:
        yield manager
    finally:
        calls = _world.pg_coalesce_state.pop(pg)
    if calls:
        first = calls[0]
        if any(call.op is not first.op for call in calls):
            raise AssertionError("calls of different kinds can't be coalesced")
        read, written = [call.tensor for call in calls], [call.dst_tensor for call in calls]
        if first.op is all_reduce:
            manager.append(pg.allreduce_coalesced(read, _options(AllreduceCoalescedOptions, async_ops, first.redop)))
        elif first.op is all_gather_into_tensor:
            manager.append(pg.all_gather_single_coalesced(written, read, _options(AllgatherOptions, async_ops)))
        else:
            manager.append(pg.reduce_scatter_single_coalesced(written, read, _options(ReduceScatterOptions, async_ops, first.redop)))
    if not async_ops:
        manager.wait()


def _coalesced(pg, *call):
    """Whether the call is left to a coalescing manager."""
    if pg in _world.pg_coalesce_state:
        _world.pg_coalesce_state[pg].append(_CollOp(*call))
        return True
    return False


# ---- calls that all ranks make ---------------------------------------------------------------------------------------

def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Every rank's tensor becomes the sum (or another reduction) of all of them."""
    _check_single_tensor(tensor, "tensor")
    if group is not None and _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce")
    if tensor.is_complex():
        _check_complex("all_reduce", [tensor], op)
        tensor = tede.view_as_real(tensor)
    pg = _world.default_pg if group is None else group
    if pg is None:
        _get_default_group()
    if _world.pg_coalesce_state and _coalesced(pg, all_reduce, tensor, None, op):
        return _IllegalWork() if async_op else None
    opts = AllreduceOptions()
    opts.asyncOp, opts.reduceOp = async_op, op
    return _finish(pg.allreduce([tensor], opts), async_op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """all_reduce of several tensors at once."""
    tensors = [tensors] if isinstance(tensors, tede.Tensor) else tensors
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce_coalesced")
    _check_complex("all_reduce", tensors, op)
    work = _group_or_default(group).allreduce_coalesced([_real(tensor) for tensor in tensors], _options(AllreduceCoalescedOptions, async_op, op))
    return work.get_future() if async_op else _finish(work, False)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Every rank's tensor becomes the one of rank src."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast")
    root = _canonicalize_group_rank(pg, src, group_src)
    _check_single_tensor(tensor, "tensor")
    opts = _options(BroadcastOptions, async_op)
    opts.rootRank, opts.rootTensor = root, 0
    return _finish(pg.broadcast([_real(tensor)], opts), async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """The tensor of rank dst becomes the sum (or another reduction) of all of them."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("reduce")
    root = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    _check_complex("reduce", [tensor], op, RuntimeError)
    opts = _options(ReduceOptions, async_op, op)
    opts.rootRank = root
    return _finish(pg.reduce([_real(tensor)], opts), async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """tensor_list[i] becomes the tensor of rank i."""
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather")
    work = _group_or_default(group).allgather([[_real(t) for t in tensor_list]], [_real(tensor)], _options(AllgatherOptions, async_op))
    return _finish(work, async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """output_tensor becomes the tensors of all ranks, one behind the other."""
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_into_tensor")
    output, input = _real(output_tensor), _real(input_tensor)
    pg = _group_or_default(group)
    if _world.pg_coalesce_state and _coalesced(pg, all_gather_into_tensor, input, output):
        return _IllegalWork() if async_op else None
    return _finish(pg.all_gather_single(output, input, _options(AllgatherOptions, async_op)), async_op)


all_gather_single = all_gather_into_tensor


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    """An older name of all_gather_into_tensor."""
    warnings.warn("torch.distributed._all_gather_base is a private function and will be deprecated. Please use torch.distributed.all_gather_into_tensor instead.",
                  FutureWarning, stacklevel=2)
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """output_tensor_lists[i] becomes the list of rank i."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_coalesced")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for some in output_tensor_lists:
        _check_tensor_list(some, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(some)
    work = _group_or_default(group).allgather_coalesced([[_real(t) for t in some] for some in output_tensor_lists], [_real(t) for t in input_tensor_list],
                                                        _options(AllgatherOptions, async_op))
    return work.get_future() if async_op else _finish(work, False)


def _validate_output_list_for_rank(me, root, outputs):
    if root == me:
        if not outputs:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif outputs:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """On rank dst gather_list[i] becomes the tensor of rank i."""
    _check_single_tensor(tensor, "tensor")
    _check_tensor_list(gather_list or [], "gather_list")
    _ensure_all_tensors_same_dtype(tensor, gather_list or [])
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("gather")
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _validate_output_list_for_rank(pg.rank(), root, gather_list)
    opts = _options(GatherOptions, async_op)
    opts.rootRank = root
    outputs = [[_real(t) for t in gather_list]] if root == pg.rank() else []
    return _finish(pg.gather(outputs, [_real(tensor)], opts), async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Rank i's tensor becomes scatter_list[i] of rank src."""
    _check_single_tensor(tensor, "tensor")
    _check_tensor_list(scatter_list or [], "scatter_list")
    _ensure_all_tensors_same_dtype(tensor, scatter_list or [])
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("scatter")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if pg.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        inputs = [[_real(t) for t in scatter_list]]
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    else:
        inputs = []
    opts = _options(ScatterOptions, async_op)
    opts.rootRank = root
    return _finish(pg.scatter([_real(tensor)], inputs, opts), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Rank i's output becomes the sum (or another reduction) of all input_list[i]."""
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter")
    _check_complex("reduce_scatter", input_list, op, RuntimeError)
    work = _group_or_default(group).reduce_scatter([_real(output)], [[_real(t) for t in input_list]], _options(ReduceScatterOptions, async_op, op))
    return _finish(work, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Rank i's output becomes part i of the sum (or another reduction) of all inputs."""
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter_tensor")
    _check_complex("reduce_scatter_tensor", [input], op, RuntimeError)
    pg = _group_or_default(group)
    output, input = _real(output), _real(input)
    if _world.pg_coalesce_state and _coalesced(pg, reduce_scatter_tensor, input, output, op):
        return _IllegalWork() if async_op else None
    return _finish(pg.reduce_scatter_single(output, input, _options(ReduceScatterOptions, async_op, op)), async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter_base(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """An older name of reduce_scatter_tensor."""
    warnings.warn("torch.distributed._reduce_scatter_base is a private function and will be deprecated. Please use torch.distributed.reduce_scatter_tensor "
                  "instead.", FutureWarning, stacklevel=2)
    return reduce_scatter_tensor(output, input, op, group, async_op)


def _numbers(sizes):
    """Sizes of parts, which may be a tensor; none: an empty list."""
    return [] if sizes is None else sizes.tolist() if isinstance(sizes, tede.Tensor) else sizes


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Rank i gets part i of every rank's input; parts are equal, or have so many rows each."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all_single")
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    work = _group_or_default(group).all_to_all_single(_real(output), _real(input), _numbers(output_split_sizes), _numbers(input_split_sizes),
                                                      _options(AllToAllOptions, async_op))
    return _finish(work, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Rank i's output_tensor_list[j] becomes rank j's input_tensor_list[i]."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all")
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    work = _group_or_default(group).alltoall([_real(t) for t in output_tensor_list], [_real(t) for t in input_tensor_list],
                                             _options(AllToAllOptions, async_op))
    return _finish(work, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Wait until all ranks have come here."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("barrier")
    pg = _group_or_default(group)
    opts = _options(BarrierOptions, async_op)
    if device_ids is not None:
        if not isinstance(device_ids, list):
            raise TypeError("Invalid function argument: device_ids type should be List[int]")
        opts.device_ids = device_ids
    if timeout is not None:
        opts.timeout = timeout
    return _finish(pg.barrier(opts), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """A barrier whose error on rank 0 says which ranks haven't come in time."""
    if _rank_not_in_group(group):
        _warn_not_in_group("monitored_barrier")
        return None
    pg = _group_or_default(group)
    if str(get_backend(pg)) not in (Backend.GLOO, Backend.MPI) and "cpu" not in pg._backends:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    timeout = _get_default_timeout(get_backend(pg)) if timeout is None else timeout
    if isinstance(timeout, timedelta) and timeout < timedelta(0) or isinstance(timeout, (int, float)) and timeout <= 0:
        raise ValueError(f"a timeout is positive, not {timeout}")
    timeout = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
    _check_valid_timeout(timeout)
    return pg.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
