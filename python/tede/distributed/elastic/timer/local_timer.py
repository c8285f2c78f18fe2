"""Timers whose requests come through a queue of multiprocessing; workers are processes of this host."""
import os
import queue
import signal
import time

from tede.distributed.elastic.timer.api import RequestQueue, TimerClient, TimerRequest, TimerServer

__all__ = ["LocalTimerClient", "MultiprocessingRequestQueue", "LocalTimerServer"]


class LocalTimerClient(TimerClient):
    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    def __init__(self, mp_queue):
        self._mp_queue = mp_queue

    def size(self):
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        found, end = [], time.monotonic() + timeout
        while len(found) < size:
            try:
                found.append(self._mp_queue.get(block=True, timeout=max(0, end - time.monotonic())))
            except queue.Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """A worker's process is killed when one of its timers expires."""

    def __init__(self, mp_queue, max_interval=60, daemon=True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers = {}           # (process, scope) -> request

    def register_timers(self, timer_requests):
        for request in timer_requests:
            key = request.worker_id, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids):
        self._timers = {key: request for key, request in self._timers.items() if key[0] not in worker_ids}

    def get_expired_timers(self, deadline):
        found = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                found.setdefault(request.worker_id, []).append(request)
        return found

    def _reap_worker(self, worker_id):
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            pass                    # it has ended by itself
        return True
