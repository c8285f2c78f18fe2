"""torch.distributed.distributed_c10d: PyTorch's one file for what here is several, by subject.

`_world` says which groups there are, `_making` makes them (of `_backends` by name, over `_engines`), `_collectives`, `_point_to_point` and `_objects` are
their calls. A name that a program sets here, as tests replace functions or the table of groups by their own, is set wherever it is used."""
# ruff: noqa: F822 (names of __all__ come from the parts)
import contextlib
import sys
import types
import warnings

from tede.distributed import (
    _backends, _collectives, _debug, _engines, _making, _objects, _operands, _point_to_point, _work, _world as _groups)
from tede.distributed._work import ReduceOp, RedOpType

_PARTS = (_work, _backends, _debug, _groups, _engines, _making, _operands, _collectives, _point_to_point, _objects)
for _part in _PARTS:
    globals().update({name: value for name, value in vars(_part).items() if not name.startswith("__")})
del _part
_TORCHCOMM_AVAILABLE = False        # another library of PyTorch's for groups


class _Whole(types.ModuleType):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        for part in _PARTS:
            if name in vars(part):
                setattr(part, name, value)


sys.modules[__name__].__class__ = _Whole


@contextlib.contextmanager
def _time_estimator(group=None, device=None):
    raise NotImplementedError("times of collectives are estimated by tede.distributed.simulate")
    yield


class _reduce_op:
    """An older name of ReduceOp."""

    def __init__(self):
        for name in ("SUM", "PRODUCT", "MIN", "MAX"):
            setattr(self, name, getattr(ReduceOp, name))
        self.__members__ = dict(RedOpType.__members__)

    def __getattribute__(self, key):
        if not key.startswith("__"):
            warnings.warn("`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead", FutureWarning, stacklevel=2)
        return object.__getattribute__(self, key)


reduce_op = _reduce_op()


__all__ = [
    "Backend", "BackendConfig", "GroupMember", "P2POp", "all_gather", "all_gather_coalesced", "all_gather_object", "all_reduce", "all_reduce_coalesced",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "send_object_list", "recv_object_list", "broadcast_object_list",
    "destroy_process_group", "gather", "gather_object", "get_backend_config", "get_backend", "get_default_backend_for_device", "get_rank", "get_world_size",
    "get_pg_count", "group", "init_process_group", "irecv", "is_gloo_available", "is_initialized", "is_mpi_available", "is_backend_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "recv", "reduce", "reduce_scatter", "scatter", "scatter_object_list", "send", "supports_complex",
    "AllreduceCoalescedOptions", "AllreduceOptions", "AllToAllOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions", "GroupName", "ProcessGroup",
    "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "DebugLevel", "get_debug_level", "Work", "default_pg_timeout", "get_group_rank",
    "get_global_rank", "get_process_group_ranks", "reduce_op", "all_gather_single", "all_gather_into_tensor", "reduce_scatter_single",
    "reduce_scatter_tensor", "get_node_local_rank", "split_group", "shrink_group", "ProcessGroupGloo", "PrefixStore"]
