"""torch.accelerator: the current accelerator, which is the first device that was loaded by tede.load_device."""
import sys

__all__ = ["Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index",
           "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated",
           "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
           "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize"]


def _module():
    devices = sys.modules.get("tede._devices")
    return devices.only() if devices else None


def _there():
    module = _module()
    if module is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return module


def _index(device):
    """An index of the accelerator, of what names one; None is the current one."""
    if device is None or isinstance(device, int):
        return device
    import tede
    device = tede.device(device)
    if device.type != _there()._name:
        raise ValueError(f"{device.type} doesn't match the current accelerator {_there()._name}.")
    return device.index


def is_available():
    return _module() is not None


def device_count():
    module = _module()
    return module.device_count() if module else 0


def current_accelerator(check_available=False):
    """The device without an index; None if there is no accelerator."""
    import tede
    module = _module()
    return tede.device(module._name) if module else None


def current_device_index():
    return _there().current_device()


def set_device_index(device, /):
    _there().set_device(_index(device))


def synchronize(device=None, /):
    """Wait for all work that was queued on the device."""
    _there().synchronize(_index(device))


def current_stream(device=None, /):
    """Where this thread's calls to the device go."""
    from tede import _C
    return _C._stream_current(_there()._of(_index(device)))


def set_stream(stream):
    """This thread's calls to the stream's device go to it from now on, and the device is the current one."""
    _there().set_stream(stream)


def get_device_capability(device=None, /):
    """{"supported_dtypes": those that the device computes in}."""
    from tede import _C
    module = _there()
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"]
    if module.get_device_properties(_index(device)).has_float64:
        names.append("float64")
    return {"supported_dtypes": {getattr(_C, name) for name in names}}


class device_index:
    """Within it the accelerator's current index is this one; None changes nothing."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            self._before = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *exception):
        if self.idx is not None:
            set_device_index(self._before)


current_device_idx, set_device_idx = current_device_index, set_device_index


# ---- memory

def empty_cache():
    """Return what is kept for reuse to the devices."""
    _there().empty_cache()


def empty_host_cache():
    """Return page-locked memory that nobody uses to the devices."""
    from tede import _C
    _there()
    _C._pinned_empty_cache()


def memory_stats(device=None, /):
    """The allocator's statistics, by PyTorch's names."""
    return _there().memory_stats(_index(device))


def memory_allocated(device=None, /):
    """Bytes in tensors."""
    return _there().memory_allocated(_index(device))


def max_memory_allocated(device=None, /):
    return _there().max_memory_allocated(_index(device))


def memory_reserved(device=None, /):
    """Bytes that were taken from the device: in tensors, and kept for the next ones."""
    return _there().memory_reserved(_index(device))


def max_memory_reserved(device=None, /):
    return _there().max_memory_reserved(_index(device))


def reset_peak_memory_stats(device=None, /):
    _there().reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device=None, /):
    _there().reset_accumulated_memory_stats(_index(device))


def get_memory_info(device=None, /):
    """(free, total) bytes, as the device says."""
    return _there().mem_get_info(_index(device))


class Graph:
    """A recording of an accelerator's work."""

    def __new__(cls, *args, **kwargs):
        _there()
        raise NotImplementedError("work of devices from outside can't be recorded")
