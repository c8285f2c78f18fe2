"""Quantized layers."""
import tede
from tede import nn

from tede.nn import MaxPool2d

from .functional_modules import FloatFunctional, FXFloatFunctional, QFunctional  # noqa: I001  before those that are made of layers
from .activation import ELU, Hardswish, LeakyReLU, MultiheadAttention, PReLU, ReLU6, Sigmoid, Softmax
from .batchnorm import BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .dropout import Dropout
from .embedding_ops import Embedding, EmbeddingBag
from .linear import Linear
from .normalization import GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm
from .rnn import LSTM

__all__ = ["BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "DeQuantize",
           "ELU", "Embedding", "EmbeddingBag", "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
           "LeakyReLU", "Linear", "LSTM", "MultiheadAttention", "Quantize", "ReLU6", "Sigmoid", "Softmax", "Dropout", "PReLU", "FloatFunctional",
           "FXFloatFunctional", "QFunctional", "MaxPool2d"]


class Quantize(nn.Module):
    """Floats to integers, with a scale and a zero point that are known."""
    scale: tede.Tensor
    zero_point: tede.Tensor

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        where = nn.factory_kwargs(factory_kwargs)
        self.register_buffer("scale", tede.tensor([scale], **where))
        self.register_buffer("zero_point", tede.tensor([zero_point], dtype=tede.long, **{k: v for k, v in where.items() if k != "dtype"}))
        self.dtype = dtype

    def forward(self, X):
        return tede.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError("Expected a module with an observer of what it gives")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), mod.activation_post_process.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Integers to the floats that they stand for."""

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return DeQuantize()


