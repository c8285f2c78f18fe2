"""What quantized layers have in common."""
import abc

import tede
from tede import nn
from tede.nn.utils.parametrize import type_before_parametrizations

__all__ = ["WeightedQuantizedModule"]


class WeightedQuantizedModule(nn.Module, metaclass=abc.ABCMeta):
    """Layers with a quantized weight."""

    @classmethod
    @abc.abstractmethod
    def from_reference(cls, ref_module, output_scale, output_zero_point):
        raise NotImplementedError

    @classmethod
    def _check_class(cls, mod, kinds):
        kinds = kinds if isinstance(kinds, (tuple, list)) else (kinds,)
        if type_before_parametrizations(mod) not in kinds:
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {[kind.__name__ for kind in kinds]}, but got: "
                                 f"{type_before_parametrizations(mod)}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")


def _quantize_weight(float_wt, observer):
    """A weight with the scale that its observer has found, its integers in the observer's range: a moving one may have left some elements out."""
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (tede.per_tensor_symmetric, tede.per_tensor_affine):
        made = tede.quantize_per_tensor(float_wt, float(scale), int(zero_point), tede.qint8)
    elif observer.qscheme in (tede.per_channel_symmetric, tede.per_channel_affine):
        made = tede.quantize_per_channel(float_wt, scale.to(tede.double), zero_point.to(tede.int64), observer.ch_axis, tede.qint8)
    elif observer.qscheme is tede.per_channel_affine_float_qparams:
        return tede.quantize_per_channel(float_wt, scale.to(tede.float), zero_point.to(tede.float), observer.ch_axis, observer.dtype)
    else:
        raise ValueError(f"Unexpected qscheme {observer.qscheme}")
    least, most = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    if least is None or most is None or (least <= -128 and most >= 127):
        return made
    integers = made.int_repr().clamp(least, most)
    if made.qscheme() is tede.per_tensor_affine:
        return tede._make_per_tensor_quantized_tensor(integers, made.q_scale(), made.q_zero_point())
    return tede._make_per_channel_quantized_tensor(integers, made.q_per_channel_scales(), made.q_per_channel_zero_points(), made.q_per_channel_axis())


def observed(mod):
    """(float layer, observer of what it gives, observer of its weight): of a layer, one of several in one, or one with fake quantization.

    A batch norm that is trained beside the layer becomes part of its weight."""
    after = getattr(mod, "activation_post_process", None)
    if hasattr(mod, "weight_fake_quant"):
        if hasattr(mod, "_fold"):
            mod._fold()
        return mod, after, mod.weight_fake_quant
    if isinstance(mod, nn.Sequential):
        mod = mod[0]
    return mod, after, mod.qconfig.weight()


def place_output(layer, observer):
    """The scale and zero point of what a layer gives."""
    scale, zero_point = observer.calculate_qparams()
    layer.scale, layer.zero_point = float(scale), int(zero_point)
    return layer


def repr_without(module, hidden):
    """A module's repr, without the children of a class."""
    lines = module.extra_repr().split("\n") if module.extra_repr() else []
    children = []
    for name, child in module._modules.items():
        if not isinstance(child, hidden):
            children.append(f"({name}): " + repr(child).replace("\n", "\n  "))
    inner = lines + children
    if len(inner) == 1 and not children:
        return f"{module._get_name()}({inner[0]})"
    return f"{module._get_name()}(" + ("\n  " + "\n  ".join(inner) + "\n" if inner else "") + ")"


def _hide_packed_params_repr(self, params):
    return repr_without(self, params)


def tuple_of(n, x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,) * n


def state_numbers(destination, prefix, layer):
    """A layer's scale and zero point as PyTorch writes them: tensors."""
    destination[prefix + "scale"] = tede.tensor(layer.scale)
    destination[prefix + "zero_point"] = tede.tensor(layer.zero_point)


def load_numbers(state_dict, prefix, layer):
    layer.scale = float(state_dict.pop(prefix + "scale"))
    layer.zero_point = int(state_dict.pop(prefix + "zero_point"))
