"""Threads beside a region: what it has yet to compute, and what its calls have yet to read, is for all of them as without the region."""
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tede

REGIONS = {"tier": 1}


def elsewhere(f, *args):
    """f(*args) on another thread, which this one waits for."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(f, *args).result()


READS = {
    "item": lambda y: y.sum().item(), "operator": lambda y: y + 1, "product": lambda y: y @ y.T, "reduction": lambda y: y.amax(1),
    "view": lambda y: y[3:, ::2].clone(), "transposed": lambda y: y.T.contiguous(), "list": lambda y: tede.tensor(y[:2].tolist()),
    "numpy": lambda y: tede.from_numpy(y.numpy().copy()), "index": lambda y: y[tede.tensor([2, 5])], "sort": lambda y: y.sort(0).values,
    "copy": lambda y: tede.empty_like(y).copy_(y), "into": lambda y: tede.mul(y, 2, out=tede.empty(0)), "text": lambda y: str(y),
    "foreach": lambda y: tede._foreach_add([y, y], 1)[1], "softmax": lambda y: y.softmax(1), "cat": lambda y: tede.cat([y, y]),
    "conv": lambda y: tede.nn.functional.conv1d(y[None], y[:, :5, None].reshape(5, 300, 1)),
}
READS["compiled"] = lambda y: tede.compile(lambda y: (y * 2 + 1).sum(1), options=REGIONS)(y)


def same(a, b):
    return a == b if isinstance(a, str | float) else tede.equal(a, b)


@pytest.mark.parametrize("read", READS)
def test_another_thread_reads_what_is_late(read):
    def f(x):
        y = x * 2
        return elsewhere(READS[read], y), y + 1
    x = tede.rand(300, 100)
    a, b = tede.compile(f, options=REGIONS)(x)
    assert same(a, READS[read](x * 2)) and tede.equal(b, x * 2 + 1)


@pytest.mark.parametrize("read", READS)
def test_another_thread_reads_what_will_be_written(read):
    def f(x):
        x.mul_(3)
        return elsewhere(READS[read], x), x + 1
    x = tede.rand(300, 100)
    z = x.clone()
    a, b = tede.compile(f, options=REGIONS)(z)
    assert same(a, READS[read](x * 3)) and tede.equal(b, x * 3 + 1) and tede.equal(z, x * 3)


WRITES = {
    "fill": lambda x: x.zero_(), "operator": lambda x: x.mul_(5), "copy": lambda x: x.copy_(tede.ones(300, 100)),
    "row": lambda x: x.__setitem__(4, 7.), "mask": lambda x: x.__setitem__(x > 0.5, 7.), "view": lambda x: x.T[2:].add_(1),
    "into": lambda x: tede.exp(tede.ones(300, 100), out=x), "random": lambda x: x.uniform_(2, 3), "scatter": lambda x: x.index_fill_(0, tede.tensor([1]), 9),
    "foreach": lambda x: tede._foreach_mul_([x], 3), "sorted": lambda x: tede.sort(x.clone(), out=(x, tede.empty(0, dtype=tede.int64))),
    "compiled": lambda x: tede.compile(lambda x: x.mul_(3), options=REGIONS)(x),
}


@pytest.mark.parametrize("write", WRITES)
def test_another_thread_writes_what_late_calls_read(write):
    def f(x):
        y = x * 2
        elsewhere(WRITES[write], x)
        return y, x + 1
    x = tede.rand(300, 100)
    z = x.clone()
    y, after = tede.compile(f, options=REGIONS)(z)
    assert tede.equal(y, x * 2) and tede.equal(after, z + 1) and not tede.equal(z, x)


def test_gradients_on_another_thread():
    def f(w, x):
        loss = (x * w).tanh().sum()
        elsewhere(loss.backward)
        return w.grad * 2
    w, x = tede.rand(300, 100, requires_grad=True), tede.rand(300, 100)
    g = tede.compile(f, options=REGIONS)(w, x)
    v = w.detach().clone().requires_grad_()
    (x * v).tanh().sum().backward()
    assert tede.equal(g, v.grad * 2)


def test_hooks_wait_for_another_thread():
    """A pass within a region holds the lock, and a hook lets it go while it waits."""
    with ThreadPoolExecutor(1) as pool:
        def f(w):
            y = w * 2
            y.register_hook(lambda g: pool.submit(lambda: g * w.detach()).result())
            y.sum().backward()
            return w.grad
        w = tede.rand(300, 100, requires_grad=True)
        assert tede.equal(tede.compile(f, options=REGIONS)(w), w.detach() * 2)


class Nested(tede.autograd.Function):
    """Its backward pass runs another, `depth` deep."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.save_for_backward(x)
        ctx.depth = depth
        return x * 2

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        if not ctx.depth:
            return g * x, None
        with tede.enable_grad():
            y = x.detach().requires_grad_()
            Nested.apply(y * 1, ctx.depth - 1).sum().backward()
        return y.grad * g, None


def test_passes_so_deep_that_they_need_another_thread():
    def f(x):
        y = x.detach().clone().requires_grad_()
        Nested.apply(y, 60).sum().backward()
        return y.grad
    x = tede.rand(300, 100)
    assert tede.equal(tede.compile(f, options=REGIONS)(x), x)


def test_threads_in_regions_that_exchange_tensors():
    """Three threads, each in a region, take turns at tensors that all have: the same steps in one thread, without a region, give the same."""
    def steps(rng, tensors):
        i, j, k = (rng.randrange(len(tensors)) for _ in range(3))
        which = rng.randrange(6)
        if which == 0:
            tensors[i] = tensors[j] * 0.5 + tensors[k]
        elif which == 1:
            tensors[i].mul_(0.5).add_(tensors[j])
        elif which == 2:
            tensors[i][rng.randrange(200):].copy_(tensors[j][:1])
        elif which == 3:
            tensors[i] = tensors[j].softmax(1) + tensors[k].T.contiguous().T
        elif which == 4:
            tede.sub(tensors[j], tensors[k], out=tensors[i]) if i not in (j, k) else tensors[i].neg_()
        else:
            tensors[i] = (tensors[j] - tensors[k].mean(0)).tanh_()

    def make():
        g = tede.Generator().manual_seed(7)
        return [tede.rand(200, 100, generator=g) for _ in range(5)]
    for seed in range(6):
        expected, rng = make(), random.Random(seed)
        for _ in range(60):
            steps(rng, expected)
        found, rng, turn, errors = make(), random.Random(seed), [0], []
        condition = threading.Condition()

        def work(me, found=found, rng=rng, turn=turn, errors=errors, condition=condition):
            def turns():
                for _ in range(20):
                    with condition:
                        condition.wait_for(lambda: turn[0] % 3 == me or errors)
                        try:
                            steps(rng, found)
                        except Exception as error:
                            errors.append(error)
                            raise
                        finally:
                            turn[0] += 1
                            condition.notify_all()
            tede.compile(turns, options=REGIONS)()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not errors and all(tede.equal(a, b) for a, b in zip(found, expected, strict=True)), seed


def test_threads_in_regions_without_turns():
    """Each has tensors of its own; one list is read by all."""
    shared = [tede.rand(300, 100) for _ in range(4)]

    def work(seed):
        def f():
            x = shared[seed] * 1
            for i in range(200):
                x = (x * 0.5 + shared[(seed + i) % 4]).tanh()
                if i % 50 == 20:
                    x.sum().item()
            return x
        return tede.compile(f, options=REGIONS)() if seed != 3 else f()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for seed in range(4):
        x = shared[seed] * 1
        for i in range(200):
            x = (x * 0.5 + shared[(seed + i) % 4]).tanh()
        assert tede.equal(x, found[seed])


def test_an_error_of_what_another_thread_computes_is_the_regions():
    def f(x):
        y = x.expand(2**37) * 2             # 512 GB
        with pytest.raises(RuntimeError, match="lost by an error"):
            elsewhere(lambda: y[:5].tolist())
        return elsewhere(lambda: x + 1)
    with pytest.raises(RuntimeError, match="allocate"):
        tede.compile(f, options=REGIONS)(tede.rand(1))
