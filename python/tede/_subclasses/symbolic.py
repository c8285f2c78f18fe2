"""Symbolic sizes of fake tensors: how operators run on them. See Note [Sizes that can't be mistaken] in tede.fx.experimental.symbolic_shapes."""
import contextlib
import weakref

import sympy
import tede
from tede._sym import is_symbolic
from tede.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, LEAST, ShapeEnv
from tede.utils import _pytree
from tede.utils._sympy.functions import FloorDiv
from tede.utils._python_dispatch import no_dispatch

_WITHOUT_STRIDES = tede.sparse_csr, tede.sparse_csc, tede.sparse_bsr, tede.sparse_bsc
_REFUSALS = (RuntimeError, IndexError, ValueError, OverflowError, TypeError)
_OF_NUMBERS = tede.tensor, tede.as_tensor, tede.asarray, tede.Tensor.new_tensor
_READ = {tede.Tensor.__bool__: bool, tede.Tensor.__int__: int, tede.Tensor.__float__: float, tede.Tensor.__index__: int}


class Sizes:
    """What a FakeTensorMode does about a ShapeEnv."""

    def __init__(self, env: ShapeEnv, make):
        """make(mode, tensor on meta, device) is a fake tensor."""
        self.env, self._make = env, make
        self._fakes = weakref.WeakValueDictionary()         # number of the object -> fake tensor
        self._raw = False
        self._drawn, self._at, self._value = [], 0, None        # sizes that data decides, of the operator that runs: see data_size
        others = env.fakes
        env.fakes = self._renumber if others is None else lambda env: (others(env), self._renumber(env))

    def follow(self, fake):
        self._fakes[id(fake)] = fake

    def shown(self, numbers):
        return numbers if self._raw else tuple(map(self.env.shown, numbers))

    @contextlib.contextmanager
    def raw(self):
        """Within it sizes are the core's numbers."""
        before, self._raw = self._raw, True
        try:
            yield
        finally:
            self._raw = before

    @staticmethod
    def meta(sizes, strides, offset, dtype):
        """A tensor on meta that lies so."""
        with no_dispatch(), tede._C.DisableTorchFunction(), tede.no_grad():
            last = offset + sum((n - 1) * step for n, step in zip(sizes, strides)) + 1 if all(sizes) else offset
            memory = tede.empty(last, dtype=dtype, device="meta")
            return tede.empty(0, dtype=dtype, device="meta").set_(memory.untyped_storage(), offset, tuple(sizes), tuple(strides))

    def geometry(self, x):
        """Sizes, strides and offset as the core has them."""
        with self.raw(), tede._C.DisableTorchFunction():
            strides = (0,) * x.dim() if x.layout in _WITHOUT_STRIDES else tuple(x.stride())
            return tuple(x.shape), strides, x.storage_offset()

    def of_input(self, x, source, context):
        """Expressions of the sizes, strides and offset of an input of the trace, and the core's numbers."""
        sizes, strides, offset = self.env.create_symbolic_sizes_strides_storage_offset(x, source, symbolic_context=context)
        made = tuple(tuple(n.node.expr if is_symbolic(n) else sympy.Integer(n) for n in part) for part in (sizes, strides, (offset,)))
        numbers = [tuple(map(self.env.number_of, part)) for part in made]
        return made, (numbers[0], numbers[1], numbers[2][0])

    def _renumber(self, env):
        """A symbol has been replaced: tensors get the sizes that their expressions stand for now."""
        for fake in list(self._fakes.values()):
            before = self.geometry(fake)
            sizes, strides = (tuple(self._now(n) for n in part) for part in before[:2])
            if (sizes, strides, self._now(before[2])) != before:
                with no_dispatch(), tede._C.DisableTorchFunction(), tede.no_grad(), self.raw():
                    fake.data = self.meta(sizes, strides, self._now(before[2]), fake.dtype)

    def _now(self, number):
        expr = self.env.expr_of(number)
        return self.env.number_of(expr, float if isinstance(number, float) else int) if isinstance(expr, sympy.Basic) else number

    # ---- operators

    def decode(self, args, kwargs):
        """Find out what the numbers among an operator's arguments are."""
        leaves = _pytree.arg_tree_leaves(*args, **kwargs)
        sizes = [n for x in leaves if self._is_fake(x) for part in self.geometry(x)[:2] for n in part]
        context = self._exprs(sizes + [x for x in leaves if type(x) in (int, float)])
        for x in leaves:
            if type(x) is int and not isinstance(self.env.expr_of(x), sympy.Basic) and context and abs(x) >= LEAST:
                found = self.env.find(x, None, context)
                if found is not None:
                    self.env._table.setdefault(x, found)
        return context

    def _is_fake(self, x):
        return isinstance(x, tede.Tensor) and getattr(x, "fake_mode", None) is not None and x.fake_mode.sizes is self

    def _exprs(self, numbers):
        found = {}
        for n in numbers:
            expr = self.env.expr_of(n)
            if isinstance(expr, sympy.Basic) and expr.free_symbols:
                found[expr] = None
        return list(found)

    def _with(self, value, args, kwargs, decode=True):
        """Arguments with tensors on meta in place of fake ones, and numbers, as value(expression) says."""
        def number(n):
            expr = self.env.expr_of(n)
            return value(expr) if isinstance(expr, sympy.Basic) else n

        def change(x):
            if is_symbolic(x):
                return value(x.node.expr) if x.node.pytype is int else x.node.number
            if type(x) is int:
                return number(x) if decode else x
            if not isinstance(x, tede.Tensor):
                return x
            if not self._is_fake(x):
                return x
            sizes, strides, offset = self.geometry(x)
            return self.meta(tuple(map(number, sizes)), tuple(map(number, strides)), number(offset), x.dtype)
        return _pytree.tree_map(change, (tuple(args), dict(kwargs)))

    def _try(self, value, func, args, kwargs, decode=True):
        args, kwargs = self._with(value, args, kwargs, decode)
        before, self._at, self._value = (self._at, self._value), 0, value
        try:
            with no_dispatch(), tede._C.DisableTorchFunction(), tede.no_grad():
                return func(*args, **kwargs)
        finally:
            self._at, self._value = before

    def data_size(self, least=0, most=None):
        """A size that data decides, for a fake kernel. Where the operator runs again, on other numbers, it is the same one, in the order of the calls."""
        i, self._at = self._at, self._at + 1
        if i == len(self._drawn):
            self._drawn.append(self._new_size(least, most).node.expr)
        return self.env.create_symintnode(self._drawn[i]) if self._value is None else self._value(self._drawn[i])

    def run(self, func, args, kwargs):
        """The operator's result. Its sizes become known expressions."""
        self._drawn, self._at = [], 0
        context = self.decode(args, kwargs)
        try:
            result = func(*args, **kwargs)
        except NotImplementedError:
            raise
        except _REFUSALS:
            if not context:
                raise
            version = self.env.version
            try:
                self._try(self.env.stand_in, func, args, kwargs)
            except _REFUSALS:                   # that error says which numbers it met
                if all(s in self.env.var_to_val for e in context for s in e.free_symbols):
                    raise
            self._unify(func, args, kwargs)
            if self.env.version == version:
                raise
            return self.run(func, *self._with_now(args, kwargs))
        context += self._drawn
        if not context:
            return result
        expected = self._try(self.env.stand_in, func, args, kwargs)
        def probe(expr, more, leaf, d):
            """A size of the result, where this expression is larger."""
            given = lambda e: self.env.number_of(e) + (more if e == expr else 0)
            return _pytree.tree_leaves(self._try(given, func, args, kwargs))[leaf].shape[d]
        if not self._agree(result, expected, context + self._sums(args), probe):
            version = self.env.version
            self.env.specialize(self._lengths(func, args, kwargs, context, len(_pytree.tree_leaves(expected))) or context)
            if self.env.version == version:
                raise RuntimeError(f"{func}: what its result's sizes are made of isn't known")
            return self.run(func, *self._with_now(args, kwargs))
        return result

    def _lengths(self, func, args, kwargs, context, count):
        """The symbol that says how many results there are."""
        for symbol in sorted(set().union(*(e.free_symbols for e in context)), key=str):
            hint = self.env.var_to_val.get(symbol)
            if hint is not None:
                given = lambda e: self.env.number_of(e.xreplace({symbol: hint}))
                try:
                    if len(_pytree.tree_leaves(self._try(given, func, args, kwargs))) == count > 1:
                        return [symbol]
                except _REFUSALS:
                    pass
        return []

    def _sums(self, args):
        """Of lists of tensors, their sizes together along a dimension."""
        found = []
        for list_ in args:
            if isinstance(list_, (list, tuple)) and len(list_) > 1 and all(map(self._is_fake, list_)):
                for column in zip(*(self.geometry(x)[0] for x in list_)):
                    whole = sympy.Add(*(sympy.sympify(self.env.expr_of(n)) for n in column))
                    found += [whole] if whole.free_symbols else []
        return found

    def _with_now(self, args, kwargs):
        return _pytree.tree_map(lambda x: self._now(x) if type(x) in (int, float) else x, (tuple(args), dict(kwargs)))

    def _agree(self, result, expected, context, probe):
        """Whether the results' sizes are expressions of the context that give the sizes expected."""
        got, wanted = _pytree.tree_leaves(result), _pytree.tree_leaves(expected)
        if len(got) != len(wanted):
            return False
        for leaf, (x, y) in enumerate(zip(got, wanted)):
            if not isinstance(x, tede.Tensor) or x.layout != tede.strided:
                continue
            found, here = list(context), self.geometry(x) if self._is_fake(x) else (tuple(x.shape), tuple(x.stride()), x.storage_offset())
            if len(here[0]) != y.ndim:
                return False
            pairs = [*zip(here[0], y.shape), *((n, h) for n, h, size in zip(here[1], y.stride(), here[0]) if size > 1),
                     (here[2], y.storage_offset())]
            exprs, small = [], {}
            for d, (n, h) in enumerate(pairs):
                expr = self.env.find(n, h, found, small)
                if expr is None and d < y.ndim:
                    expr = self._quotient(n, h, context, lambda e, more: probe(e, more, leaf, d))
                if expr is None:
                    return False
                exprs.append(expr)
                if expr.free_symbols and n < LEAST:
                    small[expr] = n
                if expr.free_symbols and expr not in found:
                    found.append(expr)
            if any(e.free_symbols and n < LEAST for e, n in zip(exprs, here[0])):
                self._enlarge(x, exprs[:y.ndim], here[1])
        return True

    def _quotient(self, number, hint, context, probe):
        """An expression divided, as of the windows that a stride makes; how much is added before shows where the quotient grows."""
        whole = [(e, self.env.number_of(e), e) for e in context]
        whole += [(e - f, n - m, e) for e, n, _ in whole for f, m, _ in whole if n > m]
        for e, n, grown in whole if number > 0 else ():
            by = round(n / number)
            if not 2 <= by <= 64 or abs(number * by - n) > 64 + by:
                continue
            try:
                more = next((k for k in range(1, by + 1) if probe(grown, k) != number), None)
            except _REFUSALS:
                continue
            if more is not None:
                expr = FloorDiv(e + (number + 1) * by - n - more, sympy.Integer(by))
                if self.env.stand_in(expr) == hint:
                    return expr
        return None

    def _enlarge(self, x, sizes, strides):
        """A new tensor whose sizes could be mistaken gets others."""
        sizes, steps, step = tuple(map(self.env.number_of, sizes)), [1] * len(strides), 1
        for i in sorted(range(len(sizes)), key=lambda i: (strides[i], -i)):
            steps[i], step = step, step * sizes[i]
        with no_dispatch(), tede._C.DisableTorchFunction(), tede.no_grad(), self.raw():
            x.data = self.meta(sizes, steps, 0, x.dtype)

    def _unify(self, func, args, kwargs, decode=True):
        """Find the equality of sizes that lets an operator through, and take it for a guard."""
        leaves = _pytree.arg_tree_leaves(*args, **kwargs)
        dims = [[n for n in self.geometry(x)[0]] for x in leaves if self._is_fake(x)]
        numbers = [n for dim in dims for n in dim] + [x for x in leaves if type(x) is int and decode]
        numbers += [x.node.number for x in leaves if is_symbolic(x) and x.node.pytype is int]
        exprs = list(dict.fromkeys(sympy.sympify(self.env.expr_of(n)) for n in numbers))
        products = []
        for dim in dims:
            product = sympy.Mul(*(sympy.sympify(self.env.expr_of(n)) for n in dim))
            if product not in exprs and product not in products:
                products.append(product)
        exprs += products
        pairs = [(e, f) for i, e in enumerate(exprs) for f in exprs[i + 1:]
                 if (e.free_symbols or f.free_symbols) and sympy.expand(e - f) != 0 and self._may_be_equal(e, f)]
        if not any(self._lets_through([pair], func, args, kwargs, decode) for pair in pairs):
            for last in range(2, len(pairs) + 1):
                if self._lets_through(pairs[:last], func, args, kwargs, decode):
                    return
            self.env.specialize([e for e in exprs if e.free_symbols])

    def _may_be_equal(self, e, f):
        a, b = self.env.hint_of(e), self.env.hint_of(f)
        if a is None or b is None:          # that a value is one number isn't taken for granted
            return bool(e.free_symbols and f.free_symbols) and self.env.known(sympy.Eq(e, f)) is None
        return a == b and self.env.known(sympy.Eq(e, f)) is None

    def _lets_through(self, pairs, func, args, kwargs, decode):
        replaced = {}
        for e, f in pairs:
            solved = self.env.solve(e.xreplace(replaced), f.xreplace(replaced))
            if solved is None or (solved[0] not in self.env.var_to_val and not solved[1].free_symbols):
                return False
            replaced = {s: x.xreplace({solved[0]: solved[1]}) for s, x in replaced.items()}
            replaced[solved[0]] = solved[1]
        try:
            self._try(lambda e: self.env.number_of(self.env.replace(e).xreplace(replaced)), func, args, kwargs, decode)
        except _REFUSALS:
            return False
        for e, f in pairs:
            condition = sympy.Eq(e, f)
            if self.env.hint_of(condition) is None:
                self.env.expect_true(condition)
            else:
                self.env.evaluate_expr(condition)
        return True

    # ---- functions that Python calls

    def call(self, func, args, kwargs):
        """A function of the program's: what its parts refuse before an operator runs is made possible here, too."""
        if func in _OF_NUMBERS:
            args, kwargs = _pytree.tree_map(lambda x: x.node.guard() if is_symbolic(x) else x, (tuple(args), dict(kwargs)))
        if func in _READ and self._is_fake(args[0]) and args[0].constant is None:
            return _READ[func](self.call(tede.Tensor.item, (args[0],), {}))
        try:
            result = func(*args, **kwargs)
        except (NotImplementedError, GuardOnDataDependentSymNode):
            raise
        except (RuntimeError, ValueError, IndexError):
            leaves = _pytree.arg_tree_leaves(*args, **kwargs)
            if not callable(func) or not any(self._is_fake(x) and self._exprs(self.geometry(x)[0]) for x in leaves):
                raise
            version = self.env.version
            try:
                self._try(self.env.stand_in, func, args, kwargs, decode=False)
            except Exception:
                pass
            else:
                self._unify(func, args, kwargs, decode=False)
            if self.env.version == version:
                raise
            return self.call(func, args, kwargs)
        if func is tede.Tensor.item and type(result) in (int, float):
            return self.env.shown(result)
        if func is tede.Tensor.tolist:
            return _pytree.tree_map(lambda x: self.env.shown(x) if type(x) in (int, float) else x, result)
        return result

    def item(self, x):
        """The number that stands for a value; None for what is no number of a trace."""
        kept = x.__dict__.get("_item")
        if kept is not None and kept[0] == x._version:
            return self._now(kept[1])
        if x.dtype == tede.bool or x.dtype.is_complex:
            return None
        made = self.env.create_unbacked_symfloat() if x.dtype.is_floating_point else self.env.create_unbacked_symint()
        x._item = x._version, made._number
        return made._number

    def _count(self, x):
        """How many elements of x aren't zero: a number of its own, the same for a tensor as long as nothing is written to it."""
        kept = x.__dict__.get("_count")
        if kept is not None and kept[0] == x._version:
            return self._now(kept[1])
        number = self._size()
        x._count = x._version, number
        return number

    def _new_size(self, least=0, most=None):
        made = self.env.create_unbacked_symint()
        self.env.size_like.add(made.node.expr)
        known = self.env.var_to_range[made.node.expr]
        self.env.var_to_range[made.node.expr] = known & type(known)(least, sympy.oo if most is None else most)
        return made

    def _size(self):
        return self._new_size()._number

    def without_masks(self, func, args, kwargs):
        """The result of an operator whose sizes depend on values, or arguments in place of these; None if it isn't known."""
        if not self.env.allow_dynamic_output_shape_ops:
            return None
        aten = tede.ops.aten
        if func is aten.nonzero.default:
            return self._fake(args[0], (args[0].ndim, self._count(args[0])), tede.int64).t()      # which is how its elements lie
        if func is aten.masked_select.default:
            return self._fake(args[0], (self._size(),), args[0].dtype)
        if func is aten.repeat_interleave.Tensor:
            return self._fake(args[0], (self._size(),), tede.int64)
        if not any(str(a.type) == "List[Optional[Tensor]]" for a in func._schema.arguments):
            return None
        found = []
        for x in args[1]:
            if x is not None and x.dtype in (tede.bool, tede.uint8):
                count = self._count(x)
                found += [self._fake(x, (count,), tede.int64) for _ in range(x.ndim)]
            else:
                found.append(x)
        return (args[0], found, *args[2:]), kwargs

    def _fake(self, like, sizes, dtype):
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * sizes[i + 1]
        return self._make(like.fake_mode, self.meta(sizes, strides, 0, dtype), like.fake_device)
