"""Collectives along a dimension of a mesh, in place, and padding: what programs build placements of their own with. tede's are in _collectives."""
import tede.distributed as dist
from tede.distributed.tensor._collectives import all_to_all, padded
from tede.distributed.tensor.placement_types import Shard

__all__ = ["mesh_broadcast", "mesh_scatter", "pad_tensor", "shard_dim_alltoall", "unpad_tensor"]


def mesh_scatter(output, scatter_list, mesh, mesh_dim=0, async_op=False, *, group_src=0):
    """`output` becomes the rank's tensor in the list of the rank that is `group_src`-th along the dimension."""
    if output.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    return dist.scatter(output, scatter_list if dist.get_rank(group) == group_src else None, group=group, async_op=async_op, group_src=group_src)


def mesh_broadcast(tensor, mesh, mesh_dim=0, async_op=False, *, group_src=0):
    """`tensor` becomes the one of the rank that is `group_src`-th along the dimension."""
    return None if tensor.is_meta else dist.broadcast(tensor, group=mesh.get_group(mesh_dim), async_op=async_op, group_src=group_src)


def shard_dim_alltoall(input, gather_dim, shard_dim, mesh, mesh_dim):
    """The rank's part along `shard_dim` of the whole whose parts along `gather_dim`, all of one size, the ranks have."""
    n, size = mesh.size(mesh_dim), input.shape[shard_dim]
    sizes = [Shard.local_shard_size_and_offset(size, n, i)[0] for i in range(n)]
    return all_to_all(input, gather_dim, [input.shape[gather_dim]] * n, shard_dim, sizes, mesh, mesh_dim)


def pad_tensor(tensor, pad_dim, pad_size):
    """With `pad_size` zeros behind."""
    return padded(tensor, pad_dim, tensor.shape[pad_dim] + pad_size)


def unpad_tensor(tensor, pad_dim, pad_size):
    """Without the last `pad_size`."""
    return tensor.narrow(pad_dim, 0, tensor.shape[pad_dim] - pad_size) if pad_size else tensor
