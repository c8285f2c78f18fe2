"""A convolution and a ReLU."""
import tede
from tede.ao.nn.quantized.modules import conv as nnq

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d"]


class _ReLU:
    def forward(self, input):
        return getattr(tede.ops.quantized, self._operator + "_relu")(self._padded(input), self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return f"QuantizedConvReLU{self._dims}d"


class ConvReLU1d(_ReLU, nnq.Conv1d):
    pass


class ConvReLU2d(_ReLU, nnq.Conv2d):
    pass


class ConvReLU3d(_ReLU, nnq.Conv3d):
    pass
