"""CUDA as a device: the library that comes with tede, on a fake driver (tests/python/fake_cuda), which runs kernels on the CPU; and what is printed
for CUDA, through the real compiler where that is installed. No GPU is needed, and none is used."""
import ctypes.util
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import cuda_environment
import formula_kernels as fk
import nvrtc
import pytest
import test_formula

tede = pytest.importorskip("tede")
HERE = pathlib.Path(__file__).resolve().parent
DEVICES = HERE.parents[1] / "devices/cuda"
# What each program begins with.
PRELUDE = """
import ctypes, os, sys
sys.path.insert(0, {here!r})
import tede
fake = ctypes.CDLL({fake!r})
fake.fake_cuda_limit.argtypes = [ctypes.c_size_t]
count = lambda name: fake.fake_cuda_count(name.encode())
def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("nothing was raised")
"""
# With the table's functions called directly.
TABLE = """
import device_table
from device_table import *
from tede import config
tede.load_device("cuda")
table = device_table.of(config.folder("lib") + "/tede/cuda.so")
zero, one, cpu = Device(2, 0), Device(2, 1), Device(0, -1)
def fails(words, status):
    assert status in (-1, None), status
    message = device_table.error()
    assert words in message, message
"""


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    """fake(code, **environment): what a program prints that has the fake CUDA."""
    if not cuda_environment.CC:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("cuda")
    given = {**cuda_environment.build(folder), "FAKE_CUDA_NVRTC": ""}

    def run(code, fails=False, **environment):
        text = PRELUDE.format(here=str(HERE), fake=str(folder / "libcuda.so.1")) + textwrap.dedent(code).replace("TABLE\n", TABLE)
        environment = {**os.environ, **given, **environment}
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=300)
        assert (done.returncode == 0) != fails, done.stderr
        return done.stdout if not fails else done
    return run


# ---- the device, as programs see it

def test_elementwise_operators_and_copies_are_the_cpus(fake):
    fake("""
        from test_opencl import CALLS
        for number, call in enumerate(CALLS):
            tede.manual_seed(0)
            x, y = tede.randn(5, 7), tede.randn(7)
            here, there = call(x.clone(), y.clone()), call(x.cuda(), y.cuda())
            assert there.device == tede.device("cuda:0"), number
            assert (there.dtype, there.shape, there.stride()) == (here.dtype, here.shape, here.stride()), number
            tede.testing.assert_close(there.cpu(), here, rtol=2e-6, atol=1e-6, msg=lambda m: f"call {number}: {m}")
        x = tede.arange(100000.)                        # more elements than one round of all groups takes
        assert tede.equal((x.cuda() * 2 + 1).cpu(), x * 2 + 1)
        assert count("launches") > len(CALLS)
    """)


def test_a_fused_step_of_many_parameters_is_a_few_launches(fake):
    fake("""
        lists = [[tede.full((5,), value, device="cuda") for _ in range(150)] for value in (1., 2., 3., 4.)]
        steps = [tede.ones((), device="cuda") for _ in range(150)]
        lists[0][0].cpu()
        before = count("launches")
        tede._fused_adamw_(*lists, [], steps, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0., eps=1e-8, amsgrad=False, maximize=False)
        assert count("launches") - before == 3
        assert all(tede.equal(p, lists[0][0]) and p[0].item() != 1 for p in lists[0])
    """)


def test_asking_whether_there_is_one_loads_it(fake):
    fake("""
        from tede.cuda import is_available
        assert is_available() and tede.cuda.is_available() and tede.cuda.device_count() == 2 and tede.cuda.get_device_name(1) == "Fake 1"
    """)
    fake("assert tede.cuda.device_count() == 2 and tede.cuda.get_device_name() == 'Fake 0'")
    fake("assert tede.backends.cudnn.version() == 99999")
    fake("s = tede.cuda.Stream(); assert isinstance(s, tede.Stream) and s.device == tede.device('cuda:0') and tede.cuda.CUDAGraph().pool() == (0, 0)")
    fake("tede.cuda.manual_seed(5); assert tede.cuda.initial_seed() == 5 and tede.rand(2, device='cuda').tolist() == tede.rand(2, device='cuda', "
         "generator=tede.Generator(device='cuda').manual_seed(5)).tolist()")
    fake("raises(AssertionError, 'Torch not compiled with CUDA enabled', tede.cuda.current_stream)", FAKE_CUDA_NONE="1")
    fake("assert not tede.cuda.is_available() and tede.cuda.device_count() == 0 and tede.backends.cudnn.version() is None", FAKE_CUDA_NONE="1")


def test_the_first_use_loads_it_and_gradients_run_on_a_worker(fake):
    fake("""
        x = tede.arange(4., device="cuda", requires_grad=True)
        assert x.is_cuda and tede.cuda.device_count() == 2
        (x * x).sum().backward()
        assert x.grad.device == x.device and x.grad.tolist() == [0, 2, 4, 6]
        import threading
        results = []
        def work(index):
            y = tede.ones(1000, device=f"cuda:{index}")
            for _ in range(20):
                y = y + 1
            results.append((index, y.cpu().sum().item()))
        threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert sorted(results) == [(0, 21000.0), (0, 21000.0), (1, 21000.0), (1, 21000.0)]
    """)


def test_a_backward_pass_runs_on_the_stream_that_is_current_where_it_begins(fake):
    fake("""
        x = tede.arange(4., device="cuda", requires_grad=True)
        side = tede.cuda.Stream()
        side.wait_stream(tede.cuda.current_stream())
        with side:
            y = x * x
            y.register_hook(lambda grad: streams.append(tede.cuda.current_stream()))
            for streams in [], []:
                y.sum().backward(retain_graph=True)
                assert streams == [side]
            assert x.grad.tolist() == [0, 4, 8, 12]
        assert tede.cuda.current_stream() != side
    """)


def test_work_is_late_and_memory_is_closed(fake):
    done = fake("""
        x = tede.ones(1000, device="cuda")
        y = x + 1
        assert fake.fake_cuda_late() > 0
        tede.cuda.synchronize()
        assert fake.fake_cuda_late() == 0
        print("reading", flush=True)
        ctypes.string_at(y.data_ptr(), 4)
        print("read", flush=True)
    """, fails=True)
    assert done.stdout == "reading\n" and done.returncode < 0


def test_numbers_that_are_filled_in_wait_for_nothing(fake):
    fake("""
        x, z = tede.ones(3, device="cuda", requires_grad=True), tede.zeros((), device="cuda")
        for call in (lambda: tede.ones_like(z), lambda: z.fill_(3), lambda: tede.full((), 2.5, dtype=tede.float64, device="cuda"), lambda: (x * 2).sum().backward()):
            for _ in range(50):
                x.detach() + 1
            before = fake.fake_cuda_late()
            call()
            assert before >= 50 and fake.fake_cuda_late() > before
        assert z.item() == 3 and x.grad.tolist() == [2, 2, 2]
    """)


def test_no_call_waits_for_the_device_to_check_its_indices(fake):
    fake("""
        F = tede.nn.functional
        x, i = tede.ones(20, 4, device="cuda", requires_grad=True), tede.tensor([3, 19, 20], device="cuda")
        flat, more, wide = x.detach(), tede.ones(3, 4, device="cuda"), i[:, None].expand(3, 4).contiguous()
        calls = [lambda: x[i], lambda: x[i, i % 4], lambda: x.gather(0, wide), lambda: x.index_select(0, i), lambda: x.take(i * 4), lambda: F.embedding(i, x),
                 lambda: flat.scatter_(0, wide, more), lambda: flat.scatter_(0, wide, 2.), lambda: flat.index_add_(0, i, more),
                 lambda: flat.index_put_((i,), more[0]),
                 lambda: F.cross_entropy(x.t(), i[1:].repeat(2)), lambda: F.nll_loss(x.t(), i[1:].repeat(2)), lambda: F.embedding(i, x).sum().backward()]
        for number, call in enumerate(calls):
            for _ in range(50):
                flat + 1
            before = fake.fake_cuda_late()
            call()
            assert before >= 50 and fake.fake_cuda_late() > before, number      # all of it is still to be done
            raises((IndexError, RuntimeError), "before this call)", tede.cuda.synchronize)
            tede.cuda.synchronize()
        # A copy that goes on meanwhile raises nothing, the event behind it does.
        y, there, event = x.detach()[i], tede.empty(3, 4, pin_memory=True), tede.cuda.Event()
        there.copy_(y, non_blocking=True)
        event.record()
        raises(IndexError, "index 20 is out of bounds for dimension 0 with size 20 (in index, which cuda:0 ran", event.synchronize)
        assert there.tolist() == [[1] * 4, [1] * 4, [0] * 4]
    """)


def test_two_devices_copy_from_each_other(fake):
    fake("""
        x = tede.arange(1000.)
        a, b = x.to("cuda:0"), x.to("cuda:1")
        for _ in range(10):
            b = (a + 1).to("cuda:1") + 1
            a = b.to("cuda:0")
        assert tede.equal(a.cpu(), x + 20) and tede.equal(b.cpu(), x + 20) and b.device.index == 1
        raises(RuntimeError, "at least two devices, cuda:0 and cuda:1", lambda: a + b)
        raises(RuntimeError, "invalid device ordinal", lambda: tede.ones(1, device="cuda:2"))
    """)


def test_programs_are_kept_on_disk_by_device(fake, tmp_path):
    code = """
        for index in range(2):
            assert (tede.ones(3, device=f"cuda:{index}") + 41).tolist() == [42, 42, 42]
        print(count("compiled"), count("modules"))
    """
    assert fake(code, TEDE_KERNEL_CACHE=str(tmp_path)).split() == ["4", "4"]         # what fills and what adds, for sm_80 and sm_90
    assert fake(code, TEDE_KERNEL_CACHE=str(tmp_path)).split() == ["0", "4"]


def test_a_device_that_is_newer_than_the_compiler_gets_ptx(fake):
    fake("assert (tede.ones(3, device='cuda') + 41).tolist() == [42, 42, 42]", FAKE_CUDA_ARCHITECTURE="120")
    fake("raises(RuntimeError, \"doesn't compile for compute capability 7.0 any more\", lambda: tede.ones(3, device='cuda') + 1)",
         FAKE_CUDA_ARCHITECTURE="70")


# ---- errors

def test_memory_that_runs_out(fake):
    fake("""
        fake.fake_cuda_limit(64 << 20)
        x = tede.empty(4 << 20, device="cuda")
        raises(tede.OutOfMemoryError, "CUDA_ERROR_OUT_OF_MEMORY", lambda: tede.empty(40 << 20, device="cuda"))
        y = tede.empty(4 << 20, device="cuda").fill_(3)
        assert y[-1].item() == 3
    """)


def test_what_the_driver_refuses_is_an_exception_with_its_name(fake):
    fake("""
        x = tede.ones(3, device="cuda") + 1
        for function, call in (("cuLaunchKernel", lambda: x + 1), ("cuMemcpyDtoHAsync_v2", x.cpu), ("cuCtxGetCurrent", lambda: x + 1),
                               ("cuStreamSynchronize", x.cpu), ("cuModuleLoadData", lambda: x * 5), ("cuModuleGetFunction", lambda: x / 5)):
            fake.fake_cuda_fail(function.encode(), 0, 400)
            raises(RuntimeError, "CUDA_ERROR_INVALID_HANDLE (400)", call)
            assert (x + 1).tolist() == [3, 3, 3]        # and the next call works
    """)


def test_what_is_filled_does_not_come_from_the_cpu(fake):
    fake("""
        x = tede.empty(1 << 20, device="cuda")
        fake.fake_cuda_fail(b"cuMemcpyHtoDAsync_v2", 0, 400)            # the next one would be noticed
        before = count("launches")
        x.zero_(), tede.zeros(5000, device="cuda"), tede.zeros_like(x)
        assert count("launches") == before                              # by the driver
        y, z = tede.full((5000,), 2.5, device="cuda"), x[1:-1:2].zero_()
        assert count("launches") == before + 2
        assert (y == 2.5).all().item() and (x == 0).all().item()
        raises(RuntimeError, "CUDA_ERROR_INVALID_HANDLE (400)", lambda: tede.ones(3).to("cuda"))
        fake.fake_cuda_fail(b"cuMemsetD8Async", 0, 400)
        raises(RuntimeError, "CUDA_ERROR_INVALID_HANDLE (400)", x.zero_)
        x.zero_()
    """)


def test_the_context_that_another_library_made_current_is_noticed(fake):
    fake("""
        x, y = tede.ones(3, device="cuda:0") + 1, tede.ones(3, device="cuda:1") + 1
        context = ctypes.c_void_p()
        assert fake.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
        for _ in range(2):
            assert fake.cuCtxSetCurrent(context) == 0
            assert (x + 1).tolist() == [3, 3, 3] and (y + 1).tolist() == [3, 3, 3]
            assert fake.cuCtxSetCurrent(None) == 0
            assert (x * 2).tolist() == [4, 4, 4]
        fake.fake_cuda_fail(b"cuCtxSetCurrent", 0, 400)
        raises(RuntimeError, "CUDA_ERROR_INVALID_HANDLE (400)", lambda: y + 1)
        assert (y + 1).tolist() == [3, 3, 3]
    """)


def test_a_device_that_is_lost_raises_on_each_call(fake):
    fake("""
        x = tede.ones(3, device="cuda") + 1
        other = tede.ones(3, device="cuda:1")
        tede.cuda.synchronize()
        fake.fake_cuda_doom(0)
        y = x + 1                                       # late: nobody knows yet
        raises(RuntimeError, "CUDA_ERROR_ILLEGAL_ADDRESS", y.cpu)
        for call in (lambda: x + 1, x.cpu, tede.cuda.synchronize, lambda: tede.empty(1 << 24, device="cuda:0")):
            raises(RuntimeError, "CUDA_ERROR_ILLEGAL_ADDRESS", call)
        assert (other + 1).tolist() == [2, 2, 2]
    """)


def test_a_forked_process_says_so(fake):
    fake("""
        x = tede.ones(3, device="cuda")
        child = os.fork()
        if child == 0:
            raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess", lambda: x + 1)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)


def test_what_is_missing_is_named(fake, tmp_path):
    fake("""
        for use in (lambda: tede.load_device("cuda"),):
            raises(RuntimeError, "there is a driver, but no CUDA device", use)
        raises(AssertionError, "Torch not compiled with CUDA enabled (cuda: there is a driver, but no CUDA device)", lambda: tede.ones(1, device="cuda"))
    """, FAKE_CUDA_NONE="1")
    (tmp_path / "libcuda.so.1").write_text("no library")
    fake("""
        raises(RuntimeError, "cuda: there is no NVIDIA driver (", lambda: tede.load_device("cuda"))
        raises(AssertionError, "Torch not compiled with CUDA enabled (cuda: there is no NVIDIA driver", lambda: tede.ones(1, device="cuda"))
    """, TEDE_CUDA_PATH="", LD_LIBRARY_PATH=str(tmp_path))


def test_without_a_compiler_the_extra_is_named(fake, tmp_path):
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader finds an NVRTC")
    from tede import config
    shutil.copy(config.folder("lib") + "/tede/cuda.so", tmp_path)            # not beside site-packages/nvidia
    fake(f"""
        os.environ["TEDE_CUDA_PATH"] = {str(tmp_path)!r}
        os.symlink(fake._name, {str(tmp_path / "libcuda.so.1")!r})
        tede._C._set_search_path("")
        tede.load_device({str(tmp_path / "cuda.so")!r})
        x = tede.empty(3, device="cuda")
        raises(RuntimeError, "libnvrtc.so.12 isn't found", lambda: x + 1)
        raises(RuntimeError, "pip install 'tede[cuda]'", lambda: x + 1)
    """, CUDA_HOME=str(tmp_path))


# ---- the table

def test_streams_run_apart_and_events_order_them(fake):
    fake("""
        TABLE
        n = 4096
        a, b, late = table.alloc(zero, n), table.alloc(zero, n), (ctypes.c_uint8 * n)()
        s, t = table.stream_new(zero, 0), table.stream_new(zero, 0)
        event, first, last = table.event_new(zero, False), table.event_new(zero, True), table.event_new(zero, True)
        assert table.event_query(zero, event) == 1                          # never recorded
        assert table.event_record(zero, first, s) == 0
        assert table.fill(zero, s, a, 7, n) == 0 and table.event_record(zero, event, s) == 0
        assert table.event_wait(zero, event, t) == 0
        assert table.transfer(zero, t, zero, b, zero, a, n, True) == 0
        assert table.event_record(zero, last, t) == 0
        assert fake.fake_cuda_late() == 6 and table.event_query(zero, last) == 0
        assert table.transfer(zero, t, cpu, ctypes.addressof(late), zero, b, n, False) == 0
        assert bytes(late) == bytes([7] * n) and table.event_query(zero, event) == 1
        milliseconds = c_double(-1)
        assert table.event_time(zero, first, last, ctypes.byref(milliseconds)) == 0 and 0 <= milliseconds.value < 1e4
        fails("CUDA_ERROR_INVALID_HANDLE", table.event_time(zero, event, last, ctypes.byref(milliseconds)))       # not made for times
        for e in (event, first, last): table.event_free(zero, e)
        for x in (s, t): table.stream_free(zero, x)
        for x in (a, b): table.free(zero, x, n)
        assert [count(name) for name in ("memory", "streams", "events")] == [0, 0, 0]
    """)


def test_an_event_of_one_device_is_waited_for_by_another(fake):
    fake("""
        TABLE
        a, b, seen = table.alloc(zero, 64), table.alloc(one, 64), (ctypes.c_uint8 * 64)()
        event = table.event_new(zero, False)
        table.fill(zero, None, a, 9, 64), table.event_record(zero, event, None), table.event_wait(one, event, None)
        assert table.transfer(one, None, one, b, zero, a, 64, True) == 0 and fake.fake_cuda_late() == 4
        assert table.synchronize(1) == 0 and fake.fake_cuda_late() == 0
        assert table.copy(cpu, ctypes.addressof(seen), one, b, 64) == 0 and set(seen) == {9}
        fails("CUDA_ERROR_INVALID_HANDLE", table.event_record(one, event, None))        # a stream of another context
    """)


def test_page_locked_memory_is_copied_from_later(fake):
    fake("""
        TABLE
        host, block = table.host_alloc(64), table.alloc(one, 64)
        ctypes.memset(host, 1, 64)
        assert table.transfer(one, None, one, block, cpu, host, 64, True) == 0 and fake.fake_cuda_late() == 1
        ctypes.memset(host, 2, 64)                                          # before it has been copied
        assert table.stream_synchronize(one, None) == 0
        ctypes.memset(host, 3, 64)
        assert table.transfer(one, None, cpu, host, one, block, 64, True) == 0
        assert set(ctypes.string_at(host, 64)) == {3} and table.synchronize(1) == 0 and set(ctypes.string_at(host, 64)) == {2}
        ctypes.memset(host, 4, 64)
        assert table.transfer(one, None, one, block, cpu, host, 64, False) == 0 and fake.fake_cuda_late() == 0      # waits
        table.host_free(host, 64)
        assert count("host") == 0
        unused, total = c_size_t(), c_size_t()
        assert table.memory_info(1, ctypes.byref(unused), ctypes.byref(total)) == 0 and total.value - unused.value == 64
        table.free(one, block, 64)
        fails("CUDA_ERROR_INVALID_VALUE", table.fill(one, None, block, 0, 64))            # no memory of the device any more
    """)


def test_programs_that_dont_compile_show_the_compilers_words(fake):
    fake("""
        TABLE
        binary = Binary()
        options = fk._options(fk.CUDA)
        good = b'extern "C" __global__ void f(int *x, const struct two { int a, b; } v) { if (threadIdx.x == 0) x[blockIdx.x] = v.a * 10 + v.b; }'
        fails("a program doesn't compile", table.build(zero, b"int f() { return nothing; }", options, ctypes.byref(binary)))
        fails("INVALID_OPTION", table.build(zero, good, b"--nonsense", ctypes.byref(binary)))
        assert not binary.data
        good = good.replace(b"const struct two { int a, b; } v", b"const two v").replace(b"extern", b"typedef struct two { int a, b; } two; extern", 1)
        program = table.build(zero, good, options, ctypes.byref(binary))
        assert program and binary.size > 0
        again = table.build(zero, good, options, ctypes.byref(binary))
        assert again and count("compiled") == 1
        fails("CUDA_ERROR_NOT_FOUND", table.kernel(zero, program, b"g"))
        kernel, block, seen = table.kernel(zero, program, b"f"), table.alloc(zero, 8), (ctypes.c_int * 2)()
        values = (ctypes.c_int * 2)(4, 2)
        arguments = (Argument * 2)(Argument(block, 0), Argument(ctypes.addressof(values), 8))
        assert table.launch(zero, None, kernel, 2, 1, 2, arguments) == 0
        values[0] = 9                                                       # the launch has taken it
        assert table.copy(cpu, ctypes.addressof(seen), zero, block, 8) == 0 and list(seen) == [42, 42]
        fails("0 groups", table.launch(zero, None, kernel, 0, 1, 2, arguments))
        fails("CUDA_ERROR_INVALID_HANDLE", table.launch(one, None, kernel, 1, 1, 2, arguments))       # a program of another device
        table.program_free(zero, program), table.program_free(zero, again)
        assert count("modules") == 0
        binary.data = ctypes.cast(ctypes.create_string_buffer(b"nothing that was compiled"), c_void_p)
        assert table.build(zero, good, options, ctypes.byref(binary)) is None and device_table.error() == ""
    """)


def test_products_by_the_vendors_library(fake):
    fake("""
        TABLE
        import itertools
        CODES = {"float16": 9, "bfloat16": 10, "float32": 11, "float64": 12}
        def operand(x, batched):
            strides = (x.stride() if batched else (0, *x.stride()))
            return Operand(x.data_ptr(), *strides)
        def run(dtype, a, b, c, alpha, beta):
            batched = a.dim() == 3
            m, k, n = *a.shape[-2:], b.shape[-1]
            p = Product(ctypes.sizeof(Product), CODES[dtype], a.shape[0] if batched else 1, m, n, k, operand(a, batched), operand(b, batched),
                        operand(c, batched), alpha, beta)
            status = table.product(Device(2, a.device.index), None, ctypes.byref(p))
            tede.cuda.synchronize(a.device.index)
            return status
        tede.manual_seed(0)
        done = 0
        for dtype, (m, k, n), index in itertools.product(CODES, ((3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)), (0, 1)):
            close = 1e-2 if dtype in ("float16", "bfloat16") else 1e-5
            kind = getattr(tede, dtype)
            for ta, tb, tc, batch, (alpha, beta) in itertools.product((0, 1), (0, 1), (0, 1), (None, 3), ((1, 0), (0.5, 2))):
                def make(rows, columns, transposed):
                    lead = [] if batch is None else [batch]
                    x = tede.randn(*lead, *((columns, rows + 2) if transposed else (rows, columns + 2))).to(kind)
                    return (x.to(f"cuda:{index}")[..., :-2], x[..., :-2]) if not transposed else \\
                           (x.to(f"cuda:{index}")[..., :-2].transpose(-1, -2), x[..., :-2].transpose(-1, -2))
                (a, ah), (b, bh), (c, ch) = make(m, k, ta), make(k, n, tb), make(m, n, tc)
                if beta == 0:
                    c.fill_(float("nan"))                                   # which isn't read
                wanted = alpha * (ah.double() @ bh.double()) + (beta * ch.double() if beta else 0)
                assert run(dtype, a, b, c, alpha, beta) == 0, (dtype, a.stride(), b.stride(), c.stride())
                tede.testing.assert_close(c.cpu().double(), wanted, rtol=close, atol=close * 10)
                done += 1
        assert count("products") == done and count("handles") == 2
        a, b, c = (tede.ones(4, 4, device="cuda") for _ in range(3))
        assert run("float32", a[::2, ::2], b[:2], c[:2], 1, 0) == 1         # elements apart in both directions: left to the core
        assert run("float32", a[:1].expand(4, 4), b, c, 1, 0) == 1
        fake.fake_cuda_fail(b"cublasGemmStridedBatchedEx", 0, 13)
        fails("a product failed with cuBLAS's error 13", run("float32", a, b, c, 1, 0))
        fake.fake_cuda_fail(b"cublasCreate_v2", 0, 3)
        stream = table.stream_new(zero, 0)
        p = Product(ctypes.sizeof(Product), 11, 1, 4, 4, 4, operand(a, False), operand(b, False), operand(c, False), 1, 0)
        fails("a handle failed with cuBLAS's error 3", table.product(zero, stream, ctypes.byref(p)))
        assert table.product(zero, stream, ctypes.byref(p)) == 0 and count("handles") == 3
    """)


def test_operators_use_the_vendors_products(fake):
    fake("""
        tede.manual_seed(0)
        a, b, c = tede.randn(5, 4), tede.randn(4, 3), tede.randn(5, 3)
        calls = [lambda a, b, c: a @ b, lambda a, b, c: tede.addmm(c, a, b, beta=0.5, alpha=2), lambda a, b, c: (b.t() @ a.t()).t(),
                 lambda a, b, c: tede.bmm(a.expand(2, 5, 4), b.expand(2, 4, 3)), lambda a, b, c: a.double() @ b.double(),
                 lambda a, b, c: tede.nn.functional.linear(a, b.t().contiguous(), c[0])]
        for number, call in enumerate(calls):
            before = count("products") + count("epilogues")
            tede.testing.assert_close(call(a.cuda(), b.cuda(), c.cuda()).cpu(), call(a, b, c), msg=lambda m: f"call {number}: {m}")
            assert count("products") + count("epilogues") == before + 1, number
    """)


def test_products_with_what_follows_them(fake):
    """All layouts and dtypes, with bias and activation, by the table's function; and what cuBLASLt declines or fails with."""
    fake("""
        TABLE
        import itertools
        CODES = {"float16": 9, "bfloat16": 10, "float32": 11, "float64": 12}
        def operand(x):
            return Operand(x.data_ptr(), *(x.stride() if x.dim() == 3 else (0, *x.stride())))
        def run(dtype, a, b, c, bias, epilogue, alpha=1, beta=0, flags=6, stream=None):
            p = Product(ctypes.sizeof(Product), CODES[dtype], a.shape[0] if a.dim() == 3 else 1, a.shape[-2], b.shape[-1], a.shape[-1], operand(a), operand(b),
                        operand(c), alpha, beta, flags)
            f = FusedProduct(ctypes.sizeof(FusedProduct), epilogue, None if bias is None else bias.data_ptr(), p)
            status = table.fused_product(Device(2, a.device.index), stream, ctypes.byref(f))
            tede.cuda.synchronize(a.device.index)
            return status
        F = tede.nn.functional
        after = [lambda x: x, tede.relu, lambda x: F.gelu(x, approximate="tanh")]
        tede.manual_seed(0)
        done = 0
        forms = ((None, 0, 1, 0, 1), (None, 1, 1, 0, 1), (None, 2, 1, 0, 1), (None, 1, 0.5, 2, 0), (2, 2, 0.5, 2, 1), (2, 0, 1, 0, 0))
        for dtype, (m, k, n) in itertools.product(CODES, ((2, 4, 6), (1, 4, 6), (4, 1, 6), (4, 20, 1), (1, 1, 1))):
            if dtype in ("float16", "bfloat16") and 1 in (k, n):                # no algorithm for rows of one half
                continue
            index = m % 2
            close = 1e-2 if dtype in ("float16", "bfloat16") else 1e-5
            kind = getattr(tede, dtype)
            for ta, tb, (batch, epilogue, alpha, beta, biased) in itertools.product((0, 1), (0, 1), forms):
                def make(rows, columns, transposed):
                    lead = [] if batch is None else [batch]
                    x = tede.randn(*lead, *((columns, rows + rows % 2 + 2) if transposed else (rows, columns + columns % 2 + 2))).to(kind)
                    there = x.to(f"cuda:{index}")
                    cut = lambda x: x[..., :rows].transpose(-1, -2) if transposed else x[..., :columns]
                    return cut(there), cut(x)
                (a, ah), (b, bh), (c, ch) = make(m, k, ta), make(k, n, tb), make(m, n, 0)
                bias = tede.randn(n).to(kind)
                there = bias.to(f"cuda:{index}") if biased else None
                if beta == 0:
                    c.fill_(float("nan"))                                   # which isn't read
                wanted = after[epilogue](alpha * (ah.double() @ bh.double()) + (beta * ch.double() if beta else 0) + (bias.double() if biased else 0))
                assert run(dtype, a, b, c, there, epilogue, alpha, beta) == 0, (dtype, a.stride(), b.stride(), c.stride())
                tede.testing.assert_close(c.cpu().double(), wanted, rtol=close, atol=close * 10)
                done += 1
        assert count("epilogues") == done and count("handles") == 2 and count("products") == 0 and count("descriptors") == 0
        known = count("algorithms")
        a, b, c, bias = (tede.ones(8, 8, device="cuda") for _ in range(4))
        flags = (lambda flags: (run("float32", a, b, c, bias, 1, flags=flags), count("compute")))
        assert flags(0) == (0, 68) and flags(1) == (0, 77) and flags(0) == (0, 68) and count("algorithms") == known + 2        # kept by shape
        assert run("float32", a[::2, ::2], b[:4], c[:4], bias, 1) == 1          # elements apart in both directions
        assert run("float32", a, b, c.t(), bias, 1) == 1 and run("float32", a, b, c.t(), None, 1) == 0      # a bias along columns
        assert run("float32", a[:, :7], b[:7], c, bias, 0) == 1                 # what it has no algorithm for, also the second time
        assert run("float32", a[:, :7], b[:7], c, bias, 0) == 1 and device_table.error() == ""
        half = tede.ones(10, 9, device="cuda", dtype=tede.float16)
        assert run("float16", half[:8, :8], half[:8, :8], half[:8, :8], None, 1) == 1           # rows at odd places
        assert count("descriptors") == 0
        for function, words in ((b"cublasLtMatmul", "a product failed"), (b"cublasLtMatmulDescCreate", "a product's description failed"),
                                (b"cublasLtMatrixLayoutCreate", "a product's description failed")):
            fake.fake_cuda_fail(function, 0, 13)
            fails(words + " with cuBLAS's error 13", run("float32", a, b, c, bias, 0))
        fake.fake_cuda_fail(b"cublasLtMatmulAlgoGetHeuristic", 0, 14)
        fails("a product's plan failed with cuBLAS's error 14", run("float32", a[:3], b, c[:3], bias, 0))
        fake.fake_cuda_fail(b"cublasLtMatmul", 0, 15)
        assert run("float32", a, b, c, bias, 0) == 1
        fake.fake_cuda_fail(b"cublasLtCreate", 0, 3)
        stream = table.stream_new(zero, 0)
        fails("a handle failed with cuBLAS's error 3", run("float32", a, b, c, bias, 0, stream=stream))
        assert count("descriptors") == 0
    """)


def test_operators_use_products_with_what_follows_them(fake):
    fake("""
        F = tede.nn.functional
        tede.manual_seed(0)
        x, w, bias, a = tede.randn(3, 5, 4), tede.randn(6, 4), tede.randn(6), tede.randn(5, 4)
        fused = [lambda x, w, bias, a: F.linear(x, w, bias), lambda x, w, bias, a: tede.addmm(bias, a, w.t()),
                 lambda x, w, bias, a: tede.addmm(bias[None], a, w.t(), alpha=2), lambda x, w, bias, a: tede.baddbmm(bias, x, w.t().expand(3, 4, 6)),
                 lambda x, w, bias, a: tede._addmm_activation(bias, a, w.t()), lambda x, w, bias, a: tede._addmm_activation(bias, a, w.t(), alpha=3),
                 lambda x, w, bias, a: F.linear(x.double(), w.double(), bias.double())]
        alone = [lambda x, w, bias, a: F.linear(x, w), lambda x, w, bias, a: tede.addmm(bias, a, w.t(), beta=2),
                 lambda x, w, bias, a: tede.addmm(x[:, :, :2].reshape(5, 6), a, w.t()),
                 lambda x, w, bias, a: F.linear(tede.cat([x, x], 2)[..., :7], tede.cat([w, w], 1)[:, :7], bias)]
        for number, call in enumerate(fused + alone):
            before, calls = (count("epilogues"), count("products")), tede._C._library_calls()
            result = call(*(t.cuda() for t in (x, w, bias, a)))
            tede.testing.assert_close(result.cpu(), call(x, w, bias, a), msg=lambda m: f"call {number}: {m}")
            assert (count("epilogues"), count("products")) == (before[0] + (call in fused), before[1] + (call in alone)), number
            assert tede._C._library_calls() == calls + 1, number
        operands = [t.cuda() for t in (bias, a, w.t())]
        before = count("epilogues")
        gelu = tede._addmm_activation(*operands, use_gelu=True)                 # the one with tanh on cuda, as in PyTorch
        tede.testing.assert_close(gelu.cpu(), F.gelu(tede.addmm(bias, a, w.t()), approximate="tanh"))
        assert count("epilogues") == before + 1
        tede.testing.assert_close(tede._addmm_activation(*operands, use_gelu=True, alpha=2).cpu(), F.gelu(tede.addmm(bias, a, w.t(), alpha=2), approximate="tanh"))
        for use_gelu in False, True:                    # what is differentiated is made of operators that have gradients
            leaves = [t.detach().clone().requires_grad_() for t in operands]
            tede._addmm_activation(*leaves, use_gelu=use_gelu).sum().backward()
            there = [t.cpu().detach().requires_grad_() for t in operands]
            y = tede.addmm(*there)
            (F.gelu(y, approximate="tanh") if use_gelu else y.relu()).sum().backward()
            for one, other in zip(leaves, there):
                tede.testing.assert_close(one.grad.cpu(), other.grad)
            y, t = tede.func.jvp(lambda a: tede._addmm_activation(leaves[0].detach(), a, leaves[2].detach(), use_gelu=use_gelu), (operands[1],), (operands[1],))
            assert t.abs().sum().item() > 0
            mapped = tede.vmap(lambda a: tede._addmm_activation(operands[0], a, operands[2], use_gelu=use_gelu))
            tede.testing.assert_close(mapped(tede.stack([operands[1]] * 2))[1], y)
        with tede.autocast("cuda", dtype=tede.float16), tede.no_grad():
            assert tede._addmm_activation(*operands).dtype == tede.float16
    """)


def test_without_cublaslt_biases_are_added_by_the_product(fake, tmp_path):
    if ctypes.util.find_library("cublasLt"):
        pytest.skip("the loader finds a cuBLASLt")
    fake(f"""
        for name in "libcuda.so.1", "libnvrtc.so.12", "libcublas.so.12":
            os.symlink(fake._name, {str(tmp_path)!r} + "/" + name)
        os.environ["TEDE_CUDA_PATH"] = {str(tmp_path)!r}
        x, w, bias = tede.randn(3, 4), tede.randn(5, 4), tede.randn(5)
        tede.testing.assert_close(tede.nn.functional.linear(x.cuda(), w.cuda(), bias.cuda()).cpu(), tede.nn.functional.linear(x, w, bias))
        tede.testing.assert_close(tede._addmm_activation(bias.cuda(), x.cuda(), w.cuda().t()).cpu(), tede.addmm(bias, x, w.t()).relu())
        assert count("epilogues") == 0 and count("products") == 2
        assert tede._C._library_calls() == 2 and tede._C._library_declined() == 3       # the activation, then its bias
    """, CUDA_HOME=str(tmp_path))


def test_without_cublas_products_are_left_to_the_core(fake, tmp_path):
    if ctypes.util.find_library("cublas"):
        pytest.skip("the loader finds a cuBLAS")
    fake(f"""
        import shutil
        for name in "libcuda.so.1", "libnvrtc.so.12":
            os.symlink(fake._name, {str(tmp_path)!r} + "/" + name)
        os.environ["TEDE_CUDA_PATH"] = {str(tmp_path)!r}
        TABLE
        a = tede.ones(4, 4, device="cuda")
        p = Product(ctypes.sizeof(Product), 11, 1, 4, 4, 4, *(Operand(a.data_ptr(), 0, 4, 1) for _ in range(3)), 1, 0)
        assert table.product(zero, None, ctypes.byref(p)) == 1 and device_table.error() == ""
    """, CUDA_HOME=str(tmp_path))


def test_products_round_as_programs_allow(fake):
    """The compute type 77 is float32 with operands rounded to TF32; the mode 16 forbids parts of sums in float16 and bfloat16."""
    fake("""
        x = {dtype: tede.ones(4, 4, device="cuda", dtype=dtype) for dtype in (tede.float32, tede.float64, tede.float16, tede.bfloat16)}
        def used(dtype):
            x[dtype] @ x[dtype]
            return count("compute"), count("math")
        matmul = tede.backends.cuda.matmul
        assert tede.get_float32_matmul_precision() == "highest" and not matmul.allow_tf32
        assert used(tede.float32)[0] == 68 and used(tede.float64)[0] == 70
        tede.set_float32_matmul_precision("high")
        assert matmul.allow_tf32 and used(tede.float32)[0] == 77 and used(tede.float64)[0] == 70 and used(tede.float16)[0] == 68
        matmul.allow_tf32 = False
        assert tede.get_float32_matmul_precision() == "highest" and used(tede.float32)[0] == 68
        assert used(tede.float16)[1] == used(tede.bfloat16)[1] == 0
        matmul.allow_bf16_reduced_precision_reduction = False
        assert used(tede.float16)[1] == 0 and used(tede.bfloat16)[1] == 16
        matmul.allow_fp16_reduced_precision_reduction = False
        assert used(tede.float16)[1] == 16 and count("handles") == 1
    """)


def test_threads_multiply_and_convolve_at_once(fake):
    fake("""
        import threading
        x, w = tede.randn(2, 3, 6, 6), tede.randn(4, 3, 3, 3)
        wanted, product = tede.nn.functional.conv2d(x, w), x @ x
        wrong = []
        def work(index):
            for _ in range(10):
                y = tede.nn.functional.conv2d(x.to(f"cuda:{index}"), w.to(f"cuda:{index}"))
                if not tede.allclose(y.cpu(), wanted, atol=1e-5) or not tede.allclose((x.to(y.device) @ x.to(y.device)).cpu(), product, atol=1e-5):
                    wrong.append(index)
        threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not wrong and count("convolutions") == 40 and count("plans") == 2 and count("handles") == 2
    """)


# ---- cuDNN

def test_operators_use_the_vendors_convolutions(fake):
    fake("""
        F = tede.nn.functional
        def some(*sizes): return tede.randn(sizes, requires_grad=True)
        calls = [(lambda x, w, b: F.conv2d(x, w, b, padding=1), some(2, 4, 7, 8), some(6, 4, 3, 3), some(6)),
                 (lambda x, w, b: F.conv1d(x, w, b, stride=2, dilation=2), some(2, 4, 17), some(6, 4, 3), some(6)),
                 (lambda x, w, b: F.conv3d(x, w, b, groups=2, padding=(0, 1, 2)), some(2, 4, 5, 6, 7), some(6, 2, 2, 3, 3), some(6)),
                 (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1), some(2, 4, 5, 6), some(4, 6, 3, 3), some(6)),
                 (lambda x, w, b: F.conv2d(x.contiguous(memory_format=tede.channels_last), w, b), some(2, 4, 7, 8), some(6, 4, 3, 3), some(6)),
                 (lambda x, w, b: F.conv2d(x[:, :, ::2].transpose(2, 3), w.transpose(2, 3), b), some(2, 4, 7, 8), some(6, 4, 3, 3), some(6))]
        for number, (call, *operands) in enumerate(calls):
            far = [x.detach().cuda().requires_grad_() for x in operands]
            before = count("convolutions")
            here, there = call(*operands), call(*far)
            assert count("convolutions") == before + 1, number
            assert there.stride() == here.stride(), number
            tede.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-4)
            slopes = tede.randn_like(here)
            wanted, got = tede.autograd.grad(here, operands, slopes), tede.autograd.grad(there, far, slopes.cuda())
            assert count("convolutions") == before + 3, number
            for a, b in zip(got, wanted):
                tede.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)
        cudnn, before = tede.backends.cudnn, count("convolutions")
        x, w = calls[0][1].detach().cuda(), calls[0][2].detach().cuda()
        with cudnn.flags(enabled=False):
            off = F.conv2d(x, w)
        assert count("convolutions") == before and tede.allclose(off, F.conv2d(x, w), atol=1e-4) and count("convolutions") == before + 1
        assert cudnn.is_available() and cudnn.version() == 99999 and cudnn.is_acceptable(x) and not cudnn.is_acceptable(x.cpu())
    """)


def test_convolutions_are_planned_once_and_as_programs_want_them(fake):
    """The fake's way 0 isn't deterministic; measured, 1 is the faster. Math 0 may round to TF32, 1 is of tensor cores, 3 doesn't round."""
    fake("""
        F, cudnn = tede.nn.functional, tede.backends.cudnn
        def used(dtype=tede.float32):
            x, w = tede.randn(2, 4, 6, 6, device="cuda", dtype=dtype), tede.randn(6, 4, 3, 3, device="cuda", dtype=dtype)
            before = count("convolutions")
            for _ in range(3):
                F.conv2d(x, w)
            assert count("convolutions") == before + 3
            return count("algorithm"), count("convolution math")
        assert used() == (0, 0) and used(tede.float64) == (0, 0) and used(tede.float16) == (0, 1) and used(tede.bfloat16) == (0, 1)
        assert count("plans") == 4 and count("descriptors") == 16
        cudnn.allow_tf32 = False
        assert used() == (0, 3) and used(tede.float16) == (0, 1) and count("plans") == 5
        cudnn.deterministic = True
        assert used() == (1, 3)
        cudnn.deterministic = False
        assert used() == (0, 3) and count("plans") == 6
        tede.use_deterministic_algorithms(True)
        assert used() == (1, 3)
        tede.use_deterministic_algorithms(False)
        assert count("measured") == 0
        cudnn.benchmark = True
        x, w = tede.randn(1, 4, 6, 6, device="cuda"), tede.randn(6, 4, 3, 3, device="cuda")
        y = F.conv2d(x, w)
        assert count("measured") == 1 and count("algorithm") == 1
        F.conv2d(x, w)
        assert count("measured") == 1
        tede.testing.assert_close(y.cpu(), F.conv2d(x.cpu(), w.cpu()), rtol=1e-4, atol=1e-4)
        x.requires_grad_(), w.requires_grad_()
        F.conv2d(x, w).sum().backward()
        assert count("measured") == 3
        here = x.detach().cpu().requires_grad_(), w.detach().cpu().requires_grad_()
        F.conv2d(*here).sum().backward()
        for a, b in zip((x, w), here):
            tede.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    """, FAKE_CUDNN_GRAPH="0")


def test_memory_that_a_convolution_works_in_is_the_streams(fake):
    """The fake spoils that memory when the work is done, which is late."""
    fake("""
        F = tede.nn.functional
        x, w = tede.randn(2, 4, 6, 6), tede.randn(6, 4, 3, 3)
        far, weight, wanted = x.cuda(), w.cuda(), F.conv2d(x, w)
        tede.cuda.synchronize()
        before = tede.cuda.memory_allocated()
        results = []
        for _ in range(3):
            y = F.conv2d(far, weight)
            kept = tede.full((250,), 7., device="cuda")                     # in what the convolution had
            other = tede.cuda.Stream()
            other.wait_stream(tede.cuda.current_stream())
            with tede.cuda.stream(other):
                z = F.conv2d(far, weight)
            results.append((y, z, kept))
        tede.cuda.synchronize()
        for y, z, kept in results:
            tede.testing.assert_close(y.cpu(), wanted, rtol=1e-4, atol=1e-4)
            tede.testing.assert_close(z.cpu(), wanted, rtol=1e-4, atol=1e-4)
            assert kept.cpu().eq(7).all()
        del y, z, kept, results
        assert tede.cuda.memory_allocated() == before
    """, FAKE_CUDNN_GRAPH="0")


def test_convolutions_that_the_vendor_doesnt_take(fake):
    fake("""
        F = tede.nn.functional
        x, w = tede.randn(2, 4, 40, 40), tede.randn(6, 4, 3, 3)
        def check(x, w, by=0, **options):
            before = count("convolutions")
            tede.testing.assert_close(F.conv2d(x.cuda(), w.cuda(), **options).cpu(), F.conv2d(x, w, **options), rtol=1e-4, atol=1e-3)
            assert count("convolutions") == before + by, options
        for _ in range(2):                                                  # asked once; then it is known
            check(x, w, dilation=7)
            check(x, w, stride=9)
        assert count("plans") == 0 and count("descriptors") == 0
        check(tede.randint(0, 9, (2, 4, 8, 8)), tede.randint(0, 9, (6, 4, 3, 3)))
        check(tede.randn(0, 4, 8, 8), w)
        far = tede.randn(6 * 4 * 3 * 3 + 1, device="cuda")
        y = F.conv2d(x.cuda(), far[1:].view(6, 4, 3, 3))                    # not at a multiple of 16 bytes
        assert count("convolutions") == 0 and tede.allclose(y.cpu(), F.conv2d(x, far.cpu()[1:].view(6, 4, 3, 3)), atol=1e-3)
        check(x, w, by=1)
    """, FAKE_CUDNN_GRAPH="0")
    fake("""
        x, w = tede.randn(2, 4, 40, 40), tede.randn(6, 4, 3, 3)
        far, weight = x.cuda(), w.cuda()
        unused, total = tede.cuda.mem_get_info()
        fake.fake_cuda_limit(total - unused + 2 * 6 * 38 * 38 * 4 + 600)    # enough for the result, and not for what the way works in
        y = tede.nn.functional.conv2d(far, weight)
        assert count("plans") == 1 and count("convolutions") == 0
        tede.testing.assert_close(y.cpu(), tede.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-3)
    """, TEDE_NO_CACHE="1", FAKE_CUDNN_GRAPH="0")


def test_what_cudnn_fails_with_is_an_exception(fake):
    fake("""
        F = tede.nn.functional
        x, w = tede.randn(2, 4, 8, 8, device="cuda"), tede.randn(6, 4, 3, 3, device="cuda")
        call = lambda: F.conv2d(x, w)
        fake.fake_cuda_fail(b"cudnnCreate", 0, 1001)
        raises(RuntimeError, "a handle of cuDNN (torch.backends.cudnn.enabled = False does without) failed: CUDNN_STATUS_NOT_INITIALIZED (1001) more of it", call)
        for function in (b"cudnnCreateTensorDescriptor", b"cudnnCreateFilterDescriptor", b"cudnnCreateConvolutionDescriptor", b"cudnnSetConvolutionNdDescriptor",
                         b"cudnnGetConvolutionForwardAlgorithm_v7"):
            fake.fake_cuda_fail(function, 0, 5003)
            raises(RuntimeError, "a convolution's plan failed: CUDNN_STATUS (5003)", call)
            assert count("descriptors") == 0
        fake.fake_cuda_fail(b"cudnnCreateTensorDescriptor", 1, 4003)
        raises(tede.OutOfMemoryError, "(4003)", call)
        y = call()
        fake.fake_cuda_fail(b"cudnnConvolutionForward", 0, 5000)
        raises(RuntimeError, "a convolution failed: CUDNN_STATUS (5000)", call)
        fake.fake_cuda_fail(b"cudnnConvolutionForward", 0, 3007)            # the core's kernel does it
        before = count("convolutions")
        assert tede.allclose(call(), y, atol=1e-4) and count("convolutions") == before
        assert tede.equal(call(), y) and count("convolutions") == before + 1
    """, FAKE_CUDNN_GRAPH="0")


def test_without_cudnn_convolutions_are_left_to_the_core(fake, tmp_path):
    if ctypes.util.find_library("cudnn"):
        pytest.skip("the loader finds a cuDNN")
    fake(f"""
        for name in "libcuda.so.1", "libnvrtc.so.12":
            os.symlink(fake._name, {str(tmp_path)!r} + "/" + name)
        os.environ["TEDE_CUDA_PATH"] = {str(tmp_path)!r}
        tede._C._set_search_path("")
        x, w = tede.randn(2, 4, 8, 8), tede.randn(6, 4, 3, 3)
        tede.testing.assert_close(tede.nn.functional.conv2d(x.cuda(), w.cuda()).cpu(), tede.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-4)
        cudnn = tede.backends.cudnn
        assert count("convolutions") == 0 and cudnn.version() is None and not cudnn.is_available() and cudnn.enabled
    """, CUDA_HOME=str(tmp_path))


# ---- cuDNN's graphs

def test_convolutions_are_cudnns_graphs(fake):
    """Each kind, in one to three dimensions and both layouts, by a graph that is planned once for a shape."""
    fake("""
        import itertools
        F = tede.nn.functional
        tede.manual_seed(0)
        calls = 0
        for (dims, last), dtype in itertools.product(((1, False), (2, False), (2, True), (3, False)), (tede.float32, tede.float64, tede.float16, tede.bfloat16)):
            x, w = tede.randn(2, 4, *(5, 6, 4)[:dims]).to(dtype), tede.randn(6, 2, *(3, 2, 2)[:dims]).to(dtype)
            options = dict(stride=(2, 1, 1)[:dims], padding=(1, 0, 1)[:dims], dilation=(1, 2, 1)[:dims], groups=2)
            convolve = getattr(F, f"conv{dims}d")
            here = x.double().requires_grad_(), w.double().requires_grad_()
            wanted = convolve(*here, **options)
            grad = tede.randn(wanted.shape).to(dtype)
            wanted.backward(grad.double())
            far = x.cuda(), w.cuda()
            if last:
                far = far[0].to(memory_format=tede.channels_last), far[1]
            far = [t.requires_grad_() for t in far]
            close = dict(rtol=1e-5, atol=1e-5) if dtype in (tede.float32, tede.float64) else dict(rtol=2e-2, atol=5e-2)
            for again in range(2):
                y = convolve(*far, **options)
                slopes = tede.autograd.grad(y, far, grad.cuda())
                for one, other in zip((y, *slopes), (wanted, here[0].grad, here[1].grad)):
                    tede.testing.assert_close(one.detach().cpu().double(), other.detach(), **close)
                calls += 3
                assert count("convolutions") == count("graph convolutions") == calls, (dims, dtype, last)
        assert count("plans") == count("descriptors") == calls // 2 - 4     # of what plans were made of nothing is left; some layouts are the same
        assert tede._C._library_calls() == calls and tede._C._library_declined() == 0
    """)


def test_graphs_are_what_programs_allow_and_else_the_older_calls_convolve(fake):
    """The fake's engine 1 uses tensor cores and isn't deterministic, 2 is plain; of a dilation of 7 it has none, and a stride of 9 is a mistake."""
    fake("""
        F, cudnn = tede.nn.functional, tede.backends.cudnn
        x, w = tede.randn(2, 4, 6, 6, device="cuda"), tede.randn(6, 4, 3, 3, device="cuda")
        def used(x=x, w=w, **options):
            before = count("graph convolutions"), count("convolutions")
            y = F.conv2d(x, w, **options)
            tede.testing.assert_close(y.cpu(), F.conv2d(x.cpu(), w.cpu(), **options), rtol=1e-3, atol=1e-3)
            return count("graph convolutions") - before[0], count("convolutions") - before[1], count("algorithm")
        assert used() == (1, 1, 1) and used(x.double(), w.double()) == (1, 1, 1)
        cudnn.allow_tf32 = False
        assert used() == (1, 1, 2) and used(x.double(), w.double()) == (1, 1, 1)
        cudnn.allow_tf32 = True
        cudnn.deterministic = True
        assert used() == (1, 1, 2) and used(x.double(), w.double()) == (1, 1, 2)
        cudnn.deterministic = False
        cudnn.benchmark = True
        assert used()[:2] == (0, 2) and count("measured") == 1              # the older calls measure, once more
        cudnn.benchmark = False
        plans, declined = count("plans"), tede._C._library_declined()
        large = tede.randn(1, 4, 30, 30, device="cuda")
        for _ in range(2):
            assert used(large, dilation=7)[:2] == used(large, stride=9)[:2] == (0, 0)
        assert count("plans") == plans and tede._C._library_declined() == declined + 4
        fresh = (tede.randn(1, 4, 7, 6 + i, device="cuda") for i in range(9))
        def failing(function, code, x):
            fake.fake_cuda_fail(function, 0, code)
            return lambda: used(x)
        x = next(fresh)
        used(x)
        raises(RuntimeError, "a convolution failed: CUDNN_STATUS (5000)", failing(b"cudnnBackendExecute", 5000, x))
        assert failing(b"cudnnBackendExecute", 3007, x)()[:2] == (0, 1) and used(x)[:2] == (1, 1)       # the older calls do it
        assert failing(b"cudnnBackendFinalize", 2003, x := next(fresh))()[:2] == used(x)[:2] == (0, 1)
        assert failing(b"cudnnBackendGetAttribute", 3000, next(fresh))()[:2] == (1, 1)                  # other heuristics are asked
        raises(tede.OutOfMemoryError, "a graph of cuDNN failed: CUDNN_STATUS (4003)", failing(b"cudnnBackendCreateDescriptor", 4003, x := next(fresh)))
        assert used(x)[:2] == (1, 1)
    """)
    fake("""
        x, w = tede.randn(2, 4, 40, 40), tede.randn(6, 4, 3, 3)
        far, weight = x.cuda(), w.cuda()
        unused, total = tede.cuda.mem_get_info()
        fake.fake_cuda_limit(total - unused + 2 * 6 * 38 * 38 * 4 + 600)    # enough for the result, and not for what the engine works in
        y = tede.nn.functional.conv2d(far, weight)
        assert count("plans") == 2 and count("convolutions") == 0           # nor for the older calls' way
        tede.testing.assert_close(y.cpu(), tede.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-3)
    """, TEDE_NO_CACHE="1")


def test_attention_is_cudnns_graphs(fake):
    """Forward and backward, with shared keys, in the layouts that modules use; masked and causal calls, other dtypes and widths are the core's kernels."""
    fake("""
        F = tede.nn.functional
        tede.manual_seed(0)
        def attend(q, k, v, **options):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1], **options)
        def check(by, sizes, dtype=tede.float16, layout=lambda x: x, **options):
            heads, kv_heads, queries, keys, width, value_width = sizes
            operands = [tede.randn(2, h, n, w).to(dtype) for h, n, w in ((heads, queries, width), (kv_heads, keys, width), (kv_heads, keys, value_width))]
            here, far = [x.double().requires_grad_() for x in operands], [layout(x.cuda()).requires_grad_() for x in operands]
            before = count("attentions")
            y = attend(*far, **{name: x.cuda() if isinstance(x, tede.Tensor) else x for name, x in options.items()})
            assert count("attentions") == before + by, (sizes, dtype)
            wanted = attend(*here, **options)
            grad = tede.randn(wanted.shape).to(dtype)
            slopes, wanted_slopes = tede.autograd.grad(y, far, grad.cuda()), tede.autograd.grad(wanted, here, grad.double())
            assert count("attentions") == before + 2 * by, (sizes, dtype)
            close = 1e-4 if dtype in (tede.float32, tede.float64) else 2e-2
            for one, other in zip((y, *slopes), (wanted, *wanted_slopes)):
                tede.testing.assert_close(one.detach().cpu().double(), other.detach(), rtol=close, atol=close * 2)
        behind = lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)       # heads behind positions
        for dtype in tede.float16, tede.bfloat16:
            check(1, (2, 2, 5, 7, 16, 16), dtype)
            check(1, (4, 2, 5, 7, 16, 8), dtype, behind)
        check(1, (2, 2, 1, 1, 8, 8), scale=0.3)
        check(1, (2, 2, 5, 7, 16, 16), layout=lambda x: tede.cat([x, x], 3)[..., :16])
        plans = count("plans")
        check(1, (2, 2, 1, 1, 8, 8))
        assert count("plans") == plans
        check(0, (2, 2, 5, 7, 16, 16), tede.float32)
        check(0, (2, 2, 7, 7, 16, 16), is_causal=True)
        check(0, (2, 2, 5, 7, 16, 16), attn_mask=tede.rand(5, 7) > 0.3)
        check(0, (2, 2, 5, 7, 6, 6))
        check(0, (2, 2, 13, 7, 16, 16))                 # cuDNN has no plan: declined forward and backward
        declined = tede._C._library_declined()
        check(0, (2, 2, 13, 7, 16, 16))
        assert tede._C._library_declined() == declined + 2
        with tede.backends.cudnn.flags(enabled=False):
            check(0, (2, 2, 5, 7, 16, 16))
        q = tede.randn(1, 2, 4, 8, device="cuda", dtype=tede.float16)
        fake.fake_cuda_fail(b"cudnnBackendExecute", 0, 5000)
        raises(RuntimeError, "attention failed: CUDNN_STATUS (5000)", lambda: attend(q, q, q))
    """)
    fake("""
        q = tede.randn(1, 2, 4, 8, dtype=tede.float16)
        far = q.cuda()
        for _ in range(2):
            y = tede.nn.functional.scaled_dot_product_attention(far, far, far)
            tede.testing.assert_close(y.cpu(), tede.nn.functional.scaled_dot_product_attention(q, q, q), rtol=1e-2, atol=1e-2)
        assert count("attentions") == 0 and count("descriptors") == 0
    """, FAKE_CUDNN_GRAPH="9.10")


def test_what_a_cuda_graph_records_of_cudnns_graphs_is_done_again(fake):
    fake("""
        F = tede.nn.functional
        x, w, q = tede.randn(2, 4, 6, 6, device="cuda"), tede.randn(6, 4, 3, 3, device="cuda"), tede.randn(1, 2, 4, 8, device="cuda", dtype=tede.float16)
        bias, weight = tede.randn(5, device="cuda"), tede.randn(5, 6, device="cuda")
        def step():
            return F.conv2d(x, w), F.scaled_dot_product_attention(q, q, q), F.linear(x, weight, bias)
        step()
        g = tede.cuda.CUDAGraph()
        with tede.cuda.graph(g):
            results = step()
        x.copy_(tede.randn(2, 4, 6, 6)), q.copy_(tede.randn(1, 2, 4, 8))
        g.replay()
        for got, wanted in zip(results, step()):
            assert tede.equal(got, wanted)
        assert count("attentions") == 3 and count("epilogues") == 3 and count("graph convolutions") == 3
    """)


# ---- Fourier transforms

def test_fourier_transforms_are_cuffts(fake):
    fake("""
        f, close = tede.fft, tede.testing.assert_close
        tede.manual_seed(0)
        x, z = tede.randn(3, 4, 5, 6, 2), tede.randn(3, 4, 5, 6, 2, dtype=tede.complex64)
        flipped = lambda x: x.transpose(0, 3)
        calls = [lambda x, z: f.fft(z), lambda x, z: f.fft(z, dim=1, norm="ortho"), lambda x, z: f.ifft(z, dim=2), lambda x, z: f.fft(x, dim=3),
                 lambda x, z: f.ifft(x, dim=3),
                 lambda x, z: f.rfft(x, dim=2), lambda x, z: f.rfft(x, dim=3, norm="forward"), lambda x, z: f.irfft(z, dim=3), lambda x, z: f.irfft(z, n=7, dim=2),
                 lambda x, z: f.hfft(z, dim=3), lambda x, z: f.ihfft(x, dim=3), lambda x, z: f.fft2(z, dim=(1, 3)), lambda x, z: f.fftn(z, dim=(3, 0, 2)),
                 lambda x, z: f.fftn(z), lambda x, z: f.ifftn(z), lambda x, z: f.rfftn(x), lambda x, z: f.rfft2(x, dim=(3, 1)),
                 lambda x, z: f.irfftn(z, s=(4, 5, 6, 3), dim=(1, 2, 3, 4)),
                 lambda x, z: f.irfft2(z, dim=(2, 3)), lambda x, z: f.fft(flipped(z), dim=1), lambda x, z: f.rfft(flipped(x)[1:], dim=1),
                 lambda x, z: f.fft(z.conj(), dim=3),
                 lambda x, z: f.irfft(flipped(z)[1:, :, 1:], dim=1)]
        for number, call in enumerate(calls):
            for x1, z1, places in ((x, z, 1e-4), (x.double(), z.to(tede.complex128), 1e-10)):
                a, b, before = x1.cuda(), z1.cuda(), count("transforms")
                here, there = call(x1, z1), call(a, b)
                assert count("transforms") > before, number
                assert there.is_cuda and (there.dtype, there.shape, there.stride()) == (here.dtype, here.shape, here.stride()), number
                close(there.cpu(), here, rtol=places, atol=places, msg=lambda m: f"call {number}: {m}")
                assert tede.equal(a.cpu(), x1) and tede.equal(b.cpu(), z1), number            # C2R has spoilt a copy
        assert f.fft(z[:0].cuda()).shape == (0, 4, 5, 6, 2) and tede._C._library_calls() == count("transforms")
    """)


def test_plans_of_cufft_are_kept_and_their_memory_is_the_streams(fake):
    fake("""
        x = tede.randn(4, 6, 8)
        y, there = x.cuda(), tede.fft.rfft2(x)
        for _ in range(3):
            tede.testing.assert_close(tede.fft.rfft2(y).cpu(), there, rtol=1e-4, atol=1e-4)
        assert count("transform plans") == 1 and count("transforms") == 3
        streams = [tede.cuda.Stream() for _ in range(3)]
        results = []
        for s in streams:
            s.wait_stream(tede.cuda.current_stream())
            with tede.cuda.stream(s):
                results.append(tede.fft.rfft2(y))
        tede.cuda.synchronize()
        for r in results:
            tede.testing.assert_close(r.cpu(), there, rtol=1e-4, atol=1e-4)
        tede.fft.rfft2(x.to("cuda:1"))
        assert count("transform plans") == 2
        for n in range(1, 300):                         # the oldest make room
            tede.fft.rfft(tede.ones(n, device="cuda"))
        assert count("transform plans") == 256
    """)


def test_what_cufft_fails_with_is_an_exception_and_what_it_declines_the_cpus(fake):
    fake("""
        x = tede.randn(4, 6, device="cuda")
        for function, status, kind in ((b"cufftCreate", 5, RuntimeError), (b"cufftMakePlanMany64", 5, RuntimeError),
                                       (b"cufftMakePlanMany64", 2, tede.OutOfMemoryError), (b"cufftSetStream", 1, RuntimeError),
                                       (b"cufftSetWorkArea", 1, RuntimeError)):
            fake.fake_cuda_fail(function, 0, status)
            raises(kind, f"failed with cuFFT's error {status}", lambda: tede.fft.fft2(x))
        fake.fake_cuda_fail(b"", 0, 0)
        before = count("transforms"), tede._C._cpu_fallback_count()
        odd = tede.randn(77)
        tede.testing.assert_close(tede.fft.rfft(odd.cuda()).cpu(), tede.fft.rfft(odd))
        assert (count("transforms"), tede._C._cpu_fallback_count()) == (before[0], before[1] + 1)
    """)


# ---- factorizations

def test_factorizations_are_cusolvers(fake):
    fake("""
        l, close = tede.linalg, tede.testing.assert_close
        tede.manual_seed(0)
        spread = tede.diag(tede.arange(3., 18., 3.))            # no two eigenvalues are close
        square, tall, wide, right, vector = tede.randn(2, 3, 5, 5) + spread, tede.randn(3, 6, 4), tede.randn(4, 7), tede.randn(3, 5, 2), tede.randn(2, 3, 5)
        definite = square @ square.mT + tede.eye(5)
        symmetric = lambda x: x + x.mT
        calls = [lambda t: l.cholesky(t(definite)), lambda t: l.cholesky(t(definite), upper=True), lambda t: l.cholesky_ex(t(definite).mT),
                 lambda t: l.lu_factor(t(square)), lambda t: l.lu_factor_ex(t(tall)), lambda t: l.lu_factor(t(wide)), lambda t: l.lu(t(square)),
                 lambda t: l.solve(t(square), t(right)), lambda t: l.solve(t(square), t(vector)), lambda t: l.solve(t(square)[0, 0], t(right)),
                 lambda t: l.solve(t(square), t(right).mT, left=False), lambda t: l.inv(t(square)), lambda t: l.inv(t(square).mT[1]),
                 lambda t: l.qr(t(tall)), lambda t: l.qr(t(wide)), lambda t: l.qr(t(tall), mode="complete"), lambda t: l.qr(t(tall), mode="r")[1],
                 lambda t: l.qr(t(wide), mode="complete"), lambda t: l.eigvalsh(t(square)), lambda t: l.eigvalsh(t(square), UPLO="U"),
                 lambda t: l.svdvals(t(tall)), lambda t: l.svdvals(t(wide))]
        for number, call in enumerate(calls):
            for dtype, places in ((tede.float32, 2e-3), (tede.float64, 1e-8)):
                before = count("factors")
                here, there = call(lambda x: x.to(dtype)), call(lambda x: x.to(dtype).cuda())
                assert count("factors") > before, number
                for a, b in zip(here, there) if isinstance(here, tuple) else ((here, there),):
                    assert b.is_cuda and (b.dtype, b.shape, b.stride()) == (a.dtype, a.shape, a.stride()), number
                    close(b.cpu(), a, rtol=places, atol=places, msg=lambda m: f"call {number}: {m}")
        # Signs of vectors are anybody's: the products are the matrix.
        for dtype, places in ((tede.float32, 1e-3), (tede.float64, 1e-9)):
            for x in (tall, wide, square):
                x = x.to(dtype)
                for full in (False, True):
                    u, s, v = l.svd(x.cuda(), full_matrices=full)
                    here = l.svd(x, full_matrices=full)
                    assert [(t.shape, t.stride()) for t in (u, s, v)] == [(t.shape, t.stride()) for t in here]
                    u, s, v, k = u.cpu(), s.cpu(), v.cpu(), s.shape[-1]
                    close(s, here[1], rtol=places, atol=places)
                    close(u[..., :k] * s[..., None, :] @ v[..., :k, :], x, rtol=places, atol=places)
                    close(u.mT @ u, tede.eye(u.shape[-1], dtype=dtype).expand(u.shape[:-2] + (u.shape[-1],) * 2), rtol=places, atol=places)
            a = symmetric(square).to(dtype)
            w, v = l.eigh(a.cuda())
            close(w.cpu(), l.eigvalsh(a), rtol=places, atol=places)
            close(a @ v.cpu(), v.cpu() * w.cpu()[..., None, :], rtol=places, atol=10 * places)
            assert v.stride() == l.eigh(a)[1].stride()
    """)


def test_what_cusolver_finds_and_fails_with_is_raised(fake):
    fake("""
        l = tede.linalg
        x = tede.eye(3, device="cuda")
        x[1, 1] = 0
        raises(l.LinAlgError, "the input is not positive-definite (the leading minor of order 2", lambda: l.cholesky(x))
        raises(l.LinAlgError, "singular", lambda: l.solve(x, x))
        raises(l.LinAlgError, "singular", lambda: l.inv(x))
        assert l.cholesky_ex(x).info.item() == 2 and l.lu_factor_ex(x).info.item() == 2
        for function, status, kind in ((b"cusolverDnCreate", 1, RuntimeError), (b"cusolverDnSpotrf_bufferSize", 7, RuntimeError),
                                       (b"cusolverDnSpotrf", 2, tede.OutOfMemoryError)):
            y = x.to("cuda:1") if function == b"cusolverDnCreate" else x
            fake.fake_cuda_fail(function, 0, status)
            raises(kind, f"failed with cuSOLVER's error {status}", lambda: l.cholesky_ex(y))
        # What it doesn't take is for the shared kernels; streams have handles of their own.
        before = count("factors"), tede._C._cpu_fallback_count()
        assert l.cholesky(tede.eye(2, dtype=tede.complex64, device="cuda")).dtype == tede.complex64 and l.svdvals(tede.ones(0, 3, device="cuda")).numel() == 0
        assert (count("factors"), tede._C._cpu_fallback_count()) == before
        with tede.cuda.stream(tede.cuda.Stream()):
            z = tede.full((1, 1), 4., device="cuda")
            assert l.cholesky(z).item() == 2
        # Nothing is waited for where nobody looks at info.
        for _ in range(50):
            x + 1
        l.cholesky_ex(x), l.qr(x), l.solve_ex(x, x)
        assert fake.fake_cuda_late() >= 50
    """)


# ---- where libraries are found

@pytest.mark.parametrize("layout", ["cu12", "cu13"])
def test_libraries_are_found_where_pip_puts_them(fake, tmp_path, layout):
    """In a folder of sys.path other than tede's. The driver is of CUDA 12; libraries of 13 are the next best."""
    files = {"cu12": ("cuda_nvrtc/lib/libnvrtc.so.12", "cublas/lib/libcublas.so.12"), "cu13": ("cu13/lib/libnvrtc.so.13", "cu13/lib/libcublas.so.13")}[layout]
    if ctypes.util.find_library("nvrtc"):
        pytest.skip("the loader finds an NVRTC")
    from tede import config
    shutil.copy(config.folder("lib") + "/tede/cuda.so", tmp_path)            # not beside site-packages/nvidia
    fake(f"""
        site, driver = {str(tmp_path / "site")!r}, {str(tmp_path / "driver")!r}
        for path in {[*files, "cudnn/lib/libcudnn.so.9"]!r}:
            os.makedirs(os.path.dirname(f"{{site}}/nvidia/{{path}}"), exist_ok=True)
            os.symlink(fake._name, f"{{site}}/nvidia/{{path}}")
        os.mkdir(driver)
        os.symlink(fake._name, driver + "/libcuda.so.1")
        os.environ["TEDE_CUDA_PATH"] = driver
        tede._C._set_search_path(f"/nowhere:{{site}}")
        tede.load_device({str(tmp_path / "cuda.so")!r})
        x, w = tede.ones(1, 2, 4, 4, device="cuda"), tede.ones(1, 2, 3, 3, device="cuda")
        assert (x + 1).sum().item() == 64 and (x @ x).sum().item() == 128 and tede.nn.functional.conv2d(x, w).sum().item() == 72
        assert count("products") == 1 and count("convolutions") == 1 and tede.backends.cudnn.version() == 99999
    """, CUDA_HOME=str(tmp_path))


def test_the_search_path_is_pythons():
    text = "import sys; sys.path.insert(0, '/some/where'); import tede; from ctypes import *; import formula_kernels as fk; f = fk.LIB.td_search_path; " \
           "f.restype = c_char_p; print(f().decode())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(HERE)})
    assert done.stdout.startswith("/some/where:") and str(HERE) in done.stdout.strip().split(":"), done.stderr


# ---- what is declared, and what is printed, beside NVIDIA's own

def test_what_is_declared_is_what_the_headers_say(tmp_path):
    places = [pathlib.Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "include", *sorted(pathlib.Path("/usr/local").glob("cuda-*/include"))]
    there = next((place for place in places if (place / "cuda.h").exists()), None)
    compiler = nvrtc.find().parents[1] / "include" if nvrtc.find() else there
    if not there or not cuda_environment.CC:
        pytest.skip("no cuda.h, or no C compiler")
    has_nvrtc = compiler and (compiler / "nvrtc.h").exists()
    source = tmp_path / "compare.c"
    source.write_text(f"""
        #include <cuda.h>
        {"#include <nvrtc.h>" if has_nvrtc else ""}
        #define TEDE_CUDA_COMPARE
        #include "{DEVICES}/api.h"
        #define NUMBER(name, number) _Static_assert(name == number, #name);
        CUDA_NUMBERS(NUMBER)
        #define FUNCTION(result, name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(name), result arguments), #name);
        CUDA_FUNCTIONS(FUNCTION)
        CUDA_GRAPH_FUNCTIONS(FUNCTION)
        {"NVRTC_FUNCTIONS(FUNCTION)" if has_nvrtc else ""}
    """)
    done = subprocess.run([cuda_environment.CC, "-fsyntax-only", f"-I{there}", f"-I{compiler}", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_declared_of_cudnn_is_what_its_header_says(tmp_path):
    places = [*(pathlib.Path(path) / "nvidia/cudnn/include" for path in sys.path), pathlib.Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "include",
              pathlib.Path(os.environ.get("CUDNN_HOME") or "/usr") / "include"]
    there = next((place for place in places if (place / "cudnn.h").exists()), None)
    if not there or not cuda_environment.CC:
        pytest.skip("no cudnn.h, or no C compiler")
    # All that it uses of CUDA's runtime.
    (tmp_path / "cuda_runtime_api.h").write_text("#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\ntypedef struct CUgraph_st *cudaGraph_t;\n"
                                                 "typedef int libraryPropertyType;")
    for name in "driver_types.h", "library_types.h":
        (tmp_path / name).write_text("#include <cuda_runtime_api.h>")
    source = tmp_path / "compare.c"
    source.write_text(f"""
        #include <cuda_runtime_api.h>
        #include <cudnn.h>
        #define TEDE_CUDA_COMPARE
        #include "{DEVICES}/cudnn.h"
        #define NUMBER(name, number) _Static_assert(name == number, #name);
        CUDNN_NUMBERS(NUMBER)
        #define FUNCTION(result, name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(name), result arguments), #name);
        CUDNN_FUNCTIONS(FUNCTION)
        #define SAME(T) _Static_assert(sizeof(T) == sizeof(cudnn_way), #T); CUDNN_WAY_FIELDS(FIELD)
        #define FIELD(name) _Static_assert(offsetof(perf, name) == offsetof(cudnn_way, name), #name);
        #define perf cudnnConvolutionFwdAlgoPerf_t
        SAME(cudnnConvolutionFwdAlgoPerf_t)
        #undef perf
        #define perf cudnnConvolutionBwdDataAlgoPerf_t
        SAME(cudnnConvolutionBwdDataAlgoPerf_t)
        #undef perf
        #define perf cudnnConvolutionBwdFilterAlgoPerf_t
        SAME(cudnnConvolutionBwdFilterAlgoPerf_t)
        _Static_assert(CUDNN_MAJOR == 9, "");
        #include "{DEVICES}/cudnn_graph.h"
        CUDNN_GRAPH_NUMBERS(NUMBER)
        CUDNN_GRAPH_FUNCTIONS(FUNCTION)
        #if CUDNN_VERSION >= 91700
        CUDNN_ATTENTION_NUMBERS(NUMBER)
        #endif
    """)
    done = subprocess.run([cuda_environment.CC, "-fsyntax-only", f"-I{tmp_path}", f"-I{there}", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def joined(dtype):
    """Kernels with all formulas that take a dtype, many in each, which compiles in a fraction of the time."""
    groups = {}
    for op, choice in test_formula.EVERY:
        groups.setdefault(op.name, []).append(fk.value(op.name, choice))
    for op in test_formula.OPERATORS if dtype in ("float32", "float64") else ():
        groups[op.name] += [formula for *_, formula in test_formula.gradients(op)]
    by_inputs = {}
    for name, formulas in groups.items():
        if name not in test_formula.REFUSED[fk.CUDA]:
            for formula in formulas:
                if formula.accepts(dtype):
                    inputs = tuple("bool" if o in formula.masks else dtype for o in formula.operands)
                    by_inputs.setdefault(inputs, {})[formula.pointer] = formula
    return [fk.Kernel(f"many_{i}_{at}", inputs, [(f, dtype, list(range(len(inputs)))) for f in part], [(k, f.result(dtype)) for k, f in enumerate(part)])
            for i, (inputs, found) in enumerate(by_inputs.items()) for at in range(0, len(found), 40) for part in [list(found.values())[at:at + 40]]]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [*test_formula.FLOATS, *test_formula.INTEGERS, "bool"])
def test_all_formulas_compile_for_a_gpu(dtype, architecture):
    if not nvrtc.find():
        pytest.skip("no NVRTC: pip install nvidia-cuda-nvrtc-cu12")
    kernels = [*joined(dtype), *((test_formula.joined(), test_formula.strided()) if dtype == "float32" else ())]
    code = nvrtc.compile(fk.source(fk.CUDA, kernels), architecture, *fk._options(fk.CUDA).decode().split(), "--device-debug")
    assert code.startswith(b"\x7fELF") and all(kernel.name.encode() in code for kernel in kernels)
