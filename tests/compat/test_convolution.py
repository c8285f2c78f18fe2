"""Convolutions whose output has a single row read one padded row at all shifts: against windows of it times the kernels."""
import pytest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("channels, out, length, kernel, stride, padding, dilation", [
    (3, 5, 17, 3, 1, 1, 1), (16, 30, 321, 5, 1, 2, 2), (24, 16, 48, 7, 2, 5, 1), (64, 48, 1000, 3, 1, 1, 1), (2, 3, 1, 1, 1, 0, 1),
    (5, 2, 31, 5, 1, 5, 3)])
def test_rows_are_windows_times_kernels(lib, dtype, channels, out, length, kernel, stride, padding, dilation):
    lib.manual_seed(length)
    F, dtype = lib.nn.functional, getattr(lib, dtype)
    x, w, b = (lib.randn(*shape, dtype=dtype) for shape in ((2, channels, length), (out, channels, kernel), (out,)))
    got = F.conv1d(x, w, b, stride=stride, padding=padding, dilation=dilation)
    wide = F.pad(x.double(), (padding, padding))
    windows = wide.unfold(2, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    wanted = lib.einsum("nclk,ock->nol", windows, w.double()) + b.double()[:, None]
    assert got.shape == wanted.shape
    assert (got.double() - wanted).abs().max() <= (2e-5 if dtype == lib.float32 else 1e-12) * wanted.abs().max()
    flat = F.conv2d(x[:, :, None], w[:, :, None], b, stride=(1, stride), padding=(0, padding), dilation=(1, dilation))
    assert lib.equal(flat[:, :, 0], got)


@pytest.mark.parametrize("groups, channels, out, size, kernel, stride, padding, dilation", [
    (1, 3, 5, (17,), (3,), 1, 1, 1), (1, 16, 40, (14, 31), (3, 3), 1, 1, 1), (2, 33, 16, (7, 16), (5, 2), 2, 2, 1),
    (1, 7, 9, (12, 12), (1, 1), 1, 0, 1), (1, 8, 300, (33, 5), (1, 1), 1, 0, 1), (4, 1, 2, (16, 16), (3, 3), 1, 1, 2),
    (1, 4, 6, (5, 7, 6), (2, 3, 1), 1, 1, 1), (1, 64, 200, (20, 20), (3, 3), (17, 3), 1, 1)])
@pytest.mark.parametrize("biased", [False, True])
def test_bfloat16_is_rounded_once(lib, groups, channels, out, size, kernel, stride, padding, dilation, biased):
    lib.manual_seed(out)
    convolve = getattr(lib.nn.functional, f"conv{len(size)}d")
    x, w, b = (lib.randn(*shape).to(lib.bfloat16) for shape in (
        (2, groups * channels, *size), (groups * out, channels, *kernel), (groups * out,)))
    call = lambda dtype: convolve(x.to(dtype), w.to(dtype), b.to(dtype) if biased else None, stride, padding, dilation, groups)
    got, wanted = call(lib.bfloat16), call(lib.float64)
    assert got.dtype is lib.bfloat16 and got.shape == wanted.shape
    assert ((got.double() - wanted).abs() <= 2.0 ** -8 * wanted.abs() + 1e-3).all()
