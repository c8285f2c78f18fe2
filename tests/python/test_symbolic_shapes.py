"""make_fx(tracing_mode="symbolic"): graphs that hold for other sizes, and the conditions under which they do."""
import operator

import pytest
import tede

pytest.importorskip("sympy")
from tede._subclasses.fake_tensor import FakeTensorMode
from tede._sym import SymBool, SymFloat, SymInt
from tede.fx.experimental.proxy_tensor import make_fx
from tede.fx.experimental.symbolic_shapes import (
    bind_symbols, eval_guards, free_symbols, GuardOnDataDependentSymNode, is_concrete_int, ShapeEnv, statically_known_true)

F = tede.nn.functional
R = tede.randn


def trace(f, *args):
    return make_fx(f, tracing_mode="symbolic")(*args)


def grad_of(x):
    return tede.func.grad(lambda y: (y * y.size(0)).sum().square())(x)


def gradient(x):
    x = x.clone().requires_grad_()
    return tede.autograd.grad((x.sin() * x.sum(0)).sum(), x)[0]


def attention(x):
    return F.softmax(tede.einsum("bij,bkj->bik", x, x) / x.size(-1) ** 0.5, -1) @ x


def rotated(x):
    half = x.shape[-1] // 2
    return tede.cat([x[..., half:], x[..., :half]], -1)


FREE = {
    "pointwise": (lambda x: x.cos() + 1, [(3, 4)], [(5, 2)]),
    "flatten": (lambda x: x.flatten() * 2, [(3, 4)], [(5, 2)]),
    "factory": (lambda x: tede.ones(x.shape[0] * 2 + 1), [(3,)], [(5,)]),
    "negative": (lambda x: tede.zeros(-x.shape[0] + 10), [(3,)], [(5,)]),
    "arange": (lambda x: tede.arange(x.shape[0]) * x, [(3,)], [(8,)]),
    "two inputs": (lambda a, b: a @ b, [(3, 4), (4, 5)], [(2, 6), (6, 7)]),
    "broadcast": (lambda a, b: a * b, [(1, 5), (3, 1)], [(1, 7), (4, 1)]),
    "cat": (lambda a, b: tede.cat([a, b, a]), [(3,), (4,)], [(7,), (2,)]),
    "linear": (lambda x, w: F.linear(x, w), [(2, 7, 3), (5, 3)], [(4, 6, 2), (3, 2)]),
    "attention": (attention, [(3, 4, 5)], [(2, 6, 7)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1) + 1, [(2, 3, 16, 18)], [(4, 5, 9, 11)]),
    "two pools": (lambda x: F.avg_pool1d(F.avg_pool1d(x, 2), 3, 2), [(2, 4, 40)], [(3, 5, 61)]),
    "pad": (lambda x: F.pad(x, (1, 2)).sum(-1), [(3, 4)], [(5, 6)]),
    "slice": (lambda x: x[:, 1:x.shape[1] - 1], [(3, 7)], [(5, 6)]),
    "halves": (rotated, [(3, 8)], [(5, 14)]),
    "vmap": (lambda x: tede.func.vmap(lambda y: y * y.shape[0] + y.sum())(x), [(3, 4)], [(5, 6)]),
    "func.grad": (grad_of, [(3, 4)], [(5, 6)]),
    "autograd.grad": (gradient, [(3, 4)], [(5, 6)]),
    "functionalize": (tede.func.functionalize(lambda x: x.clone().add_(x.shape[1]).t()), [(3, 4)], [(5, 6)]),
    "mean by hand": (lambda x: x.sum(0) / x.shape[0], [(3, 4)], [(5, 6)]),
}


@pytest.mark.parametrize("name", FREE)
def test_a_graph_holds_for_other_sizes(name):
    f, shapes, others = FREE[name]
    made = trace(f, *map(R, shapes))
    assert made.shape_env.guards == []
    args = list(map(R, others))
    assert eval_guards(made, *args)
    got, expected = made(*args), f(*args)
    assert got.shape == expected.shape and tede.allclose(got, expected, equal_nan=True)


def test_sizes_are_nodes_of_the_graph():
    made = trace(lambda x: tede.empty(x.shape[0] * 2), R(4))
    assert [n.target for n in made.graph.nodes if n.op == "call_function"] == [
        tede.ops.aten.sym_size.int, operator.mul, tede.ops.aten.empty.memory_format]
    assert "mul = sym_size_int * 2" in made.code
    value = [n for n in made.graph.nodes if n.target is operator.mul][0].meta["val"]
    assert isinstance(value, SymInt) and str(value.node.expr) == "2*s0" and value.node.hint == 8


def test_numbers_of_a_trace_and_their_kinds():
    seen = {}

    def f(x):
        n = x.shape[0]
        seen["kinds"] = type(n), type(n / 2), type(n > 2), type(n ** 0.5), type(n + 1), type(tede.sym_max(n, 5))
        seen["texts"] = [str(n), str(n * 2 + 1), str(n // 2), str(x.numel()), str(x.stride())]
        seen["shape"] = repr(x.shape)
        seen["int"] = isinstance(n, int), is_concrete_int(n), free_symbols(n) == free_symbols(x.shape[:1])
        return x
    trace(f, R(4, 5))
    assert seen["kinds"] == (SymInt, SymFloat, SymBool, SymFloat, SymInt, SymInt)
    assert seen["texts"] == ["s0", "2*s0 + 1", "(s0//2)", "s0*s1", "(s1, 1)"]
    assert seen["shape"] == "tede.Size([s0, s1])" and seen["int"] == (False, False, True)


def test_decisions_are_guards():
    def f(x):
        return x.cos() if x.shape[0] > 5 else x.sin()
    made = trace(f, R(8, 3))
    assert [str(g.expr) for g in made.shape_env.guards] == ["s0 > 5"]
    assert eval_guards(made, R(6, 3)) and not eval_guards(made, R(5, 3))
    assert {str(s): n for s, n in bind_symbols(made, R(6, 4)).items()} == {"s0": 6, "s1": 4}
    assert not [n for n in trace(lambda x: x.cos() if x.shape[0] >= 2 else x, R(8)).shape_env.guards]       # known of every symbol


def test_ranges_follow_from_decisions():
    known = {}

    def f(x):
        assert x.shape[0] > 12 and x.shape[1] > x.shape[0]
        known["more"] = statically_known_true(x.shape[1] >= 14), statically_known_true(x.shape[1] >= 15), statically_known_true(x.shape[0] < 13)
        return x
    made = trace(f, R(15, 20))
    assert known["more"] == (True, False, False)
    assert not eval_guards(made, R(12, 20)) and not eval_guards(made, R(15, 15)) and eval_guards(made, R(13, 14))


@pytest.mark.parametrize("f, shapes, guard", [
    (lambda a, b: a.view(b.shape[0]) + b, [(4, 2), (8,)], "Eq(s2, s0*s1)"),
    (lambda a, b: tede.cat([a, a]) + b, [(2,), (4,)], "Eq(2*s0, s1)"),
    (lambda a: a.unbind(0)[0], [(3, 4)], "Eq(s0, 3)"),
    (lambda a: tede.cat(a.split(2, 1)[::-1], 1), [(3, 4)], "Eq(s1, 4)"),
    (lambda a: [a + i for i in range(a.shape[0])][-1], [(3, 4)], "Eq(s0, 3)"),
])
def test_equal_sizes_that_an_operator_needs_are_guards(f, shapes, guard):
    args = list(map(R, shapes))
    made = trace(f, *args)
    assert [str(g.expr) for g in made.shape_env.guards] == [guard]
    assert tede.equal(made(*args), f(*args)) and not eval_guards(made, *(R(*(n + 1 for n in shape)) for shape in shapes))


def test_what_fits_at_no_size_is_refused_with_the_sizes_given():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(3\) must match the size of tensor b \(4\)"):
        trace(lambda a, b: a + b, R(3), R(4))


def test_values_are_symbols_without_a_hint():
    made = trace(lambda n: tede.zeros(n.item()) + 1, tede.tensor(4))
    assert made(tede.tensor(7)).shape == (7,)
    made = trace(lambda x, m: x[m] * 2, R(4, 3), tede.ones(4, dtype=tede.bool))
    x, m = R(5, 2), tede.tensor([True, False, True, True, False])
    assert tede.equal(made(x, m), x[m] * 2)
    made = trace(lambda x: x.nonzero().flatten(), R(4, 3))
    assert tede.equal(made(x), x.nonzero().flatten())
    for f in (lambda n: n if n.item() > 3 else n + 1, lambda n: n if n else n + 1, lambda n: tede.ones(2)[: int(n)]):
        with pytest.raises((GuardOnDataDependentSymNode, RuntimeError)):
            trace(f, tede.tensor(4))

    def checked(n, x):
        k = n.item()
        tede._check(k == x.shape[0])
        return x * 2 if k > 1 else x
    assert trace(checked, tede.tensor(4), R(4))(tede.tensor(3), tede.ones(3)).tolist() == [2, 2, 2]


def test_sizes_of_a_fake_tensor_with_a_shape_env():
    env = ShapeEnv()
    real = R(3, 1), R(5)
    with FakeTensorMode(shape_env=env) as mode:
        a, b = map(mode.from_tensor, real)
        both = a + b
    assert str(both.shape) == "tede.Size([s0, s1])" and both.stride()[0].node.expr == both.shape[1].node.expr
    assert statically_known_true(a.shape[0] >= 2) and not statically_known_true(a.shape[0] > 2) and env.guards == []
    assert int(both.shape[0]) == 3 and [str(g.expr) for g in env.guards] == ["Eq(s0, 3)"]
    assert both.shape[0] == 3 and a.shape[0] == 3


def test_control_flow_takes_symbolic_conditions():
    def f(x):
        return tede.cond(x.shape[0] == 4, lambda x: x + x, lambda x: x * x, (x,))
    made = trace(f, R(3, 2))
    assert made.shape_env.guards == [] and "sym_size_int == 4" in made.code
    for n in 4, 5:
        x = R(n, 2)
        assert tede.equal(made(x), f(x))


def test_a_value_isnt_taken_for_one_number():
    with pytest.raises(GuardOnDataDependentSymNode):
        trace(lambda n: tede.zeros(n.item(), 192).view(12, -1, 192), tede.tensor(24))
    made = trace(lambda n, x: tede.zeros(n.item()) + x, tede.tensor(10), R(10))
    assert made(tede.tensor(3), tede.ones(3)).tolist() == [1, 1, 1]
    made = trace(lambda n: tede.arange(0, n), tede.tensor(4))
    assert made(tede.tensor(3)).tolist() == [0, 1, 2] and made.code.count("_local_scalar_dense.default") == 1


def test_a_number_of_the_trace_becomes_a_tensor_by_a_guard():
    made = trace(lambda x: x + tede.tensor(x.size(0) ** 2.0), R(2))
    assert len(made.shape_env.guards) == 1 and made(tede.zeros(2)).tolist() == [4, 4]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_the_gradient_of_map_is_a_map(mode):
    from tede._higher_order_ops import map

    def f(xs, y):
        out = map(lambda x, y: x * y, xs, y)
        return tede.autograd.grad(out, (xs, y), tede.ones_like(out))
    sizes = (3, 4), (4,)
    made = make_fx(f, tracing_mode=mode)(*(R(*s).requires_grad_() for s in sizes))
    assert made.code.count("higher_order.map_impl(") == 2 and (mode != "symbolic" or made.shape_env.guards == [])
    xs, y = (R(*s).requires_grad_() for s in (sizes if mode != "symbolic" else ((5, 6), (6,))))
    assert all(tede.allclose(a, b) for a, b in zip(made(xs, y), (y.detach().expand_as(xs), xs.detach().sum(0))))


def test_sizes_that_data_decides_are_symbols_under_fake_tensors_too():
    x = R(5, 5)
    made = make_fx(lambda x: x[x > 0] * 2, tracing_mode="fake")(x)
    y = R(5, 5)
    assert tede.equal(made(y), y[y > 0] * 2)
    value = next(n for n in made.graph.nodes if n.name.startswith("index")).meta["val"]
    assert isinstance(value.shape[0], SymInt) and "size=(u0,)" in repr(value)
    made = make_fx(lambda x: x.nonzero().expand(3, -1, 2).reshape(-1), tracing_mode="fake")(x)
    assert tede.equal(made(y), y.nonzero().expand(3, -1, 2).reshape(-1))


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_a_fake_kernel_makes_sizes_that_data_decides(mode):
    with tede.library._scoped_library("data_sizes", "DEF") as library:
        library.define("pairs(Tensor x, int most) -> (Tensor, Tensor)")
        library.impl("pairs", lambda x, most: (x.nonzero()[:most], x[x > 0].repeat(3, 1)), "CPU")
        seen = []

        def fake(x, most):
            context = tede.library.get_ctx()
            with pytest.raises(ValueError, match="greater than or equal to 0"):
                context.new_dynamic_size(min=-1)
            if isinstance(x.shape[0], SymInt):
                with pytest.raises(ValueError, match="SymInt"):
                    context.new_dynamic_size(max=x.shape[0])
            rows, columns = context.new_dynamic_size(max=most), context.new_dynamic_size()
            seen.append((rows, columns))
            return x.new_empty(rows, x.dim(), dtype=tede.long), x.new_empty(3, columns)
        library._register_fake("pairs", fake)
        made = make_fx(lambda x: [y.sum(0) for y in tede.ops.data_sizes.pairs(x * 2, 4)], tracing_mode=mode)(R(5, 5))
        x = R(5, 5) if mode == "fake" else R(4, 3)
        assert all(map(tede.equal, made(x), [(x.nonzero())[:4].sum(0), x[x > 0].repeat(3, 1).mul(2).sum(0)]))
        rows, columns = seen[0]
        assert rows.node.shape_env.var_to_range[rows.node.expr].upper == 4 and str(rows) != str(columns)
        with FakeTensorMode(), pytest.raises(RuntimeError, match="pairs"):       # without a ShapeEnv there are none
            tede.ops.data_sizes.pairs(tede.ones(2), 4)
