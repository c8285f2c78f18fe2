"""Numbers by rejection of random.ck: the distributions are the CPU's, and calls don't repeat what others drew."""
import math

import pytest

tede = pytest.importorskip("tede")
N = 20000


def distance(a, b):
    """Of Kolmogorov and Smirnov: the largest difference of two samples' distribution functions."""
    a, b = a.flatten().double().sort().values, b.flatten().double().sort().values
    points = tede.cat([a, b])
    return (tede.searchsorted(a, points, right=True) / len(a) - tede.searchsorted(b, points, right=True) / len(b)).abs().max().item()


def check(call, device, *parameters):
    before = tede._C._cpu_fallback_count()
    there = call(*(p.to(device) for p in parameters))
    assert tede._C._cpu_fallback_count() == before
    here = call(*parameters)
    assert there.device.type == device and (there.dtype, there.shape) == (here.dtype, here.shape)
    limit = 1.95 * math.sqrt(2 / here.numel()) + (0.01 if here.dtype.itemsize == 2 else 0)      # 1 in 1000
    assert distance(there.cpu(), here) < limit, (parameters[0].flatten()[0], distance(there.cpu(), here))
    return there.cpu()


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.float16, tede.bfloat16])
def test_poisson(device, dtype):
    for rate in (0.0, 0.3, 4.0, 9.5, 10.0, 40.0) + ((3e4, 1e7) if dtype.itemsize > 2 else ()):
        x = check(tede.poisson, device, tede.full((N,), rate, dtype=dtype)).double()
        if dtype.itemsize > 2:
            assert abs(x.mean().item() - rate) <= 5 * math.sqrt(rate / N) and abs(x.var().item() - rate) <= 0.1 * rate


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64])
def test_gamma(device, dtype):
    for alpha in (0.0, 1e-3, 0.2, 1.0, 1.5, 30.0, 1e5):
        x = check(tede._standard_gamma, device, tede.full((N,), alpha, dtype=dtype)).double()
        assert x.min() > 0 and abs(x.mean().item() - alpha) <= 5 * math.sqrt(alpha / N) + 1e-30
    assert tede._standard_gamma(tede.ones(3, device=device, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64])
def test_binomial(device, dtype):
    for count, p in ((1, 0.3), (10, 0.5), (7, 0.9), (100, 0.05), (100, 0.5), (1000, 0.93), (1e6, 0.4), (5, 0.0), (5, 1.0), (0, 0.5)):
        x = check(tede.binomial, device, tede.full((N,), float(count), dtype=dtype), tede.full((N,), p, dtype=dtype)).double()
        assert x.min() >= 0 and x.max() <= count and abs(x.mean().item() - count * p) <= 5 * math.sqrt(count * p * (1 - p) / N)
    x = tede.binomial(tede.tensor([5.0, math.nan, 5.0], device=device, dtype=dtype), tede.tensor([math.nan, 0.5, -1.0], device=device, dtype=dtype))
    assert math.isnan(x[0].item()) and x[2].item() == 0


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64])
def test_dirichlet(device, dtype):
    for alpha in ([1.0, 2.0, 3.0], [0.01, 0.02, 0.01], [300.0, 0.5, 2.0]):
        x = check(lambda a: tede._sample_dirichlet(a)[:, 0], device, tede.tensor(alpha, dtype=dtype).expand(N, 3))
        assert x.min() > 0 and x.max() < 1
    x = tede._sample_dirichlet(tede.tensor([1.0, 2.0], device=device, dtype=dtype).expand(50, 2))
    tede.testing.assert_close(x.sum(-1).cpu(), tede.ones(50, dtype=dtype))


def test_calls_draw_anew(device):
    rate = tede.full((500,), 4.0, device=device)
    g = tede.Generator(device=device).manual_seed(7)
    first, second = tede.poisson(rate, g), tede.poisson(rate, g)
    assert g.get_offset() == 8 and not tede.equal(first, second)
    assert tede.equal(tede.poisson(rate, g.manual_seed(7)), first) and len(first.unique()) > 4


def test_parameters_that_lie_otherwise(device):
    rate = tede.tensor([[1.0, 1000.0]], device=device).expand(50, 2)
    for x in (tede.poisson(rate), tede.poisson(rate.mT).mT, tede._standard_gamma(rate.flip(1)).flip(1)):
        assert x.shape == (50, 2) and x[:, 0].max() < 20 and x[:, 1].min() > 800
    assert tede.poisson(rate[:0]).shape == (0, 2) and tede.poisson(rate[0, 1]).shape == ()
    assert tede.binomial(rate, tede.tensor(0.5, device=device)).shape == (50, 2)


def test_mistakes_of_parameters(device):
    for on in ("cpu", device):
        for bad in (-1.0, math.nan):
            with pytest.raises(RuntimeError, match="invalid Poisson rate"):
                tede.poisson(tede.tensor([1.0, bad], device=on)).cpu()        # a device says so to whoever waits
        with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
            tede._standard_gamma(tede.ones(3, device=on, dtype=tede.float16))


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.bfloat16])
def test_slopes(device, dtype):
    x = tede.randn(4000).to(dtype)
    before = tede._C._cpu_fallback_count()
    there = tede.nn.functional.rrelu(x.to(device), 0.25, 0.5, training=True).cpu()
    assert tede._C._cpu_fallback_count() == before and tede.equal(there[x > 0], x[x > 0])
    slopes = (there[x < 0] / x[x < 0]).double()
    assert slopes.min() > 0.245 and slopes.max() < 0.505 and abs(slopes.mean().item() - 0.375) < 0.01
    for on in ("cpu", device):
        with pytest.raises(NotImplementedError, match="not implemented for 'Half'"):
            tede.nn.functional.rrelu(tede.zeros(3, dtype=tede.float16, device=on), training=True)
