"""Override checks: whether classes and modes with a __torch_function__ take a call over, and a decorator that adds the check."""
from tede import _C

# Getters whose results stay what they are: the default __torch_function__ makes no subclass of them.
PLAIN_GETTERS = frozenset(_C.Tensor.__dict__[name] for name in ("_base", "grad", "_grad"))


def has_torch_function(relevant_args):
    """Whether one of them, or a mode, takes the call over."""
    return _C._has_torch_function(relevant_args)


def has_torch_function_unary(x):
    return _C._has_torch_function_variadic(x)


has_torch_function_variadic = _C._has_torch_function_variadic


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Hand a call over: to the innermost mode, then to the classes of the relevant arguments."""
    return _C._handle_torch_function(public_api, relevant_args, *args, **kwargs)


def _named_as(function, taken):
    """What functools.wraps does, whose import takes a part of ours."""
    taken.__name__, taken.__qualname__, taken.__doc__ = function.__name__, function.__qualname__, function.__doc__
    taken.__module__, taken.__wrapped__ = function.__module__, function
    return taken


def overridable(function):
    """The function, with a check for overrides first: classes with a __torch_function__ and modes may take its calls over."""
    def taken(*args, **kwargs):
        if _C._has_torch_function_variadic(*args):
            return _C._handle_torch_function(taken, args, *args, **kwargs)
        return function(*args, **kwargs)
    return _named_as(function, taken)


def overridable_members(function):
    """The same for a function of tensors that are given one by one or as one sequence."""
    def taken(*args, **kwargs):
        members = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if _C._has_torch_function_variadic(*members):
            return _C._handle_torch_function(taken, members, *args, **kwargs)
        return function(*args, **kwargs)
    return _named_as(function, taken)
