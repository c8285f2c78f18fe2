"""Forward mode: dual numbers, whose tangents are carried along by the operators themselves."""
from collections import namedtuple

from tede import _C
from tede._C import Tensor
from tede.autograd import function
from tede.autograd.function import _dual_levels

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ("primal", "tangent"))
UnpackedDualTensor.__doc__ = """\
What `unpack_dual` gives: (primal, tangent).

>>> import tede.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     fwAD.unpack_dual(fwAD.make_dual(tede.tensor(1.0), tede.tensor(2.0))).tangent
tensor(2.)
"""
_current_level = -1


def enter_dual_level():
    """Open the level at which `make_dual` works; there is one at a time (RuntimeError). Prefer `dual_level`.

    >>> import tede.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level(level=level)
    """
    global _current_level
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _current_level = 0
    _dual_levels.append(0)
    return 0


def exit_dual_level(*, level=None):
    """Close the level; tensors lose their tangents.

    >>> import tede.autograd.forward_ad as fwAD
    >>> _ = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level()
    """
    global _current_level
    level = _current_level if level is None else level
    if level != _current_level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    _current_level = -1
    _dual_levels.clear()
    _C._end_dual_level()


def _maybe_level(level):
    level = _current_level if level is None else level
    return level


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` that carries `tangent`, of its shape and dtype (RuntimeError): the direction along which
    derivatives are computed.

    >>> import tede.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(fwAD.make_dual(tede.tensor(1.0), tede.tensor(1.0)).exp()).tangent
    tensor(2.7183)
    """
    if _maybe_level(level) < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for x, name in ((tensor, "primal"), (tangent, "tangent")):
        if not (isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {getattr(x, 'dtype', type(x))}")
    if _at_vmap(tensor, tangent):
        return _make_batched(tensor, tangent)
    return _C._make_dual(tensor, tangent)


def _at_vmap(*tensors):
    return _C._transform_level() and _C._transform_now()[0] == 0 and any(_C._transform_unwrap(x)[1] >= 0 for x in tensors)


def _make_batched(tensor, tangent):
    """At a vmap level tangents belong to what is wrapped, for operators run below the level."""
    size = _C._transform_now()[1]

    def front(x, dim):
        return x.movedim(dim, 0) if dim >= 0 else x.expand(size, *x.shape)
    (x, at), (t, to) = _C._transform_unwrap(tensor), _C._transform_unwrap(tangent)
    if to >= 0 and tangent.stride() != tensor.stride() and 0 not in tensor.stride():
        tangent = tangent.new_empty_strided(tensor.shape, tensor.stride()).copy_(tangent)       # members' tangents lie as their values do
        t, to = _C._transform_unwrap(tangent)
    below = _C._transform_below(front, t, to)
    dual = _C._transform_wrap(_C._transform_below(lambda: make_dual(front(x, at), below)), 0)
    dual._tede_tangent = tangent, below         # for unpack_dual, which gives the tangent itself
    return dual


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor at the level; the tangent is None where there is none.

    >>> import tede.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     fwAD.unpack_dual(tede.tensor(1.0)).tangent is None
    True
    """
    if _maybe_level(level) < 0:
        return UnpackedDualTensor(tensor, None)
    if isinstance(tensor, Tensor) and _at_vmap(tensor):
        value, dim = _C._transform_unwrap(tensor)
        primal, tangent = _C._transform_below(unpack_dual, value)
        given, below = getattr(tensor, "_tede_tangent", (None, None))
        if tangent is None or tangent is not below:
            given = None if tangent is None else _C._transform_wrap(tangent, dim)
        return UnpackedDualTensor(_C._transform_wrap(primal, dim), given)
    return UnpackedDualTensor(*_C._unpack_dual(tensor))


function.older_duals = unpack_dual, make_dual


class dual_level:
    """``with dual_level():`` opens the level at which tensors carry tangents: derivatives are computed along with the
    values.

    >>> import tede.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     y = fwAD.make_dual(tede.tensor(3.0), tede.tensor(1.0)) ** 2
    ...     fwAD.unpack_dual(y).tangent
    tensor(6.)
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *failure):
        exit_dual_level()


def _is_fwd_grad_enabled():
    return _C._is_forward_enabled()


class _set_fwd_grad_enabled:
    """Whether tangents are carried along; also as a context."""

    def __init__(self, mode):
        self.before = _C._set_forward_enabled(mode)

    def __enter__(self):
        return None

    def __exit__(self, *failure):
        _C._set_forward_enabled(self.before)
