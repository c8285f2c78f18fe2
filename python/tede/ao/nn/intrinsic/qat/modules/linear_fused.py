"""A linear layer and a batch norm, trained together."""
import tede
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.intrinsic.qat.modules._norm import _WithNorm
from tede.nn import functional as F
from tede.nn.utils.fusion import fuse_linear_bn_weights

__all__ = ["LinearBn1d"]


class LinearBn1d(_WithNorm, nn.Linear, nni._FusedModule):
    """What is rounded is the weight with the norm's factors, as it will be once they are one; see conv_fused."""

    def __init__(self, in_features, out_features, bias=True, eps=1e-5, momentum=0.1, freeze_bn=False, qconfig=None):
        nn.Linear.__init__(self, in_features, out_features, bias)
        self._begin(nn.BatchNorm1d(out_features, eps, momentum, True, True), freeze_bn, qconfig)

    def forward(self, input):
        if self.bn.running_var is None:
            raise AssertionError("LinearBn1d: the batch norm has no running statistics")
        factor = self.bn.weight / tede.sqrt(self.bn.running_var + self.bn.eps)
        scaled = self.weight_fake_quant(self.weight * factor.reshape(-1, 1))
        out = F.linear(input, scaled, tede.zeros_like(self.bias) if self.bias is not None else tede.zeros(self.out_features, device=scaled.device))
        out = out / factor.reshape(1, -1)
        if self.bias is not None:
            out = out + self.bias.reshape(1, -1)
        return self.bn(out)

    def _fused(self):
        bn = self.bn
        return fuse_linear_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if type(mod) is not nni.LinearBn1d:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for LinearBn1d")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid config")
        linear, bn = mod[0], mod[1]
        return cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, mod.qconfig)._take(linear, bn)

    def to_float(self):
        made = nn.Linear(self.in_features, self.out_features)
        made.weight, made.bias = self._fused()
        return made
