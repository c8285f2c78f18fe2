"""make_tensor: operands with chosen values' range, layout and awkwardness."""
import collections.abc
import math
import warnings

from tede import _C

_INTEGERS = (_C.uint8, _C.int8, _C.int16, _C.int32, _C.int64, _C.uint16, _C.uint32, _C.uint64)
_f = _C._functions


def _bounds(low, high, least, most, defaults, dtype):
    """Both bounds as far as the dtype has such numbers: integers in [least, most)."""
    low, high = (default if given is None else given for given, default in zip((low, high), defaults))
    numbers = dtype.is_floating_point or dtype.is_complex
    if any(isinstance(x, float) and math.isnan(x) for x in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and numbers:
        warnings.warn("Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 and will be "
                      "removed in 2.3. Use `torch.full(...)` instead.", FutureWarning, stacklevel=3)
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports [{least}, {most})")
    low, high = (min(max(x, least), most) for x in (low, high))
    return (low, high) if numbers else (math.ceil(low), math.ceil(high))       # integers in [low, high) lie in [ceil(low), ceil(high))


def _uniform(parts, low, high):
    """Fill with numbers of [low, high), whose length may be more than the largest number."""
    if high - low >= _C.finfo(parts.dtype).max:
        parts.uniform_(low / 2, high / 2).mul_(2)
    elif low == high:
        parts.fill_(low)
    else:
        parts.uniform_(low, high)


def make_tensor(*shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False,
                memory_format=None):
    """A tensor of random numbers in [low, high), for tests."""
    if len(shape) == 1 and isinstance(shape[0], collections.abc.Sequence):
        shape = shape[0]
    shape = tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} "
                         f"and {memory_format=}")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    noncontiguous = noncontiguous and math.prod(shape) > 1
    if noncontiguous:
        shape = (*shape[:-1], 2 * shape[-1])
    if dtype == _C.bool:
        low, high = _bounds(low, high, 0, 2, (0, 2), dtype)
        result = _f["randint"](low, high, shape, dtype=dtype, device=device)
    elif dtype in _INTEGERS:
        info = _C.iinfo(dtype)
        low, high = _bounds(low, high, info.min, min(info.max, 2 ** 63 - 2) + 1, (-9, 10), dtype)
        result = _f["randint"](low, high, shape, device=device).to(dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        info, narrow = _C.finfo(dtype), dtype.itemsize == 1
        low, high = _bounds(low, high, info.min, info.max, (-9, 9), dtype)
        result = _f["empty"](shape, dtype=_C.float32 if narrow else dtype, device=device)
        _uniform(_f["view_as_real"](result) if dtype.is_complex else result, low, high)
        result = result.to(dtype)
    else:
        raise TypeError(f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To request support, "
                        "file an issue at: https://github.com/pytorch/pytorch/issues")
    if noncontiguous:
        result = result[..., 1::2]          # begins inside its storage, which catches more
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if not (dtype.is_floating_point or dtype.is_complex) else _C.finfo(dtype).tiny
    if requires_grad:
        result.requires_grad_()
    return result
