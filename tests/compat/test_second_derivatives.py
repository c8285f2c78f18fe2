"""Second derivatives in every nesting of forward and reverse mode are the same numbers."""
import pytest

LAYERS = {
    "rnn": lambda lib, x, net: net(x)[0], "gru": lambda lib, x, net: net(x)[0], "lstm": lambda lib, x, net: net(x)[0],
    "places": lambda lib, x, _: lib.nn.functional.grid_sample(
        lib.arange(32, dtype=x.dtype).reshape(1, 2, 4, 4).sin(), x[None, :, :, :2].tanh(), mode="bicubic", align_corners=False),
    "image": lambda lib, x, _: lib.nn.functional.grid_sample(
        x[None], lib.linspace(-1, 1, 8, dtype=x.dtype).reshape(1, 2, 2, 2), align_corners=True),
    "maxima": lambda lib, x, _: lib.nn.functional.embedding_bag(
        lib.tensor([0, 1, 2, 2]), x[:, 0], lib.tensor([0, 2, 2]), mode="max"),
    "weights": lambda lib, x, _: lib.nn.functional.embedding_bag(
        lib.tensor([0, 1, 2, 2]), x[:, 0], lib.tensor([0, 2]), mode="sum", per_sample_weights=x[0].reshape(-1)[:4]),
    "kernels": lambda lib, x, _: lib.nn.functional.conv1d(lib.arange(12, dtype=x.dtype).reshape(1, 2, 6).cos(), x),
    "softmax": lambda lib, x, _: x.log_softmax(2) * x.softmax(0),
    "power": lambda lib, x, _: (x ** 3).prod(1).logsumexp(0) + 2 ** x.var(),
}


@pytest.fixture(params=LAYERS)
def case(request, lib):
    lib.manual_seed(0)
    x = lib.randn(3, 2, 3, dtype=lib.float64)

    name = request.param.upper()
    net = getattr(lib.nn, name)(3, 4, bidirectional=name == "GRU", dtype=x.dtype) if hasattr(lib.nn, name) else None

    def function(x):
        return LAYERS[request.param](lib, x, net).sin().sum()
    return function, x


def test_hessians_agree(lib, case):
    function, x = case
    if lib.__name__ == "torch":
        pytest.skip("PyTorch lacks some of them")
    want = lib.autograd.functional.hessian(function, x)
    forward, reverse, grad = lib.func.jacfwd, lib.func.jacrev, lib.func.grad
    for found in forward(grad(function)), reverse(grad(function)), forward(forward(function)), reverse(forward(function)), \
            forward(reverse(function)):
        assert lib.allclose(found(x), want, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["tanh", "exp", "sqrt", "sigmoid", "reciprocal", "rsqrt", "cumprod", "softmax", "logsumexp"])
@pytest.mark.parametrize("inplace", [False, True])
def test_what_a_node_saved_of_its_result_has_its_tangent(lib, name, inplace):
    forward_ad = lib.autograd.forward_ad
    if inplace and not hasattr(lib.Tensor, name + "_"):
        pytest.skip("not in place")
    x = lib.tensor([0.3, 0.7, 1.1], dtype=lib.float64, requires_grad=True)

    def function(x):
        y = x * 1
        return getattr(y, name + ("_" if inplace else ""))(*([0] if name in ("cumprod", "softmax", "logsumexp") else [])).sin().sum()
    want = lib.autograd.functional.hessian(function, x.detach()).sum(1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, lib.ones_like(x.detach()))
        found, = lib.autograd.grad(function(dual), x)
        assert lib.allclose(forward_ad.unpack_dual(found).tangent, want)


def test_an_argument_at_zero_has_no_slope(lib):
    z = lib.zeros(2, dtype=lib.complex128, requires_grad=True)
    gradient, = lib.autograd.grad(z.angle().sum(), z)
    assert not gradient.any()


@pytest.mark.parametrize("p", [0., 1., 2., 3., float("inf")])
def test_distances_have_every_derivative(lib, p):
    lib.manual_seed(0)
    a, b = lib.randn(2, 1, 2, dtype=lib.float64, requires_grad=True), lib.randn(3, 2, dtype=lib.float64, requires_grad=True)
    assert lib.cdist(a, b, p).shape == (2, 1, 3)
    assert lib.autograd.gradcheck(lambda a, b: lib.cdist(a, b, p), (a, b))
    if lib.__name__ != "torch":         # has no forward mode here, and no second derivative of most
        assert lib.autograd.gradcheck(lambda a, b: lib.cdist(a, b, p), (a, b), check_forward_ad=True)
        assert lib.autograd.gradgradcheck(lambda a, b: lib.cdist(a, b, p), (a, b))
    assert lib.cdist(lib.ones(2, 0), lib.ones(3, 0), p).tolist() == [[0] * 3] * 2
