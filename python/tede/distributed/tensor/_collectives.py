"""What moves a DTensor's local tensors: collectives along one dimension of a mesh, on parts of unequal size.

Collectives take parts of one size, so parts are padded for the way and cut afterwards. With one rank along the dimension nothing is called."""
import tede
import tede.distributed as dist

_OPS = {"sum": "SUM", "avg": "SUM", "max": "MAX", "min": "MIN", "product": "PRODUCT"}       # an average is a sum that is divided: all engines have it


def padded(x, dim, size):
    """x with zeros behind, up to `size` in this dimension."""
    missing = size - x.shape[dim]
    if not missing:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return tede.cat([x, x.new_zeros(shape)], dim)


def all_gather(x, dim, sizes, mesh, mesh_dim):
    """The parts of all ranks, whose sizes in `dim` are these, as one."""
    n = len(sizes)
    if n == 1:
        return x
    part = padded(x, dim, max(sizes)).contiguous()
    out = part.new_empty((n, *part.shape))
    dist.all_gather_into_tensor(out.view(-1), part.view(-1), group=mesh.get_group(mesh_dim))
    return tede.cat([out[i].narrow(dim, 0, size) for i, size in enumerate(sizes)], dim)


def all_reduce(x, op, mesh, mesh_dim, p=None):
    """What the ranks' tensors make together; `p` of norms."""
    n = mesh.size(mesh_dim)
    if n == 1:
        return x
    if op == "norm":
        if p == float("inf"):
            return all_reduce(x, "max", mesh, mesh_dim)
        return all_reduce(x.abs() ** p, "sum", mesh, mesh_dim) ** (1 / p)
    x = x.clone(memory_format=tede.contiguous_format)
    dist.all_reduce(x, op=getattr(dist.ReduceOp, _OPS[op]), group=mesh.get_group(mesh_dim))
    return x / n if op == "avg" else x


def reduce_scatter(x, dim, sizes, op, mesh, mesh_dim):
    """The rank's part of what the ranks' tensors make together."""
    n = len(sizes)
    if n == 1:
        return x
    parts = [padded(part, dim, max(sizes)) for part in x.split(list(sizes), dim)]
    out = parts[0].new_empty(parts[0].shape)
    dist.reduce_scatter_tensor(out.view(-1), tede.stack(parts).view(-1), op=getattr(dist.ReduceOp, _OPS[op]), group=mesh.get_group(mesh_dim))
    out = out.narrow(dim, 0, sizes[mesh.get_local_rank(mesh_dim)])
    return out / n if op == "avg" else out


def all_to_all(x, dim, sizes, new_dim, new_sizes, mesh, mesh_dim):
    """From parts along `dim`, of these sizes, to parts along `new_dim`."""
    if len(sizes) == 1:
        return x
    rank = mesh.get_local_rank(mesh_dim)
    sent = [part.contiguous().view(-1) for part in x.split(list(new_sizes), new_dim)]
    shapes = []
    for size in sizes:
        shape = list(x.shape)
        shape[dim], shape[new_dim] = size, new_sizes[rank]
        shapes.append(shape)
    counts = [tede.Size(shape).numel() for shape in shapes]
    out = x.new_empty(sum(counts))
    dist.all_to_all_single(out, tede.cat(sent), counts, [part.numel() for part in sent], group=mesh.get_group(mesh_dim))
    return tede.cat([part.view(shape) for part, shape in zip(out.split(counts), shapes)], dim)


def broadcast(x, mesh, mesh_dim, src=0):
    """The tensor of the rank that is `src`-th along the dimension."""
    if mesh.size(mesh_dim) == 1:
        return x
    x = x.clone(memory_format=tede.contiguous_format)
    dist.broadcast(x, src=dist.get_global_rank(mesh.get_group(mesh_dim), src), group=mesh.get_group(mesh_dim))
    return x
