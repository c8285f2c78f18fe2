"""How a tensor is divided: into chunks along a dimension, or into blocks that are listed. Programs derive their own from ShardingSpec."""
import abc
from dataclasses import dataclass

from tede.distributed._shard.metadata import ShardedTensorMetadata, ShardMetadata
from tede.distributed._shard.sharding_spec._internals import check_tensor, get_chunked_dim_size, get_split_size, validate_non_overlapping_shards_metadata
from tede.distributed.remote_device import _remote_device

__all__ = ["PlacementSpec", "DevicePlacementSpec", "ShardingSpec", "ChunkShardingSpec", "EnumerableShardingSpec"]


class PlacementSpec(abc.ABC):  # noqa: B024
    """Where something lies."""


@dataclass
class DevicePlacementSpec(PlacementSpec):
    device: object

    def __post_init__(self):
        if not isinstance(self.device, _remote_device):
            self.device = _remote_device(self.device)


class ShardingSpec(abc.ABC):
    """See the file's comment."""

    @abc.abstractmethod
    def build_metadata(self, tensor_sizes, tensor_properties):
        """The blocks of a tensor of this size: ShardedTensorMetadata."""

    @abc.abstractmethod
    def shard(self, tensor, src_rank=0, process_group=None):
        """A tensor that rank src_rank has, divided: a ShardedTensor."""


@dataclass
class ChunkShardingSpec(ShardingSpec):
    """Chunks along a dimension, as torch.chunk makes them, at these places."""
    dim: int | str
    placements: list

    def __post_init__(self):
        if isinstance(self.dim, str):
            raise NotImplementedError("ChunkShardingSpec does not support named dimension yet!")
        if not isinstance(self.dim, int):
            raise ValueError(f"Sharding dim needs to be an integer, found: {self.dim}")
        for i, placement in enumerate(self.placements):         # of the program's list
            if not isinstance(placement, _remote_device):
                self.placements[i] = _remote_device(placement)

    def build_metadata(self, tensor_sizes, tensor_properties):
        if not -len(tensor_sizes) <= self.dim < len(tensor_sizes):
            raise ValueError(f"Invalid sharding dim: {self.dim}")
        dim = self.dim % len(tensor_sizes)
        split, shards = get_split_size(tensor_sizes[dim], len(self.placements)), []
        for i, placement in enumerate(self.placements):
            offsets, sizes = [0] * len(tensor_sizes), list(tensor_sizes)
            offsets[dim], sizes[dim] = min(split * i, tensor_sizes[dim]), get_chunked_dim_size(tensor_sizes[dim], split, i)
            shards.append(ShardMetadata(offsets, sizes, placement))
        return ShardedTensorMetadata(shards, tensor_sizes, tensor_properties)

    def shard(self, tensor, src_rank=0, process_group=None):
        return _scatter(tensor, self, src_rank, process_group)


@dataclass
class EnumerableShardingSpec(ShardingSpec):
    """Blocks that are listed."""
    shards: list

    def __post_init__(self):
        if not self.shards:
            raise ValueError(f"Empty shard list provided: {self.shards}")
        if len({len(shard.shard_offsets) for shard in self.shards}) > 1:
            raise ValueError(f"Found inconsistent ranks for shards: {sorted({len(shard.shard_offsets) for shard in self.shards})}")
        validate_non_overlapping_shards_metadata(self.shards)

    def build_metadata(self, tensor_sizes, tensor_properties):
        check_tensor(self.shards, tensor_sizes)
        return ShardedTensorMetadata(self.shards, tensor_sizes, tensor_properties)

    def shard(self, tensor, src_rank=0, process_group=None):
        return _scatter(tensor, self, src_rank, process_group)


_scatterer = []


def _scatter(*args):
    """Of sharded_tensor, which registers it: tensors are above their descriptions."""
    if not _scatterer:
        raise RuntimeError("import tede.distributed._shard.sharded_tensor first")
    return _scatterer[0](*args)


def _infer_sharding_spec_from_shards_metadata(shards_metadata):
    """Chunks along a dimension, one a rank, if blocks are that; else these blocks."""
    dims = [d for d in range(len(shards_metadata[0].shard_offsets)) if len({shard.shard_offsets[d] for shard in shards_metadata}) > 1]
    placements = [shard.placement for shard in shards_metadata]
    if len(dims) <= 1 and all(p is not None and p.rank() is not None for p in placements) and len({p.rank() for p in placements}) == len(placements):
        dim = dims[0] if dims else 0
        in_order = sorted(shards_metadata, key=lambda shard: shard.shard_offsets[dim])
        split, size = in_order[0].shard_sizes[dim], sum(shard.shard_sizes[dim] for shard in in_order)
        chunks = split == get_split_size(size, len(in_order)) and all(
            shard.shard_sizes[dim] == get_chunked_dim_size(size, split, i) for i, shard in enumerate(in_order))
        if chunks:
            return ChunkShardingSpec(dim, [shard.placement for shard in in_order])
    return EnumerableShardingSpec(shards_metadata)
