"""tede.linalg: linear algebra."""
from tede import _C
from tede._namespace import gather

LinAlgError = _C._LinAlgError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from tede._C._linalg import *  # noqa: F403
gather(globals(), _C._linalg, "linalg_", [("matmul", "matmul"), ("diagonal", "diagonal"), ("vander", "vander")])

if "vector_norm" in globals() and "norm" not in globals():
    _vector_norm = globals()["vector_norm"]

    def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
        """A norm of vectors or of matrices, as `ord` and `dim` say."""
        more = {key: value for key, value in (("out", out), ("dtype", dtype)) if value is not None}
        dims = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
        matrix = ord is not None and (len(dims) == 2 if dims is not None else A.dim() == 2)
        if ord is not None and dims is None and A.dim() not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D.")
        if matrix:
            return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, **more)
        return _vector_norm(A, 2 if ord is None else ord, dims, keepdim, **more)


if "vector_norm" in globals() and "matrix_norm" not in globals():
    def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
        """A norm of matrices: 'fro', 1, -1, inf or -inf (those by singular values need svdvals)."""
        if A.dim() < 2:
            raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
        if dtype is not None:
            A = A.to(dtype)
        rows, columns = (d % A.dim() for d in dim)
        if ord == "fro":
            result = _vector_norm(A, 2, [rows, columns], keepdim)
        elif ord in ("nuc", 2, -2):
            if "svdvals" not in globals():
                raise NotImplementedError("linalg.svdvals: tede doesn't have this operator yet")
            s = globals()["svdvals"](A.movedim((rows, columns), (-2, -1)))
            result = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
            if keepdim:
                result = result.reshape([1 if d in (rows, columns) else n for d, n in enumerate(A.shape)])
        elif ord in (1, -1, float("inf"), float("-inf")):
            inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
            sums = A.abs().sum(inner, keepdim=True)
            if sums.shape[outer] == 0 and ord > 0:
                result = sums.sum(outer, keepdim=True)
            else:
                result = sums.amax(outer, keepdim=True) if ord > 0 else sums.amin(outer, keepdim=True)
            if not keepdim:
                for d in sorted((rows, columns), reverse=True):
                    result = result.squeeze(d)
        else:
            raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
        return result if out is None else out.copy_(result)


def __getattr__(name: str) -> "Any":
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
