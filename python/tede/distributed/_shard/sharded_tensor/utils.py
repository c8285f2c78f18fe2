"""Checks of blocks and of their places."""
import tede
import tede.distributed as dist
from tede.distributed._shard.sharding_spec._internals import check_tensor, validate_non_overlapping_shards_metadata

__all__ = []


def _parse_and_validate_remote_device(pg, remote_device):
    """(rank, device) of a place; the rank is that of the default group, and one of pg's."""
    if remote_device is None:
        raise ValueError("remote device is None")
    rank = remote_device.rank()
    if rank is not None and not dist._rank_not_in_group(pg):
        ranks = dist.get_process_group_ranks(pg)
        if rank not in ranks:
            raise ValueError(f"Global rank {rank} does not exist in input process group: {ranks}")
    if remote_device.worker_name() is not None:
        raise ValueError(f"workers have no names here: {remote_device}")
    return rank, remote_device.device()


def _flatten_tensor_size(size):
    """A size that is given as one sequence, or as numbers."""
    dims = list(size[0]) if len(size) == 1 and isinstance(size[0], (list, tuple)) else list(size)
    if not all(isinstance(n, int) for n in dims):
        raise TypeError(f"size has to be a sequence of ints, found: {dims}")
    return tede.Size(dims)


def _check_metadata(metadata, local_shards, mine=None):
    """Refuse blocks that don't make the tensor, or that aren't this rank's: `mine` are those that should be here."""
    if not metadata.shards_metadata:
        raise ValueError("shards_metadata must not be empty!")
    if metadata.tensor_properties.layout != tede.strided:
        raise ValueError("Only torch.strided layout is currently supported")
    if mine is not None and len(mine) != len(local_shards):
        raise RuntimeError(f"Number of local shards ({len(local_shards)}) does not match number of local shards metadata in sharded_tensor_metadata "
                           f"({len(mine)}) on rank ({dist.get_rank()}) ")
    wanted = metadata.tensor_properties
    for shard in local_shards:
        if mine is not None and shard.metadata not in mine:
            raise ValueError("local shards metadata not in sharded_tensor_metadata.shards_metadata!")
        for name in ("dtype", "layout", "requires_grad"):
            if getattr(shard.tensor, name) != getattr(wanted, name):
                raise ValueError(f"Local shards' tensor {name} property does not match with sharded_tensor_metadata: {getattr(shard.tensor, name)} and "
                                 f"{getattr(wanted, name)}")
    validate_non_overlapping_shards_metadata(metadata.shards_metadata)
    check_tensor(metadata.shards_metadata, list(metadata.size))
