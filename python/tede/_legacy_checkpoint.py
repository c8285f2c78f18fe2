"""Checkpoints from before the zip format: a stream of pickles with the storages after it, and the tar archives before that."""
import os
import pickle
import struct
import warnings

from tede import _C
from tede._checkpoint import MAGIC_NUMBER, PROTOCOL_VERSION, UNSAFE, SourceChangeWarning, checked, dtype_of, text_of, unpickler
from tede._storage import TypedStorage, UntypedStorage
from tede import _weights_only_unpickler


def _typed(storage, dtype):
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _room(f):
    """The bytes from here to the end of a file."""
    at = f.tell()
    f.seek(0, 2)
    end = f.tell()
    f.seek(at)
    return end - at


def _fill(storage, f, dtype):
    """Read an element count and as many elements into a storage of that size."""
    count = f.read(8)
    if len(count) != 8 or struct.unpack("<q", count)[0] * dtype.itemsize != storage.nbytes():
        raise RuntimeError("the file's storages are not those that its pickle names; corrupt file?")
    _C._fill(f, storage)


def load_stream(f, restore, module, options):
    """Magic number, version, system, object, storage keys: pickles; then the storages' bytes."""
    storages, dtypes = {}, {}

    def persistent_load(saved):
        if not isinstance(saved, tuple):
            raise AssertionError(f"saved_id must be a tuple, got {type(saved).__name__}")
        kind = text_of(saved[0])
        if kind == "module":
            if all(saved[2:]):
                _check_source(*saved[1:])
            return saved[1]
        if kind != "storage":
            raise RuntimeError(f"Unknown saved id type: {saved[0]}")
        storage_type, root, location, numel, view = saved[1:6]
        dtype = dtype_of(storage_type)
        root = text_of(root)
        if root not in storages:
            nbytes = checked(numel, dtype)
            if nbytes > room and text_of(location) != "meta":
                raise RuntimeError(f"storage {root} needs {nbytes} bytes, more than the file has")
            loaded = UntypedStorage(nbytes)
            restored = restore(loaded, text_of(location))
            storages[root], dtypes[root] = (loaded, restored), dtype
        storage = storages[root][1]
        if view is not None:
            _, offset, count = view
            at = offset * dtype.itemsize
            storage = storage[at:at + count * dtype.itemsize]
        return _typed(storage, dtype)

    room = _room(f)
    if module.load(f, **options) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = module.load(f, **options)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    module.load(f, **options)
    result = unpickler(module, persistent_load, f, options).load()
    for key in module.load(f, **options):
        if text_of(key) not in storages:
            raise AssertionError(f"storage key {key!r} not found in deserialized_objects")
        loaded, restored = storages[text_of(key)]
        _fill(loaded, f, dtypes[text_of(key)])
        if restored is not loaded and restored.device.type != "meta":
            restored.copy_(loaded)
    return result


def load_tar(f, restore, module, options):
    """A tar archive of the files "storages", "tensors" and "pickle"."""
    import tarfile
    objects = {}
    with tarfile.open(fileobj=f, mode="r:", format=tarfile.PAX_FORMAT) as tar:
        if module is _weights_only_unpickler:
            raise RuntimeError("Cannot use ``weights_only=True`` with files saved in the legacy .tar format. " + UNSAFE)
        part = tar.extractfile("storages")
        for _ in range(pickle.load(part, **options)):
            key, location, storage_type = unpickler(module, None, part, options).load()
            dtype = dtype_of(storage_type)
            numel = struct.unpack("<q", part.read(8))[0]
            nbytes = checked(numel, dtype)
            if nbytes > _room(part):
                raise RuntimeError(f"storage {key} needs {nbytes} bytes, more than the file has")
            storage = UntypedStorage(nbytes)
            _C._fill(part, storage)
            objects[key] = _typed(restore(storage, location), dtype)
        for target, root, offset, numel in pickle.load(part, **options):
            dtype = objects[root].dtype
            at = offset * dtype.itemsize
            objects[target] = _typed(objects[root].untyped()[at:at + numel * dtype.itemsize], dtype)
        part = tar.extractfile("tensors")
        for _ in range(pickle.load(part, **options)):
            key, storage, _ = unpickler(module, None, part, options).load()
            ndim = struct.unpack("<i4x", part.read(8))[0]
            if not 0 <= ndim <= 64:
                raise RuntimeError(f"a tensor of {ndim} dimensions; corrupt file?")
            numbers = struct.unpack(f"<{2 * ndim + 1}q", part.read(16 * ndim + 8))
            objects[key] = _C._tensor_over(objects[storage].untyped(), numbers[-1], numbers[:ndim], numbers[ndim:-1],
                                           objects[storage].dtype)

        def persistent_load(saved):
            if isinstance(saved, tuple):
                if all(saved[1:]):
                    _check_source(*saved)
                return saved[0]
            return objects[int(saved)]
        return unpickler(module, persistent_load, tar.extractfile("pickle"), options).load()


def _check_source(cls, file, original):
    import inspect
    try:
        current = inspect.getsource(cls)
    except (OSError, TypeError):
        return
    if current != original:
        warnings.warn(f"source code of class '{cls.__module__}.{cls.__qualname__}' has changed since {os.path.basename(file)} "
                      "was saved", SourceChangeWarning, stacklevel=2)
