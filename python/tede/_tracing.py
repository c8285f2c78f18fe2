"""What records the program now: queries that libraries make, and contexts in which they are true."""
import contextlib
import threading

_now = threading.local()


@contextlib.contextmanager
def recording(*kinds):
    """Within it these queries of this thread are true: "tracing", "exporting", "onnx"."""
    before = getattr(_now, "kinds", ())
    _now.kinds = (*before, *kinds)
    try:
        yield
    finally:
        _now.kinds = before


def _is(kind):
    return kind in getattr(_now, "kinds", ())


def is_tracing():
    """Whether torch.jit.trace records."""
    return _is("tracing")


def is_exporting():
    """Whether torch.export records."""
    return _is("exporting")


def is_compiling():
    """Whether torch.export records. tede.compile runs Python as it is, so nothing about a program has to change for it."""
    return _is("exporting")


def is_in_onnx_export():
    """Whether torch.onnx.export records."""
    return _is("onnx")


def _get_tracing_state():
    """Something while torch.jit.trace records, else None."""
    return True if _is("tracing") else None
