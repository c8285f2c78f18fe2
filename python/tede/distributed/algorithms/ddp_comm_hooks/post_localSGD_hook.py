"""Post-local SGD: gradients are averaged over all ranks at first, and over a few neighbours later, while parameters are averaged now and then."""
import logging

import tede
import tede.distributed as dist
from tede.futures import Future

from . import default_hooks

logger = logging.getLogger("torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook")


class PostLocalSGDState:
    """The groups, and the iteration from which on `subgroup` is used (the ranks of a host, if it is None)."""

    __slots__ = ("process_group", "subgroup", "start_localSGD_iter", "post_local_gradient_allreduce", "iter")

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        logger.info("Local SGD will be started after %s iterations", start_localSGD_iter)
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0

    def maybe_increase_iter(self, bucket):
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_localSGD_iter:
            logger.info("Start to apply local SGD after %s iterations.", self.iter)


def post_localSGD_hook(state: PostLocalSGDState, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over all ranks, and from state.start_localSGD_iter on over the subgroup's, or over none."""
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks._allreduce_fut(state.process_group, bucket.buffer())
    if not state.post_local_gradient_allreduce:
        future = Future()
        future.set_result(bucket.buffer())
        return future
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return default_hooks._allreduce_fut(state.subgroup, bucket.buffer())
