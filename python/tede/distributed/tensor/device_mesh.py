"""torch.distributed.tensor.device_mesh."""
from tede.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh", "_mesh_resources"]
