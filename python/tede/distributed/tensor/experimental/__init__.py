"""torch.distributed.tensor.experimental."""
import contextlib

from tede._compat import fill as _fill
from tede.distributed.tensor import _dispatch
from tede.distributed.tensor.experimental._func_map import local_map

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextlib.contextmanager
def implicit_replication():
    """Within it plain tensors among the operands of a call on DTensors are taken to be whole on each rank."""
    before, _dispatch.implicit = _dispatch.implicit, True
    try:
        yield
    finally:
        _dispatch.implicit = before


_fill(globals())
