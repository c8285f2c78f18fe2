"""Devices, layouts, dtypes and recordings from outside: the libraries of examples/c, compiled as a user would, used from Python."""
import ctypes
import subprocess
import sys
import textwrap
import threading

import pytest

tede = pytest.importorskip("tede")


LOADED = []         # the toy device's library, which a process loads once, whichever modules of tests use these fixtures


@pytest.fixture(scope="module")
def toy(library):
    if not LOADED:
        LOADED.append(library("toy_device"))
        tede.load_device(LOADED[0])
    handle = ctypes.CDLL(LOADED[0])
    counts = {name: (ctypes.c_int64 * 2).in_dll(handle, name) for name in ("toy_copies", "toy_kernels", "toy_live_bytes")}
    return lambda name: list(counts[f"toy_{name}"])


def test_the_module_of_a_device(toy):
    assert tede.toy.device_count() == 2 and tede.toy.is_available() and tede.toy.current_device() == 0
    assert repr(tede.device("toy:1")) == "device(type='toy', index=1)" and tede.device("toy", 1) == tede.device("toy:1")
    assert tede.ones(2, device="toy").device == tede.device("toy:0")
    with tede.toy.device(1):
        assert tede.ones(2, device="toy").device.index == 1
    assert tede.toy.current_device() == 0
    with pytest.raises(RuntimeError, match="toy:7.*there are 2"):
        tede.ones(2, device="toy:7")
    assert tede.accelerator.is_available() and hasattr(tede, str(tede.accelerator.current_accelerator()))     # others may be loaded, too


def test_tensors_go_there_and_back(toy):
    x = tede.arange(12.).reshape(3, 4)
    y = x.to("toy:1")
    assert y.device == tede.device("toy:1") and y.is_toy and not x.is_toy
    assert y.t()[1:, ::2].cpu().tolist() == x.t()[1:, ::2].tolist()
    assert x.toy(1).sum().item() == 66 and y.toy().device.index == 0
    assert repr(tede.ones(2, device="toy:1")) == "tensor([1., 1.], device='toy:1')"
    assert y.tolist() == x.tolist() and bool((y == y).all())
    with pytest.raises(TypeError, match="toy:1 device type tensor to numpy"):
        y.numpy()
    layer = tede.nn.Linear(4, 2).to("toy")
    assert layer(x.to("toy")).device.type == "toy" and layer.weight.device.index == 0


def test_copies_and_kernels_are_counted(toy):
    x = tede.ones(4, 4, device="toy:0")
    tede.toy.synchronize()
    copies, kernels, fallbacks = toy("copies")[0], toy("kernels")[0], tede._C._cpu_fallback_count()
    y = ((x @ x) * x + x).relu()
    tede.toy.synchronize()      # what is asked for runs later
    assert (toy("kernels")[0] - kernels, toy("copies")[0] - copies, tede._C._cpu_fallback_count() - fallbacks) == (4, 0, 0)
    assert y.view(2, 8)[1].shape == (8,) and toy("copies")[0] == copies
    tede.exp(y)                                     # there, done here, and back
    assert (toy("copies")[0] - copies, tede._C._cpu_fallback_count() - fallbacks) == (2, 1)


def test_one_element_is_read_without_the_cpus_operator(toy):
    """What reads an element, and compares whole tensors, is made of copies and calls there."""
    x, fallbacks = tede.ones(1, device="toy:0"), tede._C._cpu_fallback_count()
    assert x.item() == 1 and bool(x) and tede._C._cpu_fallback_count() == fallbacks
    assert tede.equal(x, x.clone()) and tede.allclose(x, x + 1e-9) and not tede.equal(x, x + x)
    with pytest.raises(NotImplementedError, match="shape depends on data"):
        tede.equal(x.to("meta"), x.to("meta"))


def test_memory_is_closed_to_others(toy, library):
    code = f"""
        import ctypes, tede
        tede.load_device({library('toy_device')!r})
        x = tede.ones(1000, device="toy")
        tede.toy.synchronize()
        print("reading", flush=True)
        ctypes.string_at(x.data_ptr(), 4)
        print("read", flush=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=None)
    assert done.stdout == "reading\n" and done.returncode < 0


@pytest.mark.parametrize("call", [
    lambda x: x.exp().sum(1), lambda x: x.softmax(0), lambda x: x.sort()[0], lambda x: x.max(1)[1], lambda x: x[x > 2],
    lambda x: x.add_(1).mul_(2), lambda x: tede.cat([x, x]), lambda x: x.index_fill_(0, tede.tensor([0], device=x.device), 5.),
    lambda x: x.unbind(1)[2], lambda x: x.chunk(2, 1)[1] + 1, lambda x: x.t().contiguous(), lambda x: x.clone().fill_diagonal_(0),
    lambda x: tede.where(x > 3, x, -x), lambda x: x.std(), lambda x: tede.nn.functional.layer_norm(x, [4]), lambda x: x.cumsum(0),
    lambda x: tede.linalg.matrix_power(x, 2), lambda x: tede.stack(tede.meshgrid(x[0], x[1], indexing="ij")), lambda x: x.half().double(),
    lambda x: tede.empty(0, device=x.device).set_(x).resize_(2, 2), lambda x: x.view(tede.int32), lambda x: x[1:, ::2].mul_(3),
    lambda x: x.unique(), lambda x: tede.einsum("ij,kj->ik", x, x), lambda x: x.new_full((2,), 3), lambda x: tede.zeros_like(x),
    lambda x: x.to(tede.int64).bitwise_and(3), lambda x: x.masked_fill(x > 1, 0.), lambda x: x.copy_(tede.ones(4, 4)) + x,
    lambda x: tede.add(x, x, out=tede.empty(0, device=x.device)), lambda x: x + tede.tensor(2.), lambda x: x.squeeze_().t_() @ x,
    lambda x: tede.complex(x, x).abs(), lambda x: x.fft.fft(x).real if hasattr(x, "fft") else tede.fft.fft(x).real,
])
def test_every_operator_works_there(toy, call):
    here, there = (call(tede.arange(16.).reshape(4, 4).to(device)) for device in ("cpu", "toy:1"))
    assert there.device == tede.device("toy:1")
    tede.testing.assert_close(there.cpu(), here)
    assert there.shape == here.shape and there.dtype == here.dtype


def test_writes_reach_the_base(toy):
    base = tede.zeros(4, 4, device="toy")
    base[1:3, ::2] = 7
    base[:, 3].copy_(tede.arange(4.))
    base.t()[0].sub_(1)
    here = tede.zeros(4, 4)
    here[1:3, ::2] = 7
    here[:, 3].copy_(tede.arange(4.))
    here.t()[0].sub_(1)
    assert base.tolist() == here.tolist() and base._version == here._version


def test_devices_dont_mix(toy):
    a, b, c = tede.ones(2, device="toy:0"), tede.ones(2, device="toy:1"), tede.ones(2)
    for x, y, names in ((a, b, "toy:0 and toy:1"), (a, c, "toy:0 and cpu"), (c, b, "cpu and toy:1")):
        for op in (tede.add, tede.atan2, tede.dot):
            with pytest.raises(RuntimeError, match=f"Expected all tensors to be on the same device, but found at least two devices, {names}!"):
                op(x, y)
    assert (a + tede.tensor(1.)).tolist() == [2, 2]


def test_random_numbers_have_a_generator_per_index(toy):
    tede.manual_seed(3)
    first = [tede.rand(3, device=f"toy:{i}").tolist() for i in (0, 1)]
    here = tede.rand(3).tolist()
    tede.manual_seed(3)
    assert tede.rand(3).tolist() == here == first[0]            # the same stream, each from its beginning
    assert [tede.rand(3, device=f"toy:{i}").tolist() for i in (0, 1)] == first
    g = tede.Generator(device="toy:1").manual_seed(5)
    assert g.device == tede.device("toy:1")
    assert tede.randn(2, device="toy:1", generator=g).tolist() == tede.randn(2, generator=tede.Generator().manual_seed(5)).tolist()
    state = tede.toy.get_rng_state(1)
    again = tede.randperm(5, device="toy:1").tolist()
    tede.toy.set_rng_state(state, 1)
    assert tede.randperm(5, device="toy:1").tolist() == again


def test_a_backward_pass_uses_a_worker_per_index(toy):
    x = tede.ones(3, 3, requires_grad=True)
    threads = {}

    def note(name):
        return lambda grad: threads.__setitem__(name, threading.get_ident())
    a, b = x.to("toy:0"), x.to("toy:1")
    aa, bb = a @ a, b.exp()
    x.register_hook(note("cpu"))
    aa.register_hook(note("toy:0"))
    bb.register_hook(note("toy:1"))
    (aa + bb.to("toy:0")).sum().backward()
    assert len(set(threads.values())) == 3 and threads["cpu"] == threading.get_ident()
    y = tede.ones(3, 3, requires_grad=True)
    (y @ y + y.exp()).sum().backward()
    tede.testing.assert_close(x.grad, y.grad)


def test_passes_within_passes_and_errors_over_devices(toy):
    x = tede.ones(2, requires_grad=True)

    def nested(grad):
        with tede.enable_grad():
            z = tede.ones(2, device="toy:0", requires_grad=True)
            (z * z).to("toy:1").mul(z.to("toy:1")).sum().backward()
        return grad * z.grad.mean().item()
    b = x.to("toy:1") * 2
    b.register_hook(nested)
    b.to("toy:0").sum().backward()
    assert x.grad.tolist() == [6, 6]

    def fail(grad):
        raise KeyError("from a worker")
    c = x.to("toy:1") * 2
    c.register_hook(fail)
    with pytest.raises(KeyError, match="from a worker"):
        c.to("toy:0").sum().backward()
    results = []
    workers = [threading.Thread(target=lambda: results.append(tede.autograd.grad((x.to("toy:0") ** 2).to("toy:1").sum(), x)[0].tolist()))
               for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [[2, 2]] * 4

def cubes(x):
    return (x * x * x).sum()


@pytest.mark.parametrize("call", [
    lambda f, x: f.grad(cubes)(x), lambda f, x: f.jacrev(lambda x: x.exp() * x)(x), lambda f, x: f.jacfwd(lambda x: x.exp() * x)(x),
    lambda f, x: f.hessian(cubes)(x), lambda f, x: f.vjp(lambda x: x.exp(), x)[1](x)[0], lambda f, x: f.jvp(cubes, (x,), (x,))[1],
    lambda f, x: f.vmap(f.grad(cubes))(tede.stack([x, 2 * x])), lambda f, x: f.grad(lambda x: f.grad(cubes)(x).sum())(x),
    lambda f, x: f.vmap(f.hessian(cubes))(tede.stack([x, 2 * x])), lambda f, x: f.grad(lambda x: f.vmap(f.grad(cubes))(tede.stack([x, x])).sum())(x),
    lambda f, x: f.jacfwd(f.grad(cubes))(x), lambda f, x: f.vjp(f.grad(cubes), x)[1](x)[0],
    lambda f, x: f.grad(lambda w: f.functional_call(tede.nn.Tanh(), {}, (w * x,)).sum())(x),
    lambda f, x: f.grad(lambda y: cubes(y.to("cpu") if y.device.type == "toy" else y))(x),
    lambda f, x: f.grad(lambda y: (tede.autograd.grad(cubes(y), y, create_graph=True)[0] ** 2).sum())(x),
])
def test_transforms_of_functions_work_there(toy, call):
    x = tede.tensor([1., 2., 3.])
    there = call(tede.func, x.to("toy:1"))
    tede.testing.assert_close(there.cpu(), call(tede.func, x))


def test_hooks_under_a_transform_see_its_tensors_on_a_worker(toy):
    seen = []

    def f(x):
        y = x * 2

        def hook(grad):
            seen.append((threading.get_ident(), tede._C._functorch.maybe_get_level(grad) if hasattr(tede._C, "_functorch") else 1))
            return grad * tede.func.grad(cubes)(tede.ones(3, device="toy:1"))
        y.register_hook(hook)
        return y.sum()
    grad = tede.func.grad(f)(tede.ones(3, device="toy:1"))
    assert grad.tolist() == [6, 6, 6] and len(seen) == 1 and seen[0][0] != threading.get_ident()


class Count(tede.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append((threading.get_ident(), function.__name__))
        return function(*args, **(kwargs or {}))


class Dispatched(tede.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append((threading.get_ident(), str(function)))
        return function(*args, **(kwargs or {}))


def test_a_worker_runs_under_the_modes_of_the_pass(toy):
    x = tede.ones(3, device="toy:1", requires_grad=True)
    y = x.exp() * 2
    facts, packed = {}, []

    def hook(grad):
        facts["thread"] = threading.get_ident()
        facts["modes"] = tede.is_grad_enabled(), tede.is_inference_mode_enabled(), tede.is_autocast_enabled("cpu"), tede.get_autocast_dtype("cpu")
        facts["device"] = tede.ones(1).device
        z = tede.ones(2, requires_grad=True)
        with tede.enable_grad():
            z.exp()
        return grad
    y.register_hook(hook)
    calls, ops = Count(), Dispatched()
    with tede.autocast("cpu", dtype=tede.float16), tede.device("meta"), calls, ops, \
            tede.autograd.graph.saved_tensors_hooks(lambda t: packed.append(threading.get_ident()) or t, lambda t: t):
        tede._C._backward([y.sum()], [None], False, False)       # __torch_function__ would see backward() itself, and be left within
    here = threading.get_ident()
    assert facts.pop("thread") != here
    assert facts == {"modes": (False, False, True, tede.float16), "device": tede.device("meta")}
    assert any(thread != here and name == "ones" for thread, name in calls.seen)
    assert any(thread != here and "mul" in name for thread, name in ops.seen)
    assert packed and packed[-1] != here
    left = {}

    def later(grad):
        left["modes"] = tede.is_autocast_enabled("cpu"), tede.ones(1).device.type, len(calls.seen)
    before = len(calls.seen)
    z = (x * 2)
    z.register_hook(later)
    z.sum().backward()
    assert left["modes"] == (False, "cpu", before)      # nothing stays behind on the worker


def test_deep_passes_on_fresh_threads_run_under_the_levels(toy):
    def nested(x, depth):
        class Inner(tede.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                with tede.enable_grad():
                    w = tede.ones(3, requires_grad=True)
                    inner = nested(w, depth - 1) if depth else w.clone()
                    return grad * tede.autograd.grad(inner.sum(), w)[0] + 0 * tede.func.grad(cubes)(tede.ones(3))
        return Inner.apply(x)
    x = tede.ones(3, requires_grad=True)
    nested(x, 60).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    ops, z = Dispatched(), tede.ones(3, requires_grad=True)
    with ops:
        nested(z, 60).sum().backward()
    assert len({thread for thread, name in ops.seen}) > 1 and z.grad.tolist() == [1, 1, 1]


def test_a_recorded_pass_is_recorded_whole(toy):
    calls = [tede.tracer.trace(lambda x: tede.autograd.grad((x.exp() * 2).sum(), x)[0], tede.ones(3, device=device, requires_grad=True)).calls
             for device in ("cpu", "toy:1")]
    assert list(calls[0]) == list(calls[1]) and len(calls[0]) > 4


def test_training_and_saving_there(toy, tmp_path):
    tede.manual_seed(0)
    model = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.Tanh(), tede.nn.Linear(8, 1))
    twin = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.Tanh(), tede.nn.Linear(8, 1))
    twin.load_state_dict(model.state_dict())
    model.to("toy:1")
    x, y = tede.randn(16, 4), tede.randn(16, 1)
    for net, device in ((model, "toy:1"), (twin, "cpu")):
        optimizer = tede.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            tede.nn.functional.mse_loss(net(x.to(device)), y.to(device)).backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters()):
        assert a.device.index == 1
        tede.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
    tede.save(model.state_dict(), tmp_path / "x.pt")
    loaded = tede.load(tmp_path / "x.pt", map_location="cpu")
    tede.testing.assert_close(loaded["0.weight"], model[0].weight.detach().cpu())


def test_nothing_is_kept(toy):
    import gc

    def use():
        x = tede.ones(1000, device="toy:1", requires_grad=True)
        (x.exp() * 2).sum().backward()
        with pytest.raises(RuntimeError):
            x + tede.ones(1000)
    gc.collect()
    before = toy("live_bytes")
    use()
    gc.collect()
    assert toy("live_bytes") == before


TABLE = """
#include <stdlib.h>
#include <tede/device.h>
static int count(void) {{ return {count}; }}
__attribute__((unused)) static void *take(td_device d, size_t n) {{ (void)d; return {alloc}; }}
static void give(td_device d, void *p, size_t n) {{ (void)d, (void)n; free(p); }}
static int copy(td_device a, void *to, td_device b, const void *from, size_t n) {{ (void)a, (void)b, (void)to, (void)from, (void)n; return {copy}; }}
static int start(int type) {{ (void)type; {start}; }}
TD_EXPORT_DEVICE = {{.abi = {abi}, .size = {size}, .name = {name}, .count = count, .start = start, .alloc = {member}, .free = give, .copy = copy}};
"""


@pytest.mark.parametrize("change, error", [
    (dict(abi="7"), "version 7 of the device interface"), (dict(size="8"), "its table has 8 bytes"), (dict(name="NULL"), "name has 1 to 15"),
    (dict(name='"a b"'), "name has 1 to 15"), (dict(name='"cpu"'), "there is a device 'cpu' already"), (dict(member="NULL"), "has no function 'alloc'"),
    (dict(count="-3"), "says that there are -3"), (dict(count="1000"), "says that there are 1000"), (dict(start="return -1"), "for no reason given"),
    (dict(start='return td_error(TD_E_VALUE, "no licence")'), "no licence"),
    (dict(start='return td_register_boxed("aten::nothing", TD_KEY_DENSE, type, td_cpu_fallback, NULL)'), "aten::nothing"),
], ids=lambda v: None if isinstance(v, str) else "".join(f"{k}={w}" for k, w in v.items())[:40])
def test_what_is_wrong_with_a_library_is_said(library, change, error):
    filled = dict(count="1", alloc="malloc(n)", copy="0", start="return 0", abi="TD_DEVICE_ABI", size="sizeof(td_device_library)",
                  name='"broken"', member="take")
    filled.update(change)
    path = library("broken" + str(abs(hash(str(change)))), text=TABLE.format(**filled))
    with pytest.raises((RuntimeError, ValueError), match=error):
        tede.load_device(path)
    with pytest.raises(RuntimeError):
        tede.device("broken")


def test_what_is_no_library_is_refused(library, tmp_path):
    with pytest.raises(RuntimeError, match="no symbol 'tede_device'"):
        tede.load_device(library("nothing", text="int x;\n"))
    (tmp_path / "text.so").write_text("hello")
    for path in (tmp_path / "text.so", tmp_path / "missing.so", tmp_path):
        with pytest.raises(OSError, match="can't be loaded"):
            tede.load_device(path)


def test_a_device_that_fails_says_so(library):
    text = TABLE.format(count="1", alloc="n > 100 ? NULL : malloc(n)", copy="-1", start="return td_register_fallback(TD_KEY_DENSE, type, "
                        "td_cpu_fallback, NULL)", abi="TD_DEVICE_ABI", size="sizeof(td_device_library)", name='"failing"', member="take")
    tede.load_device(library("failing", text=text))
    with pytest.raises(RuntimeError, match="failing: no memory for 4000 bytes"):
        tede.empty(1000, device="failing")
    x = tede.empty(2, device="failing")
    with pytest.raises(RuntimeError, match="failing: a copy of 8 bytes failed"):
        x + 1


def test_a_layout_from_outside(diagonal):
    line = tede.arange(1., 4.).requires_grad_()
    d = tede.ops.toy.from_diagonal(line)
    assert d.layout is tede.diagonal_matrix and repr(d.layout).endswith(".diagonal_matrix")
    assert d.shape == (3, 3) and "layout=" in repr(d) and "grad_fn" in repr(d)
    assert tede.mm(d, d).layout is tede.diagonal_matrix and tede.mm(d, d).detach().trace().item() == 14
    tede.mm(d, tede.ones(3, 2)).sum().backward()
    assert line.grad.tolist() == [2, 2, 2]
    assert (d + tede.ones(3, 3)).tolist() == [[2, 1, 1], [1, 3, 1], [1, 1, 4]]
    with pytest.raises(NotImplementedError, match="Could not run 'aten::exp'.*diagonal"):
        d.exp()
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        d.numpy()
    assert d[0].to_dense().tolist() == [1, 0, 0]
    for refused in (lambda: d.view(9), lambda: d.tolist(), lambda: tede.sort(d)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            refused()


def test_a_dtype_from_outside(library):
    if tede._C._registered("scaled8") is None:
        tede.ops.load_library(library("scaled8", "-DSCALED8_LIBRARY"))
    x = tede.tensor([-10., -1.03, 0.5, 3.]).to(tede.scaled8)
    assert x.dtype is tede.scaled8 and x.element_size() == 1 and x.float().tolist() == [-7.9375, -1., 0.5, 3.]
    assert (x * 2).dtype is tede.scaled8 and (x * 2).float().tolist() == [-7.9375, -2., 1., 6.]
    assert (x + tede.ones(4)).dtype is tede.float32 and (x + tede.ones(4, dtype=tede.int32)).dtype is tede.scaled8
    assert "scaled8" in repr(x) and "0.5000" in repr(x) and x[2].item() == 0.5
    assert (x > 0).tolist() == [False, False, True, True] and x.view(2, 2).t().contiguous().float().tolist() == [[-7.9375, 0.5], [-1., 3.]]
    x.exp_()
    assert x[3].item() == 7.9375
    for refused in (lambda: x @ x, lambda: x.sum(), lambda: x.sort(), lambda: x.numpy(), lambda: tede.linalg.norm(x), lambda: x.cumsum(0), lambda: x.max()):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError), match="(?i)scaled8|not implemented|dtype"):
            refused()


def test_a_recording_is_played_again():
    def f(x, w, *, scale=2.0):
        y = (x @ w).relu_()
        a, b = y.split(2, dim=1)
        return {"sum": (a * scale).sum(), "b": b, "n": 3}
    x, w = tede.randn(2, 3), tede.randn(3, 4)
    recording = tede.tracer.trace(f, x, w)
    assert recording.calls[0] in ("aten::matmul", "aten::mm") and "aten::relu_" in recording.calls
    text = str(recording)
    assert text.startswith("graph(%0, %1):\n  %2 = aten::m") and text.rstrip().splitlines()[-1].startswith("  return (")
    x2, w2 = tede.randn(5, 3), tede.randn(3, 4, requires_grad=True)
    got, expected = recording(x2, w2), f(x2, w2)
    assert got["n"] == 3
    tede.testing.assert_close(got["b"], expected["b"])
    assert tede.autograd.grad(got["sum"], w2)[0].tolist() == tede.autograd.grad(expected["sum"], w2)[0].tolist()
    with pytest.raises(TypeError, match="another structure"):
        recording(x2)


def test_recordings_hold_what_they_dont_get_and_end():
    constant = tede.tensor([1., 2.])
    recording = tede.tracer.trace(lambda x: (x + constant, constant), tede.zeros(2))
    assert [x.tolist() for x in recording(tede.ones(2))] == [[2, 3], [1, 2]]

    def fails(x):
        x + 1
        raise KeyError
    with pytest.raises(KeyError):
        tede.tracer.trace(fails, tede.zeros(2))
    assert tede.tracer.trace(lambda x: x * 2, tede.ones(1))(tede.ones(1) * 4).item() == 8
    with pytest.raises(RuntimeError, match="recorded already"):
        tede.tracer.trace(lambda x: tede.tracer.trace(lambda y: y, x)(x), tede.ones(1))
