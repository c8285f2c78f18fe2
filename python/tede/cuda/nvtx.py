"""Ranges for NVIDIA's profiler: there is none."""
from contextlib import contextmanager


def _refuse(*args, **kwargs):
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_push = range_pop = range_start = range_end = mark = _refuse


@contextmanager
def range(msg, *args, **kwargs):
    _refuse()
    yield
