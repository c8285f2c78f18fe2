"""A batch norm and a ReLU."""
from tede.ao.nn.quantized.modules import batchnorm as nnq

__all__ = ["BNReLU2d", "BNReLU3d"]


class BNReLU2d(nnq.BatchNorm2d):
    _operator = "batch_norm2d_relu"

    def _get_name(self):
        return "QuantizedBNReLU2d"


class BNReLU3d(nnq.BatchNorm3d):
    _operator = "batch_norm3d_relu"

    def _get_name(self):
        return "QuantizedBNReLU3d"
