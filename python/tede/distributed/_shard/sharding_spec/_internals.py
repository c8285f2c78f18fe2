"""Arithmetic of blocks: whether they overlap, whether they cover a tensor, sizes of chunks."""
import math

__all__ = []


def _overlap(a, b):
    return all(i < j + m and j < i + n for i, n, j, m in zip(a.shard_offsets, a.shard_sizes, b.shard_offsets, b.shard_sizes))


def validate_non_overlapping_shards_metadata(shards):
    """Refuse blocks that overlap. They are looked at by where they begin in the dimension that divides them most; those that end before are let go."""
    if len(shards) < 2:
        return
    dims = range(len(shards[0].shard_offsets))
    along = max(dims, key=lambda d: len({s.shard_offsets[d] for s in shards}), default=None)
    if along is None:
        raise ValueError(f"Shards {shards[0]} and {shards[1]} overlap")
    open_shards = []
    for shard in sorted(shards, key=lambda s: s.shard_offsets[along]):
        open_shards = [s for s in open_shards if s.shard_offsets[along] + s.shard_sizes[along] > shard.shard_offsets[along]]
        for other in open_shards:
            if _overlap(other, shard):
                raise ValueError(f"Shards {other} and {shard} overlap")
        open_shards.append(shard)


def check_tensor(shards_metadata, tensor_dims):
    """Refuse blocks that don't make a tensor of this size; that they don't overlap is known."""
    shards_rank = len(shards_metadata[0].shard_offsets)
    if len(tensor_dims) != shards_rank:
        raise ValueError(f"Rank of tensor is {len(tensor_dims)}, but shards rank is {shards_rank}")
    for shard in shards_metadata:
        for offset, size, whole in zip(shard.shard_offsets, shard.shard_sizes, tensor_dims):
            if offset + size > whole:
                raise ValueError(f"Shard offset {offset} and length {size} exceeds tensor dim: {whole} for shard {shard}")
    covered, volume = sum(math.prod(s.shard_sizes) for s in shards_metadata), math.prod(tensor_dims)
    if covered != volume:
        raise ValueError(f"Total volume of shards: {covered} does not match tensor volume: {volume}, in other words all the individual shards do not "
                         "cover the entire tensor")


def get_split_size(dim_size, chunks):
    """Of torch.chunk: all chunks but the last have it."""
    return -(-dim_size // chunks)


def get_chunked_dim_size(dim_size, split_size, idx):
    return max(min(dim_size, split_size * (idx + 1)) - split_size * idx, 0)


def get_chunk_sharding_params(sharding_dim_size, world_size, spec, rank):
    """(start, length) of the chunk that a rank has."""
    split = get_split_size(sharding_dim_size, world_size)
    at = next(i for i, placement in enumerate(spec.placements) if placement.rank() == rank)
    return min(split * at, sharding_dim_size), get_chunked_dim_size(sharding_dim_size, split, at)
