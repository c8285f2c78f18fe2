"""Semi-structured (2:4) sparse matrices: a class of tensors that keeps two of every four elements of a row.

PyTorch's are for GPUs, in the order that CUTLASS or cuSPARSELt reads. Here they are for the CPU, in the order of rows: ``packed`` has the elements that are
kept, ``meta`` two bits for each, its place among its four, 16 columns in an int16. Their product with a strided matrix is the core's."""
import tede
from tede import _C
from tede._C import Tensor

_OP = _C._operators
_COLUMNS = 16           # that one element of meta is about
_DTYPES = (_C.float32, _C.float16, _C.bfloat16)


class SparseSemiStructuredTensor(Tensor):
    """A matrix of which two of every four elements of a row are zero. `to_sparse_semi_structured` makes them; they are multiplied with strided matrices, and
    are weights of ``linear``."""

    BACKEND = "cpu"
    __slots__ = ["packed", "meta"]
    __torch_function__ = _C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, shape, packed, meta, packed_t=None, meta_t=None, compressed_swizzled_bitmask=None, requires_grad=False):
        if packed is None or meta is None:
            raise ValueError("packed and meta must be provided")
        if not (packed_t is None and meta_t is None and compressed_swizzled_bitmask is None):
            raise NotImplementedError(f"{cls.__name__}: a transposed form isn't kept, it is made where it is needed")
        tensor = Tensor._make_wrapper_subclass(cls, shape, device=packed.device, dtype=packed.dtype, layout=packed.layout, requires_grad=requires_grad)
        tensor.packed, tensor.meta = packed, meta
        return tensor

    @classmethod
    def from_dense(cls, original_tensor, alg_id=0):
        """The packed form of a strided matrix."""
        x = original_tensor
        if x.device.type != "cpu":
            raise RuntimeError(f"Error original_tensor.device= {x.device} is not supported! Here it is the CPU.")
        if x.dim() != 2:
            raise RuntimeError(f"Error original_tensor.dim = {x.dim()} is not supported! Only 2d tensors are currently supported.")
        if not x.is_contiguous():
            raise RuntimeError("Error original_tensor is not contiguous! Only contiguous tensors are currently supported.")
        if x.dtype not in _DTYPES:
            raise RuntimeError(f"Error original_tensor.dtype {x.dtype} is not a supported dtype for {cls}!")
        if not x.shape[0] or not x.shape[1] or x.shape[1] % _COLUMNS:
            raise RuntimeError(f"Error original_tensor.shape {x.shape} is not supported! Both dimensions must be larger or equal than and a multiple of "
                               f"(1, {_COLUMNS})")
        return cls(x.shape, *_OP["_to_sparse_semi_structured"](x.detach()), requires_grad=x.requires_grad)

    def to_dense(self):
        """The strided matrix."""
        return _OP["_semi_structured_to_dense"](self.packed, self.meta)

    def __repr__(self):
        return f"{type(self).__name__}(shape={self.shape})"

    def __tensor_flatten__(self):
        return ["packed", "meta"], (self.shape, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors, tensor_meta, outer_size, outer_stride):
        shape, requires_grad = tensor_meta
        return cls(shape, inner_tensors["packed"], inner_tensors["meta"], requires_grad=requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        name = func._schema.name.rpartition("::")[2]
        if name not in _CALLS:
            raise NotImplementedError(f"{cls.__name__} only supports a specific set of operations, can't perform requested op ({func.__name__})")
        return _CALLS[name](func, *args, **(kwargs or {}))


def _over(x, packed):
    return type(x)(x.shape, packed, x.meta)


def _times(left, right):
    """A product of which one operand is packed."""
    if isinstance(left, SparseSemiStructuredTensor) and isinstance(right, SparseSemiStructuredTensor):
        raise ValueError("`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported")
    if left.dim() != 2 or right.dim() != 2:
        raise NotImplementedError("`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented")
    if isinstance(left, SparseSemiStructuredTensor):
        return _OP["_sparse_semi_structured_mm"](left.packed, left.meta, right)
    return left @ right.to_dense()


def _linear(func, input, weight, bias=None):
    if not isinstance(weight, SparseSemiStructuredTensor) or isinstance(input, SparseSemiStructuredTensor):
        raise NotImplementedError("linear: it is the weight that can be a SparseSemiStructuredTensor")
    return _OP["_sparse_semi_structured_linear"](input, weight.packed, weight.meta, bias=bias)


def _input_gradient(func, self, grad, weight, bias_ndim, output_mask):
    """The gradients of linear: none for the packed weight."""
    if output_mask[1]:
        raise NotImplementedError("linear: a SparseSemiStructuredTensor gets no gradient")
    rows = grad.reshape(-1, grad.shape[-1])
    return ((rows @ weight.to_dense()).reshape(self.shape) if output_mask[0] else None, None,
            (rows.sum(0) if bias_ndim else grad.sum()) if output_mask[2] else None)


def _copied(func, x, *, dtype=None, device=None, **kwargs):
    if device is not None and tede.device(device).type != "cpu":
        raise NotImplementedError("a SparseSemiStructuredTensor is on the CPU")
    return type(x)(x.shape, x.packed.to(dtype=dtype, copy=True), x.meta.clone())


_CALLS = {
    "values": lambda func, x: x.packed.detach(),
    "indices": lambda func, x: x.meta.detach(),
    "is_same_size": lambda func, x, y: x.shape == y.shape,
    "detach": lambda func, x: _over(x, x.packed),
    "alias": lambda func, x: _over(x, x.packed),
    "clone": lambda func, x, **kwargs: type(x)(x.shape, x.packed.clone(), x.meta.clone()),
    "t": lambda func, x: x.to_dense().t(),
    "transpose": lambda func, x, dim0, dim1: x.to_dense().transpose(dim0, dim1),
    "mm": lambda func, x, y: _times(x, y),
    "matmul": lambda func, x, y: _times(x, y),
    "addmm": lambda func, bias, x, y, beta=1, alpha=1: beta * bias + alpha * _times(x, y),
    "linear": _linear,
    "linear_gradients": _input_gradient,
    "_to_copy": _copied,
}


def to_sparse_semi_structured(original_tensor, transposed=False, alg_id=0):
    """A strided matrix, of which two of every four elements of a row are zero, as a `SparseSemiStructuredTensor`."""
    return SparseSemiStructuredTensor.from_dense(original_tensor, alg_id=alg_id)
