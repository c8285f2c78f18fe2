"""PyTorch's place of ChunkShardingSpec."""
from tede.distributed._shard.sharding_spec.api import ChunkShardingSpec  # noqa: F401
