"""Names of PyTorch's package that programs ask for, or look at with isinstance, and that say little here."""
import tede
from tede._sym import SymBool, SymFloat, SymInt      # noqa: F401
from tede._compat import fill as _fill


class AcceleratorError(RuntimeError):
    """An error of an accelerator: nothing here raises it."""


class classproperty:
    """A decorator: a property that is read from the class.

    >>> from tede._compat._odds import classproperty
    Traceback (most recent call last):
        ...
    ModuleNotFoundError: No module named 'tede._compat._odds'
    >>> class Line:
    ...     @classproperty
    ...     def name(cls):
    ...         return cls.__name__.lower()
    Traceback (most recent call last):
        ...
    NameError: name 'classproperty' is not defined
    >>> Line.name
    Traceback (most recent call last):
        ...
    NameError: name 'Line' is not defined
    """

    def __init__(self, func):
        self.func = func

    def __get__(self, instance, owner):
        return self.func(owner)


legacy_contiguous_format = tede.contiguous_format


def get_file_path(*path_components):
    """A path inside the package's folder.

    >>> tede.get_file_path("nn").endswith("nn")
    True
    """
    import os
    return os.path.join(os.path.dirname(tede.__file__), *path_components)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A vector over a file's bytes, mapped; what is written to it goes to the file if `shared`.

        filename: a path.
        size: how many elements.
        dtype, layout, device, pin_memory, requires_grad: of the tensor; on the CPU.

    >>> with open("numbers", "wb") as file:
    ...     _ = file.write(bytes(8))
    >>> tede.from_file("numbers", size=2)
    tensor([0., 0.])
    """
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
        made = [("set_autocast_{}_dtype", lambda dtype, d=device: amp.set_autocast_dtype(d, dtype)),
                ("set_autocast_{}_enabled", lambda enabled, d=device: amp.set_autocast_enabled(d, enabled))]
        if kind in ("ipu", "xla"):
            made += [("get_autocast_{}_dtype", lambda d=device: amp.get_autocast_dtype(d)),
                     ("is_autocast_{}_enabled", lambda d=device: amp.is_autocast_enabled(d))]
        for name, function in made:
            plain = name.replace("_{}", "")
            function.__doc__ = f"`{plain}` of {device!r}, by its older name."
            yield name.format(kind), function


_fill(globals())


def __getattr__(name):
    if "_autocast_" in name:
        globals().update(_autocast_setters())
    if name in ("_tensor_classes", "_storage_classes"):
        globals().update(_class_sets())
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
