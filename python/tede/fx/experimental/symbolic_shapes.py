"""ShapeEnv: the symbols of a trace, what is known about them, and the conditions under which the trace holds.

Note [Sizes that can't be mistaken]. Operators are written in C and compute with numbers alone. Yet a trace with symbolic sizes has to know of each
size what it is made of. So the symbols of sizes are given numbers that can be told from all others: each one a prime of its own, in place of the
number in the call that is traced (its hint). Fake tensors have such sizes in the core; operators, autograd and transforms run on them as on any
other, once. A number that arrives anywhere is looked up, or taken apart: 2 * 1277 + 3 is twice the size whose prime is 1277, and three. What an
operator gives is checked against the same operator on tensors of the hints' sizes, which also tells of two ways to read a number which one holds.
Two things have to be mended at times. Where an operator refuses the primes and accepts the hints, two different expressions have to be the same
number, as of tensors that are added: the equality that lets it through becomes a guard, and a symbol is replaced. Where the results differ (a
size is compared with a constant, or a list has a member for each of a dimension), the symbols become their hints, which is a guard, too.
Programs see a SymInt where a number is known to the ShapeEnv, and the number otherwise."""
import functools
import itertools

import sympy
from tede._sym import SymBool, SymFloat, SymInt, is_symbolic
from tede.fx.experimental.sym_node import _KINDS, SymNode, to_number
from tede.utils._sympy.functions import FloorDiv

__all__ = ["ShapeEnv", "GuardOnDataDependentSymNode", "ConstraintViolationError", "DimDynamic", "StatelessSymbolicContext",
           "StatefulSymbolicContext", "is_concrete_int", "is_concrete_bool", "is_symbolic", "guard_int", "guard_bool", "guard_float", "guard_scalar",
           "guard_size_oblivious", "statically_known_true", "definitely_true", "definitely_false", "free_symbols", "free_unbacked_symbols",
           "has_free_symbols", "hint_int", "has_hint", "expect_true", "constrain_range", "constrain_unify", "sym_eq", "eval_guards", "bind_symbols",
           "fx_placeholder_vals", "fx_placeholder_targets", "canonicalize_bool_expr", "has_static_value", "guarding_hint_or_throw"]

LEAST = 1200            # numbers of symbols are larger; smaller ones are what they are


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision depends on the value of a tensor, which the trace doesn't have."""

    def __init__(self, cond, *args):
        super().__init__(*args)
        self.cond = cond


class ConstraintViolationError(RuntimeError):
    """A dimension that was to be dynamic is not."""


class DimDynamic:
    """How a dimension is treated."""
    DYNAMIC, DUCK, STATIC, SIZE_LIKE_UNBACKED, OBLIVIOUS_SIZE = "DYNAMIC", "DUCK", "STATIC", "SIZE_LIKE_UNBACKED", "OBLIVIOUS_SIZE"


class StatelessSymbolicContext:
    """What a tensor's dimensions are to be: dynamic_sizes has a DimDynamic for each."""

    def __init__(self, dynamic_sizes, dynamic_strides=None, constraint_sizes=None, constraint_strides=None, view_base_context=None):
        self.dynamic_sizes, self.dynamic_strides = list(dynamic_sizes), dynamic_strides
        self.constraint_sizes = list(constraint_sizes) if constraint_sizes is not None else [None] * len(self.dynamic_sizes)
        self.constraint_strides, self.view_base_context = constraint_strides, view_base_context


class StatefulSymbolicContext(StatelessSymbolicContext):
    def __init__(self, *args, tensor_source=None, shape_env_to_source_to_symbol_cache=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.tensor_source, self.shape_env_to_source_to_symbol_cache = tensor_source, shape_env_to_source_to_symbol_cache or {}


class ShapeGuard:
    """A condition of the trace."""

    def __init__(self, expr, stack=None):
        self.expr, self.stack = expr, stack

    def __repr__(self):
        return f"ShapeGuard(expr={self.expr})"


class RuntimeAssert(ShapeGuard):
    """A condition on values of tensors, which is checked when the graph runs."""

    def __init__(self, expr, msg=None, stack=None):
        super().__init__(expr, stack)
        self.msg = msg


class ValueRanges:
    """From `lower` to `upper`, both included."""

    def __init__(self, lower, upper):
        self.lower, self.upper = sympy.sympify(lower), sympy.sympify(upper)

    def __repr__(self):
        return f"VR[{self.lower}, {self.upper}]"

    def __and__(self, other):
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __eq__(self, other):
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    __hash__ = None

    def is_singleton(self):
        return self.lower == self.upper

    def __contains__(self, x):
        return bool(self.lower <= x <= self.upper)


def _primes():
    """Primes that no program is likely to write down."""
    for n in itertools.count(3 * LEAST + 11):
        if sympy.isprime(n) and min(n % 100, -n % 100) > 6 and all(abs(n - k * 1024) > 9 for k in range(1, 20)):
            yield n


class ShapeEnv:
    """The symbols of one trace."""

    def __init__(self, *, should_record_events=None, tracked_fakes=None, duck_shape=True, specialize_zero_one=True, allow_scalar_outputs=True,
                 allow_dynamic_output_shape_ops=True, assume_static_by_default=False, **options):
        self.settings_duck, self.specialize_zero_one = duck_shape is not False, specialize_zero_one
        self.allow_scalar_outputs, self.allow_dynamic_output_shape_ops = allow_scalar_outputs, allow_dynamic_output_shape_ops
        self.guards, self.replacements, self.var_to_val, self.var_to_range = [], {}, {}, {}
        self.var_to_sources, self.source_to_var, self.val_to_var, self.deferred_runtime_asserts = {}, {}, {}, {}
        self.size_like, self.frozen, self.counter = set(), False, {}
        self.tracked_fakes = tracked_fakes
        self._primes, self._second = _primes(), {}
        self._numbers = {}              # symbol -> what the core computes with
        self._own = {}                  # expression -> a prime of its own, where its number would be small
        self._table = {}                # number -> expression
        self.recipes = {}               # expression -> operator, operands: how the program made it first
        self.fakes = None               # weak references to the tensors whose sizes are to be written anew, when a symbol is replaced
        self.version = 0

    # ---- symbols

    def _new(self, prefix, integer, **assumed):
        count = self.counter[prefix] = self.counter.get(prefix, -1) + 1
        symbol = sympy.Symbol(f"{prefix}{count}", **(dict(integer=True) if integer else dict(real=True)), **assumed)
        n = next(self._primes)
        self._numbers[symbol] = n if integer else n / 977.0 + 1e-7
        self._second[symbol] = next(self._primes) if integer else n / 883.0
        self._table[self._numbers[symbol]] = symbol
        return symbol

    def create_symbol(self, val, source=None, dynamic_dim=DimDynamic.DUCK, constraint_dim=None, positive=True,
                      do_not_specialize_zero_one=False, symbolic_context=None):
        """The symbol of a size, or the number where it is to be one."""
        if dynamic_dim == DimDynamic.STATIC or (val in (0, 1) and self.specialize_zero_one and not do_not_specialize_zero_one):
            return sympy.Integer(val)
        if dynamic_dim == DimDynamic.SIZE_LIKE_UNBACKED:
            symbol = self.create_unbacked_symint().node.expr
            self.size_like.add(symbol)
            return symbol
        if dynamic_dim != DimDynamic.DYNAMIC and self.settings_duck and val in self.val_to_var:
            symbol = self.val_to_var[val]
        else:
            symbol = self._new("s", True, **(dict(positive=True) if positive else {}))
            self.var_to_val[symbol] = sympy.Integer(val)
            self.var_to_range[symbol] = ValueRanges(2 if positive else -sympy.oo, sympy.oo)
            if dynamic_dim != DimDynamic.DYNAMIC:
                self.val_to_var[val] = symbol
        self.var_to_sources.setdefault(symbol, []).append(source)
        self.source_to_var[source.name() if hasattr(source, "name") else str(source)] = symbol
        return symbol

    create_unspecified_symbol = create_symbol

    def create_symintnode(self, sym, *, hint=None, source=None):
        return int(sym) if sympy.sympify(sym).is_Integer else SymInt(SymNode(sym, self, int))

    def create_symboolnode(self, sym):
        return SymBool(SymNode(sym, self, bool))

    def create_unspecified_symint_and_symbol(self, value, source, dynamic_dim):
        return self.create_symintnode(self.create_symbol(value, source, dynamic_dim, positive=None, do_not_specialize_zero_one=True))

    def create_unbacked_symint(self, source=None):
        symbol = self._new("u", True)
        self.var_to_range[symbol] = ValueRanges(-sympy.oo, sympy.oo)
        return SymInt(SymNode(symbol, self, int))

    def create_unbacked_symfloat(self):
        return SymFloat(SymNode(self._new("zuf", False), self, float))

    def create_unbacked_symbool(self):
        symbol = self._new("u", True)
        self.var_to_range[symbol] = ValueRanges(0, 1)
        return SymBool(SymNode(sympy.Eq(symbol, 1), self, bool))

    def is_unbacked_symint(self, symbol):
        return symbol in self._numbers and symbol not in self.var_to_val

    def freeze(self):
        self.frozen = True

    def create_symbolic_sizes_strides_storage_offset(self, ex, source=None, *, symbolic_context=None):
        """SymInts, or numbers, of a tensor's sizes, strides and offset."""
        ways = symbolic_context.dynamic_sizes if symbolic_context is not None else [DimDynamic.DUCK] * ex.ndim
        sizes = [self.create_symbol(int(n), _Part(source, "size", i), way) for i, (n, way) in enumerate(zip(ex.shape, ways))]
        strides, known = [None] * ex.ndim, {}
        for i in sorted(range(ex.ndim), key=lambda i: (ex.stride(i), -i)):
            step = int(ex.stride(i))
            strides[i] = sympy.Integer(step) if step in (0, 1) else known.get(step)
            if strides[i] is None:
                strides[i] = self.create_symbol(step, _Part(source, "stride", i), DimDynamic.DYNAMIC if step >= LEAST else DimDynamic.DUCK)
            known.setdefault(step * int(ex.shape[i]), strides[i] * sizes[i])
        offset = int(ex.storage_offset())
        offset = sympy.Integer(0) if offset == 0 else self.create_symbol(offset, _Part(source, "storage_offset", None))
        make = self.create_symintnode
        return tuple(map(make, sizes)), tuple(map(make, strides)), make(offset)

    # ---- numbers and expressions

    def replace(self, expr):
        if not self.replacements or not getattr(expr, "free_symbols", None) or not expr.free_symbols & self.replacements.keys():
            return expr
        return self.replace(expr.xreplace(self.replacements)) if expr.free_symbols else expr

    def _value(self, expr, values, kind):
        found = expr.xreplace({s: sympy.sympify(values[s]) for s in expr.free_symbols})
        return to_number(found, kind)

    def number_of(self, expr, kind=int):
        """What the core computes with in place of an expression."""
        expr = self.replace(expr)
        number = self._own.get(expr)
        if number is not None:
            return number
        number = self._value(expr, self._numbers, kind)
        if expr.free_symbols and kind is not bool:
            if kind is int and number < LEAST:          # it could be mistaken, or be no size
                number = self._own[expr] = next(self._primes)
            self._table.setdefault(number, expr)
        return number

    def hint_of(self, expr):
        expr = self.replace(expr)
        if any(s not in self.var_to_val for s in expr.free_symbols):
            return None
        return self._value(expr, self.var_to_val, bool if self._is_truth(expr) else int if expr.is_integer else float)

    @staticmethod
    def _is_truth(expr):
        return isinstance(expr, sympy.logic.boolalg.Boolean) and not isinstance(expr, sympy.Symbol)

    def stand_in(self, expr):
        """The hint, with a second number of their own for symbols that have none."""
        expr = self.replace(expr)
        return self._value(expr, {s: self.var_to_val.get(s, self._second.get(s)) for s in expr.free_symbols}, int)

    def expr_of(self, number):
        """The expression that a number is, or the number. Products of symbols are found."""
        if isinstance(number, bool) or (isinstance(number, int) and -LEAST < number < LEAST):
            return number
        found = self._table.get(number)
        if found is None and isinstance(number, int):
            found = self._factored(number)
            if found is not None:
                self._table[number] = found
        return number if found is None else self.replace(found)

    def _factored(self, number):
        rest, expr = abs(number), sympy.Integer(1 if number > 0 else -1)
        for symbol, prime in itertools.chain(self._numbers.items(), self._own.items()):
            while isinstance(prime, int) and prime >= LEAST and rest % prime == 0:
                rest, expr = rest // prime, expr * symbol
        return expr * rest if expr.free_symbols and rest < LEAST else None

    def shown(self, number):
        """A number of the core as programs see it."""
        expr = self.expr_of(number)
        if not isinstance(expr, sympy.Basic):
            return expr
        kind = float if isinstance(number, float) else int
        return to_number(expr, kind) if not expr.free_symbols else _KINDS[kind](SymNode(expr, self, kind))

    def find(self, number, hint, context, here=None):
        """The expression, of those in the context, that is `number` for the symbols' numbers and `hint` for their hints; None if none is found.
        `here` are numbers that expressions have in this place only."""
        if number == hint:
            return sympy.Integer(number)
        found = self._find(number, hint, context, 3, here or {})
        if found is not None:
            self._table.setdefault(number, found)
        return found

    def _find(self, number, hint, context, depth, here):
        expr = self.expr_of(number)
        if isinstance(expr, sympy.Basic) and (hint is None or self.stand_in(expr) == hint):
            return expr
        known = [(e, here.get(e) or self.number_of(e), self.stand_in(e)) for e in context]
        for e, n, h in known:
            if (n, h) == (number, hint):
                return e
        for e, n, h in known:               # a * e + b
            if hint is None:
                if abs(number - n) <= 64:
                    return e + (number - n)
            elif n != h and (number - hint) % (n - h) == 0 and 0 < abs((number - hint) // (n - h)) < 64:
                a = (number - hint) // (n - h)
                return a * e + (number - a * n)
        for (e, n, h), (f, m, k) in itertools.combinations(known, 2):
            for sign in 1, -1:
                for a, b, x, y, u, v in ((e, f, n, m, h, k), (f, e, m, n, k, h)) if sign < 0 else ((e, f, n, m, h, k),):
                    rest = number - x - sign * y
                    if abs(rest) <= 64 and (hint is None or hint - u - sign * v == rest):
                        return a + sign * b + rest
        for e, n, h in known if depth else ():          # a product
            if (n >= LEAST or e in here) and number % n == 0 and number != n and (hint is None or (h and hint % h == 0)):
                quotient, small = number // n, None if hint is None else hint // h
                inner = sympy.Integer(quotient) if quotient == small or (hint is None and quotient < LEAST) else \
                    self._find(quotient, small, context, depth - 1, here) if quotient >= LEAST or here else None
                if inner is not None:
                    return e * inner
        return None

    def note(self, found, function, operands):
        """Remember how the program made a number."""
        self.recipes.setdefault(found.node._expr, (function, operands))

    # ---- conditions

    def known(self, expr):
        """What holds of a condition, or of a number, for all values that the symbols may have; None if that isn't known."""
        expr = self.replace(expr)
        if not self._is_truth(expr):
            return None if expr.free_symbols else expr
        if expr in (sympy.true, sympy.false):
            return bool(expr)
        if isinstance(expr, (sympy.And, sympy.Or, sympy.Not)):
            parts = [self.known(a) for a in expr.args]
            if isinstance(expr, sympy.Not):
                return None if parts[0] is None else not parts[0]
            decided = isinstance(expr, sympy.Or)
            return decided if decided in parts else None if None in parts else not decided
        if not isinstance(expr, sympy.core.relational.Relational):
            return None
        low, high = self._bounds(sympy.expand(expr.lhs - expr.rhs))
        if isinstance(expr, (sympy.Eq, sympy.Ne)):
            same = True if low == high == 0 else False if low > 0 or high < 0 else None
            return same if same is None or isinstance(expr, sympy.Eq) else not same
        if isinstance(expr, (sympy.Lt, sympy.Ge)):
            less = True if high < 0 else False if low >= 0 else None
            return less if less is None or isinstance(expr, sympy.Lt) else not less
        more = True if low > 0 else False if high <= 0 else None
        return more if more is None or isinstance(expr, sympy.Gt) else not more

    def _bounds(self, expr):
        """The least and the largest value of a polynomial of the symbols, or an interval around."""
        low = high = sympy.Integer(0)
        for term in sympy.Add.make_args(expr):
            least, most = self._term_bounds(term)
            low, high = low + least, high + most
        return (-sympy.oo if low is sympy.nan else low), (sympy.oo if high is sympy.nan else high)

    def _term_bounds(self, term):
        factor, rest = term.as_coeff_Mul()
        least = most = sympy.Integer(1)
        for part in sympy.Mul.make_args(rest):
            base, power = part.as_base_exp()
            between = self.var_to_range.get(base)
            if base.is_number:
                a = b = part
            elif between is not None and between.lower >= 0 and power.is_Integer and power > 0:
                a, b = between.lower ** power, between.upper ** power
            elif between is not None and power == 1 and part == rest:
                a, b = between.lower, between.upper
            elif isinstance(base, FloorDiv) and power == 1 and base.args[1].is_Integer and base.args[1] > 0:
                a, b = (n if n.is_infinite else FloorDiv(n, base.args[1]) for n in self._bounds(base.args[0]))
            elif part.is_nonnegative:
                a, b = sympy.Integer(0), sympy.oo
            else:
                return -sympy.oo, sympy.oo
            if a < 0 and part != rest:
                return -sympy.oo, sympy.oo
            least, most = least * a, (sympy.oo if sympy.oo in (most, b) else most * b)
        if factor == 0:
            return sympy.Integer(0), sympy.Integer(0)
        return (least * factor, most * factor) if factor > 0 else (most * factor, least * factor)

    def _unknown(self, expr):
        return GuardOnDataDependentSymNode(expr, f"Could not guard on data-dependent expression {expr} (unhinted: {expr}). (Size-like symbols: "
                                                 f"{', '.join(map(str, self.size_like & expr.free_symbols)) or 'none'})")

    def evaluate_expr(self, orig_expr, hint=None, fx_node=None, **options):
        """What a condition, or a number, is in the call that is traced; that it is so becomes a guard."""
        expr = self.replace(orig_expr)
        known = self.known(expr)
        if known is not None:
            return sympy.sympify(known)
        value = self.hint_of(expr)
        if value is None:
            if self._is_truth(expr):
                size_like = expr.free_symbols & self.size_like
                held = {s: self.var_to_range[s] for s in size_like}
                for s in size_like:             # a size that depends on values is taken for none of 0 and 1
                    self.var_to_range[s] = held[s] & ValueRanges(2, sympy.oo)
                try:
                    known = self.known(expr)
                finally:
                    self.var_to_range.update(held)
                if known is not None:
                    return sympy.sympify(known)
            raise self._unknown(expr)
        if self._is_truth(expr):
            self._add(expr if value else sympy.Not(expr))
        else:
            self._add(sympy.Eq(expr, value))
        return sympy.sympify(value)

    def expect_true(self, expr):
        """Take a condition for true; where it depends on values, the graph checks it when it runs."""
        expr = self.replace(expr)
        known = self.known(expr)
        if known is not None:
            return known
        if self.hint_of(expr) is not None:
            return bool(self.evaluate_expr(expr))
        symbols = sorted((s for s in expr.free_symbols if s not in self.var_to_val), key=str)
        self.deferred_runtime_asserts.setdefault(symbols[-1], []).append(RuntimeAssert(expr))
        self._learn(expr)
        return True

    def _add(self, condition):
        if self.frozen and self.known(condition) is None:
            import warnings
            warnings.warn(f"Ignored guard {condition} of a frozen ShapeEnv")
            return
        self.guards.append(ShapeGuard(condition))
        self._learn(condition)

    def _learn(self, condition):
        """A replacement, or narrower ranges, of a condition that holds."""
        if isinstance(condition, sympy.And):
            for part in condition.args:
                self._learn(part)
        if isinstance(condition, sympy.Eq):
            self._equate(condition.lhs, condition.rhs)
            return
        if isinstance(condition, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)):
            for symbol in sorted(condition.free_symbols & self.var_to_range.keys(), key=str):
                self._narrow(symbol, condition)

    def _narrow(self, symbol, condition):
        """The range of a symbol by a comparison that it is linear in, with what is known of the others."""
        difference = sympy.expand(condition.lhs - condition.rhs)
        factor = difference.coeff(symbol, 1)
        rest = difference - factor * symbol
        if not factor.is_Integer or not factor or symbol in rest.free_symbols:
            return
        low, high = self._bounds(sympy.expand(-rest / factor))
        kind = condition.func
        if factor < 0:
            kind = {sympy.Lt: sympy.Gt, sympy.Gt: sympy.Lt, sympy.Le: sympy.Ge, sympy.Ge: sympy.Le}[kind]
        limits = {sympy.Lt: (-sympy.oo, sympy.ceiling(high) - 1), sympy.Le: (-sympy.oo, sympy.floor(high)),
                  sympy.Gt: (sympy.floor(low) + 1, sympy.oo), sympy.Ge: (sympy.ceiling(low), sympy.oo)}[kind]
        self.var_to_range[symbol] = self.var_to_range[symbol] & ValueRanges(*limits)
        if self.var_to_range[symbol].is_singleton():
            self._replace(symbol, self.var_to_range[symbol].lower)

    def solve(self, a, b):
        """(symbol, what it is) of an equality; None if it isn't linear with a whole solution."""
        difference = sympy.expand(a - b)
        for symbol in sorted(difference.free_symbols, key=lambda s: (s in self.var_to_val, -int(str(s).lstrip("suzf")))):
            factor = difference.coeff(symbol, 1)
            rest = difference - factor * symbol
            if not factor.is_Integer or not factor or symbol in rest.free_symbols:
                continue
            found = sympy.expand(-rest / factor)
            if all(term.as_coeff_Mul()[0].is_Integer for term in sympy.Add.make_args(found)):
                return symbol, found
        return None

    def _equate(self, a, b):
        solved = self.solve(a, b)
        if solved is not None:
            self._replace(*solved)

    def _replace(self, symbol, expr):
        expr = self.replace(expr)
        if symbol in expr.free_symbols or symbol in self.replacements:
            return
        between = self.var_to_range.get(symbol)
        if expr.is_Symbol and between is not None and expr in self.var_to_range:
            self.var_to_range[expr] = self.var_to_range[expr] & between
            if symbol in self.size_like:
                self.size_like.add(expr)
        stale = dict(self._table)
        self.replacements[symbol] = expr
        self.version += 1
        for number, old in stale.items():       # a number that is in use somewhere goes on meaning what it meant
            self._table[number] = self.replace(old)
        if self.fakes is not None:
            self.fakes(self)

    _set_replacement = lambda self, symbol, expr, msg=None: self._replace(symbol, expr)

    def specialize(self, exprs):
        """Their symbols become their hints; GuardOnDataDependentSymNode if they have none."""
        for symbol in sorted(set().union(*(e.free_symbols for e in exprs)) if exprs else (), key=str):
            if self.replace(symbol).free_symbols:
                self.evaluate_expr(self.replace(symbol))

    # ---- what the trace depends on

    def get_nontrivial_guards(self):
        return [self.replace(g.expr) for g in self.guards if self.known(g.expr) is None]

    def format_guards(self, verbose=False):
        return "\n".join(f" - {g.expr}" for g in self.guards)

    def get_axioms(self, symbols=None, compute_hint=False):
        return tuple(g.expr for g in self.guards)

    def simplify(self, expr):
        return self.replace(expr)

    def bound_sympy(self, expr, size_oblivious=False):
        return ValueRanges(*self._bounds(sympy.expand(self.replace(expr))))

    def _bindings(self, placeholders, sources):
        """(source, expression, hint) of each number that the inputs have."""
        for x, source in zip(placeholders, sources):
            if is_symbolic(x):
                yield _name(source), x.node._expr
            elif hasattr(x, "shape"):
                for kind, values in ("size", x.shape), ("stride", x.stride()), ("storage_offset", [x.storage_offset()]):
                    for i, n in enumerate(values):
                        name = f"{_name(source)}.{kind}()" + ("" if kind == "storage_offset" else f"[{i}]")
                        yield name, n.node._expr if is_symbolic(n) else sympy.Integer(int(n))

    def _input_terms(self, placeholders, sources):
        """The numbers of the inputs with the expressions that they had when they were made."""
        found = []
        for x, source in zip(placeholders, sources):
            made = getattr(x, "_made_with", None)
            if made is None:
                found.extend(self._bindings([x], [source]))
            else:
                for kind, values in zip(("size", "stride", "storage_offset"), made):
                    for i, e in enumerate(values):
                        found.append((f"{_name(source)}.{kind}()" + ("" if kind == "storage_offset" else f"[{i}]"), e))
        return found

    def produce_guards(self, placeholders, sources, *, ignore_static=True, _simplified=False, **options):
        """The conditions on the inputs as Python's expressions; if _simplified without those that say which numbers are the same."""
        terms = self._input_terms(placeholders, sources)
        names, lines, static = {}, [], []
        for name, e in terms:
            now = self.replace(e)
            if now.is_Symbol and now not in names and e.is_Symbol:
                names[now] = name
        printer = _Printer(names)
        for name, e in terms if not _simplified else ():
            now = self.replace(e)
            if now.is_Symbol and names.get(now) == name:
                continue
            derived = ".size()" not in name and not e.is_Symbol
            if not now.free_symbols:
                if not e.free_symbols:
                    static.append(f"{name} == {printer.doprint(now)}")
                    if not ignore_static:
                        lines.append(static[-1])
                else:
                    lines.append(f"{name} == {printer.doprint(now)}")
            elif not derived or not ignore_static:
                if now.free_symbols <= names.keys():
                    lines.append(f"{name} == {printer.doprint(now)}")
        seen = set()
        for guard in self.guards:
            expr = self.replace(guard.expr)
            if expr in (sympy.true, sympy.false) or expr in seen or not expr.free_symbols <= names.keys():
                continue
            seen.add(expr)
            if len(expr.free_symbols) == 1 and self.known(expr) is not None:
                continue            # which its range says
            lines.append(printer.doprint(expr))
        for symbol, name in names.items():
            between = self.var_to_range.get(symbol)
            if symbol in self.var_to_val and between is not None:
                low, high = between.lower, between.upper
                if low > 2 or (low == 2 and not ignore_static) or not _simplified and self.replacements and any(symbol in e.free_symbols and not e.is_Symbol
                                                                                      for e in self.replacements.values()):
                    lines.append(f"{low} <= {name} <= {high}" if high != sympy.oo else f"{low} <= {name}")
                elif high != sympy.oo:
                    lines.append(f"{name} <= {high}")
        return lines

    def produce_guards_expression(self, placeholders, *, guards=None, ignore_static=True):
        from tede._dynamo.source import LocalSource
        sources = [LocalSource(f"t{i}") for i in range(len(placeholders))]
        lines = self.produce_guards(placeholders, sources, ignore_static=ignore_static)
        return " and ".join(f"({line})" for line in lines) or None

    def evaluate_guards_expression(self, code, args):
        return eval(code, {}, {"L": {f"t{i}": x for i, x in enumerate(args)}, "Mod": lambda a, b: a % b, "Max": max, "Min": min})

    def bind_symbols(self, placeholders, args):
        """Symbol -> what it is for other arguments."""
        found = {}
        for (_, e), (_, n) in zip(self._input_terms(placeholders, [_Part(None, "", i) for i in range(len(placeholders))]),
                                  self._bindings(args, [_Part(None, "", i) for i in range(len(args))])):
            e = self.replace(e)
            if e.is_Symbol:
                found.setdefault(e, int(n))
        return found

    def evaluate_guards_for_args(self, placeholders, args, *, ignore_static=True):
        """Whether the trace holds for other arguments."""
        values = self.bind_symbols(placeholders, args)
        for (_, e), (_, n) in zip(self._input_terms(placeholders, [_Part(None, "", i) for i in range(len(placeholders))]),
                                  self._bindings(args, [_Part(None, "", i) for i in range(len(args))])):
            if e.free_symbols and self.replace(e).free_symbols <= values.keys() and self._value(self.replace(e), values, int) != int(n):
                return False
        for guard in self.guards:
            expr = self.replace(guard.expr)
            if expr.free_symbols <= values.keys() and not self._value(expr, values, bool):
                return False
        return all(values[s] in self.var_to_range[s] for s in values if s in self.var_to_range)


class _Part:
    """A number of an input: its size()[0]."""

    def __init__(self, base, kind, index):
        self.base, self.kind, self.index = base, kind, index

    def name(self):
        whole = _name(self.base)
        return whole if not self.kind else f"{whole}.{self.kind}()" + ("" if self.index is None else f"[{self.index}]")


def _name(source):
    return source.name() if hasattr(source, "name") else f"L[{source!r}]"


class _Printer(sympy.printing.str.StrPrinter):
    def __init__(self, names):
        super().__init__()
        self._names = names

    def _print_Symbol(self, symbol):
        return self._names.get(symbol, str(symbol))

    def _print_Not(self, expr):
        return f"not ({self.doprint(expr.args[0])})"

    def _print_Relational(self, expr):
        return f"{self.doprint(expr.lhs)} {expr.rel_op} {self.doprint(expr.rhs)}"


# ---- functions of numbers that may be symbolic

def is_concrete_int(a):
    return isinstance(a, int) or (isinstance(a, SymInt) and a.node.expr.is_Integer)


def is_concrete_bool(a):
    return isinstance(a, bool) or a.node.expr in (sympy.true, sympy.false)


def has_static_value(a):
    return not is_symbolic(a) or a.node.shape_env.bound_sympy(a.node.expr).is_singleton()


def guard_int(a):
    return int(a)


def guard_bool(a):
    return bool(a)


def guard_float(a):
    return float(a)


def guard_scalar(a):
    return a.node.guard() if is_symbolic(a) else a


guard_size_oblivious = guard_bool


def expect_true(a, skip=0):
    return a.node.expect_true() if is_symbolic(a) else bool(a)


def statically_known_true(x):
    """Whether x is true whatever the symbols are; no guard."""
    return x.node.statically_known_true() if is_symbolic(x) else bool(x)


def definitely_true(a):
    if not is_symbolic(a):
        return bool(a)
    return bool(a) if a.node.has_hint() else a.node.statically_known_true()


def definitely_false(a):
    if not is_symbolic(a):
        return not a
    return not bool(a) if a.node.has_hint() else a.node.shape_env.known(a.node.expr) is False


def hint_int(a, fallback=None):
    return a.node.require_hint(fallback) if is_symbolic(a) else int(a)


def guarding_hint_or_throw(a):
    return a.node.require_hint() if is_symbolic(a) else a


def has_hint(a):
    return not is_symbolic(a) or a.node.has_hint()


def _exprs(value):
    if is_symbolic(value):
        yield value.node.expr
    elif isinstance(value, sympy.Basic):
        yield value
    elif isinstance(value, (tuple, list)):
        for x in value:
            yield from _exprs(x)
    elif hasattr(value, "storage_offset"):
        yield from _exprs((tuple(value.shape), tuple(value.stride()), value.storage_offset()))


def free_symbols(val):
    """The symbols in a number, a tensor's geometry, or a sequence of such."""
    return set().union(*(e.free_symbols for e in _exprs(val)))


def free_unbacked_symbols(x):
    return {s for s in free_symbols(x) if str(s).startswith(("u", "zuf"))}


def has_free_symbols(val):
    return bool(free_symbols(val))


def constrain_range(a, *, min=None, max=None):
    """Say that a number that depends on values is within these limits."""
    if not is_symbolic(a):
        if not (min is None or min <= a) or not (max is None or a <= max):
            raise ValueError(f"Invalid value {a} for range [{min}:{max}]")
        return
    env, symbol = a.node.shape_env, a.node.expr
    limits = ValueRanges(-sympy.oo if min is None else min, sympy.oo if max is None else max)
    if symbol in env.var_to_range:
        env.var_to_range[symbol] = env.var_to_range[symbol] & limits


def constrain_size(a, *, min=None, max=None):
    """The same of a size."""
    constrain_range(a, min=0 if min is None else min, max=max)
    if is_symbolic(a) and a.node.expr.is_Symbol:
        a.node.shape_env.size_like.add(a.node.expr)


_constrain_range_for_size = constrain_size


def constrain_unify(a, b):
    expect_true(a == b)


def sym_eq(x, y):
    """Whether two numbers, or sequences of such, are equal: a SymBool where that isn't known."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        if len(x) != len(y):
            return False
        return functools.reduce(lambda a, b: b if a is True else a if b is True else a & b, map(sym_eq, x, y), True)
    return x == y


def canonicalize_bool_expr(expr):
    """The condition with Lt and Le in place of Gt and Ge."""
    if isinstance(expr, (sympy.Gt, sympy.Ge)):
        return (sympy.Lt if isinstance(expr, sympy.Gt) else sympy.Le)(expr.rhs, expr.lhs)
    return expr


def fx_placeholder_vals(gm):
    """The inputs of a graph as they were made: meta["val"]."""
    return [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]


def fx_placeholder_targets(gm):
    """The names of a graph's inputs."""
    return [n.target for n in gm.graph.nodes if n.op == "placeholder"]


def eval_guards(gm, *args, ignore_static=True):
    """Whether a graph of make_fx holds for other arguments."""
    return gm.shape_env.evaluate_guards_for_args(fx_placeholder_vals(gm), args, ignore_static=ignore_static)


def bind_symbols(gm, *args):
    return gm.shape_env.bind_symbols(fx_placeholder_vals(gm), args)
