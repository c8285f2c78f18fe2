"""random.ck: the streams of devices, which are Philox's in the layout of PyTorch's CUDA kernels; their distributions."""
import math

import pytest

tede = pytest.importorskip("tede")

MASK = 0xffffffff


def philox(seed, thread, round):
    """Four words of a counter, by the paper's definition."""
    c, k = [round & MASK, round >> 32, thread & MASK, thread >> 32], [seed & MASK, seed >> 32]
    for _ in range(10):
        p, q = 0xd2511f53 * c[0], 0xcd9e8d57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & MASK, (p >> 32) ^ c[3] ^ k[1], p & MASK]
        k = [(k[0] + 0x9e3779b9) & MASK, (k[1] + 0xbb67ae85) & MASK]
    return c


def test_the_test_knows_philox():
    """Known answers of Random123."""
    assert philox(0, 0, 0) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
    assert philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88) == [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]


def words(g, seed, n, calls=0, threads=None, each=4):
    """What n elements take of the stream, by the layout of Note [Streams of devices]."""
    threads = threads or 256 * min(132 * 8, (n + 255) // 256)
    out = [None] * n
    for i in range(n):
        row, thread = divmod(i, threads)
        out[i] = philox(seed, thread, calls + row // each)[row % each]
    return out


def test_numbers_are_those_of_the_counter(device):
    n = 600
    g = tede.Generator(device=device).manual_seed(1234567890123)
    first = tede.rand(n, device=device, generator=g)
    expected = tede.tensor([(w + 0.5) / 2**32 for w in words(g, 1234567890123, n)], dtype=tede.float64)
    tede.testing.assert_close(first.cpu().double(), expected, rtol=0, atol=1e-7)
    assert g.get_offset() == 4
    whole = tede.randint(0, 1000, (n,), device=device, generator=g)
    assert whole.tolist() == [w % 1000 for w in words(g, 1234567890123, n, 1)]
    normal = tede.randn(4, device=device, generator=g)
    counters = [philox(1234567890123, i, 2) for i in range(4)]
    by_hand = [math.sqrt(-2 * math.log((c[0] + 0.5) / 2**32)) * math.sin((c[1] + 0.5) / 2**32 * 2 * math.pi) for c in counters]
    tede.testing.assert_close(normal.cpu(), tede.tensor(by_hand), rtol=1e-4, atol=1e-5)


def test_many_elements_share_threads(device):
    n = 132 * 2048 * 5
    g = tede.Generator(device=device).manual_seed(7)
    x = tede.randint(0, 1 << 20, (n,), device=device, generator=g, dtype=tede.int32).cpu()
    threads = 132 * 2048
    assert g.get_offset() == 8
    for i in (0, 1, threads - 1, threads, 3 * threads + 5, 4 * threads, n - 1):
        row, thread = divmod(i, threads)
        assert x[i].item() == philox(7, thread, row // 4)[row % 4] % (1 << 20)


def test_states(device):
    module = getattr(tede, device)
    tede.manual_seed(5)
    state = module.get_rng_state()
    assert state.numel() == 16
    a = tede.randn(3, device=device)
    b = tede.poisson(tede.full((50,), 4.0, device=device))
    module.set_rng_state(state)
    assert tede.equal(a.cpu(), tede.randn(3, device=device).cpu()) and tede.equal(b.cpu(), tede.poisson(tede.full((50,), 4.0, device=device)).cpu())
    assert not tede.equal(b.cpu(), tede.poisson(tede.full((50,), 4.0, device=device)).cpu())
    tede.manual_seed(5)
    assert tede.equal(a.cpu(), tede.randn(3, device=device).cpu())
    g = tede.Generator(device=device).manual_seed(3)
    g.set_offset(8)
    other = g.clone_state()
    assert other.get_offset() == 8 and tede.equal(tede.rand(5, device=device, generator=g).cpu(), tede.rand(5, device=device, generator=other).cpu())
    with pytest.raises(RuntimeError, match="multiple of 4"):
        g.set_offset(3)
    with pytest.raises(RuntimeError, match="does not use offset"):
        tede.Generator().get_offset()
    with pytest.raises(RuntimeError, match="device type for generator but found 'cpu'"):
        tede.rand(3, device=device, generator=tede.Generator())


DRAWS = {
    "uniform_": (lambda x: x.uniform_(-1, 3), 1, math.sqrt(16 / 12)), "normal_": (lambda x: x.normal_(2, 3), 2, 3),
    "exponential_": (lambda x: x.exponential_(0.5), 2, 2), "geometric_": (lambda x: x.geometric_(0.25), 4, math.sqrt(12)),
    "log_normal_": (lambda x: x.log_normal_(0, 0.5), math.exp(0.125), math.sqrt((math.exp(0.25) - 1) * math.exp(0.25))),
    "bernoulli_": (lambda x: x.bernoulli_(0.3), 0.3, math.sqrt(0.21)), "random_": (lambda x: x.random_(10, 20), 14.5, math.sqrt(99 / 12)),
    "bernoulli_tensor": (lambda x: x.bernoulli_(tede.full_like(x, 0.8)), 0.8, 0.4),
    "dropout": (lambda x: tede.nn.functional.dropout(tede.ones_like(x), 0.2), 1, 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.float16])
def test_distributions(device, name, dtype):
    draw, mean, deviation = DRAWS[name]
    tede.manual_seed(1)
    before = tede._C._cpu_fallback_count()
    x = draw(tede.empty(300, 400, dtype=dtype, device=device))
    assert tede._C._cpu_fallback_count() == before and x.dtype == dtype and x.device.type == device
    x = x.cpu().double()
    n = x.numel()
    assert abs(x.mean().item() - mean) < 5 * deviation / math.sqrt(n) + 2e-3
    assert abs(x.std().item() / deviation - 1) < 0.03


def test_quantiles_of_cauchy(device):
    x = tede.empty(40001, device=device).cauchy_(1, 2).cpu().sort()[0]
    assert abs(x[20000].item() - 1) < 0.1 and abs(x[30000].item() - 3) < 0.2


@pytest.mark.parametrize("dtype", [tede.int64, tede.int8, tede.uint8, tede.bool, tede.float32, tede.float64, tede.bfloat16])
def test_whole_ranges(device, dtype):
    x = tede.empty(5000, dtype=dtype, device=device).random_().cpu()
    top = {tede.int64: 2**63 - 1, tede.int8: 127, tede.uint8: 255, tede.bool: 1, tede.float32: 2**24, tede.float64: 2**53, tede.bfloat16: 256}[dtype]
    assert x.min() >= 0 and x.max() <= top and abs(x.double().mean().item() / top - 0.5) < 0.05
    if dtype == tede.int64:
        assert tede.empty(5000, dtype=dtype, device=device).random_(-2**63, None).lt(0).cpu().double().mean().sub(0.5).abs() < 0.05


def test_strides_and_errors(device):
    x = tede.zeros(6, 7, device=device)
    x[:, ::2].normal_()
    assert x[:, 1::2].eq(0).all() and x[:, ::2].ne(0).all()
    with pytest.raises(RuntimeError, match="from"):
        x.random_(5, 5)
    with pytest.raises(RuntimeError, match="std >= 0.0"):
        x.normal_(0, -1)
    assert tede.empty(0, device=device).uniform_().numel() == 0


def test_dropout_has_gradients(device):
    x = tede.ones(100, device=device, requires_grad=True)
    y = tede.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert tede.equal(x.grad, y.detach())
    y, mask = tede.native_dropout(x, 0.25, True)
    assert tede.equal(y.detach().cpu() != 0, mask.cpu()) and mask.dtype == tede.bool


def test_samples(device):
    p = tede.tensor([[0.0, 3.0, 1.0], [1.0, 0.0, 0.0]], device=device)
    many = tede.multinomial(p, 4000, replacement=True).cpu()
    assert many.shape == (2, 4000) and not many[1].any() and abs(many[0].eq(1).double().mean().item() - 0.75) < 0.05 and not many[0].eq(0).any()
    assert sorted(tede.multinomial(p[0] + 1, 3).tolist()) == [0, 1, 2] and tede.multinomial(p[1], 1).item() == 0
    assert sorted(tede.randperm(1000, device=device).tolist()) == list(range(1000))


REFUSED = {
    "p_in >= 0 && p_in <= 1": (tede.bernoulli, [0.5, 2.0], [float("nan")], [-0.1]),
    "expected rate to be non-negative": (tede.poisson, [3.0, -1.0], [float("nan")]),
    "std >= 0.0": (lambda x: tede.normal(0, x), [1.0, -1.0], [float("nan")]),
    "`inf`, `nan` or element < 0": (lambda x: tede.multinomial(x, 1), [-1.0, 2.0], [1.0, float("inf")], [float("nan"), 1.0]),
    "sum of probabilities <= 0": (lambda x: tede.multinomial(x, 2, replacement=True), [0.0, 0.0]),
}


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.bfloat16])
@pytest.mark.parametrize("words", REFUSED)
def test_numbers_that_no_law_has(device, words, dtype):
    """Those of bernoulli and poisson are raised by what waits, the others at the call, as PyTorch does it on CUDA."""
    call, *refused = REFUSED[words]
    for bad in refused:
        x = tede.tensor(bad, dtype=dtype, device=device)
        before = tede._C._cpu_fallback_count()
        if call in (tede.bernoulli, tede.poisson):
            y = call(x)
        with pytest.raises(RuntimeError, match=words):
            y.tolist() if call in (tede.bernoulli, tede.poisson) else call(x)
        assert tede._C._cpu_fallback_count() == before
        (x + 1).cpu()                               # once
    call(tede.ones(2, dtype=dtype, device=device)).cpu()


@pytest.mark.parametrize("n, pack", [(1200, 4), (1202, 2), (1201, 1)])
def test_dropout_gives_neighbours_numbers_of_one_counter(device, n, pack):
    tede.manual_seed(11)
    kept = tede.nn.functional.dropout(tede.ones(n, device=device), 0.3).cpu() != 0
    threads = 256 * ((n + 255) // 256)
    for i in [*range(20), *range(n - 20, n)]:
        row, thread = divmod(i // pack, threads)
        word = philox(11, thread, row // (4 // pack))[row % (4 // pack) * pack + i % pack]
        assert kept[i].item() == ((word + 0.5) / 2**32 < 0.7)
