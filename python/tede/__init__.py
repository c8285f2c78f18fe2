"""tede: PyTorch's design in C, with PyTorch's Python API.  ``import tede as torch``.

This file only gathers names: the operators and types of the extension, and what Python adds to them.  Importing it
must stay cheap, so submodules are loaded when they are first named, and nothing here imports typing or inspect.
"""
import sys as _sys
from builtins import int as _int

from tede import _C as _C
from tede._C import *                     # noqa: F403  types, dtypes, factories
from tede._C import Tensor as Tensor, is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled

__version__ = "0.1.0"

globals().update(_C._functions)           # every operator that is a function
_C._set_search_path(":".join(filter(None, _sys.path)))             # where a device may find NVIDIA's packages
from tede._override import overridable as _overridable          # noqa: E402
from tede import _tensor                  # noqa: E402  gives Tensor the methods that are written in Python
from tede._parameter import Parameter as Parameter       # noqa: E402
from tede._modes import (                 # noqa: E402
    enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, promotion as promotion,
    set_grad_enabled as set_grad_enabled, set_promotion as set_promotion)
from tede._C import get_promotion        # noqa: E402,F401
from math import e as e, inf as inf, nan as nan, pi as pi      # noqa: E402

newaxis = None

TYPE_CHECKING = False
if TYPE_CHECKING:       # what __getattr__ loads when it is first named
    from typing import Any
    from tede import (                    # "as" says that the names are for users, too
        amp as amp, autograd as autograd, distributions as distributions, fft as fft, func as func, fx as fx, gguf as gguf, linalg as linalg,
        masked as masked, multiprocessing as multiprocessing, nn as nn, optim as optim, overrides as overrides,
        profiler as profiler, random as random, safetensors as safetensors, sparse as sparse, special as special,
        testing as testing, utils as utils)
    from tede._compat import backends as backends, cuda as cuda, jit as jit
    from tede.amp import autocast as autocast
    from tede.config import get_include as get_include
    from tede.serialization import load as load, save as save
    from tede.functional import *  # noqa: F403

_sys.modules["tede.return_types"] = _C.return_types

__path__.append(__path__[0] + "/_compat")       # noqa: F405  what exists so that other people's programs import: files, ...


class _StandIns:
    """... and lines of names.txt."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("tede."):
            from tede import _compat
            return _compat.find_spec(name)


_sys.meta_path.append(_StandIns)

_SUBMODULES = frozenset((
    "nn", "optim", "autograd", "linalg", "fft", "special", "utils", "random", "testing", "functional", "overrides",
    "safetensors", "gguf", "serialization", "_ops", "backends", "cuda", "distributions", "amp", "signal", "masked", "sparse",
    "__config__", "_vmap_internals", "array_api", "compiler", "xpu", "mtia", "cpu", "accelerator", "export", "nested", "futures", "storage", "torch_version",
    "as_torch", "_utils", "profiler", "distributed", "library", "__future__", "_functorch",
    "_custom_op", "explain", "memory", "tracer", "func", "jit", "types", "mps", "version", "onnx", "hub", "multiprocessing", "fx", "_tensor_str",
    "_dynamo", "_guards", "_higher_order_ops", "_library", "ao", "classes", "monitor", "quasirandom", "quantization", "package", "_subclasses", "_VF", "config",
))
# Functions that Python writes, and the module that has them; those over operators whose entry says `python: written` are in functional.
_WRITTEN = dict.fromkeys(("unique", "broadcast_shapes", "unravel_index", "histogramdd"), "functional")
_WRITTEN.update({name: "storage" for name in (
    "UntypedStorage", "TypedStorage", "Storage", "DoubleStorage", "FloatStorage", "HalfStorage", "LongStorage", "IntStorage",
    "ShortStorage", "CharStorage", "ByteStorage", "BoolStorage", "BFloat16Storage", "ComplexDoubleStorage", "QInt8Storage", "QUInt8Storage", "QInt32Storage",
    "QUInt4x2Storage", "QUInt2x4Storage", "ComplexFloatStorage")})
_WRITTEN.update({name: "_checks" for name in (
    "_assert_tensor_metadata",
    "_assert", "_assert_async", "_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented", "_check_with",
    "_check_tensor_all", "_check_tensor_all_with", "_check_is_size")})
_WRITTEN.update(DispatchKey="_keys", DispatchKeySet="_keys", PyTorchFileReader="_C", PyTorchFileWriter="_C")
_WRITTEN.update({name: "amp" for name in (
    "autocast", "GradScaler", "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
    "is_autocast_cache_enabled", "set_autocast_cache_enabled", "autocast_increment_nesting", "autocast_decrement_nesting",
    "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_")})
_WRITTEN.update({name: "_odds" for name in (
    "_tensor_classes", "_storage_classes", "_debug_has_internal_overlap",
    "SymInt", "SymFloat", "SymBool", "AcceleratorError", "classproperty", "has_lapack", "has_spectral", "has_openmp",
    "has_mkl", "has_mkldnn", "USE_GLOBAL_DEPS", "USE_RTLD_GLOBAL_WITH_LIBTORCH", "legacy_contiguous_format",
    "get_file_path", "from_file", *(f"set_autocast_{kind}_{what}" for kind in ("cpu", "gpu", "ipu", "xla")
                                                             for what in ("dtype", "enabled")),
    *(name for kind in ("ipu", "xla") for name in (f"get_autocast_{kind}_dtype", f"is_autocast_{kind}_enabled")))})
_WRITTEN.update({name: "_schema_types" for name in (
    "Type", *(kind + "Type" for kind in ("Any", "Bool", "Complex", "DeviceObj", "Float", "Int", "None", "Number", "PyObject", "StreamObj",
                                         "String", "SymBool", "SymInt", "Tensor", "Optional", "List", "Tuple", "Dict", "Future",
                                         "Await", "RRef")))})
_WRITTEN.update(Tag="_tags", cond="_higher_order_ops", while_loop="_higher_order_ops", Stream="_C", Event="_C", _register_device_module="_devices", Future="futures")
_WRITTEN.update(strict_views="explain", batch_invariant="_modes", graph="_graph", lu="_lowrank", svd_lowrank="_lowrank", pca_lowrank="_lowrank",
                lobpcg="_lobpcg", compile="compiler", TorchVersion="torch_version", save="serialization", load="serialization",
                fork_rng="random", vmap="func", _nnpack_available="_VF", load_device="_devices", get_include="config")
_WRITTEN.update({name: "_quantized" for name in ("qscheme", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric",
                                                  "per_channel_symmetric", "per_channel_affine_float_qparams")})
_WRITTEN.update({f"quantized_{name}": "_quantized_ops" for name in ("lstm", "gru", "batch_norm", "max_pool1d", "max_pool2d", "max_pool3d")})
_WRITTEN.update(dict.fromkeys(("choose_qparams_optimized", "_choose_qparams_per_tensor", "_saturate_weight_to_fp16"), "_quantized_ops"))
_WRITTEN.update({name: "_subclasses.functional_tensor" for name in (
    "_to_functional_tensor", "_from_functional_tensor", "_is_functional_tensor", "_enable_functionalization", "_disable_functionalization", "_sync",
    "_freeze_functional_tensor")})
_WRITTEN.update(spmm="sparse", dsmm="sparse", hsmm="sparse", saddmm="sparse")
_WRITTEN.update({f"sparse_{name}_tensor": "sparse" for name in ("coo", "csr", "csc", "bsr", "bsc", "compressed")})
_WRITTEN.update({name: "jit" for name in ("ScriptModule", "ScriptFunction", "ScriptMethod", "ScriptObject", "CompilationUnit",
                                          "RecursiveScriptClass")})
_WRITTEN.update({name: "_numbers" for name in (
    "set_float32_matmul_precision", "get_float32_matmul_precision", "sym_int", "sym_float", "sym_not", "sym_ite", "sym_max",
    "sym_min", "sym_sum", "sym_sqrt", "eig", "symeig", "solve", "lstsq", "matrix_rank")})
_WRITTEN.update({name: "_onednn" for name in ("_mkldnn", "mkldnn_convolution", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mkldnn_adaptive_avg_pool2d",
                                              "_mkldnn_reshape", "_mkldnn_transpose", "_mkldnn_transpose_")})


class _Missing(AttributeError):
    """No such name; the nearest one is looked for only when somebody reads the message."""

    def __str__(self):
        from difflib import get_close_matches
        near = get_close_matches(self.args[0], __dir__(), 1, 0.75)
        return f"module '{__name__}' has no attribute '{self.args[0]}'" + (f". Did you mean: '{near[0]}'?" if near else "")


_Missing.__module__, _Missing.__qualname__, _Missing.__name__ = "builtins", "AttributeError", "AttributeError"


def __getattr__(name: str) -> "Any":
    if name in _WRITTEN:
        try:
            value = getattr(_import("tede." + _WRITTEN[name]), name)
        except (ModuleNotFoundError, AttributeError):
            raise _Missing(name) from None
        if name == "Storage":           # which follows the default dtype
            return value
    elif name in _SUBMODULES:
        try:
            value = _import("tede." + name)
        except ModuleNotFoundError as error:
            if error.name != "tede." + name:
                raise
            raise _Missing(name) from None
    elif name in _C._operators and hasattr(_import("tede.functional"), name):
        value = getattr(_import("tede.functional"), name)
    elif name in _LEGACY:
        value = _tensor.legacy_type(name)
    elif name == "torch":               # PyTorch's package imports itself
        value = _sys.modules[__name__]
    elif name == "ops":
        value = _import("tede._ops").ops
    elif name == "__all__":             # what a star takes: all but the modules, with what is loaded when it is named
        return [n for n in __dir__() if n[0] != "_" and n != "TYPE_CHECKING" and type(globals().get(n)) is not type(_sys) and n not in _SUBMODULES]
    elif not name.startswith("_") and _C._registered(name) is not None:
        value = _C._registered(name)        # a dtype or layout from outside
    else:
        raise _Missing(name)
    globals()[name] = value
    return value


_C.__getattr__ = lambda name: _import("tede._extension").find(name)
_C._nn.__getattr__ = _C._linalg.__getattr__ = lambda name: _import("tede._extension").operator(name)


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_WRITTEN, *_LEGACY, *_import("tede.functional").__all__, "nonzero"})


def _import(name):
    __import__(name)
    return _sys.modules[name]


_LEGACY = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
           "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
           "BoolTensor": "bool"}


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a Tensor; ``isinstance(obj, tede.Tensor)`` says the same.

    >>> tede.is_tensor([1])
    False
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether `obj` is a storage.

    >>> tede.is_storage(tede.ones(1).untyped_storage())
    True
    """
    return isinstance(obj, _C.StorageBase) or hasattr(obj, "_untyped_storage")


@_overridable
def is_floating_point(input: Tensor) -> bool:
    """Whether the tensor's dtype is a floating point one; complex ones aren't.

    >>> tede.is_floating_point(tede.ones(1))
    True
    """
    return input.is_floating_point()


@_overridable
def is_complex(input: Tensor) -> bool:
    """Whether the tensor's dtype is complex.

    >>> tede.is_complex(tede.tensor(1j))
    True
    """
    return input.is_complex()


@_overridable
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is conjugated when it is read, as `x.conj()` is.

    >>> tede.is_conj(tede.tensor([1j]).conj())
    True
    """
    return input.is_conj()


@_overridable
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is negated when it is read, as the imaginary part of a conjugate is.

    >>> tede.is_neg(tede.tensor([1j]).conj().imag)
    True
    """
    return input.is_neg()


@_overridable
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in `inference_mode`.

    >>> tede.is_inference(tede.ones(1))
    False
    """
    return input.is_inference()


@_overridable
def is_signed(input: Tensor) -> bool:
    """Whether the tensor's dtype has negative numbers.

    >>> tede.is_signed(tede.tensor([1], dtype=tede.uint8))
    False
    """
    return input.is_signed()


@_overridable
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape.

    >>> tede.is_same_size(tede.ones(2), tede.zeros(2))
    True
    """
    return input.is_same_size(other)


def is_distributed(input: Tensor) -> bool:
    """False: no tensor is spread over processes by itself; DTensors are a class.

    >>> tede.is_distributed(tede.ones(1))
    False
    """
    return False


@_overridable
def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is zero; True for dtypes without one.

    >>> tede.isreal(tede.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    return input.isreal()


def detach_(input):
    """``input.detach_()``: the tensor, cut from what it was computed from, in place.

    >>> tede.detach_(tede.ones(2)).requires_grad
    False
    """
    return input.detach_()


@_overridable
def get_device(input: Tensor) -> int:
    """The number of the tensor's device, -1 on the CPU.

    >>> tede.get_device(tede.ones(1))
    -1
    """
    return input.get_device()


def set_default_tensor_type(t):
    """Choose the default dtype by a type's name or class; prefer `set_default_dtype`.

    >>> tede.set_default_tensor_type("torch.FloatTensor")
    """
    import warnings
    warnings.warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
                  "torch.set_default_device() as alternatives.", stacklevel=2)
    if isinstance(t, str):
        package, _, name = t.rpartition(".")
        t = getattr(__getattr__("cuda"), name) if package == "torch.cuda" else __getattr__(name)
    if type(t) is not _tensor._Legacy:
        from tede.cuda import _AbsentType
        if isinstance(t, _AbsentType):
            t()         # says which type isn't there
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    _C.set_default_dtype(t.dtype)


def set_flush_denormal(mode):
    """Whether numbers too small for a normal exponent are computed as zero; gives whether the processor can do that.

    >>> tede.set_flush_denormal(False)
    False
    """
    return False


@_overridable
def numel(input: Tensor) -> int:
    """The number of elements.

    >>> tede.numel(tede.ones(2, 3))
    6
    """
    return input.numel()


def typename(obj: object) -> str:
    """"torch.FloatTensor" for a tensor, the name of a class or function, else that of the object's class.

    >>> tede.typename([])
    'list'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__
    return f"{module}.{name}" if module not in ("builtins", None) else name


_deterministic = [False, False]


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Fill uninitialized memory (see utils.deterministic), and let cuDNN choose only what gives the same results each
    time. Results on the CPU are the same in any case.

        mode: whether.
        warn_only: warn where PyTorch would raise; there is nothing of the kind here.

    >>> tede.use_deterministic_algorithms(True)
    >>> tede.use_deterministic_algorithms(False)
    """
    for name, value in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if value is not True and value is not False:
            raise TypeError(f"_set_deterministic_algorithms(): argument {name} must be bool, not {type(value).__name__}")
    _deterministic[:] = mode, warn_only
    _C._set_deterministic(mode)


def are_deterministic_algorithms_enabled():
    """Whether `use_deterministic_algorithms` is on.

    >>> tede.are_deterministic_algorithms_enabled()
    False
    """
    return _deterministic[0]


def is_deterministic_algorithms_warn_only_enabled():
    """Whether `use_deterministic_algorithms` only warns.

    >>> tede.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _deterministic[1]


def get_deterministic_debug_mode():
    """0, 1 or 2: deterministic algorithms off, with warnings, with errors.

    >>> tede.get_deterministic_debug_mode()
    0
    """
    return 0 if not _deterministic[0] else 1 if _deterministic[1] else 2


def set_deterministic_debug_mode(debug_mode):
    """0 or "default", 1 or "warn", 2 or "error": deterministic algorithms off, with warnings, with errors.

    >>> tede.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (str, _int)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    level = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        levels = "one of `default`, `warn`, `error`" if isinstance(level, str) else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected {levels}, but got {level}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)




def set_warn_always(b):
    """Whether warnings given once per process are given each time.

    >>> tede.set_warn_always(False)
    """
    if b is not True and b is not False:
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _C._set_warn_always(b)


def is_warn_always_enabled():
    """Whether warnings given once per process are given each time.

    >>> tede.is_warn_always_enabled()
    False
    """
    return _C._warns_always()


def get_device_module(device=None):
    """The module of a device's kind: tede.cpu, tede.cuda, ...

        device: a device or its name; None is the accelerator there is, else the CPU.

    >>> tede.get_device_module("cpu").__name__
    'tede.cpu'
    """
    if device is None:
        kind = str(__getattr__("accelerator").current_accelerator() or "cpu")
    else:
        kind = _C.device(device).type
    module = globals().get(kind)
    try:
        return module if module is not None else __getattr__(kind)
    except AttributeError:
        raise RuntimeError(f"Invalid device module '{kind}'") from None


def compiled_with_cxx11_abi():
    """True: PyTorch's question about its C++ library, of which there is none here.

    >>> tede.compiled_with_cxx11_abi()
    True
    """
    return True


def is_vulkan_available():
    """False: there is no such device here.

    >>> tede.is_vulkan_available()
    False
    """
    return False


def is_autocast_cpu_enabled():
    """Whether `autocast` is on, on the CPU.

    >>> tede.is_autocast_cpu_enabled()
    False
    """
    return __getattr__("amp").is_autocast_enabled("cpu")


def get_autocast_cpu_dtype():
    """The dtype of `autocast` on the CPU.

    >>> tede.get_autocast_cpu_dtype()
    tede.bfloat16
    """
    return __getattr__("amp").get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """The dtype of `autocast` on CUDA.

    >>> tede.get_autocast_gpu_dtype()
    tede.float16
    """
    return __getattr__("amp").get_autocast_dtype("cuda")


def init_num_threads():
    """Nothing to do: there are threads when they are needed.

    >>> tede.init_num_threads()
    """


def get_num_interop_threads():
    """How many threads operators run on beside each other; kept for PyTorch's name: there is one pool of threads.

    >>> tede.get_num_interop_threads() >= 1
    True
    """
    return 1


def set_num_interop_threads(n):
    """Kept for PyTorch's name: there is one pool of threads.

    >>> tede.set_num_interop_threads(2)
    """
    if not isinstance(n, _int) or n is True or n is False:
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    if n >= 2**63:
        raise ValueError("Overflow when unpacking long long")
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


result_type = _tensor.result_type
