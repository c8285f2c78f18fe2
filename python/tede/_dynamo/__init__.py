"""What programs say to torch.compile's tracer. Nothing is traced (see compiler), so marks and switches have no effect."""
import sys

from tede.compiler import (  # noqa: F401
    allow_in_graph, assume_constant_result, disable, is_compiling, is_dynamo_compiling, list_backends, reset, substitute_in_graph)


class _Config:
    """Any option can be set and read back; an option that nobody set is None."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def patch(self, *args, **kwargs):
        from contextlib import ContextDecorator, ExitStack

        class Nothing(ContextDecorator, ExitStack):
            """A context, and a decorator, that changes nothing."""
        return Nothing()


config = _Config()


def mark_dynamic(t, index, *args, **kwargs):
    """Accepted for compatibility."""


def mark_static(t, index=None):
    """Accepted for compatibility."""


def mark_static_address(t, guard=False):
    """Accepted for compatibility."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic


def graph_break(msg=""):
    """Accepted for compatibility."""


def is_dynamo_supported():
    """False."""
    return False


def disallow_in_graph(fn):
    return fn


forbid_in_graph = disallow_in_graph


def optimize(backend="inductor", *args, **kwargs):
    """A decorator that gives the function back, as torch.compile."""
    from tede.compiler import compile
    return compile


def export(f, *args, **kwargs):
    raise NotImplementedError("torch._dynamo.export: programs can't be exported as graphs")


def explain(f, *args, **kwargs):
    raise NotImplementedError("torch._dynamo.explain: nothing is traced here; python -m tede.explain shows what ran")


class OptimizedModule:
    """What torch.compile makes of a module elsewhere. Here it gives the module itself: nothing is an instance."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("torch._dynamo.OptimizedModule: torch.compile returns the module itself here")


eval_frame = decorators = sys.modules[__name__]         # PyTorch's modules of these names
