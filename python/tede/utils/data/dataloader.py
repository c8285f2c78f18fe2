"""DataLoader: batches of a dataset, made here or by worker processes.

The main process hands numbered tasks to the workers in turn, prefetch_factor ahead of what is used, and puts the answers
back into the order of the tasks. Every worker has a queue for its tasks and a pipe for its answers, so a worker that
dies breaks nobody else's, and the wait for an answer is a wait for the pipes and for the ends of the processes at once.
"""
import multiprocessing
import os
import pickle
import signal
import time
import warnings
import weakref
from multiprocessing import connection, reduction
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from tede import _C
from tede._recording import part, recording
from tede._utils import ExceptionWrapper
from tede.accelerator import is_available
from tede.utils.data._utils import collate, fetch, pipes, transport, worker
from tede.utils.data._utils.pin_memory import pin_memory
from tede.utils.data._utils.tasks import TaskQueue
from tede.utils.data.dataset import Dataset, IterableDataset, _T_co
from tede.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

default_collate, default_convert = collate.default_collate, collate.default_convert
get_worker_info = worker.get_worker_info
_T = TypeVar("_T")
_worker_init_fn_t, _collate_fn_t = Callable[[int], None], Callable[[list[_T]], Any]    # for annotations


class _DatasetKind:
    """Whether a dataset is taken by keys (`Map`) or iterated over (`Iterable`).

    >>> tede.utils.data._DatasetKind.Map
    0
    """

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """What takes items of a dataset of that kind."""
        cls = fetch._IterableDatasetFetcher if kind == _DatasetKind.Iterable else fetch._MapDatasetFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    def __iter__(self):
        while True:
            yield None


def _check(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
                         "multiprocessing, otherwise set prefetch_factor to None.")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


class DataLoader(Generic[_T_co]):
    """An iterable of batches of a dataset. Its order of samples is PyTorch's for the same seed.

        dataset: items by key, or an `IterableDataset`; a list will do.
        batch_size: how many items a batch has; None gives the items themselves.
        shuffle: draw the order anew for each pass.
        sampler, batch_sampler: the order, as keys, or as lists of them; instead of shuffle, or of batch_size, shuffle
            and drop_last (ValueError).
        num_workers: processes that make batches while the program computes; 0 makes them when they are asked for.
        collate_fn: makes a batch of a list of items; else `default_collate`.
        pin_memory: put tensors in memory from which devices copy asynchronously.
        drop_last: leave a last batch out that isn't full.
        timeout: seconds to wait for a worker, 0 for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: "fork", "spawn", "forkserver" or such a context: how workers start.
        generator: what draws the order and the workers' seeds; else the default one.
        prefetch_factor: batches that each worker makes ahead; 2.
        persistent_workers: keep them for the next pass.
        pin_memory_device: kept for PyTorch's signature.
        in_order: whether batches come in the sampler's order.

    Where workers are started anew ("spawn"), the dataset and functions are pickled: define them at the top of a module,
    not as lambdas. An error in a worker is raised here, with its traceback.

    >>> data = tede.utils.data.TensorDataset(tede.arange(5.0), tede.arange(5))
    >>> for x, y in tede.utils.data.DataLoader(data, batch_size=2):
    ...     print(x, y)
    tensor([0., 1.]) tensor([0, 1])
    tensor([2., 3.]) tensor([2, 3])
    tensor([4.]) tensor([4])
    """
    dataset = None
    _iterator = None
    __initialized = False

    def __init__(self, dataset: Dataset[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler[Any] | Iterable[Any] | None = None,
                 batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None,
                 multiprocessing_context: Any = None, generator: _C.Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        _check(num_workers, timeout, prefetch_factor, persistent_workers)
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.multiprocessing_context = multiprocessing_context
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            what = "DataLoader with IterableDataset: expected unspecified"
            if pipes.is_iterable_pipe(dataset):
                if shuffle is not None:
                    dataset = pipes.set_shuffle(dataset, shuffle)
            elif shuffle not in {False, None}:
                raise ValueError(f"{what} shuffle option, but got shuffle={shuffle}")
            if sampler is not None:
                raise ValueError(f"{what} sampler option, but got sampler={sampler}")
            if batch_sampler is not None:
                raise ValueError(f"{what} batch_sampler option, but got batch_sampler={batch_sampler}")
        else:
            self._dataset_kind, shuffle = _DatasetKind.Map, bool(shuffle)
        self.dataset = dataset = pipes.wrap(dataset)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        self.generator, self.persistent_workers = generator, persistent_workers
        self.collate_fn = collate_fn or (collate.default_collate if self._auto_collation else collate.default_convert)
        self.__initialized = True
        self._IterableDataset_len_called = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self):
        """How workers start; None is Python's default."""
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
                                 f"got num_workers={self.num_workers}")
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(f"multiprocessing_context option should specify a valid start method in {methods!r}, but "
                                     f"got multiprocessing_context={context!r}")
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the "
                                f"start method, but got multiprocessing_context={context}")
        self.__context = context

    def __setattr__(self, name, value):
        if self.__initialized and name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset",
                                           "persistent_workers"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        return _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        n = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def check_worker_number_rationality(self):
        """Warn of more workers than processors."""
        most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers and (most is None or self.num_workers > most):
            warnings.warn(f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                          f"of worker in current system is {most}, which is smaller than what this DataLoader is going to "
                          "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                          "freeze, lower the worker number to avoid potential slowness/freeze if necessary.", stacklevel=3)


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._dataset_kind = loader._dataset_kind
        self._dataset, self._shared_seed = pipes.seeded(loader.dataset, loader.generator)
        self._index_sampler, self._timeout = loader._index_sampler, loader.timeout
        self._num_workers = loader.num_workers
        self._pins = loader.pin_memory and is_available()
        self._pin_device = loader.pin_memory_device or None
        if loader.pin_memory and not self._pins:
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                          "used.", stacklevel=3)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = _C._functions["empty"]((), dtype=_C.int64).random_(generator=loader.generator).item()
        self._num_yielded = 0
        self._length = loader._IterableDataset_len_called

    def __iter__(self):
        return self

    def _reset(self, loader, first_iter=False):
        self._sampler_iter, self._num_yielded = iter(self._index_sampler), 0
        self._length = loader._IterableDataset_len_called
        self._dataset, self._shared_seed = pipes.seeded(self._dataset, loader.generator)

    def _next_index(self):
        return next(self._sampler_iter)

    def __next__(self):
        if recording():
            with part(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
                return self._next_batch()
        return self._next_batch()

    def _next_batch(self):
        data = self._next_data()
        self._num_yielded += 1
        if self._dataset_kind == _DatasetKind.Iterable and self._length is not None and self._num_yielded > self._length:
            text = (f"Length of IterableDataset {self._dataset} was reported to be {self._length}(when accessing "
                    f"len(dataloader)), but {self._num_yielded} samples have been fetched. ")
            if self._num_workers:
                text += ("For multiprocessing data-loading, this could be caused by not properly configuring the "
                         "IterableDataset replica at each worker. Please see "
                         "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.")
            warnings.warn(text, stacklevel=2)
        return pin_memory(data, self._pin_device) if self._pins else data

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(self._dataset_kind, self._dataset, loader._auto_collation,
                                                            loader.collate_fn, loader.drop_last)

    def _next_data(self):
        return self._dataset_fetcher.fetch(self._next_index())


def _end_workers(owner, workers, queues, pipes, prefix):
    """Ask the workers to end, and end those that don't; called once."""
    if owner != os.getpid():
        return          # a worker that is forked inherits whatever iterators there are: their workers aren't its own
    for queue in queues:
        queue.put(None)
    try:
        for pipe in pipes:
            pipe.close()                # a worker that waits to send finds out
        until = time.monotonic() + worker.MP_STATUS_CHECK_INTERVAL
        for process in workers:
            process.join(max(until - time.monotonic(), 0))
    finally:
        for process in workers:
            if process.is_alive():
                process.terminate()
        transport.remove_leftovers(prefix)


def _hint(context, loader):
    """What to do where a worker's job doesn't pickle."""
    parts = {"dataset": loader.dataset, "collate_fn": loader.collate_fn, "worker_init_fn": loader.worker_init_fn,
             "sampler's generator": loader.generator}
    found = [name for name, part in parts.items() if not _pickles(part)]
    return (f"DataLoader: workers start by {context.get_start_method()!r}, so they get the dataset and functions as pickles"
            + (f", and the {' and the '.join(found)} can't be pickled" if found else "") + ". Define classes and functions at the top of a "
            "module, not as lambdas or within functions; or set num_workers=0, or multiprocessing_context='fork'.")


def _pickles(part):
    try:
        reduction.ForkingPickler.dumps(part)
    except Exception:
        return False
    return True


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._prefetch, self._in_order, self._persistent = loader.prefetch_factor, loader.in_order, loader.persistent_workers
        self._workers, self._queues, self._pipes = [], [], []
        self._prefix = f"tede_{os.getpid()}_{os.urandom(6).hex()}"
        # Not a __del__: in a cycle (an exception's traceback makes one) the collector finalizes pipes before or after the iterator,
        # and a pipe's own finalizer closes its descriptor without noting it. The finalizer's references keep them out of the cycle.
        self._end_workers = weakref.finalize(self, _end_workers, os.getpid(), self._workers, self._queues, self._pipes, self._prefix)
        job = worker.Job(self._dataset_kind == _DatasetKind.Iterable, self._dataset, loader._auto_collation, loader.collate_fn,
                         loader.drop_last, self._base_seed, worker.worker_init(self._dataset, loader.worker_init_fn), self._num_workers,
                         self._prefix, self._shared_seed)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        from tede.multiprocessing import reductions
        reductions.init_reductions()
        for i in range(self._num_workers):
            queue = TaskQueue(context)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=worker._worker_loop, args=(job, i, queue.receiver, sender), daemon=True)
            try:
                process.start()
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                error.add_note(_hint(context, loader))
                raise
            queue.receiver.close()
            sender.close()
            self._workers.append(process)
            self._queues.append(queue)
            self._pipes.append(receiver)
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._sent = self._expected = 0             # tasks given out; the number of the next batch to be returned
        self._tasks = {}                            # number -> (worker,) or (worker, data)
        self._active, self._turn, self._outstanding = [True] * self._num_workers, 0, 0
        if not first_iter:
            for queue in self._queues:
                queue.put(worker._ResumeIteration(self._shared_seed))
            resumed = 0
            while resumed < self._num_workers:
                number, _ = self._receive()
                resumed += isinstance(number, worker._ResumeIteration)
        for _ in range(self._prefetch * self._num_workers):
            self._give_task()

    def _give_task(self):
        if self._outstanding >= self._prefetch * self._num_workers:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            chosen, self._turn = self._turn, (self._turn + 1) % self._num_workers
            if self._active[chosen] and (self._in_order or self._pending(chosen) < self._prefetch):
                break
        else:
            return
        self._queues[chosen].put((self._sent, index))
        self._tasks[self._sent] = (chosen,)
        self._sent += 1
        self._outstanding += 1

    def _pending(self, which):
        return sum(task[0] == which for task in self._tasks.values())

    def _receive(self):
        """The next answer of any worker: (task's number, data)."""
        deadline = time.monotonic() + self._timeout if self._timeout else None
        while True:
            watched = [pipe for pipe in self._pipes if not pipe.closed]
            ends = {process.sentinel: process for i, process in enumerate(self._workers) if self._active[i]}
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            ready = connection.wait(watched + list(ends), left)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            for pipe in watched:
                if pipe in ready:
                    try:
                        data = pipe.recv_bytes()
                    except (EOFError, OSError):
                        pipe.close()
                        continue
                    return transport.loads(data)
            dead = [process for sentinel, process in ends.items() if sentinel in ready]
            if dead:
                self._report(dead)

    def _report(self, dead):
        pids = ", ".join(str(process.pid) for process in dead)
        for process in dead:
            process.join(1)
            self._active[self._workers.index(process)] = False
        code = dead[0].exitcode
        why = None
        if code is not None and code < 0:
            why = RuntimeError(f"DataLoader worker (pid {dead[0].pid}) is killed by signal: "
                               f"{signal.strsignal(-code) or -code}. ")
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from why

    def _next_data(self):
        while True:
            while self._expected < self._sent:          # tasks of workers that ended are nobody's
                task = self._tasks.get(self._expected)
                if task is not None and (len(task) == 2 or self._active[task[0]]):
                    break
                self._tasks.pop(self._expected, None)
                self._expected += 1
            else:
                if not self._persistent:
                    self._shutdown_workers()
                raise StopIteration
            if len(task) == 2:
                self._tasks.pop(self._expected)
                self._expected += 1
                return self._given(task[1])
            number, data = self._receive()
            self._outstanding -= 1
            if isinstance(data, worker._IterableDatasetStopIteration):
                if self._persistent:
                    self._active[data.worker_id] = False
                else:
                    self._retire(data.worker_id)
                self._tasks.pop(number, None)
                self._give_task()
            elif number == self._expected or not self._in_order:
                self._tasks.pop(number)
                self._expected += number == self._expected
                return self._given(data)
            else:
                self._tasks[number] = self._tasks[number][0], data

    def _given(self, data):
        self._give_task()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _retire(self, which):
        self._active[which] = False
        self._queues[which].put(None)

    def _shutdown_workers(self):
        self._end_workers()
