"""How the namespace's operators are defined: @operator(schema) on the function that computes it."""
from tede import _C
from tede._override import has_torch_function, handle_torch_function
from tede._overloads import OpOverloadPacket, defined
from tede._registry import made_by_libraries, register
from tede._schema import FunctionSchema

# What schemas call the classes of packed weights, and what PyTorch does.
CLASSES = {"LinearParams": "quantized.LinearPackedParamsBase", "Conv2dParams": "quantized.Conv2dPackedParamsBase",
           "Conv3dParams": "quantized.Conv3dPackedParamsBase", "EmbeddingParams": "quantized.EmbeddingPackedParamsBase",
           "CellParams": "rnn.CellParamsBase"}
_packets = {}


def operator(*schemas):
    """One function for operators of these schemas, each "name.overload(arguments) -> results"."""
    def decorate(function):
        for schema in schemas:
            full = schema
            for short, name in CLASSES.items():
                full = full.replace(short, "__torch__.torch.classes." + name)
            if full is schema:
                _define(schema, function)
            else:
                name, _, overload = full.partition("(")[0].partition(".")
                _packets.setdefault(name, ObjectPacket(name)).add(overload or "default", full, function)
        return function
    return decorate


def _define(schema, function):
    _C._define("quantized::" + schema)
    defined[0] += 1
    full = "quantized::" + schema.partition("(")[0]
    made_by_libraries.add(full)
    register(full, "CompositeExplicitAutograd", function)


class ObjectOverload:
    """One overload of an operator on packed weights."""
    __module__ = "tede._ops"

    def __init__(self, packet, name, schema, function):
        self._overloadpacket, self._overloadname, self._opname, self.namespace = packet, name, packet.__name__, "quantized"
        self._name = f"quantized::{self._opname}" + ("" if name == "default" else "." + name)
        self.__name__ = f"{self._opname}.{name}"
        self._schema_text, self._function = schema, function
        self._parsed = None

    @property
    def _schema(self):
        if self._parsed is None:
            self._parsed = FunctionSchema("quantized", self._schema_text)
        return self._parsed

    @property
    def overloadpacket(self):
        return self._overloadpacket

    def name(self):
        return self._name

    def __call__(self, /, *args, **kwargs):
        if has_torch_function((*args, *kwargs.values())):
            return handle_torch_function(self, (*args, *kwargs.values()), *args, **kwargs)
        return self._function(*self._bind(args, kwargs))

    def _bind(self, args, kwargs):
        """All arguments in their order; the error names the operator."""
        expected = self._schema.arguments
        if len(args) > len(expected):
            raise RuntimeError(f"{self._name}() expected at most {len(expected)} argument(s) but received {len(args)} argument(s).")
        bound = list(args)
        for argument in expected[len(args):]:
            if argument.name in kwargs:
                bound.append(kwargs.pop(argument.name))
            elif argument.has_default_value():
                bound.append(argument.default_value)
            else:
                raise RuntimeError(f"{self._name}() is missing value for argument '{argument.name}'. Declaration: {self._schema}")
        if kwargs:
            raise RuntimeError(f"{self._name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
        for argument, value in zip(expected, bound):
            _check(self, argument, value)
        return bound

    def __str__(self):
        return f"quantized.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='quantized.{self._opname}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo=None):
        return self


def _check(overload, argument, value):
    """That a tensor is one, and packed weights are of their class."""
    kind = str(argument.type)
    wanted = kind.rpartition(".")[2] if "torch.classes." in kind else "Tensor" if kind == "Tensor" else None
    if wanted is None or isinstance(value, _C.Tensor) and wanted == "Tensor" or type(value).__name__ == wanted:
        return
    raise RuntimeError(f"{overload._name}() Expected a value of type '{kind}' for argument '{argument.name}' but instead found type "
                       f"'{type(value).__name__}'.\nDeclaration: {overload._schema}")


class ObjectPacket:
    """All overloads of a name. Those that differ in the number of arguments are told apart by it."""
    __module__ = "tede._ops"

    def __init__(self, name):
        self.__name__, self._overloads = name, {}
        self._qualified_op_name = "quantized::" + name

    def add(self, name, schema, function):
        self._overloads[name] = ObjectOverload(self, name, schema, function)

    def overloads(self):
        return list(self._overloads)

    def __getattr__(self, name):
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None:
            raise AttributeError(f"The underlying op of 'quantized.{self.__dict__.get('__name__')}' has no overload name '{name}'")
        return found

    def __call__(self, /, *args, **kwargs):
        found = list(self._overloads.values())
        for overload in found:
            if len(found) == 1 or len(args) + len(kwargs) == len(overload._schema.arguments):
                return overload(*args, **kwargs)
        raise RuntimeError(f"{self._qualified_op_name}: no overload takes {len(args) + len(kwargs)} arguments: "
                           + "; ".join(str(overload._schema) for overload in found))

    def __str__(self):
        return "quantized." + self.__name__

    def __repr__(self):
        return f"<OpOverloadPacket(op='quantized.{self.__name__}')>"

    def __deepcopy__(self, memo=None):
        return self


def packet(name):
    """All overloads of a name; None where there are none."""
    if name in _packets:
        return _packets[name]
    return OpOverloadPacket("quantized", name) if _C._overloads("quantized", name) else None
