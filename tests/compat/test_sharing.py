"""Tensors that are sent to other processes: what both sides write is seen by both, views included."""
import importlib
import threading
import time

import pytest

numpy = pytest.importorskip("numpy")


def _fill(queue, done):
    tensors = queue.get()
    tensors[0].fill_(4)
    tensors[-1].add_(1)
    done.set()


@pytest.fixture
def processes(lib):
    return importlib.import_module(lib.__name__ + ".multiprocessing").get_context("fork")


@pytest.mark.parametrize("size", [5, 60])
@pytest.mark.parametrize("views_first", [False, True])
def test_views_are_shared_with_what_they_are_views_of(lib, processes, size, views_first):
    x = lib.zeros(size, size)
    row, column, again = x[2], x[:, 1], x.detach()
    sent = [row, column, again, x] if views_first else [x, again, row, column]
    queue, done = processes.Queue(), processes.Event()
    process = processes.Process(target=_fill, args=(queue, done), daemon=True)
    process.start()
    queue.put(sent)             # by a thread, which must not be importing anything when the process forks
    assert done.wait(60)
    process.join(60)
    assert all(y.is_shared() for y in sent)
    expected = lib.zeros(size, size)
    expected[2 if views_first else slice(None)] = 4
    if views_first:
        expected += 1
    else:
        expected[:, 1] += 1
    for y in (x, again):
        assert lib.equal(y, expected)
    assert lib.equal(row, expected[2]) and lib.equal(column, expected[:, 1])
    row.fill_(7)
    assert x[2].eq(7).all() and x.untyped_storage().data_ptr() == row.untyped_storage().data_ptr()


def test_an_array_keeps_its_memory_when_its_tensor_gets_another(lib):
    x = lib.ones(500000)
    array = x.numpy()
    x.data = lib.zeros(3)
    others = [lib.zeros(500000) for _ in range(3)]
    assert array.sum() == 500000 and x.shape == (3,) and len(others) == 3


def test_names_of_threads(lib):
    processes, names = importlib.import_module(lib.__name__ + ".multiprocessing"), []
    if not hasattr(processes, "_get_thread_name"):
        pytest.skip("not exported")

    def name(text):
        processes._set_thread_name(text)
        names.append(processes._get_thread_name())
    thread = threading.Thread(target=name, args=("a name",))
    thread.start()
    thread.join()
    assert names == ["a name"] and processes._get_thread_name() != "a name"


def test_memory_that_arrives_again_is_one_storage(lib, processes):
    x, queue = lib.arange(25.).reshape(5, 5), processes.Queue()
    storage = x.untyped_storage()
    queue.put([storage, x, x[2], x[:, 1]])
    found = queue.get(timeout=60)
    assert found[0]._cdata == storage._cdata and {y.untyped_storage()._cdata for y in found[1:]} == {storage._cdata}
    found[3].fill_(7)
    assert x[:, 1].eq(7).all()
    y = lib.zeros(3)
    queue.put([y, y[1:]])
    a, b = queue.get(timeout=60)
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _fails_or_sleeps(number, seconds):
    if number == 0:
        raise SystemExit(3)
    time.sleep(seconds)


@pytest.mark.parametrize("grace_period, seconds, terminated", [(None, 60, True), (60, .5, False)])
def test_processes_have_a_grace_period_when_one_has_failed(lib, caplog, grace_period, seconds, terminated):
    spawn = importlib.import_module(lib.__name__ + ".multiprocessing.spawn")
    context = spawn.start_processes(_fails_or_sleeps, (seconds,), nprocs=2, join=False, start_method="fork")
    other = context.processes[1]
    with pytest.raises(Exception, match="process 0 terminated with exit code 3"):
        while not context.join(grace_period=grace_period):
            pass
    assert not other.is_alive() and (other.exitcode == 0) == (not terminated)
    assert [record.getMessage() for record in caplog.records] == [f"Terminating process {other.pid} via signal SIGTERM"] * terminated
