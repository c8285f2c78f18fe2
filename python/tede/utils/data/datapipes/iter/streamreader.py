"""StreamReaderIterDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.iter.files import StreamReaderIterDataPipe

__all__ = ["StreamReaderIterDataPipe"]
