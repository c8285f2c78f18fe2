"""Ranges of integers, and what a qconfig says of dtypes."""
import inspect
import warnings

import tede

from .quant_type import QuantType

__all__ = ["activation_dtype", "activation_is_dynamically_quantized", "activation_is_int32_quantized",
           "activation_is_int8_quantized", "activation_is_statically_quantized", "calculate_qmin_qmax", "check_min_max_valid",
           "determine_qparams", "get_combined_dict", "get_fqn_to_example_inputs", "get_qconfig_dtypes", "get_qparam_dict", "get_quant_type",
           "get_swapped_custom_module_class", "getattr_from_fqn", "has_no_children_ignoring_parametrizations", "is_per_channel",
           "is_per_tensor", "op_is_int8_dynamically_quantized", "to_underlying_dtype", "validate_qmin_qmax", "weight_dtype",
           "weight_is_quantized", "weight_is_statically_quantized"]

_RANGES = {"qint8": (-128, 127), "int8": (-128, 127), "quint8": (0, 255), "uint8": (0, 255), "qint32": (-2**31, 2**31 - 1),
           "int32": (-2**31, 2**31 - 1), "int16": (-2**15, 2**15 - 1), "uint16": (0, 2**16 - 1)}
_HALVED = ("qint8", "int8", "quint8", "uint8")          # the dtypes for which reduce_range leaves out a bit


def _name(dtype):
    return str(dtype).rpartition(".")[2]


def range_of(dtype):
    """(least, largest) integer; of quint4x2 where the dtype isn't a whole number of bytes."""
    return _RANGES.get(_name(dtype), (0, 15))


def is_per_tensor(qscheme):
    return qscheme in (tede.per_tensor_affine, tede.per_tensor_symmetric)


def is_per_channel(qscheme):
    return qscheme in (tede.per_channel_affine, tede.per_channel_affine_float_qparams, tede.per_channel_symmetric)


def is_symmetric(qscheme):
    return qscheme in (tede.per_tensor_symmetric, tede.per_channel_symmetric)


def to_underlying_dtype(qdtype):
    """The dtype of the integers of a quantized one."""
    table = {tede.quint8: tede.uint8, tede.qint8: tede.int8, tede.qint32: tede.int32, tede.quint4x2: tede.uint8, tede.quint2x4: tede.uint8}
    if qdtype not in table:
        raise AssertionError("Unsupported dtype: " + str(qdtype))
    return table[qdtype]


def validate_qmin_qmax(quant_min, quant_max):
    """That a range of integers has zero in it, and more than that."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if quant_min >= quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """The range of integers that is used: the caller's, or the dtype's; `reduce_range` leaves out a bit."""
    if not has_customized_qrange:
        least, most = range_of(dtype)
        return (least // 2, most // 2) if reduce_range and _name(dtype) in _HALVED else (least, most)
    least, most = range_of(dtype)
    if quant_min is None:
        quant_min, quant_max = least, most
    if _name(dtype) in ("qint8", "int8", "quint8", "uint8", "qint32", "int32"):
        count = quant_max - quant_min + 1
        if not 0 < count <= (2**31 if _name(dtype) in ("qint32", "int32") else 256):
            raise AssertionError(f"quantization range should be positive and not exceed the maximum bit range (={most - least + 1}).")
    return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)


def check_min_max_valid(min_val, max_val):
    """Whether an observer has seen something; an error where the least value is above the largest."""
    if min_val.numel() == 0 or max_val.numel() == 0 or min_val.dim() == 0 and float(min_val) == float("inf") and float(max_val) == -float("inf"):
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
        return False
    if not bool((min_val <= max_val).all()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


def _one(x):
    return x.reshape(1) if x.dim() == 0 else x


def determine_qparams(min_val, max_val, quant_min, quant_max, dtype, eps, has_customized_qrange, qscheme=tede.per_tensor_affine):
    """(scale, zero point) for numbers of a range: zero is always one of them, and exact."""
    if not check_min_max_valid(min_val, max_val):
        return tede.tensor([1.0], device=min_val.device), tede.tensor([0], device=min_val.device)
    zero = tede.zeros_like(min_val)
    least, most = tede.minimum(min_val, zero), tede.maximum(max_val, zero)
    eps = eps.to(min_val.device)
    steps = float(quant_max - quant_min)
    if is_symmetric(qscheme):
        scale = tede.maximum(tede.maximum(-least, most) / (steps / 2), eps)
        middle = 0
        if dtype in (tede.quint8, tede.uint8):
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 128
        elif dtype is tede.uint16:
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 2**15
        zero_point = tede.full(least.size(), middle, dtype=tede.int64, device=min_val.device)
    elif qscheme is tede.per_channel_affine_float_qparams:
        scale = (max_val - min_val) / steps
        scale = tede.where(scale > eps, scale, tede.ones_like(scale))
        zero_point = -1 * min_val / scale
        return _one(scale), _one(zero_point)
    else:
        scale = tede.maximum((most - least) / steps, eps)
        zero_point = (quant_min - tede.round(least / scale).to(tede.int)).clamp(quant_min, quant_max)
    scale, zero_point = _one(scale), _one(zero_point)
    return scale.to(tede.float32) if scale.dtype is tede.float16 else scale, zero_point


# ---- what a qconfig says ---------------------------------------------------------------------------------------------

def _made(constructor):
    if not callable(constructor):
        raise AssertionError("qconfig must be a callable")
    return constructor()


def activation_dtype(qconfig):
    return _made(qconfig.activation).dtype


def weight_dtype(qconfig):
    return _made(qconfig.weight).dtype


def get_qconfig_dtypes(qconfig):
    """(dtype of activations, dtype of weights, whether activations are quantized as they come)."""
    if qconfig is None:
        raise AssertionError("qconfig must be provided to extract dtypes")
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, getattr(activation, "is_dynamic", False)


def activation_is_statically_quantized(qconfig):
    dynamic = getattr(_made(qconfig.activation), "is_dynamic", False)
    return activation_dtype(qconfig) in (tede.quint8, tede.qint8, tede.qint32, tede.float16, tede.uint8, tede.int8, tede.int16, tede.int32,
                                         tede.float8_e5m2, tede.float8_e4m3fn) and not dynamic


def activation_is_dynamically_quantized(qconfig):
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig):
    return activation_dtype(qconfig) in (tede.quint8, tede.qint8, tede.uint8, tede.int8)


def activation_is_int32_quantized(qconfig):
    return activation_dtype(qconfig) in (tede.qint32, tede.int32)


def weight_is_quantized(qconfig):
    return weight_dtype(qconfig) in (tede.quint8, tede.qint8, tede.float16, tede.quint4x2, tede.uint8, tede.int8, tede.int16, tede.int32,
                                     tede.float8_e5m2, tede.float8_e4m3fn)


def weight_is_statically_quantized(qconfig):
    return weight_dtype(qconfig) in (tede.quint8, tede.qint8, tede.uint8, tede.int8)


def op_is_int8_dynamically_quantized(qconfig):
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return activation in (tede.quint8, tede.uint8) and weight in (tede.qint8, tede.int8) and dynamic


# ---- modules ---------------------------------------------------------------------------------------------------------

def get_combined_dict(default_dict, additional_dict):
    return {**default_dict, **additional_dict}


def has_no_children_ignoring_parametrizations(module):
    """Whether a module is a leaf; the modules of parametrizations don't count."""
    if len(module._modules) == 0:
        return True
    return tede.nn.utils.parametrize.is_parametrized(module) and len(module._modules) == 1 and "parametrizations" in module._modules


def device_of(module):
    """The one device of a module's parameters and buffers; None where it has none."""
    devices = {x.device for x in (*module.parameters(), *module.buffers()) if x.device.type != "meta"} \
        or {x.device for x in (*module.parameters(), *module.buffers())}
    if len(devices) > 1:
        raise AssertionError("prepare only works with cpu or single-device CUDA modules, "
                             f"but got devices {', '.join(map(str, devices))}")
    return next(iter(devices), None)


_assert_and_get_unique_device = device_of


def getattr_from_fqn(obj, fqn):
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def get_fqn_to_example_inputs(model, example_inputs):
    """{layer's name: the arguments that it is called with}, defaults included, when the model runs on `example_inputs`."""
    found = {}

    def record(name, module):
        signature = inspect.signature(module.forward)

        def hook(module, args, kwargs):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            found[name] = tuple(bound.arguments.values())
        return module.register_forward_pre_hook(hook, with_kwargs=True)
    handles = [record(name, module) for name, module in model.named_modules()]
    try:
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def get_qparam_dict(observer_or_fake_quant):
    """What an observer has found, by name."""
    found = {"qscheme": getattr(observer_or_fake_quant, "qscheme", None), "dtype": observer_or_fake_quant.dtype}
    if is_per_tensor(found["qscheme"]):
        found["qscheme"] = tede.per_tensor_affine
    elif is_per_channel(found["qscheme"]):
        if found["qscheme"] is tede.per_channel_symmetric:
            found["qscheme"] = tede.per_channel_affine
        found["axis"] = observer_or_fake_quant.ch_axis
    else:
        raise RuntimeError(f"Unrecognized qscheme: {found['qscheme']}")
    found["scale"], found["zero_point"] = observer_or_fake_quant.calculate_qparams()
    for name in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, name):
            found[name] = getattr(observer_or_fake_quant, name)
    return found


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """The class that stands for a custom module's, in a table by kind of quantization."""
    kind = get_quant_type(qconfig)
    table = custom_module_class_mapping.get(kind, {})
    if type(custom_module) not in table:
        raise AssertionError(f"did not find corresponding observed module class for {type(custom_module)} in mapping: {table}")
    return table[type(custom_module)]


def get_quant_type(qconfig):
    """Static, dynamic or of weights only."""
    if qconfig is None:
        raise AssertionError("qconfig must be provided to determine quant type")
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    integers = (tede.quint8, tede.qint8, tede.quint4x2, tede.qint32, tede.uint8, tede.int8, tede.int16, tede.int32)
    if weight in integers:
        if dynamic:
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation in integers else QuantType.WEIGHT_ONLY
    if weight is tede.float16:
        return QuantType.DYNAMIC if dynamic else QuantType.STATIC if activation is tede.float16 else QuantType.WEIGHT_ONLY
    raise RuntimeError(f"Unrecognized dtype combination in get_quant_type: activation({activation}),weight({weight})")
