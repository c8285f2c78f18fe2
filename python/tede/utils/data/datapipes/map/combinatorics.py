"""ShufflerIterDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.map.pipes import ShufflerIterDataPipe

__all__ = ["ShufflerIterDataPipe"]
