"""The classes of storages: the bytes beneath tensors, and the older typed ones that checkpoints name.

An UntypedStorage is a block of bytes; the extension makes it, this class gives it the rest of its methods. Memory that
processes share, or that a file backs, belongs to a `_Region`: a mapping that knows where it came from, found again by
its address, so that nothing has to be remembered in the storage itself.
"""
import mmap
import os
import weakref
from collections.abc import Sequence
from functools import wraps

from tede import _C
from tede._titles import INTEGERS, STORAGES, TITLES, short

_regions = weakref.WeakValueDictionary()        # address of a mapping's first byte -> the mapping


class _Region(mmap.mmap):
    """A mapping of a file or of shared memory."""
    shared = False          # whether other processes may look at it
    fd = None               # shared memory: a descriptor of our own, by which it can be sent on
    filename = None         # a shared mapping of a file: its name

    def __del__(self):
        if self.fd is not None:
            try:
                os.close(self.fd)
            except OSError:
                pass


def _storage_of(region):
    """A storage over all bytes of a mapping."""
    writable = memoryview(region)
    storage = _C.frombuffer(writable, dtype=_C.uint8).untyped_storage()
    _regions[storage.data_ptr()] = region
    return storage


def _shared(nbytes, fd=None):
    """A new storage in shared memory, or the one that a descriptor names (which is taken over)."""
    if nbytes == 0:
        return UntypedStorage(0)
    if fd is None:
        fd = os.memfd_create("tede", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(fd, 0, nbytes)
        except OSError as error:
            os.close(fd)
            raise RuntimeError(f"unable to allocate shared memory of {nbytes} bytes: {error.strerror}") from None
    try:
        region = _Region(fd, nbytes)
    except (OSError, ValueError) as error:
        os.close(fd)
        raise RuntimeError(f"unable to map shared memory of {nbytes} bytes: {error}") from None
    region.fd, region.shared = fd, True
    return _storage_of(region)


def _of_file(filename, shared, nbytes, offset=0):
    """A storage over a file's bytes: writes reach the file if it is shared, else they stay with the storage."""
    if nbytes == 0:
        return UntypedStorage(0)
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        fd = os.open(filename, flags, 0o666)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{os.fspath(filename)}> in "
                           f"{'read-write' if shared else 'read-only'} mode: {error.strerror} ({error.errno})") from None
    try:
        size = os.fstat(fd).st_size
        if size < nbytes:
            if not shared:
                raise RuntimeError(f"file <{os.fspath(filename)}> size <{size}> is smaller than the required mapping size "
                                   f"<{nbytes}>")
            os.ftruncate(fd, nbytes)
        region = _Region(fd, nbytes, mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
    finally:
        os.close(fd)
    region.filename = os.fspath(filename) if shared else None
    return _storage_of(region)


_CASTS = {"double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
          "char": "int8", "byte": "uint8", "bool": "bool", "bfloat16": "bfloat16", "complex_double": "complex128",
          "complex_float": "complex64"}


class UntypedStorage(_C.StorageBase):
    """UntypedStorage(size), UntypedStorage(sequence of bytes): a block of bytes that tensors look at."""
    __module__ = "tede.storage"
    is_sparse = is_sparse_csr = is_cuda = is_hpu = False

    def __new__(cls, *args, device=None, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (list, tuple)):
            args = (bytes(args[0]),)
        return super().__new__(cls, *args, device=device, **kwargs)

    def _bytes(self):
        return memoryview(self)

    def _region(self):
        return _regions.get(self.data_ptr()) if self.device.type == "cpu" else None

    def __getitem__(self, i):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(i, slice):
            start, stop, step = i.indices(self.nbytes())
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            if stop <= start:
                return UntypedStorage(0)
            return _C.frombuffer(memoryview(self)[start:stop], dtype=_C.uint8).untyped_storage()
        if i < 0:
            i += len(self)
        return super().__getitem__(i)

    def __setitem__(self, i, value):
        if isinstance(i, slice):
            start, stop, step = i.indices(self.nbytes())
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            memoryview(self)[start:stop] = bytes([value & 255]) * max(stop - start, 0)
        else:
            if not -len(self) <= i < len(self):
                raise IndexError(f"index {i} out of range for storage of size {len(self)}")
            memoryview(self)[i] = value & 255

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        end = f"[{type(self).__module__.replace('tede', 'torch')}.{type(self).__name__}(device={self.device}) of size " \
              f"{len(self)}]"
        if self.device.type == "meta":
            return "...\n" + end
        if self.device.type != "cpu":
            return " " + "\n ".join(map(str, self.cpu().tolist())) + "\n" + end
        return " " + "\n ".join(map(str, self.tolist())) + "\n" + end

    __str__ = __repr__

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        key = "storage", self._cdata
        if key not in memo:
            memo[key] = self.clone(), self      # the original stays alive, so its address stays its own
        return memo[key][0]

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def copy_(self, source, non_blocking=None):
        self._check_bytes("call copy_()")
        source = source.untyped()
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes")
        if self.device.type == source.device.type == "cpu":
            memoryview(self)[:] = memoryview(source)
        elif self.device.type != "meta":
            self._bytes().copy_(source._bytes(), non_blocking=bool(non_blocking))
        return self

    def fill_(self, value):
        self._check_bytes("call fill_()")
        if self.device.type == "cpu":
            self[:] = int(value)
        else:
            self._bytes().fill_(int(value))
        return self

    def element_size(self):
        return 1

    def new(self):
        return UntypedStorage(device=self.device)

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return f"{type(self).__module__}.{type(self).__name__}".replace("tede", "torch")
        return self if dtype is UntypedStorage else self._as_dtype(dtype)

    def to(self, *, device, non_blocking=False):
        device = _C.device(device)
        if device.type == "cpu" and self.device.type == "cpu":
            return self
        if device.type == "meta":
            return UntypedStorage(self.nbytes(), device="meta")
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        bytes_there = _C._functions["empty"](0, dtype=_C.uint8, device=self.device).set_(self)
        return bytes_there.to(device).untyped_storage()

    def cpu(self):
        return self.to(device="cpu") if self.device.type != "cpu" else self

    def cuda(self, device=None, non_blocking=False):
        return self.to(device="cuda" if device is None else device)

    def get_device(self):
        return self.device.index if self.device.index is not None else -1

    def resizable(self):
        return self._resizable()

    def untyped(self):
        return self

    def is_shared(self):
        region = self._region()
        return region is not None and region.shared

    def _bytes(self):
        return _C.tensor([], dtype=_C.uint8, device=self.device).set_(self)

    def is_pinned(self, device=None):
        return self.device.type == "cpu" and self._bytes().is_pinned(device)

    def pin_memory(self, device=None):
        return self._bytes().pin_memory(device).untyped_storage()

    @property
    def filename(self):
        region = self._region()
        return None if region is None else region.filename

    def share_memory_(self):
        """Move the bytes to memory that other processes may map. Tensors hold the address of their memory, so this is
        possible while none looks at the storage; Tensor.share_memory_ moves a tensor with it."""
        if self.device.type != "cpu":
            raise RuntimeError("share_memory_: only available on CPU")
        if self.is_shared() or not self.nbytes():
            return self
        shared = _shared(self.nbytes())
        if not _C._take(self, shared, []):
            raise NotImplementedError("UntypedStorage.share_memory_: tensors look at this memory, which can't be moved away "
                                      "under them; call share_memory_() of the tensor")
        return self

    @classmethod
    def _new_shared(cls, size, *, device="cpu"):
        return _shared(size)

    def _share_fd_cpu_(self, *args, **kwargs):
        """(a descriptor of the shared memory, its size)"""
        if self.device.type != "cpu":
            raise RuntimeError("_share_fd_: only available on CPU")
        self.share_memory_()
        region = self._region()
        if region is None or region.fd is None:
            raise RuntimeError("_share_fd_: the storage has no descriptor")
        return os.dup(region.fd), self.nbytes()

    def _share_filename_cpu_(self, *args, **kwargs):
        if self.device.type != "cpu":
            raise RuntimeError("_share_filename_: only available on CPU")
        raise NotImplementedError("UntypedStorage._share_filename_cpu_: memory is shared by descriptors here")

    def _write_file(self, f=None, is_real_file=False, save_size=False, element_size=1):
        """Write the bytes to a file, behind the number of elements if `save_size`."""
        self._check_bytes("call _write_file()")
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if save_size:
            f.write((self.nbytes() // element_size).to_bytes(8, "little"))
        f.write(memoryview(self.cpu()))

    @classmethod
    def from_buffer(cls, *args, dtype=None, **kwargs):
        return TypedStorage._from_buffer(*args, dtype=dtype, **kwargs)._untyped_storage

    @classmethod
    def from_file(cls, filename, shared=False, nbytes=0):
        """The bytes of a file, mapped."""
        return _of_file(filename, shared, nbytes or os.path.getsize(filename))

    def _as_dtype(self, dtype):
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        x = _C._functions["tensor"] if "tensor" in _C._functions else _C.tensor
        return TypedStorage(wrap_storage=x(self.tolist(), dtype=_C.uint8).to(dtype).untyped_storage(), dtype=dtype,
                            _internal=True)

    def byteswap(self, dtype):
        """Turn the order of the bytes of each element round."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        if size > 1:
            view = memoryview(self)
            swapped = bytearray(len(view))
            for k in range(size):
                swapped[k::size] = view[size - 1 - k::size]
            view[:] = swapped

    def _typed_storage(self):
        return TypedStorage(wrap_storage=self, dtype=_C.uint8, _internal=True)


def _cast(name, dtype):
    def cast(self):
        return self._as_dtype(getattr(_C, dtype))
    cast.__name__ = name
    cast.__doc__ = f"The elements as {dtype}."
    return cast


# ---- typed storages -------------------------------------------------------------------------------------------------

_warned = _always_warn = False


def _warn_typed_storage_removal(stacklevel=2):
    """Warn of typed storages: once, unless it is wanted each time."""
    global _warned
    if not _warned or _always_warn:
        import warnings
        _warned = True
        warnings.warn("TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
                      "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
                      "directly, use tensor.untyped_storage() instead of tensor.storage()", UserWarning, stacklevel=stacklevel + 1)


def _reset_warn_typed_storage_removal():
    global _warned
    _warned = False


def _get_always_warn_typed_storage_removal():
    return _always_warn


def _set_always_warn_typed_storage_removal(always_warn):
    global _always_warn
    if not isinstance(always_warn, bool):
        raise AssertionError(f"always_warn must be bool, got {type(always_warn).__name__}")
    _always_warn = always_warn


class TypedStorage:
    """An `UntypedStorage` and a dtype: what tensors were made of, and what checkpoints still name. It warns: use
    `x.untyped_storage()`.

        args: a size, or numbers.
        wrap_storage: an UntypedStorage to look at instead.
        dtype, device: of the elements.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     tede.tensor([1.0, 2.0]).storage().tolist()
    [1.0, 2.0]
    """
    __module__ = "tede.storage"
    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        cls = type(self)
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        text = (f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n * no arguments\n * (int size)"
                "\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)") if cls is not TypedStorage else (
            "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n"
            " * (*, torch.device device, torch.dtype dtype)\n * (int size, *, torch.device device, torch.dtype dtype)\n"
            " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
            " * (*, UntypedStorage wrap_storage, torch.dtype dtype)")
        if cls is not TypedStorage:
            if device is not None:
                raise RuntimeError(text + "\nKeyword argument 'device' cannot be specified")
            if dtype is not None:
                raise RuntimeError(text + "\nKeyword argument 'dtype' cannot be specified")
            dtype = cls._dtype
        if wrap_storage is not None:
            if args:
                raise RuntimeError(text + "\n\nNo positional arguments should be given when using 'wrap_storage'")
            if dtype is None:
                raise RuntimeError(text + "\nArgument 'dtype' must be specified")
            if not isinstance(dtype, _C.dtype):
                raise TypeError(text + f"\nArgument 'dtype' must be torch.dtype, not {type(dtype)}")
            if device is not None:
                raise RuntimeError(text + "\nArgument 'device' should not be specified when 'wrap_storage' is given")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(text + f"\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self._untyped_storage = wrap_storage
        elif len(args) > 1:
            raise RuntimeError(text + "\nToo many positional arguments")
        elif not args:
            self._untyped_storage = UntypedStorage(device=device)
        elif hasattr(args[0], "__index__") and not hasattr(args[0], "__len__") and not isinstance(args[0], bool):   # NumPy's, too
            self._untyped_storage = UntypedStorage(args[0].__index__() * (dtype or _C.get_default_dtype()).itemsize, device=device)
        elif isinstance(args[0], str):
            raise TypeError("new(): invalid data type 'str'")
        elif isinstance(args[0], Sequence) or isinstance(args[0], (TypedStorage, UntypedStorage)):
            self._untyped_storage = _C.tensor(list(args[0]), dtype=INTEGERS.get(short(dtype), dtype), device=device).untyped_storage()
        else:
            raise TypeError(text + f"\nArgument type not recognized: {type(args[0])}")
        self.dtype = dtype if dtype is not None else _C.get_default_dtype()

    @property
    def _dtype(self):
        return self.dtype

    @property
    def device(self):
        """Where the bytes are."""
        return self._untyped_storage.device

    @property
    def filename(self):
        """The file that is mapped, or None."""
        return self._untyped_storage.filename

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def _tensor(self):
        n = self._size()
        return _C._tensor_over(self._untyped_storage, 0, (n,), (1,), INTEGERS.get(short(self.dtype)) or self.dtype)

    def _wrap(self, storage):
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    def untyped(self):
        """The bytes, without the dtype."""
        return self._untyped_storage

    def nbytes(self):
        """How many bytes."""
        return self._untyped_storage.nbytes()

    def size(self):
        """How many elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def __len__(self):
        return self._size()

    def element_size(self):
        """The bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self):
        """The address of the first byte."""
        return self._untyped_storage.data_ptr()

    def get_device(self):
        """The number of the device, -1 on the CPU."""
        return self._untyped_storage.get_device()

    def _index(self, i):
        if isinstance(i, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(i, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(i)}")
        size = self._size()
        if not -size <= i < size:
            raise IndexError(f"index {i} out of range for storage of size {size}")
        return i % size

    def __getitem__(self, i):
        if self._untyped_storage.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._tensor()[self._index(i)].item()

    def __setitem__(self, i, value):
        if not isinstance(i, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(i)}")
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise RuntimeError(f"cannot set item with {type(value)}")
        self._tensor()[i if isinstance(i, slice) else self._index(i)] = value

    def __iter__(self):
        return iter(self._tolist())

    def __eq__(self, other):
        if isinstance(other, TypedStorage):
            return self.dtype == other.dtype and self._untyped_storage == other._untyped_storage
        return NotImplemented

    __hash__ = None

    def __repr__(self):
        end = (f"[torch.storage.{type(self).__name__}(dtype={self.dtype}, device={self._untyped_storage.device}) "
               f"of size {self._size()}]")
        meta = self._untyped_storage.device.type == "meta"
        return ("..." if meta else " " + "\n ".join(map(str, self._tolist()))) + "\n" + end

    def __copy__(self):
        return self._clone()

    def __deepcopy__(self, memo):
        return self._wrap(self._untyped_storage.__deepcopy__(memo))

    def __sizeof__(self):
        return object.__sizeof__(self) + self._nbytes()

    def clone(self):
        """A copy."""
        return self._wrap(self._untyped_storage.clone())

    def tolist(self):
        """The elements as a list of numbers."""
        if self._untyped_storage.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._tensor().tolist()

    def copy_(self, source, non_blocking=None):
        """Copy another storage's elements here."""
        if isinstance(source, TypedStorage):
            if source._size() != self._size():
                raise RuntimeError(f"size does not match, self was {self._nbytes()} bytes but src was {source._nbytes()} bytes")
            self._tensor().copy_(source._tensor())
        else:
            self._untyped_storage.copy_(source)
        return self

    def fill_(self, value):
        """Set all elements to a number."""
        self._setitem(slice(0, self._size()), value)
        return self

    def resizable(self):
        """Whether `resize_` is possible."""
        return self._untyped_storage.resizable()

    def resize_(self, size):
        """Change how many elements there are, in place."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def is_shared(self):
        """Whether other processes may map the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self):
        """Move the bytes to memory that other processes may map."""
        self._untyped_storage.share_memory_()
        return self

    def _share_fd_cpu_(self, *args, **kwargs):
        fd, size = self._untyped_storage._share_fd_cpu_(*args, **kwargs)
        return fd, size // self.dtype.itemsize

    def _share_filename_cpu_(self, *args, **kwargs):
        return self._untyped_storage._share_filename_cpu_(*args, **kwargs)

    def _write_file(self, *args):
        return self._untyped_storage._write_file(*args)

    def is_pinned(self, device=None):
        """Whether the memory is page-locked."""
        return False

    def pin_memory(self, device=None):
        """A copy in page-locked memory."""
        return self._wrap(self._untyped_storage.pin_memory(device))

    def cpu(self):
        """The same on the CPU."""
        return self._wrap(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        """The same on a CUDA device."""
        return self._wrap(self._untyped_storage.cuda(device))

    def to(self, *, device, non_blocking=False):
        """The same on a device."""
        return self._wrap(self._untyped_storage.to(device=device))

    def type(self, dtype=None, non_blocking=False):
        """The name of the class that had this dtype; with one, the elements in it."""
        if dtype is None:
            return f"torch.{self._pickle_storage_type()}"
        return self._as_dtype(dtype if isinstance(dtype, _C.dtype) else dtype._dtype)

    def _as_dtype(self, dtype):
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
        return TypedStorage(wrap_storage=self._tensor().to(dtype).untyped_storage(), dtype=dtype, _internal=True)

    def pickle_storage_type(self):
        """The name under which checkpoints have it: "FloatStorage", ..."""
        try:
            return TITLES[short(self.dtype)] + "Storage"
        except KeyError:
            raise KeyError(f"dtype {self.dtype} is not recognized") from None

    @classmethod
    def _from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        dtype = cls._dtype if cls is not TypedStorage else dtype or _C.uint8
        names = dict(zip(("buffer", "byte_order", "count", "offset"), args)) | kwargs
        if cls is not TypedStorage and len(args) + len(kwargs) < 2 and dtype.itemsize > 1:
            raise TypeError("function missing required argument 'byte_order' (pos 2)")
        x = _C.frombuffer(bytearray(names["buffer"]), dtype=dtype, count=names.get("count", -1), offset=names.get("offset", 0))
        storage = x.clone().untyped_storage()
        if names.get("byte_order") == "big":
            storage.byteswap(dtype)
        return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        """from_buffer(buffer, byte_order=None, count=-1, offset=0): the elements of a buffer, copied."""
        _warn_typed_storage_removal()
        return cls._from_buffer(*args, **kwargs)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """The elements of a file, mapped."""
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        nbytes = size * cls._dtype.itemsize
        return cls(wrap_storage=UntypedStorage.from_file(filename, shared, nbytes))


for _name, _dtype in _CASTS.items():
    setattr(UntypedStorage, _name, _cast(_name, _dtype))
    setattr(TypedStorage, _name, _cast(_name, _dtype))


def _deprecated(name):
    """Let a member of TypedStorage warn; what was there is `_name`, for the library's own use."""
    plain = TypedStorage.__dict__[name]
    setattr(TypedStorage, "_" + (name.strip("_") if name.startswith("__") else name), plain)
    if isinstance(plain, property):
        def warning(self):
            _warn_typed_storage_removal()
            return plain.fget(self)
        setattr(TypedStorage, name, property(warning))
        return

    @wraps(plain)
    def warning(self, *args, **kwargs):
        _warn_typed_storage_removal()
        return plain(self, *args, **kwargs)
    setattr(TypedStorage, name, warning)


TypedStorage.is_cuda = property(lambda self: self._untyped_storage.device.type == "cuda", doc="Whether it is on a CUDA device.")
TypedStorage.is_hpu = property(lambda self: self._untyped_storage.device.type == "hpu", doc="False: there is no such device here.")
for _name in ("fill_", "is_cuda", "is_hpu", "untyped", "__len__", "__setitem__", "__getitem__", "copy_", "nbytes", "cuda", "to",
              "element_size", "get_device", "__repr__", "__iter__", "__copy__", "__deepcopy__", "__sizeof__", "clone", "tolist", "cpu",
              "share_memory_", "device", "size", "pickle_storage_type", "data_ptr", "resizable", "resize_", "is_shared", *_CASTS):
    _deprecated(_name)


class _LegacyMeta(type):
    def __instancecheck__(cls, x):
        if cls is _LegacyStorage:
            return isinstance(x, TypedStorage)
        return isinstance(x, TypedStorage) and x.dtype == cls._dtype

    @property
    def dtype(cls):
        _warn_typed_storage_removal()
        return cls._dtype


class _LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    __module__ = "tede.storage"

    @classmethod
    def _new_shared(cls, size):
        return TypedStorage(wrap_storage=_shared(size * cls._dtype.itemsize), dtype=cls._dtype, _internal=True)


def _legacy(name):
    return _LegacyMeta(name, (_LegacyStorage,), {"_dtype": getattr(_C, STORAGES[name]), "__module__": "torch"})


def _dtype_to_storage_type_map():
    """The class's name for each dtype that has one."""
    return {getattr(_C, dtype): name for name, dtype in STORAGES.items()}


def _storage_type_to_dtype_map():
    return {name: getattr(_C, dtype) for name, dtype in STORAGES.items()}


_classes = {}


def __getattr__(name):
    if name == "Storage":           # the old name of the default dtype's
        name = TITLES[short(_C.get_default_dtype())] + "Storage"
    if name in STORAGES:
        return _classes.setdefault(name, _classes.get(name) or _legacy(name))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
