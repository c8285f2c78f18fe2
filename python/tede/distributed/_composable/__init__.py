"""Functions that change a module in place, one on top of another: replicate() and, with others, fully_shard()."""
from tede.distributed._composable.checkpoint_activation import checkpoint
from tede.distributed._composable.contract import _get_registry, contract
from tede.distributed._composable.replicate import replicate
from tede.distributed.fsdp import fully_shard

__all__ = ["_get_registry", "checkpoint", "contract", "fully_shard", "replicate"]
