"""DistributedSampler: the indices of one among several processes that train together."""
import math

from tede import _C
from tede.utils.data.sampler import Sampler, _T_co

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[_T_co]):
    """Every `num_replicas`-th number, from `rank` on, of an order that all replicas draw alike: each process its own
    part of the data.

        num_replicas, rank: else those of the process group.
        shuffle: draw the order; call `set_epoch` before each pass, or it is the same each time.
        seed: the same everywhere.
        drop_last: leave numbers out so that the parts are equal, instead of repeating some.

    >>> list(tede.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            from tede import distributed
            if not distributed.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        n = len(dataset)
        dropped = num_replicas if drop_last and n % num_replicas != 0 else 0
        self.num_samples = math.ceil((n - dropped) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            generator = _C.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = _C._functions["randperm"](n, generator=generator).tolist()
        else:
            order = list(range(n))
        if not self.drop_last:
            missing = self.total_size - n
            order += (order * math.ceil(missing / max(n, 1)))[:missing]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Another epoch, another order."""
        self.epoch = epoch
