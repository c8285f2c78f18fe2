"""The pipes that are iterated over. Each is a method of IterDataPipe too, named in its functional_datapipe."""
from tede.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator, MapperIterDataPipe as Mapper
from tede.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler, ShufflerIterDataPipe as Shuffler
from tede.utils.data.datapipes.iter.combining import (
    ConcaterIterDataPipe as Concater, MultiplexerIterDataPipe as Multiplexer, ZipperIterDataPipe as Zipper)
from tede.utils.data.datapipes.iter.files import (
    FileListerIterDataPipe as FileLister, FileOpenerIterDataPipe as FileOpener, RoutedDecoderIterDataPipe as RoutedDecoder,
    StreamReaderIterDataPipe as StreamReader)
from tede.utils.data.datapipes.iter.grouping import (
    BatcherIterDataPipe as Batcher, GrouperIterDataPipe as Grouper, UnBatcherIterDataPipe as UnBatcher)
from tede.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from tede.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from tede.utils.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer, ForkerIterDataPipe as Forker
from tede.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = ["Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker", "Grouper",
           "IterableWrapper", "Mapper", "Multiplexer", "RoutedDecoder", "Sampler", "ShardingFilter", "Shuffler", "StreamReader",
           "UnBatcher", "Zipper"]
