from . import DistributedDataParallel  # noqa: F401
