"""loss_parallel: cross_entropy of logits whose classes are sharded, without gathering them.

Each rank has some of a row's logits. The row's largest logit and its sum of exponentials are reduced over the ranks, and the target's logit is a sum to
which one rank contributes; of the gradient, softmax less one at the target, each rank computes its own part."""
import contextlib

import tede
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor import _dispatch
from tede.distributed.tensor._made import made
from tede.distributed.tensor._redistribute import redistribute_local
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from tede.distributed.tensor.placement_types import Replicate

__all__ = ["loss_parallel"]

NONE, MEAN = 0, 1


def _class_dim(logits):
    """The mesh dimension that classes are sharded on; None if none does."""
    dims = [i for i, p in enumerate(logits.placements) if p.is_shard(1 if logits.ndim > 1 else 0)]
    others = [p for i, p in enumerate(logits.placements) if i not in dims and not p.is_replicate()]
    return dims[0] if len(dims) == 1 and not others else None


def _whole(x, mesh):
    """A target or weight as a tensor of all elements."""
    return redistribute_local(x._local_tensor, x._spec, (Replicate(),) * mesh.ndim) if hasattr(x, "_spec") else x


def _rows(logits, target, weight, ignore_index):
    """(first class of the rank, where a row's target is its own, that target in its part, the rows' weights)."""
    local, spec = logits._local_tensor, logits._spec
    axis = 1 if logits.ndim > 1 else 0
    start = spec.local()[1][axis]
    own = target - start
    mine = (own >= 0) & (own < local.shape[axis]) & (target != ignore_index)
    counted = (target != ignore_index).to(local.dtype)
    if weight is not None:
        counted = counted * weight[target.masked_fill(target == ignore_index, 0)]
    return axis, mine, own.masked_fill(~mine, 0), counted


def _spec(x, mesh):
    return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(tuple(x.shape), contiguous_stride(x.shape), x.dtype))


def _forward(func, args, kwargs):
    logits, target, weight, reduction, ignore_index, smoothing = args
    at, mesh = _class_dim(logits), logits.device_mesh
    if at is None or smoothing:
        raise ValueError(f"loss_parallel takes logits sharded on the class dimension alone and no label smoothing, got {logits.placements}")
    local, target = logits._local_tensor, _whole(target, mesh)
    weight = None if weight is None else _whole(weight, mesh)
    axis, mine, own, counted = _rows(logits, target, weight, ignore_index)
    largest = comm.all_reduce(local.amax(axis), "max", mesh, at)
    total = comm.all_reduce((local - largest.unsqueeze(axis)).exp().sum(axis), "sum", mesh, at)
    lse = largest + total.log()
    picked = local.gather(axis, own.unsqueeze(axis)).squeeze(axis).masked_fill(~mine, 0)
    losses = (lse - comm.all_reduce(picked, "sum", mesh, at)) * counted
    weights = counted.sum()
    loss = losses if reduction == NONE else losses.sum() / weights if reduction == MEAN else losses.sum()
    return tuple(made(x, _spec(x, mesh)) for x in (loss, lse, weights))


def _backward(func, args, kwargs):
    grad, logits, target, weight, lse, weights, reduction, ignore_index, _ = args
    mesh, local = logits.device_mesh, logits._local_tensor
    grad, target, lse, weights = (_whole(x, mesh) for x in (grad, target, lse, weights))
    axis, mine, own, counted = _rows(logits, target, None if weight is None else _whole(weight, mesh), ignore_index)
    scale = counted * (grad / weights if reduction == MEAN else grad)
    found = (local - lse.unsqueeze(axis)).exp()
    found = found.scatter_add(axis, own.unsqueeze(axis), -mine.to(found.dtype).unsqueeze(axis))
    return made(found * scale.unsqueeze(axis), logits._spec)


@contextlib.contextmanager
def loss_parallel():
    """Within it cross_entropy and its backward take logits that are DTensors sharded on the class dimension."""
    aten = tede.ops.aten
    before, implicit = dict(_dispatch._handlers), _dispatch.implicit
    _dispatch.implicit = True           # targets and weights are plain
    _dispatch._handlers.update({aten.cross_entropy_rows.default: _forward, aten.cross_entropy_rows_backward.default: _backward})
    try:
        yield
    finally:
        _dispatch._handlers.clear()
        _dispatch._handlers.update(before)
        _dispatch.implicit = implicit
