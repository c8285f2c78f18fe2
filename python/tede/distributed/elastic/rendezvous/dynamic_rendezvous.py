"""Launchers whose number lies between two, and who come and go: they meet in rounds, by a state that all of them change.

The state says who takes part in the present round (ranks go by name, so they last), who waits for the next, and who waits until one of the others leaves,
since the round is full. It lies in a backend that sets it only for one who has seen the last; who hasn't looks again (_Shared.change).

A round is complete when the largest number has come, or the least and a while has passed. To meet again a launcher leaves the round and waits for the
next; the others see that somebody waits, and do the same; the last one that leaves opens the next round.

Launchers that end without a word are seen by their heartbeats, numbers in the state that each increases. Whoever looks removes those whose number hasn't
changed for a time, by its own clock: no clocks of two hosts are compared, and one that was stopped itself has to look again and again."""
import dataclasses
import datetime
import itertools
import json
import logging
import os
import secrets
import socket
import threading
import time
import weakref
from abc import ABC, abstractmethod

from tede.distributed import PrefixStore
from tede.distributed.elastic.rendezvous.api import (
    RendezvousClosedError, RendezvousError, RendezvousGracefulExitError, RendezvousHandler, RendezvousInfo, RendezvousStateError, RendezvousStoreInfo,
    RendezvousTimeoutError)

__all__ = ["DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout", "create_handler"]

logger = logging.getLogger(__name__)

SHORTEST_LOOK, LONGEST_LOOK = 0.05, 1.0         # seconds between looks of one who waits


class RendezvousBackend(ABC):
    """Where the state lies: bytes, and a token for each that was set."""

    @property
    @abstractmethod
    def name(self):
        """The kind of the backend."""

    @abstractmethod
    def get_state(self):
        """(state, token), or None where nobody has set one."""

    @abstractmethod
    def set_state(self, state, token=None):
        """Set the state if the token is that of the state there, or None and there is none: (state, token, whether it was set)."""


class RendezvousTimeout:
    """How long a launcher waits for the least number of others (join), then for more (last_call), until the run counts as ended (close), and for
    a heartbeat to arrive (heartbeat)."""

    def __init__(self, join=None, last_call=None, close=None, heartbeat=None):
        for name, value, otherwise in (("join", join, 600), ("last_call", last_call, 30), ("close", close, 30), ("heartbeat", heartbeat, 5)):
            value = datetime.timedelta(seconds=otherwise) if value is None else value
            if value <= datetime.timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            setattr(self, name, value)


@dataclasses.dataclass(frozen=True)
class RendezvousSettings:
    """Which launchers meet: those of one run, from `min_nodes` to `max_nodes` of them. One that hasn't increased its number for
    `keep_alive_max_attempt` times `keep_alive_interval` is no longer there."""
    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: datetime.timedelta = datetime.timedelta(seconds=5)
    keep_alive_max_attempt: int = 3


@dataclasses.dataclass
class _State:
    """What launchers share; they are known by names. `heartbeats` has all of them."""
    round: int = 0
    complete: bool = False
    closed: bool = False
    participants: dict = dataclasses.field(default_factory=dict)        # the rank of each, after the round is complete
    waiting: list = dataclasses.field(default_factory=list)             # for the next round, which they bring about
    redundant: list = dataclasses.field(default_factory=list)           # for a place
    heartbeats: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, text):
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise RendezvousStateError("The rendezvous state is corrupt. See inner exception for details.") from error

    def text(self):
        return json.dumps(dataclasses.asdict(self)).encode()

    def unlist(self, node):
        self.waiting, self.redundant = ([name for name in names if name != node] for names in (self.waiting, self.redundant))

    def leave(self, node):
        """Forget one; the last participant that leaves opens the next round."""
        self.heartbeats.pop(node, None)
        self.unlist(node)
        if self.participants.pop(node, None) is not None and self.complete and not self.participants:
            self.complete, self.round = False, self.round + 1

    def finish(self):
        self.complete, self.participants = True, {node: rank for rank, node in enumerate(sorted(self.participants))}


class _Shared:
    """The state in the backend, without those that are no longer there."""

    def __init__(self, backend, settings):
        self._backend, self._lock = backend, threading.Lock()
        self._interval, self._most = settings.keep_alive_interval.total_seconds(), settings.keep_alive_max_attempt
        self._silent, self._looked = {}, time.monotonic()       # of each launcher its number, and for how many seconds it has been that

    def _get(self):
        found = self._backend.get_state()
        state, token = (_State(), None) if found is None else (_State.read(found[0]), found[1])
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, self._interval), now         # no more, lest one that was stopped itself misses all others
        seen, self._silent = self._silent, {}
        for node, number in list(state.heartbeats.items()):
            before, silent = seen.get(node, (None, 0))
            self._silent[node] = number, silent + passed if number == before else 0
            if self._silent[node][1] > self._interval * self._most:
                state.leave(node)
        return state, token

    def look(self):
        with self._lock:
            return self._get()[0]

    def change(self, edit, timeout):
        """What edit(state) gives, after the state that it leaves is the one in the backend."""
        end = time.monotonic() + timeout.total_seconds()
        with self._lock:
            while True:
                state, token = self._get()
                before, result = state.text(), edit(state)
                after = state.text()
                if after == before or (answer := self._backend.set_state(after, token)) is not None and answer[2]:
                    return result
                if time.monotonic() > end:
                    raise RendezvousTimeoutError(f"the others' changes have been quicker for {timeout}")


class _Heartbeat:
    """A thread that calls beat() of an object now and then, until it is stopped or the object is gone."""

    def __init__(self, target, seconds):
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(weakref.ref(target), seconds, self._ended), name="RendezvousKeepAlive", daemon=True)
        self._thread.start()

    @staticmethod
    def _run(target, seconds, ended):
        while not ended.wait(seconds) and (there := target()) is not None:
            there.beat()
            del there

    def stop(self):
        self._ended.set()
        self._thread.join()


class DynamicRendezvousHandler(RendezvousHandler):
    """One launcher's side. `server`: where its store is served, so that the processes can use it."""
    _count = itertools.count()

    def __init__(self, settings, store, backend, local_addr=None, server=None):
        if not settings.run_id:
            raise ValueError("The run id must be a non-empty string.")
        if settings.min_nodes < 1:
            raise ValueError(f"The minimum number of nodes ({settings.min_nodes}) must be greater than zero.")
        if settings.max_nodes < settings.min_nodes:
            raise ValueError(f"The maximum number of nodes ({settings.max_nodes}) must be greater than or equal to the minimum number of nodes "
                             f"({settings.min_nodes}).")
        self.settings, self._backend, self._local_addr, self._store, self._server = settings, backend.name, local_addr, store, server
        self._shared, self._heartbeat = _Shared(backend, settings), None
        self._node = f"{local_addr or socket.getfqdn()}_{os.getpid()}_{next(self._count)}_{secrets.token_hex(4)}"
        self._round = self._rank = None
        self._beats = itertools.count()         # goes on where the others have forgotten this one, who may remember its last number

    @classmethod
    def from_backend(cls, run_id, store, backend, min_nodes, max_nodes, local_addr=None, timeout=None, keep_alive_interval=5, keep_alive_max_attempt=3):
        settings = RendezvousSettings(run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(), datetime.timedelta(seconds=keep_alive_interval),
                                      keep_alive_max_attempt)
        return cls(settings, store, backend, local_addr, getattr(backend, "server", None))

    def get_backend(self):
        return self._backend

    @property
    def use_agent_store(self):
        return self._server is not None

    # ---- meeting ----------------------------------------------------------------------------------------------------------------

    def next_rendezvous(self):
        self._stop_heartbeats()
        self._shared.change(lambda state: state.leave(self._node), self.settings.timeout.join)
        state = self._join()
        self._round, self._rank = state.round, state.participants[self._node]
        self._heartbeat = _Heartbeat(self, self.settings.keep_alive_interval.total_seconds())
        store = PrefixStore(f"torch.rendezvous.{self.settings.run_id}.{state.round}", self._store)
        if self._server is not None:
            where = RendezvousStoreInfo(self._server.host, self._server.port)
        else:
            where = RendezvousStoreInfo.build(self._rank, store, self._local_addr)
        return RendezvousInfo(store, self._rank, len(state.participants), where, state.round)

    def _join(self):
        """Look until this launcher takes part in a complete round: the state then."""
        join, interval, pause = self.settings.timeout.join, self.settings.keep_alive_interval.total_seconds(), SHORTEST_LOOK
        end, self._enough, self._beaten = time.monotonic() + join.total_seconds(), None, -interval
        while True:
            state = self._shared.change(self._take_part, join)
            if state.complete and self._node in state.participants:
                return state
            now = time.monotonic()
            if self._node in state.redundant:
                end = now + join.total_seconds()        # there is no limit to how long it stays so
            elif now > end:
                self._shared.change(lambda state: state.leave(self._node), join)
                raise RendezvousTimeoutError(f"the least number of launchers, {self.settings.min_nodes}, hasn't come within {join}")
            time.sleep(min(pause, interval))
            pause = min(1.2 * pause, LONGEST_LOOK)

    def _take_part(self, state):
        """What one look changes; it may be undone, where another launcher was quicker."""
        settings, node, now = self.settings, self._node, time.monotonic()
        if state.closed:
            if node in state.redundant:
                raise RendezvousGracefulExitError(f"The rendezvous '{settings.run_id}' is closed, terminating pending rendezvous.")
            raise RendezvousClosedError(f"The run {settings.run_id} has ended.")
        if state.complete and node in state.participants:
            return state
        if state.complete:              # in whichever list it is by now
            full = len(state.participants) >= settings.max_nodes
            if node not in (state.redundant if full else state.waiting):
                state.unlist(node)
                (state.redundant if full else state.waiting).append(node)
        else:
            state.unlist(node)
            state.participants[node] = 0
            count = len(state.participants)
            self._enough = None if count < settings.min_nodes else self._enough or now
            if count == settings.max_nodes or self._enough and now - self._enough >= settings.timeout.last_call.total_seconds():
                state.finish()
        if node not in state.heartbeats or now - self._beaten >= settings.keep_alive_interval.total_seconds():
            state.heartbeats[node] = next(self._beats)
            self._beaten = now
        return state

    def beat(self):
        """Say that this launcher is there. One that the others have missed meanwhile takes its place again, where the round is still the same."""
        def edit(state):
            if self._node not in state.participants and state.complete and state.round == self._round and len(state.participants) < self.settings.max_nodes:
                state.participants[self._node] = self._rank
            if self._node in state.participants:
                state.heartbeats[self._node] = next(self._beats)
        try:
            self._shared.change(edit, self.settings.timeout.heartbeat)
        except RendezvousError as error:
            logger.warning("a heartbeat hasn't reached the other launchers: %s", error)

    # ---- between rounds ---------------------------------------------------------------------------------------------------------

    def num_nodes_waiting(self):
        state = self._shared.look()
        return len(state.waiting) or int(self._round is not None and state.round > self._round)     # or the others have met without this one

    def is_closed(self):
        return self._shared.look().closed

    def set_closed(self):
        def edit(state):
            state.closed = True
        self._shared.change(edit, self.settings.timeout.close)

    def get_run_id(self):
        return self.settings.run_id

    def _stop_heartbeats(self):
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    def shutdown(self):
        self._stop_heartbeats()
        try:
            self.set_closed()
            return True
        except RendezvousError as error:        # the launcher that served the store has ended
            logger.info("the end of the run %s isn't noted: %s", self.settings.run_id, error)
            return False
        finally:
            self._store = self._shared = self._server = None


def create_handler(store, backend, params):
    """A handler of the options `join_timeout`, `last_call_timeout`, `close_timeout`, `heartbeat_timeout`, `keep_alive_interval` (seconds) and
    `keep_alive_max_attempt`."""
    def seconds(key):
        value = params.get_as_int(f"{key}_timeout")
        return None if value is None else datetime.timedelta(seconds=value)

    def number(key, otherwise):
        value = params.get_as_int(key, otherwise)
        if value is None:
            raise TypeError(f"You passed '{key}=None' as a rendezvous configuration option")
        return value
    timeout = RendezvousTimeout(*map(seconds, ("join", "last_call", "close", "heartbeat")))
    return DynamicRendezvousHandler.from_backend(params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout,
                                                 number("keep_alive_interval", 5), number("keep_alive_max_attempt", 3))
