"""Models in GGUF files.

    tensors, metadata = tede.gguf.load("model.gguf")
    tensors["output.weight"]                            # a packed weight, read where it lies in the file
    metadata["llama.block_count"]
    tede.gguf.save("other.gguf", tensors, metadata)

Loading maps the file: nothing is read before it is used. Floats and integers are strided tensors; Q8_0, Q4_0, Q4_K, Q6_K and MXFP4 are
packed ones, by which `linear` multiplies without unpacking them; Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q5_K, IQ4_NL and IQ4_XS are unpacked to
float32 when they are loaded. Of other types there are the bytes (`Blocks`). A file that contradicts itself is a ValueError that says at
which byte.
"""
import struct

from tede import _C

KINDS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64")
_CODES = dict(zip(KINDS, "BbHhIif?  Qqd", strict=True))         # struct's letters
_ARRAY = KINDS.index("array")


class Metadata(dict):
    """A dict of a file's values. `kinds` names the format's kind of some of them ("uint32", "[float32]" of a list),
    which `save` keeps to.

    >>> tede.gguf.Metadata({"general.name": "small"})["general.name"]
    'small'
    """

    def __init__(self, values=(), kinds=()):
        super().__init__(values)
        self.kinds = dict(kinds)


class Blocks:
    """A tensor of a type whose blocks can't be unpacked here: `type`, `shape` and `blocks`, which are bytes. Any use of
    it as a tensor is an error that says so; `save` writes it as it was.

    >>> tede.gguf.Blocks("weight", "IQ2_XS", (256,), tede.zeros(74, dtype=tede.uint8))
    <'weight': IQ2_XS of (256,), 74 bytes>
    """

    def __init__(self, name, type, shape, blocks):
        self.name, self.type, self.shape, self.blocks = name, type, shape, blocks

    def __repr__(self):
        return f"<{self.name!r}: {self.type} of {tuple(self.shape)}, {self.blocks.numel()} bytes>"

    def _refuse(self):
        return NotImplementedError(f"gguf: {self.name!r} is of type {self.type}, whose blocks can't be unpacked here; .blocks has its bytes")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._refuse()

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def found(value):
            if isinstance(value, (tuple, list)):
                return next((x for x in map(found, value) if x is not None), None)
            return value if isinstance(value, cls) else None
        raise found([*args, *(kwargs or {}).values()])._refuse()


def _read(file):
    tensors = {}
    for name in file.names():
        try:
            tensors[name] = file.get(name)
        except NotImplementedError:
            tensors[name] = Blocks(name, file.type(name), file.shape(name), file.blocks(name))
    return tensors, Metadata(file.metadata(), file.kinds())


def load(path):
    """(tensors, metadata) of a file: a dict of its tensors in order, mapped, and a `Metadata`.

    >>> tede.gguf.save("small.gguf", {"weight": tede.ones(2)}, {"general.name": "small"})
    >>> tensors, metadata = tede.gguf.load("small.gguf")
    >>> tensors["weight"], metadata["general.name"]
    (tensor([1., 1.]), 'small')
    """
    return _read(_C._gguf_open(path))


def loads(data):
    """`load` of a file's bytes.

    >>> tede.gguf.save("small.gguf", {"weight": tede.ones(2)})
    >>> tensors, metadata = tede.gguf.loads(open("small.gguf", "rb").read())
    >>> list(tensors)
    ['weight']
    """
    return _read(_C._gguf_parse(data))


def save(path, tensors, metadata=None):
    """Write a dict of tensors and one of metadata: strings, numbers, bools, and lists of one kind of them, or of lists.

    Strided tensors are written as F32, F16, BF16, F64 and I8 to I64, packed ones as their blocks. Where
    `metadata.kinds` says nothing else, floats are float32, integers uint32 (int32 in lists and below zero) or, where
    that has no room, uint64 and int64.

    >>> tede.gguf.save("small.gguf", {"weight": tede.ones(2)})
    """
    tensors, metadata = dict(tensors), Metadata(metadata or {}, getattr(metadata, "kinds", ()))
    kept = [x.blocks if isinstance(x, Blocks) else x.cpu() if isinstance(x, _C.Tensor) and x.device.type not in ("cpu", "meta") else x
            for x in tensors.values()]
    types = [x.type if isinstance(x, Blocks) else None for x in tensors.values()]
    values = [_encoded(key, value, metadata.kinds.get(key)) for key, value in metadata.items()]
    _C._gguf_save(path, tuple(tensors), tuple(kept), tuple(types), tuple(metadata), tuple(values))


def _encoded(key, value, kind):
    """A value as (kind, element, count, bytes)."""
    kind = kind or _kind(key, value)
    if kind == "string":
        if not isinstance(value, str):
            raise TypeError(f"gguf: {key!r} is a string, not {type(value).__name__}")
        return KINDS.index(kind), 0, 0, value.encode("utf-8", "surrogateescape")
    if isinstance(kind, list) or kind.startswith("["):
        return _encoded_list(key, value, kind)
    if not _CODES.get(kind, " ").strip():
        raise ValueError(f"gguf: {key!r} has kind {kind!r}; it is one of {', '.join(KINDS)}, or [kind] for a list")
    return KINDS.index(kind), 0, 0, _numbers(key, [value], kind)


def _encoded_list(key, value, kind):
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"gguf: {key!r} is a list, not {type(value).__name__}")
    if isinstance(kind, list):
        if len(kind) != len(value):
            raise ValueError(f"gguf: {key!r} has {len(value)} lists and kinds for {len(kind)}")
        parts = [_encoded(key, each, one) for each, one in zip(value, kind, strict=True)]
        if any(part[0] != _ARRAY for part in parts):
            raise TypeError(f"gguf: {key!r}: a list of lists has nothing else in it")
        return _ARRAY, _ARRAY, len(value), b"".join(struct.pack("<IQ", part[1], part[2]) + part[3] for part in parts)
    element = kind[1:-1]
    if element == "string":
        texts = [_encoded(key, each, element)[3] for each in value]
        return _ARRAY, KINDS.index(element), len(value), b"".join(struct.pack("<Q", len(text)) + text for text in texts)
    if kind[-1] != "]" or not _CODES.get(element, " ").strip():
        raise ValueError(f"gguf: {key!r} has kind {kind!r}; of a list it is [kind], of lists a list of kinds")
    return _ARRAY, KINDS.index(element), len(value), _numbers(key, value, element)


def _numbers(key, values, kind):
    """The bytes of numbers; struct refuses what a kind can't hold."""
    if kind == "bool" and not all(isinstance(value, bool) for value in values):
        raise TypeError(f"gguf: {key!r} doesn't hold bools alone")
    try:
        return struct.pack(f"<{len(values)}{_CODES[kind]}", *values)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"gguf: {key!r} is no {kind}: {error}") from None


def _kind(key, value):
    """The kind of a value for which none was named."""
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, (list, tuple)) for each in value):
            return [_kind(key, each) for each in value]
        kinds = {_kind(key, each) for each in value}
        if kinds <= {"uint32", "int32"}:
            return "[int32]" if all(each < 2 ** 31 for each in value) else "[int64]" if "int32" in kinds else "[uint32]"
        if kinds <= {"uint32", "int32", "uint64", "int64"}:
            return "[uint64]" if "uint64" in kinds else "[int64]"
        if "float32" in kinds and kinds <= {"uint32", "int32", "uint64", "int64", "float32"}:
            return "[float32]"
        if len(kinds) > 1:
            raise TypeError(f"gguf: {key!r} is a list of {' and '.join(sorted(kinds))}; the format's lists have one kind")
        return f"[{kinds.pop()}]"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "uint32" if 0 <= value < 2 ** 32 else "int32" if -2 ** 31 <= value < 0 else "uint64" if value >= 2 ** 63 else "int64"
    if isinstance(value, float):
        return "float32"
    raise TypeError(f"gguf: {key!r} is a {type(value).__name__}; the format has strings, numbers, bools and lists")
