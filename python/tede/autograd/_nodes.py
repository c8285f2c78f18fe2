"""What PyTorch's extension has under `torch._C._functions` besides operators: classes of nodes, and two calls for tests."""
from tede import _C
from tede.autograd.function import Error, Function


class UndefinedGrad(_C._Node):
    """UndefinedGrad()(x, ...): the arguments, to which no gradient comes back."""

    def __new__(cls):
        return lambda *inputs: _apply(_Undefined, inputs)


class DelayedError(_C._Node):
    """DelayedError(message, n)(x, ...): the arguments; going back through them is an error."""

    def __new__(cls, message, num_inputs):
        return lambda *inputs: _apply(Error, inputs, message)


def _apply(function, inputs, *more):
    made = function.apply(*more, *inputs)
    return made[0] if len(inputs) == 1 else made


class _Undefined(Function):
    @staticmethod
    def forward(ctx, *inputs):
        return tuple(x.view_as(x) for x in inputs)

    @staticmethod
    def backward(ctx, *grads):
        return (None,) * len(grads)


def named(name):
    """The class of nodes of this name."""
    if name in ("UndefinedGrad", "DelayedError"):
        return globals()[name]
    if name in ("AccumulateGrad", "CopySlices") or "Backward" in name:
        return _C._node_class(name)
    raise AttributeError(f"module 'torch._C._functions' has no attribute '{name}'")
