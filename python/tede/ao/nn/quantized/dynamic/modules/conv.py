"""Convolutions with quantized weights, of floats."""
import warnings

import tede
from tede.ao.nn.quantized.modules import conv as nnq

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    """What is quantized with the input's range is the result, too, which loses what is outside: PyTorch warns of these layers."""

    def __init__(self, *args, reduce_range=True, **kwargs):
        warnings.warn(f"The current implementation of the {self._get_name()} module has poor numerical accuracy and its use is not recommended",
                      stacklevel=2)
        super().__init__(*args, **kwargs)

    def _get_name(self):
        return "Dynamic" + super()._get_name()

    def forward(self, input, reduce_range=True):
        return getattr(tede.ops.quantized, self._operator + "_dynamic")(self._padded(input), self._packed_params, reduce_range)


class Conv1d(_Dynamic, nnq.Conv1d):
    pass


class Conv2d(_Dynamic, nnq.Conv2d):
    pass


class Conv3d(_Dynamic, nnq.Conv3d):
    pass


class ConvTranspose1d(_Dynamic, nnq.ConvTranspose1d):
    pass


class ConvTranspose2d(_Dynamic, nnq.ConvTranspose2d):
    pass


class ConvTranspose3d(_Dynamic, nnq.ConvTranspose3d):
    pass
