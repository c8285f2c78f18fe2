"""frexp.ck beside the CPU's frexp: all kinds of numbers, to the bit."""
import math

import pytest

tede = pytest.importorskip("tede")


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.float16, tede.bfloat16])
def test_mantissas_and_exponents(agrees, device, dtype):
    info = tede.finfo(dtype)
    small = info.smallest_normal
    x = tede.tensor([0.0, -0.0, 1.0, -3.7, 0.5, small, small / 2, -small / 8, small * (1 - info.eps), info.max, math.inf, -math.inf, math.nan], dtype=dtype)
    agrees(tede.frexp, x, rtol=0, atol=0)
    assert tede.equal(tede.frexp(x.to(device))[0].cpu().signbit(), tede.frexp(x)[0].signbit())
    agrees(lambda x: tede.frexp(x)[0], tede.randn(5, 7, dtype=dtype).t().requires_grad_(), rtol=0, atol=0)
    agrees(lambda x: tede.frexp(x[:, ::2]), tede.randn(5, 7, dtype=dtype))
    agrees(lambda x: tede.frexp(x, out=(tede.empty(7, 5, dtype=dtype, device=x.device).t(), tede.empty(7, 5, dtype=tede.int32, device=x.device).t())),
           tede.randn(5, 7, dtype=dtype))
