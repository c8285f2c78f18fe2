"""torch.distributed._tensor.placement_types: placements, with the specs that are made of them."""
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta  # noqa: F401
from tede.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _Partial  # noqa: F401
