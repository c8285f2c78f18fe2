"""`with torch.device(...)` as a mode object, for programs that push it by name, and as a decorator."""
import tede
from tede.utils._contextlib import context_decorator

__all__ = ["DeviceContext", "set_device"]


class DeviceContext:
    """Within it new tensors are made on `device`."""

    def __init__(self, device):
        self.device = tede.device(device)

    def __enter__(self):
        self.device.__enter__()

    def __exit__(self, *error):
        self.device.__exit__(*error)


def set_device(device):
    """A decorator: the function's new tensors are made on `device`."""
    return lambda function: context_decorator(lambda: tede.device(device), function)
