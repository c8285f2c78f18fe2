"""Quantized tensors in Python: schemes, pickles, and the operators of torch.ops.quantized.

Those operators are made of the core's, and are functions, not yet operators with schemas. Products of integers are computed in floats,
exactly: in float32 while no sum can reach 2**24, else in float64. A sum is then multiplied by a float32, rounded to the nearest integer,
ties to even, and moved by the zero point, as PyTorch's kernels do."""
import math

from tede import _C
from tede._C import Tensor


class qscheme:
    """How the integers of a quantized tensor stand for numbers."""
    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return "torch." + self._name

    def __reduce__(self):
        return self._name

    def __deepcopy__(self, memo):
        return self


qscheme.__module__ = "torch"
per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric, per_channel_affine_float_qparams = SCHEMES = tuple(
    map(qscheme, ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric", "per_channel_affine_float_qparams")))
_OF_NUMBER = per_tensor_affine, per_channel_affine, per_channel_affine_float_qparams
_f = _C._functions


def scheme_of(x):
    return _OF_NUMBER[_C._operators["_qscheme"](x)]


# ---- pickles

def reduce_quantized(x, function):
    """(function, arguments) that make the tensor again."""
    from collections import OrderedDict

    from tede._storage import TypedStorage
    scheme = scheme_of(x)
    if scheme is per_tensor_affine:
        quantizer = scheme, x.q_scale(), x.q_zero_point()
    else:
        quantizer = scheme, x.q_per_channel_scales(), x.q_per_channel_zero_points(), x.q_per_channel_axis()
    typed = TypedStorage(wrap_storage=x.untyped_storage(), dtype=x.dtype, _internal=True)
    return function, (typed, x.storage_offset(), tuple(x.size()), x.stride(), quantizer, x.requires_grad, OrderedDict())


def rebuild(storage, offset, size, stride, quantizer):
    dtype, untyped = storage.dtype, storage._untyped_storage
    whole = _C._tensor_over(untyped, 0, (untyped.nbytes() // dtype.itemsize,), (1,), _INTEGERS[dtype])
    integers = _f["as_strided"](whole, size, stride, offset)
    if quantizer[0] is per_tensor_affine:
        return _f["_make_per_tensor_quantized_tensor"](integers, quantizer[1], quantizer[2])
    if quantizer[0] in (per_channel_affine, per_channel_affine_float_qparams):
        return _f["_make_per_channel_quantized_tensor"](integers, *quantizer[1:])
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {quantizer[0]}")


_INTEGERS = {_C.qint8: _C.int8, _C.quint8: _C.uint8, _C.qint32: _C.int32}
_RANGES = {_C.qint8: (-128, 127), _C.quint8: (0, 255), _C.qint32: (-2**31, 2**31 - 1)}


OPERATORS = {}


def _operator(function):
    OPERATORS[function.__name__] = function
    return function


# ---- what operators are made of

def _single(x):
    """x rounded to float32, as a Python number."""
    return _C.tensor(float(x), dtype=_C.float32).item()


def _quantize(x, like, scale, zero_point):
    return _f["quantize_per_tensor"](x.contiguous(), float(scale), int(zero_point), like.dtype)


def _over(integers, scale, zero_point):
    return _f["_make_per_tensor_quantized_tensor"](integers, float(scale), int(zero_point))


def _quantize_sums(x, like, scale, zero_point):
    """Rounded once the zero point is added, not before: ties go elsewhere."""
    integers = (x * _single(1 / _single(scale)) + int(zero_point)).round().clamp(*_RANGES[like.dtype])
    return _over(integers.to(_INTEGERS[like.dtype]), scale, zero_point)


def _rounded(x, dtype, scale, zero_point, relu=False):
    """Floats that are integers but for their rounding and zero point."""
    least, most = _RANGES[dtype]
    x = x.round().add(int(zero_point)).clamp(int(zero_point) if relu else least, most)
    return _over(x.to(_INTEGERS[dtype]), scale, zero_point)


def _centered(x, axis_shape=None, dtype=None):
    """The integers without their zero points, as floats."""
    integers = x.int_repr().to(dtype or _C.float32)
    if scheme_of(x) is per_tensor_affine:
        return integers - x.q_zero_point()
    return integers - x.q_per_channel_zero_points().to(integers.dtype).reshape(axis_shape)


def _numbers(*tensors):
    if len({x.dtype for x in tensors}) > 1:
        raise RuntimeError("Expected operands of one dtype: " + ", ".join(str(x.dtype) for x in tensors))
    return list(map(_fused, tensors))


# ---- elementwise

@_operator
def add(qa, qb, scale, zero_point):
    a, b = _numbers(qa, qb)
    return _quantize(a + b, qa, scale, zero_point)


@_operator
def add_relu(qa, qb, scale, zero_point):
    a, b = _numbers(qa, qb)
    return _quantize((a + b).relu(), qa, scale, zero_point)


@_operator
def mul(qa, qb, scale, zero_point):
    _numbers(qa, qb)
    factor = _single(_single(_single(qa.q_scale()) * _single(qb.q_scale())) * _single(1 / _single(scale)))
    return _rounded(_centered(qa) * _centered(qb) * factor, qa.dtype, scale, zero_point)


@_operator
def mul_relu(qa, qb, scale, zero_point):
    return mul(qa, qb, scale, zero_point).relu()


@_operator
def add_scalar(qa, b):
    """The integers stay where the zero point can move by the number, else the range is moved."""
    least, most = _RANGES[qa.dtype]
    scale = qa.q_scale()
    by = float(b) / scale
    zero = qa.q_zero_point() - (math.floor(by + 0.5) if by >= 0 else math.ceil(by - 0.5))
    if zero < least:
        new = (most - zero) / (most - least) * scale
        return _moved(qa, scale, zero, new, least)
    if zero > most:
        new = (zero - least) / (most - least) * scale
        return _moved(qa, scale, zero, new, most)
    return _over(qa.int_repr(), scale, zero)


def _moved(qa, scale, zero, new_scale, new_zero):
    x = (qa.int_repr().to(_C.float32) - zero) * _single(scale / new_scale)
    return _rounded(x, qa.dtype, new_scale, new_zero)


@_operator
def add_scalar_relu(qa, b):
    return add_scalar(qa, b).relu()


@_operator
def mul_scalar(qa, b):
    """The scale is multiplied; a negative number turns the integers round."""
    least, most = _RANGES[qa.dtype]
    scale, zero, b = qa.q_scale(), qa.q_zero_point(), float(b)
    if b > 0:
        return _over(qa.int_repr(), scale * b, zero)
    if b == 0:
        return _over(_f["zeros_like"](qa.int_repr()), 1.0, 0)
    return _over((least + most - qa.int_repr().to(_C.int64)).to(_INTEGERS[qa.dtype]), scale * -b, least + most - zero)


@_operator
def mul_scalar_relu(qa, b):
    return mul_scalar(qa, b).relu()


def _fused(x):
    return _C._operators["_dequantize_fused"](x)


def _function(name):
    import tede
    return getattr(tede.nn.functional, name)


@_operator
def relu6(qx):
    return qx.clamp(0, 6)


@_operator
def hardswish(qx, scale, zero_point):
    return _quantize(_function("hardswish")(_fused(qx)), qx, scale, zero_point)


@_operator
def leaky_relu(qx, negative_slope, inplace, scale, zero_point):
    return _quantize(_function("leaky_relu")(_fused(qx), negative_slope), qx, scale, zero_point)


@_operator
def elu(qx, scale, zero_point, alpha=1, factor=1, input_scale=1):
    x = _fused(qx)
    return _quantize(_C._operators["elu"](x, alpha, factor, input_scale), qx, scale, zero_point)


@_operator
def celu(qx, scale, zero_point, alpha=1):
    return elu(qx, scale, zero_point, alpha, 1, 1 / alpha)


@_operator
def sigmoid(qx, scale, zero_point):
    return _quantize(_fused(qx).sigmoid(), qx, scale, zero_point)


@_operator
def softmax(qx, dim, scale, zero_point):
    return _quantize(qx.dequantize().softmax(dim), qx, scale, zero_point)


@_operator
def layer_norm(qx, normalized_shape, weight, bias, eps, scale, zero_point):
    return _quantize(_function("layer_norm")(qx.dequantize(), normalized_shape, weight, bias, eps), qx, scale, zero_point)


@_operator
def cat(tensors, dim, scale=None, zero_point=None):
    first = tensors[0]
    scale = first.q_scale() if scale is None else scale
    zero_point = first.q_zero_point() if zero_point is None else zero_point
    return _quantize_sums(_f["cat"]([x.dequantize() for x in tensors], dim), first, scale, zero_point)


@_operator
def cat_relu(tensors, dim, scale=None, zero_point=None):
    return cat(tensors, dim, scale, zero_point).relu()


@_operator
def max_pool2d(qx, kernel_size, stride, padding, dilation, ceil_mode):
    return _function("max_pool2d")(qx, kernel_size, stride, padding, dilation, ceil_mode)


@_operator
def matmul(qa, qb, scale, zero_point):
    if qa.dtype != qb.dtype:
        raise RuntimeError("MatMul operands should have the same data type.")
    return _quantize_sums(qa.dequantize() @ qb.dequantize(), qa, scale, zero_point)


# ---- packed weights

class _Packed:
    """A weight and a bias with what the operator needs besides: PyTorch's ScriptObject of this name."""
    def __init__(self, weight, bias, *geometry):
        if bias is not None and bias.dim() != 1:
            raise RuntimeError("bias should be a vector (1D Tensor)")
        self.w, self.b, self.geometry = weight, bias, geometry

    def __reduce__(self):
        return type(self), (self.w, self.b, *self.geometry)

    def unpack(self):
        return self.w, self.b


class LinearPackedParamsBase(_Packed):
    pass


class Conv2dPackedParamsBase(_Packed):
    pass


@_operator
def linear_prepack(w, b=None):
    if w.dim() != 2:
        raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.")
    return LinearPackedParamsBase(w, b)


@_operator
def linear_unpack(packed):
    return packed.w, packed.b


@_operator
def conv2d_prepack(weight, bias, stride, padding, dilation, groups):
    if weight.dim() != 4:
        raise RuntimeError("Weights are expected to have 4 dimensions")
    return Conv2dPackedParamsBase(weight, bias, list(stride), list(padding), list(dilation), groups)


@_operator
def conv2d_unpack(packed):
    return packed.w, packed.b


def _scaled(sums, x_scale, w, bias, scale, shape):
    """Sums of integers in steps of the output's scale, the bias added in steps of the sums."""
    w_scale = w.q_scale() if scheme_of(w) is per_tensor_affine else w.q_per_channel_scales().reshape(shape)
    both = (w_scale * x_scale).to(_C.float32) if isinstance(w_scale, Tensor) else _single(_single(w_scale) * _single(x_scale))
    sums = sums.to(_C.float32)
    if bias is not None:
        sums = sums + bias.to(_C.float32).reshape(shape) / both
    return sums * (both / scale if isinstance(both, Tensor) else _single(both / _single(scale)))


def _sums(product, qx, w):
    """product(integers, weights), whose sums are exact: in float32 where none can reach 2**24."""
    exact = _C.float32 if math.prod(w.shape[1:]) * 255 * 255 < 2**24 else _C.float64
    return product(_centered(qx, dtype=exact), _centered(w, (-1,) + (1,) * (w.dim() - 1), exact))


def _linear_sums(qx, w):
    return _sums(lambda x, weight: x @ weight.t(), qx, w)


def _linear(qx, packed, scale, zero_point, relu=False):
    w = packed.w
    return _rounded(_scaled(_linear_sums(qx, w), qx.q_scale(), w, packed.b, scale, (-1,)), qx.dtype, scale, zero_point, relu)


@_operator
def linear(qx, packed, scale, zero_point):
    return _linear(qx, packed, scale, zero_point)


@_operator
def linear_relu(qx, packed, scale, zero_point):
    return _linear(qx, packed, scale, zero_point, True)


@_operator
def linear_dynamic(x, packed, reduce_range=False):
    """Activations are quantized to the range that they have; results are floats."""
    w = packed.w
    qx = _f["quantize_per_tensor_dynamic"](x.contiguous(), _C.quint8, reduce_range)
    sums = _linear_sums(qx, w).to(_C.float32)
    if scheme_of(w) is per_tensor_affine:
        made = sums * _single(_single(qx.q_scale()) * _single(w.q_scale()))
    else:
        made = sums * (w.q_per_channel_scales().to(_C.float32) * _single(qx.q_scale()))
    return made if packed.b is None else made + packed.b


@_operator
def linear_relu_dynamic(x, packed, reduce_range=False):
    return linear_dynamic(x, packed, reduce_range).relu()


def _conv2d(qx, packed, scale, zero_point, relu=False):
    w, (stride, padding, dilation, groups) = packed.w, packed.geometry
    sums = _sums(lambda x, weight: _function("conv2d")(x, weight, None, stride, padding, dilation, groups), qx, w)
    return _rounded(_scaled(sums, qx.q_scale(), w, packed.b, scale, (-1, 1, 1)), qx.dtype, scale, zero_point, relu)


@_operator
def conv2d(qx, packed, scale, zero_point):
    return _conv2d(qx, packed, scale, zero_point)


@_operator
def conv2d_relu(qx, packed, scale, zero_point):
    return _conv2d(qx, packed, scale, zero_point, True)
