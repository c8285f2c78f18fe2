"""ops.<namespace>.<name>.<overload>: operators by their registered names, overloads one by one.

A packet stands for all overloads of a name, an overload for one schema.  Both call into the dispatcher; what classes and
modes with __torch_dispatch__ are told is an overload."""
import sys
import types

from tede import _C

_NUMBERS = {name: number for number, name in _C._key_names().items()}
_KEYS = {name: _NUMBERS[own] for name, own in (
    ("Python", "Python"), ("Negative", "Negative"), ("Conjugate", "Conjugate"), ("Autograd", "Autograd"), ("AutogradCPU", "Autograd"),
    ("Tracer", "Tracing"), ("Autocast", "Autocast"), ("AutocastCPU", "Autocast"), ("Functionalize", "Functionalize"),
    ("FuncTorchBatched", "Transforms"))}
_DEVICES = {"CPU": 0, "Meta": 1, "CUDA": 2, "OpenCL": 3, "PrivateUse1": 4}
_DEFAULTS = ("", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_COMPOSITE = 16384         # TD_OP_COMPOSITE


def key_of(dispatch_key):
    """(key, device) for the core: key -1 is the default for all devices, 16 the dense layout."""
    name = getattr(dispatch_key, "name", dispatch_key)
    if name in _DEFAULTS:
        return -1, 0
    if _KEYS.get(name) is not None:
        return _KEYS[name], 0
    if name in _DEVICES:
        return 16, _DEVICES[name]
    type_of = getattr(_C, "_device_type", None)         # a device that was loaded: its name is the key's
    if isinstance(name, str) and type_of and type_of(name) > 1:
        return 16, type_of(name)
    raise RuntimeError(f"could not parse dispatch key: {name}")


def _plain(result, schema):
    """A tuple of results without names, and lists where the schema says so."""
    if schema.endswith("[]"):
        return list(result)
    return tuple([list(x) if type(x) is tuple else x for x in result])


class OpOverload:
    """One overload: called with the arguments of its schema."""

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
    def overloadpacket(self):
        return self._overloadpacket

    @property
    def op(self):
        return self._op

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
            from tede.library import _register
            self.py_kernels[key] = function
            _register(self._name, key, function)
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

    def __reduce__(self):
        return _overload_named, (self._name,)


def _overload_named(full):
    space, _, rest = full.partition("::")
    name, _, overload = rest.partition(".")
    return getattr(getattr(getattr(ops, space), name), overload or "default")


class OpOverloadPacket:
    """All overloads of a name."""

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
        if self._made != _defined[0] or self._operator is None:
            full = tuple(_C._overloads(self.namespace, self.__name__))
            if full != self._full or self._operator is None:
                self._full = full
                if not full:
                    raise AttributeError(f"'_OpNamespace' '{self.namespace}' object has no attribute '{self.__name__}'")
                own = _C._operators.get(self.__name__) if self.namespace == "aten" else None
                if any("(b!)" in _C._op_info(name)[0] for name in full):      # outputs that calls may give by their names
                    own = None
                self._operator = own if own is not None and len(own.schemas) == len(full) else \
                    _C._operator_of(self.__name__, full, self)
            self._made = _defined[0]
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


_defined = [0]             # counts definitions at run time


class _OpNamespace(types.ModuleType):
    def __init__(self, name):
        super().__init__("torch.ops." + name)
        self.name = name
        self._dir = []

    def __iter__(self):
        return iter(self._dir)

    def __getattr__(self, name):
        if name == "__file__":
            return "torch.ops"
        value = None
        if not name.startswith("__"):
            value = OpOverloadPacket(self.name, name) if _C._overloads(self.name, name) else self._elsewhere(name)
        if value is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        self.__dict__[name] = value
        self._dir.append(name)
        return value

    def _elsewhere(self, name):
        if self.name == "higher_order":
            from tede._hop import named
            return named(name)
        if self.name not in ("aten", "prim"):
            return None
        from tede._questions import packet
        return packet(self.name, name)


class _Ops(types.ModuleType):
    __file__ = "_ops.py"

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries = set()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = _OpNamespace(name)
        return value

    def load_library(self, path):
        """Open a shared library, whose constructors may define operators."""
        import os
        path = os.path.realpath(path)
        _C._library_load(path)
        self.loaded_libraries.add(path)
        _defined[0] += 1

    def import_module(self, module):
        import importlib
        importlib.import_module(module)


def forget(full):
    """An operator was taken away: so is what stands for it."""
    _defined[0] += 1
    space, _, rest = full.partition("::")
    name, _, overload = rest.partition(".")
    packet = vars(ops).get(space) and vars(vars(ops)[space]).get(name)
    if packet is not None:
        packet.__dict__.pop(overload or "default", None)
        packet._operator = None
        if not _C._overloads(space, name):
            vars(vars(ops)[space]).pop(name, None)


def _entry(space, name, overload, flags):
    """For the Python key: the overload, a body of other operators or None, and whether the core has one that is run."""
    shown = getattr(getattr(getattr(ops, space), name), overload or "default")
    full = name + ("." + overload if overload else "")
    if space != "aten":
        return shown, None, False
    from tede._decompositions import BODIES, KEPT
    body = BODIES.get(full)
    return shown, body, body is None and bool(flags & _COMPOSITE) and full not in KEPT


def __getattr__(name):
    if name == "HigherOrderOperator":
        from tede._hop import HigherOrderOperator
        return HigherOrderOperator
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


ops = _Ops()
sys.modules.setdefault("tede.ops", ops)
