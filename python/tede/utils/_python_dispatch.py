"""__torch_dispatch__: modes that see every operator below autograd, and helpers for classes that do."""
import contextlib
import threading

import tede
from tede import _C

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "transform_subclass", "return_and_correct_aliasing",
           "BaseTorchDispatchMode"]


_entered = threading.local()        # how many modes, and how many of them that are of the machinery


class TorchDispatchMode:
    """Within it, its __torch_dispatch__(func, types, args, kwargs) gets every operator; func is one of tede.ops."""

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key=None):
        if _dispatch_key is not None:
            self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_on_torch_dispatch_stack(self)
        _entered.modes = getattr(_entered, "modes", 0) + 1
        _entered.infra = getattr(_entered, "infra", 0) + self.is_infra_mode()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _C._pop_torch_dispatch_stack()
        _entered.modes -= 1
        _entered.infra -= self.is_infra_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        import warnings
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    stack = _C._torch_dispatch_stack()
    return stack[-1] if stack else None


def _get_current_dispatch_mode_stack():
    return _C._torch_dispatch_stack()


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Whether this runs within a mode, or within what a mode's handler calls."""
    return getattr(_entered, "modes", 0) > (0 if include_infra_modes else getattr(_entered, "infra", 0))


def _len_torch_dispatch_stack_no_pre_dispatch():
    return len(_C._torch_dispatch_stack())


@contextlib.contextmanager
def _pop_mode_temporarily(k=None):
    mode = _C._pop_torch_dispatch_stack()
    try:
        yield mode
    finally:
        _C._push_on_torch_dispatch_stack(mode)


@contextlib.contextmanager
def _disable_current_modes():
    """All modes are left within it; gives them."""
    modes = [_C._pop_torch_dispatch_stack() for _ in _C._torch_dispatch_stack()]
    try:
        yield list(reversed(modes))
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_dispatch_stack(mode)


@contextlib.contextmanager
def no_dispatch():
    """Within it no __torch_dispatch__ is called."""
    before = _C._set_python_excluded(True)
    try:
        yield
    finally:
        _C._set_python_excluded(before)


def is_traceable_wrapper_subclass(t):
    """A tensor of a class that can be taken apart: __tensor_flatten__ and __tensor_unflatten__."""
    return (isinstance(t, tede.Tensor) and type(t) is not tede.Tensor and hasattr(t, "__tensor_flatten__")
            and hasattr(t, "__tensor_unflatten__"))


def is_traceable_wrapper_subclass_type(t):
    return issubclass(t, tede.Tensor) and t is not tede.Tensor and hasattr(t, "__tensor_flatten__") and \
        hasattr(t, "__tensor_unflatten__")


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Such a tensor of the same class, with callback(name, inner tensor) in place of each inner tensor."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if made.shape != tuple(outer_size):
        raise AssertionError(f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {outer_size}, but "
                             f"got: {made.shape}")
    return made


def return_and_correct_aliasing(func, args, kwargs, out):
    """What a handler returns, with operands in the place of results that are the written operands."""
    schema = func._schema
    values = dict(zip((a.name for a in schema.arguments), args), **kwargs)
    written = {tuple(sorted(a.alias_info.before_set)): values.get(a.name) for a in schema.arguments
               if a.alias_info is not None and a.alias_info.is_write}

    def correct(result, value):
        if result.alias_info is None or not result.alias_info.is_write:
            return value
        return written.get(tuple(sorted(result.alias_info.before_set)), value)
    if not written:
        return out
    if len(schema.returns) == 1:
        return correct(schema.returns[0], out)
    return type(out)(correct(r, v) for r, v in zip(schema.returns, out))
