"""Matrix products of groups: one product per group of rows, columns or terms, or per matrix of a batch."""
from .._native import T

_TITLES = {T.float64: "Double", T.int64: "Long", T.int32: "Int", T.bool: "Bool", T.complex64: "ComplexFloat"}


def grouped_mm(mat_a: T.Tensor, mat_b: T.Tensor, *, offs: T.Tensor | None = None, bias: T.Tensor | None = None,
               out_dtype: T.dtype | None = None) -> T.Tensor:
    """Products of groups that `offs`, where each ends, cuts from the matrices among the operands.

    A matrix times a batch cuts rows, a batch times a matrix columns, two matrices the dimension that is summed over;
    two batches need no `offs`.

        mat_a, mat_b: 2 or 3 dimensions each, of float32, float16 or bfloat16 (RuntimeError).
        offs: int32, one for each group.
        bias: not taken.
        out_dtype: of the result; the operands' only.

    >>> F.grouped_mm(tede.ones(4, 2), tede.ones(2, 2, 3), offs=tede.tensor([1, 4], dtype=tede.int32)).shape
    tede.Size([4, 3])
    """
    for name, x in (("mat_a", mat_a), ("mat_b", mat_b)):
        if x.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
        if x.dtype not in (T.float32, T.bfloat16, T.float16):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {_TITLES.get(x.dtype, x.dtype)}")
    both_flat = mat_a.dim() == mat_b.dim() == 2
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    batches = mat_a.dim() == mat_b.dim() == 3
    if batches != (offs is None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if batches:
        result = T.bmm(mat_a, mat_b)
    else:
        if offs.dim() != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != T.int32:
            raise RuntimeError("Offsets have to be int32")
        ends = offs.tolist()
        groups = list(enumerate(zip([0, *ends], ends)))
        if both_flat:
            result = T.stack([mat_a[:, i:j] @ mat_b[i:j] for _, (i, j) in groups])
        elif mat_a.dim() == 2:
            result = T.cat([mat_a[i:j] @ mat_b[k] for k, (i, j) in groups])
        else:
            result = T.cat([mat_a[k] @ mat_b[:, i:j] for k, (i, j) in groups], 1)
    return result if out_dtype is None else result.to(out_dtype)


def scaled_mm(mat_a: T.Tensor, mat_b: T.Tensor, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None,
              swizzle_b=None, bias: T.Tensor | None = None, output_dtype: T.dtype = T.bfloat16, contraction_dim=(),
              use_fast_accum=False) -> T.Tensor:
    """A product of scaled 8-bit matrices, which are only stored here: NotImplementedError. Convert them first,
    ``x.to(tede.float32)``.

    >>> try:
    ...     F.scaled_mm(*[None] * 8)
    ... except (NotImplementedError, TypeError) as error:
    ...     print("not here")
    not here
    """
    raise NotImplementedError("scaled_mm: tede doesn't multiply float8 matrices; convert them first")


def scaled_grouped_mm(mat_a: T.Tensor, mat_b: T.Tensor, scale_a, scale_recipe_a, scale_b, scale_recipe_b,
                      swizzle_a=None, swizzle_b=None, bias: T.Tensor | None = None, offs: T.Tensor | None = None,
                      output_dtype: T.dtype = T.bfloat16, contraction_dim=(), use_fast_accum=False) -> T.Tensor:
    """`grouped_mm` of scaled 8-bit numbers, which are only stored here: NotImplementedError. Convert them first.

    >>> try:
    ...     F.scaled_grouped_mm(*[None] * 6)
    ... except (NotImplementedError, TypeError) as error:
    ...     print("not here")
    not here
    """
    raise NotImplementedError("scaled_grouped_mm: tede doesn't multiply float8 matrices; convert them first")
