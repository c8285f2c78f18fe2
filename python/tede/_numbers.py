"""Functions of the package over Python's numbers (sym_int, sym_max, ...), and those that PyTorch has removed."""
from tede import _C
from tede._sym import is_symbolic
from tede._override import overridable, overridable_members

_rounded = "high"               # or "medium", which allows no more than that here
_PRECISIONS = ("highest", "high", "medium")
_TF32 = 1                       # TD_PRODUCT_TF32 of <tede/device.h>


def set_float32_matmul_precision(precision):
    """How operands of float32 products may be rounded: "highest" not at all, else to TF32 where cuBLAS multiplies on
    the device; nothing changes on the CPU.

    >>> tede.set_float32_matmul_precision("highest")
    """
    global _rounded
    if precision not in _PRECISIONS:
        raise RuntimeError(f"invalid precision '{precision}': one of highest, high, medium")
    flags = _C._library_flags()
    _rounded = "medium" if precision == "medium" else "high"
    if precision == "highest":
        _C._set_library_flags(flags & ~_TF32)
    else:
        _C._set_library_flags(flags | _TF32)


def get_float32_matmul_precision():
    """"highest", "high" or "medium": see `set_float32_matmul_precision`.

    >>> tede.get_float32_matmul_precision()
    'highest'
    """
    return _rounded if _C._library_flags() & _TF32 else "highest"


# ---- numbers that a program may be symbolic in: plain ones here

@overridable
def sym_int(a):
    """The number, which may be symbolic, rounded towards zero.

    >>> tede.sym_int(2.7)
    2
    """
    import math
    if is_symbolic(a):
        return a.__sym_int__()
    return math.floor(a) if a >= 0 else math.ceil(a)


@overridable
def sym_float(a):
    """The number, which may be symbolic, as a float.

    >>> tede.sym_float(2)
    2.0
    """
    return a.__sym_float__() if is_symbolic(a) else float(a)


@overridable
def sym_not(a):
    """Not a, which may be symbolic.

    >>> tede.sym_not(False)
    True
    """
    return a.__sym_not__() if is_symbolic(a) else not a


@overridable
def sym_ite(b, t, f):
    """t if b, else f; b may be symbolic.

    >>> tede.sym_ite(True, 1, 2)
    1
    """
    if type(t) is not type(f):
        raise AssertionError(f"the two choices must have one type, not {type(t).__name__} and {type(f).__name__}")
    return t if b else f


@overridable
def sym_max(a, b):
    """The larger of both, which may be symbolic; a float if one of them is.

    >>> tede.sym_max(1, 2)
    2
    """
    if is_symbolic(a) or is_symbolic(b):
        return a.__sym_max__(b) if is_symbolic(a) else b.__sym_max__(a)
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


@overridable
def sym_min(a, b):
    """The smaller of both, which may be symbolic; a float if one of them is.

    >>> tede.sym_min(1, 2)
    1
    """
    if is_symbolic(a) or is_symbolic(b):
        return a.__sym_min__(b) if is_symbolic(a) else b.__sym_min__(a)
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


@overridable_members
def sym_sum(args):
    """The sum of a list of integers, which may be symbolic.

    >>> tede.sym_sum([1, 2])
    3
    """
    return sum(args)


@overridable
def sym_sqrt(a):
    """The root of a number, which may be symbolic.

    >>> tede.sym_sqrt(4)
    2.0
    """
    import math
    return a.__sym_sqrt__() if is_symbolic(a) else math.sqrt(a)


# ---- functions that PyTorch took out, with its advice

def _removed(name, instead):
    def call(*args, **kwargs):
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed. `torch.{name}` became {instead}.")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Removed: see {instead}."
    return call


eig = _removed("eig", "`torch.linalg.eig`, which gives complex tensors")
symeig = _removed("symeig", "`torch.linalg.eigh`, which takes the lower triangle unless told")
solve = _removed("solve", "`torch.linalg.solve`, which takes its arguments in the other order")
lstsq = _removed("lstsq", "`torch.linalg.lstsq`, which takes its arguments in the other order")
matrix_rank = _removed("matrix_rank", "`torch.linalg.matrix_rank`")
