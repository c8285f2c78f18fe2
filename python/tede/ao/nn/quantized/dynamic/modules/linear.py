"""Linear layers with weights of 8 bits or float16."""
import tede
from tede import nn
from tede.ao.nn.intrinsic.modules import fused as nni
from tede.ao.nn.quantized.modules.linear import Linear as _Linear
from tede.ao.nn.quantized.modules.utils import _quantize_weight, observed
from tede.ao.quantization.qconfig import default_dynamic_qconfig
from tede.nn.modules.linear import NonDynamicallyQuantizableLinear

__all__ = ["Linear"]


class Linear(_Linear):
    """``x @ weight.T + bias`` of floats: activations are quantized to 7 bits, as the products of PyTorch's kernels have it."""
    _version = 4
    _FLOAT_MODULE = (nn.Linear, NonDynamicallyQuantizableLinear, nni.LinearReLU)

    def __init__(self, in_features, out_features, bias_=True, dtype=tede.qint8):
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x):
        packed = self._packed_params._packed_params
        if self._packed_params.dtype is tede.float16:
            return tede.ops.quantized.linear_dynamic_fp16(x, packed)
        return tede.ops.quantized.linear_dynamic(x, packed, reduce_range=self.version is not None and self.version >= 4)

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is tede.qint8 else "")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.version = local_metadata.get("version")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer with its weight quantized; without a qconfig to 8 bits."""
        if not hasattr(mod, "weight_fake_quant"):
            cls._check_class(mod, cls._FLOAT_MODULE)
        if not hasattr(mod, "weight_fake_quant") and mod.qconfig is not None and mod.qconfig.weight is not None:
            layer, _, observer = observed(mod)
        else:
            layer, observer = mod[0] if isinstance(mod, nn.Sequential) else mod, default_dynamic_qconfig.weight()
        if observer.dtype not in (tede.qint8, tede.float16):
            raise AssertionError("The only supported dtypes for dynamic quantized linear are qint8 and float16 got: " + str(observer.dtype))
        observer(layer.weight)
        weight = _quantize_weight(layer.weight.float(), observer) if observer.dtype is tede.qint8 else layer.weight.float()
        made = cls(layer.in_features, layer.out_features, dtype=observer.dtype)
        made.set_weight_bias(weight, layer.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear):
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made
