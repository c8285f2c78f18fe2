"""torch.accelerator: the current accelerator, which is the first device that was loaded by tede.load_device."""
import sys


def _module():
    devices = sys.modules.get("tede._devices")
    return devices.only() if devices else None


def _there():
    module = _module()
    if module is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return module


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
    _there().set_device(device)


def synchronize(device=None, /):
    _there().synchronize(device)


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


def _refuse(*args, **kwargs):
    _there()
    raise NotImplementedError("devices from outside have no streams and statistics here")


current_device_idx, set_device_idx = current_device_index, set_device_index
current_stream = set_stream = get_device_capability = memory_stats = empty_cache = empty_host_cache = memory_allocated = _refuse
get_memory_info = max_memory_allocated = memory_reserved = max_memory_reserved = _refuse
reset_peak_memory_stats = reset_accumulated_memory_stats = _refuse


class Graph:
    """A recording of an accelerator's work."""

    def __new__(cls, *args, **kwargs):
        _refuse()
