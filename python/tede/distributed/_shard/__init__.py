"""torch.distributed._shard: tensors in blocks of any size and place, as programs before DTensor have them; checkpoints of theirs are read and written.

`sharding_spec` says how a tensor is divided, `sharded_tensor` has the tensors."""
from tede.distributed._shard.api import _shard_tensor, load_with_process_group, shard_parameter  # noqa: F401
