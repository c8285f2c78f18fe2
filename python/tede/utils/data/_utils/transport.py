"""How a batch gets from a worker to the main process: a pickle through a pipe, large tensors in files of /dev/shm.

A worker writes a tensor's bytes to a new file and sends its name; the receiver maps the file and removes the name, so the
memory lives as long as the tensor. Names begin with a prefix of the loader's: what a killed worker leaves is removed by it.
Where shared memory is full or missing, the bytes go through the pipe.
"""
import io
import os
import pickle

from tede import _C
from tede._C import Tensor
from tede._storage import _Region, _storage_of

_FOLDER = "/dev/shm"
_SMALL = 1 << 14          # bytes that go through the pipe as they are


class _Sender(pickle.Pickler):
    def __init__(self, file, prefix):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._prefix, self._storages = prefix, {}

    def reducer_override(self, obj):
        if not isinstance(obj, Tensor) or obj.layout is not _C.strided or obj.is_meta or _C._is_hollow(obj):
            return NotImplemented           # of a class that keeps its elements in others: those are sent
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
                               "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
                               "the tensor before serializing (e.g., putting it on the queue).")
        with _C.DisableTorchFunctionSubclass():
            x = obj.detach()
            if not x.is_contiguous() or x.is_conj() or x.is_neg():
                x = x.contiguous().resolve_conj().resolve_neg()
            start = x.storage_offset() * x.itemsize
            data = memoryview(x.untyped_storage())[start:start + x.numel() * x.itemsize]
        where = _write(self._prefix, data) if len(data) > _SMALL and self._prefix else None
        if where is None:
            where = bytes(data)
        return _receive, (type(obj), where, x.dtype, tuple(x.shape), obj.requires_grad, dict(obj.__dict__))


_count = 0


def _write(prefix, data):
    """A new file with these bytes: (name, size); None where there is no room."""
    global _count
    _count += 1
    path = f"{_FOLDER}/{prefix}-{os.getpid()}-{_count}"
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:done + (1 << 30)])
    except OSError:
        os.unlink(path)
        return None
    finally:
        os.close(fd)
    return path, len(data)


def _receive(cls, where, dtype, shape, requires_grad, state):
    if isinstance(where, bytes):
        storage = _C.StorageBase.__new__(_storage_class(), where)
    else:
        path, size = where
        fd = os.open(path, os.O_RDWR)
        try:
            os.unlink(path)
            region = _Region(fd, size)
        finally:
            os.close(fd)
        region.shared = True
        storage = _storage_of(region)
    strides, step = [], 1
    for n in reversed(shape):
        strides.insert(0, step)
        step *= max(n, 1)
    x = _C._tensor_over(storage, 0, shape, tuple(strides), dtype)
    if cls is not Tensor:
        x = Tensor._make_subclass(cls, x)
    if requires_grad:
        x.requires_grad_()
    if state:
        x.__dict__.update(state)
    return x


def _storage_class():
    from tede._storage import UntypedStorage
    return UntypedStorage


def dumps(obj, prefix):
    file = io.BytesIO()
    _Sender(file, prefix).dump(obj)
    return file.getbuffer()


loads = pickle.loads


def remove_leftovers(prefix):
    """Remove what workers wrote and nobody received."""
    try:
        names = [name for name in os.listdir(_FOLDER) if name.startswith(prefix + "-")]
    except OSError:
        return
    for name in names:
        try:
            os.unlink(f"{_FOLDER}/{name}")
        except OSError:
            continue
