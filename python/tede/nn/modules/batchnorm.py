"""Batch normalisation, and what instance normalisation shares with it."""
import sys

from .. import functional as F
from .. import init
from .._native import T
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from ..._docs import complete, completed
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["BatchNorm1d", "LazyBatchNorm1d", "BatchNorm2d", "LazyBatchNorm2d", "BatchNorm3d", "LazyBatchNorm3d",
           "SyncBatchNorm"]


class _NormBase(Module):
    """Weight and bias per channel, and running statistics."""

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    _version = 2                                # since 2, num_batches_tracked is saved
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _rank = 0

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None, *, bias: bool = True) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(T.empty(num_features, **where)) if affine else None)
        self.register_parameter("bias", Parameter(T.empty(num_features, **where)) if affine and bias else None)
        track = track_running_stats
        self.register_buffer("running_mean", T.zeros(num_features, **where) if track else None)
        self.register_buffer("running_var", T.ones(num_features, **where) if track else None)
        self.register_buffer("num_batches_tracked", T.tensor(0, dtype=T.long, device=device) if track else None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forget what was seen: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, running statistics forgotten."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError("_check_input_dim: a norm of its own rank")

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        version, key = local_metadata.get("version", None), prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            known = count is not None and count.device.type != "meta"
            state_dict[key] = count if known else T.tensor(0, dtype=T.long)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


class _BatchNorm(_NormBase):
    def forward(self, input: T.Tensor) -> T.Tensor:
        self._check_input_dim(input)
        track = self.training and self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        if track and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:           # a plain mean over all batches
                momentum = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None and self.running_var is None
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None, self.weight,
                            self.bias, use_batch, momentum, self.eps)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    def __init__(self, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None, *,
                 bias: bool = True) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if track_running_stats:
            self.running_mean, self.running_var = UninitializedBuffer(**where), UninitializedBuffer(**where)
            self.num_batches_tracked = T.tensor(0, dtype=T.long, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for value in (self.weight, self.bias, self.running_mean, self.running_var):
                if value is not None:
                    value.materialize((self.num_features,))
            self.reset_parameters()


def _check_ranks(low, high=None):
    """A method that refuses inputs of another rank than `low` (or `high`)."""
    wanted = f"{low}D" if high is None else f"{low}D or {high}D"

    def check(self, input):
        if input.dim() != low and input.dim() != high:
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")
    return check


def _text(rank, shape):
    return complete(f"""\
``(x - mean) / sqrt(var + eps) * weight[c] + bias[c]`` for each channel c (Ioffe and Szegedy, 2015, "Batch
Normalization").

While training mean and variance (divided by n) are those of the channel in this batch; in evaluation they are the
running ones. Each training call moves these: ``running = (1 - momentum) * running + momentum * seen``, the variance
seen divided by n - 1.

    num_features: C.
    eps: keeps the root away from zero.
    momentum: how much a batch counts; None is the plain mean over all batches.
    affine: whether there are `weight` (from 1) and `bias` (from 0).
    track_running_stats: whether there are running ones; without them evaluation takes the batch's, too.
    bias: whether there is a bias where there is a weight.
    <factory>

Shape: {shape} -> the same; ValueError for other ranks, and where a training batch has one value per channel. Running
statistics are buffers: `running_mean`, `running_var`, `num_batches_tracked`.

>>> layer = nn.BatchNorm{rank}d(3)
>>> layer(tede.randn(5, 3{", 4" * rank})).shape
tede.Size([5, 3{", 4" * rank}])
>>> layer.eval().running_mean.shape
tede.Size([3])
""")


def _lazy_text(plain):
    return complete(f"""\
`{plain}` whose num_features is the second size of the first input; the module is a `{plain}` from then on.

    eps, momentum, affine, track_running_stats, bias: as for `{plain}`.
    <factory>

Before the first call the parameters have no shape: make it before you hand them to an optimizer or count them.

>>> layer = nn.Lazy{plain}()
>>> _ = layer(tede.randn(5, 4{", 6" * int(plain[-2])}))
>>> layer.num_features
4
""")


class BatchNorm1d(_BatchNorm):
    __doc__ = _text(1, "(N, C) or (N, C, L)")

    _check_input_dim = _check_ranks(2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _text(2, "(N, C, H, W)")

    _check_input_dim = _check_ranks(4)


class BatchNorm3d(_BatchNorm):
    __doc__ = _text(3, "(N, C, D, H, W)")

    _check_input_dim = _check_ranks(5)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    __doc__ = _lazy_text("BatchNorm1d")
    cls_to_become = BatchNorm1d
    _check_input_dim = _check_ranks(2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    __doc__ = _lazy_text("BatchNorm2d")
    cls_to_become = BatchNorm2d
    _check_input_dim = _check_ranks(4)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    __doc__ = _lazy_text("BatchNorm3d")
    cls_to_become = BatchNorm3d
    _check_input_dim = _check_ranks(5)


@completed
class SyncBatchNorm(_BatchNorm):
    """`BatchNorm2d`, of any rank from 2, whose mean and variance while training are those over all processes of a
    group. With one process it is plain batch normalisation.

        num_features, eps, momentum, affine, track_running_stats, bias: as for `BatchNorm1d`.
        process_group: which processes; None is all.
        <factory>

    Shape: (N, C, ...) -> the same. Processes may have batches of unequal sizes.

    >>> nn.SyncBatchNorm(3)(tede.randn(2, 3, 4, 4)).shape
    tede.Size([2, 3, 4, 4])
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 track_running_stats: bool = True, process_group=None, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: T.Tensor) -> T.Tensor:
        group = self._group() if self.training else None
        if group is None or group.size() == 1:
            return super().forward(input)
        from ._sync_batchnorm import SyncBatchNormFunction
        self._check_input_dim(input)
        mean = var = None
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats:
            mean, var = self.running_mean, self.running_var
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        return SyncBatchNormFunction.apply(input, self.weight, self.bias, mean, var, self.eps, momentum, group)

    def _group(self):
        """The processes that share statistics; None where this is the only one."""
        distributed = sys.modules.get("tede.distributed")       # not loaded: no group has been made
        if distributed is None or not distributed.is_initialized():
            return None
        return self.process_group or distributed.group.WORLD

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """`module` with every batch norm in it replaced by a synchronised one that has the same parameters and
        statistics.

        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))[0].__class__.__name__
        'SyncBatchNorm'
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                            process_group, bias=module.bias is not None)
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
