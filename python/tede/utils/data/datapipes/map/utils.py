"""SequenceWrapperMapDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.map.pipes import SequenceWrapperMapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]
