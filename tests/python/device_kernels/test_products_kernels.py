"""product.ck beside the CPU's products."""
import pytest

tede = pytest.importorskip("tede")

FLOATS = [tede.float32, tede.float64, tede.float16, tede.bfloat16]
INTEGERS = [tede.uint8, tede.int8, tede.int16, tede.int32, tede.int64]


def some(*sizes, dtype=tede.float32, grad=False):
    if not dtype.is_floating_point:
        return tede.randint(0, 9, sizes).to(dtype)
    return tede.randn(sizes).to(dtype).requires_grad_(grad)


def close(dtype):
    return {"rtol": 2e-2, "atol": 2e-2} if dtype in (tede.float16, tede.bfloat16) else {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (3, 5, 4), (65, 70, 33), (64, 64, 16), (7, 300, 20), (1, 40, 300), (40, 1, 300), (5, 5, 3000),
                                     (1, 1, 5000), (1, 700, 3), (700, 1, 3), (0, 4, 3), (4, 0, 3), (4, 3, 0), (300, 280, 50)])
def test_sizes(agrees, m, n, k):
    agrees(tede.mm, some(m, k, grad=True), some(k, n, grad=True), **close(tede.float32))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_dtypes(agrees, dtype):
    grad = dtype.is_floating_point
    a, b, x = some(20, 30, dtype=dtype, grad=grad), some(30, 9, dtype=dtype, grad=grad), some(30, dtype=dtype, grad=grad)
    agrees(tede.mm, a, b, **close(dtype))
    agrees(tede.mv, a, x, **close(dtype))
    agrees(tede.dot, x, some(30, dtype=dtype, grad=grad), **close(dtype))
    agrees(tede.addmm, some(9, dtype=dtype), a, b, **close(dtype))
    agrees(lambda c, a, b: tede.addmm(c, a, b, beta=3, alpha=-2), some(20, 1, dtype=dtype), a, b, **close(dtype))
    agrees(lambda c, a, x: tede.addmv(c, a, x, beta=2, alpha=3), some(20, dtype=dtype), a, x, **close(dtype))
    agrees(tede.mm, some(2, 3000, dtype=dtype), some(3000, 3, dtype=dtype), **({} if not grad else {"rtol": 2e-2, "atol": 0.5}))
    agrees(tede.mv, some(2, 3000, dtype=dtype), some(3000, dtype=dtype), **({} if not grad else {"rtol": 2e-2, "atol": 0.5}))


@pytest.mark.parametrize("turned", range(4))
def test_strides(agrees, turned):
    a, b, x = some(33, 70), some(70, 40), some(140)[::2]
    a = some(70, 33).t() if turned & 1 else a
    b = some(40, 70).t() if turned & 2 else b
    agrees(tede.mm, a, b, **close(a.dtype))
    agrees(tede.mm, a[::2, ::3], b[::3, 1:7], **close(a.dtype))
    agrees(tede.mm, a.flip(0), b.flip(1), **close(a.dtype))
    agrees(tede.mv, a, x, **close(a.dtype))
    agrees(tede.mv, b.t(), x, **close(a.dtype))
    agrees(tede.mm, a, x[:1].expand(70, 5), **close(a.dtype))


SHAPES = [((3, 4, 5), (3, 5, 6)), ((3, 4, 5), (5, 6)), ((4, 5), (3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((2, 3, 4, 5), (5,)), ((5,), (2, 3, 5, 6)),
          ((5,), (5,)), ((4, 5), (5,)), ((5,), (5, 6)), ((2, 3, 1, 5), (2, 3, 5, 1)), ((0, 4, 5), (5, 6)), ((2, 0, 5), (5, 6)), ((3, 4, 0), (3, 0, 6)),
          ((2, 1, 2, 1, 4, 5), (1, 3, 1, 2, 5, 2)), ((1, 2, 1, 2, 1, 2, 1, 2, 3, 2), (2, 1, 2, 1, 2, 1, 2, 1, 2, 3))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_matmul_broadcasts_batches(agrees, a, b):
    agrees(tede.matmul, some(*a), some(*b), **close(tede.float32))


def test_matmul_of_views(agrees):
    x = some(2, 5, 3, 8)
    agrees(lambda x: x.transpose(1, 2) @ x.transpose(1, 2).transpose(2, 3), x, **close(x.dtype))
    agrees(lambda x: x.transpose(1, 2) @ x[0, 0].t(), x, **close(x.dtype))
    agrees(lambda x: x[:, ::2] @ x[0, 0].t(), x, **close(x.dtype))
    agrees(lambda x: x[:, :, :1].expand(2, 5, 7, 8) @ x[:1].transpose(2, 3), x, **close(x.dtype))


def test_batches_with_addends(agrees):
    a, b = some(6, 4, 5, grad=True), some(6, 5, 3, grad=True)
    for added in (some(6, 4, 3, grad=True), some(3), some(4, 1), some(6, 1, 1), some(1), some(6, 3, 4).transpose(1, 2)):
        agrees(tede.baddbmm, added, a, b, **close(a.dtype))
        agrees(lambda c, a, b: tede.baddbmm(c, a, b, beta=0.5, alpha=-2), added, a, b, **close(a.dtype))
    agrees(tede.bmm, a, b, **close(a.dtype))


def test_factors_of_zero(agrees):
    a, b = some(3, 4), some(4, 5)
    a[1, 1] = float("inf")
    c = tede.full((3, 5), float("nan"))
    agrees(lambda c, a, b: tede.addmm(c, a, b, beta=0), c, a, b)
    agrees(lambda c, a, b: tede.addmm(c, a, b, alpha=0), some(3, 5), a, b)
    agrees(lambda c, a, b: tede.addmm(c, a, b, beta=0, alpha=0), c, a, b)
    agrees(tede.addmm, some(3, 5), some(3, 0), some(0, 5))


def test_linear(agrees):
    for sizes in ((5,), (3, 5), (2, 3, 5), (0, 5), (2, 0, 5)):
        agrees(tede.nn.functional.linear, some(*sizes), some(7, 5), some(7), **close(tede.float32))
        agrees(tede.nn.functional.linear, some(*sizes), some(7, 5), **close(tede.float32))
    agrees(tede.nn.functional.linear, some(3, 4, 5).transpose(0, 1), some(5, 7).t(), some(14)[::2], **close(tede.float32))
    agrees(tede.nn.functional.linear, some(3, 5), some(5), some(1), **close(tede.float32))


def test_in_place_and_out(agrees):
    a, b = some(4, 5), some(5, 4)
    agrees(lambda a, b: tede.mm(a, b, out=tede.empty(4, 4, device=a.device).t()), a, b, **close(a.dtype))
    agrees(lambda c, a, b: c.clone().addmm_(a, b), some(4, 4), a, b, **close(a.dtype))
    agrees(lambda c: tede.mm(c, c, out=c.clone()), some(4, 4), **close(a.dtype))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tede.mm(a, a)


def test_what_is_made_of_products(agrees):
    agrees(lambda a, b: tede.einsum("bij,bkj->bik", a, b), some(2, 3, 4), some(2, 5, 4), **close(tede.float32))
    agrees(lambda a, b: tede.tensordot(a, b, 2), some(2, 3, 4), some(3, 4, 6), **close(tede.float32))
