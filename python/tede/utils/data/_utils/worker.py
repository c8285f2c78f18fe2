"""What runs in a loader's worker process."""
import functools
import os
import random
import sys
from dataclasses import dataclass, field

from tede import _C
from tede._utils import ExceptionWrapper
from tede.utils.data._utils import MP_STATUS_CHECK_INTERVAL, fetch, pipes, transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401

_worker_info = None


@dataclass(frozen=True)
class WorkerInfo:
    """What get_worker_info() says."""
    id: int
    num_workers: int
    seed: int
    dataset: object
    rng: object = field(default=None, repr=False)
    worker_method: str = field(default="multiprocessing", repr=False)


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    seed: int = None


def get_worker_info() -> "Any":
    """In a worker of a `DataLoader`: an object with its `id`, `num_workers`, `seed` and `dataset`. In the main process
    None.

    >>> tede.utils.data.get_worker_info() is None
    True
    """
    return _worker_info


def _init_worker(init_fn, worker_id):
    info = get_worker_info()
    pipes.settings().apply_sharding(info.dataset, info.num_workers, worker_id)
    if init_fn is not None:
        init_fn(worker_id)


def worker_init(dataset, init_fn):
    """init_fn, after the worker has taken its share of a pipe."""
    return functools.partial(_init_worker, init_fn) if pipes.is_pipe(dataset) else init_fn


def _generate_state(base_seed, worker_id):
    """The four words that NumPy's generator of a worker starts from."""
    import numpy
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(words).generate_state(4).tolist()


def _seed_all(base_seed, worker_id):
    random.seed(base_seed + worker_id)
    _C.manual_seed(base_seed + worker_id)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))


@dataclass
class Job:
    """What a worker is passed once, at its start."""
    iterable: bool
    dataset: object
    auto_collation: bool
    collate_fn: object
    drop_last: bool
    base_seed: int
    init_fn: object
    num_workers: int
    prefix: str
    shared_seed: int = None


def make_fetcher(job):
    cls = fetch._IterableDatasetFetcher if job.iterable else fetch._MapDatasetFetcher
    return cls(job.dataset, job.auto_collation, job.collate_fn, job.drop_last)


def _worker_loop(job, worker_id, tasks, results):
    """Fetch the batches that `tasks` (a pipe) names, send them through `results` (a pipe)."""
    global _worker_info
    parent = os.getppid()

    def send(*message):
        try:
            data = transport.dumps(message, job.prefix)
        except Exception:
            wrapped = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
            data = transport.dumps((message[0], wrapped), None)
        results.send_bytes(data)

    try:
        _C.set_num_threads(1)
        _seed_all(job.base_seed, worker_id)
        job.dataset, _ = pipes.seeded(job.dataset, seed=job.shared_seed)
        _worker_info = WorkerInfo(worker_id, job.num_workers, job.base_seed + worker_id, job.dataset)
        failed = fetcher = None
        ended = False
        try:
            if job.init_fn is not None:
                job.init_fn(worker_id)
            fetcher = make_fetcher(job)
        except Exception:
            failed = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
        while True:
            if not tasks.poll(MP_STATUS_CHECK_INTERVAL):
                if os.getppid() != parent:
                    break               # the main process is gone
                continue
            task = tasks.recv()
            if task is None:
                break
            if isinstance(task, _ResumeIteration):
                send(task, None)
                job.dataset, _ = pipes.seeded(job.dataset, seed=task.seed)
                ended, fetcher = False, make_fetcher(job)
                continue
            if ended:
                continue
            number, index = task
            if failed is not None:
                send(number, failed)
                failed = None
                continue
            try:
                data = fetcher.fetch(index)
            except Exception as error:
                if isinstance(error, StopIteration) and job.iterable:
                    data, ended = _IterableDatasetStopIteration(worker_id), True
                else:
                    data = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
            send(number, data)
            del data
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError, EOFError):
        pass                            # the main process is interrupted itself, or is gone
    finally:
        if os.getppid() != parent:
            transport.remove_leftovers(job.prefix)
