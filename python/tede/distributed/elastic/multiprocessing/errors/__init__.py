"""Errors of processes: `record` writes the one that ends a main function where the launcher finds it, ChildFailedError reports what was found.

    @record
    def main(): ...
"""
import datetime
import functools
import json
import os
import signal
import time
from dataclasses import dataclass, field

from tede.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler
from tede.distributed.elastic.multiprocessing.errors.handlers import get_error_handler

__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]

_NOTHING = "<N/A>"


@dataclass
class ProcessFailure:
    """A process that failed: its exit code, and what its error file says."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = field(init=False, default_factory=lambda: {"message": "<NONE>"})
    message: object = field(init=False, default="")
    timestamp: int = field(init=False, default=0)

    def __post_init__(self):
        if not os.path.isfile(self.error_file):
            self.error_file, self.timestamp = _NOTHING, int(time.time())
            self.message = (f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}" if self.exitcode < 0 else
                            "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")
            return
        with open(self.error_file) as file:
            self.error_file_data = json.load(file)
        self.message, self.timestamp = self._get_error_data(self.error_file_data)

    @staticmethod
    def _get_error_data(data):
        message = data["message"]
        return message, int(data["timestamp"] if isinstance(message, str) else message["extraInfo"]["timestamp"])

    def signal_name(self):
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NOTHING

    def timestamp_isoformat(self):
        return datetime.datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Processes failed. `failures`: a ProcessFailure by rank; the message has all, the first that failed in front."""

    def __init__(self, name, failures):
        if not failures:
            raise AssertionError("a ChildFailedError is of at least one failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim="=", section_delim="-"):
        first, _ = self.get_first_failure()
        others = [self._format_failure(i, rank, f) for i, (rank, f) in enumerate(sorted(self.failures.items())) if rank != first]
        title, root = f"{self.name} FAILED", self._format_failure(0, first, self.failures[first])
        width = min(max(map(len, "\n".join([title, root, *others]).splitlines())), 60)
        return "\n".join(["", boarder_delim * width, title, section_delim * width, "Failures:", *(others or ["  <NO_OTHER_FAILURES>"]), section_delim * width,
                          "Root Cause (first observed failure):", root, boarder_delim * width])

    def _format_failure(self, i, rank, failure):
        said = failure.message
        if isinstance(said, dict):
            said = said.get("extraInfo", {}).get("py_callstack", said.get("message", _NOTHING))
        said = "\n  ".join(str(said).rstrip().splitlines())
        return "\n".join([f"[{i}]:", f"  time       : {failure.timestamp_isoformat()}", f"  host       : {os.uname().nodename}",
                          f"  rank       : {rank} (local_rank: {failure.local_rank})",
                          f"  exitcode   : {failure.exitcode} (pid: {failure.pid})" + (f" {failure.signal_name()}" if failure.exitcode < 0 else ""),
                          f"  error_file : {failure.error_file}", f"  traceback  : {said}"])


def record(fn, error_handler=None):
    """A main function whose error is written to the error file. A ChildFailedError hands on the file of the child that failed first."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def main(*args, **kwargs):
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:         # an end that is none of an error
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NOTHING:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
    return main
