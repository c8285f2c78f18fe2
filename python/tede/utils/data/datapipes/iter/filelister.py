"""FileListerIterDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.iter.files import FileListerIterDataPipe

__all__ = ["FileListerIterDataPipe"]
