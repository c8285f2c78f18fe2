"""Quantized tensors in Python: schemes and pickles."""
from tede import _C


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

def _quantizer_of(x):
    scheme = scheme_of(x)
    if scheme is per_tensor_affine:
        return scheme, x.q_scale(), x.q_zero_point()
    return scheme, x.q_per_channel_scales(), x.q_per_channel_zero_points(), x.q_per_channel_axis()


def reduce_quantized(x, function):
    """(function, arguments) that make the tensor again."""
    from collections import OrderedDict

    from tede._storage import TypedStorage
    typed = TypedStorage(wrap_storage=x.untyped_storage(), dtype=x.dtype, _internal=True)
    return function, (typed, x.storage_offset(), tuple(x.size()), x.stride(), _quantizer_of(x), x.requires_grad, OrderedDict())


def over_storage(storage, like):
    """A tensor over a storage, of the form of another one."""
    return _over(storage, like.dtype, like.storage_offset(), tuple(like.size()), like.stride(), _quantizer_of(like))


def rebuild(storage, offset, size, stride, quantizer):
    return _over(storage._untyped_storage, storage.dtype, offset, size, stride, quantizer)


def _over(untyped, dtype, offset, size, stride, quantizer):
    if dtype in _OF_A_FEW_BITS:
        return _over_shared_bytes(untyped, dtype, offset, size, stride, quantizer)
    integers, size = _C._tensor_over(untyped, offset, tuple(size), tuple(stride), _INTEGERS[dtype]), tuple(size)
    if quantizer[0] is per_tensor_affine:
        like = _f["_empty_affine_quantized"]((0,), dtype=dtype, scale=quantizer[1], zero_point=quantizer[2])
        return _C._operators["_quantized_over"](integers, like)
    if quantizer[0] in (per_channel_affine, per_channel_affine_float_qparams):
        scales, zero_points, axis = quantizer[1:]
        if not 0 <= axis < len(size) or size[axis] != scales.numel():
            raise RuntimeError(f"{scales.numel()} scales of a quantized tensor aren't one for each index of dimension {axis} of sizes {list(size)}")
        empty = [n if dim == axis else 0 for dim, n in enumerate(size)]        # sizes come from files: nothing is allocated for them
        like = _f["_empty_per_channel_affine_quantized"](empty, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype)
        return _C._operators["_quantized_over"](integers, like)
    raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {quantizer[0]}")


def _over_shared_bytes(untyped, dtype, offset, size, stride, quantizer):
    """Elements that share bytes have no strides of their own: all of a storage's are there, in their order."""
    size = tuple(size)
    if quantizer[0] is per_tensor_affine:
        made = _f["_empty_affine_quantized"](size, dtype=dtype, scale=quantizer[1], zero_point=quantizer[2])
    elif quantizer[0] in (per_channel_affine, per_channel_affine_float_qparams):
        scales, zero_points, axis = quantizer[1:]
        made = _f["_empty_per_channel_affine_quantized"](size, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype)
    else:
        raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {quantizer[0]}")
    n = made.untyped_storage().nbytes()
    if offset or tuple(stride) != made.stride() or untyped.nbytes() < n:
        raise RuntimeError(f"a tensor of {dtype} and of sizes {list(size)} is {n} bytes from the begin of its storage, contiguous: not {untyped.nbytes()} "
                           f"bytes with the offset {offset} and the strides {list(stride)}")
    _C._tensor_over(made.untyped_storage(), 0, (n,), (1,), _C.uint8).copy_(_C._tensor_over(untyped, 0, (n,), (1,), _C.uint8))
    return made


_OF_A_FEW_BITS = _C.quint4x2, _C.quint2x4
_INTEGERS = {_C.qint8: _C.int8, _C.quint8: _C.uint8, _C.qint32: _C.int32}
