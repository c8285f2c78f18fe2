"""The types of schemas' arguments, under the names that TorchScript gives them: TensorType, ListType(IntType.get()), ...

Simple types are rows of a table, with one object each; the others hold types. `parse` reads what stands in a schema.
"""
import re

_SIMPLE = {"AnyType": "Any", "BoolType": "bool", "ComplexType": "complex", "DeviceObjType": "Device", "FloatType": "float",
           "IntType": "int", "NoneType": "NoneType", "NumberType": "number", "PyObjectType": "PyObject", "StreamObjType": "Stream",
           "StringType": "str", "SymBoolType": "bool", "SymIntType": "int", "TensorType": "Tensor", "_GeneratorType": "Generator"}
_CONTAINERS = {"OptionalType": "Optional", "ListType": "List", "TupleType": "Tuple", "DictType": "Dict", "FutureType": "Future",
               "AwaitType": "Await", "RRefType": "RRef"}
NAMES = frozenset(("Type", *_SIMPLE, *_CONTAINERS))
# What a schema writes, and the type of the values that are passed for it.
_WRITTEN = {"Tensor": "TensorType", "int": "IntType", "SymInt": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
            "Scalar": "NumberType", "ScalarType": "IntType", "Layout": "IntType", "MemoryFormat": "IntType", "Device": "DeviceObjType",
            "Generator": "_GeneratorType", "SymBool": "SymBoolType", "Stream": "StreamObjType", "Any": "AnyType"}
WORDS = tuple(_WRITTEN)


class Type:
    """A type: its str() is what TorchScript writes for it."""

    _held = ()

    def __init__(self, *args):
        raise TypeError(f"torch.{type(self).__name__}: No constructor defined!")

    def __str__(self):
        return self._text

    __repr__ = __str__
    annotation_str = property(__str__)

    def str(self):
        """What a schema writes for it."""
        return "Scalar" if isinstance(self, NumberType) else self._text

    def kind(self):
        return type(self).__name__.removeprefix("_")

    def containedTypes(self):
        return list(self._held)

    def isSubtypeOf(self, other):
        if isinstance(other, OptionalType) and not isinstance(self, OptionalType):
            return isinstance(self, NoneType) or self.isSubtypeOf(other.getElementType())
        return isinstance(other, AnyType) or self == other or (
            isinstance(other, NumberType) and isinstance(self, (IntType, FloatType, ComplexType)))

    def is_interface_type(self):
        return False

    def __eq__(self, other):
        return isinstance(other, Type) and type(self) is type(other) and self._text == other._text

    __hash__ = None


def _get(cls):
    """The type's only object."""
    if "_only" not in cls.__dict__:
        cls._only = object.__new__(cls)
    return cls._only


for _name, _text in _SIMPLE.items():
    globals()[_name] = type(_name, (Type,), {"_text": _text, "get": classmethod(_get), "__module__": "tede._C"})
AnyType, NoneType, NumberType = (globals()[_name] for _name in ("AnyType", "NoneType", "NumberType"))
IntType, FloatType, ComplexType, BoolType = (globals()[_name] for _name in ("IntType", "FloatType", "ComplexType", "BoolType"))
TensorType, StringType = (globals()[_name] for _name in ("TensorType", "StringType"))


class _Container(Type):
    """A type made of others."""

    def __init__(self, *held):
        for inner in held:
            if not isinstance(inner, Type):
                raise TypeError(f"{type(self).__name__}: expected torch._C.Type, but got {type(inner).__name__}")
        self._held = held

    @property
    def _text(self):
        return f"{_CONTAINERS[type(self).__name__]}[{', '.join(map(str, self._held))}]"


class _OfOne(_Container):
    def __init__(self, a):
        super().__init__(a)

    def getElementType(self):
        return self._held[0]


class OptionalType(_OfOne):
    def str(self):
        return self.getElementType().str() + "?"

    @staticmethod
    def ofTensor():
        return OptionalType(TensorType.get())


class ListType(_OfOne):
    def str(self):
        return self.getElementType().str() + "[]"

    ofInts = staticmethod(lambda: ListType(IntType.get()))
    ofFloats = staticmethod(lambda: ListType(FloatType.get()))
    ofComplexDoubles = staticmethod(lambda: ListType(ComplexType.get()))
    ofBools = staticmethod(lambda: ListType(BoolType.get()))
    ofStrings = staticmethod(lambda: ListType(StringType.get()))
    ofTensors = staticmethod(lambda: ListType(TensorType.get()))


class FutureType(_OfOne):
    pass


class AwaitType(_OfOne):
    pass


class RRefType(_OfOne):
    pass


class TupleType(_Container):
    def __init__(self, a):
        super().__init__(*a)

    def str(self):
        return f"({', '.join(inner.str() for inner in self._held)})"

    def elements(self):
        return list(self._held)


class DictType(_Container):
    def __init__(self, key, value):
        super().__init__(key, value)

    def str(self):
        return f"Dict({self._held[0].str()}, {self._held[1].str()})"

    def getKeyType(self):
        return self._held[0]

    def getValueType(self):
        return self._held[1]


for _name in _CONTAINERS:
    globals()[_name].__module__ = "tede._C"
Type.__module__ = "tede._C"


def parse(text):
    """The type of "Tensor?", "int[2]", "Tensor?[]", ...; one that isn't known is called as it is written."""
    base, marks = re.match(r"([\w.]+)(.*)", text, re.S).groups()
    name = _WRITTEN.get(base)
    if name is None:
        made = object.__new__(type(base + "Type", (Type,), {"_text": base, "__module__": "tede._C"}))
    else:
        made = globals()[name].get()
    for mark in re.findall(r"\?|\[\d*\]", marks):
        made = OptionalType(made) if mark == "?" else ListType(made)
    return made
