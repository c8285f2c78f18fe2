"""Timers' requests, clients, and the watchdog that all servers are."""
import abc
import contextlib
import logging
import sys
import threading
import time
from dataclasses import dataclass

__all__ = ["TimerRequest", "TimerClient", "RequestQueue", "TimerServer", "configure", "expires"]

logger = logging.getLogger(__name__)
_clients = []           # that of configure()


@dataclass
class TimerRequest:
    """A worker's timer for a scope, until a time (as time.time() says it); below 0: it is over."""
    worker_id: object
    scope_id: str
    expiration_time: float


class TimerClient(abc.ABC):
    """What a worker asks a server by."""

    @abc.abstractmethod
    def acquire(self, scope_id, expiration_time): ...

    @abc.abstractmethod
    def release(self, scope_id): ...


class RequestQueue(abc.ABC):
    """What a server gets requests from."""

    @abc.abstractmethod
    def size(self): ...

    @abc.abstractmethod
    def get(self, size, timeout):
        """Up to `size` requests, waiting for them so many seconds."""


class TimerServer(abc.ABC):
    """A thread that looks for expired timers at least every max_interval seconds, and ends their workers."""

    def __init__(self, request_queue, max_interval, daemon=True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._end, self._thread = threading.Event(), None

    @abc.abstractmethod
    def register_timers(self, timer_requests): ...

    @abc.abstractmethod
    def clear_timers(self, worker_ids): ...

    @abc.abstractmethod
    def get_expired_timers(self, deadline):
        """{worker: its requests that have expired}"""

    @abc.abstractmethod
    def _reap_worker(self, worker_id):
        """End a worker; whether it has ended."""

    def _ended(self, worker_id):
        """Whether its timers are to be forgotten: they are, too, where ending it fails, or it would be tried for ever."""
        try:
            return self._reap_worker(worker_id)
        except Exception:
            logger.exception("worker %s, whose timer has expired, couldn't be ended", worker_id)
            return True

    def _run_watchdog(self):
        self.register_timers(self._request_queue.get(max(1, self._request_queue.size()), self._max_interval))
        expired = self.get_expired_timers(time.time())
        for worker_id, requests in expired.items():
            logger.info("expired timers of worker %s: %s", worker_id, [request.scope_id for request in requests])
        self.clear_timers({worker_id for worker_id in expired if self._ended(worker_id)})

    def _loop(self):
        while not self._end.is_set():
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("the watchdog of timers goes on after an error")

    def start(self):
        self._end.clear()
        self._thread = threading.Thread(target=self._loop, name=type(self).__name__, daemon=self._daemon)
        self._thread.start()

    def stop(self):
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def configure(timer_client):
    """Whom expires() asks."""
    _clients[:] = [timer_client]


@contextlib.contextmanager
def expires(after, scope=None, client=None):
    """A block that may take `after` seconds. One that comes again within itself by the same scope, which is the line of the program if none is given,
    begins anew."""
    client = client if client is not None else _clients[0] if _clients else None
    if client is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        caller = sys._getframe(2)
        scope = f"{caller.f_code.co_filename}#{caller.f_lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
