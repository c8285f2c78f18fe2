"""resample.ck beside the CPU's kernels: padding with elements of the tensor itself, and interpolation."""
import math

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
PADDING = "reflect", "replicate", "circular"
INTERPOLATION = {1: ("nearest", "nearest-exact", "linear"), 2: ("nearest", "nearest-exact", "bilinear", "bicubic"), 3: ("nearest", "nearest-exact", "trilinear")}
COARSE = {"rtol": 1e-2, "atol": 1e-2}


def some(*sizes, dtype=tede.float32, grad=True):
    return tede.randn(sizes, dtype=dtype if dtype.is_complex else None).to(dtype).requires_grad_(grad)


def views(x):
    last = x.contiguous(memory_format=tede.channels_last) if x.ndim == 4 else x.mT.contiguous().mT
    return x, x.mT, x.flip(-1), x[..., ::2], x[:1].expand(2, *x.shape[1:]), last


@pytest.mark.parametrize("mode", PADDING)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pads(agrees, mode, dims):
    sizes = (5, 4, 6)[:dims]
    for pad in ((1, 2, 3, 1, 2, 2), (3, 0, 0, 3, 1, 4), (-1, 2, 2, -2, 0, 0), (-2, -1, 1, -1, -1, 3), (0, 0, 0, 0, 0, 0)):
        agrees(lambda x: F.pad(x, pad[:2 * dims], mode), some(2, 3, *sizes))
        agrees(lambda x: F.pad(x, pad[:2 * dims], mode), some(3, *sizes))
    for view in views(some(2, 3, 6, *sizes[1:])):
        agrees(lambda x: F.pad(x, (1, 1) * dims, mode), view)


@pytest.mark.parametrize("pad", [(7, 9), (-2, 9), (9, -2), (-5, 9), (12, -6), (-7, 3)])
def test_edges_repeated_often(agrees, pad):
    agrees(lambda x: F.pad(x, pad, "replicate"), some(2, 7))
    agrees(lambda x: F.pad(x, pad, "replicate"), some(2, 1) if sum(pad) > -1 else some(2, 8))
    agrees(lambda x: tede.ops.aten.pad_edges(x, pad, 2), some(2, 8))


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16, tede.complex64, tede.complex128])
@pytest.mark.parametrize("mode", PADDING)
def test_dtypes_of_pads(agrees, mode, dtype):
    close = COARSE if dtype.itemsize == 2 else {}
    agrees(lambda x: F.pad(x, (2, 1, 1, 2), mode), some(2, 3, 4, dtype=dtype), **close)


@pytest.mark.parametrize("dtype", [tede.bool, tede.uint8, tede.int8, tede.int16, tede.int32, tede.int64])
def test_pads_of_integers(agrees, dtype):
    x = tede.randint(0, 100, (2, 3, 4)).to(dtype)
    agrees(lambda x: F.pad(x, (2, 1), "circular"), x > 50 if dtype == tede.bool else x)
    if dtype != tede.bool:
        agrees(lambda x: F.pad(x, (2, 1), "reflect"), x)


def test_pads_of_nothing(agrees):
    for mode in PADDING:
        agrees(lambda x: F.pad(x, (1, 1), mode), some(0, 3, 4))
        agrees(lambda x: F.pad(x, (1, 1, -2, -2), mode), some(2, 3, 4, 4))


def test_values_are_moved_as_they_are(device):
    x = tede.tensor([[-0.0, math.nan, math.inf, -math.inf]])
    for mode in PADDING:
        assert tede.equal(F.pad(x.to(device), (2, 2), mode).cpu().view(tede.int32), F.pad(x, (2, 2), mode).view(tede.int32))
    x = x[None]
    assert tede.equal(F.interpolate(x.to(device), 9).cpu().view(tede.int32), F.interpolate(x, 9).view(tede.int32))


def test_mistakes_of_pads(device):
    for x in (tede.ones(2, 3, 4), tede.ones(2, 3, 4, device=device)):
        with pytest.raises(RuntimeError, match="Padding size should be less than"):
            F.pad(x, (4, 1), "reflect")
        with pytest.raises(RuntimeError, match="wrapping around more than once"):
            F.pad(x, (5, 1), "circular")


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_interpolates(agrees, dims):
    x = some(2, 3, *(5, 4, 6)[:dims])
    for mode in INTERPOLATION[dims]:
        corners = [{}] if "nearest" in mode else [{}, {"align_corners": True}]
        for options in corners:
            for size in ((7, 9, 3), (2, 3, 13), (1, 1, 1), (5, 4, 6)):
                agrees(lambda x: F.interpolate(x, size[:dims], mode=mode, **options), x)
            agrees(lambda x: F.interpolate(x, scale_factor=2, mode=mode, **options), x)
            agrees(lambda x: F.interpolate(x, scale_factor=0.7, mode=mode, **options), x)
        agrees(lambda x: F.interpolate(x, scale_factor=1.9, mode=mode, recompute_scale_factor=True), x)
        for view in views(some(2, 3, *(6, 4, 6)[:dims])):
            agrees(lambda x: F.interpolate(x, (9, 3, 4)[:dims], mode=mode), view)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiasing(agrees, mode):
    for size in ((3, 2), (4, 19), (1, 9), (11, 9)):
        agrees(lambda x: F.interpolate(x, size, mode=mode, antialias=True), some(2, 3, 11, 9), atol=1e-5)
        agrees(lambda x: F.interpolate(x, size, mode=mode, antialias=True), some(2, 3, 11, 9, dtype=tede.float64))
    agrees(lambda x: tede.ops.aten._upsample_lanczos2d_aa(x, (4, 5), False), some(2, 3, 11, 9), atol=1e-5)


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes(agrees, dtype):
    close = COARSE if dtype.itemsize == 2 else {}
    for dims, modes in INTERPOLATION.items():
        for mode in modes:
            agrees(lambda x: F.interpolate(x, scale_factor=1.6, mode=mode), some(2, 3, *(5, 4, 6)[:dims], dtype=dtype), **close)


def test_bytes(agrees):
    for sizes in ((2, 3, 11, 9), (1, 7, 6, 5)):
        x = tede.randint(0, 256, sizes).to(tede.uint8)
        for mode in INTERPOLATION[2]:
            for size in ((4, 5), (20, 17), (11, 3)):
                agrees(lambda x: F.interpolate(x, size, mode=mode), x)
                if mode in ("bilinear", "bicubic"):
                    agrees(lambda x: F.interpolate(x, size, mode=mode, antialias=True), x)
                    agrees(lambda x: F.interpolate(x, size, mode=mode, align_corners=True), x)
    for view in views(tede.randint(0, 256, (2, 3, 6, 8)).to(tede.uint8)):
        agrees(lambda x: F.interpolate(x, (4, 5), mode="bilinear"), view)


def test_nearest_of_doubles_where_channels_are_innermost(agrees):
    x = tede.randn(1, 2, 3, 60, dtype=tede.float64)
    for of in (x, x.contiguous(memory_format=tede.channels_last)):
        for width in range(60, 200, 7):
            agrees(lambda x: F.interpolate(x, (3, width)), of.requires_grad_())


def test_interpolation_of_nothing(agrees):
    agrees(lambda x: F.interpolate(x, 3), some(0, 3, 4))
    agrees(lambda x: F.interpolate(x, (3, 3), mode="bilinear"), some(0, 3, 4, 4))


def test_mistakes_of_interpolation(device):
    for x in (tede.ones(2, 3, 4), tede.ones(2, 3, 4, device=device)):
        with pytest.raises(RuntimeError, match="should be greater than 0"):
            F.interpolate(x, 0)
        with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
            F.interpolate(x.to(tede.int32), 3)


def test_gradients_of_gradients(agrees):
    def slope(x, f):
        y = f(x * x)
        return tede.autograd.grad(y, x, tede.ones_like(y), create_graph=True)[0]
    agrees(lambda x: slope(x, lambda x: F.interpolate(x, 7, mode="linear")), some(2, 3, 4))
    agrees(lambda x: slope(x, lambda x: F.pad(x, (1, 2), "reflect")), some(2, 3, 4))
