"""torch.distributed.tensor: tensors that lie on several ranks."""
from tede import serialization
from tede.optim.optimizer import _foreach_supported_types
from tede.distributed.device_mesh import DeviceMesh, init_device_mesh
from tede.distributed.tensor._api import DTensor, _rebuilt, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from tede.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "Shard", "Replicate", "Partial", "Placement", "ones", "empty", "full", "rand", "randn",
           "zeros", "DeviceMesh", "init_device_mesh"]

_foreach_supported_types.append(DTensor)
serialization.add_safe_globals([DTensor, DeviceMesh, Partial, Replicate, Shard, _rebuilt])
