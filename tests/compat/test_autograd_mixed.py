"""Gradients where features meet: classes with __torch_dispatch__, modes, transforms, checkpoints and hooks on what is saved."""
import sys
import threading
import warnings

import pytest


def wrapper_class(lib, log=None):
    """A class without memory of its own around a tensor; its calls are noted."""
    tree = lib.utils._pytree.tree_map

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            self = lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())
            self.inner = inner.detach()
            return self

        def __init__(self, inner):
            pass

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            if log is not None:
                log.append(str(function))
            args, kwargs = tree(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
            return tree(lambda x: cls(x) if isinstance(x, lib.Tensor) else x, function(*args, **kwargs))
    return Wrapper


@pytest.fixture
def watch(lib):
    from importlib import import_module
    mode = import_module(f"{lib.__name__}.utils._python_dispatch").TorchDispatchMode

    class Watch(mode):
        def __init__(self):
            super().__init__()
            self.log = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.log.append(str(function))
            return function(*args, **(kwargs or {}))
    return Watch


def test_writes_to_views_of_wrappers_reach_the_base(lib):
    x = wrapper_class(lib)(lib.arange(4.))
    x.requires_grad_()
    y = x * 2
    row = y.view(2, 2)[0]
    row.mul_(3)
    assert y._version == row._version == 1 and row._base is y
    (y * y).sum().backward()
    assert x.grad.inner.tolist() == [0, 72, 16, 24]


def test_parts_of_split_wrappers_must_not_be_written(lib):
    x = wrapper_class(lib)(lib.arange(4.))
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="multiple views"):
        (x * 1).split(2)[0].mul_(2)


def test_wrappers_that_want_gradients_give_their_number(lib):
    log = []
    x = wrapper_class(lib, log)(lib.ones(2))
    x.requires_grad_()
    assert x[0].item() == 1 and bool(x[1])
    assert "aten._local_scalar_dense.default" in log


def test_threads_that_meet_in_a_wrapper_lose_no_sum(lib):
    kind = wrapper_class(lib)
    x = kind(lib.ones(2))
    x.requires_grad_()
    (x * 2).sum().backward()

    def work():
        for _ in range(40):
            (x * 2).sum().backward()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    finally:
        sys.setswitchinterval(before)
    assert x.grad.inner.tolist() == [322, 322]


def test_gradients_are_added_in_place_under_a_mode(lib, watch):
    x = lib.ones(3, requires_grad=True)
    x.sum().backward()
    grad = x.grad
    with watch() as seen:
        x.sum().backward()
    assert x.grad is grad and grad.tolist() == [2, 2, 2]
    assert seen.log[-2:] == ["aten.expand.default", "aten.add_.Tensor"]


def test_products_of_a_backward_pass_show_to_modes(lib, watch):
    layer = lib.nn.Linear(4, 3)
    x = lib.ones(2, 4, requires_grad=True)
    y = layer(x).sum()
    with watch() as seen:
        y.backward()
    assert seen.log.count("aten.mm.default") == 2


@pytest.mark.parametrize("form", ["function", "module", "in place"])
def test_dropout_asks_vmap_for_its_numbers(lib, form):
    f = {"function": lambda x: lib.nn.functional.dropout(x, 0.5), "module": lib.nn.Dropout(0.5),
         "in place": lambda x: lib.nn.functional.dropout(x.clone(), 0.5, True, True)}[form]
    x = lib.ones(2, 64)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        lib.func.vmap(f)(x)
    same = lib.func.vmap(f, randomness="same")(x)
    assert same[0].equal(same[1]) and set(same.flatten().tolist()) == {0, 2}
    different = lib.func.vmap(f, randomness="different")(x)
    assert not different[0].equal(different[1])


def test_writes_under_nested_transforms(lib):
    vmap, grad, jacfwd, hessian = (getattr(lib.func, n) for n in "vmap grad jacfwd hessian".split())

    def f(x):
        a = x.clone()
        a.mul_(x)
        a.pow_(2)
        a.mul_(x.sin())
        return a.sum()

    def plain(x):
        return ((x * x) ** 2 * x.sin()).sum()
    x = lib.linspace(0.1, 1, 6, dtype=lib.float64).view(2, 3)
    for transform in (grad, jacfwd, hessian, lambda f: jacfwd(grad(f))):
        assert lib.allclose(vmap(transform(f))(x), vmap(transform(plain))(x))


def test_a_leaf_that_was_packed_comes_back_as_a_leaf(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda x: x * 2, lambda x: x * 3)
    saved = y.grad_fn._saved_self
    assert saved.is_leaf and saved.requires_grad and saved.grad_fn is None and saved.tolist() == [6, 6]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"):
        y.grad_fn._raw_saved_self.register_hooks(lambda x: x, lambda x: x)


def test_older_names_of_functorch(lib):
    if lib.__name__ == "torch":
        import functorch
    else:
        from tede.func import _functorch as functorch
    model = lib.nn.Linear(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f, parameters = functorch.make_functional(model)
        x = lib.ones(4, 3)
        assert f(parameters, x).equal(model(x))
        assert [g.shape for g in functorch.grad(lambda p: f(p, x).sum())(parameters)] == [(2, 3), (2,)]
        many, parameters, buffers = functorch.combine_state_for_ensemble([lib.nn.Linear(3, 2) for _ in range(5)])
        assert functorch.vmap(many, in_dims=(0, 0, None))(parameters, buffers, x).shape == (5, 4, 2)
    with pytest.warns(FutureWarning, match="Please use `torch.func.grad`"):
        functorch.grad(lib.sin)


def product_class(lib):
    class Product(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            return tx * y + x * ty
    return Product


def test_functions_have_tangents_under_transforms(lib):
    func, product = lib.func, product_class(lib).apply
    x, y = lib.tensor([1., 2, 3]), lib.tensor([4., 5, 6])
    assert func.jvp(product, (x, y), (y, x))[1].tolist() == [17, 29, 45]
    assert func.jacfwd(product)(x, y).equal(lib.diag(y))
    assert func.hessian(lambda x: product(product(x, x), x).sum())(x).equal(lib.diag(6 * x))
    assert func.vmap(lambda x, y: func.jvp(product, (x, y), (y, x))[1])(x, y).tolist() == [17, 29, 45]
    assert func.grad(lambda x: func.jvp(lambda x: product(product(x, x), x), (x,), (y,))[1].sum())(x).equal(6 * x * y)


def test_a_function_without_jvp_says_so_under_transforms(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        lib.func.jvp(Square.apply, (lib.ones(2),), (lib.ones(2),))


def test_functions_that_write_under_transforms(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * 2
    same = []

    def f(x):
        a = x.clone()
        b = Twice.apply(a)
        same.append(a is b)
        return (a * b).sum()
    assert lib.func.grad(f)(lib.tensor([1., 2])).tolist() == [8, 16] and same == [True]
    assert lib.func.grad(lib.func.grad(f))(lib.tensor(1.)) == 8


def test_lazy_bits_show_through_levels(lib):
    seen = []

    def f(x):
        y = x.conj()
        seen.append((x.is_conj(), y.is_conj()))
        return y.abs()
    lib.func.grad(f)(lib.tensor(1 + 1j))
    assert seen == [(False, True)]


def test_jacfwd_of_writes_to_new_tensors(lib):
    def f(x):
        y = lib.zeros(2, 3)
        y[0].copy_(x * x)
        y[1].add_(x)
        return y
    x = lib.tensor([1., 2, 3])
    assert lib.func.jacfwd(f)(x).equal(lib.stack([lib.diag(2 * x), lib.eye(3)]))
