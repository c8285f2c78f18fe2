"""torch.distributed._tensor: the older name of torch.distributed.tensor."""
import sys
from importlib import import_module

from tede.distributed.tensor import (  # noqa: F401
    DeviceMesh, DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor, empty, full, init_device_mesh, ones, rand, randn, zeros)

for _name in ("_utils", "experimental", "device_mesh", "debug"):
    sys.modules[f"{__name__}.{_name}"] = import_module(f"tede.distributed.tensor.{_name}")
