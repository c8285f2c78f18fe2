"""Batch norms of quantized tensors, with the statistics that training has found."""
import tede
from tede import nn

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    _operator = None

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", tede.tensor(1.0, device=device))
        self.register_buffer("zero_point", tede.tensor(0, device=device))

    def _get_name(self):
        return "Quantized" + type(self).__name__

    def _check_input_dim(self, input):
        if len(input.shape) != self._dims:
            raise ValueError(f"Input shape must be `(N, C, {', '.join('DHW'[5 - self._dims:])})`!")

    def forward(self, input):
        return getattr(tede.ops.quantized, self._operator)(input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
                                                           float(self.scale), int(self.zero_point))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        after = mod.activation_post_process
        if isinstance(mod, nn.Sequential):
            mod = mod[0]
        made = cls(mod.num_features, mod.eps)
        made.weight, made.bias, made.running_mean, made.running_var = mod.weight, mod.bias, mod.running_mean, mod.running_var
        made.scale, made.zero_point = after.calculate_qparams()
        return made

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        made = cls(bn.num_features, bn.eps, device=bn.weight.device, dtype=bn.weight.dtype)
        made.weight, made.bias, made.running_mean, made.running_var = bn.weight, bn.bias, bn.running_mean, bn.running_var
        made.scale, made.zero_point = output_scale, output_zero_point
        return made


class BatchNorm2d(_BatchNorm):
    _dims, _operator = 4, "batch_norm2d"


class BatchNorm3d(_BatchNorm):
    _dims, _operator = 5, "batch_norm3d"
