"""Values that ranks tell each other: through a store, by functions that one or each computes, and in parts whose sizes are a tensor."""
import importlib
import threading
from datetime import timedelta

import pytest
import ranks

LONG = timedelta(seconds=60)


@pytest.fixture
def lib(library):
    return importlib.import_module(library)


def in_threads(lib, function, size=4):
    """What function(collectives, rank) gives, by rank."""
    store, found = lib.distributed.HashStore(), [None] * size

    def run(rank):
        try:
            found[rank] = function(lib.distributed._StoreCollectives(store, rank, size), rank)
        except Exception as error:
            found[rank] = error
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_values_through_a_store(lib):
    assert in_threads(lib, lambda c, rank: c.barrier("here", LONG, True)) == [None] * 4
    assert in_threads(lib, lambda c, rank: c.all_sum("sum", rank, LONG)) == [6] * 4
    assert in_threads(lib, lambda c, rank: c.all_gather("all", str(rank), LONG)) == [[b"0", b"1", b"2", b"3"]] * 4
    assert in_threads(lib, lambda c, rank: c.gather_recv("g", "2", LONG) if rank == 2 else c.gather_send("g", str(rank), LONG))[2] == [b"0", b"1", b"2", b"3"]
    assert in_threads(lib, lambda c, rank: c.scatter_send("s", list("abcd"), LONG) if rank == 1 else c.scatter_recv("s", LONG)) == [b"a", b"b", b"c", b"d"]
    found = in_threads(lib, lambda c, rank: c.broadcast_send("b", b"data", LONG) if rank == 3 else c.broadcast_recv("b", LONG))
    assert found == [b"data"] * 3 + [None]


def test_ranks_that_do_not_come_are_named(lib):
    alone, short = lib.distributed._StoreCollectives(lib.distributed.HashStore(), 1, 4), timedelta(milliseconds=1)
    for name, arguments, text in (("barrier", (short, True), "barrier failed -- missing ranks: 0, 2, 3"), ("all_sum", (1, short), "barrier failed -- missing"),
                                  ("all_gather", ("x", short), "all_gather failed -- missing ranks: 0, 2, 3"),
                                  ("gather_recv", ("x", short), "gather failed -- missing ranks: 0, 2, 3"), ("broadcast_recv", (short,), "Wait timeout"),
                                  ("scatter_recv", (short,), "Wait timeout")):
        with pytest.raises(RuntimeError, match=text):
            getattr(alone, name)(f"of {name}", *arguments)
    with pytest.raises(RuntimeError, match="Key of barrier has already been used"):
        alone.broadcast_send("of barrier", "x")


def together(lib, rank, size):
    utilities, pg, found = importlib.import_module(f"{lib.__name__}.distributed.collective_utils"), lib.distributed.group.WORLD, []

    def fails():
        raise KeyError(f"of rank {rank}")
    found += [utilities.broadcast(lambda: rank * 10, rank=1, pg=pg), utilities.broadcast("value", rank=0, pg=pg), utilities.all_gather(lambda: rank, pg=pg)]
    calls = [lambda: utilities.broadcast(fails, rank=1, stage_name="first", pg=pg), lambda: utilities.broadcast(None, success=False, pg=pg)]
    if lib.__name__ == "tede":          # PyTorch 2.13's own error can't be raised
        calls.append(lambda: utilities.all_gather(fails if rank else 3, pg=pg))
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            found.append(str(error))
    out, sizes = lib.zeros(size, 2), lib.ones(size, dtype=lib.int64) if lib.__name__ == "tede" else [1] * size     # PyTorch's own groups take no tensor
    lib.distributed.all_to_all_single(out, lib.full((size, 2), float(rank)), sizes, sizes)
    return found, out.tolist()


def test_functions_that_ranks_call_for_all(library):
    for found, parts in ranks.run(together, 2, library):
        assert found[:3] == [10, "value", [0, 1]] and parts == [[0.0, 0.0], [1.0, 1.0]]
        assert "Rank 1 failed: stage first: exception" in found[3] and "of rank 1" in found[3]
        assert found[4] == "Rank 0 failed" and all(text.startswith("Rank 1 failed") and "of rank 1" in text for text in found[5:])
        assert len(found) == 5 + (library == "tede")


def test_without_a_group_a_function_is_just_called(lib):
    utilities = importlib.import_module(f"{lib.__name__}.distributed.collective_utils")
    assert utilities.broadcast(lambda: 3) == 3 and utilities.all_gather(lambda: 4) == [4]
    with pytest.raises(RuntimeError, match="no more"):
        utilities.all_gather(lambda: int("no more"))
