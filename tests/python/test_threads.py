"""Threads change how long a result takes, never the result; and a process forked after threaded work computes."""
import concurrent.futures
import multiprocessing
import os
import sys
import threading
import time
import timeit

import numpy
import pytest

import tede


def results():
    """Something of every kind that is cut into ranges: loops, sums, products, softmax, sorting, random numbers."""
    tede.manual_seed(7)
    x = tede.randn(300, 1000)
    yield tede.exp(x)
    yield x.sum()
    yield x.sum(0)
    yield x.var(1)
    yield x @ x.t()
    yield tede.softmax(x, 1)
    yield x.t().contiguous()
    yield x.reshape(1000, 20, 15) @ x.reshape(1000, 15, 20)
    yield tede.nn.functional.layer_norm(x, (1000,))
    q = x[:256, :512].reshape(4, 8, 64, 64)
    yield tede.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    image = x[:64, :784].reshape(4, 16, 28, 28)
    yield tede.nn.functional.conv2d(image, x[:32, :144].reshape(32, 16, 3, 3), padding=1)
    yield tede.cumsum(x, 1)
    yield tede.sort(x, 1)[0]
    w = tede.randn(1000, 50, requires_grad=True)
    tede.tanh(x @ w).square().mean().backward()
    yield w.grad
    for kind in ("LSTM", "GRU", "RNN"):     # units that fill no vector
        layer = getattr(tede.nn, kind)(30, 150)
        layer(x[:160, :30].reshape(10, 16, 30))[0].square().sum().backward()
        for p in layer.parameters():
            yield p.grad


@pytest.fixture(autouse=True)
def threads():
    before = tede.get_num_threads()
    yield
    tede.set_num_threads(before)


def test_results_are_the_same_bits_with_one_and_two_threads():
    tede.set_num_threads(1)
    one = [x.detach().numpy().tobytes() for x in results()]
    tede.set_num_threads(2)
    two = [x.detach().numpy().tobytes() for x in results()]
    assert [a == b for a, b in zip(one, two)] == [True] * len(one)


@pytest.mark.parametrize('n', [100_003, 131_072, 1_000_001, 7_000_003])
def test_every_other_long_loop_goes_from_the_end(n):
    """On one thread; which way it goes doesn't show, whether results stay in the caches or are written past them."""
    tede.set_num_threads(1)
    x = tede.arange(n).to(tede.float32)
    calls = [lambda: x + x, lambda: x * 2, lambda: x.to(tede.bfloat16), lambda: x.clone(), lambda: x > 5, lambda: x.clone().add_(x)]
    for call in calls:
        first, second, third = call(), call(), call()
        assert tede.equal(first, second) and tede.equal(first, third)
    assert (x + x).numpy().tolist()[-5:] == [2.0 * i for i in range(n - 5, n)]


def test_a_child_forked_after_threaded_work_computes():
    tede.set_num_threads(2)
    x = tede.ones(500, 500)
    expected = (x @ x).sum().item()
    child = os.fork()
    if child == 0:
        fine = tede.get_num_threads() == 2 and (x @ x).sum().item() == expected and (x.exp() > 2.7).all().item()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def spin(_=None):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.2:
        count += 1
    return count


def gives_two_cores(pool):
    """Whether two processes that only count get nearly twice as far as one, right now."""
    alone = pool.apply(spin)
    return sum(pool.map(spin, range(2), chunksize=1)) > 1.85 * alone


def copied_by_two(x):
    """Seconds in which two threads copy the floats of x with NumPy: what the memory gives when nothing is computed."""
    source, target = x.numpy(), numpy.empty_like(x.numpy())
    halves = slice(0, len(source) // 2), slice(len(source) // 2, None)
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        def work():
            list(two.map(lambda half: numpy.copyto(target[half], source[half]), halves))
        return min(timeit.repeat(work, number=1, repeat=8))


def sorted_by_two(x):
    """Seconds in which two threads sort a half of x each: what two cores and their memory give when nobody merges."""
    tede.set_num_threads(1)
    halves = [half.clone() for half in x.chunk(2)]
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        return min(timeit.repeat(lambda: list(two.map(tede.sort, halves)), number=1, repeat=8))


@pytest.mark.alone
@pytest.mark.parametrize('name', ['product', 'conv', 'attention', 'sort', 'exp in cache', 'exp'])
def test_two_threads_are_at_least_1_6_times_one(name):
    """Judged only by rounds before and after which the machine had two cores to give.

    Where one thread nearly fills the memory's bandwidth (exp of 10 million), two have done all there is to do when they take
    hardly longer than two threads that only copy as much; and of a sort, hardly longer than two threads with a half each."""
    shape = {'product': (1024, 1024), 'conv': (8, 64, 56, 56), 'attention': (4, 8, 512, 64), 'sort': 1_000_000,
             'exp in cache': 1_000_000, 'exp': 10_000_000}[name]
    x = tede.randn(shape)
    kernel = tede.randn(64, 64, 3, 3)
    functional = tede.nn.functional
    work = {'product': lambda: x @ x,
            'conv': lambda: functional.conv2d(x, kernel, padding=1),
            'attention': lambda: functional.scaled_dot_product_attention(x, x, x),
            'sort': lambda: tede.sort(x)}.get(name, lambda: tede.exp(x))
    seen = []
    with multiprocessing.get_context('spawn').Pool(2) as pool:
        pool.map(spin, range(2), chunksize=1)
        for _ in range(20):
            fair = gives_two_cores(pool)
            best = {}
            for threads in (1, 2):
                tede.set_num_threads(threads)
                best[threads] = min(timeit.repeat(work, number=1, repeat=8))
            if name in ('exp', 'sort'):
                best['apart'] = copied_by_two(x) if name == 'exp' else sorted_by_two(x)
            if best[1] >= 1.6 * best[2] or best[2] <= 1.1 * best.get('apart', 0):
                return
            if fair and gives_two_cores(pool):
                seen.append(best)
            if len(seen) == 4:
                pytest.fail(f'{name}, seconds by threads: {seen}')
    pytest.skip('the machine has no second core to give at the moment')


def test_of_several_values_for_one_place_the_last_stays():
    """Why use_deterministic_algorithms() has nothing to refuse here."""
    n = 200_000
    tede.use_deterministic_algorithms(True)
    try:
        assert tede.zeros(2).put_(tede.zeros(n, dtype=tede.int64), tede.arange(float(n)))[0].item() == n - 1
        unpooled = tede.nn.functional.max_unpool1d(tede.arange(float(n)).reshape(1, 1, n), tede.zeros(1, 1, n, dtype=tede.int64), 2)
        assert unpooled[0, 0, 0].item() == n - 1
    finally:
        tede.use_deterministic_algorithms(False)


def test_an_activation_in_place_with_a_negative_slope_has_its_gradient():
    for activate, slope in ((tede.nn.functional.elu_, -1.), (tede.celu_, -1.), (tede.nn.functional.leaky_relu_, -.5)):
        x = tede.tensor([-1., 2.], requires_grad=True)
        activate(x * 1, slope).sum().backward()
        y = x.detach().clone().requires_grad_()
        getattr(tede.nn.functional, activate.__name__[:-1])(y, slope).sum().backward()
        assert tede.equal(x.grad, y.grad)


BIG = 1 << 21


@pytest.mark.parametrize("call", [
    lambda x, y, i, m: x + y, lambda x, y, i, m: x * 2, lambda x, y, i, m: x.add(y), lambda x, y, i, m: x[i], lambda x, y, i, m: x[m],
    lambda x, y, i, m: x.__setitem__(slice(None), y), lambda x, y, i, m: x.__setitem__(slice(None), 1.5),
    lambda x, y, i, m: x.__setitem__(i, y), lambda x, y, i, m: x.__setitem__(m, 2.0), lambda x, y, i, m: x.to(tede.float64),
    lambda x, y, i, m: x.double(), lambda x, y, i, m: tede.tensor(x), lambda x, y, i, m: tede.asarray(x, copy=True),
    lambda x, y, i, m: tede.from_dlpack(x, copy=True)],
    ids=["+", "*", "add", "x[i]", "x[m]", "x[:] = y", "x[:] = 1.5", "x[i] = y", "x[m] = 2", "to", "double", "tensor", "asarray", "dlpack"])
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_long_work_lets_other_threads_run(call):
    """A thread that waits for the lock gets it only if the call gives it up: nobody else would for 100 s."""
    x, y, i = tede.ones(BIG), tede.ones(BIG), tede.arange(BIG)
    m, turns, stop, before = x > 0, 0, False, sys.getswitchinterval()

    def other():
        nonlocal turns
        while not stop:
            turns += 1
            time.sleep(0)
    thread = threading.Thread(target=other)
    sys.setswitchinterval(100)
    try:
        thread.start()
        ran, tries = False, 0
        while not ran and tries < 100:      # it may wake up too late once, on a busy machine
            seen, tries = turns, tries + 1
            call(x, y, i, m)
            ran = turns > seen
    finally:
        stop = True
        sys.setswitchinterval(before)
        thread.join()
    assert ran


def test_operands_outlive_a_call_that_gives_up_the_lock():
    """Another thread takes the tensors away from their objects while they are read."""
    x, stop = [tede.ones(1 << 18)], False

    def other():
        while not stop:
            x[0].data = tede.ones(1 << 18)
            tede.utils.swap_tensors(x[0], tede.ones(1 << 18))
    thread = threading.Thread(target=other)
    thread.start()
    try:
        for _ in range(50):
            assert (x[0] + x[0])[5].item() == 2 and x[0].double()[7].item() == 1 and (x[0] * 2).sum().item() == 2 << 18
    finally:
        stop = True
        thread.join()
