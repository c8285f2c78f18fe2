"""Short forms of products that PyTorch's iterative solvers share with programs: None stands for the identity matrix."""
import tede
from tede import _C


def is_sparse(A):
    """Whether it is a tensor of coordinates; a TypeError for what is neither tensor nor number."""
    if isinstance(A, _C.Tensor):
        return A.layout == tede.sparse_coo
    raise TypeError(f"expected Tensor but got {type(A)}")


def get_floating_dtype(A):
    """The dtype that computations with a matrix are in: its own if it is a floating one, else float32."""
    return A.dtype if A.dtype in (tede.float16, tede.float32, tede.float64) else tede.float32


def matmul(A, B):
    """A @ B, where A may be sparse, or None."""
    return B if A is None else tede.sparse.mm(A, B) if is_sparse(A) else tede.matmul(A, B)


def bform(X, A, Y):
    """The transpose of X, times A, times Y."""
    return matmul(X.mT, matmul(A, Y))


def qform(A, S):
    """The transpose of S, times A, times S."""
    return bform(S, A, S)


def basis(A):
    """Orthogonal columns that span those of A."""
    return tede.linalg.qr(A).Q


def symeig(A, largest=False):
    """Eigenvalues and eigenvectors of a symmetric matrix, the smallest first, or the largest."""
    values, vectors = tede.linalg.eigh(A)
    return (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
