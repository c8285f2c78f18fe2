"""The restricted unpickler of load(weights_only=True): it calls nothing but what is listed here.

A pickle is a program; this interprets the part of its language that data needs. A GLOBAL gives an entry of a table,
never an import, and REDUCE runs only entries of that table, most of them functions of this file that look at their
arguments first. What a program adds with add_safe_globals() counts too. Broken input raises UnpicklingError.
"""
import pickle as _pickle
import struct
import sys
import warnings
from collections import Counter, OrderedDict
from pickle import UnpicklingError

from tede import _C
from tede._parameter import Parameter
from tede._titles import STORAGES

_BLOCKED = ("sys", "os", "posix", "nt")
_user_safe = {}                 # global or (global, name) -> None, in the order of addition


def _add_safe_globals(safe_globals):
    _user_safe.update(dict.fromkeys(safe_globals))


def _get_safe_globals():
    return list(_user_safe)


def _clear_safe_globals():
    _user_safe.clear()


def _remove_safe_globals(safe_globals):
    for item in safe_globals:
        _user_safe.pop(item, None)


class _safe_globals:
    """Within it, classes and functions of the list may be used by `load` with weights_only=True.

    >>> class Config: pass
    >>> with tede.serialization.safe_globals([Config]):
    ...     Config in tede.serialization.get_safe_globals()
    True
    """

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        _add_safe_globals(self.safe_globals)

    def __exit__(self, *exception):
        _remove_safe_globals(self.safe_globals)


def _user_globals():
    from tede._compat import CLASSES
    found = {}
    for item in _user_safe:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: "
                                 f"{len(item)}")
            if type(item[1]) is not str:
                raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(item[1])}")
            found[item[1]] = item[0]
        else:
            module = item.__module__
            if module == "tede" or module.startswith("tede."):
                theirs = CLASSES.get((module, item.__qualname__), "torch" + module[4:])
                found[f"{theirs}.{item.__qualname__}"] = found[f"torch{module[4:]}.{item.__qualname__}"] = item
            found[f"{module}.{item.__qualname__}"] = item
    return found


# ---- what a pickle may name ------------------------------------------------------------------------------------------

def _encode(text, encoding="latin1"):
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise UnpicklingError("_codecs.encode is only read as the spelling of bytes")
    return text.encode(encoding)


def _bytearray(*args):
    if args and type(args[0]) not in (bytes, str) or len(args) > 2:
        raise UnpicklingError("a bytearray must come as bytes")
    return bytearray(args[0].encode(args[1]) if args and type(args[0]) is str else b"".join(args[:1]))


class _Storage:
    """A typed storage's class, as far as a checkpoint needs one."""

    def __init__(self, name):
        self.name = name
        self.dtype = self._dtype = getattr(_C, STORAGES[name])

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


def _get_layout(name):
    for layout in vars(_C).values():
        if isinstance(layout, _C.layout) and str(layout).rpartition(".")[2] == name.rpartition(".")[2]:
            return layout
    raise KeyError(name)


_table, _identities = {}, set()


def _get_allowed_globals():
    """Name -> what it stands for, made on first use."""
    if not _table:
        from tede import _storage, _utils
        from tede.nested._internal import nested_tensor as jagged
        _table.update({
            "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "_codecs.encode": _encode,
            "builtins.bytearray": _bytearray, "builtins.set": set, "builtins.complex": complex,
            "torch.Size": _C.Size, "torch.Tensor": _C.Tensor, "torch.device": _C.device,
            "torch.nn.parameter.Parameter": Parameter, "torch.serialization._get_layout": _get_layout,
            "torch._tensor._rebuild_from_type_v2": _utils._rebuild_from_type_v2,
            "torch.nested._internal.nested_tensor._rebuild_njt": jagged._rebuild_njt,
            "torch.nested._internal.nested_tensor.NestedTensor": jagged.NestedTensor,
            "torch.storage.UntypedStorage": _storage.UntypedStorage, "torch.UntypedStorage": _storage.UntypedStorage,
            "torch.storage.TypedStorage": _storage.TypedStorage})
        for name in ("_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_tensor", "_rebuild_tensor_v2",
                     "_rebuild_tensor_v3", "_rebuild_sparse_tensor", "_rebuild_layout_tensor", "_rebuild_mkldnn_tensor",
                     "_rebuild_nested_tensor", "_rebuild_qtensor",
                     "_rebuild_meta_tensor_no_storage",
                     "_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_wrapper_subclass"):
            _table["torch._utils." + name] = getattr(_utils, name)
        for name, value in vars(_C).items():
            if isinstance(value, _C.dtype):
                _table[str(value)] = _table["torch." + name] = value
        from tede._quantized import SCHEMES
        for scheme in SCHEMES:
            _table["torch." + scheme._name] = scheme
        for name in STORAGES:
            _table["torch." + name] = _Storage(name)
        _identities.update(map(id, _table.values()))
    return _table


def _is_known(value):
    return bool(_get_allowed_globals()) and id(value) in _identities or any(value is item for item in _user_globals().values())


def _find(module, name):
    path = f"{module}.{name}"
    if module in _BLOCKED:
        raise UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
    if path in _get_allowed_globals():
        return _get_allowed_globals()[path]
    user = _user_globals()
    if path in user:
        return user[path]
    if module.startswith("torch.distributed.tensor") and "tede.distributed.tensor" not in sys.modules:
        raise UnpicklingError("``torch.distributed.tensor`` must be imported to load DTensors")
    if path.startswith("builtins."):
        path = path[len("builtins."):]
    raise UnpicklingError(
        f"Unsupported global: GLOBAL {path} was not an allowed global by default. Please use "
        f"`torch.serialization.add_safe_globals([{path}])` or the `torch.serialization.safe_globals([{path}])` context "
        "manager to allowlist this global if you trust this class/function.")


def _new_object(cls, args):
    if cls is Parameter:
        return Parameter(*args)
    if isinstance(cls, type) and cls is not _C.Tensor and _is_known(cls):
        return cls.__new__(cls, *args)
    raise UnpicklingError("Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                          f"{cls}")


def _call(function, args):
    if type(args) is not tuple or not callable(function) or not _is_known(function):
        text = f"Trying to call reduce for unrecognized function {function}"
        if hasattr(function, "__self__"):
            text += f" which belongs to {function.__self__}"
        raise UnpicklingError(text)
    return function(*args)


def _build(instance, state):
    kind = type(instance)
    if kind is _C.Tensor:
        instance.set_(*state)
    elif kind is Parameter:
        instance.__setstate__(state)
    elif kind is OrderedDict:
        instance.__dict__.update(state)
    elif _is_known(kind):
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        else:
            slots = None
            if isinstance(state, tuple) and len(state) == 2:
                state, slots = state
            if state:
                instance.__dict__.update(state)
            for key, value in (slots or {}).items():
                setattr(instance, key, value)
    else:
        raise UnpicklingError("Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but "
                              f"got {kind}")


# ---- the interpreter -------------------------------------------------------------------------------------------------

def _names(readline):
    module, name = (readline()[:-1].decode("utf-8") for _ in range(2))
    from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


_AT_ONCE = 1 << 20


class Unpickler:
    """Has pickle.Unpickler's shape: load(), and persistent_load to be set."""

    def __init__(self, file, *, encoding="bytes"):
        self._file, self.encoding, self.memo, self._stack, self._marked = file, encoding, {}, [], []

    def persistent_load(self, pid):
        raise UnpicklingError("unsupported persistent id encountered")

    def _read(self, n):
        data = self._file.read(min(n, _AT_ONCE))
        while _AT_ONCE <= len(data) < n:        # a file makes room for what is asked, be it there or not
            more = self._file.read(min(n - len(data), len(data)))
            if not more:
                break
            data += more
        if len(data) != n:
            raise UnpicklingError("pickle data was truncated")
        return data

    def _number(self, form):
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def load(self):
        """Read one object."""
        try:
            while True:
                key = self._file.read(1)
                if not key:
                    raise EOFError("the pickled data ends early")
                step = _STEPS.get(key)
                if step is None:
                    if key == _pickle.STOP:
                        return self._stack.pop()
                    raise UnpicklingError(f"Unsupported operand {key[0]}")
                step(self)
        except (IndexError, struct.error, UnicodeError, AttributeError) as error:
            raise UnpicklingError(f"broken pickle: {error}") from error
        except (KeyError, TypeError) as error:
            raise UnpicklingError(f"broken pickle: {type(error).__name__}: {error}") from error

    def _items(self):
        items, self._stack = self._stack, self._marked.pop()
        return items

    def _push(self, value):
        self._stack.append(value)

    def _mark(self):
        self._marked.append(self._stack)
        self._stack = []

    def _global(self):
        self._push(_find(*_names(self._file.readline)))

    def _newobj(self):
        args = self._stack.pop()
        self._push(_new_object(self._stack.pop(), args))

    def _reduce(self):
        args = self._stack.pop()
        self._push(_call(self._stack.pop(), args))

    def _state(self):
        state = self._stack.pop()
        _build(self._stack[-1], state)

    def _extend(self, items, verb):
        target = self._stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"Can only {verb} lists, but got {type(target)}")
        target.extend(items)

    def _set(self, items, name):
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(f"Can only {name} for dict, collections.OrderedDict, collections.Counter, but got "
                                  f"{type(target)}")
        for k in range(0, len(items), 2):
            target[items[k]] = items[k + 1]

    def _append(self):
        self._extend([self._stack.pop()], "append to")

    def _setitem(self):
        value = self._stack.pop()
        self._set([self._stack.pop(), value], "SETITEM")

    def _tuple(self, n):
        items = tuple(self._stack[-n:])
        if len(items) != n:
            raise IndexError("stack underflow")
        self._stack[-n:] = [items]

    def _string(self):
        data = self._read(self._number("<B"))
        self._push(data if self.encoding == "bytes" else data.decode(self.encoding, "strict"))

    def _persistent(self):
        pid = self._stack.pop()
        if type(pid) not in (tuple, int):
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        if type(pid) is tuple and pid and pid[0] not in ("storage", b"storage"):
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {type(pid[0])}")
        self._push(self.persistent_load(pid))

    def _protocol(self):
        protocol = self._number("<B")
        if protocol != 2:
            warnings.warn(f"Detected pickle protocol {protocol} in the checkpoint, which was not the default pickle protocol "
                          "used by `torch.load` (2). The weights_only Unpickler might not support all instructions "
                          "implemented by this protocol, please file an issue for adding support if you encounter this.",
                          stacklevel=4)


_STEPS = {
    _pickle.PROTO: Unpickler._protocol, _pickle.MARK: Unpickler._mark, _pickle.GLOBAL: Unpickler._global,
    _pickle.NEWOBJ: Unpickler._newobj, _pickle.REDUCE: Unpickler._reduce, _pickle.BUILD: Unpickler._state,
    _pickle.APPEND: Unpickler._append, _pickle.APPENDS: lambda self: self._extend(self._items(), "extend"),
    _pickle.SETITEM: Unpickler._setitem, _pickle.SETITEMS: lambda self: self._set(self._items(), "SETITEMS"),
    _pickle.TUPLE: lambda self: self._push(tuple(self._items())), _pickle.TUPLE1: lambda self: self._tuple(1),
    _pickle.TUPLE2: lambda self: self._tuple(2), _pickle.TUPLE3: lambda self: self._tuple(3),
    _pickle.NONE: lambda self: self._push(None), _pickle.NEWTRUE: lambda self: self._push(True),
    _pickle.NEWFALSE: lambda self: self._push(False), _pickle.EMPTY_TUPLE: lambda self: self._push(()),
    _pickle.EMPTY_LIST: lambda self: self._push([]), _pickle.EMPTY_DICT: lambda self: self._push({}),
    _pickle.EMPTY_SET: lambda self: self._push(set()), _pickle.BININT: lambda self: self._push(self._number("<i")),
    _pickle.BININT1: lambda self: self._push(self._number("<B")),
    _pickle.BININT2: lambda self: self._push(self._number("<H")),
    _pickle.BINFLOAT: lambda self: self._push(self._number(">d")),
    _pickle.LONG1: lambda self: self._push(int.from_bytes(self._read(self._number("<B")), "little", signed=True)),
    _pickle.BINUNICODE: lambda self: self._push(str(self._read(self._number("<I")), "utf-8", "surrogatepass")),
    _pickle.SHORT_BINSTRING: Unpickler._string, _pickle.BINPERSID: Unpickler._persistent,
    _pickle.BINGET: lambda self: self._push(self.memo[self._number("<B")]),
    _pickle.LONG_BINGET: lambda self: self._push(self.memo[self._number("<I")]),
    _pickle.BINPUT: lambda self: self.memo.__setitem__(self._number("<B"), self._stack[-1]),
    _pickle.LONG_BINPUT: lambda self: self.memo.__setitem__(self._number("<I"), self._stack[-1]),
}


def load(file, *, encoding="ASCII"):
    """Read one object from a file."""
    return Unpickler(file, encoding=encoding).load()


def get_globals_in_pkl(file):
    """The names of all globals in a pickle, without reading it as one."""
    import pickletools
    found = set()
    try:
        for op, argument, _ in pickletools.genops(file):
            if op.name == "GLOBAL":
                lines = iter(f"{argument}\n".replace(" ", "\n").encode().splitlines(True))
                found.add(".".join(_names(lambda: next(lines))))
            elif op.name in ("STACK_GLOBAL", "FRAME", "INST", "EXT1", "EXT2", "EXT4"):
                raise UnpicklingError(f"Unsupported operand {ord(op.code)}")
    except ValueError as error:
        raise UnpicklingError(str(error)) from None
    return found
