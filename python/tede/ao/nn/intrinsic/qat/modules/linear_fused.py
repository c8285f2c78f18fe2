"""A linear layer and a batch norm, trained together."""
import tede
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.nn import functional as F
from tede.nn.utils.fusion import fuse_linear_bn_weights

__all__ = ["LinearBn1d"]


class LinearBn1d(nn.Linear, nni._FusedModule):
    """What is rounded is the weight with the norm's factors, as it will be once they are one; see conv_fused."""

    def __init__(self, in_features, out_features, bias=True, eps=1e-5, momentum=0.1, freeze_bn=False, qconfig=None):
        nn.Linear.__init__(self, in_features, out_features, bias)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        self.reset_bn_parameters()
        self.freeze_bn_stats() if self.training and freeze_bn else self.update_bn_stats()
        if not self.training:
            self.freeze_bn_stats()

    def reset_running_stats(self):
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def update_bn_stats(self):
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        self.freeze_bn = True
        self.bn.training = False
        return self

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

    def train(self, mode=True):
        """The norm stays as it is while it is frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def _fold(self):
        """The norm becomes part of the weight."""
        bn = self.bn
        self.weight, self.bias = fuse_linear_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if type(mod) is not nni.LinearBn1d:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for LinearBn1d")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid config")
        linear, bn = mod[0], mod[1]
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, mod.qconfig)
        made.weight, made.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self):
        made = nn.Linear(self.in_features, self.out_features)
        bn = self.bn
        made.weight, made.bias = fuse_linear_bn_weights(self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
        return made
