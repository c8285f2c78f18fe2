"""reduce.ck beside the CPU's kernels."""
import math
import warnings

import pytest

tede = pytest.importorskip("tede")

SHAPES = [((), None), ((1,), 0), ((5,), 0), ((7, 300), 1), ((7, 300), 0), ((3, 5, 700), 1), ((3, 5, 700), (0, 2)), ((2, 0, 3), 1), ((0, 4), 1),
          ((40000, 3), 0), ((3, 40000), 1), ((50000,), None), ((2, 3, 4, 5, 6), (0, 2, 4)), ((2, 3, 4, 5, 6), (1, 3)), ((600, 700), 0)]
FLOATS = {
    "sum": tede.sum, "nansum": tede.nansum, "mean": tede.mean, "var": tede.var, "std": tede.std, "norm": tede.linalg.vector_norm,
    "norm 1": lambda x, dim, keepdim: tede.linalg.vector_norm(x, 1, dim, keepdim),
    "norm 3": lambda x, dim, keepdim: tede.linalg.vector_norm(x, 3, dim, keepdim),
    "norm 0": lambda x, dim, keepdim: tede.linalg.vector_norm(x, 0, dim, keepdim).detach(),
    "logsumexp": lambda x, dim, keepdim: tede.logsumexp(x, () if dim is None else dim, keepdim),
    "var_mean": tede.var_mean, "std_mean": tede.std_mean,
}
ORDERED = {
    "amax": tede.amax, "amin": tede.amin,
    "norm inf": lambda x, dim, keepdim: tede.linalg.vector_norm(x.to(tede.float64), math.inf, dim, keepdim),
    "norm -inf": lambda x, dim, keepdim: tede.linalg.vector_norm(x.to(tede.float64), -math.inf, dim, keepdim),
}
ONE = {
    "max": tede.max, "min": tede.min, "argmax": tede.argmax, "argmin": tede.argmin,
    "aminmax": lambda x, dim, keepdim: tede.aminmax(x, dim=dim, keepdim=keepdim),
}
WHOLE = {"max": tede.max, "min": tede.min, "argmax": tede.argmax, "argmin": tede.argmin, "prod": tede.prod, "aminmax": tede.aminmax, "any": tede.any,
         "all": tede.all, "sum": tede.sum, "count_nonzero": tede.count_nonzero}
close = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_any_shape(agrees, name, shape, dim):
    near = {"rtol": 1e-4, "atol": 1e-4 + 5e-9 * math.prod(shape)}           # terms of both signs, which one work item may add alone
    for keepdim in (False, True):
        agrees(lambda x: FLOATS[name](x, dim=dim, keepdim=keepdim), tede.randn(shape, requires_grad=math.prod(shape) > 0), **near)


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_orders(agrees, shape, dim):
    if math.prod(shape) == 0:
        return
    x = tede.randint(-50, 50, shape)
    for dtype in (tede.int64, tede.float32, tede.uint8, tede.bool):
        y = x.to(dtype)
        for name in ORDERED:
            agrees(lambda x: ORDERED[name](x, dim=() if dim is None else dim, keepdim=False), y)
        if isinstance(dim, int):
            for name in ONE:
                if not (dtype == tede.bool and name.startswith("arg")):
                    agrees(lambda x: ONE[name](x, dim=dim, keepdim=True), y)


@pytest.mark.parametrize("shape, dim", [s for s in SHAPES if isinstance(s[1], int)])
def test_products(agrees, shape, dim):
    x = 0.9 + 0.2 * tede.rand(shape)
    agrees(lambda x: tede.prod(x, dim), x.requires_grad_(), rtol=1e-3, atol=1e-3)
    agrees(lambda x: tede.prod(x, dim, keepdim=True), tede.randint(1, 100, shape))


@pytest.mark.parametrize("shape", [(), (1,), (7, 300), (3, 5, 700), (0,), (2, 0)])
@pytest.mark.parametrize("name", WHOLE)
def test_over_everything(agrees, name, shape):
    for dtype in (tede.float32, tede.int32, tede.bool):
        x = tede.randint(-1, 3, shape).to(dtype)
        if dtype == tede.bool and name.startswith("arg"):
            continue
        if math.prod(shape) == 0 and name in ("max", "min", "argmax", "argmin", "aminmax"):
            continue
        agrees(lambda x: WHOLE[name](x), x)
        if x.ndim > 1:
            agrees(lambda x: WHOLE[name](x.t() if x.ndim == 2 else x.transpose(0, 2)), x)


def test_truth_along_dimensions(agrees):
    x = tede.randint(0, 2, (6, 5, 4))
    x[2], x[3, 1] = 1, 0
    for dtype in (tede.bool, tede.uint8, tede.float32, tede.int64):
        for dim in (0, 2, (0, 2), (), (0, 1, 2)):
            for keepdim in (False, True):
                agrees(lambda x: tede.any(x, dim, keepdim), x.to(dtype))
                agrees(lambda x: tede.all(x, dim, keepdim), x.to(dtype))
        agrees(lambda x: tede.count_nonzero(x, 1), x.to(dtype))
        agrees(lambda x: tede.all(x[:, :0], 1), x.to(dtype))


@pytest.mark.parametrize("name", [*FLOATS, *ORDERED])
def test_strides_and_special_values(agrees, name):
    f = {**FLOATS, **ORDERED}[name]
    x = tede.randn(30, 40)
    x[3, 5] = math.nan
    x[4, 6] = math.inf
    x[5, 7], x[5, 9] = math.inf, -math.inf
    x[6] = -math.inf
    if name in ("var_mean", "std_mean"):        # the CPU's mean is PyTorch's: infinite or NaN, by where in the row the infinity is
        x[x.isinf()] = math.nan
    for view in (x, x.t(), x[::2, ::3], x.flip(0), x.expand(2, 30, 40), x.reshape(5, 6, 40).permute(1, 2, 0)):
        for dim in (0, 1, -1, (0, 1)):
            agrees(lambda x: f(x, dim=dim, keepdim=False), view, **close)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_the_first_of_equals_and_of_nans(agrees, name):
    x = tede.tensor([1.0, 5.0, 5.0, -2.0, -2.0]).repeat(2000, 1)
    agrees(lambda x: ONE[name](x, dim=0, keepdim=False), x)
    agrees(lambda x: ONE[name](x, dim=1, keepdim=False), x)
    agrees(lambda x: WHOLE[name](x), x)
    y = x.clone()
    y[70:90, 3] = math.nan
    y[1500, 1] = math.nan
    agrees(lambda x: ONE[name](x, dim=0, keepdim=False), y)
    agrees(lambda x: ONE[name](x, dim=1, keepdim=False), y)
    agrees(lambda x: WHOLE[name](x), y)
    agrees(lambda x: WHOLE[name](x), y.t())


def test_dtypes(agrees):
    x = tede.randn(20, 90) * 4
    for dtype in (tede.float16, tede.bfloat16, tede.float64):
        y = x.to(dtype).requires_grad_()
        for name in FLOATS:
            agrees(lambda x: FLOATS[name](x, dim=1, keepdim=False), y, rtol=2e-2, atol=2e-2)
        agrees(lambda x: tede.sum(x, 0, dtype=tede.float32), y, **close)
        agrees(lambda x: tede.sum(x, 0, dtype=tede.float64), y, **close)
    agrees(lambda x: tede.sum(x, 1, dtype=tede.int32), x)
    agrees(lambda x: tede.sum(x, 1, dtype=tede.bool), x)
    agrees(lambda x: tede.nansum(tede.where(x > 2, math.nan, x), 1, dtype=tede.int64), x)
    agrees(lambda x: tede.mean(x, 1, dtype=tede.float16), x.to(tede.int16), rtol=1e-3, atol=1e-3)
    agrees(lambda x: tede.logsumexp(x, 1), x.to(tede.int16))
    agrees(lambda x: tede.sum(x, 1), tede.full((3, 50), 1 << 40))
    for dtype in (tede.int8, tede.uint8, tede.int16, tede.int32, tede.bool):
        agrees(lambda x: (tede.sum(x, 1), tede.sum(x), tede.sum(x, 1, dtype=tede.int8), tede.prod(x[:, :3], 1, dtype=tede.uint8)), x.to(dtype))
    big = tede.tensor([[1, (1 << 63) + 5, 1 << 63], [3, 2, 1]], dtype=tede.uint64)
    agrees(lambda x: (tede.amax(x, 1), tede.max(x, 1), tede.amin(x), tede.sum(x, 1)), big)


def test_a_far_mean_leaves_the_variance(agrees):
    agrees(lambda x: tede.var(x, 1), tede.randn(5, 5000) + 1000, rtol=1e-3, atol=1e-3)
    agrees(lambda x: tede.var(x, 0), tede.randn(5000, 5) + 1000, rtol=1e-3, atol=1e-3)


def test_corrections_and_nothing(agrees):
    for correction in (0, 2, 0.5, 40):
        agrees(lambda x: tede.var(x, 1, correction=correction), tede.randn(4, 30))
    agrees(lambda x: tede.std_mean(x, 1), tede.randn(4, 0))
    agrees(lambda x: (tede.sum(x, 1), tede.mean(x, 1), tede.prod(x, 1), tede.logsumexp(x, 1)), tede.randn(4, 0))


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.bfloat16])
@pytest.mark.parametrize("how", ["max", "mean", "min", "sum", "prod"])
def test_segments(agrees, device, how, dtype):
    x = tede.randn(3, 8, 5).to(dtype)
    x[1, 2, 3], x[0, :2, 0], x[2, 4] = math.nan, 0, x[2, 5]
    lengths = tede.tensor([[2, 0, 3, 3], [8, 0, 0, 0], [1, 1, 1, 5]])
    for initial in (None, 0.5):
        agrees(lambda x, n: tede.segment_reduce(x, how, lengths=n, axis=1, initial=initial), x.clone().requires_grad_(), lengths,
               **(close if dtype != tede.bfloat16 else {"rtol": 0.02}))
        agrees(lambda x, n: tede.segment_reduce(x, how, offsets=n, initial=initial), x[:, 0].t().contiguous().t(), tede.tensor([0, 1, 1, 2]))
    agrees(lambda x, n: tede.segment_reduce(x, how, lengths=n, unsafe=True), x[0, 0].clone().requires_grad_(), tede.tensor([1, 2]))
    for bad, words in (([9, -1], "negative"), ([1, 2], "to sum to data.size")):
        with pytest.raises(RuntimeError, match=words):
            tede.segment_reduce(x[0].to(device), how, lengths=tede.tensor(bad, device=device))


def test_out_and_numbers(agrees):
    x = tede.randn(4, 50, 6)
    agrees(lambda x: tede.sum(x, 1, out=tede.empty(6, 4, device=x.device).t()), x, **close)
    agrees(lambda x: tede.max(x, 1, out=(tede.empty(6, 4, device=x.device).t(), tede.empty(6, 4, device=x.device, dtype=tede.int64).t())), x)
    agrees(lambda x: (tede.equal(x, x), tede.equal(x, x + 1), tede.allclose(x, x + 1e-9), bool(x[0, 0, 0] != 3), x[1, 2, 3].item()), x)
    agrees(lambda x: (tede._is_all_true(x > -100), tede._is_any_true(x > 100)), x)
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        tede.amax(tede.empty(0, 3, device="opencl"), 0)


def test_a_degree_of_freedom_too_few_warns(device):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tede.randn(4, 1).to(device).var(1)
    assert any("degrees of freedom is <= 0" in str(w.message) for w in seen)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.float64, tede.int16])
def test_packs_and_what_lies_between_them(agrees, dtype):
    """Rows and columns that begin at multiples of 16 bytes or don't, and whose last pack isn't full."""
    x = (tede.randn(24, 1040) * 9).round().to(dtype)
    x[3, 1038], x[20, 5] = 100, 100
    flat = x.flatten()
    views = (x, x[:, 1:], x[:, :1037], x[:, 16:19], x[1::2, 16:], x.view(4, 6, 1040)[:, 1:4, :1024], flat[3:1003].view(10, 100),
             x.view(24, 65, 16).transpose(0, 1))
    # A device compiles for each, which takes most of the time: all views for one dtype, all folds for another.
    for view in views if dtype == tede.bfloat16 else views[:2]:
        for dim in range(view.ndim):
            agrees(lambda x: tede.sum(x, dim), view, rtol=1e-2)
            if dtype == tede.float32:
                agrees(lambda x: (tede.amax(x, dim), tede.argmax(x, dim), tede.var(x, dim)), view, rtol=2e-2)
        agrees(lambda x: tede.sum(x, (0, -1)), view, rtol=1e-2)
    for view in (flat, flat[1:], flat[:-3], flat[5:15]):
        agrees(lambda x: (tede.sum(x), tede.argmin(x)), view, rtol=1e-2)
