"""Reductions and normalizations over the elements that a mask lets through.

Each is the plain operator after the masked-out elements became what doesn't change its result: 0 for a sum, -inf for a
maximum.  The mask is true where an element counts and is broadcast to the input.  MaskedTensor, the class that carries
data and mask around together, is in maskedtensor; what is sparse, in _sparse."""
import tede
from tede.masked import _sparse

_SMALL_INTEGERS = frozenset((tede.uint8, tede.bool, tede.int8, tede.int16, tede.int32))


_REDUCTIONS = frozenset(("sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"))
_NORMALIZATIONS = frozenset(("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"))


# ---- masks, neutral elements, dimensions -----------------------------------------------------------------------------

def _input_mask(input, *args, mask=None, **kwargs):
    """The mask as booleans in the input's shape."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.layout is not tede.strided or input.layout is not tede.strided:
        return _sparse.like(mask, input)
    return (mask if mask.shape == input.shape else tede.broadcast_to(mask, input.shape)).to(tede.bool)


def _output_mask(op, input, *args, **kwargs):
    """Which elements of op's result, an operator of this module, come from elements that count."""
    name = getattr(op, "__name__", type(op).__name__)
    if name in _NORMALIZATIONS:
        return _input_mask(input, *args, **kwargs)
    if name not in _REDUCTIONS:
        raise ValueError(f"_output_mask expected masked operation (got {name})")
    args = args[1:] if name == "norm" else args
    result = _input_mask(input, *args, **kwargs)
    for d in reversed(_canonical_dim(args[0] if args else kwargs.get("dim"), input.ndim)):
        result = result.any(d, bool(kwargs.get("keepdim", False)))
    return result


def _where(mask, input, fill_value):
    """The input where the mask is true, fill_value elsewhere; of a sparse input what the mask lets through is specified."""
    if mask.layout is tede.strided:
        return tede.where(mask, input, fill_value)
    if mask.layout not in (tede.sparse_coo, tede.sparse_csr):
        raise ValueError(f"_where expects strided or sparse COO or sparse CSR tensor but got {mask.layout}")
    return _sparse.where(mask, input, fill_value)


def _lowest(input):
    if input.is_floating_point() or input.is_complex():
        return float("-inf")
    return tede.iinfo(input.dtype).min


def _highest(input):
    return float("inf") if input.is_floating_point() else tede.iinfo(input.dtype).max


# What stands in for elements that don't count.
_NEUTRAL = {"sum": lambda input: 0, "prod": lambda input: 1, "amax": _lowest, "amin": _highest,
            "median": lambda input: float("nan")}


def _reduction_identity(name, input, *args):
    """The neutral element of a reduction as a tensor without dimensions; None for those that have none."""
    name = name.rpartition(".")[2]                      # "masked.sum" is "sum"
    name = {"cumsum": "sum", "cumprod": "prod", "argmax": "amax", "logaddexp": "amax", "logsumexp": "amax",
            "argmin": "amin", "norm": "sum"}.get(name, name) if not (name == "norm" and args[:1] == (float("-inf"),)) else "amin"
    if name in ("mean", "var", "std"):
        return None
    if name not in _NEUTRAL or name in ("amax", "amin") and input.dtype == tede.bool:
        raise NotImplementedError(f"identity of {name} on {input.dtype} input")
    return tede.tensor(_NEUTRAL[name](input), dtype=input.dtype, device=input.device)


def _filled(name, input, mask, *args):
    """The input with the neutral element where the mask is false; a MaskedTensor brings a mask along."""
    own = getattr(input, "_masked_mask", None)
    if own is not None:
        mask, input = own if mask is None else own & _input_mask(input, mask=mask), input.get_data()
    if mask is None:
        return input
    mask = _input_mask(input, mask=mask)
    return _where(mask, input, _reduction_identity(name, input, *args))


def _combine_input_and_mask(op, input, mask, *args):
    """The input as an operator of this module reduces it."""
    return _filled(op.__name__, input, mask, *args)


def _canonical_dim(dim, ndim):
    """Dimensions counted from the front, sorted; all of them for None and ()."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    ndim, dims = max(ndim, 1), []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in dims:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        dims.append(d % ndim)
    return tuple(sorted(dims))


def _widened(input, dtype):
    """The dtype of a sum: small integers are added up as int64."""
    return dtype if dtype is not None else tede.int64 if input.dtype in _SMALL_INTEGERS else input.dtype


def _sparse_reduction(name, input, dim, keepdim, dtype, mask):
    """The reduction of a sparse tensor. Where unspecified elements, zeros to all others, would matter there must be a mask."""
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {str(input.layout).rpartition('.')[2]} tensor input")
    return _sparse.reduce(name, _filled(name, input, mask) if name != "mean" else _where(_input_mask(input, mask=mask), input, 0),
                          _canonical_dim(dim, input.ndim), bool(keepdim), dtype, lambda x: _reduction_identity(name, x))


# ---- reductions --------------------------------------------------------------------------------------------------------

def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the elements that count; 0 where none does."""
    if input.layout is not tede.strided:
        return _sparse_reduction("sum", input, dim, keepdim, _widened(input, dtype), mask)
    return tede.sum(_filled("sum", input, mask), _canonical_dim(dim, input.ndim), bool(keepdim), dtype=_widened(input, dtype))


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the elements that count; 1 where none does."""
    if input.layout is not tede.strided:
        return _sparse_reduction("prod", input, dim, keepdim, _widened(input, dtype), mask)
    result = _filled("prod", input, mask).to(_widened(input, dtype))
    for d in reversed(_canonical_dim(dim, input.ndim)):
        result = result.prod(d, bool(keepdim))
    return result


def cumsum(input, dim, *, dtype=None, mask=None):
    """Running sums; an element that doesn't count adds 0."""
    dtype = input.dtype if dtype is None else dtype
    return tede.cumsum(_filled("sum", input, mask), _canonical_dim(dim, input.ndim)[0], dtype=dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """Running products; an element that doesn't count multiplies by 1."""
    dtype = input.dtype if dtype is None else dtype
    return tede.cumprod(_filled("prod", input, mask), _canonical_dim(dim, input.ndim)[0], dtype=dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element that counts; the lowest value of the dtype where none does."""
    if input.layout is not tede.strided:
        return _sparse_reduction("amax", input, dim, keepdim, input.dtype if dtype is None else dtype, mask)
    result = tede.amax(_filled("amax", input, mask), _canonical_dim(dim, input.ndim), bool(keepdim))
    return result.to(input.dtype if dtype is None else dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element that counts; the highest value of the dtype where none does."""
    if input.layout is not tede.strided:
        return _sparse_reduction("amin", input, dim, keepdim, input.dtype if dtype is None else dtype, mask)
    result = tede.amin(_filled("amin", input, mask), _canonical_dim(dim, input.ndim), bool(keepdim))
    return result.to(input.dtype if dtype is None else dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element that counts is, in the input's dtype by default."""
    return tede.argmax(_filled("amax", input, mask), dim, bool(keepdim)).to(input.dtype if dtype is None else dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element that counts is, in the input's dtype by default."""
    return tede.argmin(_filled("amin", input, mask), dim, bool(keepdim)).to(input.dtype if dtype is None else dtype)


def _count(input, dim, keepdim, mask):
    """How many elements count."""
    if mask is None:
        return sum(tede.ones(input.shape, dtype=tede.int64, device=input.device), dim, keepdim=keepdim)
    return mask.sum(dim=dim, keepdim=bool(keepdim))


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the elements that count; NaN where none does."""
    source = "Input" if dtype is None else "Optional"
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex "
                         f"dtype. Got: {dtype}")
    if input.layout is not tede.strided:
        return _sparse_reduction("mean", input, dim, keepdim, dtype, mask)
    mask = None if mask is None else _input_mask(input, mask=mask)
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median of the elements that count; of integers there must be at least one."""
    dtype = input.dtype if dtype is None else dtype
    dim = _canonical_dim(dim, input.ndim)[0]
    floating = input.is_floating_point()
    result = tede.nanmedian(_filled("median", input if floating else input.to(tede.float32), mask), dim, keepdim).values
    if floating:
        return result
    if tede.isnan(result).any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """``log(sum(exp(input)))`` of the elements that count."""
    result = tede.logsumexp(_filled("logsumexp", input, mask), _canonical_dim(dim, input.ndim), keepdim=keepdim)
    return result.to(input.dtype if dtype is None else dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """``log(exp(input) + exp(other))``, without the part that is masked out."""
    result = tede.logaddexp(_filled("logaddexp", input, input_mask), _filled("logaddexp", other, other_mask))
    return result.to(input.dtype if dtype is None else dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The norm of the vector of elements that count."""
    filled = _filled("norm", input, mask, ord)
    return tede.linalg.vector_norm(filled, ord, _canonical_dim(dim, input.ndim), bool(keepdim),
                                   dtype=input.dtype if dtype is None else dtype)


def _variance(input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    correction = float(correction if correction is not None else unbiased is not False)

    def numeric(dtype):
        return dtype if dtype.is_floating_point or dtype.is_complex else tede.float32
    dtype = numeric(input.dtype) if dtype is None else dtype
    mask = None if mask is None else _input_mask(input, mask=mask)
    count = _count(input, dim, True, mask)
    difference = input - sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    total = sum(difference * difference.conj(), dim, keepdim=keepdim, dtype=numeric(dtype), mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    if correction:
        count = count.to(numeric(dtype).to_real()) - correction
        count = tede.maximum(count, count.new_zeros([]))
    return (total / count).to(dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the elements that count."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the elements that count."""
    return tede.sqrt(_variance(input, dim, unbiased, correction, keepdim, dtype, mask))


# ---- normalizations ----------------------------------------------------------------------------------------------------

def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax over the elements that count; the others become 0."""
    return tede.softmax(_filled("amax", input, mask), _canonical_dim(dim, input.ndim)[0], dtype=dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of softmax; -inf where an element doesn't count."""
    return tede.log_softmax(_filled("amax", input, mask), _canonical_dim(dim, input.ndim)[0], dtype=dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negated elements that count."""
    return tede.softmax(-_filled("amin", input, mask), _canonical_dim(dim, input.ndim)[0], dtype=dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements that count divided by their norm, which is at least eps."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled("sum", input, mask) / tede.maximum(length, length.new_full([], eps))
