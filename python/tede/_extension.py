"""Names of PyTorch's extension, torch._C, that Python has here: they are looked up when somebody asks for them."""
import importlib

from tede import _C
from tede._schema_types import NAMES as SCHEMA_TYPES

# Names that other modules have: the module, and the name within it, if it isn't the module itself.
_ELSEWHERE = {
    "DispatchKey": ("_keys", "DispatchKey"), "DispatchKeySet": ("_keys", "DispatchKeySet"),
    "_ExcludeDispatchKeyGuard": ("_keys", "ExcludeDispatchKeyGuard"), "_WeakTensorRef": ("autograd.graph", "_WeakTensorRef"),
    "PyTorchFileReader": ("_zip", "PyTorchFileReader"), "PyTorchFileWriter": ("_zip", "PyTorchFileWriter"),
    "parse_schema": ("_schema", "parse_schema"), "Tag": ("_odds", "Tag"), "_functorch": ("func._interpreters", None), "_autograd": ("autograd._extension", None),
    "_get_autograd_fallback_mode": ("autograd._extension", "_get_autograd_fallback_mode"),
    "_set_autograd_fallback_mode": ("autograd._extension", "_set_autograd_fallback_mode"),
    "_profiler": ("profiler", None), "_VariableFunctions": ("_VF", None), "_VariableFunctionsClass": ("_VF", None),
}
_ELSEWHERE.update({name: ("_schema_types", name) for name in SCHEMA_TYPES})
_ELSEWHERE.update(Future=("futures", "Future"), FunctionSchema=("_schema", "FunctionSchema"), Argument=("_schema", "Argument"))
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


def _warn():
    """A warning, for tests of how warnings are shown."""
    import warnings
    warnings.warn("Test message for TORCH_WARN", UserWarning, stacklevel=2)


def _warn_deprecation():
    import warnings
    warnings.warn("Test message for TORCH_WARN_DEPRECATION", DeprecationWarning, stacklevel=2)


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


# What PyTorch was built with.
_HERE = dict.fromkeys(("_has_cuda", "_has_cudnn", "_has_cusparselt", "_has_distributed", "_has_eigen_sparse", "_has_kleidiai", "_has_magma",
                       "_has_mkldnn", "_has_mkldnn_acl", "_has_mps", "_has_xpu", "has_mkl", "has_openmp"), False)
_HERE.update(TensorBase=TensorBase, _warn=_warn, _warn_deprecation=_warn_deprecation)
_HERE.update(dict.fromkeys(("has_lapack", "has_spectral"), True))
_HERE.update({
    "_log_api_usage_once": _nothing, "_log_api_usage_metadata": _nothing, "_get_tracing_state": _nothing,
    "_set_fwd_grad_enabled": _C._set_forward_enabled, "_is_fwd_grad_enabled": _C._is_forward_enabled,
    "_are_functorch_transforms_active": lambda: _C._transform_level() > 0,
    "_is_alias_of": _is_alias_of, "_overlaps": _is_alias_of, "_get_accelerator": _get_accelerator, "_get_default_device": _get_default_device,
    "_is_torch_function_mode_enabled": _is_torch_function_mode_enabled, "_is_tracing": lambda: False,
    "_get_cudnn_enabled": lambda: _backends().cudnn.enabled, "_get_privateuse1_backend_name": lambda: "privateuseone",
    "_set_math_sdp_allow_fp16_bf16_reduction": _nothing, "_get_math_sdp_allow_fp16_bf16_reduction": lambda: False,
})
for _name in ("texpr_fuser_enabled", "nvfuser_enabled", "nvfuser_guard_mode", "profiling_mode", "profiling_executor"):
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
        raise AttributeError(f"module '{_C.__name__}' has no attribute '{name}'")
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
