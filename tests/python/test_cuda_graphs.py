"""CUDA graphs: what a stream is asked for, recorded once and done again at each replay. On the fake driver of tests/python/fake_cuda, which does nothing of what is
recorded before the replay, refuses what the driver refuses meanwhile, and whose memory nobody else can read."""
import cuda_environment
import pytest
from test_cuda import fake  # noqa: F401

tede = pytest.importorskip("tede")


def test_a_replay_does_again_what_was_recorded(fake):  # noqa: F811
    fake("""
        x, w = tede.ones(4, 4, device="cuda"), tede.full((4, 4), 2., device="cuda")
        g = tede.cuda.CUDAGraph()
        before = count("launches")
        assert not tede.cuda.is_current_stream_capturing()
        with tede.cuda.graph(g):
            assert tede.cuda.is_current_stream_capturing()
            y = (x @ w).relu() + 1
            z = tede.softmax(y, 1)
        assert not tede.cuda.is_current_stream_capturing()
        tede.cuda.synchronize()
        assert count("graphs") == 1 and count("graph launches") == 0
        for value in 1., -3., 5.:
            x.fill_(value)
            g.replay()
            assert y.tolist() == [[max(8 * value, 0) + 1] * 4] * 4 and z.tolist() == [[0.25] * 4] * 4
        assert count("graph launches") == 3
        raises(RuntimeError, "already owns a captured graph", g.capture_begin)
        g.reset()
        assert count("graphs") == 0
        raises(RuntimeError, "without a preceding successful capture", g.replay)
    """)


def test_a_training_step_is_a_graph(fake):  # noqa: F811
    fake("""
        def steps(recorded):
            tede.manual_seed(0)
            model = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.GELU(), tede.nn.LayerNorm(8), tede.nn.Linear(8, 3)).cuda()
            optimizer = tede.optim.SGD(model.parameters(), lr=0.1)
            x, y = tede.empty(6, 4, device="cuda"), tede.empty(6, dtype=tede.int64, device="cuda")
            data = [(tede.randn(6, 4), tede.randint(3, (6,))) for _ in range(5)]
            def step():
                optimizer.zero_grad(set_to_none=False)
                loss = tede.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss
            def load(i):
                x.copy_(data[i][0]), y.copy_(data[i][1])
            losses = []
            for i in 0, 1:
                load(i)
                losses.append(step().item())
            if recorded:
                g = tede.cuda.CUDAGraph()
                with tede.cuda.graph(g):
                    loss = step()
            for i in 2, 3, 4:
                load(i)
                if recorded:
                    g.replay()
                    losses.append(loss.item())
                else:
                    losses.append(step().item())
            return losses
        assert steps(False) == steps(True)
        assert count("graph launches") == 3
    """)


def test_memory_of_a_graph_is_its_own_until_it_is_reset(fake):  # noqa: F811
    fake("""
        x = tede.ones(1000, device="cuda")
        x + 1
        g = tede.cuda.CUDAGraph()
        with tede.cuda.graph(g):
            y = x * 2
            for _ in range(20):
                y = y + 1               # what is freed is used again within the graph
        reserved = tede.cuda.memory_reserved()
        g.replay()
        others = [tede.zeros(1000, device="cuda") for _ in range(50)]
        side = tede.cuda.Stream()
        with side:
            others += [tede.zeros(1000, device="cuda") for _ in range(50)]
        tede.cuda.synchronize()
        g.replay()
        assert y.tolist() == [22.] * 1000
        assert all(o.sum().item() == 0 for o in others)
        del others, y
        tede.cuda.empty_cache()
        left = tede.cuda.memory_reserved()
        g.reset()
        tede.cuda.empty_cache()
        assert tede.cuda.memory_reserved() < left
        del g, x
        import gc
        gc.collect()
        tede.cuda.synchronize()
        tede.cuda.empty_cache()
        assert tede.cuda.memory_reserved() == 0 == tede.cuda.memory_allocated() and count("graphs") == 0
    """)


def test_graphs_that_share_a_pool(fake):  # noqa: F811
    fake("""
        x = tede.ones(1000, device="cuda")
        a, b = tede.cuda.CUDAGraph(), tede.cuda.CUDAGraph()
        with tede.cuda.graph(a):
            y = x + 1
            z = y + 1
            del y
        reserved = tede.cuda.memory_reserved()
        with tede.cuda.graph(b, pool=a.pool()):
            w = z * 2
        assert tede.cuda.memory_reserved() == reserved and b.pool() == a.pool() != (0, 0)
        a.replay(), b.replay()
        assert z.sum().item() == 3000 and w.sum().item() == 6000
        a.reset()
        x.fill_(2)
        b.replay()
        assert w.sum().item() == 6000
        handle = tede.cuda.graph_pool_handle()
        c = tede.cuda.CUDAGraph()
        with tede.cuda.graph(c, pool=handle):
            v = x + 1
        c.replay()
        assert v.sum().item() == 3000 and c.pool() == handle
    """)


def test_random_numbers_are_new_at_each_replay(fake):  # noqa: F811
    fake("""
        own = tede.Generator(device="cuda").manual_seed(3)
        def draw():
            return (tede.randn(33, device="cuda"), tede.nn.functional.dropout(tede.ones(64, device="cuda"), 0.5), tede.rand(5, device="cuda", generator=own),
                    tede.randint(10**12, (7,), device="cuda"), tede.empty(9, device="cuda").bernoulli_(0.3), tede.bernoulli(each), tede.poisson(each * 9),
                    tede.normal(0, each), tede.multinomial(each, 5), tede.multinomial(each, 30, replacement=True))
        each = tede.linspace(0, 1, 17, device="cuda")
        tede.cuda.manual_seed(5)
        expected = [[x.cpu() for x in draw()] for _ in range(3)]
        after = tede.cuda.get_rng_state()
        own.manual_seed(3)
        g = tede.cuda.CUDAGraph()
        tede.cuda.manual_seed(5)
        with tede.cuda.graph(g):
            drawn = draw()
        for there in expected:
            g.replay()
            for x, y in zip(drawn, there):
                assert tede.equal(x.cpu(), y)
        assert tede.equal(tede.cuda.get_rng_state(), after)
        assert not tede.equal(expected[0][0], expected[1][0])
        each[3] = -1
        g.replay()
        raises(RuntimeError, "p_in >= 0 && p_in <= 1", tede.cuda.synchronize)
    """)


def test_what_waits_spoils_a_recording_and_nothing_else(fake):  # noqa: F811
    fake("""
        x = tede.ones(3, device="cuda")
        g = tede.cuda.CUDAGraph()
        def wait():
            with tede.cuda.graph(g):
                (x + 1).sum().item()
        raises(RuntimeError, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", wait)
        raises(RuntimeError, "without a preceding successful capture", g.replay)
        g.reset()
        def end_of_a_spoiled_one():
            with tede.cuda.graph(g):
                try:
                    tede.cuda.synchronize()
                except RuntimeError:
                    pass
        raises(RuntimeError, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", end_of_a_spoiled_one)
        g.reset()
        raises(RuntimeError, "non-default stream", g.capture_begin)
        raises(RuntimeError, "capture_end", g.capture_end)
        with tede.cuda.Stream():
            raises(RuntimeError, "Unknown capture error mode", lambda: g.capture_begin(capture_error_mode="mine"))
        with tede.cuda.graph(g):
            y = x + 1
        g.replay()
        assert y.tolist() == [2, 2, 2]
        fake.fake_cuda_fail(b"cuGraphLaunch", 0, 700)
        raises(RuntimeError, "a graph's launch failed: CUDA_ERROR_ILLEGAL_ADDRESS", g.replay)
        h = tede.cuda.CUDAGraph()
        fake.fake_cuda_fail(b"cuStreamBeginCapture_v2", 0, 1)
        def begin():
            with tede.cuda.graph(h):
                pass
        raises(RuntimeError, "beginning a graph failed: CUDA_ERROR_INVALID_VALUE", begin)
        fake.fake_cuda_fail(b"cuGraphInstantiateWithFlags", 0, 2)
        raises(tede.OutOfMemoryError, "recording a graph", begin)
        h.reset()
        begin()
        h.replay()
        assert count("graphs") == 2
    """)


def test_a_second_stream_joins_by_an_event_and_has_memory_of_the_graph(fake):  # noqa: F811
    fake("""
        x = tede.arange(1000., device="cuda")
        g, side = tede.cuda.CUDAGraph(), tede.cuda.Stream()
        with tede.cuda.graph(g):
            y = x + 1
            main = tede.cuda.current_stream()
            side.wait_stream(main)
            with side:
                assert tede.cuda.is_current_stream_capturing()
                z = y * 2
                y.record_stream(side)
            main.wait_stream(side)
            z.record_stream(main)
            w = z + y
            del z, y
            v = w - x
        with side:
            assert not tede.cuda.is_current_stream_capturing()
        for value in 1., 2.:
            x.fill_(value)
            g.replay()
            assert w.tolist() == [3 * (value + 1)] * 1000 and v.tolist() == [2 * value + 3] * 1000
        def unjoined():
            with tede.cuda.graph(tede.cuda.CUDAGraph()):
                side.wait_stream(tede.cuda.current_stream())
                with side:
                    x + 1
        raises(RuntimeError, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", unjoined)
    """)


def test_an_index_out_of_range_is_raised_by_what_waits_for_the_replay(fake):  # noqa: F811
    fake("""
        x, i = tede.arange(5., device="cuda"), tede.tensor([1, 2], device="cuda")
        x[i]
        g = tede.cuda.CUDAGraph()
        with tede.cuda.graph(g):
            y = x[i] * 2
        g.replay()
        assert y.tolist() == [2, 4]
        for wait in (lambda: y.sum().item(), lambda: tede.cuda.current_stream().synchronize(), tede.cuda.synchronize):
            i.fill_(9)
            g.replay()
            raises(IndexError, "index 9 is out of bounds for dimension 0 with size 5", wait)
            i.fill_(3)
            g.replay()
            assert y.tolist() == [6, 6]
        other = tede.cuda.Stream()
        other.wait_stream(tede.cuda.current_stream())
        with other:
            i.fill_(7)
            g.replay()
            raises(IndexError, "index 7", other.synchronize)
    """)


def test_two_threads_and_the_modes(fake):  # noqa: F811
    fake("""
        import threading
        x = tede.ones(4, device="cuda")
        (x + 1).cpu()
        def capture(mode, meanwhile):
            g = tede.cuda.CUDAGraph()
            with tede.cuda.graph(g, capture_error_mode=mode):
                y = x + 1
                t = threading.Thread(target=meanwhile)
                t.start(), t.join()
            g.replay()
            assert y.sum().item() == 8
        results = []
        capture("global", lambda: results.append(tede.ones(5000000, device="cuda") * 2))           # allocates, launches
        def wait():
            with tede.cuda.Stream():
                results.append((x * 3).tolist())
        capture("thread_local", wait)
        capture("relaxed", wait)
        assert results[1:] == [[3.] * 4] * 2 and results[0].max().item() == 2
    """)


def test_a_driver_without_graphs_says_so(fake, tmp_path):  # noqa: F811
    """As drivers before CUDA 11.4: everything else works."""
    cuda_environment.build(tmp_path, "-DcuGraphInstantiateWithFlags=nobody_finds_it")
    fake("""
        def record():
            with tede.cuda.graph(tede.cuda.CUDAGraph()):
                pass
        raises(RuntimeError, "a driver of CUDA 11.4", record)
        assert (tede.ones(3, device="cuda") + 1).sum().item() == 6
    """, TEDE_CUDA_PATH=str(tmp_path))


# ---- functions of tede.compile(mode="reduce-overhead"): what devices are asked for again is launched as a graph

def test_a_training_step_that_comes_again_is_one_launch(fake):  # noqa: F811
    fake("""
        F = tede.nn.functional
        def losses(mode):
            tede.manual_seed(0), tede.cuda.manual_seed(0)
            model = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.GELU(), tede.nn.Dropout(0.3), tede.nn.LayerNorm(8), tede.nn.Linear(8, 3)).cuda()
            optimizer = tede.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            data = [(tede.randn(6, 4), tede.randint(3, (6,))) for _ in range(9)]
            x, y = tede.empty(6, 4, device="cuda"), tede.empty(6, dtype=tede.int64, device="cuda")
            def step():
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss
            run, found = tede.compile(step, mode=mode) if mode else step, []
            for a, b in data:
                x.copy_(a), y.copy_(b)
                asked = lambda: (count("launches") - count("graph kernels"), count("graph launches"))
                before = asked()
                found.append(run().item())
                launched.append(tuple(a - b for a, b in zip(asked(), before)))
            return found
        launched = []
        expected = losses(None)
        for mode in "reduce-overhead", "max-autotune":
            launched.clear()
            assert losses(mode) == expected
            assert launched[-1] == (0, 1), launched
        assert count("graphs") == 0 and tede.compiler.stats()["graphs"] >= 2 and tede.compiler.stats()["graph_calls"] > 100      # they went with the functions
        launched.clear()
        assert losses("default") == expected and launched[-1][1] == 0
    """)


def test_random_numbers_of_a_step_are_those_without_a_graph(fake):  # noqa: F811
    fake("""
        own = tede.Generator(device="cuda").manual_seed(3)
        x = tede.ones(64, device="cuda")
        def draw():
            a = tede.randn(33, device="cuda") + 1
            b = tede.nn.functional.dropout(x, 0.5) * 2
            c = tede.rand(5, device="cuda", generator=own) + a[:5]
            return a, b, c, tede.randint(10**12, (7,), device="cuda"), tede.bernoulli(each) + 1, tede.poisson(each * 20)
        each = tede.linspace(0, 1, 17, device="cuda")
        def seven(f):
            tede.cuda.manual_seed(5), own.manual_seed(3)
            found = []
            for i in range(9):
                if i == 6:
                    tede.cuda.manual_seed(11)       # in the midst
                found.append([y.tolist() for y in f()])
            return found, tede.cuda.get_rng_state().tolist(), own.get_state().tolist()
        expected, compiled = seven(draw), tede.compile(draw, mode="reduce-overhead")
        assert seven(compiled) == expected and seven(compiled) == expected
        assert count("graph launches") > 0
        each[2] = 2
        raises(RuntimeError, "p_in >= 0 && p_in <= 1", lambda: compiled()[4].tolist())
    """)


def test_a_step_whose_addresses_sizes_or_numbers_change(fake):  # noqa: F811
    fake("""
        def f(x, k):
            y = (x * k).relu()
            y += 1
            return y @ y.t()
        compiled = tede.compile(f, mode="reduce-overhead")
        held, launches = [], []
        def both(x, k):
            held.append(compiled(x, k))
            assert tede.allclose(held[-1].cpu(), f(x.cpu(), k)), (x.shape, k)
        x, z = tede.randn(4, 5).cuda(), tede.randn(3, 5).cuda()
        for i in range(6):                  # results are held: each has another address
            both(x, 2.)
        assert count("graph launches") == 0
        held.clear()
        for i in range(40):
            both([x, z][i // 5 % 2], [2., 3.][i // 10 % 2])
            held.clear()
        assert count("graph launches") > 0 and count("graphs") <= 4
        x = tede.randn(4, 5).cuda()         # elsewhere
        for i in range(5):
            x.normal_()
            both(x, 2.)
            held.clear()
    """)


def test_values_that_are_read_divide_a_step(fake):  # noqa: F811
    fake("""
        x = tede.ones(4, device="cuda")
        def f():
            y = x * 2 + 1
            if y.sum().item() > 100:
                y = y - 100
            x.copy_(y)
            side = tede.cuda.Stream()
            side.wait_stream(tede.cuda.current_stream())
            with side:
                z = y * 3
            tede.cuda.current_stream().wait_stream(side)
            return (z + y - 1).tolist()
        def run(f):
            x.fill_(1.)
            return [f() for _ in range(12)]
        expected = run(f)
        compiled = tede.compile(f, mode="reduce-overhead")
        assert run(compiled) == expected and run(compiled) == expected and run(compiled) == expected
        assert count("graph launches") > 0
    """)


def test_what_is_kept_back_is_seen_by_all(fake):  # noqa: F811
    """Other threads, another index, the CPU, memory that is short and an error of the function: what was asked for before is done before."""
    fake("""
        import threading
        x, log = tede.zeros(1000, device="cuda"), []
        def from_thread(call):
            t = threading.Thread(target=lambda: log.append(call()))
            t.start(), t.join()
        def f(see):
            x.add_(1)
            y = x * 2
            y += 1
            see(y)
            return (y + x).sum()
        compiled = tede.compile(f, mode="reduce-overhead")
        sees = [lambda y: None, lambda y: from_thread(lambda: y[0].item()), lambda y: log.append(y.to("cuda:1")[0].item()), lambda y: log.append(y.cpu()[0].item()),
                lambda y: log.append((tede.cuda.synchronize(), y.sum().item())[1] / 1000), lambda y: tede.cuda.empty_cache(),
                lambda y: log.append((tede.cuda.current_stream().cuda_stream, y[0].item())[1])]
        for i in range(60):
            see = sees[i % 7 if i > 5 else 0]
            before = len(log)
            assert compiled(see).item() == 1000 * (3 * (i + 1) + 1), i
            assert log[before:] in ([], [2 * (i + 1) + 1]), (i, log[before:])
        assert len(log) > 30 and count("graph launches") > 10
        def bad(y):
            raises(IndexError, "out of bounds", lambda: (y[tede.tensor([5000], device="cuda")].sum().item()))
            raise KeyError("mine")
        raises(KeyError, "mine", lambda: compiled(bad))
        assert x[0].item() == 61
    """)


def test_memory_that_is_short_while_calls_are_kept_back(fake):  # noqa: F811
    fake("""
        x = tede.ones(1000, device="cuda")
        def f():
            y = x * 2
            y = tede.ones(3 << 20, device="cuda") * y[0]
            y = y + 1
            del y
            return tede.full((5 << 20,), 3., device="cuda")[-1] + x[0]
        compiled = tede.compile(f, mode="reduce-overhead")
        tede.cuda.set_per_process_memory_fraction(1.0)
        for i in range(8):
            if i == 5:
                tede.cuda.empty_cache()
                fake.fake_cuda_limit(60 << 20)
            assert compiled().item() == 4
        fake.fake_cuda_limit(0)
    """)


def test_a_step_that_cannot_be_recorded_is_done_call_by_call(fake):  # noqa: F811
    fake("""
        x = tede.arange(5., device="cuda")
        def f():
            return ((x * 2 + 1) @ x).exp() * 0 + 7
        compiled = tede.compile(f, mode="reduce-overhead")
        for name, status in (b"cuStreamBeginCapture_v2", 1), (b"cuGraphInstantiateWithFlags", 2):
            compiled = tede.compile(f, mode="reduce-overhead")
            for i in range(6):
                if i == 2:
                    fake.fake_cuda_fail(name, 0, status)
                assert compiled().item() == 7
        assert count("graph launches") == 0
        compiled = tede.compile(f, mode="reduce-overhead")
        for i in range(4):
            assert compiled().item() == 7
        fake.fake_cuda_fail(b"cuGraphLaunch", 0, 700)
        raises(RuntimeError, "a graph's launch failed: CUDA_ERROR_ILLEGAL_ADDRESS", compiled)
        del compiled
        import gc
        gc.collect()
        assert count("graphs") == 0
    """)


def test_an_index_out_of_range_in_a_step_that_comes_again(fake):  # noqa: F811
    fake("""
        x, i = tede.arange(5., device="cuda"), tede.tensor([1, 2], device="cuda")
        compiled = tede.compile(lambda: (x[i] * 2 + 1).sum(), mode="reduce-overhead")
        for n in range(8):
            assert compiled().item() == 8
        assert count("graph launches") > 0
        i.fill_(9)
        raises(IndexError, "index 9 is out of bounds for dimension 0 with size 5", lambda: compiled().item())
        i.fill_(3)
        assert compiled().item() == 14
    """)


def test_a_graph_of_the_programs_own_within_a_step(fake):  # noqa: F811
    fake("""
        x, g = tede.ones(4, device="cuda"), tede.cuda.CUDAGraph()
        (x + 1).cpu()
        with tede.cuda.graph(g):
            y = x * 2
        def f():
            x.add_(1)
            x.mul_(1)
            g.replay()
            return (y + x).sum()
        compiled = tede.compile(f, mode="reduce-overhead")
        for i in range(8):
            assert compiled().item() == 4 * 3 * (i + 2), i
    """)
