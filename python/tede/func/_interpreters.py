"""The levels of transforms by the names of PyTorch's extension (``torch._C._functorch``), for programs that handle them themselves.

A level is one entry of PyTorch's stack of interpreters; entering and leaving it are `_<kind>_increment_nesting` and
`_<kind>_decrement_nesting`, which give the level's number."""
import contextlib
import enum

from tede import _C
from tede.func import _vmap
from tede._subclasses import functional_tensor
from tede._sym import plain
from tede.func._levels import FUNCTIONALIZE, GRAD, JVP, VMAP

TransformType = enum.Enum("TransformType", "Torch Grad Jvp Functionalize Vmap", start=0)
RandomnessType = enum.Enum("RandomnessType", "Error Same Different", start=0)
_KINDS = {VMAP: TransformType.Vmap, GRAD: TransformType.Grad, JVP: TransformType.Jvp,
          FUNCTIONALIZE: TransformType.Functionalize}
_open = []                  # (kind, number) of the levels that were entered here


def _entered(kind, *arguments):
    number = _C._transform_enter(kind, *plain(arguments))
    _open.append((kind, number))
    return number


def _left(kind):
    if not _open or _open[-1] != (kind, _C._transform_level()):
        raise RuntimeError("the innermost level is of another kind, or was entered by a transform")
    _C._transform_leave()
    return _open.pop()[1]


def _vmap_increment_nesting(batch_size, randomness):
    return _entered(VMAP, batch_size, _vmap.RANDOMNESS[randomness])


def _grad_increment_nesting():
    return _entered(GRAD)


def _jvp_increment_nesting():
    return _entered(JVP)


def _func_increment_nesting(reapply_views):
    number = functional_tensor._enter(reapply_views)
    _open.append((FUNCTIONALIZE, number))
    return number


def _func_decrement_nesting():
    return _left(FUNCTIONALIZE)


def _vmap_decrement_nesting():
    return _left(VMAP)


def _grad_decrement_nesting():
    return _left(GRAD)


def _jvp_decrement_nesting():
    return _left(JVP)


# ---- the levels that are open ----------------------------------------------------------------------------------------

class CInterpreter:
    """One of them."""

    def __init__(self, kind, level, size, randomness):
        self._kind, self._level, self._size, self._randomness = kind, level, size, randomness

    def key(self):
        return _KINDS[self._kind]

    def level(self):
        return self._level

    def batchSize(self):
        return self._size

    def randomness(self):
        return (RandomnessType.Error, RandomnessType.Different, RandomnessType.Same, RandomnessType.Error)[self._randomness]


def maybe_current_level():
    return _C._transform_level() or None


def current_level():
    if not _C._transform_level():
        raise RuntimeError("no transform is active here")
    return _C._transform_level()


def get_dynamic_layer_stack_depth():
    return _C._transform_level()


def peek_interpreter_stack():
    """The innermost, or None."""
    level = _C._transform_level()
    if not level:
        return None
    kind, size, randomness = _C._transform_now()
    return CInterpreter(kind, level, size, randomness)


def get_interpreter_stack():
    """All, the outermost first, or None."""
    if not _C._transform_level():
        return None
    inner = peek_interpreter_stack()
    return (_C._transform_below(get_interpreter_stack) or []) + [inner]


# ---- wrappers --------------------------------------------------------------------------------------------------------

def _unwrap_batched(tensor, level):
    value, dim = _C._transform_unwrap(tensor, level)
    return value, None if dim < 0 else dim


_add_batch_dim, _remove_batch_dim = _vmap._add_batch_dim, _vmap._remove_batch_dim


def _wrap_for_grad(tensor, level):
    return _C._transform_wrap(tensor)


def _unwrap_for_grad(tensor, level):
    return _C._transform_unwrap(tensor, level)[0]


def is_functorch_wrapped_tensor(tensor):
    return _C._wrapper_level(tensor) > 0


def is_batchedtensor(tensor):
    return _C._is_batched(tensor)


def is_gradtrackingtensor(tensor):
    return _C._wrapper_level(tensor) > 0 and not _C._is_batched(tensor)


def _wrap_functional_tensor(tensor, level):
    return functional_tensor._to_functional(tensor, level)


def _unwrap_functional_tensor(tensor, add_back_views):
    """The value of a functional tensor, whose views were replaced by copies or not as its level says."""
    return tensor.from_functional() if is_functionaltensor(tensor) else tensor


def _propagate_functional_input_mutation(unwrapped, wrapped):
    functional_tensor.propagate_write(unwrapped, wrapped)


def is_functionaltensor(tensor):
    return isinstance(tensor, functional_tensor.FunctionalTensor)


def is_legacy_batchedtensor(tensor):
    return False


def is_dead_tensor_wrapper(tensor):
    return is_gradtrackingtensor(tensor) and _C._wrapper_level(tensor) > _C._transform_level()


def dlevel(tensor):
    """The level that a tensor belongs to: 0 for none, -1 if that is closed."""
    return -1 if is_dead_tensor_wrapper(tensor) else _C._wrapper_level(tensor)


def unwrap_if_dead(tensor):
    return get_unwrapped(tensor) if is_dead_tensor_wrapper(tensor) else tensor


def get_unwrapped(tensor):
    if not _C._wrapper_level(tensor):
        raise RuntimeError("No wrappers present!")
    return _C._transform_unwrap(tensor, -1)[0]


def maybe_get_level(tensor):
    return _C._wrapper_level(tensor) or -1


def maybe_get_bdim(tensor):
    return _C._transform_unwrap(tensor, -1)[1] if _C._is_batched(tensor) else -1


def reshape_dim_into(source, destination, tensor):
    """Dimension `source` becomes the outer part of what is dimension `destination` without it."""
    source %= tensor.dim()
    destination %= tensor.dim() - 1
    return tensor.movedim(source, destination).flatten(destination, destination + 1)


def reshape_dim_outof(source, size, tensor):
    """Dimension `source` becomes two, of which the first has this size."""
    return tensor.unflatten(source % tensor.dim(), (size, -1 if tensor.numel() else tensor.size(source) // size))


# ---- what is allowed -------------------------------------------------------------------------------------------------

_is_vmap_fallback_enabled = _vmap.is_fallback_allowed
_set_vmap_fallback_enabled = _vmap.allow_fallback
_set_vmap_fallback_warning_enabled = _C._set_vmap_fallback_warning_enabled

_single_level = True


def get_single_level_autograd_function_allowed():
    return _single_level


def set_single_level_autograd_function_allowed(allowed):
    """Kept for programs that ask; a Function is applied at all levels in any case."""
    global _single_level
    _single_level = bool(allowed)


@contextlib.contextmanager
def enable_single_level_autograd_function():
    """Within it, Functions may be applied to tensors of the innermost level; here they always may."""
    before = _single_level
    set_single_level_autograd_function_allowed(True)
    try:
        yield
    finally:
        set_single_level_autograd_function_allowed(before)
