"""NCCL as an engine of groups: processes with the fake CUDA of tests/python/fake_cuda, whose NCCL exchanges files. No GPU is needed, and none is used."""
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import cuda_environment
import pytest

tede = pytest.importorskip("tede")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PRELUDE = """
import ctypes, datetime, os, sys, time
import tede
import tede.distributed as dist
fake = ctypes.CDLL(os.environ["TEDE_CUDA_PATH"] + "/libcuda.so.1")
count = lambda name: fake.fake_cuda_count(name.encode())
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60))
rank, n = dist.get_rank(), dist.get_world_size()
base = tede.arange(6.)
def there(x):
    return x.to("cuda")
def zeros():
    return there(tede.zeros(6))
def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("nothing was raised")
"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    if not cuda_environment.CC:
        pytest.skip("no C compiler")
    return {**cuda_environment.build(tmp_path_factory.mktemp("cuda")), "FAKE_CUDA_NVRTC": ""}


@pytest.fixture
def ranks(fake, tmp_path):
    """ranks(code, n): what n processes print that run it."""
    launcher = pathlib.Path(sys.executable).parent / "mpiexec"
    from tede import _C
    if not launcher.exists() or not _C._group_engine_there("mpi"):
        pytest.skip("no MPI")

    def run(code, n=2, *options):
        environment = {**os.environ, **fake, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([str(launcher), *options, "-n", str(n), sys.executable, "-c", PRELUDE + textwrap.dedent(code)], capture_output=True, text=True,
                              timeout=120, env=environment)
        assert done.returncode == 0 or options, done.stdout + done.stderr
        return done.stdout + (done.stderr if options else "")
    return run


@pytest.mark.parametrize("n", [2, 3])
def test_collectives(ranks, tmp_path, n):
    ranks("""
        x = there(base + rank)
        dist.all_reduce(x)
        assert x.tolist() == [n * v + n * (n - 1) / 2 for v in base.tolist()]
        for op, value in ((dist.ReduceOp.AVG, lambda v: v + (n - 1) / 2), (dist.ReduceOp.MIN, lambda v: v), (dist.ReduceOp.MAX, lambda v: v + n - 1)):
            x = there(base + rank)
            dist.all_reduce(x, op)
            assert x.tolist() == [value(v) for v in base.tolist()]
        flags = there(tede.tensor([rank == 0, False]))
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        assert flags.tolist() == [True, False]
        for dtype in (tede.float16, tede.bfloat16, tede.float64, tede.int32, tede.int64, tede.uint8, tede.int8):
            x = there(tede.full((4,), rank + 1).to(dtype))
            dist.all_reduce(x)
            assert x.tolist() == [n * (n + 1) // 2] * 4, dtype
        c = there(tede.full((3,), 1 + 2j))
        dist.all_reduce(c)
        assert c.tolist() == [n * (1 + 2j)] * 3

        x = there(base + rank)
        dist.broadcast(x, n - 1)
        assert x.tolist() == (base + n - 1).tolist()
        x = there(base + rank)
        dist.reduce(x, 1)
        assert rank != 1 or x.tolist() == [n * v + n * (n - 1) / 2 for v in base.tolist()]

        every = [(base + r).tolist() for r in range(n)]
        whole, before = there(tede.zeros(n * 6)), count("collectives")
        dist.all_gather_into_tensor(whole, there(base + rank))
        assert whole.reshape(n, 6).tolist() == every and count("collectives") == before + 1
        parts = [zeros() for _ in range(n)]
        dist.all_gather(parts, there(base + rank))
        assert [p.tolist() for p in parts] == every

        mine = [n * (v + 10 * rank) + n * (n - 1) / 2 for v in base.tolist()]
        out, before = zeros(), count("collectives")
        dist.reduce_scatter_tensor(out, there(tede.cat([base + rank + 10 * r for r in range(n)])))
        assert out.tolist() == mine and count("collectives") == before + 1
        out = zeros()
        dist.reduce_scatter(out, [there(base + rank + 10 * r) for r in range(n)])
        assert out.tolist() == mine

        parts = [zeros() for _ in range(n)]
        dist.all_to_all(parts, [there(base + 100 * rank + r) for r in range(n)])
        assert [p.tolist() for p in parts] == [(base + 100 * r + rank).tolist() for r in range(n)]
        parts = [zeros() for _ in range(n)] if rank == 1 else None
        dist.gather(there(base + rank), parts, 1)
        assert rank != 1 or [p.tolist() for p in parts] == every
        out = zeros()
        dist.scatter(out, [there(base + 7 * r) for r in range(n)] if rank == 0 else None, 0)
        assert out.tolist() == (base + 7 * rank).tolist()
        rows = there(tede.zeros(6, 2))[:, 0]            # elements that aren't neighbours
        rows.copy_(base)
        dist.all_reduce(rows)
        assert rows.tolist() == (base * n).tolist()
        dist.barrier()
        dist.destroy_process_group()
        assert count("communicators") == 0
    """, n)
    assert not list(tmp_path.glob("fake_nccl_*"))


def test_messages_of_which_all_are_sent_first(ranks):
    ranks("""
        other = zeros()
        send, receive = dist.isend(there(base + rank), 1 - rank), dist.irecv(other, 1 - rank)
        send.wait(), receive.wait()
        assert other.tolist() == (base + 1 - rank).tolist()
        other, send = zeros(), dist.isend(there(base - rank), 1 - rank)
        time.sleep(0.2)                                 # the thread that moves work on asks for the send meanwhile
        receive = dist.irecv(other, 1 - rank)
        send.wait(), receive.wait()
        assert other.tolist() == (base - 1 + rank).tolist()
        other = zeros()
        dist.send(there(base * 2), 1) if rank == 0 else dist.recv(other, 0)
        assert rank == 0 or other.tolist() == (base * 2).tolist()
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, there(base * 3), 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)])
        for work in works:
            work.wait()
        assert other.tolist() == (base * 3).tolist()
        dist.destroy_process_group()
    """)


def test_calls_are_in_the_order_of_the_stream(ranks):
    ranks("""
        x = there(base)
        for _ in range(3):
            x = x * 2 + rank
            work = dist.all_reduce(x, async_op=True)
            y = x + 1                                   # of what the call writes
            work.wait()
        if rank == 0:
            a = b = base
            for _ in range(3):
                a, b = a * 2, b * 2 + 1
                a = b = a + b
            assert x.tolist() == a.tolist() and y.tolist() == (a + 1).tolist()
        pair = dist.new_group([0, 1])
        dist.all_reduce(x, group=pair)
        dist.destroy_process_group()
    """)


def test_errors(ranks):
    ranks("""
        raises(ValueError, "no bitwise", lambda: dist.all_reduce(there(tede.ones(2, dtype=tede.int32)), dist.ReduceOp.BXOR))
        raises(TypeError, "no reduction of", lambda: dist.all_reduce(there(tede.ones(2, dtype=tede.int16))))
        raises(RuntimeError, "No backend type associated with device type cpu", lambda: dist.all_reduce(tede.ones(2)))
        dist.all_reduce(there(base))
        raises(RuntimeError, "one device", lambda: dist.all_reduce(tede.ones(2, device="cuda:1")))
        fake.fake_cuda_fail(b"ncclBroadcast", 0, 2)
        raises(RuntimeError, "unhandled system error", lambda: dist.broadcast(there(base), 0))
        dist.destroy_process_group()
    """)


def test_a_rank_that_does_not_come_is_a_timeout_and_leaves_the_device_usable(ranks):
    out = ranks("""
        dist.all_reduce(there(base))
        if rank == 1:
            time.sleep(15)
            os._exit(0)
        dist.distributed_c10d._get_default_group().set_timeout(datetime.timedelta(seconds=2))
        start = time.monotonic()
        raises(RuntimeError, "Timed out", lambda: dist.all_reduce(there(base)))
        assert time.monotonic() - start < 10
        tede.cuda.synchronize()
        assert (there(base) + 1).tolist() == (base + 1).tolist()
        raises(RuntimeError, "failed before", lambda: dist.all_reduce(there(base)))
        print("alive", flush=True)
        os._exit(0)
    """, 2, "-disable-auto-cleanup")
    assert "alive\n" in out, out


def test_data_parallel_on_cuda(ranks):
    ranks("""
        tede.manual_seed(0)
        net = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.Tanh(), tede.nn.Linear(8, 2))
        alone = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.Tanh(), tede.nn.Linear(8, 2))
        alone.load_state_dict(net.state_dict())
        data = tede.randn(8, 4)
        net = tede.nn.parallel.DistributedDataParallel(net.cuda(), device_ids=[0])
        net(there(data[rank::n])).square().mean().backward()
        alone(data).square().mean().backward()
        for a, b in zip(net.module.parameters(), alone.parameters()):
            tede.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-6)
        dist.destroy_process_group()
    """)


ENGINE = """
#include <tede/group.h>
void *seen;
static int there;
static void *open_group(td_group_options *options) { (void)options; return &there; }
static void close_group(void *group) { (void)group; }
static void *all_reduce(void *group, const td_engine_call *call) { (void)group; seen = call->stream; return &there; }
static int test(void *group, void *request, int *source) { (void)group, (void)request, (void)source; return 1; }
static int release(void *group, void *request) { (void)group, (void)request; return 1; }
static const td_group_engine engine = {.abi = TD_GROUP_ABI, .size = sizeof engine, .name = "seeing", .devices = 1 << TD_CPU | 1 << TD_CUDA, .open = open_group,
    .close = close_group, .call = {[TD_ALL_REDUCE] = all_reduce}, .test = test, .release = release};
__attribute__((constructor)) static void begin(void) { (void)!td_group_register(&engine); }
"""


def test_engines_get_the_current_stream(fake, library):
    plugin = library("seeing", text=ENGINE)
    code = f"""
        import ctypes
        import tede
        from tede import _C
        tede.ops.load_library({plugin!r})
        seen, group = ctypes.c_void_p.in_dll(ctypes.CDLL({plugin!r}), "seen"), _C._Group("seeing", "seeing", 0, 2, [0, 1])
        def stream_of(x):
            group.start(0, [x], [x], 0, 1.0, 0, 0, 0.0, False).wait()
            return seen.value or 0
        x, stream = tede.ones(3).to("cuda"), tede.cuda.Stream()
        assert stream_of(x) == tede.cuda.current_stream().native_handle
        with tede.cuda.stream(stream):
            assert stream_of(x) == stream.native_handle != 0
        assert stream_of(tede.ones(3)) == 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120, env={**os.environ, **fake, "OMP_NUM_THREADS": "1"})


def test_declarations_are_those_of_the_header(tmp_path):
    """Where the wheels of NCCL and of CUDA's runtime, or a toolkit, are installed."""
    places = [*(pathlib.Path(p) for p in sys.path), *pathlib.Path("/usr/local").glob("cuda*"), *map(pathlib.Path, os.environ.get("NCCL_HOME", "").split())]
    nccl = next((p / f for p in places for f in ("nvidia/nccl/include", "include") if (p / f / "nccl.h").exists()), None)
    runtime = next((p / f for p in places for f in ("nvidia/cuda_runtime/include", "nvidia/cu13/include", "include") if (p / f / "cuda_runtime.h").exists()), None)
    if not (nccl and runtime and shutil.which("cc")):
        pytest.skip("no nccl.h, no cuda_runtime.h, or no C compiler")
    (tmp_path / "same.c").write_text(f"""
        #include <nccl.h>
        #define TEDE_NCCL_COMPARE
        #include "{ROOT / "engines/nccl/api.h"}"
        #define SAME(name, number) _Static_assert((int)name == number, #name);
        NCCL_NUMBERS(SAME)
        #define TYPE(result, name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result (*) arguments), #name);
        NCCL_FUNCTIONS(TYPE)
    """)
    subprocess.run(["cc", "-fsyntax-only", f"-I{nccl}", f"-I{runtime}", str(tmp_path / "same.c")], check=True)
