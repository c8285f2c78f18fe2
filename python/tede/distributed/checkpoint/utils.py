"""torch.distributed.checkpoint.utils: what a plan's index names in a state dict."""
import functools
import inspect
import warnings

from tede import Tensor
from tede._compat import fill as _fill
from tede.distributed.checkpoint.planner_helpers import _shard_of

__all__ = ["find_tensor_shard", "find_state_dict_object"]


def _api_bc_check(function):
    """A storage may be the second argument, as it was in older programs."""
    name = next(name for name in inspect.signature(function).parameters if name in ("storage_writer", "storage_reader"))

    @functools.wraps(function)
    def call(state_dict, *older, **kwargs):
        if len(older) == 1:
            warnings.warn(f"The argument order of {function.__name__} has been changed: say {name}=", stacklevel=2)
            kwargs[name] = older[0]
        elif older:
            raise TypeError(f"{function.__name__}() takes 1 positional argument, but {1 + len(older)} were given")
        return function(state_dict, **kwargs)
    return call


def find_tensor_shard(tensor, index):
    """The block of a tensor that this rank has."""
    if not hasattr(tensor, "__get_tensor_shard__") and index.offset is not None and len(index.offset) != tensor.ndim:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return _shard_of(tensor, index)


def find_state_dict_object(state_dict, index):
    """A tensor's block on this rank, or another object."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    x = state_dict[index.fqn]
    if isinstance(x, Tensor):
        return find_tensor_shard(x, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return x


_fill(globals())
