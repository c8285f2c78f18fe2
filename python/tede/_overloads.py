"""OpOverloadPacket and OpOverload: an object for all overloads of an operator's name, and one for each schema. Both call into the
dispatcher; what classes and modes with __torch_dispatch__ get is an overload."""
from tede import _C
from tede._registry import for_all_devices, key_of, made_by_libraries, register
from tede._sym import is_symbolic


def _plain(result, schema):
    """A tuple of results without names, and lists where the schema says so."""
    if schema.endswith("[]"):
        return list(result)
    return tuple([list(x) if type(x) is tuple else x for x in result])


class _Page:
    """The __doc__ of a class whose objects have manual pages."""

    def __init__(self, text):
        self.text = text

    def __get__(self, overload, owner):
        return self.text if overload is None else overload.op.__doc__


class OpOverload:
    __doc__ = _Page("One overload: called with the arguments of its schema.")
    __module__ = "tede._ops"

    def __init__(self, packet, full, schema_text, flags):
        self._overloadpacket = packet
        self._name = full
        name, _, overload = full.partition("::")[2].partition(".")
        self._opname, self._overloadname = name, overload or "default"
        self.namespace = packet.namespace
        self._flags = flags
        self._schema_text = schema_text
        self.__name__ = f"{name}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = packet.__module__
        self.py_kernels = {}
        self._op = self._find(full)
        if "Sym" in schema_text.rpartition("->")[2]:
            self._op = self._between_symbols(self._op)

    def _between_symbols(self, op):
        """The operator gives symbolic numbers: called with some, and without tensors, its kernel in Python computes with them as they are."""
        def call(*args, **kwargs):
            given = (*args, *kwargs.values())
            kernel = for_all_devices(self._name) if any(map(is_symbolic, given)) and not _C._torch_dispatch_stack() else None
            if kernel is not None and not any(isinstance(x, (_C.Tensor, list, tuple)) for x in given):
                return kernel(*args, **kwargs)
            return op(*args, **kwargs)
        return call

    def _find(self, full):
        return _C._operator_of(self._opname, (full,), self)

    @property
    def _schema(self):
        schema = self.__dict__.get("_parsed")
        if schema is None:
            from tede._schema import FunctionSchema
            schema = self.__dict__["_parsed"] = FunctionSchema(self.namespace, self._schema_text)
        return schema

    def __call__(self, /, *args, **kwargs):
        result = self._op(*args, **kwargs)
        return _plain(result, self._schema_text) if isinstance(result, tuple) else result

    def name(self):
        return self._name

    @property
    def _defined_in_python(self):
        """Whether torch.library defined it."""
        return self._name in made_by_libraries

    @property
    def overloadpacket(self):
        return self._overloadpacket

    @property
    def op(self):
        return self._op

    @property
    def __signature__(self):
        return self._op.__signature__

    @property
    def tags(self):
        from tede import _tags
        return _tags.of(self._name)

    @property
    def formulas(self):
        """What a pointwise operator computes, as text: {"value": "self / (1 + exp(-self))", "grad self": ...}; empty for others.

        A gradient or tangent (`jvp`) is there if it is pointwise itself; what flows in is `grad` in both.
        """
        return _C._op_formulas(self._name)

    @property
    def is_view(self):
        arguments = self._schema.arguments
        return any(a.alias_info is not None and not a.alias_info.is_write for a in arguments) or bool(self._flags & 1024)

    def has_kernel_for_dispatch_key(self, key):
        key, device = key_of(key)
        return key >= 0 and _C._has_kernel(self._name, key, device)

    def py_impl(self, key):
        def add(function):
            self.py_kernels[key] = function
            register(self._name, key, function)
            return function
        return add

    def decompose(self, *args, **kwargs):
        """What the operator is made of, or NotImplemented."""
        return NotImplemented

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __hash__(self):
        return hash(self._name)

    def __deepcopy__(self, memo=None):
        return self


class OpOverloadPacket:
    __doc__ = _Page("All overloads of a name.")
    __module__ = "tede._ops"

    def __init__(self, namespace, name):
        self.namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._dir = []
        self._made = 0
        self._full = ()
        self._operator = None

    def _refresh(self):
        """Overloads may be defined later; a call looks again only if operators were defined since."""
        if self._made != defined[0] or self._operator is None:
            full = tuple(_C._overloads(self.namespace, self.__name__))
            if full != self._full or self._operator is None:
                self._full = full
                if not full:
                    raise AttributeError(f"'_OpNamespace' '{self.namespace}' object has no attribute '{self.__name__}'")
                self._operator = _C._operator_of(self.__name__, full, self)
            self._made = defined[0]
        return self._operator

    def __call__(self, /, *args, **kwargs):
        result = self._refresh()(*args, **kwargs)
        if isinstance(result, tuple):
            schemas = [_C._op_info(full)[0] for full in self._full]
            if all(schema.endswith("[]") for schema in schemas):
                return list(result)
            if self.namespace != "aten" and len(schemas) == 1:
                return _plain(result, schemas[0])
        return result

    @property
    def op(self):
        return self._refresh()

    @property
    def __signature__(self):
        return self._refresh().__signature__

    @property
    def _overload_names(self):
        self._refresh()
        return [full.partition("::")[2].partition(".")[2] for full in self._full]

    def overloads(self):
        return [name or "default" for name in self._overload_names]

    def __iter__(self):
        return iter(self.overloads())

    def __dir__(self):
        return self.overloads()

    def __getattr__(self, name):
        if name == "__file__":
            return "torch.ops"
        if name == "_schemas":
            return {o: getattr(self, o or "default")._schema for o in self._overload_names}
        if name.startswith("__"):
            raise AttributeError(f"'{self}' can't have an overload name beginning with '__' and the underlying op "
                                 f"{self._qualified_op_name} has no attribute {name} either.")
        value = self._made_of(name, self._qualified_op_name + ("" if name == "default" else "." + name))
        if value is None and self._writes_like(name):
            return self.out
        if value is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        self.__dict__[name] = value
        self._dir.append(name)
        return value

    def _made_of(self, name, full):
        """The object of an overload, or None."""
        info = _C._op_info(full)
        return None if info is None else OpOverload(self, full, *info)

    def _writes_like(self, name):
        """Whether `name` is PyTorch's for what is `out` here: eq.Tensor_out writes what eq.Tensor gives, as no plain eq does."""
        names = self._overload_names
        return name.endswith("_out") and name[:-4] in names and "out" in names and "" not in names

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self.namespace}.{self.__name__}')>"

    def __hash__(self):
        return hash(self._qualified_op_name)

    def __deepcopy__(self, memo=None):
        return self


defined = [0]             # counts definitions at run time
