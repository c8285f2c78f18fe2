"""Stores, as programs see them: true of PyTorch, too. What the wire carries is tested in tests/c/test_store.c."""
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec

import pytest
import tede.distributed

NAMES = [name for name in ("tede", "torch") if find_spec(name)]
LIBRARIES = [import_module(f"{name}.distributed") for name in NAMES]
BRIEF = timedelta(milliseconds=50)


@pytest.fixture(params=LIBRARIES, ids=NAMES)
def dist(request):
    return request.param


def master(dist, **options):
    return dist.TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=20), **options)


def client(dist, port):
    return dist.TCPStore("localhost", port, is_master=False, timeout=timedelta(seconds=20))


def each(dist, path):
    yield dist.HashStore()
    yield dist.FileStore(str(path / "store"), 1)
    yield master(dist)
    yield dist.PrefixStore("p", dist.HashStore())


def test_values_counters_and_exchanges(dist, tmp_path):
    for store in each(dist, tmp_path):
        store.set("k", "v")
        store.set("b", b"v\0w")
        assert (store.get("k"), store.get("b"), store.add("n", 3), store.add("n", -5), store.get("n")) == (b"v", b"v\0w", 3, -2, b"-2")
        assert (store.compare_set("c", "", "x"), store.compare_set("c", "y", "z"), store.compare_set("q", "e", "z")) == (b"x", b"x", b"e")
        store.append("a", "po")
        store.append("a", "tato")
        store.multi_set(["m1", "m2"], ["1", b"2"])
        assert (store.get("a"), store.multi_get(["m1", "m2"]), store.check(["m1"]), store.check(["m1", "zz"])) == (b"potato", [b"1", b"2"], True, False)
        assert store.delete_key("c") and not store.check(["c"])
        assert store.wait(["k"]) is None and store.clone().get("k") == b"v"


def test_a_wait_ends_with_an_error(dist, tmp_path):
    for store in each(dist, tmp_path):
        store.set_timeout(BRIEF)
        assert store.timeout == BRIEF
        for call in (lambda s: s.get("no"), lambda s: s.wait(["no"]), lambda s: s.wait(["no"], BRIEF)):
            with pytest.raises(RuntimeError, match="(?i)timeout"):
                call(store)


def test_queues(dist):
    for store in (dist.HashStore(), master(dist)):
        store.queue_push("q", "1")
        store.queue_push("q", b"2")
        assert (store.queue_len("q"), store.queue_pop("q"), store.queue_pop("q", block=False), store.queue_len("q")) == (2, b"1", b"2", 0)
        with pytest.raises(dist.QueueEmptyError, match="queue is empty"):
            store.queue_pop("q", False)


def test_arguments_of_other_types(dist):
    store = dist.HashStore()
    for call in (lambda: store.set(1, "a"), lambda: store.set("a", 1), lambda: store.wait("abc"), lambda: store.set_timeout(3),
                 lambda: store.add("x", "1"), lambda: dist.TCPStore("localhost")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="cannot be 0"):
        dist.TCPStore("localhost", 0, 0, True)


def test_the_kinds_of_errors(dist):
    assert issubclass(dist.DistStoreError, dist.DistError) and issubclass(dist.DistNetworkError, dist.DistError)
    assert issubclass(dist.QueueEmptyError, dist.DistStoreError) and issubclass(dist.DistBackendError, dist.DistError)
    store = master(dist)
    with pytest.raises(dist.DistNetworkError, match=f"failed to listen on any local .*{store.port}"):
        dist.TCPStore("localhost", store.port, is_master=True)
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 200ms .*\(localhost, 1\)"):
        dist.TCPStore("localhost", 1, timeout=timedelta(milliseconds=200))
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("localhost", 0, 2, True, timeout=BRIEF)


def test_stores_that_python_implements():
    calls = []

    class Mine(tede.distributed.Store):
        def compare_set(self, key, expected, desired):
            calls.append((key, expected, desired))
            return desired

        def set(self, key, value):
            calls.append((key, value))

    store = tede.distributed.PrefixStore("p", Mine())
    store.append("k", "v")
    store.multi_set(["a"], ["1"])
    assert calls == [("p/k", b"", b"v"), ("p/a", b"1")] and not store.has_extended_api()
    with pytest.raises(RuntimeError, match="Not implemented"):
        store.get("a")


def test_prefixes_nest(dist):
    under = dist.HashStore()
    store = dist.PrefixStore("a", dist.PrefixStore("b", under))
    store.set("k", "v")
    assert under.get("b/a/k") == b"v" and store._underlying_non_prefix_store is under and store.underlying_store.underlying_store is under
    with pytest.raises((TypeError, ValueError)):
        dist.PrefixStore("a", None)


@pytest.mark.parametrize("server", LIBRARIES, ids=NAMES)
@pytest.mark.parametrize("user", LIBRARIES, ids=NAMES)
def test_either_library_may_serve_the_other(server, user):
    serving = master(server)
    store = client(user, serving.port)
    store.set("k", "v")
    assert serving.get("k") == b"v" and store.get("k") == b"v" and serving.add("n", 2) == 2 and store.add("n", 3) == 5
    store.multi_set(["x", "y"], ["1", "2"])
    store.append("x", "3")
    store.queue_push("q", "1")
    assert serving.multi_get(["x", "y"]) == [b"13", b"2"] and serving.queue_pop("q") == b"1"
    assert store.compare_set("k", "v", "w") == b"w" and store.delete_key("y") and not store.check(["y"])
    waits = threading.Thread(target=lambda: serving.set("late", "1"))
    waits.start()
    assert store.get("late") == b"1"
    waits.join()
    with pytest.raises(RuntimeError, match="wait timeout after 50ms, keys: /no"):
        store.wait(["no"], BRIEF)
    assert store.get("k") == b"w"
    if server is tede.distributed or user is server:        # PyTorch's server counts its own clients' barriers apart
        other = threading.Thread(target=lambda: serving.barrier("b", 2))
        other.start()
        store.barrier("b", 2)
        other.join()


def test_a_thread_that_waits_holds_no_other_up():
    store = master(tede.distributed)
    got = []
    thread = threading.Thread(target=lambda: got.append(store.get("late")))
    thread.start()
    time.sleep(0.05)
    store.set("late", "1")
    thread.join(10)
    assert got == [b"1"]


INTERRUPTED = """
import sys, tede.distributed as dist
store = {"tcp": lambda: dist.TCPStore("localhost", 0, is_master=True), "hash": dist.HashStore, "file": lambda: dist.FileStore(sys.argv[2], 1)}[sys.argv[1]]()
print("waits", flush=True)
try:
    store.get("never")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("kind", ["tcp", "hash", "file"])
def test_ctrl_c_ends_a_wait(kind, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED, kind, str(tmp_path / "f")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n" and process.returncode == 0


def test_a_child_of_fork_has_connections_of_its_own():
    store = master(tede.distributed)
    children = []
    for _child in range(3):
        pid = os.fork()
        if pid == 0:
            for _ in range(50):
                store.add("n", 1)
            os._exit(0)
        children.append(pid)
    for _ in range(50):
        store.add("n", 1)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    assert store.get("n") == b"200"


RANK = """
import ctypes, os, sys
mpi = ctypes.CDLL(sys.argv[1])
mpi.MPI_Init(None, None)
world, rank, size = ctypes.c_void_p(0x101), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Barrier(world)
mpi.MPI_Finalize()
os.write(1, f"{rank.value}/{size.value} ".encode())
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_mpi_comes_up_without_its_launcher(ranks):
    library = os.path.join(sys.prefix, "lib", "libmpi_abi.so.1")
    if not os.path.exists(library):
        pytest.skip("no MPI library in this environment")
    from tede import _C
    server = _C._PMIServer(ranks)
    environment = dict(os.environ, PMI_PORT=f"localhost:{server.port}", PMI_SIZE=str(ranks))
    processes = [subprocess.Popen([sys.executable, "-c", RANK, library], stdout=subprocess.PIPE, text=True,
                                  env=dict(environment, PMI_ID=str(i), PMI_RANK=str(i))) for i in range(ranks)]
    try:
        assert [process.communicate(timeout=60)[0] for process in processes] == [f"{i}/{ranks} " for i in range(ranks)]
    finally:
        for process in processes:
            process.kill()
    server.close()


def test_a_barrier_ends_with_an_error(tmp_path):
    for store in each(tede.distributed, tmp_path):
        store.barrier("a", 1)
        with pytest.raises(tede.distributed.DistStoreError, match="timeout after 50ms"):
            store.barrier("b", 2, BRIEF)
