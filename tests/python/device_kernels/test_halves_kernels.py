"""Kernels of halves compute in float32 and round once: beside the same operator on the same numbers as float32."""
import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional

POINTWISE = [tede.exp, F.gelu, lambda x: x * 1.37, lambda x: tede.lerp(x, x.flip(0), 0.3), lambda x: tede.where(x > 0, x, 0.1)]
REDUCTIONS = [tede.sum, lambda x: x.mean(1), lambda x: x.std(0), lambda x: x.amax(1), lambda x: x.logsumexp(1), lambda x: x[:, :6].prod(1)]
LINES = [lambda x: x.softmax(1), lambda x: F.layer_norm(x, (x.shape[1],)), lambda x: F.group_norm(x, 4), lambda x: F.avg_pool1d(x, 3),
         lambda x: F.cross_entropy(x, tede.arange(len(x), device=x.device))]
PRODUCTS = [lambda x: x @ x.t(), lambda x: F.linear(x, x, x[:, 0]),
            lambda x: F.conv2d(x.view(2, 4, -1, 96), x.view(16, 4, -1)[:, :, :9].reshape(16, 4, 3, 3), padding=1)]
ATTENTION = [lambda x: F.scaled_dot_product_attention(*x.view(3, 2, 2, -1, 32).unbind(), is_causal=True)]


def check(device, call, dtype, roundings=1, gradient=True):
    """Within so many roundings of the largest number that has any part in a result, which is its own for one."""
    x = tede.randn(64, 96).to(device, dtype)
    half, single = x.clone().requires_grad_(gradient), x.float().requires_grad_(gradient)
    got, expected = call(half), call(single)
    assert got.dtype == dtype and expected.dtype == tede.float32
    near = tede.finfo(dtype).eps / 2 * roundings * 1.01
    tede.testing.assert_close(got.detach().float().cpu(), expected.detach().cpu(), rtol=near, atol=2e-5 if roundings == 1 else near)
    if gradient:
        slope = tede.randn_like(got)
        got, = tede.autograd.grad(got, half, slope)
        expected, = tede.autograd.grad(expected, single, slope.float())
        tede.testing.assert_close(got.float().cpu(), expected.cpu(), rtol=8 * near, atol=8 * near * expected.abs().max().item())


@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16], ids=str)
@pytest.mark.parametrize("calls, roundings", [(POINTWISE, 3), (REDUCTIONS, 1), (LINES, 1), (PRODUCTS, 1), (ATTENTION, 4)],
                         ids=["pointwise", "reductions", "lines", "products", "attention"])
def test_halves_are_within_rounding_of_float32(device, calls, roundings, dtype):
    for call in calls:
        check(device, call, dtype, roundings)
