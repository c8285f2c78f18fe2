"""DistributedDataParallel: a module in several processes, for which there is no communication yet."""
from ..modules.module import Module


class DistributedDataParallel(Module):
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DistributedDataParallel: there are no process groups yet")
