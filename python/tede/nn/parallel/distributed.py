"""DistributedDataParallel: a module in several processes, for which there is no communication yet."""
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DistributedDataParallel: there are no process groups yet")
