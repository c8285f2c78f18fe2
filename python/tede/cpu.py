"""The CPU, with the functions that devices have."""
from contextlib import contextmanager

__all__ = ["Event", "Stream", "current_device", "current_stream", "device_count", "get_capabilities", "is_available", "is_initialized",
           "set_device", "stream", "synchronize"]


def is_available():
    return True


def is_initialized():
    return True


def synchronize(device=None):
    """Nothing to wait for: results are there when a call returns."""


def device_count():
    return 1


def current_device():
    return "cpu"


def set_device(device):
    """There is only one."""


class Stream:
    """Does nothing."""

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self):
        pass

    def wait_event(self, event):
        pass


class Event:
    """Does nothing."""

    def query(self):
        return True

    def record(self, stream=None):
        pass

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass


def current_stream(device=None):
    return Stream()


@contextmanager
def stream(stream):
    yield


def get_capabilities():
    """What the processor has, as far as tede uses it."""
    from tede import _C
    level = _C._cpu_capability()
    return {"isa": level}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name == "amp":
        from tede import _cpu_amp
        return _cpu_amp
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
