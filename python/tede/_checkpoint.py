"""Helpers for reading checkpoints, shared by both formats, archives and the streams before them: the numbers that a stream begins with, and how
their pickles are read."""
from importlib import import_module
import pickle

from tede import _C, _weights_only_unpickler
from tede._storage import UntypedStorage
from tede._weights_only_unpickler import _Storage as StorageType

MAGIC_NUMBER = 0x1950a86a20f9469cfc6c
PROTOCOL_VERSION = 1001
UNSAFE = ("In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`. "
          "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary "
          "code execution. Do it only if you got the file from a trusted source.")


class SourceChangeWarning(Warning):
    """The source of a class differs from the one that was saved."""
    __module__ = "tede.serialization"


def find_object(module, name):
    """The object that PyTorch's module `module` has under a name; None where there is none."""
    from tede._compat import MODULES
    path = module.partition(".")[2]
    places = ["tede." + MODULES.get(path, path) if path else "tede"]
    if path.startswith(("nn.", "optim.")):
        places.append("tede." + path.partition(".")[0])
    for place in places:
        try:
            found = import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError):
            continue
    return None


def unpickler(module, persistent_load, file, options):
    """An unpickler of a module, to which PyTorch's names mean ours."""
    if module is _weights_only_unpickler:
        restricted = module.Unpickler(file, **options)
        restricted.persistent_load = persistent_load
        return restricted

    class Unpickler(module.Unpickler):
        def find_class(self, mod_name, name):
            if type(name) is str and "Storage" in name:
                try:
                    return StorageType(name)
                except KeyError:
                    pass
            if mod_name == "torch" or mod_name.startswith("torch."):
                found = find_object({"torch.tensor": "torch._tensor"}.get(mod_name, mod_name), name)
                if found is not None:
                    return found
            return super().find_class(mod_name, name)

        def persistent_load(self, saved):
            return persistent_load(saved)
    return Unpickler(file, **options)


def text_of(value):
    return value.decode("ascii") if isinstance(value, bytes) else value


def dtype_of(storage_type):
    return _C.uint8 if storage_type is UntypedStorage else storage_type._dtype


def checked(numel, dtype):
    if type(numel) is not int or numel < 0:
        raise pickle.UnpicklingError(f"a storage of {numel!r} elements")
    return numel * dtype.itemsize
