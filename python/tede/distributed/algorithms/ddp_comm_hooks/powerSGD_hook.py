"""PowerSGD (Vogels, Karimireddy, Jaggi 2019): gradients travel as products of two thin matrices.

A gradient M of n by m is replaced by P Q^T of rank r: P = M Q with Q from the iteration before, P is averaged and made
orthogonal, Q = M^T P, and Q is averaged. What that leaves out is added to the next iteration's gradient."""
import logging
import math

import tede
import tede.distributed as dist
from tede.distributed._chain import reduced
from tede.distributed.distributed_c10d import _get_default_group
from tede.futures import Future

from . import default_hooks

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger("torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")


def _orthogonalize(matrices, epsilon=0):
    """In place: the columns of each matrix of a batch of tall ones become orthonormal."""
    if not (matrices.dim() == 3 and matrices.shape[2] <= matrices.shape[1]):
        raise AssertionError
    if matrices.shape[2] <= 2 or matrices.dtype in (tede.float16, tede.bfloat16):
        _orthogonalize_gram_schmidt(matrices, epsilon)
    else:
        matrices.copy_(tede.linalg.qr(matrices)[0])


def _orthogonalize_gram_schmidt(matrices, epsilon=0):
    for i in range(matrices.shape[2]):
        column, rest = matrices[:, :, i:i + 1], matrices[:, :, i + 1:]
        column /= tede.linalg.vector_norm(column, dim=1, keepdim=True) + epsilon
        if rest.shape[2]:
            rest -= (column * rest).sum(dim=1, keepdim=True) * column


def _should_compress(num_rows, num_cols, matrix_approximation_rank, min_compression_rate):
    """Whether two thin matrices are small enough, and the numbers of elements without and with them."""
    whole, thin = num_rows * num_cols, (num_rows + num_cols) * matrix_approximation_rank
    return thin * min_compression_rate < whole, whole, thin


def _report_compression_stats(bucket, state):
    if bucket.is_last() and state.iter >= state.next_stats_report:
        rate, before, after = state.compression_stats()
        logger.info("Compression stats: iter %s, total before compression %s, total after compression %s, rate %s", state.iter, before, after, rate)
        state.next_stats_report = state.iter + state.compression_stats_logging_frequency


class PowerSGDState:
    """The settings of PowerSGD, and what it keeps from one iteration to the next.

    matrix_approximation_rank is the rank r; before start_powerSGD_iter gradients travel whole; a gradient is compressed if that makes
    it min_compression_rate times smaller. use_error_feedback adds what was left out to the next gradient, warm_start begins with
    the last Q. batch_tensors_with_same_shape works on gradients of one shape at once."""

    __slots__ = ("process_group", "matrix_approximation_rank", "start_powerSGD_iter", "min_compression_rate", "orthogonalization_epsilon",
                 "use_error_feedback", "warm_start", "batch_tensors_with_same_shape", "rng", "error_dict", "p_memory_dict", "q_memory_dict", "iter",
                 "total_numel_before_compression", "total_numel_after_compression", "compression_stats_logging_frequency", "next_stats_report")

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1000, min_compression_rate=2, use_error_feedback=True,
                 warm_start=True, orthogonalization_epsilon=0, random_seed=0, compression_stats_logging_frequency=10000,
                 batch_tensors_with_same_shape=False):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError("Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only be applied "
                             "after the first two iterations in DDP.")
        import numpy
        self.process_group, self.matrix_approximation_rank, self.start_powerSGD_iter = process_group, matrix_approximation_rank, start_powerSGD_iter
        self.min_compression_rate, self.use_error_feedback, self.warm_start = min_compression_rate, use_error_feedback, warm_start
        self.orthogonalization_epsilon, self.batch_tensors_with_same_shape = orthogonalization_epsilon, batch_tensors_with_same_shape
        self.rng = numpy.random.RandomState(random_seed)        # alike on all ranks
        self.error_dict, self.p_memory_dict, self.q_memory_dict, self.iter = {}, {}, {}, 0
        self.total_numel_before_compression = self.total_numel_after_compression = self.next_stats_report = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)

    def __getstate__(self):
        logger.warning("NOTE: Process group is not serializable and excluded from a saved state.")
        return {name: getattr(self, name) for name in self.__slots__ if name != "process_group"}

    def __setstate__(self, state):
        self.process_group = _get_default_group()
        logger.warning("NOTE: Process group will be set to a default group (i.e. the world size). If a different group is desired, please set "
                       "`self.process_group` after PowerSGD state is loaded.")
        for name, value in state.items():
            setattr(self, name, value)

    def maybe_increase_iter(self, bucket):
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_powerSGD_iter:
            logger.info("Start to apply PowerSGD after %s iterations.", self.iter)

    def compression_stats(self):
        """The rate, and the numbers of elements before and after."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after > 0 else 0, before, after

    def _with_error(self, index, flat):
        """The gradient with what the last iteration left out, and a copy of it."""
        if not self.use_error_feedback:
            return None
        if index in self.error_dict:
            flat.add_(self.error_dict[index])
        else:
            logger.info("A zero tensor of length %s that represents local error is created.", len(flat))
        return flat.clone()

    def _finish(self, index, bucket, flat, before):
        if before is not None:
            self.error_dict[index] = before - flat
        if not self.warm_start:
            self.p_memory_dict.clear()
            self.q_memory_dict.clear()
        self.maybe_increase_iter(bucket)

    def _fill(self, qs):
        """Random matrices, alike on all ranks, other ones in each iteration."""
        with tede.random.fork_rng(devices=[]):
            tede.manual_seed(self.rng.randint(1_000_000_000))
            for q in qs:
                q.copy_(tede.randn(*q.shape, device="cpu", dtype=q.dtype))


def powerSGD_hook(state: PowerSGDState, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks, each gradient that is worth it approximated by a product of thin matrices."""
    group, flat, index = default_hooks._group(state.process_group), bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._allreduce_fut(group, flat)
    before, rank = state._with_error(index, flat), state.matrix_approximation_rank
    whole, by_shape = [], {}
    for grad in bucket.gradients():
        matrix = grad.view(grad.shape[0], -1) if grad.dim() else grad.view(1, 1)
        compress, size, thin = _should_compress(*matrix.shape, min(*matrix.shape, rank), state.min_compression_rate)
        state.total_numel_before_compression += size
        state.total_numel_after_compression += thin if compress else size
        if compress:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        else:
            whole.append(grad)
    _report_compression_stats(bucket, state)
    if state.batch_tensors_with_same_shape:
        batches = [(tede.stack(same), same) if len(same) > 1 else (same[0].unsqueeze(0), None) for same in by_shape.values()]
    else:
        batches = [(matrix.unsqueeze(0), None) for same in by_shape.values() for matrix in same]

    # One flat tensor for all P, and one for all Q: two messages.
    ranks = [min(*batch.shape[1:], rank) for batch, _ in batches]
    p_shapes = [(batch.shape[0], batch.shape[1], r) for (batch, _), r in zip(batches, ranks)]
    q_shapes = [(batch.shape[0], batch.shape[2], r) for (batch, _), r in zip(batches, ranks)]
    fresh = not state.warm_start or index not in state.p_memory_dict
    if fresh:
        state.p_memory_dict[index] = tede.empty(sum(map(math.prod, p_shapes)), device=flat.device, dtype=flat.dtype)
        state.q_memory_dict[index] = tede.empty(sum(map(math.prod, q_shapes)), device=flat.device, dtype=flat.dtype)
    ps, qs = _parts(state.p_memory_dict[index], p_shapes), _parts(state.q_memory_dict[index], q_shapes)
    if fresh:
        state._fill(qs)
    for q in qs:
        _orthogonalize(q, state.orthogonalization_epsilon)
    for (batch, _), p, q in zip(batches, ps, qs):
        tede.bmm(batch, q, out=p)
    rest = tede.cat([grad.reshape(-1) for grad in whole]) if whole else tede.zeros(0, device=flat.device, dtype=flat.dtype)

    def send_ps(future):
        mean = future.value()[0].div_(group.size())
        for grad, part in zip(whole, mean.split([grad.numel() for grad in whole])):
            grad.copy_(part.view_as(grad))
        return reduced(group, state.p_memory_dict[index]).wait()

    def send_qs(future):
        future.value()
        for p, q, (batch, _) in zip(ps, qs, batches):
            _orthogonalize(p, state.orthogonalization_epsilon)      # of the sum as of the mean
            tede.bmm(batch.transpose(1, 2), p, out=q)
        return reduced(group, state.q_memory_dict[index]).wait()

    def multiply(future):
        future.value()
        state.q_memory_dict[index].div_(group.size())
        for p, q, (batch, same) in zip(ps, qs, batches):
            tede.bmm(p, q.transpose(1, 2), out=batch)
            for matrix, one in zip(same or (), batch):
                matrix.copy_(one)
        state._finish(index, bucket, flat, before)
        return flat
    return reduced(group, rest).then(send_ps).then(send_qs).then(multiply)


def _parts(flat, shapes):
    return [part.view(shape) for part, shape in zip(flat.split(list(map(math.prod, shapes))), shapes)]


def batched_powerSGD_hook(state: PowerSGDState, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks, the whole bucket approximated as one square matrix: faster than powerSGD_hook, and less exact."""
    group, flat, index = default_hooks._group(state.process_group), bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._allreduce_fut(group, flat)
    n = len(flat)
    side, rank = math.ceil(math.sqrt(n)), state.matrix_approximation_rank
    state.total_numel_before_compression += n
    state.total_numel_after_compression += side * rank * 2
    padded = tede.nn.functional.pad(flat, (0, side * side - n))
    _report_compression_stats(bucket, state)
    before, matrix = state._with_error(index, padded), padded.view(1, side, side)
    if not state.warm_start or index not in state.p_memory_dict:
        state.p_memory_dict[index] = tede.empty(1, side, rank, device=flat.device, dtype=flat.dtype)
        state.q_memory_dict[index] = tede.empty_like(state.p_memory_dict[index])
        state._fill([state.q_memory_dict[index]])
    p, q = state.p_memory_dict[index], state.q_memory_dict[index]
    _orthogonalize(q, state.orthogonalization_epsilon)
    tede.bmm(matrix, q, out=p)

    def send_q(future):
        future.value()
        _orthogonalize(p, state.orthogonalization_epsilon)
        tede.bmm(matrix.transpose(1, 2), p, out=q)
        return reduced(group, q).wait()

    def multiply(future):
        future.value()
        q.div_(group.size())
        tede.bmm(p, q.transpose(1, 2), out=matrix)
        state._finish(index, bucket, padded, before)
        return flat.copy_(padded[:n])
    return reduced(group, p).then(send_q).then(multiply)
