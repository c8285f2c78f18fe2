"""What a call of a process group is passed and what it returns: reductions, options, work that can be waited for."""
import enum
import threading
from datetime import timedelta

from tede.distributed import _chain
from tede.futures import Future


# ---- reductions ------------------------------------------------------------------------------------------------------

class RedOpType(enum.IntEnum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    __str__ = lambda self: f"RedOpType.{self.name}"
    __repr__ = lambda self: f"<RedOpType.{self.name}: {self.value}>"
    __format__ = lambda self, spec: format(str(self), spec)
    __hash__ = enum.IntEnum.__hash__
    op = property(lambda self: self)            # of options' reduceOp, whichever of the two it is

    def __eq__(self, other):            # a ReduceOp is equal to one of these, but not the other way round
        return type(other) is not ReduceOp and int.__eq__(self, other)


class _ReduceOpMeta(type):
    def __instancecheck__(cls, value):
        return isinstance(value, RedOpType) or type.__instancecheck__(cls, value)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How what the ranks have is put together. PREMUL_SUM multiplies by `factor` first."""
    RedOpType = RedOpType
    __slots__ = ("op", "factor")

    def __init__(self, op=RedOpType.SUM, factor=None):
        self.op, self.factor = RedOpType(getattr(op, "op", op)), factor

    def __eq__(self, other):
        return isinstance(other, ReduceOp) and self.op is getattr(other, "op", other)

    def __hash__(self):
        return hash(self.op)

    def __repr__(self):
        return repr(self.op)

    def __getstate__(self):
        return (self.op, self.factor)

    def __setstate__(self, state):
        self.op, self.factor = state

    def __copy__(self):
        return ReduceOp(self.op, self.factor)

    def __deepcopy__(self, memo):
        return ReduceOp(self.op, self.factor)


for _op in RedOpType:
    setattr(ReduceOp, _op.name, _op)


def _make_nccl_premul_sum(factor):
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def _reduction(op):
    """(number, factor) of a reduction."""
    if type(op) is ReduceOp:
        factor = op.factor
        return int(op.op), 1.0 if factor is None else float(factor)
    return int(op), 1.0


# ---- options ---------------------------------------------------------------------------------------------------------

NO_TIMEOUT = timedelta(milliseconds=-1)     # the group's


class _Options:
    """Arguments of a call of a group. A timeout below 0 is the group's."""
    __slots__ = ("timeout", "asyncOp", "reduceOp", "rootRank", "rootTensor", "device_ids", "device", "sparseIndices")

    def __init__(self):
        self.timeout, self.asyncOp, self.reduceOp, self.rootRank, self.rootTensor = NO_TIMEOUT, True, RedOpType.SUM, -1, 0
        self.device_ids, self.device, self.sparseIndices = [], None, None


# One class for each call, as PyTorch has them; all hold the same.
_CALLS = ("Allreduce", "Broadcast", "Reduce", "Allgather", "Gather", "Scatter", "ReduceScatter", "AllToAll", "Barrier")
(AllreduceOptions, BroadcastOptions, ReduceOptions, AllgatherOptions, GatherOptions, ScatterOptions, ReduceScatterOptions, AllToAllOptions,
 BarrierOptions) = (type(f"{call}Options", (_Options,), {"__slots__": (), "__module__": __name__}) for call in _CALLS)


class AllreduceCoalescedOptions(AllreduceOptions):
    __slots__ = ()


def _seconds(timeout):
    """Of an option or an argument; 0 stands for the group's."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout or 0
    return max(seconds, 0)


# ---- work ------------------------------------------------------------------------------------------------------------

class OpType(enum.IntEnum):
    (BROADCAST, ALLREDUCE, ALLREDUCE_COALESCED, REDUCE, ALLGATHER, _ALLGATHER_BASE, ALLGATHER_COALESCED, GATHER, SCATTER, REDUCE_SCATTER,
     ALLTOALL_BASE, ALLTOALL, SEND, RECV, RECVANYSOURCE, BARRIER, _REDUCE_SCATTER_BASE, COALESCED, _ALLREDUCE_SPARSE,
     _REDUCE_SCATTER_BASE_COALESCED) = range(20)
    UNKNOWN = 100


class Work:
    """A call of a group that goes on by itself. A class of one's own defines wait or get_future."""

    def __init__(self, *args, **kwargs):
        pass

    def wait(self, timeout=timedelta(0)):
        self.get_future().wait()
        return True

    def is_completed(self):
        return self.get_future().done()

    def is_success(self):
        return self.is_completed() and self.exception() is None

    def exception(self):
        return None

    def source_rank(self):
        raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call.")

    def _source_rank(self):
        return self.source_rank()

    def result(self):
        raise NotImplementedError("result() isn't implemented by this work")

    def get_future(self):
        raise NotImplementedError("Work::getFuture not implemented.")

    def get_future_result(self):
        raise NotImplementedError("Work::getFutureResult not implemented.")

    def synchronize(self):
        self.wait()

    def block_current_stream(self):
        self.wait()

    def abort(self):
        raise RuntimeError("Work::abort not implemented.")

    def boxed(self):
        return self

    @staticmethod
    def unbox(work):
        return work


class _WorkFuture(Future):
    """Of work: who waits for it moves the work on himself."""

    def __init__(self, work):
        super().__init__()
        self._work = work

    def wait(self):
        if not self.done():
            try:
                self._work.wait()
            except RuntimeError:
                pass            # it is the future's error, too
        return super().wait()

    def then(self, callback):
        following = super().then(callback)
        following.__class__, following._work = _WorkFuture, self._work
        return following


class EngineWork(Work):
    """Work of an engine. `finish` is called once, when it is done, before anybody sees that."""
    __slots__ = ("_work", "_results", "_finish", "_future", "_error", "_done", "_lock")

    def __init__(self, work, results, finish=None):
        self._work, self._results, self._finish, self._future, self._error, self._done = work, results, finish, None, None, False
        self._lock = None if finish is None else threading.Lock()

    def _end(self):
        """Several threads may see the end: `finish` is over before any of them goes on."""
        if self._lock is None:
            self._done = True
            return
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                try:
                    finish()
                except Exception as error:
                    self._error = error
            self._done = self._error is None

    def wait(self, timeout=None):
        if self._done:
            return True
        if self._error is not None:
            raise self._error
        try:
            self._work.wait(_seconds(timeout))
        except RuntimeError as error:
            self._fail(error)
            raise
        self._end()
        if self._error is not None:
            raise self._error
        return True

    def _fail(self, error):
        """Whether the work itself has failed, not only this wait."""
        try:
            self._work.test()
        except RuntimeError:
            self._error = error

    def is_completed(self):
        if self._done or self._error is not None:
            return True
        try:
            if not self._work.test():
                return False
        except RuntimeError as error:
            self._error = error
            return True
        self._end()
        return True

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        self.is_completed()
        return self._error

    def source_rank(self):
        rank = self._work.source()
        return rank if rank >= 0 else super().source_rank()

    def result(self):
        self.wait()
        return self._results

    def get_future(self):
        return _chain.future_of(self, self._get_future)

    def _get_future(self):
        if self._future is None:
            self._future = future = _WorkFuture(self)

            def done():
                if self.is_success():
                    future.set_result(self._results)
                else:
                    future.set_exception(self._error)
            self._work.then(done)
        return self._future


class DoneWork(Work):
    """Of a call that is done already, or that was made of others."""

    def __init__(self, results=(), source=-1):
        self._results, self._source = list(results), source

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def source_rank(self):
        return self._source

    def result(self):
        return self._results

    def get_future(self):
        future = Future()
        future.set_result(self._results)
        return future


class ManyWork(Work):
    """Several works as one."""

    def __init__(self, works, results=(), finish=None):
        self._works, self._results, self._finish = list(works), list(results), finish

    def wait(self, timeout=None):
        for work in self._works:
            work.wait(timeout)
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self):
        states = [work.is_completed() for work in self._works]      # each is asked, which moves it on
        if not all(states):
            return False
        if self.exception() is None:
            self.wait()
        return True

    def exception(self):
        return next((work.exception() for work in self._works if work.is_completed() and work.exception() is not None), None)

    def result(self):
        self.wait()
        return self._results

    def get_future(self):
        return _chain.future_of(self, self._get_future)

    def _get_future(self):
        future, left = _WorkFuture(self), [len(self._works)]

        def one_done(_):
            left[0] -= 1
            if left[0] == 0:
                error = self.exception()
                if error is None:
                    self.wait()
                    future.set_result(self._results)
                else:
                    future.set_exception(error)
        for work in self._works:
            work.get_future().add_done_callback(one_done)
        if not self._works:
            future.set_result(self._results)
        return future


def _create_work_from_future(future):
    work = Work()
    work.get_future = lambda: future
    return work
