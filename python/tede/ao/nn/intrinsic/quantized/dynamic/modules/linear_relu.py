"""A linear layer with quantized weights and a ReLU."""
import tede
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.quantized.dynamic.modules.linear import Linear

__all__ = ["LinearReLU"]


class LinearReLU(Linear):
    _FLOAT_MODULE = nni.LinearReLU

    def __init__(self, in_features, out_features, bias=True, dtype=tede.qint8):
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x):
        packed = self._packed_params._packed_params
        if self._packed_params.dtype is tede.float16:
            return tede.ops.quantized.linear_relu_dynamic_fp16(x, packed)
        return tede.ops.quantized.linear_relu_dynamic(x, packed, reduce_range=True)

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"
