"""functorch.compile: graphs of a function and its backward, for compilers. Programs that import it, and never compile, run."""
from tede._compat import fill as _fill


def nop(fx_g, _):
    """The compiler that leaves a graph as it is."""
    return fx_g


def make_boxed_func(f):
    """f of the members of one list."""
    def boxed(args):
        return f(*args)
    boxed._boxed_call = True
    return boxed


_fill(globals())
