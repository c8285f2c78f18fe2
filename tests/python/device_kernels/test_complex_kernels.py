"""Complex numbers on devices: formulas, folds, products, and what is moved or left to be conjugated, beside the CPU's."""
import pytest

tede = pytest.importorskip("tede")

BOTH = [tede.complex64, tede.complex128]
near = {"rtol": 2e-5, "atol": 2e-5}


def complex_numbers(*shape, dtype=tede.complex64, grad=False):
    return tede.randn(shape, dtype=dtype).requires_grad_(grad)


UNARY = {
    name: getattr(tede, name) for name in
    ("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid sinc reciprocal square "
     "neg sgn abs angle conj_physical real imag isnan isinf isfinite").split()}
BINARY = {
    "add": tede.add, "sub": tede.sub, "mul": tede.mul, "div": tede.div, "pow": tede.pow, "eq": tede.eq, "ne": tede.ne, "real": lambda x, y: x * y.real,
    "minus": lambda x, y: y.real - x, "over": lambda x, y: x / y.real.exp(), "conj": lambda x, y: x * y.conj(), "lerp": lambda x, y: tede.lerp(x, y, 0.25),
    "addcmul": lambda x, y: tede.addcmul(x, y, x, value=2 - 1j), "where": lambda x, y: tede.where(x.real > 0, x, y), "logical_and": tede.logical_and,
    "rsub": lambda x, y: 2j - x, "number": lambda x, y: (x + 1) * (2 - 3j) / 4,
}


@pytest.mark.parametrize("name, dtype", [*((name, tede.complex64) for name in UNARY), *((name, tede.complex128) for name in ("exp", "log", "sqrt", "asin"))])
def test_functions_of_one_number(agrees, name, dtype):
    logical = name.startswith("is")
    agrees(UNARY[name], complex_numbers(5, 33, dtype=dtype, grad=not logical), **near)
    agrees(UNARY[name], complex_numbers(7, 6, dtype=dtype).t(), **near)


@pytest.mark.parametrize("name, dtype", [*((name, tede.complex64) for name in BINARY), *((name, tede.complex128) for name in ("mul", "div", "pow"))])
def test_functions_of_two_numbers(agrees, name, dtype):
    grad = name not in ("eq", "ne", "logical_and")
    agrees(BINARY[name], complex_numbers(5, 1, dtype=dtype, grad=grad), complex_numbers(5, 33, dtype=dtype, grad=grad), **near)


def test_special_values_are_those_of_the_cpu(agrees):
    inf, nan = float("inf"), float("nan")
    values = [complex(a, b) for a in (0.0, -0.0, 1.0, -2.0, inf, -inf, nan) for b in (0.0, -0.0, 1.5, -2.0)]
    x = tede.tensor(values)
    for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"):
        agrees(UNARY[name], x)
    agrees(lambda x: tede.view_as_real(tede.sqrt(x)).signbit(), x[:16])             # on which side of the cut
    agrees(lambda x: tede.view_as_real(tede.log(x)).signbit(), x[:16])


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("shape, dim", [((), None), ((33,), 0), ((7, 300), 1), ((7, 300), 0), ((3, 5, 70), (0, 2)), ((2, 0, 3), 1), ((40000,), None)])
def test_folds(agrees, shape, dim, dtype):
    x = complex_numbers(*shape, dtype=dtype, grad=True)
    rough = {"rtol": 1e-4, "atol": 2e-3}
    for call in (tede.sum, tede.mean):
        agrees(lambda x: call(x, dim), x, **rough)
    agrees(lambda x: tede.linalg.vector_norm(x, 2, dim), x, **rough)
    agrees(lambda x: (tede.any(x, dim), tede.all(x, dim)), x.detach())
    agrees(lambda x: tede.count_nonzero(x, dim), x.detach() * (x.detach().real > 0))
    if dim is None or isinstance(dim, int):
        y = (x.detach() / x.detach().abs()).requires_grad_()
        agrees(lambda x: tede.prod(x) if dim is None else tede.prod(x, dim), y, **rough)
    if x.numel() > 40:
        agrees(lambda x: tede.var(x, dim), x, **rough)
        agrees(lambda x: (*tede.std_mean(x, dim),), x, **rough)
        agrees(lambda x: tede.logsumexp(x, () if dim is None else dim), x, **rough)


@pytest.mark.parametrize("dtype", BOTH)
def test_running_folds(agrees, dtype):
    for shape, dim in (((70,), 0), ((5, 33), 1), ((5, 33), 0), ((3, 3000), 1)):
        x = complex_numbers(*shape, dtype=dtype, grad=True)
        agrees(lambda x: tede.cumsum(x, dim), x, rtol=1e-4, atol=1e-3)
        agrees(lambda x: tede.cumprod(x / x.abs(), dim), x, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("m, k, n", [(3, 5, 4), (70, 33, 65), (1, 300, 40), (40, 300, 1), (5, 0, 3), (64, 2000, 64)])
def test_products(agrees, m, k, n, dtype):
    rough = {"rtol": 1e-4, "atol": 1e-3}
    a, b, c = complex_numbers(m, k, dtype=dtype, grad=True), complex_numbers(k, n, dtype=dtype, grad=True), complex_numbers(m, n, dtype=dtype, grad=True)
    agrees(tede.matmul, a, b, **rough)
    agrees(lambda a, b: a @ b.mT.conj().mT, a, b, **rough)
    agrees(lambda c, a, b: tede.addmm(c, a, b), c, a, b, **rough)
    agrees(lambda c, a, b: tede.addmm(c, a, b, alpha=2 - 1j, beta=0.5j), c, a, b, **rough)
    agrees(lambda a, b: tede.matmul(a.expand(3, m, k), b), a, b, **rough)
    agrees(lambda a, b: tede.vdot(a[0], b[:, 0]), a, b, **rough)


@pytest.mark.parametrize("dtype", BOTH)
def test_what_is_left_to_be_conjugated_is_copied_there(agrees, dtype):
    z, w = complex_numbers(6, 5, dtype=dtype), complex_numbers(6, 5, dtype=dtype)
    agrees(lambda z: z.conj().resolve_conj(), z)
    agrees(lambda z: z.conj().imag.resolve_neg(), z)
    agrees(lambda z: z.conj().t().contiguous(), z)
    agrees(lambda z, w: z.clone().conj().copy_(w).resolve_conj(), z, w)
    agrees(lambda z, w: tede.cat([z.conj(), w]), z, w)
    agrees(lambda z: z.conj().to(tede.complex64 if dtype == tede.complex128 else tede.complex128), z)


@pytest.mark.parametrize("dtype", BOTH)
def test_elements_are_moved_and_added_there(agrees, dtype):
    z, w, i = complex_numbers(6, 5, dtype=dtype, grad=True), complex_numbers(4, 5, dtype=dtype, grad=True), tede.tensor([0, 5, 0, 3])
    agrees(lambda z, i: z[i], z, i)
    agrees(lambda z, i: tede.gather(z, 0, i.unsqueeze(1).expand(4, 5)), z, i)
    agrees(lambda z, w, i: z.index_add(0, i, w), z, w, i)
    agrees(lambda z, w, i: z.scatter_add(0, i.unsqueeze(1).expand(4, 5), w), z, w, i)
    agrees(lambda z: tede.full_like(z, 3 - 1j), z.detach())
    agrees(lambda z: z.masked_fill(z.real > 0, 2j), z)
    agrees(lambda z: tede.complex(z.real, z.imag), z)
    agrees(lambda z: tede.polar(z.abs(), z.angle()), z, rtol=1e-5, atol=1e-5)
    for to in (tede.float32, tede.bool, tede.int32, tede.complex64, tede.complex128):
        agrees(lambda z: z.to(to), z.detach())
    for of in (tede.float32, tede.bool, tede.int32, tede.float16):
        agrees(lambda x: x.to(dtype), (3 * tede.randn(33)).to(of))


def test_halves_of_complex_numbers_are_stored_there(device):
    z = complex_numbers(6, 5)
    halves = z.to(tede.complex32)
    there = z.to(device).to(tede.complex32)
    assert there.device.type == device and there.dtype == tede.complex32
    for a, b in ((there, halves), (halves.to(device).t().contiguous(), halves.t().contiguous()), (halves.to(device).to(tede.complex64), halves)):
        tede.testing.assert_close(b.to(tede.complex64), a.cpu().to(tede.complex64))
