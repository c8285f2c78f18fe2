"""ShardedTensor: a tensor whose blocks lie on the ranks of a group, each rank with those that its description gives it.

It computes next to nothing: elementwise operators on the blocks, gather, reshard. What it is for is to be saved: it has the methods by which a checkpoint
asks any tensor for its blocks (see checkpoint/planner_helpers.py), so that a checkpoint's blocks can be read by any other description."""
import copy

import tede
import tede.distributed as dist
from tede import Tensor
from tede.distributed._shard.metadata import ShardedTensorMetadata, TensorProperties
from tede.distributed._shard.sharded_tensor.shard import Shard
from tede.distributed._shard.sharded_tensor.utils import _check_metadata, _flatten_tensor_size, _parse_and_validate_remote_device
from tede.distributed._shard.sharding_spec import api as specs
from tede.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from tede.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from tede.distributed.tensor import _rules

__all__ = ["ShardedTensorBase", "ShardedTensor"]

_custom = {}            # torch function -> what a program has registered in its place, of (types, args, kwargs, process group)
_current_group = []     # that of load_with_process_group


def _group(given):
    return given if given is not None else _current_group[-1] if _current_group else dist.group.WORLD


class ShardedTensorBase(Tensor):
    """The description and this rank's blocks, with no group."""

    @staticmethod
    def __new__(cls, sharding_spec, *size, dtype=None, layout=tede.strided, requires_grad=False, pin_memory=False, memory_format=tede.contiguous_format, **kwargs):
        if layout != tede.strided:
            raise ValueError("Only torch.strided layout is currently supported")
        if memory_format != tede.contiguous_format:
            raise ValueError("Only torch.contiguous_format memory_format is currently supported")
        dtype = tede.get_default_dtype() if dtype is None else dtype
        size = _flatten_tensor_size(size)
        self = Tensor._make_wrapper_subclass(cls, size, dtype=dtype, layout=layout, requires_grad=requires_grad)
        self._sharding_spec, self._local_shards, self._process_group = sharding_spec, [], None
        self._metadata = sharding_spec.build_metadata(size, TensorProperties(dtype, layout, requires_grad, memory_format, pin_memory))
        return self

    def __init__(self, *args, **kwargs):
        pass

    def metadata(self):
        return self._metadata

    def local_shards(self):
        """This rank's blocks."""
        return self._local_shards

    def sharding_spec(self):
        return self._sharding_spec

    @classmethod
    def _init_from_local_shards_and_global_metadata(cls, local_shards, sharded_tensor_metadata, sharding_spec=None):
        return cls._of(local_shards, sharded_tensor_metadata, sharding_spec)

    @classmethod
    def _of(cls, local_shards, metadata, spec=None, mine=None):
        _check_metadata(metadata, local_shards, mine)
        about = metadata.tensor_properties
        spec = specs._infer_sharding_spec_from_shards_metadata(metadata.shards_metadata) if spec is None else spec
        self = ShardedTensorBase.__new__(cls, spec, metadata.size, dtype=about.dtype, layout=about.layout, requires_grad=about.requires_grad,
                                         pin_memory=about.pin_memory)
        self._local_shards, self._metadata = list(local_shards), metadata
        return self

    def __repr__(self):
        return f"{type(self).__name__}({self._metadata})"

    # ---- what checkpoints ask for ----

    def __create_write_items__(self, fqn, object):
        return self._items(fqn, [shard.metadata for shard in self._local_shards])

    def __create_items_of_all__(self, fqn, object):
        """Those that all ranks together write."""
        return self._items(fqn, self._metadata.shards_metadata)

    def _items(self, fqn, blocks):
        size, about = self._metadata.size, self._metadata.tensor_properties
        return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD, tensor_data=TensorWriteData(chunk, about, size))
                for chunk in map(_chunk, blocks)]

    def __create_chunk_list__(self):
        return [_chunk(shard.metadata) for shard in self._local_shards]

    def __get_tensor_shard__(self, index):
        if index.offset is None:
            raise ValueError(f"Cannot lookup {index.fqn} since its a ShardedTensor and no offset was provided")
        hint = self._local_shards[index.index:][:1] if index.index is not None else []
        for shard in (*hint, *self._local_shards):
            if tede.Size(shard.metadata.shard_offsets) == index.offset:
                return shard.tensor
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")

    # ---- calls ----

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _custom:
            given = next(x for x in (*args, *kwargs.values()) if isinstance(x, ShardedTensorBase))
            return _custom[func](types, args, kwargs, given._process_group)
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Elementwise: on each block."""
        kwargs, given = kwargs or {}, [x for x in args if isinstance(x, ShardedTensorBase)]
        whole = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Tensor) and not isinstance(x, ShardedTensorBase) and x.ndim]
        said = _rules.said(func)
        elementwise = said.pointwise or said.family in ("fill", "random") or func._opname in ("clone", "detach", "alias", "zero_", "copy_", "_to_copy")
        blocks = [[shard.metadata for shard in x._local_shards] for x in given]
        if not elementwise or whole or any(block != blocks[0] for block in blocks):
            raise RuntimeError(f"torch function '{func}', with args: {args} and kwargs: {kwargs} not supported for ShardedTensor!")
        found = [func(*[x._local_shards[i].tensor if isinstance(x, ShardedTensorBase) else x for x in args], **kwargs) for i in range(len(blocks[0]))]
        return given[0] if func._schema.is_mutable else given[0]._with(found)

    def _with(self, tensors):
        """The same description with other elements."""
        metadata = copy.deepcopy(self._metadata)
        shards = []
        for shard, x in zip(self._local_shards, tensors):
            about = copy.copy(shard.metadata)
            if about.placement is not None and x.device != shard.tensor.device:
                raise NotImplementedError("blocks are moved to another device by making them there")
            shards.append(Shard(x, about))
        metadata.tensor_properties.requires_grad = False
        if tensors:
            metadata.tensor_properties.dtype = tensors[0].dtype
        made = type(self)._of(shards, metadata, self._sharding_spec)
        made._process_group = self._process_group
        return made

    def __deepcopy__(self, memo):
        found = self._with([shard.tensor.detach().clone() for shard in self._local_shards])
        return memo.setdefault(id(self), found)


def _chunk(metadata):
    return ChunkStorageMetadata(tede.Size(metadata.shard_offsets), tede.Size(metadata.shard_sizes))


class ShardedTensor(ShardedTensorBase):
    """A ShardedTensorBase of a group, whose blocks are made where its description says: ShardedTensor(spec, 10, 20)."""

    @staticmethod
    def __new__(cls, sharding_spec, *size, process_group=None, init_rrefs=False, **kwargs):
        self = ShardedTensorBase.__new__(cls, sharding_spec, *size, **kwargs)
        self._place(process_group, init_rrefs)
        return self

    def __init__(self, sharding_spec, *size, dtype=None, layout=tede.strided, requires_grad=False, pin_memory=False, memory_format=tede.contiguous_format,
                 process_group=None, init_rrefs=False):
        about = self._metadata.tensor_properties
        for metadata in self._metadata.shards_metadata:
            rank, device = _parse_and_validate_remote_device(self._process_group, metadata.placement)
            if rank == dist.get_rank():
                self._local_shards.append(Shard(tede.empty(metadata.shard_sizes, dtype=about.dtype, device=device, requires_grad=about.requires_grad), metadata))

    def _place(self, process_group, init_rrefs):
        if init_rrefs:
            raise NotImplementedError("torch.distributed.rpc isn't part of tede: blocks of other ranks can't be asked for")
        self._process_group = _group(process_group)

    @classmethod
    def _init_from_local_shards(cls, local_shards, *global_size, process_group=None, init_rrefs=False):
        """Of blocks that the ranks have: they say them to each other."""
        pg, size = _group(process_group), _flatten_tensor_size(global_size)
        mine = None
        if local_shards:
            mine = ShardedTensorMetadata([shard.metadata for shard in local_shards], size, TensorProperties.create_from_tensor(local_shards[0].tensor))
        found = [None] * dist.get_world_size(pg)
        dist.all_gather_object(found, mine, group=pg)
        found = [one for one in found if one is not None]
        if not found:
            raise ValueError("all ranks have no local shards")
        for one in found:
            if (one.size, one.tensor_properties) != (found[0].size, found[0].tensor_properties):
                raise ValueError(f"ShardedTensor metadata do not match across ranks: {one.size}, {one.tensor_properties} and {found[0].size}, "
                                 f"{found[0].tensor_properties}")
        whole = ShardedTensorMetadata([shard for one in found for shard in one.shards_metadata], size, found[0].tensor_properties)
        return cls._init_from_local_shards_and_global_metadata(local_shards, whole, process_group=pg, init_rrefs=init_rrefs)

    @classmethod
    def _init_from_local_shards_and_global_metadata(cls, local_shards, sharded_tensor_metadata, process_group=None, init_rrefs=False, sharding_spec=None):
        pg = _group(process_group)
        mine = [metadata for metadata in sharded_tensor_metadata.shards_metadata
                if _parse_and_validate_remote_device(pg, metadata.placement)[0] == dist.get_rank()]
        self = cls._of(local_shards, sharded_tensor_metadata, sharding_spec, mine)
        self._place(pg, init_rrefs)
        return self

    def remote_shards(self):
        """Those of other ranks, by remote references, which there are none of."""
        return {}

    def local_tensor(self):
        """This rank's block, if it is one."""
        if len(self._local_shards) != 1:
            raise NotImplementedError("Only single local shard is supported.")
        return self._local_shards[0].tensor

    def _flat(self, most):
        """This rank's blocks one behind the other, and zeros."""
        parts = [shard.tensor.detach().reshape(-1) for shard in self._local_shards]
        missing = most - sum(part.numel() for part in parts)
        return tede.cat([*parts, tede.zeros(missing, dtype=self._metadata.tensor_properties.dtype, device=self._device())])

    def _device(self):
        return self._local_shards[0].tensor.device if self._local_shards else self._metadata.shards_metadata[0].placement.device()

    def _by_rank(self):
        """Rank in the group -> the blocks that it has, in their order."""
        found = {}
        for metadata in self._metadata.shards_metadata:
            found.setdefault(dist.get_group_rank(self._process_group, metadata.placement.rank()), []).append(metadata)
        return found

    def gather(self, dst=0, out=None, enforce_dtype=False, dtype=None):
        """The whole into `out` on rank dst, which is one of the default group's."""
        here = dist.get_rank() == dst
        if here and out is None:
            raise ValueError("`out` Tensor must be provided on dst rank!")
        blocks = self._by_rank()
        most = max(sum(tede.Size(one.shard_sizes).numel() for one in some) for some in blocks.values())
        flat = self._flat(most)
        parts = [tede.empty_like(flat) for _ in range(dist.get_world_size(self._process_group))] if here else None
        dist.gather(flat, parts, dst=dst, group=self._process_group)
        if here:
            _put(parts, blocks, out)

    def _whole(self):
        blocks = self._by_rank()
        flat = self._flat(max(sum(tede.Size(one.shard_sizes).numel() for one in some) for some in blocks.values()))
        parts = [tede.empty_like(flat) for _ in range(dist.get_world_size(self._process_group))]
        dist.all_gather(parts, flat, group=self._process_group)
        out = tede.empty(self._metadata.size, dtype=flat.dtype, device=flat.device)
        _put(parts, blocks, out)
        return out

    def reshard(self, resharding_spec):
        """The same tensor by another description, in place: each rank gets the whole, and keeps its blocks."""
        whole, about = self._whole(), self._metadata.tensor_properties
        self._sharding_spec, self._metadata = resharding_spec, resharding_spec.build_metadata(self._metadata.size, about)
        self._local_shards = [Shard(_block(whole, metadata).clone().requires_grad_(about.requires_grad), metadata) for metadata in self._metadata.shards_metadata
                              if metadata.placement.rank() == dist.get_rank()]
        return self

    def __reduce_ex__(self, protocol):
        return _restored, (type(self), self._local_shards, self._metadata, self._sharding_spec)


def _restored(cls, local_shards, metadata, spec):
    """Of a pickle; its group is that of load_with_process_group, or the default one."""
    return cls._init_from_local_shards_and_global_metadata(local_shards, metadata, sharding_spec=spec)


def _block(whole, metadata):
    for d, (start, n) in enumerate(zip(metadata.shard_offsets, metadata.shard_sizes)):
        whole = whole.narrow(d, start, n)
    return whole


def _put(parts, blocks, out):
    """What ranks have, into the whole."""
    for rank, some in blocks.items():
        at = 0
        for metadata in some:
            n = tede.Size(metadata.shard_sizes).numel()
            _block(out, metadata).copy_(parts[rank][at:at + n].view(metadata.shard_sizes))
            at += n


def _scatter(tensor, spec, src_rank=0, process_group=None):
    """A tensor of one rank, in blocks."""
    pg = _group(process_group)
    about = TensorProperties.create_from_tensor(tensor)
    found = ShardedTensor(spec, tensor.size(), dtype=about.dtype, process_group=pg)
    blocks = found._by_rank()
    most = max(sum(tede.Size(one.shard_sizes).numel() for one in some) for some in blocks.values())
    flat, parts = tede.empty(most, dtype=tensor.dtype, device=tensor.device), None
    if dist.get_rank() == src_rank:
        parts = []
        for rank in range(dist.get_world_size(pg)):
            mine = tede.cat([_block(tensor.detach(), one).reshape(-1) for one in blocks.get(rank, ())] or [tensor.new_empty(0)])
            parts.append(tede.cat([mine, mine.new_zeros(most - mine.numel())]))
    dist.scatter(flat, parts, src=src_rank, group=pg)
    at = 0
    for shard in found._local_shards:
        shard.tensor.copy_(flat[at:at + shard.tensor.numel()].view(shard.tensor.shape))
        at += shard.tensor.numel()
        shard.tensor.requires_grad_(tensor.requires_grad)
    found._metadata.tensor_properties.requires_grad = tensor.requires_grad
    return found


specs._scatterer.append(_scatter)


def _create_tensor_from_params(*size, local_device, tensor_properties):
    """A tensor of one process by such properties."""
    return tede.empty(*size, dtype=tensor_properties.dtype, layout=tensor_properties.layout, device=local_device,
                      requires_grad=tensor_properties.requires_grad, memory_format=tensor_properties.memory_format,
                      pin_memory=tensor_properties.pin_memory)
