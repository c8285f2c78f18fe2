"""Metadata queries as operators: aten::size, sym_size, is_contiguous, prim::device and the like.

They compute nothing and are never dispatched; each reads an attribute of the tensor, or sets what it looks at. They have names since a class that was made with
dispatch_sizes_strides_policy, dispatch_device or dispatch_layout gets them in its __torch_dispatch__ (metadata.c)."""
import tede
from tede import _C
from tede._overloads import OpOverload, OpOverloadPacket
from tede._tags import Tag


def _strides_like(x, memory_format):
    if x.dim() != {tede.channels_last: 4, tede.channels_last_3d: 5}.get(memory_format, x.dim()):
        return False
    return x.stride() == tede.empty_like(x, device="meta", memory_format=memory_format).stride()


def _dense(x):
    """Whether the elements fill their part of the storage, in any order of the dimensions."""
    expected = 1
    for size, stride in sorted(zip(x.shape, x.stride()), key=lambda pair: (pair[0] == 1, pair[1])):
        if size != 1 and stride != expected:
            return x.numel() == 0
        expected *= size
    return True


# schema -> the query
_ATEN = {
    "dim(Tensor self) -> int": lambda x: x.dim(),
    "is_contiguous(Tensor self) -> bool": lambda x: x.is_contiguous(),
    "is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool":
        lambda x, memory_format: x.is_contiguous(memory_format=memory_format),
    "is_non_overlapping_and_dense(Tensor self) -> bool": _dense,
    "is_strides_like_format(Tensor self, MemoryFormat memory_format) -> bool": _strides_like,
    "sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool":
        lambda x, memory_format=tede.contiguous_format: x.is_contiguous(memory_format=memory_format),
}
for _sym, _int in ("", "int"), ("sym_", "SymInt"):
    _ATEN.update({
        f"{_sym}size(Tensor self) -> {_int}[]": lambda x: list(x.size()),
        f"{_sym}size.int(Tensor self, int dim) -> {_int}": lambda x, dim: x.size(dim),
        f"{_sym}stride(Tensor self) -> {_int}[]": lambda x: list(x.stride()),
        f"{_sym}stride.int(Tensor self, int dim) -> {_int}": lambda x, dim: x.stride(dim),
        f"{_sym}numel(Tensor self) -> {_int}": lambda x: x.numel(),
        f"{_sym}storage_offset(Tensor self) -> {_int}": lambda x: x.storage_offset(),
    })
_ATEN["set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)"] = lambda x, source: tede.Tensor.set_(x, source)
_GEOMETRY = ("is_non_overlapping_and_dense", "is_strides_like_format")
_PRIM = {
    "device(Tensor a) -> Device": lambda x: x.device,
    "layout(Tensor a) -> Layout": lambda x: x.layout,
    "dtype(Tensor a) -> int": lambda x: x.dtype,
    "data(Tensor(a) a) -> Tensor(a)": lambda x: x.data,
}
_BY_NAME = {space: {schema.partition("(")[0]: (schema, query) for schema, query in table.items()}
            for space, table in (("aten", _ATEN), ("prim", _PRIM))}


class MetadataQuery(OpOverload):
    """An overload of such a name."""

    def __init__(self, packet, full, schema, query):
        self._query = query
        self._symbolic = schema.endswith(("-> SymInt", "-> SymBool"))
        super().__init__(packet, full, schema, 0)

    def _find(self, full):
        return self.query

    @property
    def tags(self):
        """Those that graphs call, for numbers that may be symbols, are of the core; set_ writes."""
        own = [Tag.core] if self._symbolic else [Tag.inplace, Tag.inplace_view] if self._schema.is_mutable else []
        return [*own, Tag.pt2_compliant_tag]

    def query(self, /, *args, **kwargs):
        if _C._has_torch_function(args[:1]):
            return _C._handle_torch_function(self, args[:1], *args, **kwargs)
        names = [a.name for a in self._schema.arguments]
        values = dict(zip(names, args), **kwargs)
        x = values.pop(names[0], None)
        if not isinstance(x, tede.Tensor) or len(args) > len(names) or not values.keys() <= set(names):
            raise RuntimeError(f"{self._name}() Expected a value of type 'Tensor' for argument '{names[0]}' but instead found type "
                               f"'{type(x).__name__}'.\nDeclaration: {self._schema}")
        return self._query(x, **values)

    def has_kernel_for_dispatch_key(self, key):
        return getattr(key, "name", key) == "CompositeImplicitAutograd"


class _GeometryQuery(MetadataQuery):
    """One that follows from the strides, and that no attribute says: the class is queried here."""

    def query(self, x, /, *args):
        answer = _C._query_strides(self, x, *args)
        if answer is not None:
            return bool(answer)
        with _C._DisableTorchDispatch():        # as it was made
            return super().query(x, *args)


class _QueryPacket(OpOverloadPacket):
    def __init__(self, namespace, name):
        super().__init__(namespace, name)
        self._queries = {full.partition(".")[2]: entry for full, entry in _BY_NAME[namespace].items()
                           if full.partition(".")[0] == name}

    def __call__(self, /, *args, **kwargs):
        if _C._has_torch_function(args[:1]):
            return _C._handle_torch_function(self, args[:1], *args, **kwargs)
        overloads = [getattr(self, name or "default") for name in self._queries]
        for overload in overloads[1:]:
            if len(args) + len(kwargs) == len(overload._schema.arguments):
                return overload(*args, **kwargs)
        return overloads[0](*args, **kwargs)

    @property
    def op(self):
        return self.__call__

    @property
    def _overload_names(self):
        return list(self._queries)

    def _made_of(self, name, full):
        entry = self._queries.get("" if name == "default" else name)
        made = _GeometryQuery if entry and entry[0].partition("(")[0] in _GEOMETRY else MetadataQuery
        return entry and made(self, full, *entry)


def packet(namespace, name):
    """The packet of a query, or None."""
    names = {full.partition(".")[0] for full in _BY_NAME.get(namespace, ())}
    return _QueryPacket(namespace, name) if name in names else None
