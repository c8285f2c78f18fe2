"""From numbers to integers, as PyTorch's kernels round; and back."""
import math

from tede import _C
from tede._quantized import per_tensor_affine, scheme_of

RANGES = {_C.qint8: (-128, 127), _C.quint8: (0, 255), _C.qint32: (-2**31, 2**31 - 1)}
INTEGERS = {_C.qint8: _C.int8, _C.quint8: _C.uint8, _C.qint32: _C.int32}
_QUANTIZED = {integers: dtype for dtype, integers in INTEGERS.items()}
functions, operators = _C._functions, _C._operators


def single(x):
    """x rounded to float32, as a Python number."""
    return _C.tensor(float(x), dtype=_C.float32).item()


def check_quantized(name, x):
    if not x.is_quantized:
        raise NotImplementedError(f"Could not run 'quantized::{name}' with arguments from the 'CPU' backend.")


def quantize(x, dtype, scale, zero_point):
    return operators["_quantize_again"](x.contiguous(), float(scale), int(zero_point), dtype)


_MANY = 2048        # elements from which a table is faster than what fills it


def by_table(of, x):
    """of(x), where `of` makes a quantized tensor of one, element by element: of all 256 integers if x has more elements, which are looked up."""
    if x.dtype is _C.qint32 or x.numel() < _MANY or scheme_of(x) is not per_tensor_affine:
        return of(x)
    return operators["_look_up"](x, of(operators["_every_integer"](x)))


def over(integers, scale, zero_point):
    """The memory of integers as a quantized tensor."""
    like = functions["_empty_affine_quantized"]([0], scale=float(scale), zero_point=int(zero_point), dtype=_QUANTIZED[integers.dtype])
    return operators["_quantized_over"](integers, like)


def quantize_sums(x, dtype, scale, zero_point):
    """Rounded once the zero point is added, not before: ties go elsewhere."""
    integers = (x * single(1 / single(scale)) + int(zero_point)).round().clamp(*RANGES[dtype])
    return over(integers.to(INTEGERS[dtype]), scale, zero_point)


def rounded(x, dtype, scale, zero_point, relu=False):
    """Floats that are integers but for their rounding and zero point."""
    least, most = RANGES[dtype]
    x = x.round().add(int(zero_point)).clamp(int(zero_point) if relu else least, most)
    return over(x.to(INTEGERS[dtype]), scale, zero_point)


def centered(x, axis_shape=None, dtype=None):
    """The integers without their zero points, as floats."""
    integers = x.int_repr().to(dtype or _C.float32)
    if scheme_of(x) is per_tensor_affine:
        return integers - x.q_zero_point()
    return integers - x.q_per_channel_zero_points().to(integers.dtype).reshape(axis_shape)


def fused(x):
    """Dequantized with one rounding."""
    return operators["_dequantize_fused"](x)


def nearest(x):
    """Half goes away from zero."""
    return math.floor(x + 0.5) if x >= 0 else math.ceil(x - 0.5)


def write(made, out):
    """What the forms with `out` give: its quantizer is as it was."""
    return out.copy_(made)
