"""What programs say to torch.compile's tracer. Python isn't analysed (see compiler), so marks and switches have no effect."""
import sys

from tede._compat import fill as _fill
from tede._options import config  # noqa: F401
from tede.compiler import compile as _compile


def optimize(backend="inductor", *args, **kwargs):
    """A decorator that does what torch.compile does with this backend."""
    return lambda model: _compile(model, backend=backend)


def explain(f):
    """tede.compiler.explain, with the graphs that a backend would be passed."""
    from tede._region_report import explain
    return explain(f, lambda module, inputs: module)


eval_frame = decorators = sys.modules[__name__]         # PyTorch's modules of these names
_fill(globals())
