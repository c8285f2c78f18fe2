"""Names of PyTorch's extension, torch._C, that Python has here: they are looked up when somebody asks for them."""
import importlib

from tede import _C

# Names that other modules have: the module, and the name within it, if it isn't the module itself.
_ELSEWHERE = {
    "DispatchKey": ("_keys", "DispatchKey"), "DispatchKeySet": ("_keys", "DispatchKeySet"),
    "_ExcludeDispatchKeyGuard": ("_keys", "ExcludeDispatchKeyGuard"), "_WeakTensorRef": ("autograd.graph", "_WeakTensorRef"),
    "PyTorchFileReader": ("_zip", "PyTorchFileReader"), "PyTorchFileWriter": ("_zip", "PyTorchFileWriter"),
    "parse_schema": ("_schema", "parse_schema"), "Tag": ("_odds", "Tag"), "_functorch": ("func._interpreters", None), "_autograd": ("autograd._extension", None),
    "_get_autograd_fallback_mode": ("autograd._extension", "_get_autograd_fallback_mode"),
    "_set_autograd_fallback_mode": ("autograd._extension", "_set_autograd_fallback_mode"),
    "_VariableFunctions": ("_VF", None), "_VariableFunctionsClass": ("_VF", None),
}
_ELSEWHERE.update(dict.fromkeys(("Graph", "Node", "Value"), ("jit", "ScriptObject")))       # TorchScript's, in annotations


def _nothing(*args):
    """Usage isn't reported to anybody; no TorchScript tracer ever runs."""


def _no_fusing(*args):
    """TorchScript's fusers are off, whatever they are told."""
    return False


def _is_alias_of(a, b):
    """Whether two tensors look at the same storage; of lists, whether some of them do."""
    from tede.utils._pytree import tree_leaves
    storages = [x.untyped_storage() for x in tree_leaves(b)]
    return any(x.untyped_storage() is storage for x in tree_leaves(a) for storage in storages)


def _get_accelerator(check=None):
    """The accelerator's device; the processor, where there is none."""
    import tede
    return tede.accelerator.current_accelerator() or tede.device("cpu")


def _get_default_device():
    """The kind of device that factories use."""
    import tede
    return tede.get_default_device().type


def _is_torch_function_mode_enabled():
    """Whether a TorchFunctionMode is active."""
    return len(_C._torch_function_stack()) > 0


_HERE = {
    "_log_api_usage_once": _nothing, "_log_api_usage_metadata": _nothing, "_get_tracing_state": _nothing,
    "_set_fwd_grad_enabled": _C._set_forward_enabled, "_is_fwd_grad_enabled": _C._is_forward_enabled,
    "_are_functorch_transforms_active": lambda: _C._transform_level() > 0,
    "_is_alias_of": _is_alias_of, "_overlaps": _is_alias_of, "_get_accelerator": _get_accelerator, "_get_default_device": _get_default_device,
    "_is_torch_function_mode_enabled": _is_torch_function_mode_enabled,
}
for _name in ("texpr_fuser_enabled", "nvfuser_enabled", "profiling_mode", "profiling_executor"):
    _HERE["_jit_set_" + _name] = _no_fusing
for _name in ("override_can_fuse_on_cpu", "override_can_fuse_on_gpu", "can_fuse_on_cpu", "can_fuse_on_gpu"):
    _HERE["_jit_" + _name] = _no_fusing


def find(name):
    """The object that torch._C has under a name."""
    if name in _HERE:
        return _HERE[name]
    if name in ("_debug_only_are_vmap_fallback_warnings_enabled", "_debug_only_display_vmap_fallback_warnings"):
        importlib.import_module("tede.func._vmap")
        return _C._get_vmap_fallback_warning_enabled if "_are_" in name else _C._set_vmap_fallback_warning_enabled
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'tede._C' has no attribute '{name}'")
    path, within = _ELSEWHERE[name]
    module = importlib.import_module("tede." + path)
    return getattr(module, within) if within else module


def operator(name):
    """Operators of torch._C._nn and torch._C._linalg that aren't there: functions that say so."""
    if name == "_parse_to":
        return importlib.import_module("tede.nn.modules.module")._parse_to
    found = None if name.startswith("__") else importlib.import_module("tede._absent_operators").operator(name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
