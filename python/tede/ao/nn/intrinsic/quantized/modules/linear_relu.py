"""A linear layer and an activation."""
import tede
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.quantized.modules.linear import Linear

__all__ = ["LinearReLU", "LinearLeakyReLU", "LinearTanh"]


class LinearReLU(Linear):
    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features, out_features, bias=True, dtype=tede.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        return tede.ops.quantized.linear_relu(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLinearReLU"


class LinearLeakyReLU(Linear):
    _FLOAT_MODULE = nni.LinearLeakyReLU

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=tede.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x):
        return tede.ops.quantized.linear_leaky_relu(x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope)

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def _arguments(cls, mod):
        return mod[1].negative_slope,


class LinearTanh(Linear):
    _FLOAT_MODULE = nni.LinearTanh

    def __init__(self, in_features, out_features, bias=True, dtype=tede.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        return tede.ops.quantized.linear_tanh(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedLinearTanh"
