"""Processes of one host, from functions or commands, with their output in files or on the console, and the first failure among them."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import IntFlag

import tede.multiprocessing as mp
from tede.distributed.elastic.multiprocessing.errors import ProcessFailure, record
from tede.distributed.elastic.multiprocessing.redirects import libc, redirect_stderr, redirect_stdout
from tede.distributed.elastic.multiprocessing.tail_log import TailLog

__all__ = ["DefaultLogsSpecs", "SignalException", "Std", "to_map", "RunProcsResult", "PContext", "get_std_cm", "MultiprocessContext", "SubprocessContext",
           "LogsDest", "LogsSpecs"]

_GRACE = 30                     # seconds between asking processes to end and ending them


class SignalException(Exception):
    """The launcher got a signal that ends it."""

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


def _terminate_process_handler(signum, frame):
    name = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {name}", sigval=name)


class Std(IntFlag):
    """Which of a process's streams."""
    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """"3", or by local rank, "0:1,1:2"."""
        if re.fullmatch(r"[0-3]", vm):
            return cls(int(vm))
        if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", vm):
            return {int(rank): cls(int(what)) for rank, _, what in (part.partition(":") for part in vm.split(","))}
        raise ValueError(f"{vm} does not match: <0..3>, or <rank>:<0..3>,<rank>:<0..3>,...")


def to_map(val_or_map, local_world_size):
    """A value for all local ranks, or a map that has none for some, as one by each."""
    if isinstance(val_or_map, Std):
        return {i: val_or_map for i in range(local_world_size)}
    return {i: val_or_map.get(i, Std.NONE) for i in range(local_world_size)}


@dataclass
class LogsDest:
    """Files by local rank; "" is the console."""
    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)
    tee_stdouts: dict = field(default_factory=dict)
    tee_stderrs: dict = field(default_factory=dict)
    error_files: dict = field(default_factory=dict)


class LogsSpecs(ABC):
    """What of the processes' output goes where."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter = log_dir, redirects, tee, local_ranks_filter

    @abstractmethod
    def reify(self, envs):
        """The LogsDest of processes with these variables."""

    @property
    @abstractmethod
    def root_log_dir(self):
        """The folder of all runs."""


class DefaultLogsSpecs(LogsSpecs):
    """log_dir/RUN_random/attempt_N/RANK/stdout.log, stderr.log and error.json. Without a folder, one is made, and removed in the end if nothing is in it."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        if log_dir and os.path.exists(log_dir) and not os.path.isdir(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir = None

    @property
    def root_log_dir(self):
        return str(self._root_log_dir) if self._root_log_dir else None

    def _make_log_dir(self, log_dir, rdzv_run_id):
        base = log_dir or tempfile.mkdtemp(prefix="torchelastic_")
        os.makedirs(base, exist_ok=True)
        self._made = None if log_dir else base
        return tempfile.mkdtemp(prefix=f"{rdzv_run_id}_", dir=base)

    def reify(self, envs):
        n = len(envs)
        first = envs.get(0, {})
        if self._run_log_dir is None:
            self._run_log_dir = self._make_log_dir(self._root_log_dir, first.get("TORCHELASTIC_RUN_ID", "test_run_id"))
        attempt = os.path.join(self._run_log_dir, f"attempt_{first.get('TORCHELASTIC_RESTART_COUNT', 0)}")
        shutil.rmtree(attempt, ignore_errors=True)
        os.makedirs(attempt)
        if attempt == os.devnull:
            raise AssertionError("the folder of an attempt is none that writes can go to")
        redirects, tee = to_map(self._redirects, n), to_map(self._tee, n)
        made = LogsDest()
        for i in range(n):
            folder = os.path.join(attempt, str(i))
            os.makedirs(folder)
            silent = self._local_ranks_filter is not None and i not in self._local_ranks_filter      # its output goes to files alone
            for bit, name in ((Std.OUT, "stdout"), (Std.ERR, "stderr")):
                path = os.path.join(folder, name + ".log")
                getattr(made, name + "s")[i] = path if (redirects[i] | tee[i]) & bit or silent else ""
                if tee[i] & bit and not silent:
                    getattr(made, f"tee_{name}s")[i] = path
            made.error_files[i] = os.path.join(folder, "error.json")
            if i in envs:
                envs[i]["TORCHELASTIC_ERROR_FILE"] = made.error_files[i]
        return made

    def clean(self):
        """Remove a folder of our own making in which there is nothing to read."""
        if self._run_log_dir and self._made and not any(files for _, _, files in os.walk(self._made)):
            shutil.rmtree(self._made, ignore_errors=True)
            self._run_log_dir = None

    def __repr__(self):
        return f"DefaultLogsSpecs(root_log_dir={self._root_log_dir}, redirects={self._redirects}, tee={self._tee}, local_ranks_filter={self._local_ranks_filter})"

    def __eq__(self, other):
        return isinstance(other, DefaultLogsSpecs) and repr(self) == repr(other)

    __hash__ = None


@dataclass
class RunProcsResult:
    """How processes have ended, by local rank. Commands return None."""
    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)

    def is_failed(self):
        return len(self.failures) > 0


def _validate_full_rank(d, nprocs, what):
    if set(d) != set(range(nprocs)):
        raise RuntimeError(f"{what}, local rank mapping mismatch, expected: {set(range(nprocs))}, actual: {set(d)}")


class PContext(ABC):
    """Processes that were started together."""

    def __init__(self, name, entrypoint, args, envs, logs_specs, log_line_prefixes=None):
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs = len(args)
        dest = logs_specs.reify(envs)
        _validate_full_rank(dest.stdouts, len(envs), "stdouts")
        _validate_full_rank(dest.stderrs, len(envs), "stderrs")
        self.stdouts, self.stderrs, self.error_files = dest.stdouts, dest.stderrs, dest.error_files
        self._stdout_tail = TailLog(name, dest.tee_stdouts, sys.stdout, log_line_prefixes)
        self._stderr_tail = TailLog(name, dest.tee_stderrs, sys.stderr, log_line_prefixes)
        self._handlers = {}

    def start(self):
        if threading.current_thread() is threading.main_thread():
            for text in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT").split(","):
                number = getattr(signal, text.strip())
                self._handlers[number] = signal.signal(number, _terminate_process_handler)
        self._start()
        self._stdout_tail.start()
        self._stderr_tail.start()

    @abstractmethod
    def _start(self):
        """Start the processes."""

    @abstractmethod
    def _poll(self):
        """A RunProcsResult if all have ended, or one has failed; then the others are ended."""

    def wait(self, timeout=-1, period=1):
        """The result; None if there is none within `timeout` seconds (0: as it is now, below: no end). `period`: between looks at the processes."""
        if timeout == 0:
            return self._poll()
        end = sys.maxsize if timeout < 0 else time.monotonic() + timeout
        while time.monotonic() < end:
            result = self._poll()
            if result is not None:
                return result
            time.sleep(period)
        return None

    @abstractmethod
    def pids(self):
        """{local rank: number of the process}"""

    @abstractmethod
    def _close(self, death_sig, timeout=_GRACE):
        """End the processes."""

    def close(self, death_sig=None, timeout=_GRACE):
        """End the processes that are left: by a signal, and after some seconds by SIGKILL."""
        self._close(death_sig or signal.SIGTERM, timeout)
        self._stdout_tail.stop()
        self._stderr_tail.stop()
        for number, handler in self._handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        self._handlers = {}


def get_std_cm(std_rd, redirect_fn):
    return redirect_fn(std_rd) if std_rd else nullcontext()


def _wrap(local_rank, fn, args, envs, stdout_redirects, stderr_redirects, ret_vals, queue_finished_reading_event, numa_options=None):
    """A function in its process. It ends after its value has been read, which lies in a pipe until then."""
    with get_std_cm(stdout_redirects[local_rank], redirect_stdout), get_std_cm(stderr_redirects[local_rank], redirect_stderr):
        os.environ.update(envs[local_rank])
        ret_vals[local_rank].put(record(fn)(*args[local_rank]))
        queue_finished_reading_event.wait()


class MultiprocessContext(PContext):
    """Processes of a function."""

    def __init__(self, name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes=None):
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes)
        self.start_method = start_method
        context = mp.get_context(start_method)
        self._ret_vals = {i: context.SimpleQueue() for i in range(self.nprocs)}
        self._return_values, self._pc = {}, None
        self._worker_finished_event = context.Event()

    def _start(self):
        if self._pc:
            raise ValueError("The process context already initialized. Most likely the start method got called twice.")
        self._pc = mp.start_processes(_wrap, (self.entrypoint, self.args, self.envs, self.stdouts, self.stderrs, self._ret_vals, self._worker_finished_event),
                                      self.nprocs, join=False, daemon=False, start_method=self.start_method)

    def _is_done(self):
        return len(self._return_values) == self.nprocs

    def _poll(self):
        if self._pc is None:
            raise AssertionError("start() comes before wait()")
        try:
            self._pc.join(-1)           # raises if one has failed
            for i, queue in self._ret_vals.items():
                if i not in self._return_values and not queue.empty():
                    self._return_values[i] = queue.get()
            if not self._is_done():
                return None
            self._worker_finished_event.set()
            while not self._pc.join():
                pass
            self.close()
            return RunProcsResult(self._return_values, {}, self.stdouts, self.stderrs)
        except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
            failed = error.error_index
            failure = ProcessFailure(failed, error.pid, self._pc.processes[failed].exitcode, self.error_files[failed])
            self.close()
            return RunProcsResult({}, {failed: failure}, self.stdouts, self.stderrs)

    def pids(self):
        if self._pc is None:
            raise AssertionError("start() comes before pids()")
        return dict(enumerate(self._pc.pids()))

    def _close(self, death_sig, timeout=_GRACE):
        for process in self._pc.processes if self._pc else ():
            if process.is_alive():
                os.kill(process.pid, death_sig)
        end = time.monotonic() + timeout
        for process in self._pc.processes if self._pc else ():
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
            process.join()


def _end_with_launcher():
    """In a new process: be killed when the launcher ends, however that happens."""
    libc.prctl(1, signal.SIGKILL)               # PR_SET_PDEATHSIG


class SubprocessHandler:
    """A command's process and the files that it writes."""

    def __init__(self, entrypoint, args, env, stdout, stderr, local_rank_id):
        self._files = [open(path, "wb") if path else None for path in (stdout, stderr)]
        self.local_rank_id = local_rank_id
        self.proc = subprocess.Popen([entrypoint, *map(str, args)], env={**os.environ, **env}, stdout=self._files[0], stderr=self._files[1],
                                     preexec_fn=_end_with_launcher)

    def close(self, death_sig=None):
        self.proc.send_signal(death_sig or signal.SIGTERM)
        self.close_files()

    def close_files(self):
        for file in self._files:
            if file is not None:
                file.close()


class SubprocessContext(PContext):
    """Processes of a command."""

    def __init__(self, name, entrypoint, args, envs, logs_specs, log_line_prefixes=None):
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes)
        self._running_local_ranks, self._failures, self.subprocess_handlers = set(range(self.nprocs)), {}, {}

    def _start(self):
        if self.subprocess_handlers:
            raise ValueError("The subprocess handlers already initialized. Most likely the start method got called twice.")
        for i in range(self.nprocs):
            self.subprocess_handlers[i] = SubprocessHandler(self.entrypoint, self.args[i], self.envs[i], self.stdouts[i], self.stderrs[i], i)

    def _poll(self):
        for i in sorted(self._running_local_ranks):
            process = self.subprocess_handlers[i].proc
            code = process.poll()
            if code is not None:
                self._running_local_ranks.discard(i)
                if code != 0:
                    self._failures[i] = ProcessFailure(i, process.pid, code, self.error_files[i])
        if self._running_local_ranks and not self._failures:
            return None
        self.close()
        return RunProcsResult({} if self._failures else {i: None for i in range(self.nprocs)}, self._failures, self.stdouts, self.stderrs)

    def pids(self):
        return {i: handler.proc.pid for i, handler in self.subprocess_handlers.items()}

    def _close(self, death_sig, timeout=_GRACE):
        handlers = self.subprocess_handlers.values()
        for handler in handlers:
            if handler.proc.poll() is None:
                handler.proc.send_signal(death_sig)
        end = time.monotonic() + timeout
        for handler in handlers:
            try:
                handler.proc.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                handler.proc.kill()
                handler.proc.wait()
            handler.close_files()
