"""What SymInt, SymFloat and SymBool hold: an expression of a ShapeEnv."""
import math
import operator

import sympy
from tede._sym import SymBool, SymFloat, SymInt, is_symbolic
from tede.utils._sympy.functions import FloorDiv, IntTrueDiv, Mod, ToFloat, TruncToInt

__all__ = ["SymNode"]

_KINDS = {int: SymInt, float: SymFloat, bool: SymBool}
_COMPARED = {operator.eq: sympy.Eq, operator.ne: sympy.Ne, operator.lt: sympy.Lt, operator.le: sympy.Le, operator.gt: sympy.Gt,
             operator.ge: sympy.Ge}
_LOGICAL = {operator.and_: sympy.And, operator.or_: sympy.Or, operator.not_: sympy.Not}


def _divide(a, b, kind):
    return IntTrueDiv(a, b) if kind is int else a / b


# operator -> (what it makes of expressions, the kind of its result where it isn't that of the operands)
_ARITHMETIC = {
    operator.add: (lambda a, b, kind: a + b, None), operator.sub: (lambda a, b, kind: a - b, None),
    operator.mul: (lambda a, b, kind: a * b, None), operator.neg: (lambda a, kind: -a, None), operator.abs: (lambda a, kind: sympy.Abs(a), None),
    operator.floordiv: (lambda a, b, kind: FloorDiv(a, b) if kind is int else sympy.floor(a / b), None),
    operator.mod: (lambda a, b, kind: Mod(a, b), None), operator.truediv: (_divide, float),
    operator.pow: (lambda a, b, kind: a ** b, None), max: (lambda a, b, kind: sympy.Max(a, b), None),
    min: (lambda a, b, kind: sympy.Min(a, b), None), math.sqrt: (lambda a, kind: sympy.sqrt(a), float),
    float: (lambda a, kind: a if kind is float else ToFloat(a), float),
    int: (lambda a, kind: a if kind is int else TruncToInt(a), int),
    math.floor: (lambda a, kind: sympy.floor(a), int), math.ceil: (lambda a, kind: sympy.ceiling(a), int),
}


def to_number(value, kind):
    """A value of sympy as one of Python."""
    return bool(value) if kind is bool else int(value) if kind is int else float(value)


class SymNode:
    """An expression, what kind of number it is, and whose."""

    def __init__(self, expr, shape_env, pytype, hint=None):
        self._expr, self.shape_env, self.pytype = sympy.sympify(expr), shape_env, pytype

    @property
    def expr(self):
        """With what guards have found out about its symbols."""
        return self.shape_env.replace(self._expr)

    @property
    def number(self):
        """What the core computes with."""
        return self.shape_env.number_of(self.expr, self.pytype)

    @property
    def hint(self):
        """The number in the call that is traced; None if it depends on values of tensors."""
        found = self.shape_env.hint_of(self.expr)
        return None if found is None else to_number(found, self.pytype)

    def has_hint(self):
        return self.hint is not None

    def require_hint(self, fallback=None):
        hint = self.hint
        if hint is None and fallback is None:
            raise self.shape_env._unknown(self.expr)
        return fallback if hint is None else hint

    def maybe_as_int(self):
        return int(self.expr) if self.expr.is_Integer else None

    def maybe_as_float(self):
        return float(self.expr) if self.expr.is_Float else None

    def maybe_as_bool(self):
        return bool(self.expr) if self.expr in (sympy.true, sympy.false) else None

    def is_int(self):
        return self.pytype is int

    def is_float(self):
        return self.pytype is float

    def is_bool(self):
        return self.pytype is bool

    def is_nested_int(self):
        return False

    def is_constant(self):
        return False

    is_symbolic = lambda self: True

    def guard(self):
        """The number in the call that is traced, which from here on is one of the trace's conditions."""
        return to_number(self.shape_env.evaluate_expr(self.expr), self.pytype)

    def guard_int(self, file=None, line=None):
        return int(self.guard())

    def guard_float(self, file=None, line=None):
        return float(self.guard())

    def guard_bool(self, file=None, line=None):
        return bool(self.guard())

    guard_size_oblivious = guard_bool

    def expect_true(self, file=None, line=None):
        return self.shape_env.expect_true(self.expr)

    def statically_known_true(self, file=None, line=None):
        return self.shape_env.known(self.expr) is True

    def wrap(self, expr, kind):
        """A number of this kind: a plain one if the expression is."""
        expr = sympy.sympify(expr)
        if kind is int and expr.is_Integer:
            return int(expr)
        return _KINDS[kind](SymNode(expr, self.shape_env, kind))

    def apply(self, function, *operands):
        """What an operator of Python gives of these operands, one of which is this number."""
        if not all(is_symbolic(x) or isinstance(x, (int, float)) for x in operands):
            return NotImplemented
        exprs = [x.node.expr if is_symbolic(x) else sympy.sympify(x) for x in operands]
        kinds = {x.node.pytype if is_symbolic(x) else type(x) for x in operands}
        kind = float if float in kinds else int
        if function in _COMPARED:
            if any(x in (sympy.true, sympy.false) or getattr(x, "is_Boolean", False) for x in exprs):
                same = sympy.Equivalent(*(sympy.sympify(bool(e)) if e in (0, 1) else e for e in exprs))
                made, result = same if function is operator.eq else sympy.Not(same), bool
            else:
                made, result = _COMPARED[function](*exprs), bool
        elif function in _LOGICAL:
            made, result = _LOGICAL[function](*exprs), bool
        else:
            if function is operator.pow and kind is int and not (exprs[1].is_Integer and exprs[1] >= 0):
                operands = tuple(x.__sym_float__() if is_symbolic(x) else float(x) for x in operands)
                exprs = [x.node.expr if is_symbolic(x) else sympy.sympify(x) for x in operands]
                kind = float
            elif kind is float and function not in (float, int, math.floor, math.ceil):
                operands = tuple(x.__sym_float__() if is_symbolic(x) and x.node.pytype is int else x for x in operands)
                exprs = [x.node.expr if is_symbolic(x) else sympy.sympify(x) for x in operands]
            make, other = _ARITHMETIC[function]
            made, result = make(*exprs, kind), other or kind
        found = self.wrap(made, result)
        if is_symbolic(found):
            self.shape_env.note(found, function, operands)
        return found
