"""torch.functional: functions that are more than one operator: any number of tensors, or arguments of several kinds."""
from tede import _C
from tede._C import Tensor
from tede._once import warn_once
from tede._override import overridable, overridable_members
from tede._sym import is_symbolic

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist",
           "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot",
           "unique", "unique_consecutive", "unravel_index"]

_F = _C._functions
_O = _C._operators


def _operator(name):
    try:
        return _O[name]
    except KeyError:
        raise NotImplementedError(f"{name}: tede doesn't have this operator yet") from None


def _list(tensors):
    """Tensors given one by one or as one sequence."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _one_by_one(tensors):
    """Tensors given one by one: a sequence of them isn't taken apart."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element 0 in argument 0, but got {type(x).__name__}")
    return list(tensors)


def _overridden(function, tensors, *args, **kwargs):
    """The result of __torch_function__, as a tuple of one; None if no argument has it."""
    if _C._has_torch_function(tensors):
        return (_C._handle_torch_function(function, tensors, *args, **kwargs),)
    return None


# ---- sums of products ----------------------------------------------------------------------------------------------

def einsum(*args):
    """Einstein's summation: dimensions with one letter run together, and those that the result doesn't name are summed
    over.

        args: an equation such as "bij,bjk->bik" and its operands; or operands and lists of dimensions, in turn. "..."
            stands for further dimensions; without "->" the result has the letters that come once, in alphabetical
            order.

    RuntimeError if sizes of one letter differ.

    >>> tede.einsum("ij,jk->ik", tede.ones(2, 3), tede.ones(3, 4)).shape
    tede.Size([2, 4])
    >>> tede.einsum("ii", tede.eye(3))
    tensor(3.)
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and "
                         "its subscripts list")
    if isinstance(args[0], Tensor):
        def letter(n):
            if n is Ellipsis:
                return "..."
            if not 0 <= n < 52:
                raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
            return chr(ord("A") + n) if n < 26 else chr(ord("a") + n - 26)
        equation = ",".join("".join(map(letter, subscripts)) for subscripts in args[1::2])
        if len(args) % 2:
            equation = ",".join("".join(map(letter, subscripts)) for subscripts in args[1:-1:2])
            equation += "->" + "".join(map(letter, args[-1]))
            operands = args[:-1:2]
        else:
            operands = args[::2]
    else:
        equation, operands = args[0], args[1:]
    operands = _list(operands)
    if (found := _overridden(einsum, operands, equation, *operands)):
        return found[0]
    return _operator("einsum")(equation, operands)


@overridable
def tensordot(a, b, dims=2, out=None):
    """The product of two tensors summed over some dimensions of both.

        dims: how many: the last of a and the first of b; or two lists of them.
        out: a tensor for the result.

    >>> tede.tensordot(tede.ones(2, 3), tede.ones(3, 4), dims=1).shape
    tede.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims)
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = dims
        first = [first] if isinstance(first, int) else list(first)
        second = [second] if isinstance(second, int) else list(second)
    if "tensordot" in _O:
        return _O["tensordot"](a, b, first, second) if out is None else _O["tensordot"](a, b, first, second, out=out)
    first, second = [d % a.dim() for d in first], [d % b.dim() for d in second]
    kept_a = [d for d in range(a.dim()) if d not in first]
    kept_b = [d for d in range(b.dim()) if d not in second]
    n = 1
    for i, j in zip(first, second):
        if a.shape[i] != b.shape[j]:
            raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has "
                               f"size {b.shape[j]} in dim {j}")
        n *= a.shape[i]
    x = a.permute(kept_a + first).reshape(-1, n)
    y = b.permute(second + kept_b).reshape(n, -1)
    result = (x @ y).reshape([a.shape[d] for d in kept_a] + [b.shape[d] for d in kept_b])
    return result if out is None else out.copy_(result)


@overridable_members
def chain_matmul(*matrices, out=None):
    """The product of matrices, in the cheapest order; `linalg.multi_dot` does the same.

        out: a tensor for the result.

    >>> tede.chain_matmul(tede.ones(2, 3), tede.ones(3, 4), tede.ones(4, 1)).shape
    tede.Size([2, 1])
    """
    matrices = _one_by_one(matrices)
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    warn_once("torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
                  "instead, which accepts a list of two or more tensors rather than multiple parameters.")
    return _operator("chain_matmul")(matrices) if out is None else _operator("chain_matmul")(matrices, out=out)


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """``||x1[i] - x2[j]||_p`` for all rows: (..., P, M) and (..., R, M) -> (..., P, R).

        p: which norm, from 0.
        compute_mode: whether Euclidean distances go by a matrix product, which is faster and less exact:
            "use_mm_for_euclid_dist_if_necessary" (above 25 rows), "use_mm_for_euclid_dist",
            "donot_use_mm_for_euclid_dist".

    >>> tede.cdist(tede.zeros(1, 2), tede.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    modes = {"use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1, "donot_use_mm_for_euclid_dist": 2}
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if (found := _overridden(cdist, (x1, x2), x1, x2, p=p, compute_mode=compute_mode)):
        return found[0]
    return _O["cdist"](x1, x2, p, modes[compute_mode])


def nonzero(input, *, out=None, as_tuple=False):
    """Where the elements are not zero: a row of indices for each, (count, dimensions).

        as_tuple: a vector for each dimension instead, with which the tensor can be indexed.
        out: a tensor for the result.

    >>> tede.nonzero(tede.tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    >>> tede.nonzero(tede.tensor([0, 5, 6]), as_tuple=True)
    (tensor([1, 2]),)
    """
    if (found := _overridden(nonzero, (input,), input, as_tuple=as_tuple)):
        return found[0]
    if not isinstance(as_tuple, bool):
        raise TypeError(f"nonzero(): argument 'as_tuple' must be bool, not {type(as_tuple).__name__}")
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if not as_tuple:
        return _operator("nonzero")(input) if out is None else _operator("nonzero")(input, out=out)
    return _operator("nonzero")(input if input.dim() else input.reshape(1)).unbind(1)


# ---- shapes ----------------------------------------------------------------------------------------------------------

def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to; RuntimeError if there is none.

    >>> tede.broadcast_shapes((2, 1), (3,))
    tede.Size([2, 3])
    """
    for s in shapes:
        if not (isinstance(s, (int, tuple, list)) or is_symbolic(s)):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s}")
    shapes = [(s,) if isinstance(s, int) or is_symbolic(s) else tuple(s) for s in shapes]
    result = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i in range(-1, -1 - len(shape), -1):
            if shape[i] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if shape[i] == 1 or shape[i] == result[i]:
                continue
            if result[i] != 1:
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            result[i] = shape[i]
    return _C.Size(result)


def broadcast_tensors(*tensors):
    """All tensors expanded to their common shape, without copies.

    >>> [x.shape for x in tede.broadcast_tensors(tede.ones(2, 1), tede.ones(3))]
    [tede.Size([2, 3]), tede.Size([2, 3])]
    """
    if (found := _overridden(broadcast_tensors, tensors, *tensors)):
        return found[0]
    tensors = _one_by_one(tensors)
    try:
        shape = broadcast_shapes(*(x.shape for x in tensors))
    except RuntimeError:
        a = tensors[0]
        for b in tensors[1:]:
            a = a + b                    # fails in the words that name the dimension
        raise
    return tuple(x if x.shape == shape else x.expand(shape) for x in tensors)


@overridable
def split(tensor, split_size_or_sections, dim=0):
    """Parts along `dim`, as views.

        split_size_or_sections: the parts' size, the last one being smaller if need be, or a list of sizes.

    >>> tede.split(tede.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid: one tensor per vector, all of the grid's shape.

        indexing: "ij", as matrices, or "xy", with the first two exchanged. None is "ij", with a warning.

    >>> x, y = tede.meshgrid(tede.tensor([1, 2]), tede.tensor([3, 4, 5]), indexing="ij")
    >>> x
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    tensors = _list(tensors)
    if (found := _overridden(meshgrid, tensors, *tensors, indexing=indexing)):
        return found[0]
    if indexing is None:
        warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in tensors:
        if x.device != tensors[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
        if x.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
        if x.dtype != tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(tensors) >= 2
    if swap:
        tensors[:2] = tensors[1], tensors[0]
    shape = [x.numel() for x in tensors]
    grids = [x.reshape([-1 if i == k else 1 for k in range(len(tensors))]).expand(shape) for i, x in enumerate(tensors)]
    if swap:
        grids[:2] = grids[1], grids[0]
    return tuple(grids)


def _atleast(tensors, function, one):
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0]) if not (found := _overridden(one, tensors, *tensors)) else found[0]
    return tuple(map(function, _list(tensors)))


@overridable_members
def atleast_1d(*tensors):
    """Tensors without dimensions get one; of several a tuple.

    >>> tede.atleast_1d(tede.tensor(3))
    tensor([3])
    """
    return _atleast(tensors, lambda x: x if x.dim() else x.reshape(1), atleast_1d)


@overridable_members
def atleast_2d(*tensors):
    """Dimensions are added in front up to two; of several a tuple.

    >>> tede.atleast_2d(tede.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _atleast(tensors, lambda x: x if x.dim() > 1 else x.reshape(1, -1) if x.dim() == 0 else x.unsqueeze(0), atleast_2d)


@overridable_members
def atleast_3d(*tensors):
    """Dimensions are added up to three: (n) becomes (1, n, 1), (n, m) (n, m, 1); of several a tuple.

    >>> tede.atleast_3d(tede.ones(2)).shape
    tede.Size([1, 2, 1])
    """
    def grow(x):
        if x.dim() == 0:
            return x.reshape(1, 1, 1)
        if x.dim() == 1:
            return x.unsqueeze(0).unsqueeze(-1)
        return x.unsqueeze(-1) if x.dim() == 2 else x
    return _atleast(tensors, grow, atleast_3d)


@overridable_members
def block_diag(*tensors):
    """A matrix with the given ones along its diagonal, zeros elsewhere; vectors are rows, numbers 1 x 1.

    >>> tede.block_diag(tede.ones(1, 2), tede.tensor(3.0))
    tensor([[1., 1., 0.],
            [0., 0., 3.]])
    """
    tensors = _one_by_one(tensors)
    for i, x in enumerate(tensors):
        if x.dim() > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.dim()} "
                               f"dimensions")
    if not tensors:
        return _F["empty"]((1, 0))
    return _O["block_diag"](tensors)


@overridable_members
def cartesian_prod(*tensors):
    """All combinations of the vectors' elements, as rows.

    >>> tede.cartesian_prod(tede.tensor([1, 2]), tede.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    tensors = _one_by_one(tensors)
    for x in tensors:
        if x.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _F["stack"](meshgrid(*tensors, indexing="ij"), -1).reshape(-1, len(tensors))


@overridable
def unravel_index(indices, shape):
    """Coordinates in `shape`, a tensor for each dimension, from indices into the flattened tensor.

    >>> tede.unravel_index(tede.tensor([4]), (2, 3))
    (tensor([1]), tensor([1]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"unravel_index() expected 'indices' to be an integer Tensor, but got {type(indices)}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    indices, result = indices.to(_C.int64), []
    for n in reversed(shape):
        result.append(indices % n)
        indices = indices // n
    return _O["stack"](result[::-1], -1).unbind(-1) if result else ()


# ---- norms and sets ----------------------------------------------------------------------------------------------------

def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """``(sum of |x|**p) ** (1 / p)`` over some dimensions; of matrices the Frobenius ("fro") or nuclear ("nuc") norm.
    Prefer `linalg.vector_norm` and `linalg.matrix_norm`.

        p: a number, infinity, "fro" or "nuc".
        dim: one, or several; None is all.
        keepdim: leave them, of size 1.
        dtype: convert to this first.
        out: a tensor for the result.

    >>> tede.norm(tede.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if (found := _overridden(norm, (input,), input, p=p, dim=dim, keepdim=keepdim, out=out, dtype=dtype)):
        return found[0]
    more = {} if dtype is None else {"dtype": dtype}
    if out is not None:
        more["out"] = out
    if isinstance(dim, int):
        dim = [dim]
    if p == "fro" and dim is None and dtype is not None and input.layout is not _C.strided:
        raise ValueError("dtype argument is not supported in frobenius norm")
    if p == "nuc":
        if dim is not None and len(dim) != 2:
            raise RuntimeError("torch.norm: the nuclear norm needs two dimensions")
        return _operator("linalg_matrix_norm")(input, "nuc", (-2, -1) if dim is None else dim, keepdim, **more)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    order = 2 if p == "fro" or p is None else p
    return _operator("linalg_vector_norm")(input, order, None if dim is None else list(dim), keepdim, **more)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements.

        sorted: they are, in any case.
        return_inverse: also which of them each element is.
        return_counts: also how often each comes.
        dim: different slices along this instead.

    >>> tede.unique(tede.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if (found := _overridden(unique, (input,), input, sorted=sorted, return_inverse=return_inverse,
                             return_counts=return_counts, dim=dim)):
        return found[0]
    if dim is not None:
        results = _operator("unique_dim")(input, dim, sorted, return_inverse, return_counts)
    else:
        results = _operator("_unique2")(input, sorted, return_inverse, return_counts)
    return _chosen(results, return_inverse, return_counts)


@overridable
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Runs of equal elements, each once.

        return_inverse, return_counts, dim: as for `unique`.

    >>> tede.unique_consecutive(tede.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    results = _operator("unique_consecutive")(input, return_inverse, return_counts, dim)
    return _chosen(results, return_inverse, return_counts)


def _chosen(results, inverse, counts):
    chosen = (results[0], *results[1:2] * bool(inverse), *results[2:3] * bool(counts))
    return chosen if len(chosen) > 1 else chosen[0]


# ---- histograms ----------------------------------------------------------------------------------------------------------

def histogramdd(input, bins, range=None, weight=None, density=False):
    """(counts, edges): how many points, the rows of the input, lie in each cell of a grid.

        bins: edges, a tensor for each column; or how many cells there are along each.
        range: (least, largest, least, largest, ...), where bins are numbers.
        weight: what each point counts.
        density: divide by the sum and the cells' volumes.

    >>> tede.histogramdd(tede.tensor([[0.0], [0.5], [0.6]]), bins=[2], range=[0.0, 1.0]).hist
    tensor([1., 2.])
    """
    if (found := _overridden(histogramdd, (input,), input, bins, range=range, weight=weight, density=density)):
        return found[0]
    if isinstance(bins, int):
        bins = [bins] * (input.shape[-1] if input.dim() else 0)
    if bins and isinstance(bins[0], Tensor):
        edges = tuple(bins)
        hist = _O["_histogramdd_from_bin_tensors"](input, list(bins), weight=weight, density=density)
    else:
        edges = _O["_histogramdd_bin_edges"](input, list(bins), range=range, weight=weight, density=density)
        hist = _O["_histogramdd_from_bin_cts"](input, list(bins), range=range, weight=weight, density=density)
    return _C._named_results("histogramdd", hist=hist, bin_edges=edges)


def __getattr__(name):
    """What PyTorch has here, too, and tede as an operator or in a module that stands on this one."""
    if name == "F":             # as torch/functional.py has it
        from tede.nn import functional
        return functional
    if name in ("istft", "lu", "pca_lowrank", "stft", "svd_lowrank"):
        import tede
        return getattr(tede, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
