"""spawn(fn, args, nprocs): run a function in several processes; the first failure ends them all."""
import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing import connection

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
           "start_processes"]


class ProcessException(Exception):
    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process was killed or left with a code."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _end_with_parent(number):
    """Let the system send this process a signal when the one that started it ends, which may be killed."""
    ctypes.CDLL(None).prctl(1, number)          # PR_SET_PDEATHSIG


def _wrap(fn, i, args, error_file):
    _end_with_parent(signal.SIGINT)
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


PATIENCE = 30           # seconds that a process has to end once it was sent SIGTERM
_log = logging.getLogger(__name__)


class ProcessContext:
    """The processes of a spawn()."""

    def __init__(self, processes, error_files):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def _wait_for_all(self, seconds):
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def join(self, timeout=None, grace_period=None):
        """Wait for one process to end; True once all have. Raises if one failed, after ending the others: they have `grace_period` seconds
        to end as they will, then PATIENCE seconds to do so when they are asked, by SIGTERM."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in connection.wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            return not self.sentinels
        if grace_period is not None:
            self._wait_for_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._wait_for_all(PATIENCE)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Unable to shutdown process %s via SIGTERM, forcefully exiting via SIGKILL", process.pid)
                process.kill()
            process.join()
        process = self.processes[failed]
        text = None
        for i, name in enumerate(self.error_files):
            if os.path.exists(name):
                if i == failed and os.path.getsize(name):
                    with open(name, "rb") as file:
                        text = pickle.load(file)
                os.unlink(name)
        if text is not None:
            raise ProcessRaisedException(f"\n\n-- Process {failed} terminated with the following error:\n{text}", failed,
                                         process.pid)
        if process.exitcode < 0:
            try:
                name = signal.Signals(-process.exitcode).name
            except ValueError:
                name = f"<Unknown signal {-process.exitcode}>"
            raise ProcessExitedException(f"process {failed} terminated with signal {name}", failed, process.pid,
                                         process.exitcode, name)
        raise ProcessExitedException(f"process {failed} terminated with exit code {process.exitcode}", failed, process.pid,
                                     process.exitcode)


SpawnContext = ProcessContext


ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"      # 1: a fork server starts them at once


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    context = multiprocessing.get_context(start_method)

    def started_process(i):
        file = tempfile.NamedTemporaryFile(prefix="pytorch-errorfile-", suffix=".pickle", delete=False)
        file.close()
        os.unlink(file.name)                # a process that fails makes it again
        process = context.Process(target=_wrap, args=(fn, i, args, file.name), daemon=daemon)
        process.start()
        return process, file.name
    at_once = start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "1"
    if at_once and nprocs:
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(nprocs) as pool:
            pairs = list(pool.map(started_process, range(nprocs)))
    else:
        pairs = [started_process(i) for i in range(nprocs)]
    started = ProcessContext([process for process, _ in pairs], [name for _, name in pairs])
    if not join:
        return started
    while not started.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run fn(i, *args) in nprocs processes."""
    if start_method != "spawn":
        warnings.warn(f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method "
                      "use:\n\t\t torch.multiprocessing.start_processes(...)", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
