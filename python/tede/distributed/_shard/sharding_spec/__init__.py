"""torch.distributed._shard.sharding_spec: how tensors are divided."""
from tede.distributed._shard.metadata import ShardMetadata  # noqa: F401
from tede.distributed._shard.sharding_spec.api import (  # noqa: F401
    ChunkShardingSpec, DevicePlacementSpec, EnumerableShardingSpec, PlacementSpec, ShardingSpec, _infer_sharding_spec_from_shards_metadata)
