"""What moves a DTensor's local tensors: collectives along one dimension of a mesh, on parts of unequal size.

Collectives take parts of one size, so parts are padded for the way and cut afterwards. With one rank along the dimension nothing is called. They are
the operators of _functional_collectives, which modes see. Those with `later` may return a tensor that waits when it is first used."""
import tede
from tede.distributed import _functional_collectives as functional

_OPS = {"avg": "sum"}       # an average is a sum that is divided: all engines have it
_calls = functional.ops


def _name(mesh, mesh_dim):
    return mesh.get_group(mesh_dim).group_name


def _done(x, later=False):
    return functional._maybe_wrap_tensor(x) if later else _calls.wait_tensor(x)


def padded(x, dim, size):
    """x with zeros behind, up to `size` in this dimension."""
    missing = size - x.shape[dim]
    if not missing:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return tede.cat([x, x.new_zeros(shape)], dim)


def all_gather(x, dim, sizes, mesh, mesh_dim, later=False):
    """The parts of all ranks, whose sizes in `dim` are these, as one."""
    n = len(sizes)
    if n == 1:
        return x
    part = padded(x, dim, max(sizes)).contiguous()
    gathered = _calls.all_gather_into_tensor(part, n, _name(mesh, mesh_dim))
    if dim == 0 and min(sizes) == max(sizes):
        return _done(gathered, later)
    parts = _done(gathered).view(n, *part.shape)
    return tede.cat([parts[i].narrow(dim, 0, size) for i, size in enumerate(sizes)], dim)


def all_reduce(x, op, mesh, mesh_dim, p=None, later=False):
    """What the ranks' tensors make together; `p` of norms."""
    n = mesh.size(mesh_dim)
    if n == 1:
        return x
    if op == "norm":
        if p == float("inf"):
            return all_reduce(x, "max", mesh, mesh_dim)
        return all_reduce(x.abs() ** p, "sum", mesh, mesh_dim) ** (1 / p)
    x = _calls.all_reduce(x, _OPS.get(op, op), _name(mesh, mesh_dim))
    return _done(x) / n if op == "avg" else _done(x, later)


def reduce_scatter(x, dim, sizes, op, mesh, mesh_dim, later=False):
    """The rank's part of what the ranks' tensors make together."""
    n = len(sizes)
    if n == 1:
        return x
    if dim or min(sizes) != max(sizes):
        x = tede.stack([padded(part, dim, max(sizes)) for part in x.split(list(sizes), dim)]).flatten(0, 1)
    out = _calls.reduce_scatter_tensor(x, _OPS.get(op, op), n, _name(mesh, mesh_dim))
    if op != "avg" and min(sizes) == max(sizes):
        return _done(out, later)
    out = _done(out).narrow(dim, 0, sizes[mesh.get_local_rank(mesh_dim)])
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
    out = _done(_calls.all_to_all_single(tede.cat(sent), counts, [part.numel() for part in sent], _name(mesh, mesh_dim)))
    return tede.cat([part.view(shape) for part, shape in zip(out.split(counts), shapes)], dim)


def broadcast(x, mesh, mesh_dim, src=0):
    """The tensor of the rank that is `src`-th along the dimension."""
    return x if mesh.size(mesh_dim) == 1 else _done(_calls.broadcast(x, src, _name(mesh, mesh_dim)))
