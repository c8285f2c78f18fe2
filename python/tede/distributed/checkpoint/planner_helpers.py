"""Items of plans: what a rank writes of an object, and what it reads of a stored one.

A tensor of another class says it itself: `__create_write_items__(name, tensor)`, `__create_chunk_list__()` (its blocks here) and
`__get_tensor_shard__(index)`, as those of `_shard.sharded_tensor` do."""
import tede
from tede import Tensor
from tede.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorProperties
from tede.distributed.checkpoint.planner import BytesIOWriteData, LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType
from tede.distributed.tensor import DTensor

__all__ = ["create_read_items_for_chunk_list"]


def _chunk(x):
    """The block of the whole that a rank has of a tensor; None if it has none."""
    if not isinstance(x, DTensor):
        return ChunkStorageMetadata(tede.Size([0] * x.ndim), x.size())
    if x.device_mesh.get_coordinate() is None:
        return None
    shape, offset = x._spec.local()
    return ChunkStorageMetadata(tede.Size(offset), tede.Size(shape))


def _create_write_items(name, x):
    """What a rank writes of a tensor, or of another object."""
    if hasattr(x, "__create_write_items__"):
        return x.__create_write_items__(name, x)
    return [] if isinstance(x, DTensor) and _chunk(x) is None else [_create_write_item(name, x)]


def _create_write_item(name, x):
    if not isinstance(x, Tensor):
        return WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(nbytes=0))
    chunk = _chunk(x)
    kind = WriteItemType.SHARD if isinstance(x, DTensor) else WriteItemType.TENSOR
    properties = TensorProperties(x.dtype, x.layout, x.requires_grad, tede.contiguous_format, False)
    return WriteItem(MetadataIndex(name, chunk.offsets, None if kind is WriteItemType.SHARD else 0), kind,
                     tensor_data=TensorWriteData(chunk, properties, x.size()))


_create_write_item_for_tensor = _create_write_item


def _overlap(mine, stored):
    """(offset in mine, offset in the stored one, lengths) of what two blocks share; None if they share nothing."""
    start = [max(a, b) for a, b in zip(mine.offsets, stored.offsets)]
    end = [min(a + n, b + m) for a, n, b, m in zip(mine.offsets, mine.sizes, stored.offsets, stored.sizes)]
    if any(e <= s for s, e in zip(start, end)):
        return None
    return (tede.Size([s - a for s, a in zip(start, mine.offsets)]), tede.Size([s - b for s, b in zip(start, stored.offsets)]),
            tede.Size([e - s for s, e in zip(start, end)]))


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """What has to be read of a stored tensor into blocks of the whole that a rank has."""
    found = []
    for n, mine in enumerate(local_chunks):
        for i, chunk in enumerate(checkpoint_md.chunks):
            shared = _overlap(mine, chunk)
            if shared is not None:
                found.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(fqn, mine.offsets, n), shared[0], MetadataIndex(fqn, chunk.offsets, i), shared[1],
                                      shared[2]))
    return found


def _create_read_items(fqn, md, obj):
    if isinstance(md, BytesStorageMetadata):
        return [ReadItem(LoadItemType.BYTE_IO, MetadataIndex(fqn), tede.Size((0,)), MetadataIndex(fqn), tede.Size((0,)), tede.Size((0,)))]
    if hasattr(obj, "__create_chunk_list__"):
        return create_read_items_for_chunk_list(fqn, md, obj.__create_chunk_list__())
    mine = _chunk(obj)
    return create_read_items_for_chunk_list(fqn, md, [] if mine is None else [mine])


def _shard_of(x, index):
    """The block of a tensor that a rank has, by its index in a plan."""
    if hasattr(x, "__get_tensor_shard__"):
        return x.__get_tensor_shard__(index)
    return x._local_tensor if isinstance(x, DTensor) else x
