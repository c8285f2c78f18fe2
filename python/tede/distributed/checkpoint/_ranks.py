"""Steps that all ranks take together: each computes, the coordinator decides, each gets its part. What fails on any rank fails on all, by name."""
import traceback

import tede.distributed as dist
from tede.distributed.checkpoint.api import CheckpointException


class _Failure:
    def __init__(self, error):
        self.error, self.trace = error, "".join(traceback.format_tb(error.__traceback__))


class Ranks:
    def __init__(self, group=None, use_dist=True, coordinator=0):
        self.group, self.use = group, use_dist
        self.rank = dist.get_rank(group) if use_dist else 0
        self.n = dist.get_world_size(group) if use_dist else 1
        self.coordinator = coordinator
        self.is_coordinator = self.rank == coordinator

    def _tried(self, step, f, *args):
        try:
            return f(*args)
        except (CheckpointException, KeyboardInterrupt):
            raise
        except BaseException as error:              # raised again below, on every rank
            return _Failure(error)

    def all_of(self, value):
        if self.n == 1:
            return [value]
        found = [None] * self.n
        dist.all_gather_object(found, value, group=self.group)
        return found

    def _of_coordinator(self, value):
        if self.n == 1:
            return value
        box = [value if self.is_coordinator else None]
        source = self.coordinator if self.group is None else dist.get_global_rank(self.group, self.coordinator)
        dist.broadcast_object_list(box, src=source, group=self.group)
        return box[0]

    def _checked(self, step, values):
        failures = {rank: (v.error, v.trace) for rank, v in enumerate(values) if isinstance(v, _Failure)}
        if failures:
            raise CheckpointException(step, failures)
        return values

    def reduce(self, step, each, decide):
        """What the coordinator makes of what each rank has computed, on all ranks."""
        values = self._checked(step, self.all_of(self._tried(step, each)))
        return self._checked(step, [self._of_coordinator(self._tried(step, decide, values) if self.is_coordinator else None)])[0]

    def reduce_scatter(self, step, each, decide):
        """The rank's own of what the coordinator makes."""
        return self.reduce(step, each, decide)[self.rank]

    def together(self, step, each):
        return self._checked(step, self.all_of(self._tried(step, each)))[self.rank]
