"""pool.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional


def some(*sizes, dtype=tede.float32, grad=True):
    return tede.randn(sizes).to(dtype).requires_grad_(grad)


OPTIONS = [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "stride": 1}, {"kernel_size": 3, "stride": 2, "ceil_mode": True}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_windows(agrees, options, dims):
    x = some(2, 3, *(9, 10, 7)[:dims])
    for kind in ("max", "avg"):
        pool = getattr(F, f"{kind}_pool{dims}d")
        agrees(lambda x: pool(x, **options), x)
        agrees(lambda x: pool(x, **options), some(3, *(9, 10, 7)[:dims]))
    agrees(lambda x: getattr(F, f"max_pool{dims}d")(x, return_indices=True, dilation=2, **options), x)


def test_averages(agrees):
    x = some(2, 3, 9, 10)
    agrees(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), x)
    agrees(lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), x)
    agrees(lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), x)
    agrees(lambda x: F.avg_pool2d(x, 2), tede.randint(-50, 50, (2, 3, 8, 8)))


@pytest.mark.parametrize("size", [1, 3, (5, 4), (9, 10), (13, 3)])
def test_adaptive(agrees, size):
    x = some(2, 3, 9, 10)
    agrees(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True), x)
    agrees(lambda x: tede.ops.aten.adaptive_avg_windows(x, size if isinstance(size, tuple) else (size, size)), x)
    agrees(lambda x: F.adaptive_max_pool1d(x, 4), some(3, 9))
    agrees(lambda x: F.adaptive_max_pool3d(x, 2), some(2, 3, 4, 5, 6))


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes(agrees, dtype):
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype != tede.float64 else {}
    x = some(2, 3, 9, 10, dtype=dtype)
    agrees(lambda x: F.max_pool2d(x, 3, 1), x, **close)
    agrees(lambda x: F.avg_pool2d(x, 3, 1), x, **close)
    agrees(lambda x: tede.max_pool2d(x, 2), tede.randint(-9, 9, (2, 3, 8, 8)).to(tede.int32))


def test_special_values_and_strides(agrees):
    x = some(2, 3, 8, 8, grad=False)
    x[0, 0, 2, 2], x[0, 1], x[1, 1, 3, 3] = math.nan, -math.inf, math.inf
    for view in (x, x.transpose(2, 3), x.contiguous(memory_format=tede.channels_last), x[:, :, ::2], x[:0]):
        agrees(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), view)
        agrees(lambda x: F.avg_pool2d(x, 2), view)


def test_unpooling(agrees):
    def there_and_back(x):
        y, at = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, at, 2)
    agrees(there_and_back, some(2, 3, 8, 8))
    at = tede.tensor([[[[3, 3], [0, 3]]]])
    agrees(lambda x, at: F.max_unpool2d(x, at, 2), some(1, 1, 2, 2, grad=False), at)
    agrees(lambda x, at: tede.ops.aten.max_unpool3d(x, at, (2, 4, 4), (1, 1, 1), (0, 0, 0)), some(1, 1, 1, 2, 2), at[:, None])


def test_a_position_outside_of_its_plane_is_raised_later(device):
    x, at = tede.ones(1, 1, 2, 2, device=device), tede.tensor([[[[3, 16], [0, 5]]]], device=device)
    y = F.max_unpool2d(x, at, 2)
    with pytest.raises(RuntimeError, match="Found an invalid max index: 16 "):
        y.sum().item()
    assert y.flatten().nonzero().flatten().tolist() == [0, 3, 5]
    grad = tede.ops.aten.max_pool2d_with_indices_backward(x, tede.ones(1, 1, 4, 4, device=device), [2, 2], [2, 2], [0, 0], [1, 1], False, at)
    with pytest.raises(RuntimeError, match="invalid maxIdx 16, image of 16 elements"):
        grad.cpu()
    assert grad.flatten().nonzero().flatten().tolist() == [0, 3, 5]


def test_overlapping_windows_add_up(agrees):
    agrees(lambda x: F.max_pool2d(x, 5, 1, 2), tede.zeros(2, 2, 40, 40).requires_grad_())
    x = some(1, 1, 30, 30)
    agrees(lambda x: F.max_pool2d(x, 7, 1, 3), x, rtol=1e-4, atol=1e-5)


def test_random_windows(agrees):
    for dims, sizes in ((2, (7, 9)), (3, (7, 9, 8))):
        u = tede.rand(2, 3, dims)
        pool = getattr(tede.ops.aten, f"fractional_max_pool{dims}d")
        agrees(lambda x, u: pool(x, [2] * dims, [4] * dims, u), some(2, 3, *sizes), u)
        agrees(lambda x, u: pool(x, [2] * dims, [1] * dims, u), some(2, 3, *sizes), u)


def test_gradients_of_gradients(agrees):
    def slope(x, kind):
        y = getattr(F, f"{kind}_pool2d")(x * x, 3, 2)
        return tede.autograd.grad(y, x, tede.ones_like(y), create_graph=True)[0]
    agrees(lambda x: slope(x, "max"), some(2, 3, 7, 7))
    agrees(lambda x: slope(x, "avg"), some(2, 3, 7, 7))
