"""Two indices of a device with programs in one process: toyc, and an OpenCL device in two parts."""
import os
import subprocess
import sys
import textwrap

import pytest

tede = pytest.importorskip("tede")

CODE = """
    import sys, tede
    tede.load_device(sys.argv[1])
    name = sys.argv[2]
    F, module = tede.nn.functional, getattr(tede, name)
    if module.device_count() < 2:
        print("one index")
        raise SystemExit
    first, second = f"{name}:0", f"{name}:1"
    x = tede.arange(24.).reshape(4, 6)
    a, b = x.to(first), x.to(second)

    # A kernel is built for each index, and its results lie where its operands do.
    for call in (lambda x: x * 2 + 1, lambda x: x.sum(1), lambda x: x @ x.t(), lambda x: x.softmax(0), lambda x: x.sort(1, descending=True)[1],
                 lambda x: x[:, [1, 0]]):
        for y, device in (call(a), first), (call(b), second):
            assert str(y.device) == device and tede.allclose(y.cpu(), call(x)), device

    # Copies between them: with other strides and dtypes too, and into what is there.
    assert str(b.to(first).device) == first and tede.equal(b.to(first), a) and tede.equal(a.t().to(second).cpu(), x.t())
    assert tede.equal(a.to(second, tede.float16).float().cpu(), x)
    a[1:, ::2].copy_(b[:3, 3:])
    assert tede.equal(a[1:, ::2].cpu(), x[:3, 3:])
    a = x.to(first)

    # Operands of one call lie on one of them.
    w = tede.ones(6).to(second)
    calls = [lambda: a + b, lambda: a @ b.t(), lambda: tede.cat([a, b]), lambda: tede.stack([a, b]), lambda: a.add_(b), lambda: tede.where(a > 0, a, b),
             lambda: F.linear(a, b), lambda: F.layer_norm(a, (6,), w), lambda: F.embedding(b.long(), a), lambda: tede.add(a, a, out=b),
             lambda: tede.mm(a, a.t(), out=tede.empty(4, 4).to(second)), lambda: a.gather(1, b.long() % 6), lambda: a.scatter_add(0, b.long() % 4, a),
             lambda: a.index_add(0, tede.zeros(4, dtype=tede.long).to(second), a), lambda: F.cross_entropy(a, tede.zeros(4, dtype=tede.long).to(second)),
             lambda: tede.searchsorted(a[0], b), lambda: F.conv1d(a.view(1, 4, 6), b.view(1, 4, 6)), lambda: a.masked_fill(b > 3, 0), lambda: a[b.long() % 4]]
    for i, call in enumerate(calls):
        try:
            call()
        except (RuntimeError, IndexError) as error:
            assert "same device" in str(error) or "cross-device" in str(error), (i, error)
            assert first in str(error) or "searchsorted" in str(error), (i, error)
        else:
            raise AssertionError(f"call {i} takes operands on two devices")

    # Which index is current.
    assert module.current_device() == 0
    with module.device(1):
        assert module.current_device() == 1 and str(tede.ones(2, device=name).device) == second and tede.Stream(name).device.index == 1
        with module.device_of(a):
            assert module.current_device() == 0
        assert module.current_device() == 1
    with module.device(-1):
        assert module.current_device() == 0
    module.set_device(1)
    assert module.current_device() == 1
    module.set_device(0)

    # A stream waits for an event of the other index.
    one, other = tede.Stream(first), tede.Stream(second)
    with other:
        assert module.current_device() == 1
        y = b * 2
        for _ in range(10):
            y = y + 1
        event = other.record_event()
    one.wait_event(event)
    with one:
        z = y.to(first) + a
    one.synchronize()
    assert module.current_device() == 0 and tede.equal(z.cpu(), x * 3 + 10) and event.query()
    other.wait_stream(one)
    other.synchronize()

    # Gradients come home through a copy.
    leaf = b.clone().requires_grad_()
    ((leaf * 3).to(first) * a).sum().backward()
    assert leaf.grad.device == b.device and tede.equal(leaf.grad.cpu(), 3 * x)

    # Each has its own memory and its own numbers.
    before = module.memory_allocated(0), module.memory_allocated(1)
    with tede.memory.track() as memory:
        big, small = tede.empty(1000, device=second), tede.empty(10)
        held, now = memory.live(), (module.memory_allocated(0), module.memory_allocated(1))
        del big
    assert now[0] == before[0] and now[1] - before[1] == held.by("device")[second][0] >= 4000
    assert set(held.by("device")) == {second, "cpu"} and held.blocks[0].operator == "empty" and f"on {second}" in str(held)
    assert set(memory.live().by("device")) == {"cpu"}
    module.manual_seed_all(3)
    assert tede.equal(tede.rand(4, device=first).cpu(), tede.rand(4, device=second).cpu())
    tede.rand(4, device=first)
    assert not tede.equal(tede.rand(4, device=first).cpu(), tede.rand(4, device=second).cpu())
    print("fine")
"""


def run(path, name, **environment):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(CODE), path, name], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    if done.stdout == "one index\n":
        pytest.skip("the device has one compute unit")
    assert done.stdout == "fine\n", (done.stdout, done.stderr[-3000:])


def test_the_toy_has_two(library):
    run(library("toy_device", "-DTOY_PROGRAMS"), "toyc")


def test_an_opencl_device_in_parts_is_two():
    try:
        tede.load_device("opencl")
    except RuntimeError as error:
        pytest.skip(str(error))
    run("opencl", "opencl", TEDE_OPENCL_PARTS="2")
