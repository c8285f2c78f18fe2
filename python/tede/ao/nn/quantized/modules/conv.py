"""Convolutions with quantized weights. One class for all dimensions has what they do; those of a dimension say which operators."""
import tede
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.nn import functional as F

from .utils import WeightedQuantizedModule, _quantize_weight, load_numbers, observed, place_output, state_numbers, tuple_of

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING = {"zeros", "reflect"}


def _reverse_repeat_padding(padding):
    """Padding as `pad` takes it: both ends, the last dimension first."""
    return [n for n in reversed(padding) for _ in range(2)]


class _ConvNd(WeightedQuantizedModule):
    _dims, _operator = 0, None
    _ARGUMENTS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 device=None, dtype=None):
        n = self._dims
        padding = padding if isinstance(padding, str) else tuple_of(n, padding)
        self._init(in_channels, out_channels, tuple_of(n, kernel_size), tuple_of(n, stride), padding, tuple_of(n, dilation), False,
                   (0,) * n, groups, bias, padding_mode, device, dtype)

    def _init(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
              padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode not in _PADDING:
            raise ValueError(f"'padding_mode' {padding_mode} is not supported by quantized convolution")
        self.in_channels, self.out_channels, self.kernel_size, self.stride = in_channels, out_channels, kernel_size, stride
        self.padding, self.dilation, self.transposed, self.output_padding = padding, dilation, transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        shape = [in_channels, out_channels // groups] if transposed else [out_channels, in_channels // groups]
        integers = tede.zeros(shape + list(kernel_size), dtype=tede.int8, device=device)
        self.set_weight_bias(tede._make_per_tensor_quantized_tensor(integers, 1.0, 0),
                             tede.zeros(out_channels, dtype=tede.float, device=device) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    # ---- packed weights

    def _prepack(self, weight, bias, padding):
        pack = getattr(tede.ops.quantized, self._operator + "_prepack")
        between = [list(self.output_padding)] if self.transposed else []
        return pack(weight, bias, list(self.stride), list(padding), *between, list(self.dilation), self.groups)

    def set_weight_bias(self, w, b):
        padding = (0,) * self._dims if self.padding_mode != "zeros" else self.padding        # others pad before
        self._packed_params = self._prepack(w, b, padding)

    def _weight_bias(self):
        return getattr(tede.ops.quantized, self._operator + "_unpack")(self._packed_params)

    def weight(self):
        return self._weight_bias()[0]

    def bias(self):
        return self._weight_bias()[1]

    # ---- the layer

    def _padded(self, input):
        if input.dim() != self._dims + 2:
            raise ValueError(f"Input shape must be `(N, C{', ' * 1}{', '.join('DHW'[-self._dims:] if self._dims > 1 else 'L')})`!")
        if self.padding_mode == "zeros":
            return input
        return F.pad(input, _reverse_repeat_padding(self.padding), mode=self.padding_mode)

    def forward(self, input):
        return getattr(tede.ops.quantized, self._operator)(self._padded(input), self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return f"QuantizedConv{self._dims}d"

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, scale={self.scale}, " \
               f"zero_point={self.zero_point}"
        for name, usual in (("padding", (0,) * len(self.padding)), ("dilation", (1,) * len(self.dilation)),
                            ("output_padding", (0,) * len(self.output_padding)), ("groups", 1)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text + (", bias=False" if self.bias() is None else "")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        state_numbers(destination, prefix, self)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.set_weight_bias(state_dict[prefix + "weight"], state_dict[prefix + "bias"])
        state_dict.pop(prefix + "weight")
        state_dict.pop(prefix + "bias")
        load_numbers(state_dict, prefix, self)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    # ---- from other layers

    @classmethod
    def get_qconv(cls, mod, activation_post_process, weight_post_process=None):
        """The quantized form of a convolution, with what its observers have found."""
        of_weight = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        of_weight(mod.weight)
        if of_weight.dtype is not tede.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        between = (mod.output_padding, mod.groups, mod.bias is not None, mod.dilation) if mod.transposed else (
            mod.dilation, mod.groups, mod.bias is not None)
        made = cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, *between, mod.padding_mode)
        made.set_weight_bias(_quantize_weight(mod.weight.float(), of_weight), mod.bias)
        if activation_post_process is None or activation_post_process.dtype is tede.float:
            return made             # dynamic
        return place_output(made, activation_post_process)

    @classmethod
    def _float_classes(cls):
        n = cls._dims
        return [cls._FLOAT_MODULE, getattr(nni, f"ConvReLU{n}d"), *((nni.ConvAdd2d, nni.ConvAddReLU2d) if n == 2 else ())]

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if not hasattr(mod, "weight_fake_quant"):
            cls._check_class(mod, cls._float_classes())
        return cls.get_qconv(*observed(mod))

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        made = cls(**{name: getattr(ref_qconv, name) for name in cls._ARGUMENTS}, bias=ref_qconv.bias is not None)
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class Conv1d(_ConvNd):
    """``(batch, channels, length)``."""
    _dims, _operator, _FLOAT_MODULE = 1, "conv1d", nn.Conv1d


class Conv2d(_ConvNd):
    """``(batch, channels, height, width)``."""
    _dims, _operator, _FLOAT_MODULE = 2, "conv2d", nn.Conv2d


class Conv3d(_ConvNd):
    """``(batch, channels, depth, height, width)``."""
    _dims, _operator, _FLOAT_MODULE = 3, "conv3d", nn.Conv3d


class _ConvTransposeNd(_ConvNd):
    _ARGUMENTS = (*_ConvNd._ARGUMENTS, "output_padding")

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._dims
        self._init(in_channels, out_channels, tuple_of(n, kernel_size), tuple_of(n, stride), tuple_of(n, padding), tuple_of(n, dilation), True,
                   tuple_of(n, output_padding), groups, bias, padding_mode, device, dtype)

    def _get_name(self):
        return f"QuantizedConvTranspose{self._dims}d"

    @classmethod
    def _float_classes(cls):
        return [cls._FLOAT_MODULE]


class ConvTranspose1d(_ConvTransposeNd):
    _dims, _operator, _FLOAT_MODULE = 1, "conv_transpose1d", nn.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    _dims, _operator, _FLOAT_MODULE = 2, "conv_transpose2d", nn.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    _dims, _operator, _FLOAT_MODULE = 3, "conv_transpose3d", nn.ConvTranspose3d
