"""What a rank's part of a tensor is, from the whole's shape, and the whole's from a part's."""
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

__all__ = ["compute_local_shape_and_global_offset", "compute_global_tensor_info"]


def compute_local_shape_and_global_offset(global_shape, mesh, placements):
    """(shape, offset) of the rank's part in a whole of this shape; ((0,), ()) of a rank outside the mesh."""
    return DTensorSpec(mesh, placements, TensorMeta(tuple(global_shape), None, None)).local()


def compute_global_tensor_info(tensor, mesh, placements):
    """(shape, strides) of the whole whose parts all have this one's shape: strides of dimensions outside the sharded one grow with it."""
    shape, stride = list(tensor.shape), list(tensor.stride())
    for i, p in enumerate(placements):
        if p.is_shard():
            if p.dim < 0:
                raise AssertionError(f"Shard placements should have negative dims normalized in the user-facing APIs: {p}")
            if p.dim >= tensor.ndim:
                raise AssertionError(f"Sharding dim {p.dim} greater than tensor ndim {tensor.ndim} for placement number {i}.")
            for d in range(len(stride)):
                if d != p.dim and stride[d] >= stride[p.dim] and shape[p.dim]:
                    stride[d] *= mesh.size(i)
            shape[p.dim] *= mesh.size(i)
        elif not (p.is_replicate() or p.is_partial()):
            raise RuntimeError(f"placement type {type(p)} not supported!")
    return shape, stride
