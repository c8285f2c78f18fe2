"""loss_parallel: cross_entropy of logits whose classes are sharded, without gathering them.

Each rank has some of a row's logits. The row's largest logit and its sum of exponentials are reduced over the ranks, and the target's logit is a sum to
which one rank contributes; of the gradient, softmax less one at the target, each rank computes its own part. Along other dimensions of the mesh the rows
may be sharded, whose losses are then parts of a sum. Logits of two dimensions are one operator; those of more are log_softmax and nll_loss."""
import contextlib

import tede
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor import _dispatch
from tede.distributed.tensor._made import made
from tede.distributed.tensor._redistribute import redistribute_local
from tede.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, contiguous_stride
from tede.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = ["loss_parallel"]

NONE, MEAN = 0, 1
WHOLE = Replicate()


class _Place:
    """Where logits lie: `axis`, the dimension of classes, and `at`, that of the mesh which they are sharded on; the rows along others."""

    def __init__(self, logits, axis=None):
        self.mesh, self.axis = logits.device_mesh, (1 if logits.ndim > 1 else 0) if axis is None else axis % max(logits.ndim, 1)
        dims = [i for i, p in enumerate(logits.placements) if p.is_shard(self.axis)]
        if len(dims) != 1 or any(p.is_partial() for p in logits.placements):
            raise ValueError(f"loss_parallel takes logits sharded on the class dimension, by one dimension of the mesh, got {logits.placements}")
        self.at, self.start = dims[0], logits._spec.local()[1][self.axis]
        self.shape = logits.shape[:self.axis] + logits.shape[self.axis + 1:]
        self.rows = tuple(WHOLE if not p.is_shard() or i == self.at else Shard(p.dim - (p.dim > self.axis)) for i, p in enumerate(logits.placements))

    def reduced(self, x, op="sum"):
        """Over the ranks that have a row's logits."""
        return comm.all_reduce(x, op, self.mesh, self.at)

    def over_rows(self, x):
        for i, p in enumerate(self.rows):
            x = comm.all_reduce(x, "sum", self.mesh, i) if p.is_shard() else x
        return x

    def local(self, x, placements):
        """Of a target, say, that may be a plain tensor; it's whole then."""
        if x is None:
            return None
        if hasattr(x, "_spec"):
            return redistribute_local(x._local_tensor, x._spec, placements)
        return redistribute_local(x, self._spec(x.shape, x.dtype, (WHOLE,) * self.mesh.ndim), placements)

    def whole(self, x):
        return self.local(x, (WHOLE,) * self.mesh.ndim)

    def of_rows(self, x):
        return self.local(x, self.rows)

    def _spec(self, shape, dtype, placements):
        return DTensorSpec(self.mesh, placements, TensorMeta(tuple(shape), contiguous_stride(shape), dtype))

    def made(self, x, placements, shape=()):
        return made(x, self._spec(shape, x.dtype, placements))

    def chosen(self, local, target, weight, ignore_index):
        """(where a row's target is in this part, whether it is there, the rows' weights); all with the dimension of classes, of size 1."""
        target = self.of_rows(target).unsqueeze(self.axis)
        own, ignored = target - self.start, target == ignore_index
        mine = (own >= 0) & (own < local.shape[self.axis]) & ~ignored
        counted = (~ignored).to(local.dtype)
        if weight is not None:
            counted = counted * self.whole(weight)[target.masked_fill(ignored, 0)]
        return own.masked_fill(~mine, 0), mine, counted

    def losses(self, losses, counted, reduction):
        """(the loss, the sum of weights): each row's, or this rank's part of the whole."""
        weights = self.over_rows(counted.sum())
        total = self.made(weights, (WHOLE,) * self.mesh.ndim)
        if reduction == NONE:
            return self.made(losses.squeeze(self.axis), self.rows, self.shape), total
        loss = losses.sum() / weights if reduction == MEAN else losses.sum()
        return self.made(loss, tuple(Partial() if p.is_shard() else WHOLE for p in self.rows)), total

    def scale(self, grad, counted, weights, reduction):
        """What flows into each row's loss."""
        if reduction == NONE:
            return self.of_rows(grad).unsqueeze(self.axis) * counted
        return counted * (self.whole(grad) / self.whole(weights) if reduction == MEAN else self.whole(grad))

    def log_sum(self, local):
        largest = self.reduced(local.amax(self.axis, keepdim=True), "max")
        return largest + self.reduced((local - largest).exp().sum(self.axis, keepdim=True)).log()

    def picked(self, local, own, mine):
        return self.reduced(local.gather(self.axis, own).masked_fill(~mine, 0))


# ---- logits of two dimensions ----------------------------------------------------------------------------------------

def _cross_entropy(func, args, kwargs):
    logits, target, weight, reduction, ignore_index, smoothing = args
    if smoothing:
        raise ValueError("loss_parallel takes no label smoothing")
    place, local = _Place(logits), logits._local_tensor
    own, mine, counted = place.chosen(local, target, weight, ignore_index)
    lse = place.log_sum(local)
    loss, weights = place.losses((lse - place.picked(local, own, mine)) * counted, counted, reduction)
    return loss, place.made(lse.squeeze(place.axis), place.rows, place.shape), weights


def _cross_entropy_backward(func, args, kwargs):
    grad, logits, target, weight, lse, weights, reduction, ignore_index, _ = args
    place, local = _Place(logits), logits._local_tensor
    own, mine, counted = place.chosen(local, target, weight, ignore_index)
    found = (local - place.of_rows(lse).unsqueeze(place.axis)).exp()
    found = found.scatter_add(place.axis, own, -mine.to(found.dtype))
    return made(found * place.scale(grad, counted, weights, reduction), logits._spec)


# ---- of more ---------------------------------------------------------------------------------------------------------

def _log_softmax(func, args, kwargs):
    x, dim, _ = args
    if not any(p.is_shard(dim % max(x.ndim, 1)) for p in x.placements):
        return _dispatch.plain(func, args, kwargs)
    place = _Place(x, dim)
    return made(x._local_tensor - place.log_sum(x._local_tensor), x._spec)


def _log_softmax_backward(func, args, kwargs):
    grad, result, dim, _ = args
    if not any(p.is_shard(dim % max(result.ndim, 1)) for p in result.placements):
        return _dispatch.plain(func, args, kwargs)
    place = _Place(result, dim)
    grad = place.local(grad, result.placements)
    return made(grad - result._local_tensor.exp() * place.reduced(grad.sum(place.axis, keepdim=True)), result._spec)


def _nll_loss(func, args, kwargs):
    x, target, weight, reduction, ignore_index = args
    place, local = _Place(x), x._local_tensor
    own, mine, counted = place.chosen(local, target, weight, ignore_index)
    return place.losses(-place.picked(local, own, mine) * counted, counted, reduction)


def _nll_loss_backward(func, args, kwargs):
    grad, x, target, weight, reduction, ignore_index, weights = args
    place, local = _Place(x), x._local_tensor
    own, mine, counted = place.chosen(local, target, weight, ignore_index)
    scale = place.scale(grad, counted, weights, reduction) * mine
    return made(tede.zeros_like(local).scatter_add(place.axis, own, -scale.to(local.dtype)), x._spec)


@contextlib.contextmanager
def loss_parallel():
    """Within it cross_entropy and its backward take logits that are DTensors sharded on the class dimension."""
    aten = tede.ops.aten
    before, implicit = dict(_dispatch._handlers), _dispatch.implicit
    _dispatch.implicit = True           # targets and weights are plain
    _dispatch._handlers.update({
        aten.cross_entropy_rows.default: _cross_entropy, aten.cross_entropy_rows_backward.default: _cross_entropy_backward,
        aten._log_softmax.default: _log_softmax, aten._log_softmax_backward_data.default: _log_softmax_backward,
        aten.nll_loss_forward.default: _nll_loss, aten.nll_loss_backward.default: _nll_loss_backward})
    try:
        yield
    finally:
        _dispatch._handlers.clear()
        _dispatch._handlers.update(before)
        _dispatch.implicit = implicit
