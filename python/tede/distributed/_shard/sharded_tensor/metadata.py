"""PyTorch's place of what blocks of a tensor are; older checkpoints name it."""
from tede.distributed._shard.metadata import ShardedTensorMetadata, TensorProperties  # noqa: F401
from tede.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING as MEM_FORMAT_ENCODING  # noqa: F401
