"""SymInt, SymFloat and SymBool: numbers that stay expressions while a program is traced with symbolic sizes.

A program sees them in x.shape and makes others of them with Python's operators. Each holds a node (tede.fx.experimental.sym_node), which knows
the expression. Whoever has to have a number, int(), range() or an `if`, gets what the number is in the call that is traced, and that becomes a
guard of the trace. The core alone reads `_number`, see Note [Sizes that can't be mistaken] in tede.fx.experimental.symbolic_shapes."""
import math
import operator

from tede import _C


class _Kind(type(_C._SymNumber)):
    """Sizes of nested tensors that differ between members are numbers of the kind SymInt, too."""

    def __instancecheck__(cls, x):
        return super().__instancecheck__(x) or (cls.__name__ == "SymInt" and type(x) is _C._RaggedSize)


class _Sym(_C._SymNumber):
    __slots__ = ("node", "__weakref__")

    def __init__(self, node):
        self.node = node

    @property
    def _number(self):
        return self.node.number

    def __repr__(self):
        return str(self.node.expr)

    __str__ = __repr__

    def __format__(self, form):
        return format(str(self), form) if not form or form[-1] not in "dfgeo" else format(self.node.guard(), form)

    def __hash__(self):
        raise TypeError(f"unhashable type: non-nested {type(self).__name__}")

    def __bool__(self):
        return self.node.guard() if isinstance(self, SymBool) else bool(self != 0)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__} is a number of one trace and isn't pickled")

    def __int__(self):
        return int(self.node.guard())

    def __float__(self):
        return float(self.node.guard())


def _binary(name):
    function = getattr(operator, name.strip("_") if name not in ("and", "or") else name + "_", None)

    def forward(self, other):
        return self.node.apply(function, self, other)

    def reflected(self, other):
        return self.node.apply(function, other, self)
    return forward, reflected


class _Number(_Sym):
    __slots__ = ()

    def __neg__(self):
        return self.node.apply(operator.neg, self)

    def __pos__(self):
        return self

    def __abs__(self):
        return self.node.apply(operator.abs, self)

    def __mul__(self, other):
        return other * int(self) if isinstance(other, (list, tuple, str, bytes)) else self.node.apply(operator.mul, self, other)

    def __rmul__(self, other):
        return other * int(self) if isinstance(other, (list, tuple, str, bytes)) else self.node.apply(operator.mul, other, self)

    def __pow__(self, other):
        return self.node.apply(operator.pow, self, other)

    def __rpow__(self, other):
        return self.node.apply(operator.pow, other, self)

    def __sym_max__(self, other):
        return self.node.apply(max, self, other)

    def __sym_min__(self, other):
        return self.node.apply(min, self, other)

    def __sym_sqrt__(self):
        return self.node.apply(math.sqrt, self)

    def __sym_float__(self):
        return self.node.apply(float, self)

    def __sym_int__(self):
        return self.node.apply(int, self)

    def __floor__(self):
        return self.node.apply(math.floor, self)

    def __ceil__(self):
        return self.node.apply(math.ceil, self)

    def __trunc__(self):
        return self.node.apply(int, self)

    def __round__(self, digits=None):
        return round(self.node.guard(), digits)

    def __divmod__(self, other):
        return self // other, self % other

    __hash__ = _Sym.__hash__


for _name in "add", "sub", "truediv", "floordiv", "mod":
    for _method, _function in zip((f"__{_name}__", f"__r{_name}__"), _binary(_name)):
        setattr(_Number, _method, _function)
for _name in "eq", "ne", "lt", "le", "gt", "ge":
    setattr(_Number, f"__{_name}__", _binary(_name)[0])
_Number.__hash__ = _Sym.__hash__


class SymInt(_Number, metaclass=_Kind):
    """An integer of a trace: a size, or what a program made of sizes."""
    __slots__ = ()
    __module__ = "torch"

    def __index__(self):
        return int(self.node.guard())

    def is_integer(self):
        return True

    def as_integer_ratio(self):
        return self, 1

    def bit_length(self):
        return int(self).bit_length()

    def conjugate(self):
        return self

    @property
    def real(self):
        return self

    @property
    def imag(self):
        return 0


class SymFloat(_Number, metaclass=_Kind):
    """A floating number of a trace."""
    __slots__ = ()
    __module__ = "torch"

    def is_integer(self):
        return float(self).is_integer()


class SymBool(_Sym, metaclass=_Kind):
    """What a comparison of numbers of a trace gives."""
    __slots__ = ()
    __module__ = "torch"

    def __and__(self, other):
        return self.node.apply(operator.and_, self, other)

    def __or__(self, other):
        return self.node.apply(operator.or_, self, other)

    __rand__, __ror__ = __and__, __or__

    def __sym_not__(self):
        return self.node.apply(operator.not_, self)

    def __eq__(self, other):
        return self.node.apply(operator.eq, self, other)

    def __ne__(self, other):
        return self.node.apply(operator.ne, self, other)

    __hash__ = _Sym.__hash__


def is_symbolic(x):
    """Whether x is such a number, and not one of a nested tensor's sizes."""
    return isinstance(x, _Sym)


def plain(numbers):
    """The numbers as the core has them."""
    return tuple(n._number if isinstance(n, _Sym) else n for n in numbers)
