"""Convolutions by product.ck and conv.ck, and by the vendor's library where the device has one, beside the CPU's kernels."""
import os

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
CLOSE = {"rtol": 1e-4, "atol": 1e-3}


@pytest.fixture(autouse=True, params=["library", "kernels"] if os.environ.get("TEDE_TEST_DEVICE") == "cuda" else ["kernels"])
def by(request, device):
    """Who convolves, and does so in each test: the library, where there is one, or the kernels alone."""
    library = request.param == "library"
    if library and not tede.backends.cudnn.is_available():
        pytest.skip("there is no cuDNN")
    before = tede._C._library_calls()
    with tede.backends.cudnn.flags(enabled=library, allow_tf32=False):
        yield request.param
    empty = 0 in request.node.callspec.params.get("x", ())
    assert not library or tede._C._library_calls() > before or empty or request.function is test_columns


def some(*sizes, dtype=tede.float32, grad=True):
    return tede.randn(sizes).to(dtype).requires_grad_(grad)


CASES = [  # x, weight, options
    ((2, 3, 9, 11), (5, 3, 3, 3), {}),
    ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    ((2, 3, 9, 11), (5, 3, 3, 2), {"padding": (2, 1), "stride": (2, 3), "dilation": (1, 2)}),
    ((2, 4, 9, 9), (6, 2, 3, 3), {"groups": 2, "stride": 2, "padding": 1}),
    ((2, 6, 9, 9), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    ((2, 6, 9, 9), (12, 1, 3, 3), {"groups": 6, "stride": 3, "dilation": 2}),
    ((2, 40, 6, 6), (40, 20, 3, 3), {"groups": 2, "padding": 1}),
    ((3, 8, 5, 5), (70, 8, 1, 1), {}),
    ((3, 8, 5, 5), (4, 8, 1, 1), {"stride": 2}),
    ((2, 3, 12, 12), (7, 3, 4, 4), {"stride": 4}),
    ((2, 3, 7, 7), (4, 3, 2, 2), {"stride": 4, "padding": 1}),
    ((1, 2, 10, 10), (3, 2, 3, 3), {"stride": 4, "dilation": 2, "padding": 2}),
    ((2, 3, 30), (4, 3, 5), {"padding": 2}),
    ((2, 3, 30), (4, 3, 5), {"stride": 3, "dilation": 2}),
    ((2, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"padding": 1, "stride": (1, 2, 2)}),
    ((0, 3, 5, 5), (4, 3, 3, 3), {}),
    ((2, 3, 70, 70), (80, 3, 3, 3), {"padding": 1}),
]


@pytest.mark.parametrize("x, weight, options", CASES)
def test_shapes(agrees, x, weight, options):
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x)]
    agrees(lambda x, w, b: convolve(x, w, b, **options), some(*x), some(*weight), some(weight[0]), **CLOSE)
    agrees(lambda x, w: convolve(x, w, **options), some(*x), some(*weight), **CLOSE)


TRANSPOSED = [
    ((2, 5, 5, 6), (5, 3, 3, 3), {}),
    ((2, 5, 5, 6), (5, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 5, 6), (4, 3, 3, 2), {"stride": (3, 2), "groups": 2, "dilation": (2, 1)}),
    ((2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    ((2, 5, 6), (5, 3, 4), {"stride": 4}),
    ((2, 5, 6), (5, 3, 1), {"stride": 3}),
    ((1, 2, 3, 4, 3), (2, 3, 2, 2, 2), {"stride": 2}),
    ((2, 5, 5, 6), (5, 3, 1, 1), {}),
]


@pytest.mark.parametrize("x, weight, options", TRANSPOSED)
def test_transposed(agrees, x, weight, options):
    convolve = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[len(x)]
    channels = weight[1] * options.get("groups", 1)
    agrees(lambda x, w, b: convolve(x, w, b, **options), some(*x), some(*weight), some(channels), **CLOSE)


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes(agrees, dtype):
    close = {"rtol": 2e-2, "atol": 5e-2} if dtype != tede.float64 else {}
    x, w, b = some(2, 4, 8, 8, dtype=dtype), some(6, 4, 3, 3, dtype=dtype), some(6, dtype=dtype)
    agrees(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, w, b, **close)
    agrees(lambda x, w: F.conv2d(x, w, padding=1, groups=4), x, some(4, 1, 3, 3, dtype=dtype), **close)
    integers = tede.randint(0, 9, (2, 3, 8)), tede.randint(0, 9, (4, 3, 3))
    agrees(F.conv1d, *integers)


def test_layouts_in_memory(agrees):
    x, w, b = some(2, 8, 9, 9, grad=False), some(6, 8, 3, 3, grad=False), some(12, grad=False)[::2]
    last = tede.channels_last
    agrees(lambda x, w, b: F.conv2d(x, w, b, padding=1), x.contiguous(memory_format=last), w.contiguous(memory_format=last), b, **CLOSE)
    agrees(lambda x, w, b: F.conv2d(x.transpose(2, 3)[:, :, ::2], w.transpose(2, 3), b), x, w, b, **CLOSE)
    agrees(lambda x, w: F.conv2d(x, w[:, :, :1, :1]), x.contiguous(memory_format=last), w, **CLOSE)
    agrees(lambda x, w: F.conv2d(x[:, :4].expand(2, 4, 9, 9), w[:, :4]), x, w, **CLOSE)


def test_gradients_lie_as_the_operands(device):
    """Channels are innermost in all results if they are in the input or the weight: then nothing is copied between layers."""
    last = tede.channels_last
    x, w = some(2, 8, 9, 9, grad=False), some(6, 8, 3, 3, grad=False)
    for of_x, of_w in ((last, last), (last, None), (None, last), (None, None)):
        for where in "cpu", device:
            a, b = (t.to(where).contiguous(memory_format=f or tede.contiguous_format).requires_grad_() for t, f in ((x, of_x), (w, of_w)))
            for call, channels in ((F.conv2d, 8), (F.conv_transpose2d, 6)):
                y = call(a[:, :channels].contiguous(memory_format=of_x or tede.contiguous_format), b)
                wanted = last if of_x or of_w else tede.contiguous_format
                gradients = tede.autograd.grad(y, (a, b), tede.ones_like(y))
                assert y.is_contiguous(memory_format=wanted) and gradients[1].is_contiguous(memory_format=wanted)
                assert channels == 6 or gradients[0].is_contiguous(memory_format=wanted)
                alone = tede.autograd.grad(call(a[:, :channels], b), (b,), tede.ones_like(y))[0]
                tede.testing.assert_close(alone, gradients[1], **CLOSE)


def test_gradients_of_gradients(agrees):
    def slopes(x, w):
        y = F.conv2d(x, w, stride=2, padding=1)
        return tede.autograd.grad(y, (x, w), tede.ones_like(y), create_graph=True)
    agrees(slopes, some(2, 3, 7, 7), some(4, 3, 3, 3), **CLOSE)


def test_columns(agrees):
    x = some(2, 3, 9, 10)
    for options in ({"kernel_size": 3}, {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 2), "dilation": (2, 1)}):
        agrees(lambda x: F.unfold(x, **options), x)
        columns = F.unfold(x, **options).detach().requires_grad_()
        agrees(lambda c: F.fold(c, (9, 10), **options), columns, rtol=1e-4)
    agrees(lambda x: F.unfold(x, 2), some(3, 9, 10))


def test_gradients_of_weights_are_sums_in_parts(device):
    """4,096 products for each element: one sum after the other had an error of 8e-7."""
    tede.manual_seed(0)
    x, w, grad = tede.randn(64, 16, 8, 8).relu(), tede.randn(16, 16, 3, 3) / 12, tede.randn(64, 16, 8, 8)

    def slope(device, dtype):
        weight = w.to(device).to(dtype).requires_grad_()
        y = tede.nn.functional.conv2d(x.to(device).to(dtype), weight, padding=1)
        return tede.autograd.grad(y, weight, grad.to(device).to(dtype))[0].cpu().double()

    exact = slope("cpu", tede.float64)
    assert ((slope(device, tede.float32) - exact).norm() / exact.norm()).item() < 4e-7
