"""Norms of quantized tensors: each is of the float layer's class, with the scale and zero point of what it gives."""
import tede
from tede import nn

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


def _place(layer, weight, bias, scale, zero_point, device, dtype):
    layer.weight, layer.bias = weight, bias
    layer.register_buffer("scale", tede.tensor(scale, device=device, dtype=dtype))
    layer.register_buffer("zero_point", tede.tensor(zero_point, device=device, dtype=dtype))


def _numbers(mod):
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


class LayerNorm(nn.LayerNorm):
    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine, device=device, dtype=dtype)
        _place(self, weight, bias, scale, zero_point, device, dtype)

    def forward(self, input):
        return tede.ops.quantized.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.normalized_shape, mod.weight, mod.bias, *_numbers(mod), mod.eps, mod.elementwise_affine)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.elementwise_affine)


class GroupNorm(nn.GroupNorm):
    def __init__(self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        _place(self, weight, bias, scale, zero_point, device, dtype)

    def forward(self, input):
        return tede.ops.quantized.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *_numbers(mod), mod.eps, mod.affine)


class _InstanceNorm:
    """What the three dimensions share."""

    def __init__(self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
                 device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        _place(self, weight, bias, scale, zero_point, device, dtype)

    def forward(self, input):
        return tede.ops.quantized.instance_norm(input, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.num_features, mod.weight, mod.bias, *_numbers(mod), mod.eps, mod.affine)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.affine)


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    pass


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    pass


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    pass
