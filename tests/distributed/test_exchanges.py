"""Calls by messages from each rank to each other (engines/mpi/exchange.c): what is small where ranks share cores, and sums of large parts.  The same
functions run on PyTorch, so what they expect is true of it."""
import os
import time

import pytest
import ranks

SIZES = 1, 1000, 9000, 40000            # float32: one message, pieces that are sent on, and what goes to MPI's own


def begin(lib, rank, size, store):
    """The default group, of ranks that share one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lib.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    return lib.distributed


def small_calls(lib, rank, size, store):
    D = begin(lib, rank, size, store)
    for n in SIZES:
        base = lib.arange(n) % 97
        for dtype in (lib.uint8, lib.int64, lib.float16, lib.bfloat16, lib.float32, lib.float64) if n < 9000 else [lib.float32]:
            x = (base + rank).to(dtype)
            D.all_reduce(x)
            assert lib.equal(x, (size * base + sum(range(size))).to(dtype)), (n, dtype)
        x = (base * 1.0) * (1 + rank)
        D.all_reduce(x, D.ReduceOp.MAX)
        assert lib.equal(x, base * 1.0 * size)
        x = lib.sin(base + 0.1 * rank)                              # not exact: but the same everywhere
        D.all_reduce(x)
        parts = [lib.empty(n) for _ in range(size)]
        D.all_gather(parts, x)
        assert all(lib.equal(part, x) for part in parts)
        out = lib.empty(n)
        D.reduce_scatter(out, [base * 1.0 + 10 * rank + k for k in range(size)])
        assert lib.equal(out, size * (base + rank) + 10.0 * sum(range(size)))
    x = lib.full((3,), 1j * (rank + 1))
    D.all_reduce(x)
    assert x.tolist() == [1j * sum(range(1, size + 1))] * 3
    D.barrier()
    return True


def test_small_calls_where_ranks_share_a_core(library, tmp_path):
    assert ranks.run(small_calls, 3, library, str(tmp_path / "store"), group=False) == [True] * 3


def many_at_once(lib, rank, size, store):
    """Calls that are under way together, among them messages whose tags are those of others."""
    D = begin(lib, rank, size, store)
    sums, gathered, scattered, works = [], [], [], []
    sent, got = lib.full((2000,), float(rank)), [lib.empty(2000) for _ in range(8)]
    for k in range(8):
        works.append(D.isend(sent, (rank + 1) % size, tag=k))
        sums.append(lib.full((700 * k + 1,), float(rank + k)))
        works.append(D.all_reduce(sums[-1], async_op=True))
        gathered.append([lib.empty(300 * k + 1) for _ in range(size)])
        works.append(D.all_gather(gathered[-1], lib.full((300 * k + 1,), float(rank * k)), async_op=True))
        scattered.append(lib.empty(90000 * (k % 2) + 3))
        works.append(D.reduce_scatter(scattered[-1], [lib.full_like(scattered[-1], float(rank + to + k)) for to in range(size)], async_op=True))
    for k in reversed(range(8)):
        works.append(D.irecv(got[k], (rank - 1) % size, tag=k))
    for work in reversed(works):
        work.wait()
    total = sum(range(size))
    for k in range(8):
        assert (sums[k] == total + size * k).all()
        assert all((part == other * k).all() for other, part in enumerate(gathered[k]))
        assert (scattered[k] == total + size * (rank + k)).all()
        assert (got[k] == (rank - 1) % size).all()
    return True


def test_calls_under_way_together(library, tmp_path):
    assert ranks.run(many_at_once, 3, library, str(tmp_path / "store"), group=False) == [True] * 3


def large_parts(lib, rank, size):
    D, n = lib.distributed, 150001                  # several chunks, and one that isn't full
    base = lib.arange(n, dtype=lib.float64) % 1009
    out = lib.empty(n, dtype=lib.float64)
    D.reduce_scatter(out, [base + rank + to for to in range(size)])
    assert lib.equal(out, size * (base + rank) + sum(range(size)))
    D.reduce_scatter(out, [base + rank + to for to in range(size)], op=D.ReduceOp.MAX)
    assert lib.equal(out, base + rank + size - 1)
    D.reduce_scatter_tensor(out, lib.cat([base + rank + to for to in range(size)]))
    assert lib.equal(out, size * (base + rank) + sum(range(size)))
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_sums_of_large_parts(library, size):
    assert ranks.run(large_parts, size, library) == [True] * size


def results_within_operands(lib, rank, size):
    """The result is memory of an operand, on each rank of another one than its own."""
    D, found = lib.distributed, []
    for n in (7, 100003):
        for shift in range(size):
            parts = [lib.full((n,), 10.0 * rank + to) for to in range(size)]
            out = parts[(rank + shift) % size]
            D.reduce_scatter(out, parts)
            assert (out == 10 * sum(range(size)) + size * rank).all(), (n, shift)
        found.append(out[0].item())
    return found


def test_results_in_the_memory_of_any_operand():
    assert ranks.run(results_within_operands, 3) == [[30.0 + 3 * rank] * 2 for rank in range(3)]


def parts_for_each(lib, rank, size):
    D, tags = lib.distributed, {}
    for n in (1, 5000, 300001):                     # uneven: rank a sends rank b (a + 2 b) * n elements
        read, written = [(rank + 2 * to) * n for to in range(size)], [(a + 2 * rank) * n for a in range(size)]
        x = lib.cat([lib.full((k,), 10 * rank + to) for to, k in enumerate(read)])
        out = x.new_empty(sum(written))
        D.all_to_all_single(out, x, written, read)
        assert lib.equal(out, lib.cat([lib.full((k,), 10 * a + rank) for a, k in enumerate(written)])), n
        tags[n] = [lib.full((n,), 1.0 * rank), D.all_to_all_single(even := lib.empty(n * size), lib.full((n * size,), float(rank)), async_op=True), even]
    for n, (mine, work, even) in tags.items():
        parts = [lib.empty(n) for _ in range(size)]
        D.all_gather(parts, mine)
        work.wait()
        assert all((part == k).all() for k, part in enumerate(parts)) and lib.equal(even, lib.cat(parts))
    return True


def test_a_part_for_each_rank(library):
    assert ranks.run(parts_for_each, 3, library) == [True] * 3


def rates(lib, rank, size):
    """Seconds of the quickest call of 4 MiB to all, and of one part to each."""
    D, x, found = lib.distributed, lib.ones(1 << 20), []
    for call in (D.all_gather_into_tensor, D.all_to_all_single):
        operand, out, times = x if call is D.all_to_all_single else x[:x.numel() // size].clone(), lib.zeros(x.numel()), []
        for _ in range(10):
            D.barrier()
            start = time.perf_counter()
            call(out, operand)
            times.append(time.perf_counter() - start)
        found.append(min(times))
    return found


def test_a_part_for_each_is_sent_as_quickly_as_one_for_all():
    gathered, exchanged = map(max, zip(*ranks.run(rates, 2), strict=True))
    assert exchanged < 8 * gathered                 # 30 to 90 times by MPICH's own all-to-all
