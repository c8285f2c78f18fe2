"""Checks that raise an error of a given type and message: torch._check(n > 0, lambda: f"n is {n}")."""
from tede import _C
from tede._sym import is_symbolic, SymBool


def _assert(condition, message):
    """assert, as a call; a traced condition becomes a node."""
    if type(condition) is not _C.Tensor and hasattr(type(condition), "__torch_function__"):
        from tede.overrides import handle_torch_function
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


def _assert_async(input, assert_msg=None):
    """RuntimeError, unless the tensor's only element is true; here it is looked at at once."""
    if not isinstance(input, _C.Tensor):
        raise TypeError(f"_assert_async(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not input:
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError, unless the tensor has the sizes, strides, dtype, device and layout that are given."""
    for name, expected, got in (("sizes", size, a.shape), ("strides", stride, None if stride is None else a.stride()),
                                ("dtype", dtype, a.dtype), ("device", device, a.device), ("layout", layout, a.layout)):
        if name in ("sizes", "strides") and expected is not None:
            expected, got = list(expected), list(got)
        if expected is not None and (_C.device(expected) if name == "device" else expected) != got:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {expected}, Got: {got}")


def _check_with(error_type, cond, message):
    if isinstance(cond, SymBool):
        cond = cond.node.expect_true()
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
                         "enhancement request to PyTorch.)")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _raising(name, error):
    def check(cond, message=None):
        _check_with(error, cond, message)
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise {error.__name__} unless the condition, a bool, holds."
    return check


_check, _check_index = _raising("_check", RuntimeError), _raising("_check_index", IndexError)
_check_value, _check_type = _raising("_check_value", ValueError), _raising("_check_type", TypeError)
_check_not_implemented = _raising("_check_not_implemented", NotImplementedError)


def _check_tensor_all_with(error_type, cond, message=None):
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    """Raise RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Raise RuntimeError unless a number can be a size."""
    _check(i >= 0, message)
    if is_symbolic(i) and i.node.expr.is_Symbol:
        i.node.shape_env.size_like.add(i.node.expr)
    if max is not None:
        _check(i <= max, message)
