"""Streams, events, memory and random numbers of devices, on the toy of examples/c, whose streams are threads that run late."""
import ctypes
import gc
import subprocess
import sys
import textwrap
import time

import pytest
import tede
from test_devices import LOADED, toy  # noqa: F401  (a fixture)


@pytest.fixture
def late(toy):      # noqa: F811
    """late(microseconds): each task of the toy's streams is so late, until the test ends."""
    delay = ctypes.c_int64.in_dll(ctypes.CDLL(LOADED[0]), "toy_delay")

    def set_delay(microseconds):
        delay.value = microseconds
    yield set_delay
    delay.value = 0
    tede.toy.synchronize(0)
    tede.toy.synchronize(1)


def test_a_stream_runs_late_and_in_order(late):
    x = tede.arange(8.).to("toy")
    tede.toy.synchronize()
    late(300000)
    began = time.monotonic()
    y = (x + x) * x                                     # two kernels, 600 ms
    assert time.monotonic() - began < 0.3 and not tede.toy.current_stream().query()
    assert y.tolist() == [2. * i * i for i in range(8)]
    assert time.monotonic() - began > 0.55


def test_the_device_s_own_handle_has_the_device_s_name(toy):      # noqa: F811
    first, other = tede.toy.current_stream(), tede.toy.Stream()
    assert first.toy_stream == first.native_handle != other.toy_stream == other.native_handle != 0
    assert not hasattr(tede.Stream("toy"), "toy_stream")


def test_a_profile_waits_for_the_streams_that_it_times(late):
    x, busy = tede.ones(8, device="toy:1"), tede.ones(8, device="toy:0")
    late(20000)
    for _ in range(10):                                 # the current device is far behind the one that is timed
        busy = busy + busy
    with tede.profiler.profile() as told:
        x + x
    add = next(e for e in told.events() if e.name == "aten::add")
    assert add.device == "toy:1" and add.device_start > 0 and add.device_time_total >= 20000       # microseconds


def test_a_profile_times_streams_that_run_beside_each_other(late):
    x = y = tede.ones(8, device="toy:1")
    late(20000)
    for _ in range(5):                                  # the first stream that is timed is far behind the second
        y = y + y
    with tede.profiler.profile() as told:
        y + y
        asked = tede.toy.current_stream("toy:1").record_event()
        with tede.Stream("toy:1") as side:
            side.wait_event(asked)
            x * x
    starts = {e.name: e.device_start for e in told.events() if e.device == "toy:1"}
    assert all(start > 0 for start in starts.values()) and starts["aten::mul"] > starts["aten::add"], starts


def test_streams_are_current_within_guards(toy):        # noqa: F811
    first, a, b = tede.toy.current_stream(), tede.Stream("toy"), tede.Stream("toy:1", priority=-1)
    assert first == tede.toy.default_stream() and first.stream_id == 0 and a.stream_id > 0 and a != first and a.device == tede.device("toy:0")
    assert b.priority == -1 and b.device_index == 1 and "device_type=toy, device_index=1" in repr(b)
    with a:
        assert tede.toy.current_stream() == a and hash(tede.toy.current_stream()) == hash(a)
        with b as entered:
            assert entered is b and tede.toy.current_device() == 1
            assert tede.toy.current_stream() == b and tede.toy.current_stream(0) == a
            with a:
                assert tede.toy.current_device() == 0
            assert tede.toy.current_device() == 1
        assert tede.toy.current_device() == 0 and tede.toy.current_stream(1) == tede.toy.default_stream(1)
    assert tede.toy.current_stream() == first
    with tede.toy.stream(None), tede.toy.stream(a) as inner:
        assert inner is a and tede.toy.current_stream() == a
    with pytest.raises(KeyError), a:
        raise KeyError
    assert tede.toy.current_stream() == first
    tede.toy.set_stream(a)
    assert tede.toy.current_stream() == a
    tede.toy.set_stream(first)
    again = tede.Stream(stream_id=a.stream_id, device_index=0, device_type=a.device_type)
    assert again == a
    with pytest.raises(RuntimeError, match="wasn't entered"):
        again.__exit__(None, None, None)
    with pytest.raises(TypeError, match="Stream was expected"):
        a.wait_stream(3)


def test_a_stream_waits_for_another_one(late):
    side, x = tede.toy.Stream(), tede.ones(1000, device="toy")
    tede.toy.synchronize()
    late(20000)
    y = x + x                                           # on the first stream, 20 ms
    event = tede.toy.current_stream().record_event()
    assert isinstance(event, tede.toy.Event)
    with side:
        side.wait_event(event)
        z = y * y
        y.record_stream(side)
    tede.toy.current_stream().wait_stream(side)
    w = z + z
    del y
    assert w.sum().item() == 8000
    event.synchronize()
    assert event.query() and event.device == tede.device("toy:0")


def test_events_measure_time(late):
    begin, end, plain = (tede.Event("toy", enable_timing=t) for t in (True, True, False))
    assert plain.query()
    x = tede.ones(8, device="toy")
    tede.toy.synchronize()
    late(100000)
    begin.record()
    x + x
    end.record()
    assert not end.query()
    with pytest.raises(RuntimeError, match="must be completed"):
        begin.elapsed_time(end)
    end.synchronize()
    assert 150 < begin.elapsed_time(end) < 5000
    plain.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        begin.elapsed_time(plain)
    other = tede.toy.Event(device="toy:0")
    with tede.toy.device(1):
        other.record()                                  # belongs to the index that it is first recorded on
    assert other.wait(tede.toy.default_stream(0)) is None
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        other.record(tede.toy.default_stream(0))


def test_streams_of_the_cpu_are_done_at_once():
    stream, event = tede.Stream("cpu"), tede.Event("cpu")
    with stream:
        event.record()
    assert stream.query() and event.query() and stream.device == tede.device("cpu") and stream == tede.Stream("cpu")
    stream.wait_event(event), stream.wait_stream(stream), stream.synchronize(), event.wait(), event.synchronize()
    with pytest.raises(RuntimeError, match="doesn't support event timing"):
        event.elapsed_time(event)


def test_memory_that_a_side_stream_uses_isnt_reused_before(late):
    x = tede.full((1 << 18,), 3., device="toy")
    tede.toy.synchronize()
    side = tede.toy.Stream()
    late(300000)
    with side:
        y = x * x                                       # late, when x is gone
    x.record_stream(side)
    at = x.data_ptr()
    del x
    z = tede.ones(1 << 18, device="toy")
    assert z.data_ptr() != at
    side.synchronize()
    assert y.sum().item() == 9 << 18
    late(0)
    tede.toy.empty_cache()


def test_memory_is_locked_for_the_first_device_where_none_is_named(library):
    done = run("""
        for x in tede.zeros(3, pin_memory=True), tede.tensor([1., 2.], pin_memory=True), tede.ones(2).pin_memory(), tede.ones(2).untyped_storage().pin_memory():
            assert x.is_pinned()
        assert not tede.zeros(3).is_pinned()
        batches = tede.utils.data.DataLoader(tede.utils.data.TensorDataset(tede.arange(4.)), batch_size=2, pin_memory=True)
        assert [(b.is_pinned(), b.tolist()) for b, in batches] == [(True, [0, 1]), (True, [2, 3])]
    """, library("toy_device"))
    assert done.returncode == 0, done.stderr


def test_page_locked_memory_is_copied_late(toy, late):  # noqa: F811
    x = tede.arange(6.).reshape(2, 3).t()
    pinned = x.pin_memory("toy")            # other tests of this process may have loaded a device before, one that locks nothing
    assert pinned.is_pinned() and not x.is_pinned() and pinned.stride() == x.stride() and pinned.tolist() == x.tolist()
    assert pinned.pin_memory("toy").data_ptr() == pinned.data_ptr() and pinned[1:].is_pinned()
    assert pinned.untyped_storage().is_pinned() and x.untyped_storage().pin_memory("toy").is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.to("toy").pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        tede.zeros(3, device="toy", pin_memory=True)
    tede.toy.synchronize()
    late(300000)
    began, counted = time.monotonic(), ctypes.c_int64.in_dll(ctypes.CDLL(LOADED[0]), "toy_late_copies")
    before = counted.value
    there = pinned.to("toy", non_blocking=True)
    assert time.monotonic() - began < 0.3 and counted.value == before + 1
    back = tede.empty(3, 2).pin_memory("toy")
    back.copy_(there, non_blocking=True)
    tede.toy.synchronize()
    assert back.tolist() == x.tolist()


def test_memory_is_counted_and_limited(toy):            # noqa: F811
    gc.collect()
    module = tede.toy
    module.synchronize(1)
    module.empty_cache()
    module.reset_peak_memory_stats(1), module.reset_accumulated_memory_stats(1)
    before = module.memory_allocated(1)
    x = tede.empty(1 << 20, device="toy:1")
    assert module.memory_allocated(1) - before == 4 << 20 and module.memory_reserved(1) >= module.memory_allocated(1)
    del x
    stats = module.memory_stats(1)
    assert module.memory_allocated("toy:1") == before and module.max_memory_allocated(1) - before == 4 << 20
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 1 and stats["allocated_bytes.all.peak"] == module.max_memory_allocated(1)
    assert stats["segment.all.allocated"] == 1 and stats["num_ooms"] == 0
    assert "Reserved memory" in module.memory_summary(1) and len({len(line) for line in module.memory_summary(1).splitlines()}) == 1
    free, total = module.mem_get_info(1)
    assert total == 4 << 30 and 0 < free <= total - module.memory_reserved(1)
    module.empty_cache()
    kept = module.memory_reserved(1)
    module.set_per_process_memory_fraction(0.25, 1)
    assert abs(module.get_per_process_memory_fraction(1) - 0.25) < 1e-9
    try:
        with pytest.raises(tede.OutOfMemoryError, match=r"toy:1 out of memory. Tried to allocate 2.00 GiB.*1024.00 MiB allowed|toy:1 out of memory. Tried to "
                                                        r"allocate 2.00 GiB.*1.00 GiB allowed"):
            tede.empty(1 << 29, device="toy:1")
        assert module.memory_stats(1)["num_ooms"] == 1 and module.memory_stats(1)["num_alloc_retries"] == 1
        y = tede.empty(200 << 18, device="toy:1")
        del y                                           # kept, and given up for what wouldn't fit beside it
        z = tede.empty(900 << 18, device="toy:1")
        assert module.memory_reserved(1) - kept == 900 << 20 and module.memory_stats(1)["num_alloc_retries"] == 2
        del z
    finally:
        module.set_per_process_memory_fraction(1., 1)
        module.empty_cache()
    for fraction, error in ((2., ValueError), (1, TypeError)):
        with pytest.raises(error):
            module.set_per_process_memory_fraction(fraction)


def test_a_device_says_what_it_is(toy):                 # noqa: F811
    properties = tede.toy.get_device_properties("toy:1")
    assert properties.name == tede.toy.get_device_name(1) == "Toy 1" and properties.total_memory == 4 << 30 and properties.multi_processor_count == 2
    assert tede.toy.get_device_capability() == (0, 0) and tede.toy.is_bf16_supported()
    with pytest.raises(ValueError, match="Expected a toy device"):
        tede.toy.get_device_name("cpu")
    assert tede.get_device_module("toy") is tede.toy and sys.modules["tede.toy"] is tede.toy
    with tede.toy.device_of(tede.ones(1, device="toy:1")):
        assert tede.toy.current_device() == 1
    with tede.toy.device(None), tede.toy.device(-1):
        assert tede.toy.current_device() == 0


def test_generators_belong_to_indices(toy):             # noqa: F811
    tede.manual_seed(5)
    a, b = tede.rand(3, device="toy:0"), tede.rand(3, device="toy:1")
    assert a.tolist() == b.tolist()
    state = tede.toy.get_rng_state(1)
    c = tede.rand(3, device="toy:1")
    tede.toy.set_rng_state(state, 1)
    assert tede.rand(3, device="toy:1").tolist() == c.tolist() != b.tolist()
    with tede.random.fork_rng(devices=[1], device_type="toy"):
        tede.rand(3, device="toy:1")
    tede.toy.set_rng_state_all(tede.toy.get_rng_state_all())
    d = tede.rand(3, device="toy:1")
    tede.toy.set_rng_state(state, 1), tede.rand(3, device="toy:1")
    assert tede.rand(3, device="toy:1").tolist() == d.tolist()
    tede.toy.manual_seed_all(7)
    assert [tede.toy.initial_seed(), tede.toy.default_generators[1].initial_seed()] == [7, 7]
    assert tede.rand(2, device="toy", generator=tede.Generator("toy").manual_seed(7)).tolist() == tede.rand(2, device="toy").tolist()


def run(code, library):
    code = f"import ctypes, tede\npath = {library!r}\ntede.load_device(path)\nlibrary = ctypes.CDLL(path)\n" + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_a_device_that_dies_is_an_exception_each_time(library):
    done = run("""
        x, y = tede.ones(1000, device="toy:0", requires_grad=True), tede.ones(10, device="toy:1")
        event = tede.Event("toy:0")
        loss = (x * x).sum()
        ctypes.c_int64.in_dll(library, "toy_delay").value = 20000
        x.detach() + x.detach()
        event.record()
        library.toy_kill(0)
        for call in (lambda: x + 1, lambda: x.tolist(), lambda: tede.ones(3, device="toy:0"), lambda: tede.toy.synchronize(0), loss.backward,
                     event.synchronize, lambda: x.cpu(), lambda: x.exp(), lambda: repr(x), lambda: tede.Stream("toy:0"), event.query,
                     lambda: tede.toy.current_stream(0).synchronize(), lambda: tede.ones(3).to("toy:0"), lambda: y.copy_(x[:10])):
            try:
                call()
                print("no error")
            except RuntimeError as error:
                print("toy:0 is lost" in str(error) or error)
        del x, loss
        print((y + y).sum().item())
    """, library("toy_device"))
    assert done.stdout == "True\n" * 14 + "20.0\n", (done.stdout, done.stderr)


def test_a_fork_that_uses_the_device_is_refused(library):
    done = run("""
        import os
        x = tede.ones(3, device="toy")
        tede.toy.synchronize()
        child = os.fork()
        if child == 0:
            try:
                (x + x).tolist()
            except RuntimeError as error:
                os._exit("forked process" in str(error))
            os._exit(2)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (x + x).tolist())
    """, library("toy_device"))
    assert done.stdout == "1 [2.0, 2.0, 2.0]\n", (done.stdout, done.stderr)


def test_memory_that_the_device_hasnt_is_refused(library):
    done = run("""
        ctypes.c_int64.in_dll(library, "toy_capacity").value = 64 << 20
        kept = [tede.zeros(4 << 18, device="toy") for _ in range(10)]
        del kept                                        # 40 MiB that are kept for reuse
        x = tede.zeros(60 << 18, device="toy")          # for which they go back
        try:
            tede.zeros(8 << 18, device="toy")
        except tede.OutOfMemoryError as error:
            print(str(error))
        y = tede.zeros(2 << 18, device="toy")
        print(tede.toy.memory_allocated() >> 20, x.sum().item(), y.sum().item())
    """, library("toy_device"))
    assert "toy:0 out of memory. Tried to allocate 8.00 MiB. The device has a total capacity of 64.00 MiB of which 4.00 MiB is free." in done.stdout
    assert done.stdout.endswith("62 0.0 0.0\n"), (done.stdout, done.stderr)


def test_accelerator_and_privateuse1_mean_the_device(library):
    done = run("""
        a = tede.accelerator
        print(a.current_accelerator(), a.device_count(), a.current_device_index(), a.current_stream() == tede.toy.current_stream())
        with tede.Stream() as s:
            print(a.current_stream() == s, s.device)
        x = tede.ones(1000, device="toy")
        dtypes = a.get_device_capability()["supported_dtypes"]
        print(a.memory_allocated(), a.memory_stats()["allocation.all.current"], a.get_memory_info()[1] >> 30, tede.float32 in dtypes)
        a.reset_peak_memory_stats(), a.reset_accumulated_memory_stats(), a.empty_cache(), a.empty_host_cache(), a.synchronize()
        with a.device_index(1):
            print(a.current_device_index(), a.max_memory_allocated(), a.memory_reserved(0) > 0)
        tede.utils.rename_privateuse1_backend("toy")
        tede.utils.generate_methods_for_privateuse1_backend()
        print(tede._C._get_privateuse1_backend_name(), x.is_toy, tede.get_device_module() is tede.toy)
        try:
            tede.utils.rename_privateuse1_backend("other")
        except RuntimeError as error:
            print("already been set" in str(error))
        try:
            tede._register_device_module("toy", None)
        except RuntimeError as error:
            print("already been registered" in str(error))
    """, library("toy_device"))
    assert done.stdout.splitlines() == ["toy 2 0 True", "True toy:0", "4096 1 4 True", "1 0 True", "toy True True", "True", "True"], done.stderr


def test_programs_in_plain_c_run_on_its_streams(library, tmp_path):
    done = run("""
        tede.manual_seed(0)
        x, y = tede.randn(5, 7), tede.randn(7)
        before = tede._C._cpu_fallback_count()
        a, b = x.to("toyc:1"), y.to("toyc:1")
        with tede.Stream("toyc:1") as s:
            s.wait_stream(tede.toyc.default_stream(1))
            z = ((a + b).exp() * 2).t().contiguous().half()
        s.synchronize()
        print(tede._C._cpu_fallback_count() - before, z.device, (z.cpu() == ((x + y).exp() * 2).t().contiguous().half()).all().item())
    """, library("toy_device", "-DTOY_PROGRAMS"))
    if "can't be compiled" in done.stderr:
        pytest.skip("cc isn't there when programs are built")
    assert done.stdout == "0 toyc:1 True\n", (done.stdout, done.stderr)
