"""sort.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
SHAPES = [((), 0), ((1,), 0), ((7,), 0), ((40, 5), 1), ((40, 5), 0), ((3, 5, 70), 1), ((2, 0, 3), 2), ((3, 1500), 1), ((5000,), 0), ((4100, 2), 0)]


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_rows_of_any_length_and_distance(agrees, shape, dim):
    x = tede.randint(-20, 20, shape).float()
    for descending in (False, True):
        agrees(lambda x: tede.sort(x, dim=dim, descending=descending, stable=True), x)
    n = x.shape[dim] if shape else 1
    distinct = tede.randperm(max(x.numel(), 1))[:x.numel()].reshape(shape).float()
    for k in {0, 1, n // 3, n}:
        for largest in (False, True):
            agrees(lambda x: tede.topk(x, k, dim, largest) if x.ndim else x, distinct)
        if 0 < k and x.numel():
            agrees(lambda x: tede.kthvalue(x, k, dim), distinct)
    if x.numel():
        agrees(lambda x: (tede.median(x, dim), tede.nanmedian(x, dim, True), tede.median(x)), distinct)
        agrees(lambda x: tede.mode(x, dim)[0], x)


def test_gradients(agrees):
    x = tede.randperm(60).reshape(6, 10).float().requires_grad_()
    agrees(lambda x: (tede.sort(x, 1)[0], tede.topk(x, 3, 0)[0], tede.median(x, 1)[0], tede.kthvalue(x, 2)[0]), x, fallbacks=False)


@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16, tede.float64, tede.int8, tede.uint8, tede.int16, tede.int32, tede.int64, tede.bool,
                                   tede.uint32, tede.uint64])
def test_dtypes(agrees, dtype):
    x = tede.randint(-100 if dtype.is_signed else 0, 100, (6, 1100)).to(dtype)
    for descending in (False, True):
        agrees(lambda x: tede.sort(x, dim=1, descending=descending, stable=True), x)


def wide_range(dtype, shape):
    """Numbers of all of a dtype's range, with equal ones, and for floats NaN, infinities and both zeros."""
    if dtype.is_floating_point:
        x = (tede.randn(shape) * 100).to(dtype)
        for i, special in enumerate((math.nan, math.inf, -math.inf, 0.0, -0.0)):
            x[..., i::97] = special
        return x
    bytes_of = tede.randint(0, 256, (*shape, dtype.itemsize), dtype=tede.uint8)
    return bytes_of[..., 0] > 127 if dtype == tede.bool else bytes_of.view(dtype)[..., 0].contiguous()


@pytest.mark.parametrize("dtype", [tede.float32, tede.float16, tede.bfloat16, tede.float64, tede.int8, tede.uint8, tede.int16, tede.int32, tede.int64,
                                   tede.uint16, tede.uint32, tede.uint64, tede.bool], ids=str)
def test_long_rows_are_sorted_by_digits(agrees, dtype):
    x = wide_range(dtype, (2, 33001) if dtype == tede.float32 else (32768 + dtype.itemsize,))
    agrees(lambda x: (tede.sort(x, stable=True), tede.sort(x, descending=True, stable=True)), x)
    if dtype == tede.float32:
        agrees(lambda x: (tede.kthvalue(x, 20000), tede.median(x, 1)[0], tede.topk(x.nan_to_num(), 700)[0], tede.sort(x.t()[:, :1], dim=0, stable=True)), x)


def test_ends_of_ranges_and_nans(agrees):
    for dtype in (tede.int64, tede.int32, tede.int8):
        low, high = tede.iinfo(dtype).min, tede.iinfo(dtype).max
        agrees(lambda x: (tede.sort(x), tede.sort(x, descending=True)), tede.tensor([high, low, 0, -1, high, 1, low], dtype=dtype))
    agrees(lambda x: (tede.sort(x), tede.sort(x, descending=True)), tede.tensor([(1 << 64) - 1, 0, 1 << 63, 5], dtype=tede.uint64))
    for dtype in (tede.float32, tede.float64, tede.float16):
        x = tede.tensor([[1.0, math.nan, -math.inf, 0.0, -0.0, math.inf, math.nan, -2.0, 0.0]], dtype=dtype).repeat(2, 1)
        agrees(lambda x: (tede.sort(x, stable=True), tede.sort(x, descending=True, stable=True), tede.median(x, 1), tede.nanmedian(x, 1)), x)
        agrees(lambda x: (tede.median(x), tede.nanmedian(x), tede.sort(x.t(), dim=0, stable=True), tede.sort(x.flip(1), stable=True)), x)
    agrees(lambda x: tede.nanmedian(x, 1), tede.full((2, 3), math.nan))


def test_unique(agrees):
    for x in (tede.randint(-9, 9, (7, 40)), tede.randint(-3, 3, (3000,)).float(), tede.tensor([math.nan, 1.0, math.nan, -0.0, 0.0]),
              tede.randint(0, 2, (30,)).bool()):
        agrees(lambda x: tede.unique(x, return_inverse=True, return_counts=True), x)
        agrees(lambda x: tede.unique(x), x)
        agrees(lambda x: tede.unique_consecutive(x, return_inverse=True, return_counts=True), x)


def test_out_and_errors(agrees, device):
    x = tede.randperm(60).reshape(6, 10).float()
    agrees(lambda x: tede.sort(x, 1, out=(tede.empty(10, 6, device=x.device).t(), tede.empty(10, 6, device=x.device, dtype=tede.int64).t())), x)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        tede.topk(x.to(device), 11)


def test_places_in_sorted_rows(agrees):
    for dtype in (tede.float32, tede.int64, tede.float16, tede.int32):
        rows, x = tede.sort(tede.randint(-20, 20, (3, 50)).to(dtype))[0], tede.randint(-25, 25, (3, 7)).to(dtype)
        for right in (False, True):
            agrees(lambda r, x: tede.searchsorted(r, x, right=right, out_int32=right), rows, x)
            agrees(lambda r, x: (tede.bucketize(x, r[0], right=right), tede.searchsorted(r[1], 3)), rows, x)
    shuffled = tede.randperm(40).float()
    agrees(lambda r, x, s: tede.searchsorted(r, x, sorter=s), shuffled, tede.rand(9) * 45, tede.argsort(shuffled))
    agrees(lambda r, x: tede.bucketize(x, r), tede.tensor([1, 4, 9]), tede.tensor([0.5, 4.0, math.nan, 10.0]))
    agrees(lambda r, x: tede.bucketize(x, r), tede.tensor([1.0, 2.0, math.nan]), tede.tensor([0.5, 2.0, math.nan, math.inf]))
    agrees(lambda r, x: tede.bucketize(x, r), tede.empty(0), tede.rand(3))


def test_membership(agrees):
    for dtype in (tede.float32, tede.int64, tede.uint8):
        x, known = tede.randint(0, 50, (6, 9)).to(dtype), tede.randint(0, 50, (20,)).to(dtype)
        for invert in (False, True):
            agrees(lambda x, k: tede.isin(x, k, invert=invert), x, known)
        agrees(lambda x, k: (tede.isin(x, 3), tede.isin(3, k), tede.isin(x, k[:0])), x, known)
    agrees(lambda x, k: tede.isin(x, k), tede.tensor([math.nan, 1.0, -0.0]), tede.tensor([math.nan, 0.0, 2.0]))
