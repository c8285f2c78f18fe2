"""CUDA before its device is loaded, and where there is none: queries are answered, requests fail with PyTorch's words (see _compat/names.txt). Asking
whether there is one loads it, and so does what needs one; then tede.cuda is the device's module (_devices.py)."""
from contextlib import contextmanager as _contextmanager
from functools import wraps as _wraps
import sys as _sys

from tede import _C
from tede._C import OutOfMemoryError  # noqa: F401
from tede._compat import SECTIONS as _SECTIONS
from tede._compat import fill as _fill
from tede._titles import TITLES as _TITLES

__all__ = ["BFloat16Storage", "BFloat16Tensor", "BoolStorage", "BoolTensor", "ByteStorage", "ByteTensor", "CUDAGraph",
           "CUDAPluggableAllocator", "CharStorage", "CharTensor", "ComplexDoubleStorage", "ComplexFloatStorage", "CudaError",
           "DeferredCudaCallError", "DoubleStorage", "DoubleTensor", "Event", "ExternalStream", "FloatStorage", "FloatTensor",
           "GreenContext", "HalfStorage", "HalfTensor", "IntStorage", "IntTensor", "LongStorage", "LongTensor", "MemPool", "ShortStorage",
           "ShortTensor", "Stream", "StreamContext", "amp", "caching_allocator_alloc", "caching_allocator_delete",
           "caching_allocator_disabled", "caching_allocator_enable", "can_device_access_peer", "change_current_allocator", "check_error",
           "clock_rate", "cudart", "current_blas_handle", "current_device", "current_solver_handle", "current_stream", "default_generators",
           "default_stream", "device", "device_count", "device_memory_used", "device_of", "empty_cache", "get_allocator_backend",
           "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags",
           "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode",
           "graph", "graph_pool_handle", "has_half", "has_magma", "host_memory_stats", "host_memory_stats_as_nested_dict", "init",
           "initial_seed", "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing", "is_initialized",
           "is_tf32_supported", "list_gpu_processes", "make_graphed_callables", "manual_seed", "manual_seed_all", "max_memory_allocated",
           "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory", "memory_allocated", "memory_cached", "memory_reserved",
           "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_usage", "nvtx", "power_draw",
           "random", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
           "reset_max_memory_cached", "reset_peak_host_memory_stats", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
           "set_per_process_memory_fraction", "set_rng_state", "set_rng_state_all", "set_stream", "set_sync_debug_mode", "stream",
           "synchronize", "temperature", "use_mem_pool", "utilization"]


def _device():
    """The device's module, or None."""
    from tede import _devices
    try:
        return _devices.loaded.get("cuda") or _devices.load_device("cuda")
    except RuntimeError:
        return None


def is_available():
    """Whether there is a CUDA device."""
    module = _device()
    return module is not None and module.is_available()


def device_count():
    module = _device()
    return module.device_count() if module else 0


class CudaError(RuntimeError):
    """What a call of CUDA's runtime says."""


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


class device:
    """A context of a CUDA device; only None and negative indices, which mean nothing, can be entered."""

    def __init__(self, device):
        self.idx = -1 if device is None else device if isinstance(device, int) else (_C.device(device).index or 0)

    def __enter__(self):
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *exception):
        return False


class device_of(device):
    def __init__(self, obj):
        super().__init__(None)


@_contextmanager
def stream(stream):
    """Nothing, for None."""
    if stream is not None:
        _lazy_init()  # noqa: F821
    yield


StreamContext = stream


def memory_stats(device=None):
    from collections import OrderedDict
    return OrderedDict()


class _AbsentType(type):
    """The class of torch.cuda.FloatTensor, ...: names for isinstance, of which nothing can be made."""
    is_cuda, is_xpu, is_sparse = True, False, False

    def __call__(cls, *args, **kwargs):
        raise TypeError(f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled.")

    def __instancecheck__(cls, x):
        return False


def _unavailable(name):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"{name}: Not available for CUDA storage")
    return staticmethod(refuse)


def _type(name):
    stem = name.removesuffix("Storage").removesuffix("Tensor")
    content = {"__module__": "torch.cuda", "dtype": next(getattr(_C, dtype) for dtype, title in _TITLES.items() if title == stem)}
    if name.endswith("Storage"):
        content.update({method: _unavailable(method) for method in ("from_buffer", "_new_with_weak_ptr", "_new_shared_filename")})
    return _AbsentType(name, (), content)


random = memory = _sys.modules[__name__]            # PyTorch's modules of these names
_more = _fill(globals())


def _answered(name, without, skipped=0):
    """What a name does if it is the first use of CUDA: the device's answer, or without one what is said of the name."""
    def call(*args, **kwargs):
        return getattr(_device(), name, without)(*args[skipped:], **kwargs)
    return call


for _name, (_kind, _) in _SECTIONS["cuda"].names.items():
    _said = globals()[_name]
    if _kind == "class":
        _said.__new__ = _answered(_name, _said.__new__, skipped=1)
    elif _kind in ("refuse", "none"):
        globals()[_name] = _wraps(_said)(_answered(_name, _said))


def __getattr__(name):
    if name.endswith(("memory_stats", "memory_stats_as_nested_dict")):
        return empty_cache if name.startswith("reset") else memory_stats  # noqa: F821
    if name.removesuffix("Storage" if name.endswith("Storage") else "Tensor") in _TITLES.values() and name not in _TITLES.values():
        globals()[name] = value = _type(name)
        return value
    return _more(name)
