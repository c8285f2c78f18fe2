"""Datasets, samplers, and loaders with and without processes."""
import collections
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("numpy.random")     # NumPy loads it when it is first named, which in a forked worker can fail
Point = collections.namedtuple("Point", "x y")


class Squares:
    """A map-style dataset without a library in it, so that it can be sent to processes of either."""

    def __init__(self, lib, n, broken=None):
        self.lib, self.n, self.broken = lib.__name__, n, broken

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        import importlib
        if i == self.broken:
            raise ValueError("item is broken")
        if self.broken == -1 and i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return importlib.import_module(self.lib).full((64, 64), float(i * i)), i


def shift(worker_id):
    import random
    random.seed(worker_id)


@pytest.fixture
def data(lib):
    import importlib
    return importlib.import_module(lib.__name__ + ".utils.data")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        yield


def test_datasets(lib, data):
    tensors = data.TensorDataset(lib.arange(6), lib.arange(6) * 10)
    assert len(tensors) == 6 and [int(x) for x in tensors[2]] == [2, 20]
    both = tensors + data.Subset(tensors, [5, 0])
    assert len(both) == 8 and int(both[6][0]) == 5 and int(both[-1][0]) == 0
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        both[-9]
    stacked = data.StackDataset(a=tensors, b=range(6))
    assert stacked[3]["b"] == 3 and len(stacked) == 6
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(lib.ones(2), lib.ones(3))
    lib.manual_seed(3)
    parts = data.random_split(range(10), [0.5, 0.25, 0.25])
    assert [len(part) for part in parts] == [6, 2, 2] and sorted(i for part in parts for i in part) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        data.random_split(range(10), [3, 3])


def test_the_same_order_for_the_same_seed(both):
    import importlib
    orders = []
    for lib in both:
        data = importlib.import_module(lib.__name__ + ".utils.data")
        lib.manual_seed(11)
        order = [list(data.RandomSampler(range(20))), list(data.RandomSampler(range(7), replacement=True, num_samples=70)),
                 list(data.RandomSampler(range(7), num_samples=20)), list(data.SubsetRandomSampler([3, 1, 4, 1, 5])),
                 list(data.WeightedRandomSampler([0.1, 0.9, 3.0, 0.2], 12)),
                 [p.indices for p in data.random_split(range(9), [4, 5])],
                 list(data.DistributedSampler(range(11), 3, 1, seed=2))]
        for _ in range(2):
            order += [b.tolist() for b in data.DataLoader(range(10), batch_size=3, shuffle=True)]
        order.append(float(lib.rand(())))
        for _ in range(2):
            order += [b[1].tolist() for b in data.DataLoader(Squares(lib, 10), batch_size=3, shuffle=True, num_workers=2)]
        order.append(float(lib.rand(())))
        orders.append(order)
    assert orders[0] == orders[1]


def test_collate(lib, data):
    collate = data.default_collate
    assert collate([1, 2]).dtype == lib.int64 and collate([1.0, 2.0]).dtype == lib.float64
    assert collate(["a", "b"]) == ["a", "b"] and collate([np.float32(1), np.float32(2)]).dtype == lib.float32
    out = collate([{"a": 1, "b": (lib.ones(2), "x")}, {"a": 2, "b": (lib.zeros(2), "y")}])
    assert out["a"].tolist() == [1, 2] and out["b"][0].shape == (2, 2) and out["b"][1] == ("x", "y")
    point = collate([Point(1, 2.0), Point(3, 4.0)])
    assert type(point) is Point and point.x.tolist() == [1, 3]
    assert collate([np.ones(3), np.zeros(3)]).shape == (2, 3) and collate([(1, 2), (3, 4)])[0].tolist() == [1, 3]
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays"):
        collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        collate([[1, 2], [3]])
    converted = data.default_convert([np.ones(2), "a", {"k": np.float64(1)}])
    assert isinstance(converted[0], lib.Tensor) and converted[1] == "a" and isinstance(converted[2]["k"], lib.Tensor)


def test_checks(lib, data):
    Loader = data.DataLoader
    for arguments, text in (({"num_workers": -1}, "num_workers option should be non-negative"),
                            ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
                            ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
                            ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
                            ({"batch_sampler": [[1]], "batch_size": 3}, "batch_sampler option is mutually exclusive"),
                            ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
                            ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
                            ({"timeout": -1}, "timeout option should be non-negative")):
        with pytest.raises(ValueError, match=text):
            Loader(range(4), **arguments)
    loader = Loader(range(5), batch_size=2)
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3
    assert len(loader) == 3 and len(Loader(range(5), batch_size=2, drop_last=True)) == 2
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]
    assert list(Loader(range(3), batch_size=None)) == [0, 1, 2]


@pytest.mark.parametrize("method", ("fork", "spawn"))
def test_workers(lib, data, method):
    loader = data.DataLoader(Squares(lib, 11), batch_size=3, num_workers=2, multiprocessing_context=method,
                             persistent_workers=True, worker_init_fn=shift)
    for _ in range(2):
        batches = list(loader)
        assert [b[1].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
        assert batches[3][0][1].unique().tolist() == [100] and batches[0][0].is_shared()
    iterator = iter(loader)
    next(iterator)
    assert len(list(loader)) == 4


def test_errors_carry_the_workers_traceback(lib, data):
    with pytest.raises(ValueError, match=r"(?s)Caught ValueError in DataLoader worker process 1.*Original Traceback.*"
                                         r"in __getitem__.*item is broken"):
        list(data.DataLoader(Squares(lib, 8, broken=3), batch_size=2, num_workers=2))


def test_a_killed_worker_is_reported(lib, data):
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly|killed by signal"):
        list(data.DataLoader(Squares(lib, 8, broken=-1), batch_size=2, num_workers=2))


def test_iterable_datasets(lib, data):
    class Count(data.IterableDataset):
        def __iter__(self):
            info = data.get_worker_info()
            assert info is None or (info.num_workers == 2 and info.dataset is self and info.seed >= 0)
            return iter(range(10) if info is None else range(info.id, 10, info.num_workers))

    assert data.get_worker_info() is None
    assert [b.tolist() for b in data.DataLoader(Count(), batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for persistent in (False, True):
        loader = data.DataLoader(Count(), batch_size=3, num_workers=2, persistent_workers=persistent)
        for _ in range(2):
            assert [b.tolist() for b in loader] == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    assert list(data.ChainDataset([Count(), Count()]))[9:12] == [9, 0, 1]
    with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified shuffle option"):
        data.DataLoader(Count(), shuffle=True)


class Seeds:
    def __init__(self, lib):
        self.lib = lib.__name__

    def __len__(self):
        return 4

    def __getitem__(self, i):
        import importlib
        import random
        return float(importlib.import_module(self.lib).rand(())), random.random(), float(np.random.rand())


def test_workers_have_the_seeds_of_pytorch(both):
    import importlib
    seen = []
    for lib in both:
        data = importlib.import_module(lib.__name__ + ".utils.data")
        lib.manual_seed(5)
        seen.append([[column.tolist() for column in batch] for batch in data.DataLoader(Seeds(lib), batch_size=2, num_workers=2)])
    assert seen[0] == seen[1] and seen[0][0] != seen[0][1]


def test_timeouts_and_what_is_left_behind():
    tede = pytest.importorskip("tede")
    from tede.utils.data import DataLoader

    class Slow:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            time.sleep(30 if i == 2 else 0)
            return tede.zeros(100, 100)

    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        for _ in DataLoader(Slow(), num_workers=1, timeout=1):
            pass
    iterator = iter(DataLoader(Squares(tede, 50), num_workers=2))
    next(iterator)
    prefix, workers = iterator._prefix, iterator._workers
    del iterator
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]
    assert not any(process.is_alive() for process in workers)


@pytest.mark.parametrize("method", ("fork", "spawn"))
def test_an_interrupt_ends_the_program_and_its_workers(lib, method, tmp_path):
    (tmp_path / "endless.py").write_text(f"""
import time, {lib.__name__} as lib
from {lib.__name__}.utils.data import DataLoader
class Slow:
    def __len__(self):
        return 100000
    def __getitem__(self, i):
        time.sleep(0.01)
        return lib.zeros(10)
if __name__ == "__main__":
    batches = iter(DataLoader(Slow(), num_workers=2, multiprocessing_context="{method}"))
    next(batches)
    print(*[process.pid for process in batches._workers], flush=True)
    for _ in batches:
        pass
""")
    program = subprocess.Popen([sys.executable, "endless.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True,
                               env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    workers = [int(pid) for pid in program.stdout.readline().split()]
    os.killpg(program.pid, signal.SIGINT)       # what a terminal does: the workers get it too
    _, errors = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and program.returncode
    until = time.monotonic() + 10
    while any(map(running, workers)) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(workers) == 2 and not any(map(running, workers))


INTERRUPTED = """
import sys
from tede.utils.data import DataLoader

def interrupt(after):
    def trace(frame, event, argument):
        nonlocal after
        after -= 1
        if after < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace
    return trace

done = 0
while True:
    batches = iter(DataLoader(range(64), num_workers=1, multiprocessing_context="fork"))
    batches._outstanding = 0            # that it gives another task
    try:
        sys.settrace(interrupt(done))
        batches._give_task()
        sys.settrace(None)
        break
    except KeyboardInterrupt:
        batches._shutdown_workers()
    done += 1
print(done)
"""


def test_a_loader_ends_wherever_its_giving_of_a_task_is_interrupted():
    program = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    assert program.returncode == 0, program.stderr
    assert int(program.stdout) > 20


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Collecting:
    def __len__(self):
        return 8

    def __getitem__(self, i):
        import gc
        gc.collect()
        return i


def test_a_worker_that_collects_an_inherited_iterator_leaves_its_workers_alone():
    pytest.importorskip("tede")
    import gc
    from tede.utils.data import DataLoader
    gc.collect()
    gc.disable()
    try:
        loader = DataLoader(range(40), num_workers=1, multiprocessing_context="fork")
        cycle = {"iterator": iter(loader)}
        cycle["itself"], process = cycle, cycle["iterator"]._workers[0]
        del cycle
        other = DataLoader(Collecting(), num_workers=1, batch_size=4, multiprocessing_context="fork")
        assert [batch.tolist() for batch in other] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        process.join(0.3)
        assert process.is_alive()
    finally:
        gc.enable()
        process.terminate()


def test_all_that_holds_items_takes_their_type(lib):
    data = lib.utils.data
    for kind in ("DataLoader", "Dataset", "IterableDataset", "Subset", "ConcatDataset", "ChainDataset", "StackDataset", "Sampler",
                 "DistributedSampler"):
        assert getattr(data, kind)[int] is not None


def test_a_tensor_that_reshape_made_is_shared(lib):
    x = lib.arange(6.).reshape(2, 3)
    before = x.clone()
    assert x.share_memory_() is x and x.is_shared() and lib.equal(x, before)
    base = x._base
    assert base is None or base.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    context = lib.multiprocessing.get_context("fork")
    child = context.Process(target=x.fill_, args=(7,))
    child.start()
    child.join()
    assert x.tolist() == [[7.] * 3] * 2


RAISING = """
import gc, importlib, sys
data = importlib.import_module(sys.argv[1]).utils.data


class Broken(data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        if i == 7:
            raise ValueError("item is broken")
        return i


if __name__ == "__main__":
    try:
        for _ in data.DataLoader(Broken(), batch_size=2, num_workers=2):
            pass
    except ValueError as error:
        print(error.args[0][:6])
    gc.collect()
"""


def test_an_exception_of_a_worker_leaves_no_descriptor_to_close_twice(lib, tmp_path):
    script = tmp_path / "raising.py"
    script.write_text(RAISING)
    for _ in range(2):
        done = subprocess.run([sys.executable, script, lib.__name__], capture_output=True, text=True, timeout=200)
        assert done.stdout.split() == ["Caught"] and "Exception ignored" not in done.stderr, done.stderr


def total(x, y, queue):
    queue.put((x.sum().item(), y.sum().item()))


@pytest.mark.parametrize("how", ["spawn", "forkserver", "fork"])
def test_a_process_that_is_started_gets_views_whose_memory_is_not_shared(lib, how):
    import importlib
    context = importlib.import_module(lib.__name__ + ".multiprocessing").get_context(how)
    queue, base = context.Queue(), lib.arange(10.)
    views = base[2:], base[4:]
    process = context.Process(target=total, args=(*views, queue))
    process.start()
    assert queue.get(timeout=100) == (44., 39.)
    process.join()
