"""A linear layer and a ReLU."""
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.qat.modules.linear import Linear
from tede.nn import functional as F

__all__ = ["LinearReLU"]


class LinearReLU(Linear, nni._FusedModule):
    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features, out_features, bias=True, qconfig=None):
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input):
        return F.relu(F.linear(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self):
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        return nni.LinearReLU(made, nn.ReLU())
