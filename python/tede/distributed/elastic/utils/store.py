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
    """Wait until all ranks are here. With `rank` the error of one that waits too long says, on rank 0, which ranks are missing, by the names that
    rank_tracing_decoder(rank) gives."""
    with store_timeout(store, barrier_timeout):
        done = _all_there(store, key_prefix, world_size)
        try:
            store.wait([done])
        except RuntimeError as error:
            missing = None if rank is None else _missing(store, rank, world_size, key_prefix, trace_timeout)
            if missing is None:
                raise
            names = rank_tracing_decoder or str
            where = f"missing_ranks=[{', '.join(map(names, missing))}]" if rank == 0 else f"check rank 0 ({names(0)}) for missing rank info"
            raise type(error)(f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} (world_size={world_size}, {where}, "
                              f"timeout={barrier_timeout})") from None


def _missing(store, rank, world_size, prefix, seconds):
    """Each rank says that it is here; rank 0 looks who hasn't, and lets the others go on. None: rank 0 hasn't said that it did."""
    store.set(f"{prefix}{rank}/TRACE", "<val_ignored>")

    def comes(key, *timeout):
        try:
            store.wait([key], *timeout)
        except RuntimeError:
            return False
        return True
    if rank:
        return [] if comes(f"{prefix}/TRACING_GATE") else None
    missing = [other for other in range(1, world_size) if not comes(f"{prefix}{other}/TRACE", datetime.timedelta(seconds=seconds))]
    store.set(f"{prefix}/TRACING_GATE", "<val_ignored>")
    return missing
