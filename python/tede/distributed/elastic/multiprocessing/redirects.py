"""Sending a process's stdout or stderr to a file, with what C libraries write."""
import contextlib
import ctypes
import os
import sys
from functools import partial

__all__ = ["redirect", "redirect_stdout", "redirect_stderr", "get_libc"]


def get_libc():
    return ctypes.CDLL(None)


libc = get_libc()


def _flush(stream):
    stream.flush()
    libc.fflush(None)


@contextlib.contextmanager
def redirect(std, to_file):
    """Within it "stdout" or "stderr" goes to a file, which begins empty."""
    if std not in ("stdout", "stderr"):
        raise ValueError(f"unknown standard stream <{std}>, must be one of {{'stdout', 'stderr'}}")
    stream = getattr(sys, std)
    descriptor = {"stdout": 1, "stderr": 2}[std]
    before = os.dup(descriptor)
    try:
        with open(to_file, "w+b") as file:
            _flush(stream)
            os.dup2(file.fileno(), descriptor)
        replaced = None
        if not _writes_to(stream, descriptor):      # a test runner's own stream
            replaced = open(descriptor, "w", closefd=False)
            setattr(sys, std, replaced)
        try:
            yield
        finally:
            _flush(getattr(sys, std))
            if replaced is not None:
                setattr(sys, std, stream)
            os.dup2(before, descriptor)
    finally:
        os.close(before)


def _writes_to(stream, descriptor):
    try:
        return stream.fileno() == descriptor
    except Exception:
        return False


redirect_stdout = partial(redirect, "stdout")
redirect_stderr = partial(redirect, "stderr")
