"""RoutedDecoderIterDataPipe under the path that PyTorch has it at."""
from tede.utils.data.datapipes.iter.files import RoutedDecoderIterDataPipe

__all__ = ["RoutedDecoderIterDataPipe"]
