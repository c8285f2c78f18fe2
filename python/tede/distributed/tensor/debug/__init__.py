"""torch.distributed.tensor.debug: what DTensors communicate."""
from tede._compat import fill as _fill
from tede.distributed.tensor.debug._comm_mode import CommDebugMode

__all__ = ["CommDebugMode", "visualize_sharding"]
_fill(globals())
