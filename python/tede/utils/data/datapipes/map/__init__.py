"""The pipes with items by key. Each but the first is a method of MapDataPipe too."""
from tede.utils.data.datapipes.map.pipes import (
    BatcherMapDataPipe as Batcher, ConcaterMapDataPipe as Concater, MapperMapDataPipe as Mapper,
    SequenceWrapperMapDataPipe as SequenceWrapper, ShufflerIterDataPipe as Shuffler, ZipperMapDataPipe as Zipper)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
