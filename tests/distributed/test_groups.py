"""Groups by themselves: what they refuse, what barriers and futures promise, what profiles show of calls, and groups that a program writes itself."""
import importlib
import os
import threading
import time
from datetime import timedelta

import pytest
import ranks


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def refusals(lib, rank, size):
    D = lib.distributed
    options = D.ProcessGroupGloo._Options()
    options._devices, options._timeout = [D.ProcessGroupGloo.create_device(interface="lo")], 10.0        # seconds are a timeout, too
    pg = D.ProcessGroupGloo(D.HashStore(), 0, 1, options)
    x, wide, double, sparse = lib.zeros(2), lib.zeros(3), lib.zeros(2, dtype=lib.float64), lib.zeros(2).to_sparse()

    def about(kind, **values):
        made = kind()
        for name, value in values.items():
            setattr(made, name, value)
        return made
    found = {
        "empty": outcome(lambda: pg.allreduce([])), "layouts": outcome(lambda: pg.allreduce([x, sparse])), "types": outcome(lambda: pg.allreduce([x, double])),
        "sizes": outcome(lambda: pg.allreduce([x, wide])), "coalesced types": outcome(lambda: pg.allreduce_coalesced([x, double])),
        "coalesced sparse": outcome(lambda: pg.allreduce_coalesced([sparse])), "product": outcome(lambda: pg.allreduce([sparse], about(
            D.AllreduceOptions, reduceOp=D.ReduceOp.PRODUCT))),
        "root": outcome(lambda: pg.broadcast([x], about(D.BroadcastOptions, rootRank=-1, rootTensor=0))),
        "root tensor": outcome(lambda: pg.broadcast([], about(D.BroadcastOptions, rootRank=0, rootTensor=0))),
        "reduce": outcome(lambda: pg.reduce([x], about(D.ReduceOptions, rootRank=0, rootTensor=1))),
        "gather": outcome(lambda: pg.allgather([[wide]], [x])), "nothing": outcome(lambda: pg.allgather([], [])),
    }
    before = pg.options._timeout
    pg._set_default_timeout(timedelta(seconds=23))
    found["contiguous"] = outcome(lambda: D.all_to_all_single(lib.zeros(3), lib.zeros(6)[::2]))
    return found, before, pg.options._timeout


def test_what_groups_refuse(library):
    [(found, before, after)] = ranks.run(refusals, 1, library)
    assert (before, after) == (timedelta(seconds=10), timedelta(seconds=23))
    assert found.pop("contiguous") == ("ValueError", "Tensors must be contiguous")
    phrases = {"empty": "requires non-empty tensor list", "layouts": "invalid tensor layout at index 1", "types": "invalid tensor type",
               "sizes": "invalid tensor size", "coalesced types": "tensors must all have the same type", "coalesced sparse": "unsupported layout",
               "product": "unsupported reduction operation", "root": "invalid root rank: -1", "root tensor": "invalid root tensor: 0",
               "reduce": "invalid root tensor: 1", "gather": "invalid tensor size", "nothing": "requires non-empty input tensor list"}
    assert found.keys() == phrases.keys()
    for name, (kind, text) in found.items():
        assert kind == "RuntimeError" and phrases[name] in text, (name, kind, text)


def bitwise_of_floats(lib, rank, size):
    D, alone = lib.distributed, [lib.distributed.new_group([i]) for i in range(size)][rank]
    return [outcome(lambda op=op, group=group: D.all_reduce(lib.ones(2), getattr(D.ReduceOp, op), group=group))
            for op in ("BAND", "BOR", "BXOR") for group in (None, alone)] + [outcome(lambda: D.all_reduce(lib.ones(2), group=alone))]


def test_bitwise_reductions_are_of_integers_in_groups_of_one_too(library):
    """And the groups take further calls."""
    for found in ranks.run(bitwise_of_floats, 2, library):
        assert all("RuntimeError" in str(said) and f"Cannot use ReduceOp.{op} with non-integral dtype" in str(said)
                   for said, op in zip(found, ("BAND", "BAND", "BOR", "BOR", "BXOR", "BXOR"), strict=False)), found
        assert "Error" not in str(found[-1])


def averages_of_integers(lib, rank, size):
    D, alone = lib.distributed, [lib.distributed.new_group([i]) for i in range(size)][rank]
    op, found = D.ReduceOp.AVG, []
    for dtype in (lib.bool, lib.uint8, lib.int64):
        for group, n, root in (None, size, 0), (alone, 1, rank):
            x, y = lib.ones(2 * n).to(dtype), lib.ones(2).to(dtype)
            calls = (D.all_reduce, (x, op)), (D.reduce, (x, root, op)), (D.reduce_scatter, (y, list(x.chunk(n)), op))
            found += [outcome(lambda f=f, args=args, group=group: f(*args, group=group)) for f, args in calls]
    x = lib.tensor([rank, 2.0])
    D.all_reduce(x, op)
    return found, x.tolist()


def test_an_average_of_integers_is_refused(library):
    """It is a quotient, of whatever many processes; and the groups take further calls."""
    for found, x in ranks.run(averages_of_integers, 2, library):
        assert len(found) == 18 and x == [0.5, 2.0]
        for said, name in zip(found, [name for name in ("Bool", "Byte", "Long") for _ in range(6)], strict=True):
            assert said and said[0] == "RuntimeError" and f"result type Float can't be cast to the desired output type {name}" in said[1], (said, name)


def reductions_of_complex(lib, rank, size):
    D = lib.distributed
    x, y = lib.ones(2 * size, dtype=lib.complex64), lib.ones(2, dtype=lib.complex64)
    return [[outcome(lambda op=op: D.all_reduce(x, op)), outcome(lambda op=op: D.reduce(x, 0, op)), outcome(lambda op=op: D.reduce_scatter_tensor(y, x, op)),
             outcome(lambda op=op: D.reduce_scatter(y, list(x.chunk(size)), op))] for op in (D.ReduceOp.PRODUCT, D.ReduceOp.MIN, D.ReduceOp.BXOR)]


def test_what_refuses_reductions_of_complex_numbers(library):
    for found in ranks.run(reductions_of_complex, 2, library):
        for (first, *others), name in zip(found, ("PRODUCT", "MIN", "BXOR"), strict=True):
            assert first == ("ValueError", f"all_reduce does not support RedOpType.{name} on complex tensors")
            assert all(said and said[0] == "RuntimeError" and "does not support" in said[1] for said in others), others


def late_operands(lib, rank, size):
    """Of calls within a region, whose computing fails for want of memory when the group reads them."""
    D, x = lib.distributed, lib.rand(1)

    def refused(x):
        y = x.expand(2**37) * 2             # 512 GB
        return outcome(lambda: D.all_reduce(y))
    said = lib.compile(refused)(x)
    after = lib.ones(2)
    D.all_reduce(after)
    return said, after.tolist()


def test_operands_that_cannot_be_computed_are_an_error():
    for (kind, text), after in ranks.run(late_operands, 2):
        assert kind == "OutOfMemoryError" and "allocate" in text and after == [2.0, 2.0]


def reductions_are_values(lib, rank, size):
    op, made = lib.distributed.ReduceOp.SUM, lib.distributed.ReduceOp(lib.distributed.ReduceOp.SUM)
    return isinstance(op, lib.distributed.ReduceOp), made == op, op == made, made == "SUM", made != lib.distributed.ReduceOp.MAX


def test_reductions_are_values(library):
    assert ranks.run(reductions_are_values, 1, library, group=False) == [(True, True, False, False, True)]


def barriers(lib, rank, size):
    """The tensors of calls that nobody has waited for, after a barrier; and gathers in inference mode, whose results are put in place by whom sees the end."""
    D = lib.distributed
    pg, many = D.distributed_c10d._get_default_group(), [lib.full((100, 100), float(i)) for i in range(40)]
    for x in many:
        pg.allreduce([x])
    pg.barrier().wait()
    sums = [float(x.mean()) for x in many]
    with lib.inference_mode():
        own = [lib.tensor([2 * rank + i]) for i in range(2)]
        lists = [[lib.tensor([-1]) for _ in range(2 * size)] for _ in range(2)]
        future = pg._get_backend(lib.device("cpu")).allgather(lists, own).get_future()
        future.wait()
        values = [[int(x) for x in some] for some in future.value()]
    return sums, values


def test_a_barrier_is_over_when_what_was_begun_is(library):
    for sums, values in ranks.run(barriers, 2, library):
        assert sums == [2.0 * i for i in range(40)] and values == [[0, 1, 2, 3]] * 2


def kept(lib, rank, size):
    """Whether a group keeps tensors of calls that are over; who moves them on may have the last one a little longer."""
    import gc
    import time
    import weakref
    D, seen = lib.distributed, []
    for _ in range(4):
        x = lib.ones(3)
        seen.append(weakref.ref(x))
        D.all_reduce(x, async_op=True).wait()
        del x
    end = time.monotonic() + 20
    while any(ref() is not None for ref in seen) and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return [ref() is None for ref in seen]


def test_groups_keep_no_tensors_of_calls_that_are_over(library):
    assert ranks.run(kept, 2, library) == [[True] * 4] * 2


def shown(lib, rank, size):
    D, other = lib.distributed, 1 - rank
    with importlib.import_module(f"{lib.__name__}.autograd.profiler").profile(record_shapes=True) as profile:
        D.all_reduce(lib.ones(3))
        D.broadcast(lib.ones(2, 2), 0)
        D.all_gather([lib.zeros(4) for _ in range(size)], lib.ones(4))
        D.all_reduce_coalesced([lib.ones(2), lib.ones(5)])
        works = [D.isend(lib.ones(6), other), D.irecv(lib.zeros(6), other)]
        for work in works:
            work.wait()
        D.barrier()
    return sorted((e.name, e.is_async, e.count, [list(shape) for shape in e.input_shapes]) for e in profile.function_events if e.name.startswith("gloo:"))


def test_profiles_show_calls(library):
    expected = [("gloo:all_gather", [[4]]), ("gloo:all_reduce", [[2], [5]]), ("gloo:all_reduce", [[3]]), ("gloo:broadcast", [[2, 2]]),
                ("gloo:recv", [[6]]), ("gloo:send", [[6]])]
    for found in ranks.run(shown, 2, library):
        assert [event for event in found if event[0] != "gloo:barrier"] == [(name, True, 1, shapes) for name, shapes in expected]


def times_out(lib, rank, size):
    D, found = lib.distributed, []
    slow, other, third = D.new_group(), D.new_group(), D.new_group()
    D.distributed_c10d._set_pg_timeout(timedelta(seconds=1), slow)
    if rank == 0:
        found.append(outcome(lambda: D.barrier(slow)))
        found.append(outcome(lambda: D.monitored_barrier(other, timedelta(seconds=0.5))))
        found.append(outcome(lambda: third.monitored_barrier(timedelta(0))))
    D.barrier()
    return found


def test_barriers_that_nobody_else_comes_to(library):
    barrier, monitored, at_once = ranks.run(times_out, 2, library)[0]
    assert barrier[0] == monitored[0] == at_once[0] == "RuntimeError"
    assert " Timed out waiting 1000ms for " in barrier[1] and "operation to complete" in barrier[1]
    assert "Rank 1 failed to pass monitoredBarrier in 500 ms" in monitored[1] and "Rank 0 timed out in monitoredBarrier" in at_once[1]


def store_barriers(lib, rank, size):
    D, failed = lib.distributed, []

    def come(store, i, count):
        try:
            timeout = timedelta(seconds=60 if count == 3 else 1)
            D.distributed_c10d._store_based_barrier(i, store, "some", count, timeout, timedelta(seconds=0.5))
        except D.DistStoreError as error:
            failed.append(str(error))
    for count in (3, 4):
        store = D.HashStore()
        threads = [threading.Thread(target=come, args=(store, i, count)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if count == 3:
            assert not failed
    return failed


def test_barriers_by_a_store(library):
    [failed] = ranks.run(store_barriers, 1, library, group=False)
    assert len(failed) == 3 and all("Timed out initializing process group in store based barrier on rank" in text for text in failed)


def groups_of_threads(lib, rank, size):
    """Groups that each thread has registered for itself."""
    c10d = importlib.import_module("tede.distributed._c10d" if lib.__name__ == "tede" else "torch._C._distributed_c10d")
    made, found = [lib.distributed.ProcessGroup(i, 2) for i in range(2)], [None, None]

    def one(i):
        c10d._register_process_group("both", made[i])
        found[i] = c10d._resolve_process_group("both").rank()
    c10d._set_thread_isolation_mode(True)
    try:
        threads = [threading.Thread(target=one, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        c10d._set_thread_isolation_mode(False)
    return found


def test_threads_can_have_groups_of_their_own(library):
    assert ranks.run(groups_of_threads, 1, library, group=False) == [[0, 1]]


def groups_of_the_program(lib, rank, size):
    D, futures = lib.distributed, importlib.import_module(f"{lib.__name__}.futures")

    class MyWork(D._Work):
        def __init__(self, result, pg):
            super().__init__()
            self.future, self.pg = futures.Future(), pg
            self.future.set_result(result)

        def wait(self, timeout):
            self.pg.waits += 1
            return True

        def get_future(self):
            self.pg.futures += 1
            return self.future

    class Lonely(D.ProcessGroup):
        def __init__(self):
            super().__init__(0, 1)
            self.waits, self.futures, self.works = 0, 0, []

        def _done(self, result):
            self.works.append(MyWork(result, self))
            return self.works[-1]

        def broadcast(self, tensors, opts):
            return self._done(tensors)

        def allgather(self, outputs, inputs, opts):
            for output, input in zip(outputs[0], inputs):
                output.copy_(input)
            return self._done(outputs)

        def allreduce(self, tensors, opts):
            return self._done(tensors)

        def getSize(self):
            return 1

        def getBackendName(self):
            return "lonely"

        def setGroupName(self, name):
            self._name = "my " + name

        def getGroupName(self):
            return self._name
    pg = Lonely()
    pg._set_group_name("group")
    lib.manual_seed(0)
    model = lib.nn.Linear(2, 2)
    ddp = importlib.import_module(f"{lib.__name__}.nn.parallel").DistributedDataParallel(model, process_group=pg)
    ddp(lib.ones(3, 2)).sum().backward()
    return pg.name(), pg.size(), pg.group_name, pg.waits > 0, pg.futures > 0, model.bias.grad.tolist()


def test_groups_that_a_program_writes(library):
    assert ranks.run(groups_of_the_program, 1, library, group=False) == [("lonely", 1, "my group", True, True, [3.0, 3.0])]


def hooks_that_call_collectives(lib, rank, size):
    """Callbacks of a hook's futures make calls, and one rank's come later: they are made in the order of buckets everywhere."""
    D, seen = lib.distributed, []

    def hook(state, bucket):
        if rank:
            time.sleep(0.02)
        future = D.all_reduce(bucket.buffer(), async_op=True).get_future()

        def then(future):
            number = lib.full((1 + bucket.index() % 2,), float(bucket.index()))
            D.all_reduce(number)
            seen.append(number[0].item())
            return future.value()[0] / size
        return future.then(then)
    lib.manual_seed(0)
    model = lib.nn.Sequential(*[lib.nn.Linear(16, 16) for _ in range(6)])
    ddp = importlib.import_module(f"{lib.__name__}.nn.parallel").DistributedDataParallel(model, bucket_cap_mb=0.001)
    ddp.register_comm_hook(None, hook)
    for _ in range(5):
        ddp.zero_grad()
        ddp(lib.full((2, 16), rank + 1.0)).sum().backward()
    return seen, [float(p.grad.abs().sum()) for p in model.parameters()]


def test_hooks_may_call_collectives_when_a_future_is_done():
    (first, gradients), (second, same) = ranks.run(hooks_that_call_collectives, 2)
    assert first == second and gradients == same
    assert len(first) > 20 and sorted(first[-5:]) == first[-5:] and first[-5:][1] - first[-5:][0] == 2.0


def unknown_host(lib, rank, size, folder):
    os.environ["MASTER_ADDR"] = "no such host"
    return outcome(lambda: lib.distributed.init_process_group("gloo", init_method=f"file://{folder}/met", rank=0, world_size=2))


def test_a_host_that_is_not_known_is_an_error(tmp_path):
    [(kind, text)] = ranks.run(unknown_host, 1, "tede", str(tmp_path), group=False)
    assert kind == "DistNetworkError" and "no such host" in text


def mismatches(lib, rank, size, directly):
    """What the ranks of a group that checks its calls are told where they make different ones."""
    D, x, tall = lib.distributed, lib.randn(20, 10), lib.randn(20, 2 + 8 * rank)
    if directly:
        store = D.FileStore(os.environ["STORE_FILE"], size)
        inner = D.ProcessGroupGloo(store, rank, size, timedelta(seconds=60))
        pg = D.distributed_c10d._create_process_group_wrapper(inner, "unused", store, rank, size, timeout=timedelta(seconds=60))
    else:
        pg = D.new_group(backend="gloo")
    for _ in range(20):
        pg.allreduce([x]).wait()
    found = [outcome(lambda: pg.allreduce([x]) if rank == 0 else pg.reduce([x])), outcome(lambda: pg.reduce([x]) if rank == 0 else pg.barrier()),
             outcome(lambda: pg.allreduce([tall]))]
    alike = lib.ones(3)
    pg.allreduce([alike]).wait()
    return found, alike.tolist()


@pytest.mark.parametrize("directly", [False, True])
def test_ranks_that_make_other_calls_are_named(library, directly, tmp_path):
    environment = {"TORCH_DISTRIBUTED_DEBUG": "OFF" if directly else "DETAIL", "STORE_FILE": str(tmp_path / "store")}
    for rank, (found, alike) in enumerate(ranks.run(mismatches, 2, library, directly, environment=environment)):
        assert alike == [2.0] * 3
        for (kind, text), names, shape in zip(found, (("ALLREDUCE", "REDUCE"), ("REDUCE", "BARRIER"), ("ALLREDUCE", "ALLREDUCE")), (10, 10, 2 + 8 * rank)):
            assert kind == "RuntimeError" and f"OpType={names[rank]}" in text and "SequenceNumber=" in text
            assert "Collectives differ in the following" in text and (names[rank] == "BARRIER" or f"[20, {shape}]" in text and "Float" in text)


def hangs(lib, rank, size):
    D = lib.distributed
    pg = D.new_group(backend="gloo")
    D.distributed_c10d._set_pg_timeout(timedelta(seconds=1), pg)
    found = outcome(lambda: pg.allreduce([lib.ones(2)])) if rank == 0 else None
    D.distributed_c10d._get_default_store().set("over", "1") if rank == 0 else D.distributed_c10d._get_default_store().get("over")
    return found


def test_a_rank_that_does_not_come_is_named_where_calls_are_checked():
    kind, text = ranks.run(hangs, 2, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})[0]
    assert kind == "RuntimeError" and "Ranks 1 failed to pass monitoredBarrier" in text


@pytest.mark.parametrize("group, tag, expected", [([0, 1], "", ("", [0, 1], 2)), ([[0, 1], [2, 3]], "two", ("two", [0, 1, 2, 3], 2))])
def test_lists_of_ranks_are_expanded(library, group, tag, expected):
    functional = importlib.import_module(f"{library}.distributed._functional_collectives")
    assert functional._expand_group(group, tag) == expected


def test_what_a_program_sets_in_distributed_c10d_is_used_wherever_it_is_read(library, monkeypatch):
    D = importlib.import_module(f"{library}.distributed")

    class Seven:
        def size(self):
            return 7
    assert not D.is_initialized()
    with monkeypatch.context() as patch:
        patch.setattr(D.distributed_c10d, "_get_default_group", Seven)
        assert D.get_world_size() == 7
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        D.get_world_size()
    with monkeypatch.context() as patch:
        patch.setattr(D.distributed_c10d, "_world", type("World", (), dict(default_pg=Seven())))
        assert D.is_initialized() and D.get_world_size() == 7
    assert not D.is_initialized()


def options_of_a_group(lib, rank, size):
    seen, D = [], lib.distributed
    FakeProcessGroup = importlib.import_module("torch._C._distributed_c10d" if lib.__name__ == "torch" else "tede.distributed._c10d").FakeProcessGroup

    def make(about, options):
        seen.append((about.group_rank, about.group_size, list(about.global_ranks_in_group), isinstance(about.store, D.Store)))
        create = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
        return create(about.group_rank, about.group_size)
    D.Backend.register_backend("described", make, extended_api=True, devices=["cpu"])
    D.new_group([0], backend="described")
    return seen


def test_a_backend_that_takes_options_is_told_the_group(library):
    assert ranks.run(options_of_a_group, 1, library) == [[(0, 1, [0], True)]]
