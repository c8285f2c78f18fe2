"""Process groups as PyTorch's C++ has them: backends, and the group that holds a backend for each kind of device.

What moves the numbers is an engine of the core (`tede._C._Group`, include/tede/group.h). `EngineBackend` checks operands as PyTorch's backends
do, and calls it; it is what "gloo", "mpi" and "nccl" stand for."""
import enum
import os
from datetime import timedelta

import tede
from tede.distributed._work import DoneWork, EngineWork, ManyWork, RedOpType, _Options, _reduction, _seconds
from tede.distributed.constants import default_pg_timeout
from tede.profiler._listen import running

(_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER, _GATHER, _SCATTER, _REDUCE_SCATTER, _ALL_TO_ALL, _SEND, _RECV, _BARRIER) = range(11)
_NAMES = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "send", "recv", "barrier")     # in profiles


# ---- backends --------------------------------------------------------------------------------------------------------

class BackendOptions:
    """What every backend is made with."""

    def __init__(self, backend="undefined", timeout=default_pg_timeout):
        self.backend, self._timeout, self.group_name, self.global_ranks_in_group = backend, timeout, "", []

    @property
    def _timeout(self):
        return self._time

    @_timeout.setter
    def _timeout(self, timeout):        # seconds are understood, too
        self._time = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)


def _unsupported(name):
    def call(self, *args, **kwargs):
        raise RuntimeError(f"Backend {self.name()} does not support {name}")
    call.__name__ = name
    return call


_CALLS = ("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base", "allgather_coalesced",
          "allgather_into_tensor_coalesced", "gather", "scatter", "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
          "alltoall", "alltoall_base", "send", "recv", "recv_anysource", "barrier", "monitored_barrier")


class Backend:
    """What moves the numbers of one kind of device for a group. A class of one's own defines the calls that it has."""
    Options = BackendOptions

    def __init__(self, rank, size):
        self._rank, self._size, self._sequence, self._timeout = rank, size, 0, default_pg_timeout

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def name(self):
        raise RuntimeError(f"{type(self).__name__}: a backend's class has a function getBackendName or name")

    def getBackendName(self):
        return self.name()

    _get_backend_name = getBackendName

    @property
    def supports_splitting(self):
        return False

    @property
    def supports_coalescing(self):
        return False

    @property
    def options(self):
        return self._options

    def _start_coalescing(self):
        raise RuntimeError(f"Backend {self.name()} does not implement startCoalescing")

    def _end_coalescing(self):
        raise RuntimeError(f"Backend {self.name()} does not implement endCoalescing")

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _set_sequence_number_for_group(self):
        pass

    def set_timeout(self, timeout):
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def abort(self):
        pass

    def shutdown(self):
        pass

    def _wait_for_pending_works(self):
        pass

    def eager_connect_single_device(self, device=None):
        pass


for _name in _CALLS:
    setattr(Backend, _name, _unsupported(_name))


def _flat(lists):
    """The one list in a list of lists, or the list itself."""
    return lists[0] if lists and isinstance(lists[0], (list, tuple)) else lists


def _same_layout(name, tensors, layout):
    for i, tensor in enumerate(tensors):
        if tensor.layout is not layout:
            raise RuntimeError(f"{name}: invalid tensor layout at index {i} (expected {layout}, got {tensor.layout})")


def _same_kind(name, tensors, first):
    _same_layout(name, tensors, tede.strided)
    _same_type(name, tensors, first)


def _same_type(name, tensors, first):
    for i, tensor in enumerate(tensors):
        if tensor.dtype is not first.dtype:
            raise RuntimeError(f"{name}: invalid tensor type at index {i} (expected {first.type()}, got {tensor.type()})")


def _same_sizes(name, tensors, first):
    for i, tensor in enumerate(tensors):
        if tensor.shape != first.shape:
            raise RuntimeError(f"{name}: invalid tensor size at index {i} (expected {tuple(first.shape)}, got {tuple(tensor.shape)})")


def _plain(tensor):
    """Its elements as they lie in memory: what is a conjugate on demand is computed."""
    return tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor


def _flatten(tensors):
    return tede.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else tede.empty(0)


def _unflatten(flat, tensors):
    """Copies consecutive parts of a vector into tensors."""
    at = 0
    with tede.no_grad():
        for tensor in tensors:
            tensor.detach().copy_(flat[at:at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()


class EngineBackend(Backend):
    """Calls of an engine of the core."""

    def __init__(self, group, title, options=None):
        super().__init__(group.rank, group.size)
        self._engine, self._title = group, title
        self._options = options or BackendOptions(title, timedelta(seconds=group.timeout))
        self._timeout = timedelta(seconds=group.timeout)
        self._going, self._keeps_order = [], title != "nccl"

    def name(self):
        return self._title

    def getBackendName(self):
        return self._title

    _get_backend_name = getBackendName

    @property
    def supports_coalescing(self):
        return False

    def set_timeout(self, timeout):
        self._timeout = self._options._timeout = timeout
        self._engine.timeout = _seconds(timeout)

    _set_default_timeout = set_timeout

    def abort(self):
        self._engine.abort()

    def _call(self, name):
        return f"ProcessGroup{self._title.capitalize()}::{name}"

    def _start(self, kind, read, written, opts, results, finish=None, reduction=None, root=0, tag=0, operands=None):
        """Begin a call of the engine. `operands` are what profiles say of it, where that isn't what is read; with none it isn't in them."""
        number, factor = (0, 1.0) if reduction is None else self._check_reduction(reduction)
        self._sequence += 1
        if finish is not None and tede.is_inference_mode_enabled():        # the thread that sees the end isn't in that mode
            finish = tede.inference_mode()(finish)
        if getattr(running, "listener", None) is not None and operands != ():
            finish = self._profiled(kind, operands or read or written, finish, root)
        work = self._engine.start(kind, read, written, number, factor, root, tag, _seconds(opts.timeout) if opts is not None else 0,
                                  opts is None or opts.asyncOp)
        whole = EngineWork(work, results, finish)
        if self._keeps_order and kind < _SEND and (opts is None or opts.asyncOp):
            self._note(whole if finish is not None else work)       # the engine's work lets go of tensors when it is done
        return whole

    def _profiled(self, kind, operands, finish, root):
        name = f"{self._title}:{_NAMES[kind]}" if kind != _RECV or root >= 0 else f"{self._title}:recvAnySource"
        end = running.listener.beside(name, [list(x.shape) for x in operands])

        def ended():
            end()
            if finish is not None:
                finish()
        return ended

    def _note(self, work):
        """A barrier is over when what was begun before it is; streams see to that themselves."""
        if len(self._going) >= 16:
            self._going = self._unfinished()
        self._going.append(work)

    def _unfinished(self):
        works = [work if isinstance(work, EngineWork) else EngineWork(work, ()) for work in self._going]
        return [work for work in works if not work.is_completed()]

    def _check_reduction(self, op):
        number, factor = _reduction(op)
        if number == RedOpType.PREMUL_SUM and self._title in ("gloo", "mpi"):
            raise RuntimeError(f"Cannot use ReduceOp.PREMUL_SUM with {self._title.capitalize()}")
        return number, factor

    def _root(self, name, root):
        if not 0 <= root < self._size:
            raise RuntimeError(f"{self._call(name)}: invalid root rank: {root}")

    def _single(self, name, tensors, what="tensor list"):
        if len(tensors) != 1:
            raise RuntimeError(f"{self._call(name)}: requires a single-element {what}")
        return tensors[0]

    # ---- the same on all ranks

    def allreduce(self, tensors, opts=None):
        tensors = [tensors] if isinstance(tensors, tede.Tensor) else tensors
        op = opts.reduceOp if isinstance(opts, _Options) else RedOpType.SUM if opts is None else opts
        opts = opts if isinstance(opts, _Options) else None
        if len(tensors) == 1 and tensors[0].layout is tede.strided:
            return self._start(_ALL_REDUCE, tensors, tensors, opts, tensors, None, op)
        name = self._call("allreduce")
        if not tensors:
            raise RuntimeError(f"{name}: requires non-empty tensor list")
        _same_layout(name, tensors, tensors[0].layout)
        _same_type(name, tensors, tensors[0])
        _same_sizes(name, tensors, tensors[0])
        if tensors[0].layout is not tede.strided:
            return self._allreduce_sparse(tensors, op, opts)
        return self._allreduce_several(tensors, op, opts)

    def _allreduce_several(self, tensors, op, opts):
        """Each of them counts as if a rank of its own had passed it."""
        joined = {RedOpType.SUM: tede.add, RedOpType.PRODUCT: tede.mul, RedOpType.MIN: tede.minimum, RedOpType.MAX: tede.maximum,
                  RedOpType.BAND: tede.bitwise_and, RedOpType.BOR: tede.bitwise_or, RedOpType.BXOR: tede.bitwise_xor}[_reduction(op)[0]]
        total = tensors[0].detach().clone()
        for tensor in tensors[1:]:
            total = joined(total, tensor.detach())

        def finish():
            for tensor in tensors:
                tensor.detach().copy_(total)
        return self._start(_ALL_REDUCE, [total], [total], opts, tensors, finish, op)

    def _allreduce_sparse(self, tensors, op, opts):
        name = self._call("allreduce")
        if tensors[0].layout is not tede.sparse_coo:
            raise RuntimeError(f"{name}: unsupported layout")
        if _reduction(op)[0] != RedOpType.SUM:
            raise RuntimeError(f"{name}: unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)")
        if len(tensors) != 1:
            total = tensors[0]
            for tensor in tensors[1:]:
                total = total + tensor
        mine = (tensors[0] if len(tensors) == 1 else total).coalesce()
        counts = [tede.zeros(1 + mine.dim() + 2, dtype=tede.int64) for _ in range(self._size)]
        head = tede.tensor([mine._nnz(), mine.sparse_dim(), mine.dense_dim(), *mine.shape])
        self.allgather([counts], [head]).wait()
        for other in counts:
            if other[1:].tolist() != head[1:].tolist():
                raise RuntimeError(f"{name}: sizes do not match")
        ranks = [int(other[0]) for other in counts]
        indices = [tede.empty(mine.sparse_dim(), n, dtype=tede.int64) for n in ranks]
        values = [tede.empty(n, *mine.values().shape[1:], dtype=mine.dtype) for n in ranks]
        works = [self._start(_ALL_GATHER, [mine.indices().contiguous()], indices, opts, ()), self._start(_ALL_GATHER, [mine.values()], values, opts, ())]

        def finish():
            whole = tede.sparse_coo_tensor(tede.cat(indices, 1), tede.cat(values), mine.shape).coalesce()
            with tede.no_grad():
                for tensor in tensors:      # a detached alias would keep its own number of elements
                    tensor.copy_(whole)
        return ManyWork(works, tensors, finish)

    def allreduce_coalesced(self, tensors, opts=None):
        name = self._call("allreduce_coalesced")
        if not tensors:
            raise RuntimeError(f"{name}: requires non-empty tensor list")
        _same_layout(name, tensors, tensors[0].layout)
        if any(tensor.dtype is not tensors[0].dtype for tensor in tensors):
            raise RuntimeError(f"{name}: tensors must all have the same type")
        if tensors[0].layout is not tede.strided:
            raise RuntimeError(f"{name}: unsupported layout")
        op = opts.reduceOp if opts is not None else RedOpType.SUM
        flat = _flatten(tensors)
        return self._start(_ALL_REDUCE, [flat], [flat], opts, tensors, lambda: _unflatten(flat, tensors), op, operands=tensors)

    def broadcast(self, tensors, opts=None, root=None):
        tensors = [tensors] if isinstance(tensors, tede.Tensor) else tensors
        if isinstance(opts, int):
            root, opts = opts, None
        root = opts.rootRank if opts is not None else root or 0
        name = "broadcast"
        self._root(name, root)
        which = opts.rootTensor if opts is not None else 0
        if not 0 <= which < len(tensors):
            raise RuntimeError(f"{self._call(name)}: invalid root tensor: {which}")
        if len(tensors) == 1:
            if tensors[0].layout is not tede.strided:
                raise RuntimeError(f"{self._call(name)}: only supports dense tensors")
            return self._start(_BROADCAST, (), tensors, opts, tensors, None, None, root)
        _same_kind(self._call(name), tensors, tensors[0])
        _same_sizes(self._call(name), tensors, tensors[0])

        def finish():
            for tensor in tensors:
                if tensor is not tensors[which]:
                    tensor.detach().copy_(tensors[which])
        return self._start(_BROADCAST, (), [tensors[which]], opts, tensors, finish, None, root)

    def reduce(self, tensors, opts=None, root=None, op=None):
        tensors = [tensors] if isinstance(tensors, tede.Tensor) else tensors
        if isinstance(opts, int):
            root, op, opts = opts, root, None
        root, op = (opts.rootRank, opts.reduceOp) if opts is not None else (root or 0, op or RedOpType.SUM)
        self._root("reduce", root)
        if opts is not None and opts.rootTensor != 0:
            raise RuntimeError(f"{self._call('reduce')}: invalid root tensor: {opts.rootTensor}")
        self._single("reduce", tensors)
        return self._start(_REDUCE, tensors, tensors if root == self._rank else (), opts, tensors, None, op, root)

    def allgather(self, outputs, inputs, opts=None):
        if isinstance(inputs, tede.Tensor):
            outputs, inputs = [outputs], [inputs]
        name = self._call("allgather")
        if not inputs:
            raise RuntimeError(f"{name}: requires non-empty input tensor list")
        if len(outputs) != len(inputs):
            raise RuntimeError(f"{name}: requires input/output tensor lists to have the same length")
        for i, some in enumerate(outputs):
            if len(some) != self._size * len(inputs):
                raise RuntimeError(f"{name}: invalid output tensor list at index {i} (expected length {self._size * len(inputs)}, got {len(some)})")
            _same_kind(name, some, inputs[0])
            if self._title != "nccl":
                _same_sizes(name, some, inputs[0])
        _same_kind(name, inputs, inputs[0])
        _same_sizes(name, inputs, inputs[0])
        if len(inputs) == 1:
            return self._start(_ALL_GATHER, [_plain(inputs[0])], outputs[0], opts, outputs[0])
        flat = _flatten(inputs)
        parts = [tede.empty_like(flat) for _ in range(self._size)]

        def finish():
            for some in outputs:
                _unflatten(tede.cat(parts), some)
        return self._start(_ALL_GATHER, [flat], parts, opts, outputs, finish, operands=inputs)

    def _allgather_base(self, output, input, opts=None):
        if output.numel() != input.numel() * self._size:
            raise RuntimeError("output tensor size must be equal to world_size times input tensor size")
        if output.dtype is not input.dtype:
            raise RuntimeError("output tensor must have the same type as input tensor")
        parts, finish = self._parts(output, None)
        return self._start(_ALL_GATHER, [_plain(input)], parts, opts, [output], finish)

    def _parts(self, tensor, splits, read=False):
        """Consecutive parts for the ranks, of equal sizes or so many rows each; and what copies them back, where they are copies."""
        flat = tensor.detach()
        finish = None
        if not flat.is_contiguous():
            flat = flat.contiguous() if read else tede.empty_like(flat, memory_format=tede.contiguous_format)
            if not read:
                finish = lambda: tensor.detach().copy_(flat)
        flat = flat.view(-1)
        if splits is None:
            return list(flat.view(self._size, -1).unbind(0)) if flat.numel() else [flat] * self._size, finish
        row = tensor[0].numel() if tensor.dim() and tensor.shape[0] else 0
        return list(flat.split([n * row for n in splits])), finish

    def allgather_coalesced(self, outputs, inputs, opts=None):
        name = self._call("allgather_coalesced")
        if not inputs:
            raise RuntimeError(f"{name}: requires non-empty input tensor list")
        if len(outputs) != self._size:
            raise RuntimeError(f"{name}: output lists should be equal to world size")
        for some in outputs:
            if len(some) != len(inputs):
                raise RuntimeError(f"{name}: invalid output size: (expected length {len(inputs)}, got {len(some)})")
            for i, (output, input) in enumerate(zip(some, inputs)):
                if output.shape != input.shape:
                    raise RuntimeError(f"{name}: invalid size of output tensor at index {i} (expected length {input.shape}, got {output.shape})")
                if output.dtype is not input.dtype:
                    raise RuntimeError(f"{name}: invalid tensor type at index {i}")
        works = [self._start(_ALL_GATHER, [_plain(input)], [some[i] for some in outputs], opts, (), operands=() if i else inputs)
                 for i, input in enumerate(inputs)]
        return ManyWork(works, [tensor for some in outputs for tensor in some])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        if len(outputs) != len(inputs):
            raise RuntimeError(f"{self._call('allgather_into_tensor_coalesced')}: requires input/output tensor lists to have the same length")
        return ManyWork([self._allgather_base(output, input, opts) for output, input in zip(outputs, inputs)], outputs)

    def gather(self, outputs, inputs, opts=None, root=None):
        if isinstance(inputs, tede.Tensor):
            outputs, inputs = [outputs], [inputs]
        if isinstance(opts, int):
            root, opts = opts, None
        root = opts.rootRank if opts is not None else root or 0
        name = self._call("gather")
        self._root("gather", root)
        self._single("gather", inputs, "input tensor list")
        if root != self._rank:
            if outputs and outputs[0]:
                raise RuntimeError(f"{name}: requires empty output on non-root")
            return self._start(_GATHER, [_plain(inputs[0])], (), opts, [], None, None, root)
        if len(outputs) != 1:
            raise RuntimeError(f"{name}: requires a single-element output list containing a list with {self._size} tensors")
        if len(outputs[0]) != self._size:
            raise RuntimeError(f"{name}: Incorrect output list size {len(outputs[0])}. Output list size should be {self._size}, same as size of the process group.")
        _same_kind(name, outputs[0], inputs[0])
        _same_sizes(name, outputs[0], inputs[0])
        return self._start(_GATHER, [_plain(inputs[0])], outputs[0], opts, outputs[0], None, None, root)

    def scatter(self, outputs, inputs, opts=None, root=None):
        if isinstance(outputs, tede.Tensor):
            outputs, inputs = [outputs], [inputs]
        if isinstance(opts, int):
            root, opts = opts, None
        root = opts.rootRank if opts is not None else root or 0
        name = self._call("scatter")
        self._root("scatter", root)
        output = self._single("scatter", outputs, "output tensor list")
        if root != self._rank:
            if inputs and inputs[0]:
                raise RuntimeError(f"{name}: requires empty input on non-root")
            return self._start(_SCATTER, (), outputs, opts, outputs, None, None, root)
        if len(inputs) != 1:
            raise RuntimeError(f"{name}: requires a single-element input list containing a list with {self._size} tensors")
        if len(inputs[0]) != self._size:
            raise RuntimeError(f"{name}: Incorrect input list size {len(inputs[0])}. Input list size should be {self._size}, same as size of the process group.")
        _same_kind(name, inputs[0], output)
        _same_sizes(name, inputs[0], output)
        return self._start(_SCATTER, [_plain(tensor) for tensor in inputs[0]], outputs, opts, outputs, None, None, root)

    def reduce_scatter(self, outputs, inputs, opts=None, op=None):
        if isinstance(outputs, tede.Tensor):
            outputs, inputs = [outputs], [inputs]
        if opts is not None and not isinstance(opts, _Options):
            op, opts = opts, None
        op = opts.reduceOp if opts is not None else op or RedOpType.SUM
        output = self._single("reduce_scatter", outputs, "output tensor list")
        parts = self._single("reduce_scatter", inputs, "input tensor list")
        if len(parts) != self._size:
            raise RuntimeError(f"{self._call('reduce_scatter')}: invalid input tensor list size, must be world size")
        _same_kind(self._call("reduce_scatter"), parts, output)
        if self._title != "nccl":
            _same_sizes(self._call("reduce_scatter"), parts, output)
        return self._start(_REDUCE_SCATTER, [_plain(part) for part in parts], outputs, opts, outputs, None, op)

    def _reduce_scatter_base(self, output, input, opts=None):
        if input.numel() != output.numel() * self._size:
            raise RuntimeError("input tensor must be the same size as output size times world size")
        if output.dtype is not input.dtype:
            raise RuntimeError("input tensor must be the same type as the output tensor.")
        parts, _ = self._parts(_plain(input), None, read=True)
        op = opts.reduceOp if opts is not None else RedOpType.SUM
        return self._start(_REDUCE_SCATTER, parts, [output], opts, [output], None, op, operands=[input])

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        if len(outputs) != len(inputs):
            raise RuntimeError(f"{self._call('reduce_scatter_tensor_coalesced')}: requires input/output tensor lists to have the same length")
        return ManyWork([self._reduce_scatter_base(output, input, opts) for output, input in zip(outputs, inputs)], outputs)

    def alltoall(self, outputs, inputs, opts=None):
        name = self._call("alltoall")
        if len(outputs) != self._size or len(inputs) != self._size:
            raise RuntimeError(f"{name}: requires as many tensors as there are ranks, {self._size}, not {len(outputs)} and {len(inputs)}")
        _same_kind(name, [*outputs, *inputs], inputs[0])
        return self._start(_ALL_TO_ALL, [_plain(input) for input in inputs], outputs, opts, outputs)

    def alltoall_base(self, output, input, output_splits=(), input_splits=(), opts=None):
        if not input.is_contiguous():
            raise ValueError("Tensors must be contiguous")
        for tensor, splits in ((output, output_splits), (input, input_splits)):
            if not splits and (tensor.shape[0] if tensor.dim() else 0) % self._size:
                raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
            if splits and (len(splits) != self._size or sum(splits) != tensor.shape[0]):
                raise RuntimeError("Split sizes doesn't match total dim 0 size" if len(splits) == self._size else
                                 "Number of tensor splits not equal to group size")
        if output.dtype is not input.dtype:
            raise RuntimeError("Tensors are not of the same type")
        read, _ = self._parts(_plain(input), list(input_splits) or None, read=True)
        written, finish = self._parts(output, list(output_splits) or None)
        return self._start(_ALL_TO_ALL, read, written, opts, [output], finish, operands=[input])

    # ---- between two ranks

    def send(self, tensors, to, tag=0):
        tensor = self._single("send", [tensors] if isinstance(tensors, tede.Tensor) else tensors)
        return self._start(_SEND, [_plain(tensor)], (), None, [tensor], None, None, to, tag)

    def recv(self, tensors, source, tag=0):
        tensor = self._single("recv", [tensors] if isinstance(tensors, tede.Tensor) else tensors)
        return self._start(_RECV, (), [tensor], None, [tensor], None, None, source, tag)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, -1, tag)

    def barrier(self, opts=None):
        before, self._going = self._unfinished(), []
        work = self._start(_BARRIER, (), (), opts, [])
        return ManyWork([*before, work]) if before else work

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Rank 0 is notified of each rank, and says which ones haven't come within the timeout; it answers when all have."""
        seconds = _seconds(timeout) or self._engine.timeout
        if timeout == timedelta(0):
            raise RuntimeError(f"[Rank {self._rank}]: Rank {self._rank} timed out in monitoredBarrier after 0 ms.")
        self._sequence += 1
        word = tede.zeros(1, dtype=tede.int64)

        def exchange(kind, rank):
            read, written = ((word,), ()) if kind == _SEND else ((), (word,))
            return self._engine.start(kind, read, written, 0, 1, rank, _MONITOR_TAG, seconds, True)
        if self._rank:
            try:
                exchange(_SEND, 0).wait()
                exchange(_RECV, 0).wait()
            except RuntimeError as error:
                raise RuntimeError(f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
                                   f"Please check rank 0 logs for faulty rank.\n Original exception: \n{error}") from None
            return
        waiting, missing, errors = {rank: exchange(_RECV, rank) for rank in range(1, self._size)}, [], []
        for rank, work in waiting.items():
            try:
                work.wait()
            except RuntimeError as error:
                missing.append(rank)
                errors.append(str(error))
                if not wait_all_ranks:
                    raise RuntimeError(f"[Rank 0]: Rank {rank} failed to pass monitoredBarrier in {int(seconds * 1000)} ms\n"
                                       f" Original exception: \n{error}") from None
        if missing:
            raise RuntimeError(f"[Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass monitoredBarrier in {int(seconds * 1000)} ms")
        for work in [exchange(_SEND, rank) for rank in waiting]:
            work.wait()


_MONITOR_TAG = 32000


class FakeProcessGroup(Backend):
    """One rank of a group that isn't there: calls end at once. What it would get from others is its own."""

    def __init__(self, rank, size, options=None):
        super().__init__(rank, size)
        self._options = options or BackendOptions("fake")

    @classmethod
    def _create_internal(cls, rank, world_size, options=None):
        return cls(rank, world_size, options)

    def name(self):
        return "fake"

    getBackendName = _get_backend_name = name

    def _fake(self, tensors, *args):
        return DoneWork(_flat(tensors) if isinstance(tensors, (list, tuple)) else [tensors])

    allreduce = allreduce_coalesced = broadcast = reduce = gather = scatter = alltoall = alltoall_base = send = recv = recv_anysource = _fake
    allgather_coalesced = reduce_scatter_tensor_coalesced = reduce_scatter = _reduce_scatter_base = _fake

    def allgather(self, outputs, inputs, opts=None):
        for some, input in zip(outputs, inputs):
            for output in some:
                output.detach().copy_(input)
        return DoneWork(outputs[0])

    def _allgather_base(self, output, input, opts=None):
        for part in output.detach().view(-1).chunk(self._size):
            part.copy_(input.reshape(-1))
        return DoneWork([output])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        for output, input in zip(outputs, inputs):
            self._allgather_base(output, input)
        return DoneWork(outputs)

    def barrier(self, opts=None):
        return DoneWork()

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        pass


# ---- groups ----------------------------------------------------------------------------------------------------------

class BackendType(enum.IntEnum):
    UNDEFINED, GLOO, NCCL, UCC, MPI, CUSTOM, XCCL = range(7)


class ProcessGroup:
    """Some processes, and a backend for each kind of device. A class of one's own may define the calls itself."""
    BackendType = BackendType
    UNDEFINED, GLOO, NCCL, UCC, MPI, CUSTOM, XCCL = BackendType

    def __init__(self, *args):
        """(rank, size), or (store, rank, size)."""
        self._store = args[0] if len(args) == 3 else None
        self._rank_in_group, self._size_of_group = args[-2:] if len(args) >= 2 else (-1, -1)
        self._backends, self._default, self._group_name, self._group_desc, self.bound_device_id = {}, None, "", "", None

    def rank(self):
        return self._rank_in_group

    def size(self):
        return self._size_of_group

    def __init_subclass__(cls, **kwargs):
        """A class of one's own may define what a group says of itself by the names that C++ has for it."""
        super().__init_subclass__(**kwargs)
        defined = vars(cls)
        for theirs, name in (("getRank", "rank"), ("getSize", "size"), ("setGroupName", "_set_group_name"), ("setGroupDesc", "_set_group_desc")):
            if theirs in defined and name not in defined:
                setattr(cls, name, defined[theirs])
        for theirs, name in (("getGroupName", "group_name"), ("getGroupDesc", "group_desc")):
            if theirs in defined and name not in defined:
                setattr(cls, name, property(defined[theirs]))

    def getBackendName(self):
        if self._default is None:
            return "undefined"
        return "custom" if self._kind is BackendType.CUSTOM else self._default.getBackendName()

    def name(self):
        return self.getBackendName()

    _get_backend_name = name

    def __repr__(self):
        return f"<torch.distributed.distributed_c10d.{type(self).__name__} object at {id(self):#x}>"

    @property
    def group_name(self):
        return self._group_name

    def _set_group_name(self, name):
        self._group_name = name

    setGroupName = _set_group_name

    @property
    def group_desc(self):
        return self._group_desc

    def _set_group_desc(self, text):
        self._group_desc = text

    def get_group_store(self):
        return self._store

    def _id(self):
        return id(self)

    def _backend_id(self, backend):
        return int(backend)

    # ---- backends

    @property
    def _device_types(self):
        return [tede.device(name) for name in self._backends]

    def _register_backend(self, device, type, backend=None):
        if backend is not None:
            self._backends[tede.device(device).type] = backend
            if self._default is None:
                self._default, self._kind = backend, type

    def _set_default_backend(self, type):
        self._kind = type

    def _get_backend(self, device):
        device = device if isinstance(device, str) else device.type
        backend = self._backends.get(device)
        if backend is None:
            if device == "cpu" and self._default is None:
                raise RuntimeError("No backend is registered with this process group")
            raise RuntimeError(f"No backend type associated with device type {device}")
        return backend

    def _of(self, tensors):
        while isinstance(tensors, (list, tuple)):
            if not tensors:
                return self._default
            tensors = tensors[0]
        backend = self._backends.get(tensors.device.type)
        return backend if backend is not None else self._get_backend(tensors.device)

    def allreduce(self, tensors, opts=None):
        return self._of(tensors).allreduce(tensors, opts)

    def allreduce_coalesced(self, tensors, opts=None):
        return self._of(tensors).allreduce_coalesced(tensors, opts)

    def broadcast(self, tensors, *args):
        return self._of(tensors).broadcast(tensors, *args)

    def reduce(self, tensors, *args):
        return self._of(tensors).reduce(tensors, *args)

    def allgather(self, outputs, inputs, opts=None):
        return self._of(inputs).allgather(outputs, inputs, opts)

    def _allgather_base(self, output, input, opts=None):
        return self._of(input)._allgather_base(output, input, opts)

    def all_gather_single(self, *args):             # another name; a class of one's own defines either
        return self._allgather_base(*args)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        return self._of(inputs).allgather_coalesced(outputs, inputs, opts)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._of(inputs).allgather_into_tensor_coalesced(outputs, inputs, opts)

    def gather(self, outputs, inputs, *args):
        return self._of(inputs).gather(outputs, inputs, *args)

    def scatter(self, outputs, inputs, *args):
        return self._of(outputs).scatter(outputs, inputs, *args)

    def reduce_scatter(self, outputs, inputs, *args):
        return self._of(outputs).reduce_scatter(outputs, inputs, *args)

    def _reduce_scatter_base(self, output, input, opts=None):
        return self._of(input)._reduce_scatter_base(output, input, opts)

    def reduce_scatter_single(self, *args):
        return self._reduce_scatter_base(*args)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        return self._of(inputs).reduce_scatter_tensor_coalesced(outputs, inputs, opts)

    def all_gather_single_coalesced(self, *args):
        return self.allgather_into_tensor_coalesced(*args)

    def reduce_scatter_single_coalesced(self, *args):
        return self.reduce_scatter_tensor_coalesced(*args)

    def alltoall(self, outputs, inputs, opts=None):
        return self._of(inputs).alltoall(outputs, inputs, opts)

    def alltoall_base(self, output, input, output_splits, input_splits, opts=None):
        return self._of(input).alltoall_base(output, input, output_splits, input_splits, opts)

    def all_to_all_single(self, *args):
        return self.alltoall_base(*args)

    def send(self, tensors, to, tag):
        return self._of(tensors).send(tensors, to, tag)

    def recv(self, tensors, source, tag):
        return self._of(tensors).recv(tensors, source, tag)

    def recv_anysource(self, tensors, tag):
        return self._of(tensors).recv_anysource(tensors, tag)

    def barrier(self, opts=None):
        device = getattr(opts, "device", None)
        return (self._get_backend(device) if device is not None and device.type in self._backends else self._get_default()).barrier(opts)

    def _get_default(self):
        if self._default is None:
            raise RuntimeError("No backend is registered with this process group")
        return self._default

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        return self._get_backend("cpu").monitored_barrier(timeout, wait_all_ranks)

    # ---- the rest

    def _start_coalescing(self, device):
        self._get_backend(device)._start_coalescing()

    def _end_coalescing(self, device):
        return self._get_backend(device)._end_coalescing()

    def _get_sequence_number_for_group(self):
        return self._get_default()._get_sequence_number_for_group()

    def _set_sequence_number_for_group(self):
        self._get_default()._set_sequence_number_for_group()

    def set_timeout(self, timeout):
        for backend in self._backends.values():
            backend.set_timeout(timeout)

    def abort(self):
        for backend in self._backends.values():
            backend.abort()

    def shutdown(self):
        for backend in self._backends.values():
            backend.shutdown()

    def _has_hooks(self):
        return False

    def _wait_for_pending_works(self):
        for backend in self._backends.values():
            backend._wait_for_pending_works()

    def _enable_collectives_timing(self):
        pass

    def boxed(self):
        return self

    @staticmethod
    def unbox(group):
        return group


# ---- how a process finds the others ---------------------------------------------------------------------------------

_LAUNCHERS = (("PMI_RANK", "PMI_SIZE"), ("PMIX_RANK", None), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))


def launched_by_mpi():
    """Whether an MPI's launcher (mpiexec) has started this process."""
    return any(rank in os.environ and (size is None or size in os.environ) for rank, size in _LAUNCHERS)
