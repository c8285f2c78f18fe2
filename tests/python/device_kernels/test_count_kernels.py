"""count.ck, slices.ck and triangle_indices of create.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
FLOATS = tede.float32, tede.float64, tede.float16, tede.bfloat16
INTEGERS = tede.uint8, tede.int8, tede.int16, tede.int32, tede.int64


@pytest.mark.parametrize("dtype", FLOATS)
def test_bins(agrees, dtype):
    x = (10 * tede.rand(7, 300)).to(dtype)
    agrees(lambda x: tede.histc(x, 10), x)
    agrees(lambda x: tede.histc(x, 7, 2, 5), x)
    agrees(lambda x: tede.histc(x.mT, 3, -4, 20), x[:, ::2])


def test_bins_without_numbers(agrees):
    agrees(tede.histc, tede.ones(0))
    agrees(tede.histc, tede.tensor(3.0))
    agrees(lambda x: tede.histc(x, 5, 0, 2), tede.tensor([math.nan, 1, math.inf, -math.inf, 0, 2]))
    agrees(lambda x: tede.histc(x, 100), tede.ones(50).flip(0).expand(3, 50))
    agrees(lambda x: tede.histc(x, 100000), tede.rand(3000))


def test_mistakes_of_bins(device):
    for on in ("cpu", device):
        with pytest.raises(RuntimeError, match="is not finite"):
            tede.histc(tede.tensor([1, math.nan], device=on))
        with pytest.raises(RuntimeError, match="max must be larger than min"):
            tede.histc(tede.ones(3, device=on), 3, 2, 1)
        with pytest.raises(RuntimeError, match="1-d non-negative"):
            tede.bincount(tede.tensor([1, -1], device=on))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_counts(agrees, dtype):
    x = tede.randint(0, 100, (5000,)).to(dtype)
    agrees(tede.bincount, x)
    agrees(lambda x: tede.bincount(x, minlength=200), x[::3])
    agrees(lambda x: tede.bincount(x, minlength=2), x[:0])
    agrees(lambda x: tede.bincount(x, minlength=2), x.flip(0))
    agrees(lambda x: tede.bincount(x), tede.full((5000,), 3).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_weights(agrees, dtype):
    x, weights = tede.randint(0, 10, (500,)), (10 * tede.rand(500)).to(dtype)
    agrees(tede.bincount, x, weights, rtol=1e-4)
    agrees(lambda x, w: tede.bincount(x, w, 20), x[::3], weights[::3], rtol=1e-4)
    agrees(tede.bincount, x[:0], weights[:0])


@pytest.mark.parametrize("dtype", [tede.int32, tede.int64])
@pytest.mark.parametrize("rows, cols", [(4, 4), (3, 7), (7, 3), (1, 1), (0, 3), (3, 0)])
def test_triangles(agrees, device, rows, cols, dtype):
    for offset in range(-8, 9):
        for indices in tede.tril_indices, tede.triu_indices:
            before = tede._C._cpu_fallback_count()
            there = indices(rows, cols, offset, dtype=dtype, device=device)
            assert there.device.type == device and tede._C._cpu_fallback_count() == before
            assert tede.equal(there.cpu(), indices(rows, cols, offset, dtype=dtype))


def test_triangles_of_huge_matrices(device):
    for indices, offset in ((tede.tril_indices, 3 - 2**40), (tede.triu_indices, 2**40 - 3)):
        assert tede.equal(indices(2**40, 2**40, offset, device=device).cpu(), indices(2**40, 2**40, offset))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_powers(device, dtype):
    for start, end, steps, base in ((0, 4, 5, 2.0), (0, 2, 3, 10.0), (1, 2, 4, 3.0), (2, 0, 1, 10.0), (0, 1, 0, 10.0), (0, 6, 7, 2.0)):
        before = tede._C._cpu_fallback_count()
        there = tede.logspace(start, end, steps, base, dtype=dtype, device=device)
        assert tede._C._cpu_fallback_count() == before
        tede.testing.assert_close(there.cpu(), tede.logspace(start, end, steps, base, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS[:3] + (tede.bool, tede.uint8, tede.int64))
def test_unique_slices(agrees, dtype):
    x = tede.randint(-2, 2, (37, 2, 3)).to(dtype)
    for dim in (0, 1, 2):
        agrees(lambda x: tede.unique(x, dim=dim, return_inverse=True, return_counts=True), x)
        agrees(lambda x: tede.unique_consecutive(x, dim=dim, return_inverse=True, return_counts=True), x)
    agrees(lambda x: tede.unique(x, dim=0), x[:, 0])
    agrees(lambda x: tede.unique(x, dim=-1, return_counts=True), x.mT.flip(0)[:1])
    agrees(lambda x: tede.unique(x, dim=0, return_inverse=True), x[:1].expand(9, 2, 3))


def test_unique_slices_with_nan(agrees):
    x = tede.tensor([[math.nan, 1], [1, math.nan], [1, 2], [math.nan, 1], [1, 2], [-0.0, 3], [0.0, 3], [math.inf, -math.inf]])
    agrees(lambda x: tede.unique(x, dim=0, return_inverse=True, return_counts=True), x)
    agrees(lambda x: tede.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True), x)


def test_unique_slices_of_many(agrees):
    agrees(lambda x: tede.unique(x, dim=0, return_inverse=True, return_counts=True), tede.randint(0, 3, (3001, 5)))
    agrees(lambda x: tede.unique(x, dim=0, return_counts=True), tede.tensor([2**63 + 1, 1, 2**64 - 1, 1], dtype=tede.uint64)[:, None])


def test_rows_kept_short(agrees):
    def renorm(x, at):
        x = x.clone()
        return tede.embedding_renorm_(x, at, 1.0, 2.0)
    agrees(renorm, tede.randn(6, 4), tede.tensor([[1, 3], [5, 1]]))


@pytest.mark.parametrize("density", [False, True])
def test_points_are_counted_in_grids(agrees, density):
    x, w = tede.randn(500), tede.rand(500)
    edges = tede.tensor([-2.0, -1, -0.5, 0.25, 0.25, 2])
    for weight in (None, w):
        agrees(lambda x, *w: tede.histogram(x, 7, weight=w[0] if w else None, density=density), x, *([] if weight is None else [weight]))
        agrees(lambda x, e, *w: tede.histogram(x, e, weight=w[0] if w else None, density=False), x, edges, *([] if weight is None else [weight]))
    agrees(lambda x: tede.histogram(x, 5, range=(-1.0, 2.0), density=density), x.reshape(20, 25).t())
    agrees(lambda x: tede.histogramdd(x, [3, 4], density=density), tede.randn(300, 2))
    agrees(lambda x: tede.histogramdd(x, [3, 4, 2], range=[-1.0, 1, -2, 2, 0, 1]), tede.randn(30, 10, 3, dtype=tede.float64))


def test_what_is_no_number_has_no_range_there(device):
    with pytest.raises(RuntimeError, match="is not finite"):
        tede.histogram(tede.tensor([1.0, float("nan")], device=device), 3)
    assert tede.histogram(tede.tensor([1.0, float("nan"), 2], device=device), 2, range=(0.0, 2.0)).hist.tolist() == [0, 2]
