"""Python's multiprocessing, whose queues and pipes send tensors by shared memory."""
import multiprocessing
import sys
from multiprocessing import *  # noqa: F403

from tede.multiprocessing.reductions import init_reductions
from tede.multiprocessing.spawn import (  # noqa: F401
    ENV_VAR_PARALLEL_START, ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes)

_sharing_strategy = "file_descriptor"

__all__ = ["get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", *multiprocessing.__all__]


def set_sharing_strategy(new_strategy):
    """Accepted for compatibility: descriptors are what is sent."""
    global _sharing_strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}")
    _sharing_strategy = new_strategy


def get_sharing_strategy():
    return _sharing_strategy


def get_all_sharing_strategies():
    return {"file_descriptor", "file_system"}


def _set_thread_name(name):
    """Name this thread for the system, which keeps 15 bytes."""
    with open("/proc/thread-self/comm", "wb") as file:
        file.write(name.encode()[:15])


def _get_thread_name():
    with open("/proc/thread-self/comm", "rb") as file:
        return file.read().decode("utf-8", "replace").removesuffix("\n")


def __getattr__(name):
    return getattr(multiprocessing, name)


init_reductions()
for _name in ("context", "pool", "queues", "connection", "managers", "process", "reduction", "synchronize"):
    if "multiprocessing." + _name in sys.modules:
        globals()[_name] = sys.modules["multiprocessing." + _name]
del _name
