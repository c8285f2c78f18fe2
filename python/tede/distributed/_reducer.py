"""The averaging of gradients over processes, as DistributedDataParallel does it.

Parameters are put in buckets, in the order in which their gradients come. A bucket is one flat tensor. The last gradient
of a bucket to come starts the bucket's all_reduce, which then runs beside the rest of the backward pass; the end of the
pass waits for all of them. Gradients are copied into the flat tensor and out of it by one call a bucket; those that are
views of it (gradient_as_bucket_view) are not copied while nobody takes them away.

All processes start the all_reduces of a pass in one order, that of the buckets, whatever the order in which they become full.
After the first pass the buckets are made anew in the order in which the gradients came on rank 0.

A parameter that gets no gradient would leave its bucket waiting. Three ways out: its absence is found in the graph of the
outputs (find_unused_parameters), or is taken from the first pass, all of which then waits until its end (static_graph);
else the next forward pass says which parameters are missing.
"""
import enum
import os
import sys
import time
import warnings
import weakref
from datetime import timedelta

import tede
from tede import _C
from tede.distributed._chain import in_hook, reduced
from tede.distributed._group import ProcessGroup
from tede.distributed._work import AllgatherOptions, AllreduceOptions, BroadcastOptions, ReduceOp
from tede.distributed.distributed_c10d import get_debug_level
from tede.futures import Future

__all__ = ["BuiltinCommHookType", "GradBucket", "Logger", "Reducer"]

_DEFAULT_FIRST_BUCKET_BYTES = 1024 * 1024
_DEFAULT_BUCKET_BYTES_CAP = 25 * 1024 * 1024
_NO_TIMEOUT = timedelta(0)


class BuiltinCommHookType(enum.Enum):
    """Communication hooks that need no code of the caller's."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2

    def __str__(self):
        return f"BuiltinCommHookType.{self.name}"


def _debug_level():
    return get_debug_level().name


class GradBucket:
    """What a communication hook is passed: the gradients of a bucket in one flat tensor."""

    def __init__(self, bucket, index, count, params):
        self._bucket, self._index, self._count, self._params, self._buffer = bucket, index, count, params, bucket.flat

    def index(self):
        return self._index

    def buffer(self):
        """The flat tensor, or the sparse gradient that is the bucket's only one."""
        return self._buffer

    def set_buffer(self, buffer):
        self._buffer = buffer

    def gradients(self):
        """The flat tensor in the shapes of the parameters."""
        return [self._buffer] if self._bucket.sparse else self._bucket.split(self._buffer)

    def parameters(self):
        return list(self._params)

    def is_last(self):
        """Whether it's the last of the pass, the one with the first layer."""
        return self._index == self._count - 1


class _Bucket:
    """Parameters that are reduced together: their numbers, the flat tensor, and its parts in their shapes."""

    __slots__ = ("indices", "params", "flat", "views", "sparse", "pending", "work", "future", "layout", "grads", "limit")

    def __init__(self, indices, params, sparse, dtype, limit):
        self.indices, self.params, self.sparse, self.limit = indices, params, sparse, limit
        self.pending, self.work, self.future, self.flat, self.views, self.grads = 0, None, None, None, None, None
        first = params[0]
        if sparse:
            return
        if any(p.dtype != first.dtype or p.device != first.device for p in params):
            raise RuntimeError("Expected all parameters in a bucket to have the same dtype and device")
        self.layout, start = [], 0
        for p in params:
            # The strides of the parameter where those cover its memory: optimizers run over both in step.
            strides = p.stride() if _is_dense(p) else tede.empty(p.shape, device="meta").stride()
            self.layout.append((p.shape, strides, start))
            start += p.numel()
        self.flat = tede.zeros(start, dtype=dtype or first.dtype, device=first.device)
        self.views = self.split(self.flat)

    def split(self, flat):
        return [flat.as_strided(shape, strides, flat.storage_offset() + start) for shape, strides, start in self.layout]


def _is_dense(p):
    """Whether p's elements are all there is between the first and the last of them."""
    wanted = 1
    for stride, size in sorted((stride, size) for size, stride in zip(p.shape, p.stride()) if size != 1):
        if stride != wanted:
            return False
        wanted *= size
    return True


def _compute_bucket_assignment_by_size(tensors, bucket_size_limits, expect_sparse_gradient=(), tensor_indices=(), logger=None):
    """The numbers of the tensors of each bucket, and each bucket's limit.

    The n-th bucket of a dtype and device is full when it holds the n-th limit's bytes, the last limit standing for
    those after it. Sparse gradients have a bucket each."""
    if not bucket_size_limits:
        raise ValueError("bucket_size_limits must not be empty")
    open_, turn, finished = {}, {}, []
    for at, x in enumerate(tensors):
        if x.layout is not tede.strided:
            _fail(logger, "No support for sparse tensors.")
        index = tensor_indices[at] if tensor_indices else at
        if expect_sparse_gradient and expect_sparse_gradient[index]:
            finished.append(([index], bucket_size_limits[0]))
            continue
        key = (x.dtype, x.device)
        bucket = open_.setdefault(key, [[], 0])
        bucket[0].append(index)
        bucket[1] += x.numel() * x.element_size()
        limit = bucket_size_limits[min(turn.get(key, 0), len(bucket_size_limits) - 1)]
        if bucket[1] >= limit:
            finished.append((bucket[0], limit))
            turn[key] = turn.get(key, 0) + 1
            del open_[key]
    for key, (indices, _) in open_.items():
        finished.append((indices, bucket_size_limits[min(turn.get(key, 0), len(bucket_size_limits) - 1)]))
    if not tensor_indices:
        finished.sort(key=lambda bucket: min(bucket[0]))
    return [indices for indices, _ in finished], [limit for _, limit in finished]


def _fail(logger, message):
    if logger is not None:
        logger.set_error_and_log(message)
    raise RuntimeError(message)


def _all_reduce(group, x, op=ReduceOp.SUM):
    """As C++ calls a group: a class of the program's own takes lists and options."""
    opts = AllreduceOptions()
    opts.reduceOp = op
    return group.allreduce([x], opts)


def _broadcast(group, x, src):
    opts = BroadcastOptions()
    opts.rootRank, opts.rootTensor = src, 0
    return group.broadcast([x], opts)


def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
    """Rank src's tensors on all ranks, with few messages: those of one dtype travel together, up to buffer_size bytes."""
    groups, size = {}, {}
    for x in tensors:
        key = (x.dtype, x.device)
        groups.setdefault(key, [[]])
        if groups[key][-1] and size[key] + x.numel() * x.element_size() > buffer_size:
            groups[key].append([])
        if not groups[key][-1]:
            size[key] = 0
        groups[key][-1].append(x)
        size[key] += x.numel() * x.element_size()
    started = []
    with tede.no_grad():
        for group in (group for groups_of_key in groups.values() for group in groups_of_key):
            if len(group) == 1 and group[0].is_contiguous():
                started.append((_broadcast(process_group, group[0].detach(), src), group, None))
            else:
                flat = tede.cat([x.detach().reshape(-1) for x in group])
                started.append((_broadcast(process_group, flat, src), group, flat))
        for work, group, flat in started:
            work.wait(_NO_TIMEOUT)
            if flat is not None:
                for x, part in zip(group, flat.split([x.numel() for x in group])):
                    x.detach().copy_(part.view(x.shape))


def _verify_params_across_processes(process_group, params, logger=None):
    """An error on all ranks unless the parameters are as many and of the same shapes as rank 0's."""
    rank, ranks = process_group.rank(), process_group.size()
    counts = [tede.zeros(1, dtype=tede.int64) for _ in range(ranks)]
    device = params[0].device if params else tede.device("cpu")
    counts = [count.to(device) for count in counts]
    process_group.allgather([counts], [tede.tensor([len(params)], device=device)], AllgatherOptions()).wait(_NO_TIMEOUT)
    counts = [int(count) for count in counts]
    for other, count in enumerate(counts):
        if count != counts[0]:
            _fail(logger, f"DDP expects same model across all ranks, but Rank 0 has {counts[0]} params, while rank {other} has inconsistent "
                          f"{count} params.")
    described = [[p.dim(), *p.shape, *p.stride()] for p in params]
    # Shapes of other lengths must not give messages of other lengths.
    room = tede.tensor([sum(map(len, described))], device=device)
    _all_reduce(process_group, room, ReduceOp.MAX).wait(_NO_TIMEOUT)
    own = tede.zeros(max(int(room), 1), dtype=tede.int64, device=device)
    flat = [number for numbers in described for number in numbers]
    own[:len(flat)] = tede.tensor(flat, dtype=tede.int64, device=device)
    first = own.clone()
    _broadcast(process_group, first, 0).wait(_NO_TIMEOUT)
    first, at, wrong = first.tolist(), 0, -1
    for i, numbers in enumerate(described):
        if first[at:at + len(numbers)] != numbers:
            wrong = i
            break
        at += len(numbers)
    found = [tede.zeros(1, dtype=tede.int64, device=device) for _ in range(ranks)]
    process_group.allgather([found], [tede.tensor([wrong], device=device)], AllgatherOptions()).wait(_NO_TIMEOUT)
    if wrong >= 0:
        _fail(logger, f"[{rank}]: params[{wrong}] in this process with sizes {list(params[wrong].shape)} appears not to match sizes or strides of "
                      "the same param in process 0.")
    for other, i in enumerate(found):
        if int(i) >= 0:
            _fail(logger, f"[{rank}]: params[{int(i)}] in process {other} appears not to match sizes or strides of the same param in process 0.")


class Reducer:
    """Averages the gradients of `params` over a process group during backward passes."""

    def __init__(self, params, bucket_indices, per_bucket_size_limits, process_group, expect_sparse_gradients=None,
                 bucket_bytes_cap=_DEFAULT_BUCKET_BYTES_CAP, find_unused_parameters=False, gradient_as_bucket_view=False,
                 param_to_name_mapping=None, first_bucket_bytes_cap=_DEFAULT_FIRST_BUCKET_BYTES, skip_all_reduce_unused_params=False,
                 use_python_reducer=False, bucket_size_limits_for_rebuilding=(), batched_grad_copy=False):
        self._params, self._names = list(params), param_to_name_mapping or {}
        self._update_process_group(process_group)
        self._sparse = list(expect_sparse_gradients or [False] * len(self._params))
        self._cap, self._first_cap, self._rebuild_limits = bucket_bytes_cap, first_bucket_bytes_cap, list(bucket_size_limits_for_rebuilding)
        self._find_unused, self._as_view, self._skip_unused = find_unused_parameters, gradient_as_bucket_view, skip_all_reduce_unused_params
        self._static, self._logger, self._hook, self._dtype = False, None, None, None
        self._iteration, self._sample_rate, self._times = 0, 100, {}
        self._graph_static, self._unused_before = True, None
        self._warned_unused, self._optimizer_in_backward = False, False
        self._used = [0] * len(self._params)
        self._used_reduced, self._used_work = tede.zeros(len(self._params), dtype=tede.int32), None
        self._triggers, self._triggers_left = [0] * len(self._params), None
        self._forward_work, self._divide_by_all, self._futures = None, True, []
        self._make_buckets(bucket_indices, per_bucket_size_limits)
        self._reset_state()
        self._handles = []
        # A hook holds the reducer weakly, and the reducer the accumulators: else neither would ever go away.
        self._accumulators = [p.expand_as(p).grad_fn.next_functions[0][0] if p.requires_grad else None for p in self._params]
        this = weakref.ref(self)
        for i, accumulator in enumerate(self._accumulators):
            if accumulator is not None:
                self._handles.append(accumulator.register_hook(_hook_of(this, i)))

    def __del__(self):
        for handle in getattr(self, "_handles", ()):
            handle.remove()

    def _remove_autograd_hooks(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # ---- buckets

    def _make_buckets(self, bucket_indices, limits):
        self._buckets = [_Bucket(list(indices), [self._params[i] for i in indices], self._sparse[indices[0]] and len(indices) == 1,
                                 self._dtype, limit) for indices, limit in zip(bucket_indices, limits)]
        self._bucket_of = {i: bucket for bucket in self._buckets for i in bucket.indices}
        if len(self._bucket_of) != len(self._params):
            raise RuntimeError("each parameter must be in exactly one bucket")

    def _reset_state(self):
        """As after construction, where a pass was left by an error."""
        self._expecting = self._unfinished = self._rebuilt = False
        self._order, self._arrived, self._unused, self._ready = [], [], [], set()
        self._next, self._marked_unused, self._divisor, self._enqueued = 0, False, None, False
        self._used_work = None

    def _update_process_group(self, process_group):
        self._group, self._ranks, self._rank = process_group, process_group.size(), process_group.rank()
        self._own_group, self._divisor = type(process_group) is not ProcessGroup, None

    def _should_rebuild(self):
        return not self._rebuilt and (self._static or not self._find_unused)

    def _push_all_rebuilt_params(self):
        if self._should_rebuild() and not self._order:
            self._order = list(range(len(self._params)))

    def _rebuild_buckets(self):
        """Once, after the first pass: buckets in the order in which rank 0's gradients came. Whether that has been done now."""
        if self._rebuilt or not self._order or not self._should_rebuild():
            return False
        self._ensure_finished()
        limits = self._rebuild_limits or ([self._first_cap, self._cap] if self._first_cap < self._cap else [self._cap])
        indices, of_bucket = _compute_bucket_assignment_by_size([self._params[i] for i in self._order], limits, self._sparse, self._order, self._logger)
        indices, of_bucket = self._agree(indices, of_bucket)
        self._make_buckets(indices, of_bucket)
        self._rebuilt, self._order = True, []
        return True

    def _agree(self, indices, limits):
        """Rank 0's buckets."""
        if self._ranks == 1:
            return indices, limits
        n = len(self._params)
        plan = [len(indices), *(i for bucket in indices for i in bucket), *map(len, indices), *[0] * (n - len(indices)),
                *(min(limit, sys.maxsize) for limit in limits), *[0] * (n - len(limits))]
        plan = tede.tensor(plan, dtype=tede.int64, device=self._params[0].device)
        _broadcast(self._group, plan, 0).wait(_NO_TIMEOUT)
        plan = plan.tolist()
        count, flat, sizes, limits, at, agreed = plan[0], plan[1:n + 1], plan[n + 1:2 * n + 1], plan[2 * n + 1:], 0, []
        for size in sizes[:count]:
            agreed.append(flat[at:at + size])
            at += size
        return agreed, limits[:count]

    # ---- a pass

    def prepare_for_forward(self):
        self._iteration += 1
        self._times["forward_compute_time_start"] = time.perf_counter_ns()

    def prepare_for_backward(self, outputs):
        """The next backward pass is reduced. `outputs`: where find_unused_parameters looks for parameters."""
        self._times["backward_compute_time_start"] = time.perf_counter_ns()
        self._ensure_finished()
        self._expecting = True
        self._next, self._marked_unused, self._divisor, self._enqueued = 0, False, None, False
        self._arrived, self._ready = [], set()
        for bucket in self._buckets:
            bucket.pending, bucket.work, bucket.future = len(bucket.indices), None, None
        if self._static:
            self._triggers_left = list(self._triggers)
            return
        self._unused = []
        if self._find_unused:
            reached = _C._graph_leaves([outputs] if isinstance(outputs, tede.Tensor) else list(outputs))
            self._unused = [i for i, p in enumerate(self._params) if id(p) not in reached]
            if self._unused_before is not None and self._unused_before != self._unused:
                self._graph_static = False
            self._unused_before = self._unused
            if not self._unused and not self._warned_unused:
                self._warned_unused = True
                warnings.warn("find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward "
                              "pass. This flag results in an extra traversal of the autograd graph every iteration, which can adversely affect "
                              "performance. If your model indeed never has any unused parameters in the forward pass, consider turning this flag "
                              "off. Note that this warning may be a false positive if your model has flow control causing later iterations to have "
                              "unused parameters.", stacklevel=4)

    def _first_static(self):
        return self._static and self._iteration <= 1

    def _autograd_hook(self, index):
        """Parameter `index` has its gradient of this pass."""
        if (self._find_unused or self._static) and self._params[index].grad is not None:
            self._used[index] = 1
        if not self._expecting:
            return
        self._arrived.append(index)
        if self._first_static():
            self._triggers[index] += 1
            return
        if not self._marked_unused:
            self._marked_unused = True
            for unused in self._unused:
                self._mark(unused)
        if self._static:
            if self._triggers_left[index] <= 0:
                _fail(self._logger, "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then "
                                    "got used in the second iteration. this is not compatible with static_graph set to True.")
            self._triggers_left[index] -= 1
            if self._triggers_left[index]:
                return
        self._mark(index)

    def _mark(self, index):
        if index in self._ready:
            self._fail_twice(index)
        self._unfinished = True         # of a forward pass without a backward one nothing is expected
        self._ready.add(index)
        if not self._rebuilt and self._should_rebuild():
            self._order.append(index)
        bucket = self._bucket_of[index]
        bucket.pending -= 1
        if bucket.pending == 0:
            buckets, at = self._buckets, self._next
            while at < len(buckets) and buckets[at].pending == 0:
                self._start(at)
                at += 1
            self._next = at
            if at == len(buckets) and not self._enqueued:
                self._enqueued = True
                if self._find_unused and not self._static:
                    self._start_used()
                _C._queue_callback(self._finish)

    def _delay_all_reduce(self):
        """The end of the first pass of a static graph: what has got no gradient by now never will."""
        self._times["backward_compute_time_end"] = time.perf_counter_ns()
        self._start_used()
        self._unused = [i for i, count in enumerate(self._triggers) if count == 0]
        self._unfinished = True
        for at in range(len(self._buckets)):
            self._start(at)
        self._finish()

    def _set_divisor(self):
        if self._divisor is None:
            self._divisor = self._ranks
            if self._forward_work is not None and not self._divide_by_all:
                work, here = self._forward_work
                work.wait()
                self._divisor = int(here.item())
        return self._divisor

    def _start(self, at):
        """The gradients of bucket `at` into its flat tensor, and that on its way."""
        bucket = self._buckets[at]
        if at == 0:
            self._times["backward_comm_time_start"] = time.perf_counter_ns()
        divisor = self._set_divisor()
        if self._ranks == 1 and self._hook is None and not self._as_view and not bucket.sparse and not self._own_group:
            bucket.grads = [p.grad for p in bucket.params]
            return
        with tede.no_grad():
            if bucket.sparse:
                self._gather_sparse(bucket)
            else:
                self._gather(bucket)
            if self._hook is None and divisor != 1:
                bucket.flat.mul_(1 / divisor)
        if self._skip_unused and all(i in self._unused for i in bucket.indices):
            return
        if self._hook is not None:
            bucket.future = self._run_comm_hook(GradBucket(bucket, at, len(self._buckets), bucket.params))
        elif self._own_group:           # what its works mean by being done is known to their futures
            bucket.future = _all_reduce(self._group, bucket.flat).get_future()
        elif self._ranks > 1:
            bucket.work = _all_reduce(self._group, bucket.flat)

    def _gather(self, bucket):
        to, come = [], []
        bucket.grads = grads = [p.grad for p in bucket.params]
        for view, grad in zip(bucket.views, grads):
            if grad is None:
                view.zero_()
            elif grad is not view:
                if grad.layout is not tede.strided:
                    raise RuntimeError("DistributedDataParallel: a gradient is sparse whose module doesn't say so; give embeddings sparse=True "
                                       "before they are wrapped")
                to.append(view)
                come.append(grad)
        if to:
            tede._foreach_copy_(to, come)
        if self._as_view:
            for view, grad, p in zip(bucket.views, grads, bucket.params):
                if grad is not None and grad is not view and view.dtype == p.dtype:
                    p.grad = view

    def _gather_sparse(self, bucket):
        grad = bucket.params[0].grad
        if grad is None:
            _fail(self._logger, "Expected sparse gradient to be defined: the embedding wasn't used")
        if grad.layout is tede.strided:
            _fail(self._logger, "Expected variable to have sparse gradient.")
        bucket.flat, bucket.grads = grad, [grad]

    def _run_comm_hook(self, bucket):
        """The future of what the bucket becomes."""
        if self._hook is None:
            return self._run_allreduce_hook(bucket)
        state, hook = self._hook
        with in_hook():
            future = hook(state, bucket)
        if not isinstance(future, Future) and not (hasattr(future, "wait") and hasattr(future, "then")):
            raise RuntimeError(f"callback must return a torch.futures.Future object, but got {type(future)}")
        return future

    def _run_allreduce_hook(self, bucket):
        buffer = bucket.buffer()
        return reduced(self._group, buffer)

    def _start_used(self):
        self._used_reduced = tede.tensor(self._used, dtype=tede.int32, device=self._params[0].device)
        self._used_work = _all_reduce(self._group, self._used_reduced) if self._ranks > 1 else None

    def _finish(self):
        """The end of a pass: all buckets have come back, and gradients are what is in them."""
        times = self._times
        times["backward_compute_time_end"] = max(time.perf_counter_ns(), times.get("backward_compute_time_end", 0))
        self._expecting = self._unfinished = False
        used = None
        if self._find_unused or self._static:
            if self._used_work is not None:
                self._used_work.wait(_NO_TIMEOUT)
                self._used_work = None
            used = self._used_reduced.tolist()
        alone = self._hook is None and self._ranks == 1 and not self._own_group
        with tede.no_grad():
            for bucket in self._buckets:
                if bucket.work is not None:
                    bucket.work.wait(_NO_TIMEOUT)
                    bucket.work = None
                if bucket.future is not None:
                    self._take(bucket, bucket.future.wait())
                    bucket.future = None
                if not self._optimizer_in_backward:
                    self._scatter(bucket, used, alone)
                bucket.grads = None
        times["backward_comm_time_end"] = time.perf_counter_ns()
        for future in self._futures:
            future.wait()
        self._futures = []
        self._forward_work = None
        if self._find_unused or self._static:
            self._used = [0] * len(self._params)

    def _take(self, bucket, result):
        """What a communication hook has made of the bucket, into the flat tensor."""
        if isinstance(result, (list, tuple)):
            result = result[0]
        if not isinstance(result, tede.Tensor):
            raise RuntimeError(f"expected the hook result is either a Tensor or a TensorList, got {type(result)}")
        if bucket.sparse:
            bucket.flat = result
        elif result is not bucket.flat:
            if result.dtype != bucket.flat.dtype and self._dtype is not None:
                bucket.flat = result
                bucket.views = bucket.split(result)
            else:
                bucket.flat.copy_(result.view(-1))

    def _scatter(self, bucket, used, alone):
        if bucket.sparse:
            bucket.params[0].grad = bucket.flat
            bucket.flat = None
            return
        if self._skip_unused and all(i in self._unused for i in bucket.indices):
            return
        to, come = [], []
        for i, p, view, grad in zip(bucket.indices, bucket.params, bucket.views, bucket.grads):
            if used is not None and not used[i]:
                continue                                # used nowhere: what the gradient was it stays
            if self._dtype is not None:                 # mixed precision: the wrapper has put the parameters back
                p.grad = view.to(p.dtype, copy=True)
            elif self._as_view:
                if p.grad is not view:
                    p.grad = view
            elif grad is None:
                p.grad = view.clone()
            elif not alone:
                to.append(grad)
                come.append(view)
        if to:
            tede._foreach_copy_(to, come)

    # ---- errors

    def _missing(self):
        return [i for bucket in self._buckets if bucket.pending for i in bucket.indices if i not in self._ready]

    def _check_reducer_finalized(self):
        self._ensure_finished()

    def _ensure_finished(self):
        if not self._unfinished:
            return
        message = "Expected to have finished reduction in the prior iteration before starting a new one. "
        if self._static:
            missing = [i for i, left in enumerate(self._triggers_left or ()) if left > 0] or self._missing()
            message += ("This error indicates that your training graph has changed in this iteration, e.g., one parameter is used in first "
                        "iteration, but then got unused in the second iteration. this is not compatible with static_graph set to True.")
        else:
            missing = self._missing()
            message += "This error indicates that your module has parameters that were not used in producing loss. "
            if self._find_unused:
                message += ("Since `find_unused_parameters=True` is enabled, this likely means that not all `forward` outputs participate in "
                            "computing loss. You can fix this by making sure all `forward` function outputs participate in calculating loss. "
                            "If you already have done the above, the outputs are in an object in which they were not found: say of which kind "
                            "(e.g. list, dict, iterable) when you report it.")
            else:
                message += ("You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
                            "`torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs participate in "
                            "calculating loss. \nIf you already have done the above, the outputs are in an object in which they were not "
                            "found: say of which kind (e.g. list, dict, iterable) when you report it.")
        if not missing:
            # All gradients came, but of another pass: the engine ended the one before its callbacks.
            message += "\nAll parameters received a gradient, but the pass was left by an error or ended on another thread."
        else:
            if _debug_level() != "OFF" and self._names:
                names = ", ".join(self._names.get(i, str(i)).lstrip(".") for i in missing)
                message += f"\nParameters which did not receive grad for rank {self._rank}: {names}"
            message += f"\nParameter indices which did not receive grad for rank {self._rank}: {' '.join(map(str, missing))}"
            if _debug_level() == "OFF":
                message += ("\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print out "
                            "information about which particular parameters did not receive gradient on this rank as part of this error")
        _fail(self._logger, message)

    def _fail_twice(self, index):
        message = ("Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter "
                   "outside the `forward` function. Please make sure model parameters are not shared across multiple concurrent forward-backward "
                   "passes. or try to use _set_static_graph() as a workaround if this module graph does not change during training loop. 2) Reused "
                   "parameters in multiple reentrant backward passes. For example, if you use multiple `checkpoint` functions to wrap the same part "
                   "of your model, it would result in the same set of parameters been used by different reentrant backward passes multiple times, "
                   "and hence marking a variable ready multiple times. DDP does not support such use cases in default. You can try to use "
                   "_set_static_graph() as a workaround if your module graph does not change over iterations.")
        if self._unused and index in self._unused:
            message += (" 3) Incorrect unused parameter detection. The return value of the `forward` function is inspected by the distributed data "
                        "parallel wrapper to figure out if any of the module's parameters went unused. For unused parameters, DDP would not expect "
                        "gradients from then. However, if an unused parameter becomes part of the autograd graph at a later point in time (e.g., in "
                        "a reentrant backward when using `checkpoint`), the gradient will show up unexpectedly. If all parameters in the model "
                        "participate in the backward pass, you can disable unused parameter detection by passing the keyword argument "
                        "`find_unused_parameters=False` to `torch.nn.parallel.DistributedDataParallel`.")
        message += f"\nParameter at index {index}"
        if _debug_level() != "OFF" and index in self._names:
            message += f" with name {self._names[index]}"
        message += " has been marked as ready twice. This means that multiple autograd engine hooks have fired for this particular parameter during " \
                   "this iteration."
        if _debug_level() == "OFF":
            message += " You can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print parameter names for further " \
                       "debugging."
        _fail(self._logger, message)

    # ---- what the wrapper sets and reads

    def set_logger(self, logger):
        self._logger = logger

    def _set_static_graph(self):
        if self._iteration:
            _fail(self._logger, "set_static_graph() should be called before training loop starts and after DistributedDataParallel is constructed.")
        self._static = True

    def _set_mixed_precision_param_dtype(self, dtype):
        self._dtype = dtype
        self._make_buckets([bucket.indices for bucket in self._buckets], [bucket.limit for bucket in self._buckets])

    def _set_optimizer_in_backward(self):
        self._optimizer_in_backward = True

    def _set_forward_pass_work_handle(self, work, use_static_world_size):
        self._forward_work, self._divide_by_all = work, use_static_world_size

    def _install_post_backward_futures(self, futures):
        self._futures.extend(futures)

    def _set_ddp_runtime_logging_sample_rate(self, rate):
        if rate <= 0:
            raise ValueError("the sample rate must be positive")
        self._sample_rate = rate

    def _get_zeros_like_grad_buckets(self):
        """Buckets of zeros, in the order in which a pass reduces them."""
        found = []
        for at, bucket in enumerate(self._buckets):
            grad_bucket = GradBucket(bucket, at, len(self._buckets), bucket.params)
            grad_bucket.set_buffer(tede.sparse_coo_tensor(bucket.params[0].shape, dtype=bucket.params[0].dtype) if bucket.sparse
                                   else tede.zeros_like(bucket.flat))
            found.append(grad_bucket)
        return found

    def _get_local_used_map(self):
        """How many ranks used each parameter in the last pass."""
        return self._used_reduced

    def _ddp_graph_static(self):
        return self._graph_static

    def _register_comm_hook(self, state, hook):
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = (state, hook)


def _hook_of(this, index):
    def hook(*_):
        reducer = this()
        if reducer is not None:
            reducer._autograd_hook(index)
    return hook


def _register_comm_hook(reducer, state, hook):
    reducer._register_comm_hook(state, hook)


def _register_builtin_comm_hook(reducer, kind):
    group, ranks = reducer._group, reducer._ranks

    def builtin_hook(state, bucket):
        buffer = bucket.buffer()
        sent = buffer.div_(ranks) if kind is BuiltinCommHookType.ALLREDUCE else buffer.to(tede.float16).div_(ranks)
        return reduced(group, sent).then(lambda future: future.value()[0].to(buffer.dtype))
    reducer._register_comm_hook(None, builtin_hook)


class Logger:
    """What is known about a wrapper and its reducer, for people who look into the speed of training."""

    def __init__(self, reducer):
        self._reducer, self._data, self._recorded, self._sums = weakref.ref(reducer), {}, 0, {}

    def set_construction_data_and_log(self, module_name, device_ids, output_device, broadcast_buffers, has_sync_bn, static_graph):
        reducer, params = self._reducer(), self._reducer()._params

        def variable(name):
            return os.environ.get(name, "N/A")
        dtypes = sorted({_C_NAMES.get(p.dtype, str(p.dtype).rpartition(".")[2]) for p in params})
        self._data.update(
            world_size=reducer._ranks, rank=reducer._rank, module_name=module_name, device_ids=", ".join(map(str, device_ids)),
            output_device=output_device, broadcast_buffers=int(broadcast_buffers), has_sync_bn=int(has_sync_bn), iteration=0,
            bucket_cap_bytes=reducer._cap, find_unused_parameters=int(reducer._find_unused), static_graph=int(static_graph),
            gradient_as_bucket_view=int(reducer._as_view), backend_name=reducer._group.name(), dtypes=", ".join(dtypes),
            total_parameter_size_bytes=sum(p.numel() * p.element_size() for p in params), num_parameter_tensors=len(params),
            bucket_sizes=self._bucket_sizes(), master_port=variable("MASTER_PORT"), master_addr=variable("MASTER_ADDR"),
            torch_distributed_debug=variable("TORCH_DISTRIBUTED_DEBUG"), cuda_visible_devices=variable("CUDA_VISIBLE_DEVICES"))
        if self._data["backend_name"] == "gloo":
            self._data.update(gloo_socket_ifname=variable("GLOO_SOCKET_IFNAME"), gloo_device_transport=variable("GLOO_DEVICE_TRANSPORT"),
                              gloo_num_threads=2)

    def _bucket_sizes(self):
        return ", ".join(str(sum(p.numel() * p.element_size() for p in bucket.params)) for bucket in self._reducer()._buckets)

    def set_runtime_stats_and_log(self):
        """The times of the pass that is over, if it's one of those that are looked at."""
        reducer = self._reducer()
        n = reducer._iteration
        if not (0 < n <= 10 or n and n % reducer._sample_rate == 0):
            return
        times = reducer._times
        if "backward_comm_time_end" not in times or times["backward_comm_time_end"] < times["forward_compute_time_start"]:
            return                                      # the pass was left by an error
        self._recorded += 1
        forward = times["backward_compute_time_start"] - times["forward_compute_time_start"]
        backward = times["backward_compute_time_end"] - times["backward_compute_time_start"]
        communication = times["backward_comm_time_end"] - times["backward_comm_time_start"]
        overlap = max(times["backward_compute_time_end"] - times["backward_comm_time_start"], 0)
        for name, value in (("forward_compute_time", forward), ("backward_compute_time", backward), ("backward_comm_time", communication),
                            ("backward_compute_comm_overlap_time", overlap)):
            self._sums[name] = self._sums.get(name, 0) + value
            self._data[name] = value
            self._data["avg_" + name] = self._sums[name] // self._recorded
        self._data.update(times)
        unused = reducer._unused
        self._data.update(iteration=n, unused_parameter_size=sum(reducer._params[i].numel() * reducer._params[i].element_size() for i in unused),
                          can_set_static_graph=int(reducer._graph_static), has_rebuilt_buckets=int(reducer._rebuilt),
                          prev_iteration_grad_ready_order_indices=", ".join(map(str, reducer._arrived)))
        if reducer._rebuilt:
            self._data.update(rebuilt_bucket_sizes=self._bucket_sizes(),
                              rebuilt_per_bucket_param_indices=", ".join(" ".join(map(str, bucket.indices)) for bucket in reducer._buckets))

    def set_error_and_log(self, error):
        self._data.update(has_error=1, error=error, iteration=self._reducer()._iteration)

    def _set_comm_hook_name(self, name):
        self._data["comm_hook"] = name

    def _set_uneven_input_join(self):
        self._data["join_uneven_inputs"] = True

    def _set_static_graph(self):
        self._data["static_graph"] = 1

    def _get_ddp_logging_data(self):
        return dict(self._data)


_C_NAMES = {tede.float32: "float", tede.float64: "double", tede.float16: "c10::Half", tede.bfloat16: "c10::BFloat16"}
