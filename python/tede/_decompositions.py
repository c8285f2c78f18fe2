"""Decompositions: what __torch_dispatch__ sees of operators that are made of others.

A composite is seen as its parts, unless `decompose` of its entry, or of its traits, says otherwise: with "never" it is seen itself (in PyTorch
it is CompositeExplicitAutograd), with the name of a rule here as what that calls (here it is a kernel, in PyTorch a composite)."""
import math

import tede
from tede import _C
from tede.func._levels import FUNCTIONALIZE

_COMPOSITE = 16384         # TD_OP_COMPOSITE


def linear(input, weight, bias=None):
    ops = tede.ops.aten
    if input.dim() == 2 and bias is not None:
        return ops.addmm.default(bias, input, ops.t.default(weight))
    product = matmul(input, ops.t.default(weight))
    return product if bias is None else ops.add.Tensor(product, bias)


def _folded(matrices, other):
    """A batch of matrices and one matrix: one product of its rows."""
    ops = tede.ops.aten
    *batch, columns = matrices.shape
    rows = math.prod(batch)
    flat = ops.view.default(matrices, [rows, columns]) if matrices.is_contiguous() else matrices.reshape(rows, columns)
    product = ops.mm.default(flat, other) if other.dim() == 2 else ops.mv.default(flat, other)
    return ops.view.default(product, batch + ([other.shape[1]] if other.dim() == 2 else []))


def matmul(self, other):
    ops = tede.ops.aten
    m, n = self.dim(), other.dim()
    if m == 1 and n == 1:
        return ops.dot.default(self, other)
    if m == 2 and n == 1:
        return ops.mv.default(self, other)
    if m == 1 and n == 2:
        return ops.squeeze.dim(ops.mm.default(ops.unsqueeze.default(self, 0), other), 0)
    if m == 2 and n == 2:
        return ops.mm.default(self, other)
    if m >= 3 and n in (1, 2):
        return _folded(self, other)
    if m == 0 or n == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1:
        return ops.squeeze.dim(matmul(ops.unsqueeze.default(self, 0), other), -2)
    if n == 1:
        return ops.squeeze.dim(matmul(self, ops.unsqueeze.default(other, 1)), -1)
    batch = tede.broadcast_shapes(self.shape[:-2], other.shape[:-2])
    count = 1
    for size in batch:
        count *= size
    a = ops.expand.default(self, list(batch) + list(self.shape[-2:])).reshape(count, *self.shape[-2:])
    b = ops.expand.default(other, list(batch) + list(other.shape[-2:])).reshape(count, *other.shape[-2:])
    return ops.view.default(ops.bmm.default(a, b), list(batch) + [self.shape[-2], other.shape[-1]])


def _times(x, factor, shift=None):
    product = tede.ops.aten.mul.Tensor(x, factor)
    return product if shift is None else tede.ops.aten.add_.Tensor(product, shift)


def _times_(x, factor, shift=None):
    product = tede.ops.aten.mul_.Tensor(x, factor)
    return product if shift is None else tede.ops.aten.add_.Tensor(product, shift)


def dropout(input, p, train, whole_channels=False, times=_times, alpha=False):
    """The mask is drawn by a separate operator, so that modes see what depends on the random state."""
    ops = tede.ops.aten
    if p == 0 or not train or input.numel() == 0:
        return input
    if not 0 < p < 1:           # all dropped, or the error
        return NotImplemented if p != 1 else times(input, ops.zeros.default([], dtype=input.dtype, device=input.device))
    if whole_channels:
        if input.dim() < 2:
            return NotImplemented
        noise = ops.new_empty.default(input, [*input.shape[:2]] + [1] * (input.dim() - 2))
    else:
        noise = ops.empty_like.default(input)
    noise = ops.bernoulli_.float(noise, 1 - p)
    if not alpha:
        return times(input, ops.div_.Scalar(noise, 1 - p))
    saturation = 1.7580993408473766         # as in src/ops/random/random.c: what is dropped becomes what selu approaches
    scale = 1 / math.sqrt((saturation * saturation * p + 1) * (1 - p))
    shift = ops.add_.Scalar(ops.mul_.Scalar(ops.add.Scalar(noise, -1), saturation * scale), saturation * scale * p)
    return times(input, ops.mul_.Scalar(noise, scale), shift)


def _dropout(**ways):
    return lambda x, p, train: dropout(x, p, train, **ways)


def _lifted(lift):
    """Numbers belong to the level that a program makes them at; elsewhere the operator is seen itself."""
    def rule(self):
        if not _C._transform_level() or _C._transform_now()[0] != FUNCTIONALIZE:
            return NotImplemented
        from tede._subclasses.functional_tensor import lift_at_level
        return lift_at_level(getattr(tede.ops.aten, lift).default, self)
    return rule


RULES = {"lift_fresh": _lifted("lift_fresh"), "lift_fresh_copy": _lifted("lift_fresh_copy"),
         "linear": linear, "matmul": matmul, "square": lambda self: tede.ops.aten.pow.Tensor_Scalar(self, 2), "dropout": dropout,
         "dropout_": _dropout(times=_times_), "feature_dropout": _dropout(whole_channels=True),
         "feature_dropout_": _dropout(whole_channels=True, times=_times_), "alpha_dropout": _dropout(alpha=True),
         "alpha_dropout_": _dropout(times=_times_, alpha=True), "feature_alpha_dropout": _dropout(whole_channels=True, alpha=True),
         "feature_alpha_dropout_": _dropout(whole_channels=True, times=_times_, alpha=True)}


def entry(space, name, overload, flags):
    """For the Python key: the overload, the rule that is its body or None, and whether it runs as its parts."""
    shown = getattr(getattr(getattr(tede.ops, space), name), overload or "default")
    word = _C._op_traits(f"{space}::{name}" + (f".{overload}" if overload else ""))["decompose"]
    return shown, RULES[word] if word not in (None, "never") else None, word is None and bool(flags & _COMPOSITE)
