"""A block of a tensor, with its elements."""
from dataclasses import dataclass

import tede
from tede.distributed._shard.metadata import ShardMetadata

__all__ = ["Shard"]


@dataclass
class Shard:
    tensor: tede.Tensor
    metadata: ShardMetadata

    def __post_init__(self):
        if list(self.tensor.size()) != list(self.metadata.shard_sizes):
            raise ValueError(f"Shard tensor size does not match with metadata.shard_lengths! Found shard tensor size: {list(self.tensor.size())}, "
                             f"metadata.shard_lengths: {self.metadata.shard_sizes}, ")
        place = self.metadata.placement
        if place is not None and place.device() != self.tensor.device:
            raise ValueError("Local shard tensor device does not match with local Shard's placement! Found local shard tensor device: "
                             f"{self.tensor.device}, local shard metadata placement device: {place.device()}")

    @classmethod
    def from_tensor_and_offsets(cls, tensor, shard_offsets, rank):
        return cls(tensor, ShardMetadata(shard_offsets, list(tensor.size()), f"rank:{rank}/{tensor.device}"))
