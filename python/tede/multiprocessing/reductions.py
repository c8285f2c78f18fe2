"""Pickling of tensors for other processes: their storages move to shared memory, and a descriptor is what is sent.

Memory can be moved only with all that look at it (tensors hold addresses): a tensor alone, or with the others in what is sent. Where somebody else
does, the receiver gets shared memory with a copy, and the sender keeps what it has.
"""
import io
import os
import pickle
import threading
import weakref
from multiprocessing import context, reduction, resource_sharer  # noqa: F401  DupFd imports the last when it is called: in a queue's
#                                                       thread, and a process that forks meanwhile waits for ever for the import's lock
from multiprocessing.reduction import ForkingPickler

from tede import _C
from tede._C import StorageBase, Tensor
from tede._parameter import Parameter
from tede._storage import UntypedStorage, _shared


def share(x):
    """Tensor.share_memory_"""
    if x.device.type != "cpu":
        return x
    storage = x.untyped_storage()
    if storage.is_shared() or not storage.nbytes():
        return x
    if not _only_holder(x, storage):
        raise NotImplementedError("share_memory_: other tensors share this tensor's memory, and it can't be moved away under "
                                  "them; call share_memory_() before making views")
    _move(x, storage)
    return x


def _only_holder(x, storage):
    """Whether the storage has no holder but x, the tensor that x is a view of (reshape makes one) and `storage` itself."""
    return storage._use_count() <= (2 if x._base is None else 3)


def _move(x, storage):
    target = _shared(storage.nbytes())
    if x.is_quantized:                  # a tensor over the memory has no quantizer
        _C._take(storage, target, [x])
        return
    target.copy_(storage)
    with _C.DisableTorchFunctionSubclass():
        for y in (x,) if x._base is None else (x, x._base):
            place = y.storage_offset(), tuple(y.shape), y.stride()
            y.data = _C._tensor_over(target, *place, y.dtype)


_sending = threading.local()            # .what: the object that this thread pickles for another process


class _Finder(ForkingPickler):
    """Pickles to nowhere, to find the tensors in an object."""

    def __init__(self):
        super().__init__(io.BytesIO(), pickle.HIGHEST_PROTOCOL)
        self.found = []

    def persistent_id(self, obj):
        if isinstance(obj, Tensor):
            self.found.append(obj)
        return "" if isinstance(obj, (Tensor, StorageBase)) or hasattr(type(obj), "_pickle_storage_type") else None


def _move_together(storage):
    """Move a storage with all tensors in what is being sent, if nobody else looks at it."""
    what = getattr(_sending, "what", None)
    if storage.device.type != "cpu" or what is None or context.get_spawning_popen() is not None:      # what that is given is noted there, once
        return False
    finder = _Finder()
    _sending.what = None                # what finds is no sending
    try:
        finder.dump(what)
    except Exception:                   # it can't be pickled: the sending will say so
        return False
    finally:
        _sending.what = what
    return _C._take(storage, _shared(storage.nbytes()), finder.found)


_dump = ForkingPickler.dump


def _dump_noted(self, obj):
    outer, _sending.what = getattr(_sending, "what", None), obj
    try:
        return _dump(self, obj)
    finally:
        _sending.what = outer


def _sent(descriptor):
    """What stands for a descriptor in a pickle. The receiver gets a new descriptor, and closes that."""
    starting = context.get_spawning_popen()
    if starting is not None:
        # A process that is being started inherits the descriptor under its number, after the pickle is made and the storage
        # may be gone: the process's object owns a duplicate.
        descriptor = os.dup(descriptor)
        weakref.finalize(starting, os.close, descriptor)
    return reduction.DupFd(descriptor)


# The memory (its file's device and inode, its size) -> the storage over it, as long as a program holds that: memory that arrives again,
# or for several tensors of one message, is one storage.
_here = weakref.WeakValueDictionary()


def _memory(descriptor, nbytes):
    of = os.fstat(descriptor)
    return of.st_dev, of.st_ino, nbytes


def _of_descriptor(descriptor, nbytes):
    descriptor = descriptor.detach()
    storage = _here.get(memory := _memory(descriptor, nbytes))
    region = storage._region() if storage is not None else None
    if region is not None and region.fd is not None and _memory(region.fd, storage.nbytes()) == memory:         # it hasn't got other memory since
        os.close(descriptor)
    else:
        storage = _here[memory] = _shared(nbytes, descriptor)
    return storage


def _empty():
    return UntypedStorage(0)


def reduce_storage(storage):
    if not storage.nbytes():
        return _empty, ()
    region = storage._region()
    if (region is None or region.fd is None) and _move_together(storage):
        region = storage._region()
    if region is None or region.fd is None:
        target = _shared(storage.nbytes())
        target.copy_(storage)
        region = target._region()
    else:
        _here.setdefault(_memory(region.fd, storage.nbytes()), storage)
    return _of_descriptor, (_sent(region.fd), storage.nbytes())


def _rebuild(cls, storage, dtype, offset, size, stride, requires_grad, state):
    x = _C._tensor_over(storage, offset, size, stride, dtype)
    if cls is not Tensor:
        x = Tensor._make_subclass(cls, x)
    if requires_grad:
        x.requires_grad_()
    if state:
        x.__dict__.update(state)
    return x


def reduce_tensor(x):
    if x.requires_grad and not x.is_leaf:
        raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                           "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                           "before serializing (e.g., putting it on the queue).")
    if x.layout is not _C.strided or x.is_meta or _C._is_hollow(x):
        return x.__reduce_ex__(2)
    storage = x.untyped_storage()
    if not storage.is_shared() and storage.nbytes() and _only_holder(x, storage):
        _move(x, storage)
        storage = x.untyped_storage()
    return _rebuild, (type(x), storage, x.dtype, x.storage_offset(), tuple(x.shape), x.stride(), x.requires_grad,
                      dict(x.__dict__))


class StorageWeakRef:
    """A weak reference to a storage's bytes: equal, as keys too, for tensors that share them."""

    _known = weakref.WeakValueDictionary()          # cdata -> the reference

    def __init__(self, storage):
        self._weak = _C._WeakStorage(getattr(storage, "_untyped_storage", storage))
        self.cdata = self._weak.cdata
        self._known[self.cdata] = self

    @classmethod
    def from_weakref(cls, cdata):
        """Another reference with the number of one that is there."""
        made = cls.__new__(cls)
        made._weak, made.cdata = cls._known[cdata]._weak, cdata
        return made

    def expired(self):
        return self._weak.expired()

    def __hash__(self):
        return self.cdata

    def __eq__(self, other):
        return self is other or self.cdata == other.cdata


def _reduce_typed(storage):
    return _typed, (storage._untyped_storage, storage.dtype)


def _typed(storage, dtype):
    from tede._storage import TypedStorage
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def init_reductions():
    from tede._storage import TypedStorage
    for cls in (Tensor, Parameter):
        ForkingPickler.register(cls, reduce_tensor)
    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.dump = _dump_noted
    ForkingPickler.register(TypedStorage, _reduce_typed)
