"""What programs say to torch.compile's tracer. Nothing is traced (see compiler), so marks and switches have no effect."""
import sys

from tede._compat import fill as _fill
from tede.compiler import compile as _compile


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


def optimize(backend="inductor", *args, **kwargs):
    """A decorator that gives the function back, as torch.compile."""
    return _compile


eval_frame = decorators = sys.modules[__name__]         # PyTorch's modules of these names
_fill(globals())
