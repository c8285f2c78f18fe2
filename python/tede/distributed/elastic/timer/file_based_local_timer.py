"""Timers whose requests come through a named pipe, a line of JSON each: workers needn't be children of the server's process.

A line is shorter than PIPE_BUF, so those of several workers don't mix."""
import json
import logging
import os
import select
import signal as signals
import threading
import time
from dataclasses import dataclass

from tede.distributed.elastic.timer.api import TimerClient

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

logger = logging.getLogger(__name__)


@dataclass
class FileTimerRequest:
    """`signal`: what the worker gets when the timer expires."""
    worker_pid: int
    scope_id: str
    expiration_time: float
    signal: int = 0

    def to_json(self):
        return json.dumps({"version": 1, "pid": self.worker_pid, "scope_id": self.scope_id, "expiration_time": self.expiration_time,
                           "signal": int(self.signal)})


class FileTimerClient(TimerClient):
    def __init__(self, file_path, signal=signals.SIGKILL):
        self._file_path, self.signal = file_path, signal

    def _send_request(self, request):
        try:
            pipe = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:                    # no pipe, or nobody who reads it
            raise BrokenPipeError("Could not send the FileTimerRequest because FileTimerServer is not available.") from error
        try:
            line = request.to_json().encode() + b"\n"
            if len(line) > select.PIPE_BUF:
                raise RuntimeError(f"FileTimerRequest larger than {select.PIPE_BUF} bytes is not supported: {line.decode()}")
            os.set_blocking(pipe, True)
            os.write(pipe, line)
        finally:
            os.close(pipe)

    def acquire(self, scope_id, expiration_time):
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id):
        self._send_request(FileTimerRequest(os.getpid(), scope_id, -1, 0))


def log_debug_info_for_expired_timers(run_id, expired_timers):
    """Timers expired: {process: scopes}."""
    if expired_timers:
        logger.info("Timers expired for run:[%s] [%s].", run_id, expired_timers)


class FileTimerServer:
    """Reads requests, and sends a worker the signal of its first timer that expires. Timers of processes that have ended are forgotten.
    PyTorch's newest sends the signal to its own process afterwards; this one goes on."""

    def __init__(self, file_path, run_id, max_interval=10, daemon=True, log_event=None):
        self._file_path, self._run_id, self._max_interval, self._daemon = file_path, run_id, max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers, self._request_count, self._rest = {}, 0, b""
        self._end, self._thread, self._last_progress_time = threading.Event(), None, int(time.time())
        if os.path.exists(file_path):
            os.remove(file_path)
        os.mkfifo(file_path)
        self._pipe = os.open(file_path, os.O_RDWR | os.O_NONBLOCK)      # writing, too: it doesn't end with the last client

    def start(self):
        self._end.clear()
        self._thread = threading.Thread(target=self._loop, name=type(self).__name__, daemon=self._daemon)
        self._thread.start()

    def _loop(self):
        while not self._end.is_set():
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("the watchdog of timers goes on after an error")

    def _join(self):
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def stop(self):
        self._join()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if os.path.exists(self._file_path):
            os.remove(self._file_path)

    def run_once(self):
        """Look at all that has been sent, once, and end."""
        self._join()
        if self._pipe is not None:
            self._run_watchdog()
        self.stop()

    def get_last_progress_time(self):
        """When the watchdog has last been well, or a timer wasn't late: seconds."""
        return self._last_progress_time if self._timers else int(time.time())

    def _run_watchdog(self):
        self.register_timers(self._get_requests(self._max_interval))
        expired = self.get_expired_timers(time.time())
        log_debug_info_for_expired_timers(self._run_id, {pid: [request.scope_id for request in requests] for pid, requests in expired.items()})
        reaped = set()
        for pid, requests in expired.items():
            self._log_event("timer expired", requests[0])
            if self._reap_worker(pid, requests[0].signal):
                reaped.add(pid)
        self.clear_timers(reaped)
        self.clear_timers({pid for pid in {pid for pid, _ in self._timers} if not self.is_process_running(pid)})
        self._last_progress_time = int(time.time())

    def _get_requests(self, seconds):
        """What comes in so many seconds, and what is there already."""
        found, end = [], time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            ready = select.select([self._pipe], [], [], 0 if self._end.is_set() else max(left, 0))[0]
            if ready:
                *lines, self._rest = (self._rest + os.read(self._pipe, 1 << 16)).split(b"\n")
                for line in lines:
                    said = json.loads(line)
                    found.append(FileTimerRequest(said["pid"], said["scope_id"], said["expiration_time"], said["signal"]))
            elif left <= 0 or self._end.is_set():
                return found

    def register_timers(self, timer_requests):
        for request in timer_requests:
            self._request_count += 1
            key = request.worker_pid, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_pids):
        self._timers = {key: request for key, request in self._timers.items() if key[0] not in worker_pids}

    def get_expired_timers(self, deadline):
        found = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                found.setdefault(request.worker_pid, []).append(request)
        return found

    def _reap_worker(self, worker_pid, signal):
        try:
            os.kill(worker_pid, signal)
        except ProcessLookupError:
            pass                        # it has ended by itself
        except OSError:
            logger.exception("worker %s, whose timer has expired, couldn't be ended", worker_pid)
            return False
        return True

    @staticmethod
    def is_process_running(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:         # of another user
            pass
        return True
