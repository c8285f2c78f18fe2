"""Linear layers with quantized weights."""
import tede
from tede import nn
from tede.nn.modules.linear import NonDynamicallyQuantizableLinear

from .utils import WeightedQuantizedModule, _quantize_weight, load_numbers, observed, place_output, repr_without, state_numbers

__all__ = ["LinearPackedParams", "Linear"]


class LinearPackedParams(nn.Module):
    """The weight and the bias, packed for the operators."""
    _version = 3

    def __init__(self, dtype=tede.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype is tede.qint8:
            weight = tede._empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=tede.qint8)
        elif dtype is tede.float16:
            weight = tede.zeros([1, 1], dtype=tede.float)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight, bias):
        pack = tede.ops.quantized.linear_prepack if self.dtype is tede.qint8 else tede.ops.quantized.linear_prepack_fp16
        self._packed_params = pack(weight, bias)

    def _weight_bias(self):
        return tede.ops.quantized.linear_unpack(self._packed_params)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Version 1 was a quantized weight and a bias, 2 says the dtype, 3 has both in a pair."""
        version = local_metadata.get("version")
        self.dtype = tede.qint8 if version is None or version < 2 else state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        else:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """``x @ weight.T + bias`` of quantized tensors; the result has the layer's `scale` and `zero_point`."""
    _version = 3
    _FLOAT_MODULE = (nn.Linear, NonDynamicallyQuantizableLinear)

    def __init__(self, in_features, out_features, bias_=True, dtype=tede.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = tede.zeros(out_features, dtype=tede.float) if bias_ else None
        if dtype is tede.qint8:
            weight = tede._make_per_tensor_quantized_tensor(tede.zeros(out_features, in_features, dtype=tede.int8), 1.0, 0)
        elif dtype is tede.float16:
            weight = tede.zeros([out_features, in_features], dtype=tede.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, zero_point={self.zero_point}, "
                f"qscheme={self.weight().qscheme()}")

    def __repr__(self):
        return repr_without(self, LinearPackedParams)

    def forward(self, x):
        return tede.ops.quantized.linear(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        state_numbers(destination, prefix, self)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        load_numbers(state_dict, prefix, self)
        version = local_metadata.get("version")
        if version is None or version == 1:         # the weight was the layer's own
            weight, bias = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            state_dict.update({prefix + "_packed_params.weight": weight, prefix + "_packed_params.bias": bias})
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        return self._weight_bias()[0]

    def bias(self):
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b):
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def _arguments(cls, mod):
        """What a layer is made with, besides its sizes."""
        return ()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized form of an observed layer."""
        if not hasattr(mod, "weight_fake_quant"):
            cls._check_class(mod, cls._FLOAT_MODULE)
        whole, (mod, after, of_weight) = mod, observed(mod)
        if not use_precomputed_fake_quant:
            of_weight(mod.weight)
        if of_weight.dtype is not tede.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        made = cls(mod.in_features, mod.out_features, *cls._arguments(whole), dtype=of_weight.dtype)
        made.set_weight_bias(_quantize_weight(mod.weight.float(), of_weight), mod.bias)
        return place_output(made, after)

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        """The quantized form of a layer that computes with floats what integers stand for."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made
