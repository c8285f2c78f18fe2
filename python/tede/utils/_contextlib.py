"""Context managers that are decorators too."""
from tede._modes import _Mode, _wrap


def context_decorator(context, function):
    """`function`, run within a new context at each call; a class as context is made anew, a function is called."""
    if not callable(context):
        raise TypeError(f"the context must be a class or a function that makes one, not {type(context).__name__}")
    return _wrap(function, context)


class _DecoratorContextManager(_Mode):
    """What no_grad and its kin are: usable with `with`, and around functions and generators."""

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, *exception):
        raise NotImplementedError


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for classes that take no arguments: they can be used without parentheses."""

    def __new__(cls, function=None):
        made = super().__new__(cls)
        return made if function is None else made(function)
