"""CUDA, truthfully: there is no device here. Questions are answered, requests fail with PyTorch's words."""
from contextlib import contextmanager as _contextmanager

from tede import _C
from tede._C import OutOfMemoryError  # noqa: F401

has_half = has_magma = False
default_generators = ()


def _lazy_init():
    raise AssertionError("Torch not compiled with CUDA enabled")


def _refuse(*args, **kwargs):
    _lazy_init()


def _nothing(*args, **kwargs):
    """Nothing to do without a device."""


def _zero(*args, **kwargs):
    return 0


init = current_device = get_device_name = get_device_capability = get_device_properties = synchronize = mem_get_info = _refuse
current_stream = default_stream = get_rng_state = set_rng_state = ipc_collect = initial_seed = get_sync_debug_mode = _refuse
set_device = set_stream = utilization = temperature = power_draw = _refuse
set_sync_debug_mode = caching_allocator_alloc = caching_allocator_delete = current_blas_handle = _refuse
can_device_access_peer = memory_snapshot = list_gpu_processes = get_allocator_backend = _refuse
manual_seed = manual_seed_all = seed = seed_all = empty_cache = reset_peak_memory_stats = reset_max_memory_allocated = _nothing
reset_accumulated_memory_stats = reset_max_memory_cached = set_per_process_memory_fraction = _nothing
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = _zero
device_count = _zero
for _name in ("init", "current_device", "get_device_name", "get_device_capability", "get_device_properties", "synchronize"):
    globals()[_name].__doc__ = "Fails: there is no CUDA device."
del _name


def is_available():
    """False: there is no CUDA device."""
    return False


def get_rng_state_all():
    """No states of no devices."""
    return []


def set_rng_state_all(new_states):
    """Nothing, if there are no states; else there is no device for them."""
    for _ in new_states:
        _lazy_init()


def is_initialized():
    return False


def _is_compiled():
    return False


def _is_in_bad_fork():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def is_tf32_supported():
    return False


def is_current_stream_capturing():
    return False


def get_arch_list():
    return []


def get_gencode_flags():
    return ""


def memory_stats(device=None):
    from collections import OrderedDict
    return OrderedDict()


def memory_summary(device=None, abbreviated=False):
    return "no CUDA device"


class _Dummy:
    def __new__(cls, *args, **kwargs):
        raise RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support")


class _DummyBase:
    def __new__(cls, *args, **kwargs):
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")


class Stream(_Dummy):
    """Fails: there is no CUDA device."""


class ExternalStream(_Dummy):
    """Fails: there is no CUDA device."""


class CUDAGraph(_DummyBase):
    """Fails: there is no CUDA device."""


class MemPool(_Dummy):
    """Fails: there is no CUDA device."""


class CUDAPluggableAllocator(_Dummy):
    """Fails: there is no CUDA device."""


class GreenContext(_Dummy):
    """Fails: there is no CUDA device."""


class graph(_Dummy):
    """Fails: there is no CUDA device."""


class CudaError(RuntimeError):
    """What a call of CUDA's runtime says."""


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


class Event(_DummyBase):
    """Fails: there is no CUDA device."""


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
        _lazy_init()
    yield


StreamContext = stream


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
    content = {"__module__": "torch.cuda"}
    if name.endswith("Storage"):
        content.update({method: _unavailable(method) for method in ("from_buffer", "_new_with_weak_ptr", "_new_shared_filename")})
    return _AbsentType(name, (), content)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    from tede import _tensor
    if name in ("amp", "nvtx", "random", "memory"):
        import importlib
        import sys
        return importlib.import_module("tede.cuda." + name) if name in ("amp", "nvtx") else sys.modules[__name__]
    if name in ("caching_allocator_disabled caching_allocator_enable change_current_allocator check_error clock_rate cudart "
                "current_solver_handle device_memory_used get_per_process_memory_fraction get_stream_from_external graph_pool_handle "
                "make_graphed_callables memory_usage use_mem_pool").split():
        return _refuse
    if name.endswith(("memory_stats", "memory_stats_as_nested_dict")):
        return _nothing if name.startswith("reset") else memory_stats
    if name.endswith("Storage") and name.removesuffix("Storage") in _tensor._NAMES.values():
        globals()[name] = value = _type(name)
        return value
    if name.endswith("Tensor") and name.removesuffix("Tensor") in _tensor._NAMES.values():
        globals()[name] = value = _type(name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
