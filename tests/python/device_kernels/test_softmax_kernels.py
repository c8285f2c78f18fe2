"""softmax.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")

SHAPES = [((), 0), ((1,), 0), ((5,), 0), ((7, 300), -1), ((7, 300), 0), ((3, 5, 700), 1), ((2, 0, 3), 1), ((0, 4), 1), ((40, 3), 1), ((2, 6000), 1)]


@pytest.mark.parametrize("function", [tede.softmax, tede.log_softmax])
@pytest.mark.parametrize("shape, dim", SHAPES)
def test_lines_of_any_length_and_distance(agrees, function, shape, dim):
    agrees(lambda x: function(x, dim), tede.randn(shape, requires_grad=True))


@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16, tede.float64])
@pytest.mark.parametrize("function", [tede.softmax, tede.log_softmax])
def test_dtypes(agrees, function, dtype):
    x = tede.randn(6, 100).to(dtype).requires_grad_()
    close = {"rtol": 1e-2, "atol": 1e-3} if dtype != tede.float64 else {}
    agrees(lambda x: function(x, 1), x, **close)
    agrees(lambda x: function(x, 1, dtype=tede.float32), x, **close)


@pytest.mark.parametrize("function", [tede.softmax, tede.log_softmax])
def test_infinities_and_strides(agrees, function):
    x = tede.randn(300, 9)
    x[3] = -math.inf
    x[4, ::2] = -math.inf
    x[5, 7] = math.inf
    x[6, 1] = math.nan
    for view in (x, x.t(), x[::2], x[:, ::3], x.expand(2, 300, 9), x.flip(1)):
        agrees(lambda x: function(x, -1), view)
        agrees(lambda x: function(x, 0), view)


def test_out_and_forms(agrees):
    x = tede.randn(4, 50)
    agrees(lambda x: tede.softmax(x, 1, out=tede.empty(50, 4, device=x.device).t()), x)
    agrees(lambda x: tede.nn.functional.softmin(x, 1), x)
    with pytest.raises(IndexError, match="Dimension out of range"):
        tede.softmax(x, 3)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.float64])
@pytest.mark.parametrize("n", [8, 10, 64, 1023, 1024, 8192, 9000])
def test_rows_in_packs(agrees, dtype, n):
    """Rows that are kept and longer ones, that begin at multiples of 16 bytes or don't."""
    # The gradient of log_softmax takes exp() of an output near -9 times the sum of n slopes from one of them: what rounding left in both stays.
    close = {tede.bfloat16: {"rtol": 2e-2, "atol": 2e-2}, tede.float32: {"atol": 1e-5}}.get(dtype, {})
    x = tede.randn(3 * n + 1).to(dtype)
    x[n // 2], x[2 * n] = -math.inf, math.nan
    for view in (x[:-1], x[1:]):
        agrees(lambda x: (tede.softmax(x, 1), tede.log_softmax(x, 1)), view.view(3, n).detach().requires_grad_(), **close)
