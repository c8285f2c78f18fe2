"""The Python array API standard (2024.12) over tede: what x.__array_namespace__() gives.

Most functions are the package's own: keywords axis and keepdims are understood everywhere. Here is what the standard
names or defines otherwise: promotion of sums to the default integer, results as named tuples, dtypes by kind.
"""
import builtins
from collections import namedtuple

import tede
from tede import (  # noqa: F401
    bool, complex64, complex128, e, float32, float64, inf, int8, int16, int32, int64, nan, newaxis, pi, uint8, uint16, uint32,
    uint64)

__array_api_version__ = "2024.12"

_SAME = ("abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 "
         "logical_not real reciprocal round rsqrt "
         "signbit sin sinh sqrt square tan tanh trunc matmul broadcast_to broadcast_shapes isin moveaxis empty zeros ones "
         "empty_like zeros_like ones_like full_like arange from_dlpack asarray where argmax argmin "
         "negative positive conj imag can_cast reshape squeeze stack tile unstack").split()
_TWO = ("add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide "
        "greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply "
        "nextafter not_equal pow subtract").split()
_OTHER = {"bitwise_invert": "bitwise_not", "concat": "cat", "unstack": "unbind", "less_equal": "le", "greater_equal": "ge", "equal": "eq",
          "not_equal": "ne"}
_KINDS = {"bool": (bool,), "signed integer": (int8, int16, int32, int64), "unsigned integer": (uint8, uint16, uint32, uint64),
          "real floating": (float32, float64), "complex floating": (complex64, complex128)}
_WIDE = (uint16, uint32, uint64)
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]

UniqueAllResult = namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = namedtuple("UniqueInverseResult", "values inverse_indices")


def __getattr__(name):
    if name in _TWO:
        value = globals()[name] = _of_two(name, getattr(tede, _OTHER.get(name, name)))
        return value
    if name in _SAME or name in _OTHER:
        value = globals()[name] = getattr(tede, _OTHER.get(name, name))
        return value
    raise AttributeError(f"the array API has no '{name}' here")


def __dir__():
    return sorted({name for name in globals() if not name.startswith("_")} | set(_SAME) | set(_TWO) | set(_OTHER))


def _of_two(name, function):
    """A function of two arrays, one of which may be a number, with the standard's promotion of the wide unsigned integers."""
    def call(x1, x2, /):
        return function(*_promoted(x1, x2))
    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__
    return call


def _promoted(x1, x2):
    if not isinstance(x1, tede.Tensor):
        x1 = tede.asarray(x1, dtype=result_type(x2, x1), device=x2.device)
    elif not isinstance(x2, tede.Tensor):
        x2 = tede.asarray(x2, dtype=result_type(x1, x2), device=x1.device)
    if x1.dtype != x2.dtype and (x1.dtype in _WIDE or x2.dtype in _WIDE):
        dtype = _promote(x1.dtype, x2.dtype)
        x1, x2 = x1.to(dtype), x2.to(dtype)
    return x1, x2


# ---- dtypes ------------------------------------------------------------------------------------------------------------

def isdtype(dtype, kind):
    """Whether a dtype is of a kind, named or a dtype itself, or of one among several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"unrecognized data type kind: {kind!r}")
        return dtype in _KINDS[kind]
    return dtype == kind


def result_type(*arrays_and_dtypes):
    """The dtype that arrays, dtypes and numbers promote to; numbers only choose a kind."""
    dtypes = [x.dtype if isinstance(x, tede.Tensor) else x for x in arrays_and_dtypes if not isinstance(x, (int, float, complex))]
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (int, float, complex))]
    if not dtypes:
        raise ValueError("result_type needs an array or a dtype")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _promote(result, dtype)
    for number in numbers:
        result = tede.result_type(tede.empty(1, dtype=result, device="meta"), number)
    return result


def _promote(a, b):
    """PyTorch's promotion, which has none for uint16 to uint64: theirs is by width, signed if one of them is."""
    if a == b or not (a in _WIDE or b in _WIDE):
        return tede.promote_types(a, b)
    if bool in (a, b) or not (isdtype(a, "integral") and isdtype(b, "integral")):
        return b if a in _WIDE and b != bool else a
    if isdtype(a, "unsigned integer") and isdtype(b, "unsigned integer"):
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if isdtype(a, "unsigned integer") else (b, a)
    if unsigned == uint64:
        raise TypeError(f"{a} and {b} have no common integer type")
    return signed if signed.itemsize > unsigned.itemsize else {2: int32, 4: int64}[unsigned.itemsize]


def sign(x, /):
    """-1, 0 or 1; NaN stays NaN."""
    return tede.where(tede.isnan(x), x, tede.sign(x)) if x.dtype in _KINDS["real floating"] else tede.sgn(x)


def remainder(x1, x2, /):
    """What division leaves; a zero has the divisor's sign."""
    x1, x2 = _promoted(x1, x2)
    result = tede.remainder(x1, x2)
    return tede.where(result == 0, tede.copysign(result, x2), result) if result.is_floating_point() else result


def finfo(type, /):
    return tede.finfo(type.dtype if isinstance(type, tede.Tensor) else type)


def iinfo(type, /):
    return tede.iinfo(type.dtype if isinstance(type, tede.Tensor) else type)


def full(shape, fill_value, *, dtype=None, device=None):
    return tede.full((shape,) if isinstance(shape, int) else shape, fill_value, dtype=dtype, device=device)


def astype(x, dtype, /, *, copy=True, device=None):
    return x.to(dtype=dtype, device=device, copy=copy)


def broadcast_arrays(*arrays):
    return list(tede.broadcast_tensors(*arrays))


def meshgrid(*arrays, indexing="xy"):
    return list(tede.meshgrid(*arrays, indexing=indexing)) if arrays else []


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    if endpoint:
        return tede.linspace(start, stop, num, dtype=dtype, device=device)
    return tede.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    ones = tede.ones(n_rows, n_rows if n_cols is None else n_cols, dtype=dtype, device=device)
    return ones.tril(k).triu(k)


def tril(x, /, *, k=0):
    return tede.tril(x, k)


def triu(x, /, *, k=0):
    return tede.triu(x, k)


# ---- shapes ------------------------------------------------------------------------------------------------------------

def permute_dims(x, /, axes):
    return tede.permute(x, axes)


def repeat(x, repeats, /, *, axis=None):
    return tede.repeat_interleave(x, repeats.to(int64) if isinstance(repeats, tede.Tensor) else repeats, dim=axis)


def expand_dims(x, /, axis=0):
    axes = sorted(a + x.ndim + (len(axis) if isinstance(axis, tuple) else 1) if a < 0 else a
                  for a in (axis if isinstance(axis, tuple) else (axis,)))
    for a in axes:
        x = x.unsqueeze(a)
    return x


def flip(x, /, *, axis=None):
    return tede.flip(x, _dims(x, axis))


def roll(x, /, shift, *, axis=None):
    return tede.roll(x, shift, axis if axis is not None else ())


def matrix_transpose(x, /):
    if x.ndim < 2:
        raise ValueError("x must be at least 2-dimensional for matrix_transpose")
    return x.mT


def take(x, indices, /, *, axis=None):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be specified when ndim > 1")
        axis = 0
    indices = indices.to(int64)
    return tede.index_select(x, axis, tede.where(indices < 0, indices + x.shape[axis], indices))


def take_along_axis(x, indices, /, *, axis=-1):
    indices = indices.to(int64)
    return tede.take_along_dim(x, tede.where(indices < 0, indices + x.shape[axis], indices), axis)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    return tede.diff(x, n=n, dim=axis, prepend=prepend, append=append)


# ---- reductions --------------------------------------------------------------------------------------------------------

def _dims(x, axis):
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis


def _summed(x, dtype):
    """The dtype that sums and products have: small integers in the default one."""
    if dtype is None and x.dtype in (uint8, *_WIDE):
        return uint64
    return dtype


def _over(function, x, axis, keepdims, *args):
    """A function of one dimension over several, or over all."""
    dims = sorted(d % (x.ndim or 1) for d in _dims(x, axis))
    if not dims:
        return function(x.unsqueeze(0), 0, *args) if x.ndim == 0 else x.clone()
    for d in reversed(dims):
        x = function(x, d, *args)
    for d in dims if keepdims else ():
        x = x.unsqueeze(d)
    return x


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    dtype = _summed(x, dtype)
    if axis == ():
        return x.to(dtype) if dtype else x.to(int64) if isdtype(x.dtype, ("bool", "signed integer")) else x.clone()
    return tede.sum(x, dim=_dims(x, axis), keepdim=keepdims, dtype=dtype)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    dtype = _summed(x, dtype)
    return _over(lambda x, d: tede.prod(x, d, dtype=dtype), x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return tede.amax(x, _dims(x, axis), keepdim=keepdims) if axis != () else x.clone()


def min(x, /, *, axis=None, keepdims=False):
    return tede.amin(x, _dims(x, axis), keepdim=keepdims) if axis != () else x.clone()


def mean(x, /, *, axis=None, keepdims=False):
    return tede.mean(x, dim=_dims(x, axis), keepdim=keepdims) if axis != () else x.clone()


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return tede.std(x, dim=_dims(x, axis), correction=correction, keepdim=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return tede.var(x, dim=_dims(x, axis), correction=correction, keepdim=keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return sum(x != 0, axis=axis, keepdims=keepdims)


def all(x, /, *, axis=None, keepdims=False):
    return _over(lambda x, d: tede.all(x, d), x.to(bool), axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _over(lambda x, d: tede.any(x, d), x.to(bool), axis, keepdims)


def _cumulative(function, x, axis, dtype, first, include_initial):
    axis = 0 if axis is None else axis
    result = function(x, axis, dtype=_summed(x, dtype))
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        result = tede.cat([tede.full(shape, first, dtype=result.dtype, device=x.device), result], axis)
    return result


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative(tede.cumsum, x, axis, dtype, 0, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative(tede.cumprod, x, axis, dtype, 1, include_initial)


# ---- order, sets, products ---------------------------------------------------------------------------------------------

def sort(x, /, *, axis=-1, descending=False, stable=True):
    return tede.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return tede.sort(x, dim=axis, descending=descending, stable=stable).indices


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    x1, x2 = _promoted(x1, x2)
    dtype = result_type(x1, x2)
    return tede.searchsorted(x1.to(dtype), x2.to(dtype), side=side, sorter=sorter)


def nonzero(x, /):
    return tuple(tede.nonzero(x, as_tuple=True))


def clip(x, /, min=None, max=None):
    if min is None and max is None:
        return x.clone()
    return tede.clamp(x, min, max).to(x.dtype)


def unique_values(x, /):
    return tede.unique(x)


def unique_counts(x, /):
    return UniqueCountsResult(*tede.unique(x, return_counts=True))


def unique_inverse(x, /):
    values, inverse = tede.unique(x, return_inverse=True)
    return UniqueInverseResult(values, inverse.reshape(x.shape))


def unique_all(x, /):
    values, inverse, counts = tede.unique(x, return_inverse=True, return_counts=True)
    flat = inverse.reshape(-1)
    first = tede.full((values.numel(),), flat.numel(), dtype=int64).scatter_reduce(
        0, flat, tede.arange(flat.numel()), "amin")
    return UniqueAllResult(values, first, inverse.reshape(x.shape), counts)


def tensordot(x1, x2, /, *, axes=2):
    return tede.tensordot(x1, x2, dims=axes)


def vecdot(x1, x2, /, *, axis=-1):
    x1, x2 = _promoted(x1, x2)
    if isdtype(x1.dtype, "integral") and isdtype(x2.dtype, "integral"):
        return tede.sum(x1 * x2, axis, dtype=result_type(x1, x2))
    dtype = result_type(x1, x2)
    return tede.linalg.vecdot(x1.to(dtype), x2.to(dtype), dim=axis)


# ---- inspection --------------------------------------------------------------------------------------------------------

class _Info:
    """__array_namespace_info__()"""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return tede.get_default_device()

    def devices(self):
        return [tede.device("cpu"), tede.device("meta")]

    def default_dtypes(self, *, device=None):
        real = tede.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        names = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128").split()
        return {name: globals()[name] for name in names if kind is None or isdtype(globals()[name], kind)}


def __array_namespace_info__():
    return _Info()


# ---- extensions --------------------------------------------------------------------------------------------------------

class _Extension:
    """A module of the package with the standard's words where they differ."""

    def __init__(self, module, **own):
        self._module = module
        self.__dict__.update(own)

    def __getattr__(self, name):
        return getattr(self._module, name)

    def __dir__(self):
        return sorted({*dir(self._module), *(name for name in vars(self) if not name.startswith("_"))})


def _trace(x, /, *, offset=0, dtype=None):
    return sum(tede.diagonal(x, offset, -2, -1), axis=-1, dtype=dtype)


def _over_axes(function):
    """One of fft's functions of several dimensions, which are called axes here."""
    def call(x, /, *args, axes=None, **more):
        return function(x, *args, dim=axes, **more)
    call.__name__ = function.__name__
    return call


linalg = _Extension(tede.linalg, trace=_trace, tensordot=tensordot, matrix_transpose=matrix_transpose, vecdot=vecdot,
                    matmul=tede.matmul, outer=tede.outer)
fft = _Extension(tede.fft, **{name: _over_axes(getattr(tede.fft, name))
                              for name in "fftn ifftn rfftn irfftn fftshift ifftshift".split()})
