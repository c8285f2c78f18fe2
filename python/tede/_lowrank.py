"""Low-rank approximation (svd_lowrank, pca_lowrank) and lu, written over operators."""
import tede
from tede._once import warn_once
from tede.functional import _overridden


def lu(A, pivot=True, get_infos=False, out=None):
    """(LU factors in one matrix, pivots), with `get_infos` also where factors are singular. Prefer `linalg.lu_factor`.

        pivot: exchange rows; False only on CUDA (RuntimeError).
        out: a tuple of tensors for the results.

    >>> factors, pivots = tede.lu(tede.eye(2))
    >>> pivots
    tensor([1, 2], dtype=torch.int32)
    """
    if (found := _overridden(lu, (A,), A, pivot=pivot, get_infos=get_infos, out=out)):
        return found[0]
    warn_once("torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
                  "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
                  "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
                  "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
                  "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)")
    results = tuple(tede.linalg.lu_factor_ex(A, pivot=pivot))
    if not get_infos:
        results = results[:2]
    if out is None:
        return results
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(results):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
    for target, result in zip(out, results):
        target.resize_as_(result).copy_(result)
    return out


def _basis(A, q, niter):
    """Orthonormal columns that span nearly all of A's range: random combinations of its columns, then a few turns with A
    and its transpose (Halko et al., 2009, algorithm 4.4)."""
    dtype = A.dtype if A.is_floating_point() or A.is_complex() else tede.float32
    Q = tede.linalg.qr(A @ tede.randn(A.shape[-1], q, dtype=dtype, device=A.device)).Q
    for _ in range(niter):
        Q = tede.linalg.qr(A.mH @ Q).Q
        Q = tede.linalg.qr(A @ Q).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values and their vectors, nearly, of A, or of A - M (Halko, Martinsson and
    Tropp, 2009, "Finding structure with randomness").

        q: how many, a few more than are wanted.
        niter: steps of the power method.

    >>> u, s, v = tede.svd_lowrank(tede.randn(10, 4), q=2)
    >>> s.shape
    tede.Size([2])
    """
    if (found := _overridden(svd_lowrank, (A, M), A, q=q, niter=niter, M=M)):
        return found[0]
    if M is not None:
        A = A - M.broadcast_to(A.shape)
    m, n = A.shape[-2:]
    tall = A.mH if m < n else A
    Q = _basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = tede.linalg.svd(Q.mH @ tall, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if m < n else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of the principal components, nearly: `svd_lowrank` of the columns less their means.

        q: how many; else 6, or as many as there are.
        center: subtract the means.
        niter: steps of the power method.

    >>> u, s, v = tede.pca_lowrank(tede.randn(10, 4), q=2)
    >>> u.shape, s.shape, v.shape
    (tede.Size([10, 2]), tede.Size([2]), tede.Size([4, 2]))
    """
    if (found := _overridden(pca_lowrank, (A,), A, q=q, center=center, niter=niter)):
        return found[0]
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
