"""Sparse tensors: making them from Python's numbers, and the functions of torch.sparse.

The tensors themselves are the core's (src/layouts/sparse/); here are lists made into tensors, and the checks of invariants, which
are off unless asked for."""
import contextlib

import tede
from tede import _C
from tede._override import overridable

__all__ = ["SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS", "addmm",
           "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "softmax", "sum", "to_sparse_semi_structured"]

_OP = _C._operators
_checks_on = False


class check_sparse_tensor_invariants:
    """Whether the parts of new sparse tensors are checked: globally by ``enable()``, as a context, or as a decorator."""

    @staticmethod
    def is_enabled():
        return _checks_on

    @staticmethod
    def enable():
        global _checks_on
        _checks_on = True

    @staticmethod
    def disable():
        global _checks_on
        _checks_on = False

    def __init__(self, enable=True):
        self.state, self.saved_state = enable, None

    def __enter__(self):
        global _checks_on
        if self.saved_state is not None:
            raise RuntimeError("This context manager instance is already activated. Use a different context manager instance for "
                               "context nesting.")
        self.saved_state, _checks_on = _checks_on, self.state

    def __exit__(self, *exception):
        global _checks_on
        _checks_on, self.saved_state = self.saved_state, None

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)
        return checked


def _tensor(data, dtype=None):
    return data if isinstance(data, _C.Tensor) else _C.tensor(data, dtype=dtype) if dtype else _C.tensor(data)


def _finish(x, requires_grad):
    return x.detach().requires_grad_() if requires_grad else x


def _indices(data):
    x = _tensor(data, None if isinstance(data, _C.Tensor) else _C.int64)
    return x if x.dtype is _C.int64 else x.to(_C.int64)


def _beside(values, *indices):
    """The indices on the device of the values."""
    return [x.to(values.device) if x.is_cpu and values.device.type not in ("cpu", "meta") else x for x in indices]


def _values(data, dtype, device):
    x = _tensor(data)
    if device is not None and tede.device(device).type != x.device.type:
        x = x.to(device)
    return x if dtype is None else x.to(dtype)


@overridable
def sparse_coo_tensor(*args, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None, layout=None, **named):
    """A COO tensor: values, and where they are.

        indices: (dimensions, count) of int64: a column for each element. Those that come twice are added.
        values: (count, ...).
        size: the shape; else just large enough.
        dtype, device, requires_grad: of the tensor.
        check_invariants: whether indices are checked.
        is_coalesced: they are sorted, and come once.

    >>> tede.sparse_coo_tensor([[0, 1], [1, 0]], [5.0, 6.0], (2, 2)).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    names = ("indices", "values", "size")
    if len(args) == 1 and not named and not isinstance(args[0], _C.Tensor):
        named = {"size": args[0]}
    else:
        named = {**dict(zip(names, args)), **named}
    if len(args) > 3 or set(named) - set(names) or not named.keys() >= {"indices", "values"} and set(named) != {"size"}:
        given = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in named.items() if v not in args])
        raise TypeError(
            f"sparse_coo_tensor() received an invalid combination of arguments - got ({given}), but expected one of:\n"
            " * (object indices, object values, *, torch.dtype dtype = None, torch.device device = None, bool pin_memory = False, "
            "bool requires_grad = False, bool check_invariants = None, bool is_coalesced = None)\n"
            " * (object indices, object values, tuple of ints size, *, torch.dtype dtype = None, torch.device device = None, bool "
            "pin_memory = False, bool requires_grad = False, bool check_invariants = None, bool is_coalesced = None)\n"
            " * (tuple of ints size, *, torch.dtype dtype = None, torch.device device = None, bool requires_grad = False, bool "
            "check_invariants = None)\n")
    size = named.get("size")
    if "indices" not in named:
        return _finish(_OP["sparse_coo_tensor"](tuple(size), dtype=dtype or tede.get_default_dtype(), device=device or tede.get_default_device()), requires_grad)
    indices, values = _indices(named["indices"]), _values(named["values"], dtype, device)
    indices, = _beside(values, indices)
    values = values if values.dim() else values.expand(1)       # one number is the value of one element
    if size is None:
        x = _OP["sparse_coo_tensor"](indices, values, is_coalesced=is_coalesced)
    else:
        if _checks_on if check_invariants is None else check_invariants:
            _OP["_validate_sparse_coo_tensor_args"](indices, values, tuple(size), is_coalesced)
        x = _OP["sparse_coo_tensor"](indices, values, tuple(size), is_coalesced=is_coalesced)
    return _finish(x, requires_grad)


@overridable
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None,
                             pin_memory=False, requires_grad=False, check_invariants=None):
    """A CSR, CSC, BSR or BSC tensor, by its layout.

        compressed_indices: where rows (columns, for CSC and BSC) begin among the values, and the end.
        plain_indices: the other index of each value.
        values: (count), or blocks.
        size: the shape; else just large enough.
        layout: tede.sparse_csr, ...
        dtype, device, requires_grad: of the tensor.
        check_invariants: whether indices are checked.

    >>> tede.sparse_compressed_tensor([0, 1, 2], [1, 0], [5.0, 6.0], (2, 2), layout=tede.sparse_csr).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    first, second = (_tensor(x, None if isinstance(x, _C.Tensor) else _C.int64) for x in (compressed_indices, plain_indices))
    values = _values(values, dtype, device)
    first, second = _beside(values, first, second)
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor expected sparse compressed tensor layout but got none")
    if size is None:
        x = _OP["sparse_compressed_tensor"](first, second, values, layout=layout)
        size = x.shape
    else:
        size = tuple(size)
        x = _OP["sparse_compressed_tensor"](first, second, values, size, layout=layout)
    if _checks_on if check_invariants is None else check_invariants:
        _OP["_validate_sparse_compressed_tensor_args"](first, second, values, tuple(size), layout)
    return _finish(x, requires_grad)


_COMPRESSED = """\
A {title} tensor: values, and where they are.

    {first}: where {kind} begin among the values, and the end.
    {second}: the other index of each value.
    values: (count), or for BSR and BSC (count, height, width).
    size: the shape; else just large enough.
    dtype, device, requires_grad: of the tensor.
    check_invariants: whether indices are checked.

>>> tede.sparse_{name}_tensor([0, 1, 2], [1, 0], {values}, (2, 2)).shape
tede.Size([2, 2])
"""


def _of(name, rows):
    layout = getattr(_C, "sparse_" + name)
    first, second = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")

    def make(*args, dtype=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None, **named):
        parts = {**dict(zip((first, second, "values", "size"), args)), **named}
        if len(args) > 4 or not {first, second, "values"} <= parts.keys() <= {first, second, "values", "size"}:
            raise TypeError(f"sparse_{name}_tensor() received an invalid combination of arguments: it takes ({first}, {second}, values, "
                            "size=None, *, dtype, device, pin_memory, requires_grad, check_invariants)")
        return sparse_compressed_tensor(parts[first], parts[second], parts["values"], parts.get("size"), dtype=dtype, layout=layout,
                                        device=device, requires_grad=requires_grad, check_invariants=check_invariants)
    make.__name__ = make.__qualname__ = f"sparse_{name}_tensor"
    make.__doc__ = _COMPRESSED.format(name=name, title=name.upper(), first=first, second=second, kind="rows" if rows else "columns",
                                      values="[5.0, 6.0]" if name[1] == "s" and name[0] == "c" else "[[[5.0]], [[6.0]]]")
    return overridable(make)


sparse_csr_tensor, sparse_csc_tensor = _of("csr", True), _of("csc", False)
sparse_bsr_tensor, sparse_bsc_tensor = _of("bsr", True), _of("bsc", False)


# ---- torch.sparse

def mm(mat1, mat2, reduce=None):
    """The product of two matrices of which one or both are sparse; a sparse operand's gradient is sparse."""
    return _OP["_sparse_mm"](mat1, mat2) if reduce is None else _OP["_sparse_mm"](mat1, mat2, reduce)


spmm = dsmm = _C._functions["mm"]
hsmm = _C._functions["hspmm"]


@overridable
def saddmm(*args, **kwargs):
    """`sspaddmm`, by an older name: all but the second factor is sparse.

    >>> eye = tede.eye(2).to_sparse()
    >>> tede.saddmm(eye, eye, tede.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return _OP["sspaddmm"](*args, **kwargs)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """``beta * mat + alpha * mat1 @ mat2`` for a sparse mat1, whose gradient is sparse."""
    return _OP["_sparse_addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """``beta * input + alpha * mat1 @ mat2`` at the elements that the compressed tensor input specifies."""
    result = _OP["sparse_sampled_addmm"](input, mat1, mat2, beta=beta, alpha=alpha)
    return result if out is None else out.copy_(result)


def sum(input, dim=None, dtype=None):
    """Sums of a COO tensor over some dimensions, a COO tensor; over all that are sparse, a strided one."""
    if dim is None:
        return _OP["_sparse_sum"](input) if dtype is None else _OP["_sparse_sum"](input, dtype=dtype)
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    return _OP["_sparse_sum"](input, dim) if dtype is None else _OP["_sparse_sum"](input, dim, dtype=dtype)


def softmax(input, dim, *, dtype=None):
    """Softmax over the elements that are specified along a dimension."""
    return _OP["_sparse_softmax"](input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of softmax over the elements that are specified along a dimension."""
    return _OP["_sparse_log_softmax"](input, dim, dtype)


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix whose diagonals, by their offsets from the main one, are the rows of `diagonals`."""
    return _OP["_spdiags"](diagonals, offsets, tuple(shape), layout)


def as_sparse_gradcheck(gradcheck):
    """gradcheck for functions of sparse tensors: their values are what is varied."""
    def check(func, inputs, **kwargs):
        masked = kwargs.pop("masked", False)
        inputs = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
        rebuilt, flat = [], []
        for x in inputs:
            if isinstance(x, _C.Tensor) and x.requires_grad and x.layout is not _C.strided:
                if not masked:      # every element may change: all are specified
                    x = x.detach().to_dense().sparse_mask(_dense_as(tede.ones(x.shape, dtype=x.dtype), x.detach(), x.layout))
                x = x.coalesce() if x.layout is _C.sparse_coo else x
                flat.append(x.detach().values().clone().requires_grad_())
                rebuilt.append(lambda v, x=x.detach(): _OP["values_backward"](v, x))
            else:
                flat.append(x)
                rebuilt.append(None)

        def strided(*args):
            out = func(*(a if make is None else make(a) for a, make in zip(args, rebuilt)))
            several = isinstance(out, (list, tuple))
            outs = [o.to_dense(masked_grad=masked) if isinstance(o, _C.Tensor) and o.layout is not _C.strided else o for o in (out if several else [out])]
            return tuple(outs) if several else outs[0]
        return gradcheck(strided, tuple(flat), **kwargs)
    return check


def _dense_as(dense, x, layout):
    if layout is _C.sparse_coo:
        return dense.to_sparse(x.sparse_dim())
    blocks = tuple(x.values().shape[x.crow_indices().ndim if layout is _C.sparse_bsr else x.ccol_indices().ndim:][:2]) \
        if layout in (_C.sparse_bsr, _C.sparse_bsc) else None
    return dense.to_sparse(layout=layout, blocksize=blocks, dense_dim=x.dense_dim())


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    short = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int8": "Char",
             "int16": "Short", "int32": "Int", "int64": "Long"}
    dtype = next((dtype for dtype, title in short.items() if name == title + "Tensor"), None)
    if dtype:       # the older way to name dtype and layout at once
        def make(*args):
            with contextlib.suppress(TypeError):
                if all(isinstance(a, int) for a in args):
                    return sparse_coo_tensor(args, dtype=getattr(_C, dtype))
            return sparse_coo_tensor(*args, dtype=getattr(_C, dtype))
        make.__name__ = name
        return make
    if name in ("SparseSemiStructuredTensor", "to_sparse_semi_structured"):
        from tede.sparse import _semi_structured
        return getattr(_semi_structured, name)
    if name == "spsolve" or name.startswith("SparseSemiStructured"):
        def refuse(*args, **kwargs):
            raise NotImplementedError(f"torch.sparse.{name} is for GPUs: tede doesn't have it")
        refuse.__name__ = name
        return type(name, (), {"__new__": refuse}) if name[0] == "S" else refuse
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
