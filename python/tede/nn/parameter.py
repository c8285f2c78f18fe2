"""Tensors that a module owns: parameters, which optimizers change, and buffers, which are only state.

`Parameter` itself is a C type, for a module's call must not pay for it. The uninitialized kinds, whose shape the first
input decides, are Python.
"""
from ._native import T

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tede._parameter import Parameter as Parameter
else:
    Parameter = T.Parameter
_ParameterMeta = type(Parameter)


class _BufferMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, T.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned to an attribute: it is saved and moved with the
    module, and not trained.

        data: the tensor; None is an empty one.
        persistent: whether it belongs to `state_dict()`.

    The result is a plain tensor with a mark, which shares `data`'s memory.

    >>> layer = nn.Module()
    >>> layer.mean = nn.Buffer(tede.zeros(3))
    >>> list(layer.state_dict())
    ['mean']
    """

    def __new__(cls, data: T.Tensor | None = None, *, persistent: bool = True):
        if data is None:
            data = T.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor that knows its dtype and device, but not yet its shape. Only moving and converting it is allowed before
    `materialize`; everything else is a ValueError.

    >>> try:
    ...     nn.UninitializedParameter() + 1
    ... except ValueError as error:
    ...     print(str(error)[:45])
    Attempted to use an uninitialized parameter i
    """

    # What may be done before: moving and converting, as a module does with all that it holds.
    _allowed_methods = frozenset((
        "__hash__", "size", "copy_", "is_complex", "is_floating_point", "requires_grad_", "half", "float", "double",
        "bfloat16", "char", "short", "int", "long", "cuda", "cpu", "to", "type", "get_device", "__repr__"))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if type(func).__name__ != "method-wrapper" and getattr(func, "__name__", "") not in cls._allowed_methods:
            raise ValueError(
                f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a "
                f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
                "LazyModules Call `forward` with a dummy batch to initialize the parameters before calling torch "
                "functions")
        with T._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if cls.cls_to_become is T.Tensor and type(result) is T.Tensor:      # a module keeps what `to` makes of a buffer
            result = T.Tensor._make_subclass(cls, result)
        return result

    def materialize(self, shape, device=None, dtype=None):
        """Become a tensor of `shape` in place: whoever holds this parameter, an optimizer say, keeps it."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = T.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        """There is none yet: a RuntimeError says so."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
            "Call `forward` to initialize the parameters before accessing their attributes.")

    def share_memory_(self):
        """There is no memory yet: a RuntimeError says so."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
            "parameters before calling `module.share_memory()`.")

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, proto):
        return type(self), (self.requires_grad, self.data.device, self.data.dtype)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


def is_lazy(tensor: T.Tensor) -> bool:
    """Whether `tensor` has no shape yet.

    >>> from tede.nn.parameter import is_lazy
    >>> is_lazy(nn.LazyLinear(3).weight)
    True
    """
    return isinstance(tensor, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is decided later; see `LazyLinear` and its kin. `materialize` gives it one, in place.

        requires_grad, device, dtype: as of a parameter.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape, type(weight).__name__
    (tede.Size([2, 3]), 'Parameter')
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: T.device | str | int | None = None,
                dtype: T.dtype | None = None):
        return _make_lazy(cls, requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, T.Tensor):
    """A buffer whose shape is decided later. `materialize` gives it one, in place.

        requires_grad, device, dtype: as of a tensor.
        persistent: whether it is in `state_dict`.

    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> mean.shape
    tede.Size([3])
    """

    cls_to_become = T.Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        buffer = _make_lazy(cls, requires_grad, device, dtype)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def _make_lazy(cls, requires_grad, device, dtype):
    return T.Tensor._make_subclass(cls, T.empty(0, device=device, dtype=dtype), requires_grad)
