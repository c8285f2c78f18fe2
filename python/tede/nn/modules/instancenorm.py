"""Instance normalisation: each sample by its own mean and variance."""
import warnings

from .. import functional as F
from .._native import T
from ..._docs import complete
from .batchnorm import _check_ranks, _lazy_text, _LazyNormBase, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
           "LazyInstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        """How many dimensions an input without a batch has; classes derived from outside override it."""
        return self._rank + 1

    def _normalize(self, input):
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                               self.training or not self.track_running_stats,
                               self.momentum if self.momentum is not None else 0.0, self.eps)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            keys = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if keys:
                names, kind = " and ".join(f'"{key}"' for key in keys), type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If state_dict "
                    f"is a checkpoint saved before 0.4.0, this may be expected because {kind} does not track running stats "
                    "by default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually "
                    f"needed, instead set track_running_stats=True in {kind} to enable them. See the documentation of "
                    f"{kind} for details.")
                for key in keys:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)

    def forward(self, input: T.Tensor) -> T.Tensor:
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        channel = input.dim() - unbatched
        if input.size(channel) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channel} to match num_features ({self.num_features}), "
                                 f"but got: {input.size(channel)}.")
            warnings.warn(f"input's size at dim={channel} does not match num_features. You can silence this warning by "
                          "not passing in num_features, which is not used because affine=False", stacklevel=2)
        if input.dim() == unbatched:
            return self._normalize(input.unsqueeze(0)).squeeze(0)
        return self._normalize(input)


def _text(rank, shape):
    return complete(f"""\
``(x - mean) / sqrt(var + eps)`` for each channel of each sample by itself (Ulyanov et al., 2016, "Instance
Normalization").

Unlike in `BatchNorm{rank}d` nothing is learned and nothing remembered unless you say so.

    num_features: C.
    eps: keeps the root away from zero.
    momentum: how much a batch counts in the running statistics; None is nothing.
    affine: whether there are `weight` (from 1) and `bias` (from 0), a number per channel.
    track_running_stats: whether running means and variances are kept, and used in evaluation.
    bias: whether there is a bias where there is a weight.
    <factory>

Shape: {shape} -> the same; ValueError for other ranks, or if there is a weight and C is another number.

>>> nn.InstanceNorm{rank}d(3)(tede.randn(5, 3{", 4" * rank})).shape
tede.Size([5, 3{", 4" * rank}])
""")


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _text(1, "(N, C, L) or (C, L)")

    _rank, _check_input_dim = 1, _check_ranks(2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _text(2, "(N, C, H, W) or (C, H, W)")

    _rank, _check_input_dim = 2, _check_ranks(3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _text(3, "(N, C, D, H, W) or (C, D, H, W)")

    _rank, _check_input_dim = 3, _check_ranks(4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    __doc__ = _lazy_text("InstanceNorm1d")
    cls_to_become = InstanceNorm1d
    _rank, _check_input_dim = 1, _check_ranks(2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    __doc__ = _lazy_text("InstanceNorm2d")
    cls_to_become = InstanceNorm2d
    _rank, _check_input_dim = 2, _check_ranks(3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    __doc__ = _lazy_text("InstanceNorm3d")
    cls_to_become = InstanceNorm3d
    _rank, _check_input_dim = 3, _check_ranks(4, 5)
