"""_StoreCollectives: what processes tell each other through a store before they have a group, or beside one.

A key names an operation and is used once: what a store holds stays there, and a second operation would read the first one's values."""
from datetime import timedelta

from tede._C import DistStoreError

_TIMEOUT = timedelta(seconds=300)


class _ControlCollectives:
    """The operations, whatever moves the values."""


class _StoreCollectives(_ControlCollectives):
    def __init__(self, store, rank, world_size):
        self._store, self._rank, self._size, self._used = store, rank, world_size, set()

    def _key(self, key):
        if key in self._used:
            raise RuntimeError(f"Key {key} has already been used.")
        self._used.add(key)
        return key

    def _all(self, key, what, timeout):
        """The keys of all ranks, when they have values; an error says whose haven't."""
        keys = [f"{key}/{rank}" for rank in range(self._size)]
        try:
            self._store.wait(keys, timeout)
        except DistStoreError as error:
            missing = [str(rank) for rank, one in enumerate(keys) if not self._store.check([one])]
            raise DistStoreError(f"{what} failed -- missing ranks: {', '.join(missing)}: {error}") from None
        return keys

    def _get(self, key, timeout):
        try:
            self._store.wait([key], timeout)
        except DistStoreError as error:
            raise DistStoreError(f"Wait timeout: nobody has sent it: {error}") from None
        return self._store.get(key)

    def barrier(self, key, timeout=_TIMEOUT, block=True):
        """Say that this rank is here, and (block) wait for the others."""
        self._arrive(self._key(key), timeout, block)

    def _arrive(self, key, timeout, block=True):
        self._store.set(f"{key}/{self._rank}", "1")
        if block:
            self._all(key, "barrier", timeout)

    def broadcast_send(self, key, data, timeout=_TIMEOUT):
        self._store.set(self._key(key), data)

    def broadcast_recv(self, key, timeout=_TIMEOUT):
        return self._get(self._key(key), timeout)

    def gather_send(self, key, data, timeout=_TIMEOUT):
        self._store.set(f"{self._key(key)}/{self._rank}", data)

    def gather_recv(self, key, data, timeout=_TIMEOUT):
        """What all ranks have, in order; this one's is `data`."""
        return self._gather(key, data, "gather", timeout)

    def all_gather(self, key, data, timeout=_TIMEOUT):
        return self._gather(key, data, "all_gather", timeout)

    def _gather(self, key, data, what, timeout):
        self._store.set(f"{self._key(key)}/{self._rank}", data)
        return [self._store.get(one) for one in self._all(key, what, timeout)]

    def scatter_send(self, key, data, timeout=_TIMEOUT):
        """Each rank's part of the list `data`; this one's is returned."""
        key = self._key(key)
        if len(data) != self._size:
            raise RuntimeError(f"scatter_send: {len(data)} values for {self._size} ranks")
        for rank, part in enumerate(data):
            self._store.set(f"{key}/{rank}", part)
        return self._store.get(f"{key}/{self._rank}")

    def scatter_recv(self, key, timeout=_TIMEOUT):
        return self._get(f"{self._key(key)}/{self._rank}", timeout)

    def all_sum(self, key, data, timeout=_TIMEOUT):
        """The sum of all ranks' whole numbers."""
        key = self._key(key)
        self._store.add(f"{key}/sum", data)
        self._arrive(f"{key}/here", timeout)
        return self._store.add(f"{key}/sum", 0)
