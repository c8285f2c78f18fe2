"""BatcherMapDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.map.pipes import BatcherMapDataPipe

__all__ = ["BatcherMapDataPipe"]
