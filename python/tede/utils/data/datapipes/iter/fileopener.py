"""FileOpenerIterDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.iter.files import FileOpenerIterDataPipe

__all__ = ["FileOpenerIterDataPipe"]
