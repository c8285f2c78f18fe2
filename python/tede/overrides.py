"""Helpers for classes with a __torch_function__ of their own."""
from tede import _C


def has_torch_function(args):
    return _C._has_torch_function(args)


def has_torch_function_unary(x):
    return _C._has_torch_function_variadic(x)


has_torch_function_variadic = _C._has_torch_function_variadic
handle_torch_function = _C._handle_torch_function


def is_tensor_like(x):
    return type(x) is _C.Tensor or hasattr(x, "__torch_function__")


def resolve_name(f):
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None)
    return None if name is None else f"torch.{name}"
