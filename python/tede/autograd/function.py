"""Function: operators of one's own, with a backward written in Python."""
from tede import _C


class Function:
    """Subclasses give forward(ctx, *args) and backward(ctx, *grads), both static; call them by apply(*args).

    Or forward(*args) without ctx, and setup_context(ctx, inputs, output) beside it.
    """

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
                           "should invoke them on the class itself.")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function "
                                  "to use it with backward mode AD.")

    vjp = backward

    @classmethod
    def apply(cls, *args, **kwargs):
        if kwargs:
            raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
        if _C._transform_level() and not getattr(cls, "_lowered", False):
            from tede.func import _function
            return _function.apply(cls, args)
        context = _C._FunctionContext()
        if "setup_context" not in _names(cls):
            return _C._apply_function(cls, context, cls.forward, *args)

        def forward(ctx, *inputs):
            output = cls.forward(*inputs)
            cls.setup_context(ctx, inputs, output)
            return output
        return _C._apply_function(cls, context, forward, *args)


def _names(cls):
    """What classes between `cls` and Function define."""
    return {name for base in cls.__mro__[:cls.__mro__.index(Function)] for name in base.__dict__}


class NestedIOFunction(Function):
    """Here for its name: arguments must not be nested."""


FunctionCtx = BackwardCFunction = _C._FunctionContext


def once_differentiable(function):
    """A backward whose own gradient is an error: it runs without recording."""
    def wrapped(ctx, *grads):
        from tede._modes import no_grad
        recording = _C.is_grad_enabled()
        with no_grad():
            outputs = function(ctx, *grads)
        if not recording:
            return outputs
        tensors = [g for g in grads if isinstance(g, _C.Tensor) and g.requires_grad]
        if not tensors:
            return outputs
        several = isinstance(outputs, tuple)
        results = tuple(_Once.apply(len(tensors), *tensors, x) if isinstance(x, _C.Tensor) else x
                        for x in (outputs if several else (outputs,)))
        return results if several else results[0]
    wrapped.__name__ = function.__name__
    wrapped.__doc__ = function.__doc__
    return wrapped


class _Once(Function):
    """Hands its last argument on; going back through it is the error."""

    @staticmethod
    def forward(ctx, n, *tensors):
        return tensors[n].clone()

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
