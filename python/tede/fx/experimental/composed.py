"""Expressions as calls of Python's operators, one at a time."""
import operator

import sympy
import tede
from tede.utils._sympy.functions import FloorDiv, IntTrueDiv, Mod

_CALLS = {FloorDiv: operator.floordiv, Mod: operator.mod, IntTrueDiv: operator.truediv, sympy.Eq: operator.eq, sympy.Ne: operator.ne,
          sympy.Lt: operator.lt, sympy.Le: operator.le, sympy.Gt: operator.gt, sympy.Ge: operator.ge, sympy.And: operator.and_,
          sympy.Or: operator.or_, sympy.Not: tede.sym_not, sympy.Max: tede.sym_max, sympy.Min: tede.sym_min, sympy.Pow: operator.pow}


def _order(term):
    """Symbols come first, then constants, as programs write them."""
    return (not term.free_symbols, sympy.default_sort_key(term))


def call_for(expr):
    """The outermost operator of an expression, and its operands."""
    if expr.is_Symbol:
        raise RuntimeError(f"the graph that is being made has no node for {expr}, which is of another trace")
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        first, *rest = sorted(expr.args, key=_order)
        *rest, last = first, *rest
        if isinstance(expr, sympy.Add):
            return operator.add, (sympy.Add(*rest), last)
        if last == -1:
            return operator.neg, (sympy.Mul(*rest),)
        return operator.mul, (sympy.Mul(*rest), last)
    function = next((call for kind, call in _CALLS.items() if isinstance(expr, kind)), None)
    if function is None:
        raise NotImplementedError(f"make_fx: no operator of Python's for the size {expr}")
    if function in (operator.and_, operator.or_, tede.sym_max, tede.sym_min) and len(expr.args) > 2:
        return function, (expr.func(*expr.args[:-1]), expr.args[-1])
    return function, expr.args
