"""A convolution, to whose result a second input is added."""
import tede
from tede.ao.nn.quantized.modules import conv as nnq

__all__ = ["ConvAdd2d", "ConvAddReLU2d"]


class ConvAdd2d(nnq.Conv2d):
    def forward(self, input, extra_input):
        return tede.ops.quantized.conv2d_add(self._padded(input), extra_input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedConvAdd2d"


class ConvAddReLU2d(nnq.Conv2d):
    def forward(self, input, extra_input):
        return tede.ops.quantized.conv2d_add_relu(self._padded(input), extra_input, self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedConvAddReLU2d"
