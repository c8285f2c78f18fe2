"""Exchanging values, and waiting for each other, through a store."""
import datetime
from contextlib import contextmanager

__all__ = ["store_timeout", "get_all", "synchronize", "barrier"]


@contextmanager
def store_timeout(store, timeout):
    """Within it a store's calls wait so many seconds at most."""
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def get_all(store, rank, prefix, world_size):
    """The values of PREFIX0, PREFIX1, ... All ranks have got theirs when the one of rank 0 returns, which serves the store, perhaps."""
    values = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    done = _all_there(store, f"{prefix}/finished", world_size)
    if rank == 0:
        store.wait([done])
    return values


def _all_there(store, prefix, world_size):
    """Count this rank; the last one sets the key that is returned."""
    key = f"{prefix}/last_member"
    if store.add(f"{prefix}/num_members", 1) == world_size:
        store.set(key, "<val_ignored>")
    return key


def synchronize(store, data, rank, world_size, key_prefix, timeout=300):
    """The data (bytes) of all ranks."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(store, world_size, key_prefix, barrier_timeout=300, rank=None, rank_tracing_decoder=None, trace_timeout=10):
    """Wait until all ranks are here."""
    with store_timeout(store, barrier_timeout):
        store.wait([_all_there(store, key_prefix, world_size)])
