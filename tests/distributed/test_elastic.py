"""What launchers' programs are made of: a barrier that says who is missing, timers that end who takes too long."""
import importlib
import multiprocessing
import signal
import time
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool

import pytest

LIBRARIES = [name for name in ("tede", "torch") if find_spec(name)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_barrier_says_who_is_missing(library):
    D, store = importlib.import_module(f"{library}.distributed"), importlib.import_module(f"{library}.distributed.elastic.utils.store")
    kept = D.HashStore()

    def call(rank):
        try:
            store.barrier(kept, 3, "here", barrier_timeout=0.5, rank=rank, rank_tracing_decoder=lambda other: f"host {other}", trace_timeout=0.01)
        except RuntimeError as error:
            return str(error)
        return ""
    with ThreadPool(2) as pool:
        first, second = pool.map(call, range(2))
    assert "missing_ranks=[host 2]" in first and "check rank 0 (host 0) for missing rank info" in second


def worker(library, kind, place, after, seconds):
    timer = importlib.import_module(f"{library}.distributed.elastic.timer")
    timer.configure(getattr(timer, f"{kind}TimerClient")(place))
    with timer.expires(after=30, scope="all"):
        with timer.expires(after=after):
            time.sleep(seconds)


@pytest.mark.parametrize("library, kind", [(library, kind) for library in LIBRARIES for kind in ("Local", "File")
                                           if library == "tede" or kind == "Local"])      # PyTorch's FileTimerServer ends its own process, too
def test_a_worker_that_takes_too_long_is_ended(library, kind, tmp_path):
    timer = importlib.import_module(f"{library}.distributed.elastic.timer")
    context = multiprocessing.get_context("spawn")
    place = context.Queue() if kind == "Local" else str(tmp_path / "pipe")
    server = timer.LocalTimerServer(place, max_interval=0.02) if kind == "Local" else timer.FileTimerServer(place, "run", max_interval=0.02)
    server.start()
    try:
        for after, seconds, status in (20, 0, 0), (0.2, 30, -signal.SIGKILL):
            process = context.Process(target=worker, args=(library, kind, place, after, seconds))
            process.start()
            process.join(60)
            assert process.exitcode == status
    finally:
        server.stop()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_timer_needs_someone_to_ask(library):
    timer = importlib.import_module(f"{library}.distributed.elastic.timer")
    timer.configure(None)
    with pytest.raises(RuntimeError, match="Configure timer client before"), timer.expires(after=1):
        pass
    with pytest.raises(BrokenPipeError), timer.expires(after=1, client=timer.FileTimerClient("/nowhere")):
        pass


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_store_says_what_it_was_made_with(library, monkeypatch):
    utils = importlib.import_module(f"{library}.distributed.elastic.utils.distributed")
    assert utils.create_c10d_store(True, "localhost", 0, wait_for_workers=False).libuvBackend
    monkeypatch.setenv("USE_LIBUV", "0")
    assert not utils.create_c10d_store(True, "localhost", 0, wait_for_workers=False).libuvBackend
    names = "DistError", "DistBackendError", "DistNetworkError", "DistStoreError"
    D, C = importlib.import_module(f"{library}.distributed"), importlib.import_module(f"{library}._C")
    assert all(getattr(C, f"_{name}") is getattr(D, name) for name in names)
