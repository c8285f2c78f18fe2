"""Convolutions with a batch norm, a ReLU or both, trained together.

What is rounded is the weight with the norm's factors, weight * gamma / sqrt(running_var + eps), as it will be once they are one. The result
is divided by them again, so that the norm sees what it would without rounding, and its statistics stay those of the convolution."""
import tede
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.intrinsic.qat.modules._norm import _WithNorm
from tede.ao.nn.qat.modules import conv as nnqat
from tede.nn import functional as F
from tede.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["ConvBn1d", "ConvBnReLU1d", "ConvReLU1d", "ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "ConvBn3d", "ConvBnReLU3d", "ConvReLU3d",
           "update_bn_stats", "freeze_bn_stats"]


class _ConvBnNd(_WithNorm, nni._FusedModule):
    _version = 2
    _dims = 0
    _enable_slow_path_for_better_numerical_stability = False        # without a division by the norm's factors, which may be zero

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None, padding_mode="zeros",
                 eps=1e-5, momentum=0.1, freeze_bn=False, qconfig=None):
        n = self._dims
        convolution = getattr(nn, f"Conv{n}d")
        convolution.__init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bool(bias), padding_mode)
        self._begin(getattr(nn, f"BatchNorm{n}d")(out_channels, eps, momentum, True, True), freeze_bn, qconfig)

    def _normed(self, input):
        if self.bn.running_var is None:
            raise AssertionError(f"{type(self).__name__}: the batch norm has no running statistics")
        if self._enable_slow_path_for_better_numerical_stability:
            return self._normed_without_division(input)
        channels = (1, -1) + (1,) * self._dims
        factor = self.bn.weight / tede.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * factor.reshape((-1,) + (1,) * (self._dims + 1)))
        zeros = tede.zeros_like(self.bias, dtype=input.dtype) if self.bias is not None else \
            tede.zeros(self.out_channels, device=weight.device, dtype=input.dtype)
        out = self._conv_forward(input, weight, zeros) / factor.reshape(channels)
        if self.bias is not None:
            out = out + self.bias.reshape(channels)
        return self.bn(out)

    def _normed_without_division(self, input):
        """The norm by hand, arXiv:1806.08342: a second convolution gives the statistics of the batch, and moves the running ones first."""
        bn, channels = self.bn, (1, -1) + (1,) * self._dims
        if bn.training:
            plain = self._conv_forward(input, self.weight, None)
            with tede.no_grad():
                bn(plain if self.bias is None else plain + self.bias.reshape(channels))
        std = tede.sqrt(bn.running_var + bn.eps)
        out = self._conv_forward(input, self.weight_fake_quant(self.weight * (bn.weight / std).reshape((-1,) + (1,) * (self._dims + 1))), None)
        mean, by = bn.running_mean if self.bias is None else bn.running_mean - self.bias, bn.weight / std
        if bn.training:
            others = [0, *range(2, plain.dim())]
            mean = plain.mean(others)
            batch_std = tede.sqrt((plain - mean.reshape(channels)).square().mean(others) + bn.eps)
            out, by = out * (std / batch_std).reshape(channels), bn.weight / batch_std
        return out + (bn.bias - by * mean).reshape(channels)

    def forward(self, input):
        return self._normed(input)

    def extra_repr(self):
        return getattr(nn, f"Conv{self._dims}d").extra_repr(self)

    def _fused(self):
        bn = self.bn
        return fuse_conv_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a ConvBn or ConvBnReLU with a qconfig; it keeps the parameters and the norm's statistics."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        conv, bn = mod[0], mod[1]
        return cls(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups,
                   conv.bias is not None, conv.padding_mode, bn.eps, bn.momentum, False, mod.qconfig)._take(conv, bn)

    def to_float(self):
        """The float convolution that has the norm in it, with its ReLU."""
        n = self._dims
        made = getattr(nn, f"Conv{n}d")(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
                                        self.groups, True, self.padding_mode)
        made.weight, made.bias = self._fused()
        made.train(self.training)
        return getattr(nni, f"ConvReLU{n}d")(made, nn.ReLU()) if self._relu else made

    _relu = False


class _Normed:
    """And a ReLU behind them."""
    _relu = True

    def forward(self, input):
        return F.relu(self._normed(input))


class _Rectified:
    """A convolution and a ReLU."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 qconfig=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, qconfig=qconfig)

    def forward(self, input):
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self):
        return getattr(nni, f"ConvReLU{self._dims}d")(super().to_float(), nn.ReLU())


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    _FLOAT_MODULE, _dims = nni.ConvBn1d, 1


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    _FLOAT_MODULE, _dims = nni.ConvBn2d, 2


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    _FLOAT_MODULE, _dims = nni.ConvBn3d, 3


class ConvBnReLU1d(_Normed, ConvBn1d):
    _FLOAT_MODULE = nni.ConvBnReLU1d


class ConvBnReLU2d(_Normed, ConvBn2d):
    _FLOAT_MODULE = nni.ConvBnReLU2d


class ConvBnReLU3d(_Normed, ConvBn3d):
    _FLOAT_MODULE = nni.ConvBnReLU3d


class ConvReLU1d(_Rectified, nnqat.Conv1d, nni._FusedModule):
    _FLOAT_MODULE = nni.ConvReLU1d


class ConvReLU2d(_Rectified, nnqat.Conv2d, nni._FusedModule):
    _FLOAT_MODULE = nni.ConvReLU2d


class ConvReLU3d(_Rectified, nnqat.Conv3d, nni._FusedModule):
    _FLOAT_MODULE = nni.ConvReLU3d


def update_bn_stats(mod):
    """Let norms beside convolutions find statistics: model.apply(update_bn_stats)."""
    if isinstance(mod, _ConvBnNd):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """Keep the statistics of norms beside convolutions: model.apply(freeze_bn_stats)."""
    if isinstance(mod, _ConvBnNd):
        mod.freeze_bn_stats()
