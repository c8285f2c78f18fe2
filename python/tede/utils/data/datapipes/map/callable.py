"""MapperMapDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.map.pipes import MapperMapDataPipe

__all__ = ["MapperMapDataPipe"]
