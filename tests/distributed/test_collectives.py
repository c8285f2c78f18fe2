"""Collectives between processes, by the same functions on tede and on PyTorch."""
import time
from datetime import timedelta

import pytest
import ranks

DTYPES = ["uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def reductions(lib, rank, size):
    D = lib.distributed
    found = {}
    for dtype in DTYPES:
        for op in ("SUM", "PRODUCT", "MIN", "MAX"):
            x = lib.tensor([1, 2, 3]).to(getattr(lib, dtype)) + rank
            D.all_reduce(x, getattr(D.ReduceOp, op))
            found[dtype, op] = x.double().tolist()
    for op in ("BAND", "BOR", "BXOR"):
        x = lib.tensor([5, 6, 12]) + rank
        D.all_reduce(x, getattr(D.ReduceOp, op))
        found[op] = x.tolist()
    x = lib.ones(2, dtype=lib.complex64) * (1 + 1j * rank)
    D.all_reduce(x)
    found["complex"] = x.tolist()
    with pytest.raises(ValueError, match="all_reduce does not support .* on complex tensors"):
        D.all_reduce(x, D.ReduceOp.MAX)
    return found


def test_reductions_by_dtype(library):
    first, second = ranks.run(reductions, 2, library)
    assert first == second
    for dtype in DTYPES:
        assert first[dtype, "SUM"] == [3, 5, 7] and first[dtype, "PRODUCT"] == [2, 6, 12]
        assert first[dtype, "MIN"] == [1, 2, 3] and first[dtype, "MAX"] == [2, 3, 4]
    assert (first["BAND"], first["BOR"], first["BXOR"]) == ([5 & 6, 6 & 7, 12 & 13], [5 | 6, 6 | 7, 12 | 13], [5 ^ 6, 6 ^ 7, 12 ^ 13])
    assert first["complex"] == [2 + 1j] * 2


def shapes(lib, rank, size, strided):
    D = lib.distributed
    found = []
    some = (lambda: lib.zeros(2, 3).t(), lambda: lib.zeros(4)[::2]) if strided else (lambda: lib.zeros(()), lambda: lib.zeros(0, 3))
    for make in some:
        x = make().fill_(rank + 1.0)
        D.all_reduce(x)
        y = make().fill_(float(rank))
        D.broadcast(y, 1)
        parts = [make() for _ in range(size)]
        D.all_gather(parts, make().fill_(float(rank)))
        found.append([x.tolist(), y.tolist(), [part.tolist() for part in parts]])
    return found


def test_operands_without_dimensions_or_elements(library):
    both = ranks.run(shapes, 2, library, False)
    assert both == [[[3.0, 1.0, [0.0, 1.0]], [[], [], [[], []]]]] * 2


def test_operands_whose_elements_are_no_neighbours():
    """PyTorch's Gloo refuses some, and misreads others."""
    both = ranks.run(shapes, 2, "tede", True)
    assert both[0] == both[1]
    assert both[0][0] == [[[3.0] * 2] * 3, [[1.0] * 2] * 3, [[[0.0] * 2] * 3, [[1.0] * 2] * 3]]
    assert both[0][1] == [[3.0] * 2, [1.0] * 2, [[0.0] * 2, [1.0] * 2]]


def moves(lib, rank, size):
    D, found = lib.distributed, {}
    mine = lib.arange(2) + 10 * rank
    parts = [lib.zeros(2, dtype=lib.int64) for _ in range(size)]
    D.all_gather(parts, mine)
    found["all_gather"] = [p.tolist() for p in parts]
    flat = lib.zeros(2 * size, dtype=lib.int64)
    D.all_gather_into_tensor(flat, mine)
    found["all_gather_into_tensor"] = flat.tolist()
    D.gather(mine, parts if rank == 1 else None, dst=1)
    got = lib.zeros(2, dtype=lib.int64)
    D.scatter(got, [lib.full((2,), i) for i in range(size)] if rank == 0 else None, src=0)
    found["scatter"] = got.tolist()
    x = lib.full((2,), rank + 1)
    D.reduce(x, dst=1)
    found["reduce"] = x.tolist() if rank == 1 else None
    out = lib.zeros(2, dtype=lib.int64)
    D.reduce_scatter(out, [lib.full((2,), i + rank) for i in range(size)])
    found["reduce_scatter"] = out.tolist()
    D.reduce_scatter_tensor(out, lib.arange(2 * size) + rank)
    found["reduce_scatter_tensor"] = out.tolist()
    outs = [lib.zeros(1, dtype=lib.int64) for _ in range(size)]
    D.all_to_all(outs, [lib.tensor([10 * rank + i]) for i in range(size)])
    found["all_to_all"] = [o.item() for o in outs]
    rows = lib.zeros(size * (rank + 1), dtype=lib.int64)
    D.all_to_all_single(rows, lib.arange(sum(range(1, size + 1))) + 100 * rank, [rank + 1] * size, list(range(1, size + 1)))
    found["all_to_all_single"] = rows.tolist()
    return found


def test_moves(library):
    a, b = ranks.run(moves, 2, library)
    assert a["all_gather"] == b["all_gather"] == [[0, 1], [10, 11]] and a["all_gather_into_tensor"] == [0, 1, 10, 11]
    assert (a["scatter"], b["scatter"], b["reduce"]) == ([0, 0], [1, 1], [3, 3])
    assert (a["reduce_scatter"], b["reduce_scatter"]) == ([1, 1], [3, 3])
    assert (a["reduce_scatter_tensor"], b["reduce_scatter_tensor"]) == ([1, 3], [5, 7])
    assert (a["all_to_all"], b["all_to_all"]) == ([0, 10], [1, 11])
    assert (a["all_to_all_single"], b["all_to_all_single"]) == ([0, 100], [1, 2, 101, 102])


def messages(lib, rank, size):
    D = lib.distributed
    if rank == 0:
        D.send(lib.arange(3), 1)
        D.send(lib.ones(2), 1, tag=7)
        works = [D.isend(lib.full((1,), float(i)), 1) for i in range(3)]
        [work.wait() for work in works]
        with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
            D.send(lib.ones(1), 0)
        D.send_object_list([{"a": 1}, "b"], 1)
        return None
    x, y, z = lib.zeros(3, dtype=lib.int64), lib.zeros(2), lib.zeros(1)
    found = [D.recv(x), x.tolist(), D.recv(y, 0, tag=7), y.tolist()]
    for _ in range(3):
        work = D.irecv(z, 0)
        work.wait()
        found.append(z.item())
    objects = [None, None]
    return [*found, D.recv_object_list(objects, 0), objects]


def late_message(lib, rank, size):
    D, x, y = lib.distributed, lib.zeros(2), lib.zeros(2)
    group = D.new_group([0, 1], timeout=timedelta(seconds=1))
    D.barrier()
    if rank == 1:
        time.sleep(2.2)
        D.send(lib.ones(2), 0, group=group)
    else:
        with pytest.raises(RuntimeError, match="Timed out"):
            D.recv(x, 1, group=group)
        time.sleep(0.8)
        D.recv(y, 1, group=group)
    D.all_reduce(y, group=group)
    return x.tolist() + y.tolist()


def test_a_message_that_is_late_comes_to_whom_waits_next():
    # On tede alone: PyTorch's connection to that rank is closed.
    assert ranks.run(late_message, 2) == [[0, 0, 1, 1]] * 2


def test_messages(library):
    assert ranks.run(messages, 2, library)[1] == [0, [0, 1, 2], 0, [1.0, 1.0], 0.0, 1.0, 2.0, 0, [{"a": 1}, "b"]]


def objects(lib, rank, size):
    D = lib.distributed
    every = [None] * size
    D.all_gather_object(every, {"rank": rank, "text": "x" * (rank * 100)})
    gathered = [None] * size if rank == 1 else None
    D.gather_object(rank * 2, gathered, dst=1)
    said = ["a", {1, 2}] if rank == 0 else [None, None]
    D.broadcast_object_list(said, src=0)
    got = [None]
    D.scatter_object_list(got, ["zero", 1] if rank == 0 else None, src=0)
    return [one["rank"] for one in every], gathered, said, got


def test_objects(library):
    assert ranks.run(objects, 2, library) == [([0, 1], None, ["a", {1, 2}], ["zero"]), ([0, 1], [0, 2], ["a", {1, 2}], [1])]


def asynchronous(lib, rank, size):
    D = lib.distributed
    x, y = lib.ones(1000) * (rank + 1), lib.ones(10)
    works = [D.all_reduce(x, async_op=True), D.broadcast(y, 0, async_op=True), D.barrier(async_op=True)]
    doubled = works[0].get_future().then(lambda future: future.value()[0] * 2)
    first = doubled.wait()[0].item()
    for work in works:
        assert work.wait() and work.is_completed()
    return first, x[0].item(), works[0].is_completed()


def test_work_goes_on_by_itself(library):
    assert ranks.run(asynchronous, 2, library) == [(6.0, 3.0, True)] * 2


def groups(lib, rank, size):
    D = lib.distributed
    found = []
    for members in ([0, 2], [1, 2], [1]):
        group = D.new_group(members)
        if rank in members:
            x = lib.ones(1) * (rank + 1)
            D.all_reduce(x, group=group)
            found.append((members, x.item(), D.get_rank(group), D.get_world_size(group), D.get_process_group_ranks(group),
                          D.get_global_rank(group, 0), D.get_group_rank(group, rank)))
        else:
            assert group == D.GroupMember.NON_GROUP_MEMBER and D.get_rank(group) == -1
    return found


def test_groups_of_some_ranks(library):
    a, b, c = ranks.run(groups, 3, library)
    assert a == [([0, 2], 4.0, 0, 2, [0, 2], 0, 0)]
    assert b == [([1, 2], 5.0, 0, 2, [1, 2], 1, 0), ([1], 2.0, 0, 1, [1], 1, 0)]
    assert c == [([0, 2], 4.0, 1, 2, [0, 2], 0, 1), ([1, 2], 5.0, 1, 2, [1, 2], 1, 1)]


def late(lib, rank, size):
    import datetime
    import time
    D = lib.distributed
    group = D.new_group(timeout=datetime.timedelta(seconds=1))
    began = time.monotonic()
    if rank == 0:
        with pytest.raises(RuntimeError, match="(?i)timed out|timeout"):
            D.all_reduce(lib.ones(1), group=group)
        took = time.monotonic() - began
        D.barrier()
        return 0.5 < took < 5
    time.sleep(2)
    D.barrier()
    return True


def test_a_rank_that_does_not_come_is_a_timeout(library):
    assert ranks.run(late, 2, library) == [True, True]


def dying(lib, rank, size):
    import os
    import time
    D = lib.distributed
    D.barrier()
    if rank == 1:
        os.kill(os.getpid(), 9)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="rank 1 of group .* has ended") as caught:
        while True:
            D.all_reduce(lib.ones(1))
    return time.monotonic() - began < 20, "all_reduce" in str(caught.value)


def test_a_rank_that_is_killed_is_an_error_that_names_it():
    first, second = ranks.run(dying, 2, "tede", check=False)
    assert first.error is None and first.value == (True, True), first
    assert second.status == -9


def left_behind(lib, rank, size):
    lib.distributed.barrier()
    return [line.split()[-1] for line in open("/proc/self/maps") if "/dev/shm/" in line and "deleted" not in line]


def test_no_file_is_left_in_shared_memory():
    assert ranks.run(left_behind, 2) == [[], []]


def interrupted(lib, rank, size):
    import os
    import signal
    import threading
    import time
    D = lib.distributed
    if rank:
        time.sleep(2)
        return None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        D.all_reduce(lib.ones(1))
    os._exit(0 if time.monotonic() - began < 1.9 else 1)


def test_a_wait_can_be_interrupted():
    assert ranks.run(interrupted, 2, check=False)[0].status == 0
