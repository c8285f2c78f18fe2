"""Parameter: a tensor that an optimizer changes and a module registers. How it is pickled is with the pickles of tensors, see _tensor."""
from tede import _C
from tede._C import Tensor


class _ParameterMeta(_C._TensorMeta):
    """Tensors of other classes can be parameters too: those that are marked count as instances."""

    def __instancecheck__(cls, x):
        return super().__instancecheck__(x) or (
            cls is Parameter and isinstance(x, Tensor) and getattr(x, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module learns: assigned to one, it is found by `parameters()`.

        data: the tensor; None is an empty one. Memory is shared with it.
        requires_grad: whether gradients are computed for it.

    >>> layer = nn.Module()
    >>> layer.weight = nn.Parameter(tede.zeros(2))
    >>> [name for name, _ in layer.named_parameters()]
    ['weight']
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> "Parameter":
        if data is None:
            data = _C._functions["empty"](0)
        elif type(data) is not Tensor and type(data) is not Parameter:
            marked = data.detach().requires_grad_(requires_grad)
            if type(marked) is not type(data):
                raise RuntimeError(f"Creating a Parameter from an instance of type {type(data).__name__} requires that "
                                   f"detach() returns an instance of the same type, but return type "
                                   f"{type(marked).__name__} was found instead.")
            marked._is_param = True
            return marked
        return Tensor._make_subclass(cls, data, requires_grad)

    def __repr__(self, *, tensor_contents=None):
        return "Parameter containing:\n" + super().__repr__(tensor_contents=tensor_contents)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
            if self.__dict__:
                from copy import deepcopy
                memo[id(self)].__dict__.update(deepcopy(self.__dict__, memo))
        return memo[id(self)]


Parameter.__module__ = "tede.nn.parameter"
_C._register_parameter(Parameter)
