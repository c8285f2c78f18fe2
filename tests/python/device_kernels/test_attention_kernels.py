"""attention.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
attend = tede.nn.functional.scaled_dot_product_attention


def some(*sizes, dtype=tede.float32):
    return tede.randn(sizes).to(dtype).requires_grad_()


def operands(batch, heads, queries, keys, width, value_width=None, kv_heads=None, dtype=tede.float32):
    kv_heads = kv_heads or heads
    return (some(batch, heads, queries, width, dtype=dtype), some(batch, kv_heads, keys, width, dtype=dtype),
            some(batch, kv_heads, keys, value_width or width, dtype=dtype))


CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("sizes", [(2, 3, 5, 7, 8), (1, 2, 33, 70, 16), (1, 1, 100, 100, 40), (2, 2, 1, 65, 64), (1, 2, 4, 3, 6, 10)])
@pytest.mark.parametrize("causal", [False, True])
def test_sizes(agrees, sizes, causal):
    agrees(lambda q, k, v: attend(q, k, v, is_causal=causal), *operands(*sizes), **CLOSE)


@pytest.mark.parametrize("mask", [(40, 50), (2, 1, 40, 50), (2, 3, 1, 50), (1, 1, 40, 1), (50,)])
def test_masks(agrees, mask):
    q, k, v = operands(2, 3, 40, 50, 16)
    agrees(lambda q, k, v, m: attend(q, k, v, m), q, k, v, tede.rand(mask) < 0.6, **CLOSE)
    agrees(lambda q, k, v, m: attend(q, k, v, m), q, k, v, tede.randn(mask), **CLOSE)


def test_queries_that_see_nothing(agrees):
    mask = tede.ones(40, 50, dtype=tede.bool)
    mask[3], mask[:, 7] = False, False
    agrees(lambda q, k, v, m: attend(q, k, v, m), *operands(1, 2, 40, 50, 8), mask, **CLOSE)
    numbers = tede.zeros(40, 50)
    numbers[:, 20:] = -math.inf
    agrees(lambda q, k, v, m: attend(q, k, v, m), *operands(1, 2, 40, 50, 8), numbers, **CLOSE)


def test_heads_that_share_keys(agrees):
    q, k, v = operands(2, 6, 35, 40, 16, kv_heads=2)
    agrees(lambda q, k, v: attend(q, k, v, enable_gqa=True), q, k, v, **CLOSE)
    agrees(lambda q, k, v: attend(q, k, v, enable_gqa=True, is_causal=True, scale=0.3), q, k, v, **CLOSE)


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes(agrees, dtype):
    close = {"rtol": 3e-2, "atol": 3e-2} if dtype != tede.float64 else {}
    agrees(lambda q, k, v: attend(q, k, v, is_causal=True), *operands(1, 2, 40, 40, 64 if dtype == tede.float64 else 32, dtype=dtype), **close)


def test_strides(agrees):
    x = some(2, 40, 3, 3, 8)
    agrees(lambda x: attend(*(x[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True), x.detach(), **CLOSE)
    agrees(lambda x: attend(x[..., ::2], x[..., 1::2], x), some(2, 3, 20, 8).detach(), **CLOSE)


@pytest.mark.parametrize("widths", [(100, 4), (128, 128)])
def test_wide_heads(agrees, widths):
    agrees(lambda q, k, v: attend(q, k, v, is_causal=True), *operands(1, 2, 35, 40, *widths), **CLOSE)


def test_the_widest_heads_are_left_to_the_cpu(agrees):
    agrees(attend, *operands(1, 1, 3, 2, 257, 4), fallbacks=True, **CLOSE)


def test_nothing(agrees):
    for sizes in ((0, 2, 3, 4, 8), (2, 2, 0, 4, 8), (2, 2, 3, 0, 8)):
        agrees(attend, *operands(*sizes))


HALF = {"rtol": 2e-2, "atol": 2e-2}


@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16])
@pytest.mark.parametrize("sizes", [(1, 2, 70, 140, 64), (2, 1, 130, 67, 24), (1, 1, 65, 65, 128), (1, 1, 40, 90, 64, 80), (1, 1, 3, 1, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_halves(agrees, dtype, sizes, causal):
    agrees(lambda q, k, v: attend(q, k, v, is_causal=causal), *operands(*sizes, dtype=dtype), **HALF)


def test_halves_with_masks_and_shared_keys(agrees):
    q, k, v = operands(2, 4, 40, 70, 16, kv_heads=2, dtype=tede.bfloat16)
    mask = tede.rand(2, 1, 40, 70) < 0.6
    mask[:, :, 5] = False
    for m in (mask, tede.randn(4, 1, 70).bfloat16()):
        agrees(lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), q, k, v, m, **HALF)
    agrees(lambda q, k, v: attend(q, k, v, enable_gqa=True, is_causal=True, scale=0.3), q, k, v, **HALF)


def test_halves_that_lie_elsewhere(agrees):
    """Parts of one tensor, as transformers make them; rows that don't start at multiples of 16 bytes."""
    x = some(2, 40, 3, 3, 16, dtype=tede.bfloat16)
    agrees(lambda x: attend(*(x[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True), x, **HALF)
    y = some(1, 2, 70, 20, dtype=tede.float16)
    agrees(lambda y: attend(y[..., 1:17], y[..., 2:18], y[..., 4:]), y, **HALF)
    agrees(lambda y: attend(y[..., :18], y[..., :18], y[..., :18]), y, **HALF)
