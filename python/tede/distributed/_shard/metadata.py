"""Where a block of a tensor begins, how large it is, and where it lies; and what all blocks of a tensor are."""
from dataclasses import dataclass, field

import tede
from tede.distributed.checkpoint.metadata import TensorProperties
from tede.distributed.remote_device import _remote_device

__all__ = ["ShardMetadata", "ShardedTensorMetadata", "TensorProperties"]


@dataclass
class ShardMetadata:
    """A block: its offsets and sizes, and its place ("rank:1/cpu")."""
    shard_offsets: list
    shard_sizes: list
    placement: object = None

    def __post_init__(self):
        if isinstance(self.placement, (str, tede.device)):
            self.placement = _remote_device(self.placement)
        if len(self.shard_offsets) != len(self.shard_sizes):
            raise ValueError(f"shard_offsets and shard_sizes should have the same number of elements, found {len(self.shard_offsets)} and "
                             f"{self.shard_sizes} respectively")
        for name in ("shard_offsets", "shard_sizes"):
            if any(n < 0 for n in getattr(self, name)):
                raise ValueError(f"{name} should be >= 0, not {getattr(self, name)}")

    def __hash__(self):
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))


@dataclass
class ShardedTensorMetadata:
    shards_metadata: list = field(default_factory=list)
    size: tede.Size = field(default_factory=lambda: tede.Size([]))
    tensor_properties: TensorProperties = field(default_factory=TensorProperties)
