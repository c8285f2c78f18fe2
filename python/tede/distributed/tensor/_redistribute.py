"""From some placements of a tensor to others.

Along one mesh dimension each pair of placements has one collective. A tensor dimension that several mesh dimensions split is split by them in an order
(see DTensorSpec.order), so a change at one of them undoes those that split after it, last first, and does them again; others change in any order."""
import tede
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor._made import made
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, normalized
from tede.distributed.tensor.placement_types import Replicate

WHOLE = Replicate()


def _step(x, spec, i, target, later=False):
    """Local tensor and spec after a change of one mesh dimension's placement. `later`: see _collectives.py."""
    mesh, now = spec.mesh, spec.placements[i]
    if now.is_alike(target) or now.is_shard() and target.is_shard(now.dim):
        pass                            # strided or not: nothing splits before that one
    elif now.is_shard() and target.is_shard():
        x = comm.all_to_all(x, now.dim, spec.sizes(i, now), target.dim, spec.sizes(i, target), mesh, i)
    elif now.is_shard() and target.is_replicate():
        x = comm.all_gather(x, now.dim, spec.sizes(i, now), mesh, i, later)
    elif now.is_partial() and target.is_replicate():
        x = comm.all_reduce(x, now.reduce_op, mesh, i, getattr(now, "norm_type", None), later)
    elif now.is_partial() and target.is_shard():
        if now.reduce_op == "norm":
            return _step(*_step(x, spec, i, WHOLE), i, target)
        x = comm.reduce_scatter(x, target.dim, spec.sizes(i, target), now.reduce_op, mesh, i, later)
    elif now.is_replicate() and target.is_shard():
        x = target._part(x, mesh.size(i), mesh.get_local_rank(i))
        x = x.clone() if mesh.size(i) > 1 else x
    elif now.is_replicate() and target.is_partial():
        x = target._partition_value(x, mesh, i) if mesh.size(i) > 1 else x
    else:
        raise RuntimeError(f"redistribute from {now} to {target} not supported yet")
    return x, spec.replaced(i, target)


def _undone(spec, goal):
    """The mesh dimensions whose split has to be undone: they split, or will, after one that changes and splits the same tensor dimension."""
    orders = spec.order, DTensorSpec(spec.mesh, goal, spec.tensor_meta).order
    dims = [{p.dim for p in (now, to) if p.is_shard()} for now, to in zip(spec.placements, goal)]
    changing = {i for i, (now, to) in enumerate(zip(spec.placements, goal)) if now != to}
    while True:
        found = {i for i, now in enumerate(spec.placements) if now.is_shard() and any(
            j != i and now.dim in dims[j] and any(order.index(j) < order.index(i) for order in orders) for j in changing)}
        if found <= changing:
            return found
        changing |= found


def redistribute_local(x, spec, placements, later=False):
    """The local tensor of the same whole under other placements. With `later` it may be one that waits when it is first used."""
    if spec.mesh.get_coordinate() is None:
        return x
    goal = tuple(placements)
    undone = _undone(spec, goal)
    for i in reversed(spec.order):
        if i in undone:
            x, spec = _step(x, spec, i, WHOLE)
    for i in DTensorSpec(spec.mesh, goal, spec.tensor_meta).order:
        now, target = spec.placements[i], goal[i]
        if now != target:
            if target.is_partial() and (now.is_shard() or now.is_partial() and not now.is_alike(target)):
                x, spec = _step(x, spec, i, WHOLE)
            x, spec = _step(x, spec, i, target, later and spec.replaced(i, target).placements == goal)
    return x


class Redistribute(tede.autograd.Function):
    """redistribute with a gradient: that of the tensor it was has its placements, whole where it was a part."""

    @staticmethod
    def forward(ctx, x, mesh, placements, async_op=False, forward_dtype=None, backward_dtype=None):
        ctx.spec, ctx.later, ctx.dtypes = x._spec, async_op, (x.dtype, backward_dtype)
        placements = normalized(placements, mesh, x.ndim)
        local, spec = x._local_tensor, x._spec
        if forward_dtype is not None:
            local = local.to(forward_dtype)
        if mesh != spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        found = redistribute_local(local, spec, placements, async_op) if placements != spec.placements else local
        meta = TensorMeta(*spec.tensor_meta[:2], local.dtype)
        return made(found.view_as(found) if found is local else found, DTensorSpec(mesh, placements, meta), found.requires_grad)

    @staticmethod
    def backward(ctx, grad):
        goal = tuple(WHOLE if p.is_partial() and not now.is_partial() else p
                     for p, now in zip(ctx.spec.placements, grad._spec.placements))
        local = grad._local_tensor
        if ctx.dtypes[1] is not None:
            local = local.to(ctx.dtypes[1])
        local = redistribute_local(local, grad._spec, goal, ctx.later)
        spec = DTensorSpec(ctx.spec.mesh, goal, TensorMeta(tuple(grad.shape), tuple(grad.stride()), ctx.dtypes[0]))
        return made(local.to(ctx.dtypes[0]), spec, False), None, None, None, None, None


