"""autograd.functional, gradcheck and gradgradcheck."""
import importlib

import pytest


@pytest.fixture
def functional(lib):
    return importlib.import_module(lib.__name__ + ".autograd.functional")


def data(lib, *shape):
    return lib.rand(*shape, dtype=lib.float64)


def test_jacobian(lib, functional):
    x = data(lib, 3)
    j = functional.jacobian(lambda x: x ** 2, x)
    assert lib.allclose(j, lib.diag(2 * x)) and not j.requires_grad
    a, b = data(lib, 2), data(lib, 3)
    (ja, jb), (ka, kb) = functional.jacobian(lambda a, b: (a.sum() * b, a * 2), (a, b))
    assert [t.shape for t in (ja, jb, ka, kb)] == [(3, 2), (3, 3), (2, 2), (2, 3)]
    assert lib.allclose(jb, a.sum() * lib.eye(3, dtype=lib.float64)) and not kb.any()
    assert functional.jacobian(lambda x: x.sum(), x).shape == (3,)
    assert functional.jacobian(lambda x: x.view(3, 1) * x, x).shape == (3, 3, 3)
    x.requires_grad_()
    assert functional.jacobian(lambda x: x ** 2, x, create_graph=True).requires_grad


def test_jacobian_strict(lib, functional):
    x, y = data(lib, 2), data(lib, 2)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(lambda x, y: x * 2, (x, y), strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        functional.jacobian(lambda x: lib.ones(2), x, strict=True)
    with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
        functional.jacobian(lambda x: x, [x])


def test_hessian(lib, functional):
    x = data(lib, 3)
    h = functional.hessian(lambda x: (x ** 3).sum(), x)
    assert lib.allclose(h, lib.diag(6 * x))
    a, b = data(lib, 2), data(lib, 2)
    (haa, hab), (hba, hbb) = functional.hessian(lambda a, b: (a * b).sum(), (a, b))
    eye = lib.eye(2, dtype=lib.float64)
    assert not haa.any() and lib.allclose(hab, eye) and lib.allclose(hba, eye)
    with pytest.raises(RuntimeError, match="should contain a single element"):
        functional.hessian(lambda x: x, x)


def test_products(lib, functional):
    x, v = data(lib, 3), data(lib, 3)

    def f(x):
        return x.exp() * x.sum()
    j = functional.jacobian(f, x)
    out, p = functional.vjp(f, x, v)
    assert lib.allclose(p, v @ j) and lib.allclose(out, f(x)) and not out.requires_grad
    _, p = functional.jvp(f, x, v)
    assert lib.allclose(p, j @ v)

    def g(x):
        return (x.exp() * x).sum()
    h = functional.hessian(g, x)
    assert lib.allclose(functional.vhp(g, x, v)[1], v @ h) and lib.allclose(functional.hvp(g, x, v)[1], h @ v)
    two = functional.jvp(lambda a, b: a * b, (x, v), (v, x))[1]
    assert lib.allclose(two, v * v + x * x)


def test_products_are_checked(lib, functional):
    x = data(lib, 3)
    with pytest.raises(RuntimeError, match="The vector v can only be None if"):
        functional.vjp(lambda x: x, x)
    with pytest.raises(RuntimeError, match="v has invalid size"):
        functional.vjp(lambda x: x, x, data(lib, 2))
    assert functional.vjp(lambda x: x.sum(), x)[1].tolist() == [1.0, 1.0, 1.0]


# ---- gradcheck -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
def test_a_right_gradient(lib, fast):
    x, w = (data(lib, 3, 2).requires_grad_() for _ in range(2))
    assert lib.autograd.gradcheck(lambda x, w: (x * w.exp(), x.sum()), (x, w), fast_mode=fast)
    assert lib.autograd.gradgradcheck(lambda x, w: x * w.exp(), (x, w), fast_mode=fast)
    z = lib.randn(3, dtype=lib.complex128, requires_grad=True)
    assert lib.autograd.gradcheck(lambda z: z * z.conj() + z ** 2, (z,), fast_mode=fast)
    assert lib.autograd.gradcheck(lambda z: z.abs(), (z,), fast_mode=fast)
    assert lib.autograd.gradcheck(lambda x: x.t()[1:] * 2, (x,), fast_mode=fast)
    transposed = data(lib, 3, 2).t().requires_grad_()
    assert lib.autograd.gradcheck(lambda x: x ** 2, (transposed,), fast_mode=fast)


def wrong(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3
    return Wrong.apply


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
def test_a_wrong_gradient(lib, fast):
    x = data(lib, 2).requires_grad_()
    error = importlib.import_module(lib.__name__ + ".autograd.gradcheck").GradcheckError
    with pytest.raises(error, match="Jacobian mismatch for output 0 with respect to input 0"):
        lib.autograd.gradcheck(wrong(lib), (x,), fast_mode=fast)
    assert not lib.autograd.gradcheck(wrong(lib), (x,), raise_exception=False, fast_mode=fast)


def test_what_gradcheck_asks_for(lib):
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        lib.autograd.gradcheck(lambda x: x, (data(lib, 2),))
    with pytest.warns(UserWarning, match="is not a double precision floating point or complex"):
        lib.autograd.gradcheck(lambda x: x * 1, (lib.ones(2, requires_grad=True),), atol=1e-1, raise_exception=False)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        lib.autograd.gradcheck(lambda x: x * 1, (lib.ones(1, dtype=lib.float64).expand(3).requires_grad_(),))


def test_gradcheck_finds_what_is_not_linear(lib):
    class Ignores(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return lib.ones_like(g)
    x = lib.rand(1, dtype=lib.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        lib.autograd.gradcheck(Ignores.apply, (x,))


def test_gradcheck_finds_undefined_gradients(lib):
    class Needs(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError("no gradient")
            return g * 2
    x = data(lib, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"):
        lib.autograd.gradcheck(Needs.apply, (x,))
    assert lib.autograd.gradcheck(Needs.apply, (x,), check_undefined_grad=False)


def test_gradcheck_finds_randomness(lib):
    class Noisy(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + lib.rand_like(g) * 1e-7 * g
    x = data(lib, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="Backward is not reentrant"):
        lib.autograd.gradcheck(Noisy.apply, (x,))
    assert lib.autograd.gradcheck(Noisy.apply, (x,), nondet_tol=1e-5)
