"""scan.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
SHAPES = [((), 0), ((1,), 0), ((5,), 0), ((7, 300), -1), ((7, 300), 0), ((3, 5, 700), 1), ((2, 0, 3), 1), ((0, 4), 1), ((40, 3), 1), ((30000,), 0),
          ((9000, 3), 0), ((40, 4000), 0)]
close = {"rtol": 1e-4, "atol": 1e-3}


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_lines_of_any_length_and_distance(agrees, shape, dim):
    x = tede.randn(shape).requires_grad_()
    agrees(lambda x: tede.cumsum(x, dim), x, **close)
    agrees(lambda x: tede.logcumsumexp(x, dim).detach(), x, **close)
    agrees(lambda x: tede.cumprod(x, dim).detach(), 0.99 + 0.02 * tede.rand(shape), **close)
    for dtype in (tede.float32, tede.int32):
        y = tede.randint(-9, 9, shape).to(dtype)
        agrees(lambda x: (tede.cummax(x, dim), tede.cummin(x, dim), tede.cumsum(x, dim)), y, **close)
    agrees(lambda x: tede.ops.aten.cumsum_reverse(x, dim), x.detach(), **close)


@pytest.mark.parametrize("shape, dim", [((6, 5), 1), ((20, 3000), 1), ((300, 7), 0)])
def test_products_with_zeros_have_gradients(agrees, shape, dim):
    x = 0.99 + 0.02 * tede.rand(shape)
    agrees(lambda x: tede.cumprod(x, dim), x.clone().requires_grad_(), fallbacks=False, rtol=1e-3, atol=1e-3)


def test_recurrences(agrees):
    for shape, dim in [((3, 5000), 1), ((700, 4), 0), ((2, 3), 1), ((20000,), 0)]:
        for reverse in (False, True):
            agrees(lambda a, c: tede.ops.aten.linear_scan(a, c, dim, reverse), tede.randn(shape), tede.rand(shape), **close)


def test_special_values_and_strides(agrees):
    x = tede.randint(-3, 3, (40, 50)).float()
    x[3, 7] = math.nan
    x[4, 8], x[4, 20] = math.inf, -math.inf
    x[5, :9] = -math.inf
    for view in (x, x.t(), x[::2, ::3], x.flip(1), x.expand(2, 40, 50)):
        for dim in (-1, 0):
            agrees(lambda x: (tede.cumsum(x, dim), tede.cummax(x, dim), tede.cummin(x, dim), tede.logcumsumexp(x, dim)), view, **close)


def test_dtypes(agrees):
    x = tede.randn(20, 90)
    for dtype in (tede.float16, tede.bfloat16, tede.float64):
        agrees(lambda x: (tede.cumsum(x, 1), tede.cummax(x, 0), tede.logcumsumexp(x, 1)), x.to(dtype), rtol=2e-2, atol=2e-2)
        agrees(lambda x: tede.cumsum(x, 1, dtype=tede.float32), x.to(dtype), **close)
    for dtype in (tede.bool, tede.int8, tede.uint8, tede.int64):
        y = (x * 3).to(dtype)
        agrees(lambda x: (tede.cumsum(x, 1), tede.cumprod(x, 1), tede.cumsum(x, 1, dtype=tede.int8), tede.cummax(x, 1)), y)
        agrees(lambda x: tede.cumsum(x, 1, dtype=tede.float16), y, rtol=1e-2, atol=1e-2)
    agrees(lambda x: tede.cumsum(x, 1, dtype=tede.int32), x * 4)
    agrees(lambda x: tede.cumsum(x, 1, out=tede.empty(90, 20, device=x.device).t()), x, **close)
    agrees(lambda x: x.clone().cumsum_(0), x, **close)
