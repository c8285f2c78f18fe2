"""torch.compile's names. Nothing is compiled: functions and modules are returned as they are, and one notice says so."""
from tede._notice import once as _once


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """The function or module itself. It runs operator by operator, as without compile."""
    if model is None:
        return lambda model: compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                     options=options, disable=disable)
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if not callable(model):
        raise RuntimeError(f"torch.compile: a function or a module is needed, not {type(model).__name__}")
    if not disable:
        _once("torch.compile", "torch.compile: tede runs programs as they are; the function or module is returned unchanged.")
    return model


def _decorator(fn=None, *args, **kwargs):
    return fn if callable(fn) else lambda fn: fn


disable = nested_compile_region = allow_in_graph = assume_constant_result = substitute_in_graph = _decorator


def reset():
    """Nothing is kept."""


def is_compiling():
    return False


def is_dynamo_compiling():
    return False


def is_exporting():
    return False


def list_backends(exclude_tags=()):
    return []


def cudagraph_mark_step_begin():
    """Accepted for compatibility."""


class set_stance:
    """Accepted for compatibility; a context manager and a decorator without an effect."""

    def __init__(self, stance="default", **kwargs):
        pass

    def __call__(self, fn):
        return fn

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass
