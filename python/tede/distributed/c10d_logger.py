"""torch.distributed.c10d_logger: what calls of groups are noted by a logger. Nothing is, unless a program gives it a handler."""
import functools
import logging

__all__ = []

_c10d_logger = logging.getLogger("tede.distributed.c10d")
_c10d_logger.addHandler(logging.NullHandler())
_c10d_logger.propagate = False


def _get_msg_dict(name, *args, **kwargs):
    from tede.distributed import distributed_c10d as c10d
    about = {"func_name": name}
    if c10d.is_initialized():
        pg = kwargs.get("group") or kwargs.get("process_group")
        about.update(pg_name=c10d._get_process_group_name(pg or c10d.group.WORLD), backend=str(c10d.get_backend(pg)),
                     world_size=str(c10d.get_world_size()), group_size=str(c10d.get_world_size(pg)), global_rank=str(c10d.get_rank()),
                     local_rank=str(c10d.get_rank(pg)))
    return about


def _exception_logger(function):
    """Errors of the function are noted, and raised."""
    @functools.wraps(function)
    def noted(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({**_get_msg_dict(function.__name__, *args, **kwargs), "error": str(error)})
            raise
    return noted


def _time_logger(function):
    """The function as it is: times are the profiler's."""
    return function
