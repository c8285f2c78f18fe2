"""Eager-mode quantization: `prepare` puts observers behind layers, `convert` exchanges layers for quantized ones."""
import copy
import inspect
import warnings

import tede
from tede import nn
from tede.ao.nn import _steps
from tede.ao.nn import quantizable as nnqa
from tede.ao.nn import quantized as nnq
from tede.ao.nn.intrinsic import _FusedModule
from tede.nn.utils.parametrize import type_before_parametrizations

from .observer import _is_activation_post_process
from .qconfig import (
    _activation_is_memoryless,
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import device_of, has_no_children_ignoring_parametrizations

__all__ = ["get_default_custom_config_dict", "propagate_qconfig_", "add_quant_dequant", "prepare", "quantize", "quantize_dynamic",
           "prepare_qat", "quantize_qat", "convert", "swap_module"]

# Layers made of layers, and what stands for which of the caller's own classes.
_DEFAULT_CUSTOM_CONFIG_DICT = {
    "float_to_observed_custom_module_class": {nn.LSTM: nnqa.LSTM, nn.MultiheadAttention: nnqa.MultiheadAttention},
    "observed_to_quantized_custom_module_class": {nnqa.LSTM: nnq.LSTM, nnqa.MultiheadAttention: nnq.MultiheadAttention}}


def get_default_custom_config_dict():
    return _DEFAULT_CUSTOM_CONFIG_DICT


# ---- qconfigs --------------------------------------------------------------------------------------------------------

def _propagate_qconfig_helper(module, qconfig_dict, qconfig_parent=None, prefix="", prepare_custom_config_dict=None):
    qconfig = qconfig_dict.get(type_before_parametrizations(module), qconfig_parent)
    qconfig = qconfig_dict.get(prefix, qconfig)
    qconfig = getattr(module, "qconfig", qconfig)
    _assert_valid_qconfig(qconfig, module)
    module.qconfig = qconfig = _add_module_to_qconfig_obs_ctr(qconfig, module)
    config = prepare_custom_config_dict or {}
    for name, child in module.named_children():
        if name in config.get("non_traceable_module_name", ()) or type(child) in config.get("non_traceable_module_class", ()):
            continue
        _propagate_qconfig_helper(child, qconfig_dict, qconfig, f"{prefix}.{name}" if prefix else name)


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Give each module a `qconfig`: its own, that of its name or class in the dict, or its parent's."""
    _propagate_qconfig_helper(module, qconfig_dict or {}, prepare_custom_config_dict=prepare_custom_config_dict)


def _has_qconfig(module):
    return getattr(module, "qconfig", None) is not None


# ---- observers -------------------------------------------------------------------------------------------------------

def _observer_forward_hook(self, input, output):
    """What a module gives, as its observer gives it."""
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


def _register_activation_post_process_hook(module, pre_hook=False):
    if not hasattr(module, "activation_post_process"):
        raise AssertionError("Expect activation_post_process attribute already attached to the module")
    if pre_hook:
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _make_observer(qconfig, device, special=None):
    observer = qconfig.activation() if special is None else special()
    return observer if device is None else observer.to(device)


def _add_observer_(module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None, custom_module_class_mapping=None):
    """Observers behind a module's leaves."""
    classes = get_default_qconfig_propagation_list() if qconfig_propagation_list is None else qconfig_propagation_list
    custom = custom_module_class_mapping or {}
    device = device_of(module) if device is None else device

    def insert(module, special=None):
        if _has_qconfig(module) and not isinstance(module, DeQuantStub):
            module.add_module("activation_post_process", _make_observer(module.qconfig, device, special))
            _register_activation_post_process_hook(module, pre_hook=_activation_is_memoryless(module.qconfig))

    for name, child in module.named_children():
        kind = type_before_parametrizations(child)
        if kind is nn.Dropout:          # it gives what it got
            continue
        if issubclass(kind, (nnq.FloatFunctional, nnq.QFunctional)):
            if _has_qconfig(child):
                child.activation_post_process = _make_observer(child.qconfig, device)
        elif isinstance(child, _FusedModule):
            insert(child)
        elif non_leaf_module_list is not None and kind in non_leaf_module_list:
            insert(child)
        elif _has_special_act_post_process(child):
            insert(child, _get_special_act_post_process(child))
        elif _has_qconfig(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            if not issubclass(custom[kind], tuple(no_observer_set())):
                insert(observed)
        else:
            _add_observer_(child, classes, non_leaf_module_list, device, custom)
    if has_no_children_ignoring_parametrizations(module) and not isinstance(module, nn.Sequential) \
            and type_before_parametrizations(module) in classes:
        insert(module)
    # A layer with fake quantization of its weight has a child, and is observed all the same.
    if hasattr(module, "weight_fake_quant") and not isinstance(module, nn.Sequential) and type_before_parametrizations(module) in classes:
        insert(module)


def add_quant_dequant(module):
    """Each leaf with a qconfig between two stubs."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None, prepare_custom_config_dict=None):
    """The model with observers: run it on data like that of its use, then `convert`.

    Which layers are observed, and by what, says their attribute `qconfig` or that of a module above."""
    config = get_default_custom_config_dict() if prepare_custom_config_dict is None else prepare_custom_config_dict
    custom = config.get("float_to_observed_custom_module_class", {})
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(hasattr(module, "qconfig") and module.qconfig for module in model.modules()):
        warnings.warn("None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by "
                      "assigning the `.qconfig` attribute directly on submodules", stacklevel=2)
    _add_observer_(model, allow_list or get_default_qconfig_propagation_list(), observer_non_leaf_module_list, custom_module_class_mapping=custom)
    return model


def _remove_activation_post_process(module):
    if hasattr(module, "activation_post_process") and _is_activation_post_process(module.activation_post_process):
        delattr(module, "activation_post_process")
    for hooks, ours in ((module._forward_pre_hooks, _observer_forward_pre_hook), (module._forward_hooks, _observer_forward_hook)):
        for handle in [handle for handle, hook in hooks.items() if hook is ours]:
            hooks.pop(handle)


def _remove_qconfig(module):
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


# ---- whole programs --------------------------------------------------------------------------------------------------

def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """`prepare`, ``run_fn(model, *run_args)`` and `convert`."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, get_default_static_quant_module_mappings() if mapping is None else mapping, inplace=True)
    return model


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)


def _dynamic_qconfigs(spec, dtype):
    """Class or name -> qconfig."""
    if spec is None:
        kinds = {tede.qint8: (_DYNAMIC, default_dynamic_qconfig), tede.float16: (_DYNAMIC, float16_dynamic_qconfig),
                 tede.quint8: ((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig),
                 tede.quint4x2: ((nn.EmbeddingBag,), float_qparams_weight_only_qconfig_4bit)}
        if dtype not in kinds:
            raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
        classes, qconfig = kinds[dtype]
        return dict.fromkeys(classes, qconfig)
    if not isinstance(spec, set):
        return spec
    by_dtype = {tede.qint8: default_dynamic_qconfig, tede.float16: float16_dynamic_qconfig, tede.quint8: float_qparams_weight_only_qconfig,
                tede.quint4x2: float_qparams_weight_only_qconfig_4bit}
    if dtype not in by_dtype:
        raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
    return dict.fromkeys(spec, by_dtype[dtype])


def quantize_dynamic(model, qconfig_spec=None, dtype=tede.qint8, mapping=None, inplace=False):
    """The model with quantized weights; activations are quantized as they come, and results are floats.

    ``quantize_dynamic(model, {nn.Linear}, dtype=tede.qint8)``; qconfig_spec may say a qconfig for classes and names, too."""
    spec = _dynamic_qconfigs(qconfig_spec, dtype)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, spec)
    convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping, inplace=True)
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """The model with fake quantization of weights and activations, for training; then `convert`."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model, qconfig_dict=None)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    prepare(model, observer_non_leaf_module_list=set(mapping.values()), inplace=True)
    return model


def quantize_qat(model, run_fn, run_args, inplace=False):
    """`prepare_qat`, ``run_fn(model, *run_args)``, which trains, and `convert`."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    convert(model, inplace=True)
    return model


# ---- layers exchanged ------------------------------------------------------------------------------------------------

def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False, convert_custom_config_dict=None,
            use_precomputed_fake_quant=False):
    """The model with quantized layers in place of those that have a qconfig and are in the mapping."""
    if is_reference:
        raise NotImplementedError("convert: is_reference=True is for quantization by graphs, which isn't here")
    if not inplace:
        module = copy.deepcopy(module)
    config = get_default_custom_config_dict() if convert_custom_config_dict is None else convert_custom_config_dict
    _convert(module, mapping, config, use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module, mapping, config, precomputed):
    mapping = get_default_static_quant_module_mappings() if mapping is None else mapping
    custom = config.get("observed_to_quantized_custom_module_class", {})
    made = {}
    for name, child in module.named_children():
        # A fused layer is exchanged as a whole.
        if not isinstance(child, _FusedModule) and type_before_parametrizations(child) not in custom:
            _convert(child, mapping, config, precomputed)
        made[name] = swap_module(child, mapping, custom, precomputed)
    module._modules.update(made)


def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """What stands for one module, with its hooks; itself, if it has no qconfig or isn't in the mapping."""
    kind = type_before_parametrizations(mod)
    if not _has_qconfig(mod) or kind not in custom_module_class_mapping and kind not in mapping:
        return mod
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    else:
        of = mapping[kind].from_float
        takes = "use_precomputed_fake_quant" in inspect.signature(of).parameters
        made = of(mod, use_precomputed_fake_quant=use_precomputed_fake_quant) if takes else of(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    devices = {x.device for x in (*mod.parameters(), *mod.buffers())}
    if len(devices) > 1 and not (len(devices) == 2 and tede.device("meta") in devices):
        raise AssertionError(f"swap_module only works with cpu or single-device CUDA modules, but got devices {devices}")
    device = next((device for device in devices if device.type != "meta"), None)
    return made if device is None else made.to(device)


def _get_observer_dict(mod, target_dict, prefix=""):
    """All observers of a model, by name."""
    dotted = prefix + "." if prefix else ""
    if hasattr(mod, "activation_post_process"):
        target_dict[dotted + "activation_post_process"] = mod.activation_post_process
    for name, child in mod.named_children():
        _get_observer_dict(child, target_dict, dotted + name)


_steps.prepare, _steps.prepare_qat, _steps.convert = prepare, prepare_qat, convert
