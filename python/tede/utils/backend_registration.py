"""rename_privateuse1_backend and what goes with it. A device needs no slot of that name here: it has its own from when it is loaded, and these
functions, with which programs of PyTorch set theirs up, find it there."""
from tede import _C

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

_name = "privateuseone"


def rename_privateuse1_backend(backend_name):
    """The device of this name is the one that programs mean by "privateuseone". It is looked for as tede.load_device does."""
    global _name
    if _name not in ("privateuseone", backend_name):
        raise RuntimeError(f"torch.register_privateuse1_backend() has already been set! Current backend: {_name}")
    if _C._device_type(backend_name) < 0 or _C._device_count(backend_name) < 1:
        _C._device_load(backend_name)
    _name = backend_name


def _get_privateuse1_backend_name():
    return _name


def generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=False,
                                             unsupported_dtype=None):
    """Nothing is left to do: tensors and modules have a method of the name of each device that is loaded."""
    if _name == "privateuseone":
        raise RuntimeError("no device has been named by rename_privateuse1_backend")
