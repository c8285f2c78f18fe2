"""Formulas of pointwise operators as ONNX: every operator that is one is exported by what its entry says that it computes."""
import ast
import operator

import tede
from tede.onnx._builder import Unsupported

_BINARY = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div", ast.Pow: "Pow"}
_NUMBERS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
            ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod}
_BITS = {ast.BitAnd: ("And", "BitwiseAnd"), ast.BitOr: ("Or", "BitwiseOr"), ast.BitXor: ("Xor", "BitwiseXor")}
_COMPARE = {ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual", ast.Eq: "Equal"}
_CALLS = {"abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
          "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
          "sigmoid": "Sigmoid", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "isnan": "IsNaN", "isinf": "IsInf",
          "maximum": "Max", "minimum": "Min"}
# Functions that ONNX has no operator for, by others.
_BY_OTHERS = {"log1p": "log(1 + x)", "expm1": "exp(x) - 1", "rsqrt": "1 / sqrt(x)", "log2": "log(x) * 1.4426950408889634",
              "log10": "log(x) * 0.4342944819032518", "exp2": "exp(x * 0.6931471805599453)", "erfc": "1 - erf(x)", "square": "x * x",
              "trunc": "sign(x) * floor(abs(x))", "isfinite": "not (isnan(x) or isinf(x))", "real": "x", "conj": "x"}


def formula_of(op):
    """{which expression: text}, and the operator that has it: op itself, or its overload of tensors where op takes numbers."""
    if formulas := op.formulas:
        return formulas, op
    names = {a.name for a in op._schema.arguments}
    packet = op._overloadpacket
    for overload in packet.overloads():
        other = getattr(packet, overload)
        if other.formulas and names <= {a.name for a in other._schema.arguments} and not other._schema.is_mutable:
            return other.formulas, other
    return None, None


def write(b, op, formulas, arguments, result):
    """The value of an operator's formula. arguments: name -> Value, number or text; result: the dtype that the program has."""
    words = [v for v in arguments.values() if isinstance(v, str)]
    common = tede.bool
    for v in arguments.values():
        if b.is_value(v) or (isinstance(v, (int, float)) and not isinstance(v, bool)):
            common = _promoted(common, v)
    if common != result and result.is_floating_point and not common.is_floating_point:
        common = result
    kind = "value_bool" if common == tede.bool else "value_int" if not common.is_floating_point else ""
    text = next((formulas[f"value {word}"] for word in words if f"value {word}" in formulas), None) or formulas.get(kind) or formulas.get("value")
    if text is None:
        raise Unsupported(f"torch.onnx.export: {op} has no formula for these arguments")
    if common == tede.bool and kind not in formulas and result != tede.bool:
        common = result
    out = _Writer(b, arguments, common).value(text)
    return b.cast(out, result)


def _promoted(common, v):
    if isinstance(v, (int, float)):
        like = tede.tensor(v)
        if like.is_floating_point():
            return common if common.is_floating_point else tede.get_default_dtype()
        return tede.int64 if common == tede.bool else common
    if v.shape == [] and common != tede.bool and (common.is_floating_point or not v.dtype.is_floating_point):
        return common
    return tede.promote_types(common, v.dtype)


class _Writer:
    """Values are ONNX values; numbers stay numbers until an operator takes them."""

    def __init__(self, b, names, dtype):
        self.b, self.names, self.dtype = b, names, dtype

    def value(self, text):
        return self.visit(ast.parse(text, mode="eval").body)

    def visit(self, node):
        return getattr(self, "visit_" + type(node).__name__)(node)

    def number(self, x):
        """A value of the dtype that is computed in."""
        return self.b.cast(x, self.dtype) if self.b.is_value(x) else self.b.constant(x, self.dtype)

    def truth(self, x):
        if not self.b.is_value(x):
            return self.b.constant(bool(x), tede.bool)
        return self.b.cast(x, tede.bool)

    def visit_Constant(self, node):
        return node.value

    def visit_Name(self, node):
        if node.id in self.names:
            return self.names[node.id]
        known = {"inf": float("inf"), "nan": float("nan"), "true": True, "false": False}
        if node.id.lower() in known:
            return known[node.id.lower()]
        raise Unsupported(f"torch.onnx.export: '{node.id}' in a formula")

    def visit_BinOp(self, node):
        a, c = self.visit(node.left), self.visit(node.right)
        kind, b = type(node.op), self.b
        if kind in _BITS:
            both, bits = _BITS[kind]
            if self.dtype == tede.bool or all(not b.is_value(x) or x.dtype == tede.bool for x in (a, c)):
                return b.op(both, self.truth(a), self.truth(c), dtype=tede.bool)
            return b.op(bits, self.number(a), self.number(c))
        if not b.is_value(a) and not b.is_value(c):
            return _NUMBERS[kind](a, c)
        if kind is ast.Mult and any(not b.is_value(x) and x == 1 for x in (a, c)):
            return self.number(a if b.is_value(a) else c)
        a, c = self.number(a), self.number(c)
        if self.dtype == tede.bool and kind in (ast.Add, ast.Mult):
            return b.op("Or" if kind is ast.Add else "And", a, c)
        if kind in _BINARY:
            return b.op(_BINARY[kind], a, c)
        floats = self.dtype.is_floating_point
        if kind is ast.FloorDiv:
            return b.op("Floor", b.op("Div", a, c)) if floats else b.op("Div", b.op("Sub", a, b.op("Mod", a, c)), c)
        if kind is ast.Mod:
            return b.op("Sub", a, b.op("Mul", b.op("Floor", b.op("Div", a, c)), c)) if floats else b.op("Mod", a, c)
        if kind in (ast.LShift, ast.RShift):        # BitShift takes what has no sign alone
            factor = b.cast(b.op("Pow", b.constant(2.0, tede.float64), b.cast(c, tede.float64)), self.dtype)
            return b.op("Mul", a, factor) if kind is ast.LShift else b.op("Div", b.op("Sub", a, b.op("Mod", a, factor)), factor)
        raise Unsupported(f"torch.onnx.export: {kind.__name__} in a formula")

    def visit_UnaryOp(self, node):
        x = self.visit(node.operand)
        if isinstance(node.op, ast.USub):
            return self.b.op("Neg", self.number(x)) if self.b.is_value(x) else -x
        if isinstance(node.op, ast.Not) or self.dtype == tede.bool:
            return self.b.op("Not", self.truth(x), dtype=tede.bool)
        return self.b.op("BitwiseNot", self.number(x))

    def visit_BoolOp(self, node):
        result = self.truth(self.visit(node.values[0]))
        for other in node.values[1:]:
            result = self.b.op("And" if isinstance(node.op, ast.And) else "Or", result, self.truth(self.visit(other)), dtype=tede.bool)
        return result

    def visit_Compare(self, node):
        (kind,), (right,) = [type(op) for op in node.ops], node.comparators
        a, c = self.number(self.visit(node.left)), self.number(self.visit(right))
        if self.dtype == tede.bool and kind not in (ast.Eq, ast.NotEq):
            a, c = self.b.cast(a, tede.int32), self.b.cast(c, tede.int32)
        if kind is ast.NotEq:
            return self.b.op("Not", self.b.op("Equal", a, c, dtype=tede.bool), dtype=tede.bool)
        return self.b.op(_COMPARE[kind], a, c, dtype=tede.bool)

    def visit_IfExp(self, node):
        return self.where(*(self.visit(x) for x in (node.test, node.body, node.orelse)))

    def where(self, test, yes, no):
        return self.b.op("Where", self.truth(test), self.number(yes), self.number(no), dtype=self.dtype)

    def visit_Call(self, node):
        name, args = node.func.id, [self.visit(x) for x in node.args]
        if name == "where":
            return self.where(*args)
        if name == "truth":
            return self.truth(args[0])
        if name == "pow":
            return self.b.op("Pow", *map(self.number, args))
        if name in _BY_OTHERS:
            return _Writer(self.b, {"x": self.number(args[0])}, self.dtype).value(_BY_OTHERS[name])
        if name not in _CALLS:
            raise Unsupported(f"torch.onnx.export: there is no ONNX for '{name}' in a formula")
        if name in ("isnan", "isinf"):
            return self.b.op(_CALLS[name], self.number(args[0]), dtype=tede.bool)
        if not self.dtype.is_floating_point and name in ("floor", "ceil", "round"):
            return args[0]
        return self.b.op(_CALLS[name], *map(self.number, args))
