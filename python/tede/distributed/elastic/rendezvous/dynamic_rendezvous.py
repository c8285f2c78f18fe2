"""Launchers whose number lies between two, and who may come late: they meet in rounds, through a store.

In round r each adds 1 to r/joined; what it then reads is its rank. Rank 0 waits until the least number has come, and a while for more, and closes the round by
adding CLOSED to the same number: so whoever comes after that sees it and goes to the next round. Those who wait in the round after the present one are those
that the others must meet again: a launcher that restarts its processes, or one that has come late."""
import dataclasses
import datetime
import time

from tede.distributed import PrefixStore
from tede.distributed.elastic.rendezvous.api import (
    RendezvousClosedError, RendezvousHandler, RendezvousInfo, RendezvousStoreInfo, RendezvousTimeoutError)

__all__ = ["DynamicRendezvousHandler", "RendezvousSettings", "RendezvousTimeout", "create_handler"]

CLOSED = 1 << 32                # more than there are launchers


class RendezvousTimeout:
    """How long a launcher waits for the least number of others (join), then for more (last_call)."""

    def __init__(self, join=None, last_call=None, close=None, heartbeat=None):
        for name, value, otherwise in (("join", join, 600), ("last_call", last_call, 30), ("close", close, 30), ("heartbeat", heartbeat, 5)):
            value = datetime.timedelta(seconds=otherwise) if value is None else value
            if value <= datetime.timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            setattr(self, name, value)


@dataclasses.dataclass(frozen=True)
class RendezvousSettings:
    """Which launchers meet: those of one run, from `min_nodes` to `max_nodes` of them."""
    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout


class DynamicRendezvousHandler(RendezvousHandler):
    def __init__(self, settings, store, backend, local_addr=None, server=None):
        self.settings, self._backend, self._local_addr = settings, backend, local_addr
        self._shared, self._store, self._server = store, PrefixStore(f"torch.rendezvous.{settings.run_id}", store), server
        self._round = 0

    @classmethod
    def from_backend(cls, run_id, store, backend, min_nodes, max_nodes, local_addr=None, timeout=None):
        if min_nodes < 1:
            raise ValueError(f"The minimum number of nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(f"The maximum number of nodes ({max_nodes}) must be greater than or equal to the minimum number of nodes ({min_nodes}).")
        settings = RendezvousSettings(run_id, min_nodes, max_nodes, timeout or RendezvousTimeout())
        return cls(settings, store, backend.name, local_addr, getattr(backend, "server", None))

    def get_backend(self):
        return self._backend

    @property
    def use_agent_store(self):
        return self._server is not None

    def _joined(self, n, more=0):
        return self._store.add(f"{n}/joined", more)

    def _wait(self, ready, seconds, what):
        """Look until ready() gives something."""
        end = time.monotonic() + seconds
        while True:
            found = ready()
            if found is not None:
                return found
            if self.is_closed():
                raise RendezvousClosedError(f"The run {self.settings.run_id} has ended.")
            if time.monotonic() > end:
                raise RendezvousTimeoutError(f"{what} after {seconds} seconds")
            time.sleep(0.05)

    def next_rendezvous(self):
        settings = self.settings
        if self.is_closed():
            raise RendezvousClosedError(f"The run {settings.run_id} has ended.")
        seconds = settings.timeout.join.total_seconds()
        end = time.monotonic() + seconds
        while True:
            n = self._round
            rank = self._joined(n, 1) - 1
            self._round += 1
            if rank < settings.max_nodes:
                break
            if rank < CLOSED:               # more than may be; the round closes without this one
                self._wait(lambda: self._joined(n) > CLOSED or None, seconds, "the round before hasn't closed")
            if time.monotonic() > end:
                raise RendezvousTimeoutError(f"no place among {settings.max_nodes} launchers after {seconds} seconds")
            self._wait(lambda: not self._full(n) or self._joined(n + 1) % CLOSED > 0 or None, max(0.1, end - time.monotonic()),
                       f"no place among {settings.max_nodes} launchers")
        if rank == 0:
            self._wait(lambda: self._joined(n) >= settings.min_nodes or None, seconds, f"fewer than {settings.min_nodes} launchers have come")
            last = time.monotonic() + settings.timeout.last_call.total_seconds()
            while self._joined(n) < settings.max_nodes and time.monotonic() < last:
                time.sleep(0.05)
            self._store.set(f"{n}/size", str(min(self._joined(n, CLOSED) - CLOSED, settings.max_nodes)))
        size = int(self._wait(lambda: self._store.get(f"{n}/size") if self._store.check([f"{n}/size"]) else None,
                              seconds + settings.timeout.last_call.total_seconds(), "the other launchers haven't come"))
        store = PrefixStore(f"torch.rendezvous.{settings.run_id}.{n}", self._shared)
        if self._server is not None:
            where = RendezvousStoreInfo(self._server.host, self._server.port)
        else:
            where = RendezvousStoreInfo.build(rank, store, self._local_addr)
        return RendezvousInfo(store, rank, size, where, n)

    def _full(self, n):
        return int(self._store.get(f"{n}/size")) >= self.settings.max_nodes if self._store.check([f"{n}/size"]) else True

    def is_closed(self):
        return self._store.check(["closed"])

    def set_closed(self):
        self._store.set("closed", "1")

    def num_nodes_waiting(self):
        return self._joined(self._round) % CLOSED       # or how many have met without this one

    def get_run_id(self):
        return self.settings.run_id

    def shutdown(self):
        try:
            self.set_closed()
            return True
        except RuntimeError:                # the launcher that served the store has ended
            return False
        finally:
            self._store = self._shared = self._server = None


def create_handler(store, backend, params):
    """A handler of the options `join_timeout`, `last_call_timeout` (seconds)."""
    def seconds(key):
        value = params.get_as_int(key)
        return None if value is None else datetime.timedelta(seconds=value)
    timeout = RendezvousTimeout(seconds("join_timeout"), seconds("last_call_timeout"), seconds("close_timeout"))
    return DynamicRendezvousHandler.from_backend(params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout)
