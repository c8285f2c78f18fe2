"""Division and remainder of sizes, which round as Python's // and % do, and the true division of integers."""
import sympy

__all__ = ["FloorDiv", "Mod", "PythonMod", "IntTrueDiv", "ToFloat", "TruncToInt"]


class FloorDiv(sympy.Function):
    """``a // b``. Of a sum it is the sum of the parts that are divisible, and the rest."""
    nargs = (2,)
    is_integer = True
    precedence = 50

    @classmethod
    def eval(cls, a, b):
        if b == 1:
            return a
        if a.is_zero:
            return a
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) // int(b))
        if b.is_Integer and b > 0:
            whole = [t for t in sympy.Add.make_args(a) if (t / b).is_integer]
            if whole:
                part = sympy.Add(*whole)
                return part / b + (cls(a - part, b) if a != part else 0)
        ratio = a / b
        return ratio if ratio.is_integer and ratio.is_polynomial() else None

    def _sympystr(self, printer):
        return "({}//{})".format(*(printer.parenthesize(x, 50) for x in self.args))


class Mod(sympy.Function):
    """``a % b`` with the sign of b."""
    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, a, b):
        if a.is_Integer and b.is_Integer and b != 0:
            return sympy.Integer(int(a) % int(b))
        return sympy.Integer(0) if b == 1 or a.is_zero or (a / b).is_integer else None

    def _sympystr(self, printer):
        return "Mod({}, {})".format(*(printer.doprint(x) for x in self.args))


PythonMod = Mod


class ToFloat(sympy.Function):
    """An integer as a floating number."""
    nargs = (1,)
    is_real = True

    @classmethod
    def eval(cls, a):
        return sympy.Float(int(a)) if a.is_Integer else None


class TruncToInt(sympy.Function):
    """A floating number rounded towards zero."""
    nargs = (1,)
    is_integer = True

    @classmethod
    def eval(cls, a):
        return sympy.Integer(int(a)) if a.is_number else None


class IntTrueDiv(sympy.Function):
    """``a / b`` of integers."""
    nargs = (2,)
    is_real = True

    @classmethod
    def eval(cls, a, b):
        return sympy.Float(int(a) / int(b)) if a.is_Integer and b.is_Integer and b != 0 else None
