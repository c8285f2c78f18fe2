"""Names of PyTorch's extension, torch._C, that Python has here: they are looked up when they are read."""
import importlib

from tede import _C
from tede._compat import SECTIONS, stand_in
from tede._schema_types import NAMES as SCHEMA_TYPES

# Names that other modules have under another name; None: the module itself. Those under the same name are in names.txt.
_ELSEWHERE = {
    "_ExcludeDispatchKeyGuard": ("_keys", "ExcludeDispatchKeyGuard"), "ExcludeDispatchKeyGuard": ("_keys", "ExcludeDispatchKeyGuard"),
    "_dispatch_has_kernel_for_dispatch_key": ("_registry", "has_kernel"), "_functorch": ("func._interpreters", None),
    "_jit_get_all_schemas": ("_ops", "all_schemas"),
    "_autograd": ("autograd._extension", None), "_profiler": ("profiler", None), "_VariableFunctions": ("_VF", None),
    "_VariableFunctionsClass": ("_VF", None)}
_ELSEWHERE.update({name: ("_schema_types", name) for name in SCHEMA_TYPES})
_ELSEWHERE.update(dict.fromkeys(("Graph", "Node", "Value"), ("jit", "ScriptObject")))       # TorchScript's, in annotations


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


def _infer_size(a, b):
    """The sizes that two tensors of these are broadcast to."""
    import tede
    return tede.broadcast_shapes(a, b)


def _warn():
    """A warning, for tests of how warnings are shown."""
    import warnings
    warnings.warn("Test message for TORCH_WARN", UserWarning, stacklevel=2)


def _warn_deprecation():
    import warnings
    warnings.warn("Test message for TORCH_WARN_DEPRECATION", DeprecationWarning, stacklevel=2)


def _set_bit(x, on, is_on, view):
    from tede.utils._python_dispatch import no_dispatch
    if is_on(x) != on:
        with no_dispatch(), _C.DisableTorchFunctionSubclass():
            x.data = view(x.detach())


def _set_conj(x, on):
    """Say that a tensor's elements are to be read as conjugates, or as they are."""
    _set_bit(x, on, _C.Tensor.is_conj, _C.Tensor._conj)


def _set_neg(x, on):
    """Say that a tensor's elements are to be read as their negatives, or as they are."""
    _set_bit(x, on, _C.Tensor.is_neg, _C.Tensor._neg_view)


class _TensorBaseMeta(type(_C.Tensor)):
    """TensorBase stands for Tensor where programs name PyTorch's base of it: in isinstance, and to find methods."""

    def __new__(meta, name, bases, content):
        if bases:
            raise RuntimeError("Cannot subclass _TensorBase directly")
        return super().__new__(meta, name, bases, content)

    def __call__(cls, *args, **kwargs):
        raise RuntimeError("Cannot directly construct TensorBase; subclass it and then construct that")

    def __instancecheck__(cls, x):
        return isinstance(x, _C.Tensor)

    def __subclasscheck__(cls, kind):
        return kind is cls or issubclass(kind, _C.Tensor)

    def __getattr__(cls, name):
        return getattr(_C.Tensor, name)


class TensorBase(metaclass=_TensorBaseMeta):
    """The base of Tensor in PyTorch; here it is Tensor itself that the extension defines."""


def _backends():
    import tede
    return tede.backends


def _is_torch_function_mode_enabled():
    """Whether a TorchFunctionMode is active."""
    return len(_C._torch_function_stack()) > 0


_HERE = {
    "TensorBase": TensorBase, "_set_conj": _set_conj, "_set_neg": _set_neg, "_warn": _warn, "_warn_deprecation": _warn_deprecation,
    "_set_fwd_grad_enabled": _C._set_forward_enabled, "_is_fwd_grad_enabled": _C._is_forward_enabled,
    "_are_functorch_transforms_active": lambda: _C._transform_level() > 0,
    "_infer_size": _infer_size, "_is_alias_of": _is_alias_of, "_overlaps": _is_alias_of,
    "_get_accelerator": _get_accelerator, "_get_default_device": _get_default_device,
    "_is_torch_function_mode_enabled": _is_torch_function_mode_enabled, "_get_cudnn_enabled": lambda: _backends().cudnn.enabled}


def find(name):
    """The object that torch._C has under a name."""
    if name in _HERE:
        return _HERE[name]
    if name in SECTIONS["_extension"].names:
        return stand_in("_extension", name)
    if name in ("_debug_only_are_vmap_fallback_warnings_enabled", "_debug_only_display_vmap_fallback_warnings"):
        importlib.import_module("tede.func._vmap")
        return _C._get_vmap_fallback_warning_enabled if "_are_" in name else _C._set_vmap_fallback_warning_enabled
    if name not in _ELSEWHERE:
        raise AttributeError(f"module '{_C.__name__}' has no attribute '{name}'")
    path, within = _ELSEWHERE[name]
    module = importlib.import_module("tede." + path)
    return getattr(module, within) if within else module


def operator(name):
    """Operators of torch._C._nn and torch._C._linalg that aren't there: functions that say so."""
    if name == "_parse_to":
        return importlib.import_module("tede.nn.modules.module")._parse_to
    if name.startswith("mkldnn_"):
        return getattr(importlib.import_module("tede._onednn"), name)
    found = None if name.startswith("__") else stand_in("_VF", name)
    if found is None:
        raise AttributeError(f"there is no operator '{name}'")
    return found
