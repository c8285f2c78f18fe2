"""Names of PyTorch's package that programs ask for, or look at with isinstance, and that say little here."""
import tede
from tede._sym import SymBool, SymFloat, SymInt      # noqa: F401
from tede._compat import fill as _fill


class AcceleratorError(RuntimeError):
    """An error of an accelerator: nothing here raises it."""


class classproperty:
    """A property that is read from the class."""

    def __init__(self, func):
        self.func = func

    def __get__(self, instance, owner):
        return self.func(owner)


legacy_contiguous_format = tede.contiguous_format


def get_file_path(*path_components):
    """A path inside the package's folder."""
    import os
    return os.path.join(os.path.dirname(tede.__file__), *path_components)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A vector over a file's bytes, mapped; what is written to it goes to the file if `shared`."""
    dtype = dtype or tede.get_default_dtype()
    x = tede.empty(0, dtype=dtype)
    x.set_(tede.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize), 0, (size,))
    return x.requires_grad_() if requires_grad else x


def _debug_has_internal_overlap(self):
    """0: no two elements share memory; 1: some share one; 2: it isn't seen at once."""
    if self.is_contiguous():
        return 0
    if any(size > 1 and step == 0 for size, step in zip(self.shape, self.stride())):
        return 1
    expected = 1            # dense in some order of its dimensions
    for step, size in sorted((step, size) for size, step in zip(self.shape, self.stride()) if size != 1):
        if step != expected:
            return 2
        expected *= size
    return 0


def _class_sets():
    from tede import cuda, storage
    from tede._titles import STORAGES
    tensors = [getattr(tede, name) for name in tede._LEGACY]
    storages = [getattr(storage, name) for name in STORAGES]
    there = [*tensors, *storages]
    absent = [getattr(cuda, kind.__name__) for kind in there]
    yield "_tensor_classes", {*tensors, *absent[:len(tensors)]}
    yield "_storage_classes", {storage.UntypedStorage, storage.TypedStorage, *storages, *absent[len(tensors):]}


def _autocast_setters():
    amp = tede.amp
    for kind in ("cpu", "gpu", "ipu", "xla"):
        device = "cuda" if kind == "gpu" else kind
        yield f"set_autocast_{kind}_dtype", lambda dtype, d=device: amp.set_autocast_dtype(d, dtype)
        yield f"set_autocast_{kind}_enabled", lambda enabled, d=device: amp.set_autocast_enabled(d, enabled)
        if kind in ("ipu", "xla"):
            yield f"get_autocast_{kind}_dtype", lambda d=device: amp.get_autocast_dtype(d)
            yield f"is_autocast_{kind}_enabled", lambda d=device: amp.is_autocast_enabled(d)


_fill(globals())


def __getattr__(name):
    if "_autocast_" in name:
        globals().update(_autocast_setters())
    if name in ("_tensor_classes", "_storage_classes"):
        globals().update(_class_sets())
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
