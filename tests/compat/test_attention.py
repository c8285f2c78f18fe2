"""Attention's kernels beside the products that they stand for, and the layers around them."""
import importlib
import warnings

import pytest


def by_products(lib, q, k, v, mask):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    return lib.softmax(scores if mask is None else scores + mask, -1) @ v


@pytest.mark.parametrize("queries, keys", [(5, 9), (13, 97), (49, 96), (100, 193), (145, 30)])
@pytest.mark.parametrize("kind", ["plain", "causal", "boolean", "numbers", "keys alone"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_those_of_products(lib, queries, keys, kind, dtype):
    """Blocks of queries and tiles of keys end everywhere; keys that no query sees have gradients of zero."""
    lib.manual_seed(queries)
    dtype = getattr(lib, dtype)
    operands = [lib.randn(2, heads, length, width, dtype=lib.float64).to(dtype).requires_grad_()
                for heads, length, width in ((4, queries, 20), (2, keys, 20), (2, keys, 35))]
    grad = lib.randn(2, 4, queries, 35, dtype=lib.float64).to(dtype)
    seen = {"causal": lib.ones(queries, keys, dtype=lib.bool).tril(), "boolean": lib.randn(2, 1, queries, keys) > -0.5,
            "keys alone": lib.randn(2, 1, 1, keys) > 0}.get(kind)
    if kind in ("boolean", "keys alone"):
        seen[..., 0] = True
    mask = lib.randn(queries, keys, dtype=dtype) if kind == "numbers" else None
    added = mask if seen is None else lib.zeros(seen.shape, dtype=dtype).masked_fill(~seen, -float("inf"))
    found = lib.nn.functional.scaled_dot_product_attention(
        *operands, attn_mask=seen if kind in ("boolean", "keys alone") else mask, is_causal=kind == "causal", enable_gqa=True)
    expected = by_products(lib, *operands, added)
    pairs = zip((found, *lib.autograd.grad(found, operands, grad)),
                (expected, *lib.autograd.grad(expected, operands, grad)))
    for one, two in pairs:
        assert lib.allclose(one, two, atol=1e-4 if dtype == lib.float32 else 1e-11)


def test_rows_that_see_nothing_are_zero(lib):
    q = lib.randn(1, 2, 50, 16)
    seen = lib.ones(50, 50, dtype=lib.bool)
    seen[7] = False
    y = lib.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=seen)
    assert (y[:, :, 7] == 0).all() and (y[:, :, 8] != 0).any()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("other", ["self", "memory"])
def test_layers_agree_in_whichever_order_batches_come(lib, weights, other):
    lib.manual_seed(2)
    one, two = (lib.nn.MultiheadAttention(24, 4, batch_first=first) for first in (True, False))
    two.load_state_dict(one.state_dict())
    x = lib.randn(3, 30, 24)
    memory = x if other == "self" else lib.randn(3, 17, 24)
    turned = x.transpose(0, 1).contiguous()
    turned_memory = turned if other == "self" else memory.transpose(0, 1).contiguous()
    pad = lib.arange(memory.shape[1]).expand(3, -1) > lib.tensor([[9], [16], [12]])
    y, p = one(x, memory, memory, need_weights=weights, key_padding_mask=pad)
    z, r = two(turned, turned_memory, turned_memory, need_weights=weights, key_padding_mask=pad)
    assert z.is_contiguous() and lib.allclose(y, z.transpose(0, 1), atol=1e-6)
    assert (p is None and r is None) if not weights else lib.allclose(p, r, atol=1e-6)
    (y * y).sum().backward(), (z * z).sum().backward()
    for left, right in zip(one.parameters(), two.parameters()):
        assert lib.allclose(left.grad, right.grad, atol=1e-4)


@pytest.mark.parametrize("order", [(2, 0, 3, 1), (0, 1, 2, 3), (3, 2, 1, 0)])
@pytest.mark.parametrize("dim", [0, 2, -1])
def test_parts_of_a_permuted_tensor_give_their_gradients_back(lib, order, dim):
    x = lib.randn(2, 3, 4, 5, requires_grad=True)
    parts = x.permute(order).unbind(dim)
    factors = [lib.randn(part.shape) for part in parts]
    sum((part * factor).sum() for part, factor in zip(parts, factors)).backward()
    assert (x.grad.permute(order) == lib.stack(factors, dim)).all()


@pytest.mark.parametrize("size, kernel, options", [
    ((9, 56), (3, 3), {"padding": 1}), ((6, 130), (5, 5), {"padding": 2}), ((30, 25), (7, 3), {"padding": 1}),
    ((7, 40), (3, 3), {"padding": 2, "dilation": (1, 2)}), ((61, 61), (3, 3), {"stride": 2}), ((3, 24), (3, 1), {})])
def test_depthwise_convolution_is_a_sum_per_channel(lib, size, kernel, options):
    x, w, b = (lib.randn(s, dtype=lib.float64, requires_grad=True) for s in ((2, 3, *size), (3, 1, *kernel), (3,)))
    conv = lib.nn.functional.conv2d
    y = conv(x, w, b, groups=3, **options)
    z = lib.cat([conv(x[:, i:i + 1], w[i:i + 1], b[i:i + 1], **options) for i in range(3)], 1)
    assert lib.allclose(y, z) and lib.allclose(conv(x.float(), w.float(), b.float(), groups=3, **options).double(), z, atol=1e-5)
    for one, two in zip(lib.autograd.grad((y * y).sum(), (x, w)), lib.autograd.grad((z * z).sum(), (x, w))):
        assert lib.allclose(one, two)


@pytest.mark.parametrize("queries, keys", [(3, 5), (4, 4), (5, 3)])
def test_masks_that_are_only_described(lib, queries, keys):
    bias = importlib.import_module(lib.__name__ + ".nn.attention.bias")
    lib.manual_seed(0)
    q, k, v = lib.randn(2, 4, queries, 8), lib.randn(2, 4, keys, 8), lib.randn(2, 4, keys, 8)
    attention = lib.nn.functional.scaled_dot_product_attention
    for make, offset in ((bias.causal_upper_left, 0), (bias.causal_lower_right, keys - queries)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            mask = make(queries, keys)
        assert bool(seen) == (queries > keys and offset != 0)
        written = lib.ones(queries, keys, dtype=lib.bool).tril(offset)
        assert repr(mask) == repr(written)
        assert lib.allclose(attention(q, k, v, mask, scale=0.3), attention(q, k, v, written, scale=0.3), equal_nan=True)
        with pytest.raises(ValueError, match="should not be used with causal=True"):
            attention(q, k, v, mask, is_causal=True)
    with pytest.raises(AssertionError, match="causal_upper_left only supports 2D tensors"):
        bias.causal_upper_left(3)
