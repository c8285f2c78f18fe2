"""save and load: PyTorch's checkpoints, each library reading what the other wrote.

A checkpoint is a zip archive of a pickle and one record of raw bytes per storage. The pickle names PyTorch's classes:
`_Pickler` writes "torch" where a class's module says "tede", and reading maps the name back. With weights_only, which is
the default, the pickle is read by _weights_only_unpickler, which can't call anything; else by pickle itself.
A file that is named is replaced only once the new one is complete on the disk.
"""
import collections
import contextlib
import enum
import io
import os
import pickle
import stat
import struct
import sys
import tempfile
import warnings

from tede import _C, _weights_only_unpickler
from tede._checkpoint import MAGIC_NUMBER, PROTOCOL_VERSION, UNSAFE, SourceChangeWarning, checked, dtype_of, text_of, unpickler  # noqa: F401
from tede._weights_only_unpickler import _get_layout, _safe_globals as safe_globals  # noqa: F401
from tede._weights_only_unpickler import _Storage as StorageType
from tede.utils.serialization import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401

__all__ = ["LoadEndianness", "SourceChangeWarning", "StorageType", "add_safe_globals", "check_module_version_greater_or_equal",
           "clear_safe_globals", "default_restore_location", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
           "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "normalize_storage_type", "register_package",
           "safe_globals", "save", "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data"]

DEFAULT_PROTOCOL = 2
_NEWEST_VERSION = 10        # of archives
STORAGE_KEY_SEPARATOR = ","
FILE_LIKE = MAP_LOCATION = object       # names for annotations
_DOCS = ("\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
         "https://pytorch.org/docs/stable/generated/torch.load.html.")


class LoadEndianness(enum.Enum):
    """The byte order of a file that doesn't say its own.

    >>> tede.serialization.LoadEndianness.LITTLE
    <LoadEndianness.LITTLE: 2>
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness():
    """The byte order of files that don't say theirs; None: little.

    >>> tede.serialization.get_default_load_endianness()
    """
    return config.load.endianness


def set_default_load_endianness(endianness):
    """Set the byte order of files that don't say theirs: a `LoadEndianness`, or None (TypeError).

    >>> tede.serialization.set_default_load_endianness(None)
    """
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness


def get_crc32_options():
    """Whether `save` computes check sums.

    >>> tede.serialization.get_crc32_options()
    True
    """
    return config.save.compute_crc32


def set_crc32_options(compute_crc32):
    """Whether `save` computes check sums of records; without them it is faster, and other programs refuse to unpack the
    archive.

    >>> tede.serialization.set_crc32_options(True)
    """
    config.save.compute_crc32 = compute_crc32


def get_default_mmap_options():
    """mmap.MAP_PRIVATE or mmap.MAP_SHARED: how `load(mmap=True)` maps files.

    >>> import mmap
    >>> tede.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return config.load.mmap_flags


class set_default_mmap_options:
    """Set how `load(mmap=True)` maps files, mmap.MAP_PRIVATE or mmap.MAP_SHARED (ValueError); within a `with`, for its
    duration.

    >>> import mmap
    >>> with tede.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     pass
    """

    def __init__(self, flags):
        import mmap
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             f"mmap.MAP_SHARED, but got {flags}")
        self._before, config.load.mmap_flags = config.load.mmap_flags, flags

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        config.load.mmap_flags = self._before


def add_safe_globals(safe_globals):  # noqa: F811
    """Name classes and functions, or (it, name) tuples, that `load` may use with weights_only=True, from now on. What
    they do when they are made from a file is then trusted.

    >>> class Config: pass
    >>> tede.serialization.add_safe_globals([Config])
    >>> Config in tede.serialization.get_safe_globals()
    True
    >>> tede.serialization.clear_safe_globals()
    """
    _weights_only_unpickler._add_safe_globals(safe_globals)


def get_safe_globals():
    """What `add_safe_globals` has named.

    >>> tede.serialization.get_safe_globals()
    []
    """
    return _weights_only_unpickler._get_safe_globals()


def clear_safe_globals():
    """Forget what `add_safe_globals` has named.

    >>> tede.serialization.clear_safe_globals()
    """
    _weights_only_unpickler._clear_safe_globals()


def get_unsafe_globals_in_checkpoint(f):
    """The names in a checkpoint that `load` would refuse with weights_only=True: look before you trust it.

        f: a path or a file object of the zip format (ValueError).

    >>> tede.save({"weight": tede.zeros(2)}, "weights.pt")
    >>> tede.serialization.get_unsafe_globals_in_checkpoint("weights.pt")
    []
    """
    with _opened(f, "rb") as file:
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        reader = _C.PyTorchFileReader(file)
        if reader.has_record("constants.pkl"):
            raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
        names = _weights_only_unpickler.get_globals_in_pkl(io.BytesIO(reader.get_record("data.pkl")))
    return sorted(names - set(_weights_only_unpickler._get_allowed_globals()) - set(_weights_only_unpickler._user_globals()))


class skip_data:
    """Within it, `save` leaves room for storages without writing them.

        materialize_fake_tensors: fake tensors are saved as those that they stand for.

    >>> with tede.serialization.skip_data():
    ...     tede.save({"weight": tede.zeros(2)}, "room.pt")
    """
    active = materializes = False

    def __init__(self, materialize_fake_tensors=False):
        self._wanted = True, materialize_fake_tensors

    def __enter__(self):
        self._before, (skip_data.active, skip_data.materializes) = (skip_data.active, skip_data.materializes), self._wanted

    def __exit__(self, *exception):
        skip_data.active, skip_data.materializes = self._before


class _SkipData:
    """skip_data's state by the names of PyTorch's thread-local object."""
    skip_data = property(lambda self: skip_data.active)
    materialize_fake_tensors = property(lambda self: skip_data.materializes)


_serialization_tls = _SkipData()


# ---- places --------------------------------------------------------------------------------------------------------

_package = []           # (priority, tagger, deserializer)


def register_package(priority, tagger, deserializer):
    """Teach `save` and `load` a location: ``tagger(storage)`` gives its name or None, ``deserializer(storage,
    location)`` a storage there or None.

        priority: those with the lowest are asked first.

    >>> tede.serialization.register_package(100, lambda storage: None, lambda storage, location: None)
    """
    _package.append((priority, tagger, deserializer))
    _package.sort(key=lambda entry: entry[0])


def _restored(storage, location):
    device = location.partition(":")[0]
    if device == "cpu":
        return storage
    if device == "meta":
        return type(storage)(storage.nbytes(), device="meta")
    if device == "cuda":
        raise RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you "
                           "are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to "
                           "map your storages to the CPU.")
    if _C._device_type(device) > 1 and _C._device_count(device):
        return storage.to(device=location)
    if device in ("mps", "xpu", "hpu"):
        raise RuntimeError(f"Attempting to deserialize object on a {device.upper()} device but torch.{device}.is_available() "
                           "is False. If you are running on a CPU-only machine, please use torch.load with "
                           "map_location=torch.device('cpu') to map your storages to the CPU.")
    return None


register_package(10, lambda storage: "cpu" if storage.device.type == "cpu" else None,
                 lambda storage, location: _restored(storage, location))
register_package(20, lambda storage: str(storage.device) if _C._device_type(storage.device.type) > 1 else None, lambda storage, location: None)
register_package(30, lambda storage: "meta" if storage.device.type == "meta" else None, lambda storage, location: None)


def location_tag(storage):
    """The name of where a storage is: "cpu", "cuda:0", ...

    >>> tede.serialization.location_tag(tede.zeros(1).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _package:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {_typename(storage)}")


def default_restore_location(storage, location):
    """The storage, moved to where `location` says; a RuntimeError if nobody knows that.

    >>> tede.serialization.default_restore_location(tede.zeros(1).untyped_storage(), "cpu").device
    device(type='cpu')
    """
    if isinstance(location, bytes):
        location = location.decode("ascii")
    for _, _, deserializer in _package:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(f"don't know how to restore data location of {_typename(storage)} (tagged with {location})")


def _typename(storage):
    return f"{type(storage).__module__}.{type(storage).__name__}".replace("tede", "torch")


def _restorer(map_location):
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        return lambda storage, location: default_restore_location(storage, map_location)
    if isinstance(map_location, _C.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result
    return restore


def normalize_storage_type(storage_type):
    """The class of this package for a class of storages.

    >>> tede.serialization.normalize_storage_type(tede.FloatStorage).__name__
    'FloatStorage'
    """
    return storage_type


# ---- files ---------------------------------------------------------------------------------------------------------

def _is_path(f):
    return isinstance(f, (str, os.PathLike))


class _opened:
    """A path, opened, or a file object as it is."""

    def __init__(self, f, mode):
        self._close = _is_path(f)
        if not self._close and not hasattr(f, "read" if "r" in mode else "write"):
            if "r" in mode:
                _check_readable(f)
            raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
        self.file = open(f, mode) if self._close else f
        if not self._close and "r" in mode:
            _check_readable(f)

    def __enter__(self):
        return self.file

    def __exit__(self, *exception):
        if self._close:
            self.file.close()


def _open_file_like(name_or_buffer, mode):
    """A context of the file of a name, closed at the end, or of a file object, left open."""
    if not _is_path(name_or_buffer) and not set(mode) & {"r", "w"}:
        raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")
    return _opened(name_or_buffer, mode)


@contextlib.contextmanager
def _open_zipfile_reader(name_or_buffer):
    """A context of the records of a checkpoint."""
    with _opened(name_or_buffer, "rb") as file:
        yield _C.PyTorchFileReader(file)


def _writer(name_or_buffer, **folder):
    return _C.PyTorchFileWriter(name_or_buffer, config.save.compute_crc32, config.save.storage_alignment, **folder)


@contextlib.contextmanager
def _open_zipfile_writer(name_or_buffer):
    """A context in which a checkpoint is written record by record."""
    if not _is_path(name_or_buffer) and not hasattr(name_or_buffer, "write"):
        raise AttributeError(f"Buffer of {str(type(name_or_buffer)).strip('<>')} has no callable attribute 'write'")
    writer = _writer(name_or_buffer)
    yield writer
    writer.write_end_of_file()
    if hasattr(name_or_buffer, "flush"):
        name_or_buffer.flush()


def _check_readable(f):
    try:
        f.seek(f.tell())
        f.read  # noqa: B018
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a "
                          "buffer like io.BytesIO and try to load from it instead.") from None


class _replaced:
    """A file that takes its name's place at the end of a `with` that had no error."""

    def __init__(self, path):
        self._path = os.path.realpath(os.fspath(path))
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {os.path.dirname(os.fspath(path)) or folder} does not exist.")
        try:
            mode = os.stat(self._path).st_mode
        except FileNotFoundError:
            mode = None
        if os.path.isdir(self._path):
            raise IsADirectoryError(21, "Is a directory", os.fspath(path))
        self._temporary = None
        if mode is not None and not stat.S_ISREG(mode):
            self.file = open(self._path, "wb")
            return
        if mode is not None and not os.access(self._path, os.W_OK):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        fd, self._temporary = tempfile.mkstemp(prefix=".tede-", dir=folder)
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.fchmod(fd, stat.S_IMODE(mode))
        self.file = os.fdopen(fd, "wb")

    def __enter__(self):
        return self.file

    def __exit__(self, kind, error, trace):
        try:
            if kind is None and self._temporary:
                self.file.flush()
                os.fsync(self.file.fileno())
            self.file.close()
            if kind is None and self._temporary:
                os.replace(self._temporary, self._path)
                self._temporary = None
        finally:
            if self._temporary:
                os.unlink(self._temporary)


def _is_zipfile(f):
    start = f.tell()
    magic = f.read(4)
    f.seek(start)
    return magic == b"PK\x03\x04"


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether ``module.__version__`` is at least `req_version_tuple`, whose fields say what kind each of the version's
    is.

        error_if_malformed: a RuntimeError for versions that can't be read, else a warning.

    >>> import types
    >>> tede.serialization.check_module_version_greater_or_equal(types.SimpleNamespace(__version__="1.2"), (1, 0))
    True
    """
    import warnings
    try:
        fields = module.__version__.split(".")
        return tuple(type(want)(field) for want, field in zip(req_version_tuple, fields)) >= req_version_tuple
    except Exception as error:
        message = f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with " \
                  f"tuple {req_version_tuple}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True


# ---- saving --------------------------------------------------------------------------------------------------------

def _foreign(module, name):
    """Where PyTorch has what one of our modules has."""
    from tede._compat import CLASSES
    if (module, name) in CLASSES:
        return CLASSES[module, name]
    if module == "tede._C" or module == "tede":
        return "torch"
    return "torch" + module[4:] if module.startswith("tede.") else module


def _pickler(pickle_module, persistent_id):
    """A pickler class: pickle's, with PyTorch's names, or another module's."""
    if pickle_module is not pickle:
        class Other(pickle_module.Pickler):
            def persistent_id(self, obj):
                return persistent_id(obj)
        return Other

    class Pickler(pickle._Pickler):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.persistent_id = persistent_id      # found without a method around it: it is called for each object

        def place(self, obj, name):
            """The module and the name that stand for an object; None where pickle finds them."""
            if isinstance(obj, (_C.dtype, _C.memory_format)):
                return "torch", str(obj).rpartition(".")[2]
            if type(obj).__name__ == "qscheme":
                return "torch", repr(obj).rpartition(".")[2]
            if isinstance(obj, StorageType):
                return "torch", obj.name
            module = getattr(obj, "__module__", None) or ""
            if not (module == "tede" or module.startswith(("tede.", "torch"))):
                return None
            name = name or obj.__qualname__
            return _foreign(module, name), name

        def save_global(self, obj, name=None):
            found = self.place(obj, name)
            if found is None:
                return super().save_global(obj, name)
            module, name = found
            if self.proto >= 4:
                self.save(module)
                self.save(name)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
            self.memoize(obj)

        dispatch = pickle._Pickler.dispatch.copy()
        dispatch[type(_pickler)] = dispatch[_C.dtype] = dispatch[StorageType] = save_global
        dispatch[_C.layout] = lambda self, obj: self.save_reduce(_get_layout, ("torch." + str(obj).rpartition(".")[2],), obj=obj)
    return Pickler


_get_layout.__module__ = "torch.serialization"


def _storage_type(storage):
    """(untyped storage, dtype, what names its type)"""
    if hasattr(storage, "_untyped_storage"):
        named = StorageType(storage._pickle_storage_type())
        named.name = storage._pickle_storage_type()
        return storage._untyped_storage, storage.dtype, named
    return storage, _C.uint8, type(storage)


# What most calls are for.
_WITHOUT_STORAGE = frozenset((int, str, bool, float, tuple, dict, list, bytes, type(None), collections.OrderedDict, type(_foreign)))


class _Storages:
    """The storages that a pickler meets, under keys in the order of their coming."""

    def __init__(self, legacy):
        self.keys, self.found, self._dtypes, self._legacy = {}, {}, {}, legacy

    def persistent_id(self, obj):
        if type(obj) in _WITHOUT_STORAGE:
            return None
        if not (isinstance(obj, _C.StorageBase) or hasattr(type(obj), "_pickle_storage_type")):
            return None
        storage, dtype, named = _storage_type(obj)
        if storage.device.type != "meta" and storage.nbytes():
            if self._dtypes.setdefault(storage.data_ptr(), dtype) != dtype:
                raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = self.keys.setdefault(storage._cdata, str(len(self.keys)))
        if key not in self.found:
            self.found[key] = (storage if storage.device.type in ("cpu", "meta") else storage.cpu()), dtype
        location = str(getattr(storage, "_fake_device", None) or location_tag(storage))
        described = "storage", named, key, location, storage.nbytes() // dtype.itemsize
        return (*described, None) if self._legacy else described


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False) -> None:
    """Write an object to a file: its tensors as raw bytes, a storage once, however many look at it, beside a pickle of
    the rest. PyTorch reads it, and this reads PyTorch's.

        obj: anything that pickles; for models `state_dict()`, which doesn't depend on where the code lies.
        f: a path, or a file object that can be written.
        pickle_module, pickle_protocol: how the rest is written.

    >>> model = nn.Linear(3, 2)
    >>> tede.save(model.state_dict(), "model.pt")
    >>> model.load_state_dict(tede.load("model.pt"))
    <All keys matched successfully>
    """
    if _is_path(f):
        with _replaced(f) as file:
            if _use_new_zipfile_serialization:
                name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
                _save(obj, _writer(file, _folder=name), pickle_module, pickle_protocol, _disable_byteorder_record)
            else:
                _legacy_save(obj, file, pickle_module, pickle_protocol)
        return
    if not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if _use_new_zipfile_serialization:
        _save(obj, _writer(f), pickle_module, pickle_protocol, _disable_byteorder_record)
    elif skip_data.active:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    else:
        _legacy_save(obj, f, pickle_module, pickle_protocol)
    if hasattr(f, "flush"):             # who opens the same file by its name reads all of it
        f.flush()


def _save(obj, archive, pickle_module, protocol, no_byteorder):
    storages, pickled = _Storages(legacy=False), io.BytesIO()
    _pickler(pickle_module, storages.persistent_id)(pickled, protocol=protocol).dump(obj)
    archive.write_record("data.pkl", pickled.getbuffer())
    if not no_byteorder:
        archive.write_record("byteorder", sys.byteorder)
    for key, (storage, _) in storages.found.items():
        if storage.device.type == "meta" or skip_data.active:
            archive.write_record_metadata(f"data/{key}", storage.nbytes())
        else:
            archive.write_record(f"data/{key}", storage.cpu())
    archive.write_end_of_file()


def _container(obj, seen):
    """("module", class, file, source) of a class of modules that is met for the first time: who reads it learns that it has changed since."""
    if not (isinstance(obj, type) and issubclass(obj, _C._ModuleBase)) or obj in seen:
        return None
    seen.add(obj)
    try:
        import inspect
        return "module", obj, inspect.getsourcefile(obj), inspect.getsource(obj)
    except Exception:               # as where the class was typed in
        warnings.warn(f"Couldn't retrieve source code for container of type {obj.__name__}. It won't be checked for correctness upon loading.",
                      stacklevel=2)
        return "module", obj, None, None


class _Containers(_Storages):
    """Storages, and the classes of the modules that hold them."""

    def __init__(self):
        super().__init__(legacy=True)
        self._seen = set()

    def persistent_id(self, obj):
        return _container(obj, self._seen) or super().persistent_id(obj)


def _legacy_save(obj, f, pickle_module, protocol):
    storages = _Containers()
    for value in (MAGIC_NUMBER, PROTOCOL_VERSION, {"protocol_version": PROTOCOL_VERSION,
                                                   "little_endian": sys.byteorder == "little",
                                                   "type_sizes": {"short": 2, "int": 4, "long": 4}}):
        pickle_module.dump(value, f, protocol=protocol)
    _pickler(pickle_module, storages.persistent_id)(f, protocol=protocol).dump(obj)
    pickle_module.dump(sorted(storages.found), f, protocol=protocol)
    for key in sorted(storages.found):
        storage, dtype = storages.found[key]
        f.write(struct.pack("<q", storage.nbytes() // dtype.itemsize))
        f.write(memoryview(storage))


# ---- loading -------------------------------------------------------------------------------------------------------

def _refused(error):
    """PyTorch's explanation around what the weights_only reader said."""
    message = str(error)
    if "was not an allowed global by default." in message:
        text = ("Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those steps "
                f"only if you trust the source of the checkpoint\033[0m. \n\t(1) {UNSAFE}\n\t(2) Alternatively, to load with "
                "`weights_only=True` please check the recommended steps in the following error message.\n\tWeightsUnpickler "
                f"error: {message}")
    else:
        text = f"Weights only load failed. {UNSAFE}\n"
        if not ("whose module " in message and message.endswith("is blocked.")):
            text += ("Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
                     "case: WeightsUnpickler error: ")
        text += "\n\n" + message
    return pickle.UnpicklingError(text + _DOCS)


def _decide(weights_only, pickle_module):
    """Whether only data may be read, after the environment's word."""
    given = weights_only is not None
    if not given:
        weights_only = pickle_module is None
    force, forbid = (os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")
                     for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"))
    if force and forbid:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, "
                           "but both were set.")
    if force:
        return True
    if forbid and not given:
        warnings.warn("Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
                      "explicitly passed to `torch.load`, forcing weights_only=False.", UserWarning, stacklevel=3)
        return False
    return weights_only


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args) -> "Any":
    """Read what `save` or PyTorch's `save` wrote, of any version.

        f: a path, or a file object that can seek.
        map_location: where tensors go: a device, {location: location}, or a function of (storage, location).
        pickle_module: how the rest is read, with weights_only=False.
        weights_only: True, the default, reads tensors and plain containers, and refuses (UnpicklingError) what would
            run code; `add_safe_globals` names more. False runs whatever the file says: only for files that you trust.
        mmap: map the file instead of reading it; tensors are read when they are used.
        pickle_load_args: for the unpickler: encoding.

    >>> tede.save([tede.ones(2), {"epoch": 3}], "state.pt")
    >>> tede.load("state.pt")
    [tensor([1., 1.]), {'epoch': 3}]
    """
    weights_only = _decide(weights_only, pickle_module)
    mmap = config.load.mmap if mmap is None else mmap
    if weights_only:
        if pickle_module is not None:
            raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
        if pickle_load_args:
            warnings.warn("pickle_load_args only works if `weights_only=False`.")
    pickle_load_args.setdefault("encoding", "utf-8")
    if _is_path(f) and os.fspath(f).endswith(".safetensors"):
        if isinstance(map_location, dict) or callable(map_location):
            kind = "dict" if isinstance(map_location, dict) else "callable"
            raise RuntimeError(f"Loading safetensors file with {kind} map_location is not supported. Use a device string or "
                               "torch.device instead.")
        from tede import safetensors
        return safetensors.load_file(os.fspath(f), device=str(map_location or "cpu"))
    module = _weights_only_unpickler if weights_only else pickle_module or pickle
    with _opened(f, "rb") as file:
        try:
            if _is_zipfile(file):
                return _load(_C.PyTorchFileReader(f if _is_path(f) else file), f, map_location, module, mmap, pickle_load_args)
            if mmap:
                name = f"{f}, " if isinstance(f, str) else ""
                raise RuntimeError(f"mmap can only be used with files saved with `torch.save({name}_use_new_zipfile_"
                                   "serialization=True), please torch.save your checkpoint with this option in order to use "
                                   "mmap.")
            return _legacy_load(file, map_location, module, pickle_load_args)
        except pickle.UnpicklingError as error:
            if not weights_only:
                raise
            raise _refused(error) from None


def _check_version(archive):
    name = next((name for name in ("version", ".data/version") if archive.has_record(name)), None)
    if name is None:
        raise RuntimeError('Expected hasRecord("version") to be true, but got false: the archive is no checkpoint, or not whole')
    text = archive.get_record(name)
    try:
        version = int(text)
    except ValueError:
        raise RuntimeError(f"Couldn't parse the version {text[:20]!r} as a number") from None
    if not 1 <= version <= _NEWEST_VERSION:
        raise RuntimeError(f"Attempted to read a PyTorch file with version {version}, but the "
                           f"{'minimum' if version < 1 else 'maximum'} supported version for reading is "
                           f"{1 if version < 1 else _NEWEST_VERSION}")


def _load(archive, f, map_location, module, mmap, options):
    from tede._storage import TypedStorage, UntypedStorage
    if archive.has_record("constants.pkl"):
        raise RuntimeError("Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. " + UNSAFE
                           if module is _weights_only_unpickler else
                           "torch.jit.load isn't there: TorchScript archives can't be read")
    _check_version(archive)
    whole = None
    if mmap:
        if not _is_path(f):
            raise ValueError("f must be a file path in order to use the mmap argument")
        import mmap as _mmap
        whole = UntypedStorage.from_file(os.fspath(f), get_default_mmap_options() == _mmap.MAP_SHARED)
    order = sys.byteorder
    if archive.has_record("byteorder"):
        order = archive.get_record("byteorder").decode("ascii", "replace")
        if order not in ("little", "big"):
            raise ValueError("Unknown endianness type: " + order)
    elif config.load.endianness in (None, LoadEndianness.LITTLE):
        order = "little"
    elif config.load.endianness is LoadEndianness.BIG:
        order = "big"
    meta = isinstance(map_location, (str, _C.device)) and str(map_location).partition(":")[0] == "meta"
    restore, loaded = _restorer(map_location), {}

    def storage_of(dtype, nbytes, key, location):
        record = f"data/{key}"
        if meta:
            return UntypedStorage(nbytes, device="meta")
        if location == "meta" or skip_data.active:
            return restore(UntypedStorage(nbytes), location)
        if archive.get_record_size(record) != nbytes:       # seen before anything is unpacked, however much it would become
            raise RuntimeError(f"record size ({archive.get_record_size(record)} bytes) does not match expected size ({nbytes} bytes = "
                               f"{nbytes // dtype.itemsize} elements * {dtype.itemsize} bytes/element) of storage {key}")
        if whole is not None:
            if archive._is_packed(record):
                raise RuntimeError(f"mmap can only be used with archives that aren't compressed, and {record} is")
            at = archive.get_record_offset(record)
            storage = whole[at:at + nbytes]
        else:
            storage = UntypedStorage(nbytes)
            if nbytes:
                archive._read_into(record, storage)
        if order != sys.byteorder:
            storage.byteswap(dtype)
        return restore(storage, location)

    def persistent_load(saved):
        if not isinstance(saved, tuple):
            raise AssertionError(f"saved_id must be a tuple, got {type(saved).__name__}")
        kind = text_of(saved[0])
        if kind != "storage":
            raise AssertionError(f"Unknown typename for persistent_load, expected 'storage' but got '{kind}'")
        storage_type, key, location, numel = saved[1:5]
        dtype = dtype_of(storage_type)
        if key not in loaded:
            storage = storage_of(dtype, checked(numel, dtype), text_of(key), text_of(location))
            loaded[key] = storage if isinstance(storage, TypedStorage) else TypedStorage(
                wrap_storage=storage, dtype=dtype, _internal=True)
        if loaded[key].dtype != dtype:          # empty storages may be shared between dtypes
            return TypedStorage(wrap_storage=loaded[key]._untyped_storage, dtype=dtype, _internal=True)
        return loaded[key]

    return unpickler(module, persistent_load, io.BytesIO(archive.get_record("data.pkl")), options).load()


def _legacy_load(f, map_location, module, options):
    from tede._legacy_checkpoint import load_stream, load_tar
    restore = _restorer(map_location)
    if f.tell() == 0 and hasattr(f, "fileno"):
        import tarfile
        try:
            return load_tar(f, restore, module, options)
        except tarfile.TarError:
            f.seek(0)
    return load_stream(f, restore, module, options)
