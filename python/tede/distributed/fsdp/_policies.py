"""Policies of fully_shard."""
from dataclasses import dataclass

from tede import dtype

__all__ = ["MixedPrecisionPolicy", "OffloadPolicy", "CPUOffloadPolicy", "DataParallelMeshDims"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of the gathered parameters, of the gradients' reduction and of outputs; None: as they are."""
    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    output_dtype: dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """No offloading."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards are kept on the CPU."""
    pin_memory: bool = True


@dataclass(frozen=True)
class DataParallelMeshDims:
    """Names of the mesh dimensions that parameters are sharded and replicated along."""
    shard: str | tuple | None = None
    replicate: str | tuple | None = None
