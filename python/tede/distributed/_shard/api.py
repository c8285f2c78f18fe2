"""Tensors and parameters of modules are divided, and loaded for a group."""
import contextlib

import tede
from tede.distributed._shard.sharded_tensor.api import _current_group
from tede.distributed._shard.sharding_spec.api import ShardingSpec

__all__ = []


def _shard_tensor(tensor, sharding_spec, src_rank=0, process_group=None):
    """The tensor of rank src_rank, divided."""
    if not tensor.is_contiguous():
        raise ValueError("input tensor is not a contiguous Tensor")
    if not isinstance(sharding_spec, ShardingSpec):
        raise NotImplementedError(f"a ShardingSpec was expected, not {type(sharding_spec).__name__}")
    return sharding_spec.shard(tensor, src_rank=src_rank, process_group=process_group)


def shard_parameter(module, param_name, sharding_spec, src_rank=0, process_group=None):
    """A module's parameter becomes a ShardedTensor."""
    if not hasattr(module, param_name):
        raise AttributeError(f"{module._get_name()} has no attribute `{param_name}`")
    parameter = getattr(module, param_name)
    if not isinstance(parameter, tede.Tensor):
        raise ValueError(f"Expected {type(module).__name__}.{param_name} to be a Tensor, but found {type(parameter).__name__}")
    if not parameter.is_contiguous():
        raise ValueError(f"param: {param_name} is not a contiguous Tensor")
    module.register_parameter(param_name, tede.nn.Parameter(_shard_tensor(parameter.detach(), sharding_spec, src_rank, process_group)))


@contextlib.contextmanager
def load_with_process_group(process_group):
    """ShardedTensors that are unpickled in it are of this group."""
    if _current_group:
        raise RuntimeError("load_with_process_group is in use already")
    _current_group.append(process_group)
    try:
        yield process_group
    finally:
        _current_group.pop()
