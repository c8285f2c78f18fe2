"""Functions of functions, on tede and on PyTorch: vmap, grad, vjp, jvp, Jacobians, and how they nest."""
import contextlib
import importlib

import pytest


@pytest.fixture
def func(lib):
    return importlib.import_module(lib.__name__ + ".func")


def close(a, b, tolerance=1e-4):
    return a.shape == b.shape and float((a - b).abs().max() if a.numel() else 0) <= tolerance


def network(lib):
    w1, b1, w2 = lib.randn(8, 4), lib.randn(8), lib.randn(2, 8)

    def loss(parameters, x, target):
        w1, b1, w2 = parameters
        hidden = lib.tanh(x @ w1.T + b1)
        return ((hidden @ w2.T - target) ** 2).mean()
    return (w1, b1, w2), loss


# ---- vmap

def test_a_member_never_sees_the_others(lib, func):
    x, y = lib.randn(5, 3), lib.randn(5, 3)
    assert close(func.vmap(lambda a, b: (a * b).sum())(x, y), (x * y).sum(1))
    assert close(func.vmap(lambda a: a - a.max())(x), x - x.max(1, keepdim=True)[0])


def test_dimensions_in_and_out(lib, func):
    x, y = lib.randn(3, 5, 2), lib.randn(2, 3)
    out = func.vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=-1)(x, y)
    assert close(out, lib.stack([x[:, i] @ y for i in range(5)], -1))
    tree = func.vmap(lambda d: {"s": d["a"].sum(), "t": (d["a"] + d["b"],)}, in_dims=({"a": 0, "b": None},),
                     out_dims={"s": 0, "t": (1,)})({"a": x, "b": lib.ones(2)})
    assert close(tree["s"], x.sum((1, 2))) and tree["t"][0].shape == (5, 3, 2)


def test_nested(lib, func):
    x, y = lib.randn(3), lib.randn(4)
    outer = func.vmap(func.vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert close(outer, x[:, None] * y)
    assert close(func.vmap(func.vmap(lambda a: a.sum(), 1), 1)(lib.ones(2, 3, 4)), lib.full((3, 4), 2.0))


def test_chunks_give_the_same(lib, func):
    x = lib.randn(7, 3)
    assert close(func.vmap(lambda a: a.cumsum(0), chunk_size=2)(x), x.cumsum(1))


def test_indexing_by_batches(lib, func):
    table, at = lib.randn(6, 5, 4), lib.tensor([[0, 2], [4, 1], [3, 3], [1, 0], [2, 2], [4, 4]])
    assert close(func.vmap(lambda t, i: t[i])(table, at), lib.stack([table[k][at[k]] for k in range(6)]))
    assert close(func.vmap(lambda t, i: t[:, i])(table.transpose(1, 2), at),
                 lib.stack([table[k].T[:, at[k]] for k in range(6)]))
    assert close(func.vmap(lambda i: table[0][i])(at), table[0][at])

    def write(t, i):
        t = t.clone()
        t[i] = 0.0
        return t
    expected = table.clone()
    for k in range(6):
        expected[k, at[k]] = 0
    assert close(func.vmap(write)(table, at), expected)


def test_members_are_written_in_place(lib, func):
    x = lib.ones(3, 2)

    def f(a):
        a.add_(1)
        a[0] = a[1] * 2
        return a.sum()
    assert func.vmap(f)(x).tolist() == [6, 6, 6] and x.tolist() == [[4, 2]] * 3


def test_what_is_shared_may_not_be_written_by_members(lib, func):
    shared = lib.zeros(3)
    with pytest.raises(RuntimeError, match="vmap: .*is not possible because there exists a Tensor"):
        func.vmap(lambda a: shared.copy_(a))(lib.ones(2, 3))


def test_random_numbers_are_an_error_unless_it_is_said_how(lib, func):
    x = lib.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.vmap(lambda a: a + lib.randn(3))(x)
    different = func.vmap(lambda a: a + lib.randn(3), randomness="different")(x)
    same = func.vmap(lambda a: a + lib.randn(3), randomness="same")(x)
    assert different.unique(dim=0).shape[0] == 4 and same.unique(dim=0).shape[0] == 1
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        func.vmap(lambda a: a, randomness="none")


@pytest.mark.parametrize("call, error, words", [
    (lambda v, l: v(lambda a: a)(), ValueError, "got no inputs"),
    (lambda v, l: v(lambda a: a, in_dims=[0])(l.ones(2)), ValueError, "expected `in_dims` to be int or a"),
    (lambda v, l: v(lambda a: a, in_dims=3)(l.ones(2)), ValueError, "expected in_dim to satisfy -1 <= in_dim < 1"),
    (lambda v, l: v(lambda a, b: a)(l.ones(2), l.ones(3)), ValueError, "same size in the mapped dimension, got sizes"),
    (lambda v, l: v(lambda a: a, in_dims=(None,))(l.ones(2)), ValueError, "at least one Tensor"),
    (lambda v, l: v(lambda a: 3)(l.ones(2)), ValueError, "must only return Tensors, got type"),
    (lambda v, l: v(lambda a: a, out_dims="x")(l.ones(2)), ValueError, "`out_dims` must be an int, None or"),
    (lambda v, l: v(lambda a: a, out_dims=None)(l.ones(2)), ValueError, "can not return a BatchedTensor"),
    (lambda v, l: v(lambda a: a.item())(l.ones(2)), RuntimeError, r"calling .item\(\) on a Tensor"),
])
def test_misuse_says_what_is_wrong(lib, func, call, error, words):
    with pytest.raises(error, match=words):
        call(func.vmap, lib)


# ---- reverse mode

def test_gradients_of_each_sample(lib, func):
    parameters, loss = network(lib)
    x, t = lib.randn(6, 4), lib.randn(6, 2)
    each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, t)
    for i in range(6):
        one = func.grad(loss)(parameters, x[i], t[i])
        assert all(close(e[i], o) for e, o in zip(each, one))


def test_gradients_of_each_sample_of_layers(lib, func):
    F = lib.nn.functional
    w, b, v = lib.randn(4, 2, 3, 3), lib.randn(4), lib.randn(5, 4)
    x, t = lib.randn(3, 1, 2, 6, 6), lib.tensor([[1], [0], [4]])

    def loss(w, b, v, x, t):
        y = F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2).mean((2, 3))
        return F.cross_entropy(F.linear(y, v), t)
    each = func.vmap(func.grad(loss, argnums=(0, 1, 2)), in_dims=(None, None, None, 0, 0))(w, b, v, x, t)
    for i in range(3):
        one = func.grad(loss, argnums=(0, 1, 2))(w, b, v, x[i], t[i])
        assert all(close(e[i], o) for e, o in zip(each, one))


def test_derivatives_of_derivatives(lib, func):
    f = lib.sin
    for expected in (lib.cos, lambda x: -lib.sin(x), lambda x: -lib.cos(x)):
        f = func.grad(f)
        x = lib.tensor(0.7)
        assert close(f(x), expected(x))


def test_levels_are_not_confused(lib, func):
    """d/dx [x * d/dy (x + y)] is 1, in both modes and mixed."""
    x = lib.tensor(3.0)
    one = lib.ones(())

    def reverse(f):
        return func.grad(f)

    def forward(f):
        return lambda x: func.jvp(f, (x,), (lib.ones_like(x),))[1]
    for outer in (reverse, forward):
        for inner in (reverse, forward):
            assert close(outer(lambda x: x * inner(lambda y: x + y)(one))(x), one)
            assert close(outer(lambda x: inner(lambda y: x * x * y)(one))(x), 2 * x)


def test_auxiliary_results_and_which_arguments(lib, func):
    x, y = lib.tensor(2.0), lib.tensor(3.0)
    (gx, gy), (value, aux) = func.grad_and_value(lambda a, b: (a * a * b, a + b), argnums=(0, 1), has_aux=True)(x, y)
    assert (float(gx), float(gy), float(value), float(aux)) == (12, 4, 12, 5)
    gradient, aux = func.grad(lambda a: (a * a, a), has_aux=True)(x)
    assert float(gradient) == 4 and not aux.requires_grad


def test_vjp_is_called_more_than_once(lib, func):
    x = lib.randn(3)
    out, pullback = func.vjp(lambda a: (a.sin(), a.sum()), x)
    for _ in range(2):
        g, = pullback((lib.ones(3), lib.tensor(2.0)))
        assert close(g, x.cos() + 2)


def test_gradients_flow_through_from_outside(lib, func):
    """An outer backward() sees what the inner gradient was made of."""
    w = lib.tensor(2.0, requires_grad=True)
    gradient = func.grad(lambda x: w * x ** 3)(lib.tensor(1.0))
    gradient.backward()
    assert float(gradient) == 6 and float(w.grad) == 3


def test_no_grad_outside_does_not_reach_in(lib, func):
    with lib.no_grad():
        assert float(func.grad(lambda x: x * x)(lib.tensor(3.0))) == 6
    inside = func.grad(lambda x: x * x + lib.no_grad()(lambda: x * x)())(lib.tensor(3.0))
    assert float(inside) == 6


def test_writing_in_place_under_grad(lib, func):
    def f(x):
        buffer = lib.zeros(3)
        buffer[1:].copy_(x)
        buffer.mul_(buffer.clone())
        return (buffer * lib.tensor([1.0, 2.0, 3.0])).sum()
    x = lib.tensor([5.0, 7.0])
    assert func.grad(f)(x).tolist() == [20, 42]


@pytest.mark.parametrize("call, words", [
    (lambda f, l: f.grad(lambda x: x)(l.ones(2)), "Expected f.* to return a scalar Tensor, got tensor with 1 dims"),
    (lambda f, l: f.grad(lambda x: 1.0)(l.ones(())), "to return a Tensor, got"),
    (lambda f, l: f.grad(lambda x: x, argnums=2)(l.ones(())), "Got argnum=2, but only 1 positional inputs"),
    (lambda f, l: f.vjp(lambda x: 1.0, l.ones(())), "expected f.* to return only tensors"),
    (lambda f, l: f.jvp(lambda x: x, l.ones(()), l.ones(())), "Expected primals to be a tuple"),
])
def test_misuse_of_derivatives_says_what_is_wrong(lib, func, call, words):
    with pytest.raises(RuntimeError, match=words):
        call(func, lib)


# ---- Jacobians

def test_jacobians_both_ways(lib, func):
    a = lib.randn(3, 4)

    def f(x):
        return lib.tanh(a @ x)
    x = lib.randn(4)
    y = f(x)
    expected = (1 - y * y)[:, None] * a
    assert close(func.jacrev(f)(x), expected) and close(func.jacfwd(f)(x), expected)
    assert close(func.jacrev(f, chunk_size=2)(x), expected)
    batch = lib.randn(5, 4)
    assert close(func.vmap(func.jacrev(f))(batch), func.vmap(func.jacfwd(f))(batch))


def test_hessians(lib, func):
    def f(x):
        return (x ** 3).sum() + x[0] * x[1]
    x = lib.randn(3)
    expected = lib.diag(6 * x)
    expected[0, 1] += 1
    expected[1, 0] += 1
    for made in (func.hessian(f), func.jacrev(func.jacrev(f)), func.jacfwd(func.jacfwd(f)), func.jacrev(func.jacfwd(f))):
        assert close(made(x), expected)


def test_jacobians_of_trees(lib, func):
    x = {"a": lib.randn(2), "b": lib.randn(3)}
    for jacobian in (func.jacrev, func.jacfwd):
        j = jacobian(lambda d: (d["a"] * 2, d["b"].sum()))(x)
        assert close(j[0]["a"], 2 * lib.eye(2)) and j[0]["b"].shape == (2, 3) and close(j[1]["b"], lib.ones(3))


def test_linearize(lib, func):
    x, t = lib.randn(3), lib.randn(3)
    y, along = func.linearize(lib.sin, x)
    assert close(y, x.sin()) and close(along(t), t * x.cos())


# ---- modules

def test_an_ensemble_in_one_call(lib, func):
    models = [lib.nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    x = lib.randn(5, 3)
    out = func.vmap(lambda p, b: func.functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    assert close(out, lib.stack([m(x) for m in models]))


# ---- Functions of one's own

def cube(lib, rule):
    class Cube(lib.autograd.Function):
        generate_vmap_rule = rule == "generated"

        @staticmethod
        def forward(x):
            return x ** 3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * 3 * x * x

    if rule == "own":
        Cube.vmap = staticmethod(lambda info, in_dims, x: (Cube.apply(x), in_dims[0]))
    return Cube


@pytest.mark.parametrize("rule", ["own", "generated"])
def test_a_function_with_a_backward_of_its_own(lib, func, rule):
    f, x = cube(lib, rule).apply, lib.randn(5)
    assert close(func.vmap(func.grad(f))(x), 3 * x * x)
    assert close(func.grad(func.grad(f))(x[0]), 6 * x[0])
    assert close(func.grad(lambda x: func.vmap(f)(x).sum())(x), 3 * x * x)


def test_a_function_without_a_rule_says_so(lib, func):
    with pytest.raises(RuntimeError, match="it does not have vmap support"):
        func.vmap(cube(lib, None).apply)(lib.randn(3))


def test_batches_of_cotangents(lib):
    x = lib.randn(3, requires_grad=True)
    y = x * x
    rows = lib.autograd.grad(y, x, lib.eye(3), is_grads_batched=True)[0]
    assert close(rows, lib.diag(2 * x.detach()))


# ---- rules in place of loops: each member by itself is what the batch gives ---------------------------------------------------

def assert_members(lib, function, *operands, in_dims=0):
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(operands)
    together = lib.vmap(function, in_dims=in_dims)(*operands)
    size = next(x.shape[d] for x, d in zip(operands, dims) if d is not None)
    for i in range(size):
        alone = function(*(x if d is None else x.select(d, i) for x, d in zip(operands, dims)))
        assert together[i].shape == alone.shape and lib.allclose(together[i], alone, atol=1e-6, equal_nan=True)


def test_class_weights_of_members(lib):
    F = lib.nn.functional
    x, w = lib.randn(3, 5, 4, dtype=lib.float64), lib.rand(3, 4, dtype=lib.float64)
    t = lib.randint(0, 4, (3, 5))
    for reduction in ("none", "mean", "sum"):
        how = {"reduction": reduction}
        assert_members(lib, lambda x, t, w: F.nll_loss(x, t, w, ignore_index=1, **how), x, t, w)
        assert_members(lib, lambda w: F.nll_loss(x[0], t[0], w, **how), w)
        assert_members(lib, lambda x, w: F.nll_loss(x, t[0], w, **how), x, w.T, in_dims=(0, 1))
        assert_members(lib, lambda x, t, w: F.cross_entropy(x, t, w, **how), x, t, w)
        assert_members(lib, lambda x, t, w: F.nll_loss(x, t, w, **how), x[:, 0], t[:, 0], w)
        assert_members(lib, lambda x, t, w: F.multi_margin_loss(x, t, weight=w, **how), x, t, w)
        assert_members(lib, lambda x, t, w: F.multi_margin_loss(x, t, weight=w, **how), x[:, 0], t[:, 0], w)
        assert_members(lib, lambda x, t: F.multilabel_margin_loss(x, t, **how), x[:, 0, 0], t[:, 0] * 0)
    g = lib.func.grad(lambda x, t, w: F.nll_loss(x.log_softmax(-1), t, w))
    assert_members(lib, g, x, t, w)


def test_segments_of_members(lib):
    x, n = lib.randn(2, 6, 3, dtype=lib.float64), lib.tensor([[1, 2, 3], [4, 0, 2]])
    for reduce in ("sum", "mean", "max", "min", "prod"):
        def function(x, n):
            return lib.segment_reduce(x, reduce, lengths=n, axis=0, unsafe=True)
        assert_members(lib, function, x, n)
        assert_members(lib, function, x, n[0], in_dims=(0, None))
        assert_members(lib, lambda n: function(x[0], n), n)
    assert_members(lib, lib.func.grad(lambda x, n: (lib.segment_reduce(x, "sum", lengths=n, unsafe=True) ** 2).sum()), x, n)


def test_writes_to_indexed_numbers_of_members(lib):
    x, i, s = lib.randn(3), lib.zeros(3, dtype=lib.int64), lib.randn(3)
    for function in (lambda x, i, s: x.index_add(0, i, s), lambda x, i, s: x.index_reduce(0, i, s, "prod"),
                     lambda x, i, s: x.index_fill(0, i, 2.0)):
        assert_members(lib, function, x, i, s)
        assert_members(lib, function, x, i[0], s, in_dims=(0, None, 0))


@pytest.mark.parametrize("name", ["prod", "cumprod", "det", "select_scatter", "slice_scatter", "diagonal_scatter", "unfold", "quantile"])
def test_gradients_that_look_at_values_are_right_for_members(lib, name):
    f = {"prod": lambda x: x.prod(), "cumprod": lambda x: x.cumprod(0), "det": lambda x: lib.linalg.det(x),
         "select_scatter": lambda x: lib.select_scatter(x, x[0] * x[1], 0, 2), "slice_scatter": lambda x: lib.slice_scatter(x, x[1:2], 0, 0, 1),
         "diagonal_scatter": lambda x: lib.diagonal_scatter(x, x[0]), "unfold": lambda x: lib.nn.functional.unfold(x[None, None], 2),
         "quantile": lambda x: lib.quantile(x, lib.tensor([0.2, 0.5], dtype=x.dtype))}[name]
    lib.manual_seed(0)
    x = lib.randn(3, 3, 3, dtype=lib.float64)
    x[1, 0, 0] = 0
    derive = lib.func.grad(lambda m: (f(m) ** 2).sum())
    lib.testing.assert_close(lib.func.vmap(derive)(x), lib.stack([derive(m) for m in x]))


@pytest.mark.parametrize("layer", ["dropout", "alpha_dropout", "feature_alpha_dropout", "dropout2d"])
def test_dropout_of_what_has_no_batch(lib, layer):
    f, x = getattr(lib.nn.functional, layer), lib.ones(6, 50, 2)

    def op(batched):
        return f(x, training=True) + 0 * batched
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        lib.vmap(op)(lib.ones(4))
    same, other = (lib.vmap(op, randomness=r)(lib.ones(4)) for r in ("same", "different"))
    assert lib.equal(same[0], same[3])
    assert not lib.equal(other[0], other[3])


def test_chunks_draw_the_same(lib):
    def f(x):
        return x + lib.rand_like(x)
    x = lib.arange(6.0).reshape(3, 2)
    lib.manual_seed(1)
    whole = lib.vmap(f, randomness="same")(x)
    lib.manual_seed(1)
    assert lib.equal(lib.vmap(f, randomness="same", chunk_size=2)(x), whole)


@pytest.mark.parametrize("name, left, right", [("dot", (3, 2), (3, 2, 3)), ("mv", (3, 2), (3, 2, 3)), ("mm", (3, 2), (3, 2, 2)),
                                               ("bmm", (3, 2, 2), (3, 2, 2)), ("dot", (3, 2, 2), (3, 2))])
def test_products_of_wrong_ranks_are_refused(lib, name, left, right):
    with pytest.raises(RuntimeError, match="Shape mismatch: Got incorrect dims|Got wrong shapes for dot"):
        lib.vmap(getattr(lib, name))(lib.ones(left), lib.ones(right))


def test_transforms_can_be_left_out(lib):
    def f(x, guard):
        with guard():
            lib.rand(1)
        return x * 2
    x = lib.arange(3.)
    assert lib.func.vmap(lambda x: f(x, lib._C._DisableFuncTorch))(x).tolist() == [0, 2, 4]
    with pytest.raises(RuntimeError, match="randomness"):
        lib.func.vmap(lambda x: f(x, contextlib.nullcontext))(x)


def test_contexts_with_other_saved_tensors(lib):
    wrapped = importlib.import_module(lib.__name__ + "._functorch.autograd_function").CtxWithSavedTensors
    seen = []

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            other = wrapped(ctx, (1, 2))
            other.note = "kept"
            seen.extend([other.saved_tensors, wrapped(other, (3,)).saved_tensors, ctx.note, other.needs_input_grad])
            return grad * 2
    x = lib.ones(2, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert seen == [(1, 2), (3,), "kept", (True,)]


def test_gradients_of_operands_of_batches(lib):
    reductify = importlib.import_module(lib.__name__ + "._functorch.autograd_function").reductify_leaf
    g = lib.rand(3, 2, 4)
    assert reductify(None, None, 0, 2) is None and lib.equal(reductify(g, 1, None, 2), g.sum(1)) and lib.equal(reductify(g, 1, 0, 2), g.movedim(1, 0))
    assert lib.equal(reductify(g[:, 0], None, 1, 5), g[:, 0].view(3, 1, 4).expand(3, 5, 4))
    lib.testing.assert_close(reductify(g, 1, 0, 2, (4,)), g.movedim(1, 0).sum(1))


def test_the_level_of_a_tensor(lib):
    level = importlib.import_module("tede.func._interpreters").dlevel if lib.__name__ == "tede" else lib._C._functorch.dlevel
    escaped = []

    def f(x):
        escaped.append(x.sin())
        assert level(escaped[0]) == 1
        return escaped[0]
    lib.func.grad(f)(lib.rand(()))
    assert level(escaped[0]) == -1 and level(escaped[0].sum()) == 0
