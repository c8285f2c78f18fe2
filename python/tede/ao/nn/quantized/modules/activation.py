"""Activations of quantized tensors."""
import tede
from tede import nn
from tede.ao.nn import _steps
from tede.ao.nn.quantizable.modules import activation as quantizable

__all__ = ["ReLU6", "Hardswish", "ELU", "LeakyReLU", "Sigmoid", "Softmax", "MultiheadAttention", "PReLU"]


def _numbers(observer):
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


class ReLU6(nn.ReLU):
    def __init__(self, inplace=False):
        super().__init__(inplace)
        self.inplace = inplace

    def forward(self, input):
        return tede.ops.quantized.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return ReLU6(mod.inplace)


class Hardswish(nn.Hardswish):
    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        self.register_buffer("scale", tede.tensor(scale, device=device, dtype=dtype))
        self.register_buffer("zero_point", tede.tensor(zero_point, device=device, dtype=dtype))

    def forward(self, input):
        return tede.ops.quantized.hardswish(input, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return Hardswish(*_numbers(mod.activation_post_process))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point))


class ELU(nn.ELU):
    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        return tede.ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return ELU(*_numbers(mod.activation_post_process), mod.alpha)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(nn.LeakyReLU):
    def __init__(self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        self.register_buffer("scale", tede.tensor(scale, device=device, dtype=dtype))
        self.register_buffer("zero_point", tede.tensor(zero_point, device=device, dtype=dtype))

    def forward(self, input):
        return tede.ops.quantized.leaky_relu(input, self.negative_slope, self.inplace, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_numbers(mod.activation_post_process), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input):
        return tede.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_numbers(mod.activation_post_process))


class Softmax(nn.Softmax):
    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__(dim)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        dim = self.dim
        if dim is None:         # as nn.functional.softmax chooses it
            dim = 0 if input.dim() in (0, 1, 3) else 1
        return tede.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return Softmax(mod.dim, *_numbers(mod.activation_post_process))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.dim, float(scale), int(zero_point))


class MultiheadAttention(quantizable.MultiheadAttention):
    """What `convert` makes of an observed `nn.quantizable.MultiheadAttention`."""
    _FLOAT_MODULE = quantizable.MultiheadAttention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        raise NotImplementedError("It looks like you are trying to convert a non-observed MHA module. Please, see the examples on "
                                  "quantizable MHAs.")

    @classmethod
    def from_observed(cls, other):
        made = _steps.convert_as(other, cls)
        for name in ("bias_k", "bias_v"):
            given = getattr(made, name)
            delattr(made, name)
            setattr(made, name, None if given is None else tede.quantize_per_tensor_dynamic(given.detach(), tede.quint8, False))
        for name in ("in_proj_weight", "in_proj_bias"):         # the linear layers have them
            made._parameters.pop(name)
        return made


class PReLU(nn.Module):
    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        self.set_weight(tede.quantize_per_tensor(tede.zeros(num_parameters), scale=1.0, zero_point=0, dtype=tede.quint8))

    def set_weight(self, w):
        self.weight = w

    def forward(self, input):
        return tede.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    def _quantize(self, weight, observer):
        observer(weight)
        self.set_weight(tede.quantize_per_tensor(weight, *_numbers(observer), tede.quint8))
        return self

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_numbers(mod.activation_post_process), mod.num_parameters)._quantize(mod.weight.detach().float(), mod.qconfig.weight())

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point), mod.num_parameters)._quantize(mod.weight.detach().float(), mod.qconfig.weight())
