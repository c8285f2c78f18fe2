"""Hooks in which ZeroRedundancyOptimizer takes its steps, while DistributedDataParallel's backward pass goes on.

Two passes go by before: one after which buckets are made anew, and one in which they are seen. Parameters don't change in them."""
import weakref

import tede
import tede.distributed as dist
from tede.distributed.optim.zero_redundancy_optimizer import _OverlapStatus
from tede.futures import Future

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def _perform_local_step(bucket, zero, rank):
    """The step of those of the bucket's parameters that are this rank's."""
    info, index = zero._overlap_info, bucket.index()
    if index not in info.offsets:
        raise AssertionError(f"Bucket index {index} was not assigned to rank {rank}")
    assignment = zero._bucket_assignments_per_rank[rank][index]
    gradients, count = [None] * len(zero.optim.param_groups[0]["params"]), len(assignment.parameters)
    gradients[info.offsets[index]:info.offsets[index] + count] = bucket.gradients()[assignment.offset:assignment.offset + count]
    zero._local_step(gradients)


def _broadcast_bucket(bucket_index, zero):
    for rank in sorted(zero._overlap_info.assigned_ranks_per_bucket[bucket_index]):
        sent = zero._bucket_assignments_per_rank[rank][bucket_index].tensor
        zero._overlap_info.broadcast_handles.append(
            dist.broadcast(sent, src=dist.get_global_rank(zero.process_group, rank), group=zero.process_group, async_op=True))


def _ready(ddp_ref, zero, bucket):
    """Whether buckets are known and dealt out. Before that, what they are is written down."""
    info = zero._overlap_info
    if not ddp_ref()._has_rebuilt_buckets:
        return False
    if info.status == _OverlapStatus.UNINITIALIZED:
        info.status = _OverlapStatus.DDP_HAS_REBUILT_BUCKETS
    if info.status == _OverlapStatus.DDP_HAS_REBUILT_BUCKETS:
        if bucket.index() == 0 and info.params_per_bucket:
            zero._init_zero_for_overlap()
            return True
        info.params_per_bucket.append(bucket.parameters())
        if info.shard_buckets:
            info.total_size += sum(p.numel() for p in bucket.parameters())
        return False
    return True


def _prepare(ddp, zero, shard_buckets):
    if not zero._overlap_with_ddp:
        raise ValueError("ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook properly")
    if shard_buckets:
        zero._overlap_info.shard_buckets, zero._overlap_info.total_size = True, 0
    return weakref.ref(ddp)


def _step_and_send(bucket, zero):
    index = bucket.index()
    if zero.rank in zero._overlap_info.assigned_ranks_per_bucket[index]:
        _perform_local_step(bucket, zero, zero.rank)
    _broadcast_bucket(index, zero)


def _end(zero):
    zero._overlap_info.wait_for_broadcasts()
    zero._overlap_info.clear_per_iter_info()


def hook_with_zero_step(hook, ddp, zero, shard_buckets=False):
    """`hook` for all buckets, and when the last of them is on its way the steps, bucket by bucket."""
    ddp_ref = _prepare(ddp, zero, shard_buckets)

    def hook_with_zero_fn(state, bucket: dist.GradBucket) -> Future[tede.Tensor]:
        future, info = hook(state, bucket), zero._overlap_info
        if not _ready(ddp_ref, zero, bucket):
            return future
        info.bucket_index_to_bucket[bucket.index()], info.bucket_index_to_future[bucket.index()] = bucket, future
        if bucket.is_last():
            for index in range(len(info.params_per_bucket)):
                info.bucket_index_to_future[index].wait()
                _step_and_send(info.bucket_index_to_bucket[index], zero)
            _end(zero)
        return future
    return hook_with_zero_fn


def hook_with_zero_step_interleaved(hook, ddp, zero, shard_buckets=False):
    """`hook`, and when a bucket is averaged its step."""
    ddp_ref = _prepare(ddp, zero, shard_buckets)

    def hook_with_zero_interleaved_fn(state, bucket: dist.GradBucket) -> Future[tede.Tensor]:
        future = hook(state, bucket)
        if not _ready(ddp_ref, zero, bucket):
            return future

        def step(future):
            info = zero._overlap_info
            info.bucket_indices_seen.append(bucket.index())
            _step_and_send(bucket, zero)
            if len(info.bucket_indices_seen) == len(info.params_per_bucket):
                _end(zero)
            return bucket.buffer()
        return future.then(step)
    return hook_with_zero_interleaved_fn
