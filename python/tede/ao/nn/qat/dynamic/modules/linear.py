"""The linear layer for dynamic quantization after training."""
import tede
from tede.ao.nn.qat.modules import linear as nnqat

__all__ = ["Linear"]


class Linear(nnqat.Linear):
    """Activations must be quantized as they come, from the last tensor alone."""

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        activation = qconfig.activation()
        inner = getattr(activation, "activation_post_process", activation)
        if activation.dtype is not tede.float and getattr(inner, "averaging_constant", None) != 1:
            raise ValueError("Dynamic QAT requires a memoryless observer.This means a MovingAverage observer with averaging constant equal to 1")
