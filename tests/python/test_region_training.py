"""Whole training steps in a region: forward, backward, clipping, optimizer and schedule, and what they write in place."""
import ctypes
import pathlib
import threading

import pytest
import tede
import tede.nn.functional as F
from tede import nn


def early(run):
    """How often what was recorded was computed before `run` in a region was over."""
    before = tede.compiler.stats()["early_flushes"]
    run()
    return tede.compiler.stats()["early_flushes"] - before


def same(late, now):
    assert len(late) == len(now)
    for a, b in zip(late, now, strict=True):
        assert type(a) is type(b)
        assert tede.equal(a, b) if isinstance(a, tede.Tensor) else a == b


OPTIMIZERS = {
    "SGD": lambda p: tede.optim.SGD(p, 0.1),
    "momentum": lambda p: tede.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: tede.optim.Adam(p, 0.01, weight_decay=0.1),
    "AdamW": lambda p: tede.optim.AdamW(p, 0.01, amsgrad=True),
    "fused": lambda p: tede.optim.AdamW(p, 0.01, fused=True),
    "foreach": lambda p: tede.optim.Adam(p, 0.01, foreach=True),
    "Adagrad": lambda p: tede.optim.Adagrad(p, 0.01),
    "RMSprop": lambda p: tede.optim.RMSprop(p, 0.01),
}


def train(make, wrap, zeros, dtype=tede.float32):
    tede.manual_seed(3)
    model = nn.Sequential(nn.Embedding(50, 160), nn.Linear(160, 320), nn.LayerNorm(320), nn.GELU(), nn.Dropout(0.2), nn.Linear(320, 50)).to(dtype)
    optimizer = make(model.parameters())
    schedule = tede.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    x, y = tede.randint(50, (200,)), tede.randint(50, (200,))

    def step():
        optimizer.zero_grad(set_to_none=not zeros)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        return loss, norm
    step = wrap(step)
    results, counts = [], []
    for _ in range(4):
        counts.append(early(lambda: results.extend(step())))
    values = [x.item() for x in results]
    return values + [p.detach() for p in model.parameters()] + [p._version for p in model.parameters()], counts


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_nothing_ends_a_step(make, zeros):
    late, counts = train(make, tede.compile, zeros)
    same(late, train(make, lambda f: f, zeros)[0])
    assert counts[1:] == [0, 0, 0]       # the first one makes the optimizer's state


@pytest.mark.parametrize("dtype", [tede.float64, tede.bfloat16])
def test_steps_of_other_dtypes(dtype):
    late, _ = train(OPTIMIZERS["AdamW"], tede.compile, False, dtype)
    same(late, train(OPTIMIZERS["AdamW"], lambda f: f, False, dtype)[0])


def test_a_step_of_memory_that_numpy_has_is_done_at_once():
    array = tede.rand(200, 100).numpy()

    def step(p):
        optimizer = tede.optim.SGD([p], 0.1, momentum=0.9)
        p.grad = tede.full((200, 100), 2.) * 3
        optimizer.step()
        return float(p.detach().numpy()[3, 4])
    before = array.copy()
    late = tede.compile(step)(tede.from_numpy(array).requires_grad_())
    at_once, array[:] = array.copy(), before
    assert late == step(tede.from_numpy(array).requires_grad_())
    assert (array == at_once).all()


def test_a_step_that_is_refused_is_refused_at_the_call():
    seen = []

    def f(p, grad):
        try:
            tede._fused_sgd_([p * 2], [grad], [], weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False, maximize=False, is_first_step=False)
        except RuntimeError as error:
            seen.append(str(error))
        return p * 3
    tede.compile(f)(tede.rand(200, 200), tede.rand(10))
    assert len(seen) == 1 and "same number of elements" in seen[0]


@pytest.mark.parametrize("training", [True, False])
def test_running_averages(training):
    def f(x, mean, variance):
        first = F.batch_norm(x, mean, variance, training=training)
        between = mean * 2
        F.batch_norm(x * 3, mean, variance, training=training)
        return first, between, mean.sum().item(), variance, mean

    x = tede.randn(32, 8, 32, 32)
    same(tede.compile(f)(x, tede.zeros(8), tede.ones(8)), f(x, tede.zeros(8), tede.ones(8)))

    def unused(x, mean, variance):
        F.batch_norm(x, mean, variance, training=training)
        return mean, variance
    same(tede.compile(unused)(x, tede.zeros(8), tede.ones(8)), unused(x, tede.zeros(8), tede.ones(8)))


def test_small_writes_beside_what_is_late():
    """They neither end the region nor come before what reads the memory that they write."""
    def f(x, bias, count):
        a = x + bias
        count += 1
        bias.mul_(3)
        b = a * bias
        bias.fill_(2.)
        c = b - bias
        bias.zero_()
        count.add_(1)
        bias[3:5] = 1
        return a, b, c, bias, count, x * count

    def arguments():
        tede.manual_seed(1)
        return tede.rand(200, 300), tede.rand(300), tede.zeros(())
    results = []
    assert early(lambda: results.extend(tede.compile(f)(*arguments()))) == 0
    same(results, f(*arguments()))


def test_writes_of_another_region_wait_for_none():
    """A storage that two threads' regions read: that one is done does not let the other's write pass its own reads."""
    shared = tede.rand(300)
    x = tede.rand(200, 300)
    want = x + shared
    read, done = threading.Event(), threading.Event()

    def other():
        y = x - shared
        read.set()
        assert done.wait(60)
        shared.copy_(tede.zeros(300))
        return y
    results = []
    thread = threading.Thread(target=lambda: results.append(tede.compile(other)()))
    before = shared.clone()
    thread.start()
    assert read.wait(60)
    assert tede.equal(tede.compile(lambda: x + shared)(), want)
    done.set()
    thread.join()
    same(results, [x - before])
    assert tede.equal(shared, tede.zeros(300))


LOOKUPS = {
    "embedding": (lambda table, i: F.embedding(i, table), "index out of range"),
    "cross_entropy": (lambda table, i: F.cross_entropy(table[:len(i)], i, ignore_index=-7), "Target .* is out of bounds"),
    "nll_loss": (lambda table, i: F.nll_loss(table[:len(i)], i, ignore_index=-7), "Target .* is out of bounds"),
}


@pytest.mark.parametrize("lookup, message", LOOKUPS.values(), ids=LOOKUPS)
def test_what_is_looked_up_is_checked_at_the_call(lookup, message):
    table, index = tede.rand(300, 300), tede.arange(100)
    f = tede.compile(lambda table, i: lookup(table * 2, i) + 1)
    assert early(lambda: same([f(table, index)], [lookup(table * 2, index) + 1])) == 0
    index[5] = 300
    seen = []

    def bad(table, i):
        twice = table * 2
        try:
            lookup(twice, i)
        except (IndexError, RuntimeError) as error:
            seen.append(error)
        return twice
    same([tede.compile(bad)(table, index)], [table * 2])
    assert len(seen) == 1
    with pytest.raises(type(seen[0]), match=message) as now:
        lookup(table * 2, index)
    assert now.value.args == seen[0].args


def test_elements_that_are_left_out():
    x, y = tede.rand(200, 100), tede.arange(200) % 100
    y[::3] = -7

    def f(x, y):
        return F.cross_entropy(x * 2, y, ignore_index=-7), F.embedding(y.clamp(min=0), x + 1, padding_idx=2)
    same(tede.compile(f)(x, y), f(x, y))


def test_an_index_that_is_late_is_looked_at():
    x, y = tede.rand(200, 100), tede.arange(40000)

    def f(x, y):
        index = (y * 7 % 200)
        return F.embedding(index, x * 2)
    same([tede.compile(f)(x, y)], [f(x, y)])

    def written_later(x, y):
        looked = F.embedding(y, x * 2)
        y.zero_()
        return looked, y
    same(tede.compile(written_later)(x, y % 200), written_later(x, y % 200))


def test_memory_goes_when_its_last_reader_is_done():
    """The most that a region takes is about what eager takes: results that only recorded calls had are given up on the way, views of them or not."""
    library = ctypes.CDLL(str(pathlib.Path(tede.__file__).parent / "lib/libtede.so.0"))

    class Stats(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in "allocated peak reserved kept live_blocks allocations failures limit".split()]

    def peak(f):
        stats = Stats()
        library.td_memory_stats(ctypes.byref(stats))
        before = stats.allocated
        library.td_memory_reset_peak()
        result = f(tede.ones(512, 512))
        library.td_memory_stats(ctypes.byref(stats))
        assert result.shape == (512, 512)
        return stats.peak - before

    def f(x):
        for _ in range(20):
            x = (x @ x).cos()
            x = x.view(256, 1024).view(512, 512).t() @ x
        return x
    assert peak(tede.compile(f)) < peak(f) + (3 << 20)


def test_writes_through_a_result_are_late():
    """In-place forms that make a result and copy it, and a wider out=."""
    def f(x, mean, wide):
        twice = x * 2
        mean.lerp_(twice[0], 0.1)
        twice.pow_(3)
        twice.lerp_(x, 0.25)
        tede.add(x.int(), 1, out=wide)
        return twice, mean, wide, twice._version, mean._version

    def arguments():
        tede.manual_seed(1)
        return tede.rand(128, 300) * 9, tede.zeros(300), tede.zeros(128, 300, dtype=tede.float64)
    results = []
    assert early(lambda: results.extend(tede.compile(f)(*arguments()))) == 0
    same(results, f(*arguments()))


def test_explain_sees_a_step_as_one_part():
    tede.manual_seed(1)
    model = nn.Linear(200, 200)
    optimizer = tede.optim.AdamW(model.parameters())
    x = tede.rand(200, 200)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    step()
    explanation = tede.compiler.explain(step)()
    assert [str(part) for part in explanation.parts if part.ended_by] == []
