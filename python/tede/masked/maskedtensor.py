"""MaskedTensor: data and the mask that says which of its elements count, as one tensor.

Elementwise operators compute all elements and keep the mask; operands that are both masked must have the same one.  What
moves elements moves the mask along.  Reductions leave out what doesn't count; they are nodes of the gradient graph of their
own, because the gradient of what they reduced has the mask that they reduced away.  Everything else is refused.

Data and mask may both be sparse, COO or CSR, with the same indices: the operators are then applied to the values of both,
and a reduction is one of all specified elements.  To the core the wrapper is strided in any case; its layout is the data's.
"""
import warnings

import tede
from tede import Tensor
from tede.masked import _ops as over
from tede.masked import _sparse
from tede.utils._pytree import tree_map

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_UNARY = frozenset("""
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil clamp
    clamp_both clamp_min clamp_max clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac
    lgamma log log10 log1p log2 logit i0 isnan nan_to_num nan_to_num_impl neg negative positive pow rad2deg reciprocal round
    rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh trunc rsub""".split())
_BINARY = frozenset("""
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide floor_divide fmod
    logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater greater_equal gt
    less_equal lt less maximum minimum fmax fmin not_equal""".split())
_MOVING = frozenset("""
    select transpose split split_with_sizes t slice slice_backward select_backward index expand view _unsafe_view
    _reshape_alias cat unsqueeze unfold unfold_backward im2col col2im image_to_columns columns_to_image
    stack permute squeeze alias unbind""".split())
_DTYPES = frozenset((tede.float16, tede.float32, tede.float64, tede.bool, tede.int8, tede.int16, tede.int32, tede.int64))


def is_masked_tensor(obj, /):
    """Whether it is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


def _data(x):
    return x._masked_data if is_masked_tensor(x) else x


def _mask(x):
    return x._masked_mask if is_masked_tensor(x) else x


def _same(a, b):
    """Whether two masks let the same elements through, the shapes broadcast."""
    if a.layout is not b.layout:
        return False
    if a.layout is not tede.strided:
        return _sparse.same_indices(a, b) and bool((a.values() == b.values()).all())
    return a is b or bool((a == b).all())


def _converted(data, mask, layout):
    """Both in another layout: the mask's true elements are those that are specified."""
    if layout is tede.strided:
        return data.to_dense(), mask.to_dense()
    mask = mask.to_dense()
    mask = mask.to_sparse().coalesce() if layout is tede.sparse_coo else mask.to_sparse_csr()
    return data.sparse_mask(mask), mask


def _at(data, mask):
    """The data where the mask has elements, in the mask's layout."""
    if mask.layout is tede.strided:
        return data.to_dense()
    return data if data.layout is mask.layout and _sparse.same_indices(data, mask) else data.sparse_mask(mask)


# ---- what the operators do ---------------------------------------------------------------------------------------------

def _elementwise(func, name, args, kwargs):
    """All elements are computed; the masks of the operands must be the same."""
    if name in _UNARY and len(args) and is_masked_tensor(args[0]) and not any(isinstance(x, Tensor) for x in args[1:]):
        if kwargs:
            raise ValueError("MaskedTensor unary ops require that len(kwargs) == 0. If you need support for this, please open an "
                             "issue on Github.")
    masks = [_mask(x) for x in args if is_masked_tensor(x)]
    if len(masks) == 2 and not _same(*masks):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    operands, like = [_data(x) for x in args], next(_data(x) for x in args if is_masked_tensor(x))
    if like.layout is not tede.strided:
        operands = [_sparse.values_as(like, x) if isinstance(x, Tensor) else x for x in operands]
    found = func(*operands, **kwargs)
    if func._schema.name.endswith("_"):
        return args[0]                          # the data was written to
    if like.layout is not tede.strided:
        return MaskedTensor(_sparse.with_values(like, found), masks[0])
    return MaskedTensor(found, masks[0].expand_as(found) if masks[0].shape != found.shape else masks[0])


def _moved(func, args, kwargs):
    """The operator on the data and on the masks."""
    def mask(x):
        return _mask(x) if is_masked_tensor(x) else tede.ones_like(x, dtype=tede.bool) if _beside(x) else x

    def _beside(x):                             # a plain tensor that is put beside masked ones, not an index
        return isinstance(x, Tensor) and name in ("cat", "stack")
    name = func._schema.name.partition("::")[2]
    data, masks = func(*tree_map(_data, args), **kwargs), func(*tree_map(mask, args), **kwargs)
    if isinstance(data, (tuple, list)):
        return type(data)(map(MaskedTensor, data, masks))
    return MaskedTensor(data, masks)


def _any(mask, dim, keepdim):
    """Where a reduction had something to reduce."""
    return tede.any(mask) if dim is None or dim == () else mask.any(dim, keepdim)


def _all(data, dim=None, *, keepdim=False, mask=None, **kwargs):
    filled = data.masked_fill(~mask, True)
    return filled.all() if dim is None else filled.all(dim, keepdim)


_REDUCTIONS = {name: getattr(over, name) for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "std", "var", "norm")}
_REDUCTIONS["all"] = _all
# Those that keep the shape, and with it the mask.
_ALONG = {name: getattr(over, name) for name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")}


def _reduced(data, mask, name, dim, keepdim, options):
    """The reduction of what counts, and its mask."""
    if data.layout is not tede.strided:
        if dim is not None or keepdim or name in _ALONG:
            raise NotImplementedError(f"The sparse version of {name} is not implemented in reductions: a sparse MaskedTensor is reduced "
                                      "as a whole")
        found, kept = _reduced(data.values(), mask.values(), name, None, False, options)
        return (_sparse.flat_place(data, found) if name in ("argmax", "argmin") else found), kept
    if name in _ALONG:
        return _ALONG[name](data, dim, mask=mask, **options), mask
    found = _REDUCTIONS[name](data, dim=dim, keepdim=keepdim, mask=mask, **options)
    kept = _any(mask, dim, keepdim) if dim is not None or not keepdim else _any(mask, tuple(range(mask.dim())), True)
    return found, kept


class _Reduction(tede.autograd.Function):
    """A reduction whose gradient is one of the plain computation, under the mask of what was reduced."""

    @staticmethod
    def forward(ctx, x, *how):
        ctx.held, ctx.how = (_data(x), _mask(x)), how
        return MaskedTensor(*_reduced(*ctx.held, *how))

    @staticmethod
    @tede.autograd.function.once_differentiable
    def backward(ctx, grad):
        data, mask = ctx.held
        with tede.enable_grad():
            sparse = data.layout is not tede.strided
            again = (data.values() if sparse else data).detach().requires_grad_()
            found = _reduced(again, mask.values() if sparse else mask, *ctx.how)[0]
        grad = _data(grad) if not is_masked_tensor(grad) else grad._masked_data.masked_fill(~grad._masked_mask, 0)
        inner = tede.autograd.grad(found, again, grad)[0]
        return MaskedTensor(_sparse.with_values(data, inner) if sparse else inner, mask), *(None for _ in ctx.how)


class _Where(tede.autograd.Function):
    @staticmethod
    def forward(ctx, condition, x, y):
        ctx.condition, ctx.masked = condition, (is_masked_tensor(x), is_masked_tensor(y))
        full = [_mask(z) if is_masked_tensor(z) else tede.ones_like(z, dtype=tede.bool) for z in (x, y)]
        return MaskedTensor(tede.where(_data(condition), _data(x), _data(y)), tede.where(_data(condition), *full))

    @staticmethod
    def backward(ctx, grad):
        chosen = _data(ctx.condition)

        def part(chosen, masked):
            data, mask = _data(grad).masked_fill(~chosen, 0), _mask(grad) & chosen if is_masked_tensor(grad) else chosen
            return MaskedTensor(data, mask.expand_as(data)) if masked else data
        return None, part(chosen, ctx.masked[0]), part(~chosen, ctx.masked[1])


class _Converted(tede.autograd.Function):
    """A MaskedTensor in another layout; its gradient returns to the first one's, with its mask."""

    @staticmethod
    def forward(ctx, x, layout):
        ctx.mask = x._masked_mask
        return MaskedTensor(*_converted(x._masked_data, x._masked_mask, layout))

    @staticmethod
    def backward(ctx, grad):
        return MaskedTensor(_at(_data(grad), ctx.mask), ctx.mask), None


class _FromParts(tede.autograd.Function):
    @staticmethod
    def forward(ctx, data, mask):
        return MaskedTensor(data.detach(), mask)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _Data(tede.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x._masked_mask
        return x._masked_data.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad if is_masked_tensor(grad) else MaskedTensor(_at(grad, ctx.mask), ctx.mask)


def _reduction(name):
    """The function of a name for masked tensors."""
    def reduce(input, dim=None, keepdim=False, dtype=None, **kwargs):
        if kwargs:
            raise TypeError(f"{name}() of a MaskedTensor got an unexpected keyword argument '{next(iter(kwargs))}'")
        options = {} if dtype is None else {"dtype": dtype}
        return _Reduction.apply(input, name, dim, keepdim, options)
    return reduce


def _conversion(layout):
    """The method that converts a masked tensor to a layout."""
    def convert(input):
        if layout is tede.sparse_csr and input.dim() != 2:
            raise ValueError(f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {input.size()}")
        return input if input.layout is layout else _Converted.apply(input, layout)
    return convert


def _strided_only(function):
    """A function of the order in memory, which sparse data don't have."""
    def check(input, *args, **kwargs):
        if input.layout is not tede.strided:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return function(input, *args, **kwargs)
    return check


def _functions():
    """What is done before the operator is reached: reductions, where, contiguous, other layouts."""
    table = {}
    for name in (*_REDUCTIONS, *_ALONG):
        if name == "norm":
            continue
        for place in (tede, Tensor, tede.nn.functional, tede.special):
            if name in getattr(place, "__dict__", {}) or hasattr(place, name):
                table[getattr(place, name)] = _reduction(name)

    def keep(input, memory_format=tede.contiguous_format):
        if input.is_contiguous(memory_format=memory_format):
            return input
        return _FromParts.apply(*(x.contiguous(memory_format=memory_format) for x in (input.get_data(), input._masked_mask)))
    table[Tensor.contiguous] = _strided_only(keep)
    table[Tensor.is_contiguous] = _strided_only(lambda input, *args, **kwargs: input._masked_data.is_contiguous(*args, **kwargs))
    table[Tensor.to_dense] = _conversion(tede.strided)
    table[Tensor.to_sparse] = table[Tensor.to_sparse_coo] = _conversion(tede.sparse_coo)
    table[Tensor.to_sparse_csr] = _conversion(tede.sparse_csr)
    table[tede.where] = lambda condition, input, other: _Where.apply(condition, input, other)
    table[Tensor.where] = lambda input, condition, other: _Where.apply(condition, input, other)
    return table


# ---- the class ------------------------------------------------------------------------------------------------------------

class MaskedTensor(Tensor):
    """MaskedTensor(data, mask, requires_grad=False): a tensor some of whose elements don't count."""
    __module__ = "tede.masked.maskedtensor"
    _table = None

    @staticmethod
    def __new__(cls, data, mask, requires_grad=False):
        if is_masked_tensor(data) or not isinstance(data, Tensor):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not isinstance(mask, Tensor):
            raise TypeError("mask must be a Tensor")
        if requires_grad and not data.is_floating_point():
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        return Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride() if data.layout == tede.strided else None,
                                             dtype=data.dtype, device=data.device, requires_grad=requires_grad)

    def __init__(self, data, mask, requires_grad=False):
        if data.layout != mask.layout:
            raise TypeError("data and mask must have the same layout.")
        if data.layout not in (tede.strided, tede.sparse_coo, tede.sparse_csr):
            raise TypeError(f"data layout of {data.layout} is not supported.")
        if mask.dtype != tede.bool:
            raise TypeError("mask must have dtype bool.")
        if data.dtype not in _DTYPES:
            raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.size() != mask.size():
            raise ValueError("data.size() must equal mask.size()")
        if data.requires_grad:
            warnings.warn("It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can "
                          "use data.detach().clone()", UserWarning, stacklevel=2)
        data = data.detach()
        if data.layout is tede.sparse_coo:
            data, mask = data.coalesce(), mask.coalesce()
        if data.layout is not tede.strided:
            if data._nnz() != mask._nnz():
                data = _sparse.where(mask, data, 0)
            if not _sparse.same_indices(data, mask):
                raise ValueError("data and mask are both sparse COO tensors but do not have the same indices."
                                 if data.layout is tede.sparse_coo else
                                 "data and mask are both sparse CSR tensors but do not share either crow or col indices.")
        self._masked_data, self._masked_mask = data.clone(), mask.clone()               # as in PyTorch, nothing is shared

    def __repr__(self):
        numbers = "{0:8.4f}".format if self._masked_data.is_floating_point() else "{0}".format
        if self.dim() == 0:
            mask = self._masked_mask.item()
            return f"MaskedTensor({numbers(self._masked_data.item()) if mask else '--'}, {mask})"

        def lines(data, mask):
            if data.dim() == 1:
                return ["[" + ", ".join(numbers(x) if m else "      --" for x, m in zip(data.tolist(), mask.tolist())) + "]"]
            rows = [lines(*row) for row in zip(data, mask)]
            inner = [line + ("," if line is row[-1] and row is not rows[-1] else "") for row in rows for line in row]
            return ["[", *("  " + line for line in inner), "]"]
        return "MaskedTensor(\n" + "\n".join("  " + line for line in lines(self._masked_data.to_dense(), self._masked_mask.to_dense())) + "\n)"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if cls._table is None:
            cls._table = _functions()
        if func in cls._table:
            return cls._table[func](*args, **kwargs)
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with tede._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        plain = name.removesuffix("_") if not name.endswith("__") else name
        if plain in _UNARY or plain in _BINARY:
            return _elementwise(func, plain, args, kwargs)
        if name in _MOVING:
            return _moved(func, args, kwargs)
        if name in _REDUCTIONS and is_masked_tensor(args[0]):
            dim = args[1] if len(args) > 1 else kwargs.pop("dim", None)
            keepdim = args[2] if len(args) > 2 else kwargs.pop("keepdim", False)
            return MaskedTensor(*_reduced(args[0]._masked_data, args[0]._masked_mask, name, dim, keepdim, kwargs))
        if name in ("detach", "clone", "_to_copy", "ones_like", "zeros_like") and is_masked_tensor(args[0]):
            data, mask = args[0]._masked_data, args[0]._masked_mask
            return MaskedTensor(func(data, *args[1:], **kwargs), mask.clone() if name == "clone" else mask)
        if name == "copy_" and is_masked_tensor(args[0]):
            if not is_masked_tensor(args[1]) or not _same(_mask(args[0]), _mask(args[1])):
                raise ValueError("args[0] mask and args[1] mask must match but do not")
            func(_data(args[0]), _data(args[1]))
            return args[0]
        if name == "where":
            return _Where.forward(_Ignored(), *args)
        if name == "_local_scalar_dense":
            if not args[0]._masked_mask.item():
                raise ValueError("__bool__ expects mask to be True")
            return func(args[0]._masked_data)
        if name == "_is_any_true":
            data, mask = args[0]._masked_data, args[0]._masked_mask
            if data.dtype != tede.bool:
                raise ValueError("expected a boolean tensor")
            return MaskedTensor(tede.any(data & mask), tede.tensor(True))
        return NotImplemented

    def __lt__(self, other):
        return tede.lt(self, other)

    def to_tensor(self, value):
        """The data, `value` where it doesn't count."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def get_data(self):
        """All elements, with those that don't count."""
        return _Data.apply(self)

    def get_mask(self):
        """True where an element counts."""
        return self._masked_mask

    @property
    def layout(self):
        return self._masked_data.layout

    def is_sparse_coo(self):
        return self.layout is tede.sparse_coo

    def is_sparse_csr(self):
        return self.layout is tede.sparse_csr

    @property
    def is_sparse(self):
        return self.is_sparse_coo() or self.is_sparse_csr()


class _Ignored:
    """In a context's place where no gradient is wanted."""


def masked_tensor(data, mask, requires_grad=False):
    """A MaskedTensor over data and mask, without their history."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A MaskedTensor through which gradients reach data."""
    return _FromParts.apply(data, mask)
