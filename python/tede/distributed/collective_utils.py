"""Values that one rank or each of them computes, on all: an error of one is an error of all, so that none waits for who has failed.

Without a group, a function is just called."""
import tede.distributed as dist

__all__ = ["all_gather", "all_gather_object_enforce_type", "broadcast"]


def _computed(data_or_fn):
    """(whether that went well, the value, or the exception)"""
    if not callable(data_or_fn):
        return True, data_or_fn
    try:
        return True, data_or_fn()
    except Exception as error:
        return False, error


def _failed(rank, stage_name, error):
    stage = f": stage {stage_name}" if stage_name is not None else ""
    return f"Rank {rank} failed{stage}" + (f": exception {error}" if error is not None else "")


def broadcast(data_or_fn, *, success=True, stage_name=None, rank=0, pg=None):
    """What the group's rank `rank` has, or computes. success=False: that rank has failed already."""
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    box = [None]
    if pg is None or pg.rank() == rank:
        box[0] = (stage_name, *(_computed(data_or_fn) if success else (False, None)))
    if pg is not None:
        dist.broadcast_object_list(box, group=pg, group_src=rank)
    stage_name, success, value = box[0]
    if not success:
        raise RuntimeError(_failed(rank, stage_name, value)) from value
    return value


def all_gather(data_or_fn, stage_name=None, pg=None):
    """What each rank has, or computes, in order."""
    own = (stage_name, *_computed(data_or_fn))
    found = [own]
    if pg is not None:
        found = [None] * dist.get_world_size(pg)
        dist.all_gather_object(found, own, pg)
    failed = [(rank, stage, value) for rank, (stage, success, value) in enumerate(found) if not success]
    if failed:
        raise RuntimeError("\n".join(_failed(*one) for one in failed)) from failed[0][2]
    return [value for _, _, value in found]


def all_gather_object_enforce_type(pg, object_list, obj, type_checker=lambda x, y: type(x) is type(y)):
    """all_gather_object of objects of one type."""
    dist.all_gather_object(object_list, obj, group=pg)
    for other in object_list[1:]:
        if not type_checker(object_list[0], other):
            raise TypeError(f"Object type {type(other).__name__} isn't compatible with {type(object_list[0]).__name__}")
