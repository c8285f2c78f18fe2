"""Factors, eigenvalues and singular values of matrices that are large enough for the library's own reductions: any layout,
batches, clusters, numbers beyond where squares can be computed, and what isn't finite."""
import pytest

SIZES = [33, 64, 100]


def close(lib, a, b, scale):
    assert (a - b).abs().max().item() <= 400 * lib.finfo(a.dtype).eps * scale


def matrices(lib, m, n, dtype):
    lib.manual_seed(n)
    x = lib.randn(m, n, dtype=dtype)
    yield x
    yield lib.ones(m, n, dtype=dtype)
    yield lib.eye(m, dtype=dtype)[:, :n] if m >= n else lib.eye(n, dtype=dtype)[:m]
    yield lib.zeros(m, n, dtype=dtype)
    yield x[:, :3] @ lib.randn(3, n, dtype=dtype)
    yield x * 1e30
    yield x * 1e-30
    yield x * 10 ** -lib.linspace(0, 20, n, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_eigenvectors_are_orthogonal_and_give_the_matrix(lib, n, dtype):
    dtype = getattr(lib, dtype)
    unit = lib.eye(n, dtype=dtype)
    for x in matrices(lib, n, n, dtype):
        a = x + x.mT
        values, vectors = lib.linalg.eigh(a)
        largest = values.abs().max().item() or 1
        close(lib, vectors.mT @ vectors, unit, 1)
        close(lib, a @ vectors / largest, vectors * (values / largest), 1)
        assert (values[1:] >= values[:-1]).all()
        close(lib, lib.linalg.eigvalsh(a) / largest, values / largest, 1)


@pytest.mark.parametrize("uplo", "UL")
def test_one_triangle_is_read(lib, uplo):
    lib.manual_seed(0)
    x = lib.randn(2, 40, 40, dtype=lib.float64)
    half = x.tril() if uplo == "L" else x.triu()
    whole = half + half.mT - lib.diag_embed(half.diagonal(dim1=-2, dim2=-1))
    values, vectors = lib.linalg.eigh(x, UPLO=uplo)
    close(lib, whole @ vectors, vectors * values[:, None, :], 20)
    close(lib, lib.linalg.eigvalsh(x.mT.contiguous().mT, UPLO=uplo), values, 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("m, n", [(33, 33), (48, 70), (70, 48), (100, 64)])
def test_singular_vectors_are_orthogonal_and_give_the_matrix(lib, m, n, full, dtype):
    dtype, least = getattr(lib, dtype), min(m, n)
    for x in matrices(lib, m, n, dtype):
        u, s, vh = lib.linalg.svd(x, full_matrices=full)
        largest = s.max().item() or 1
        assert u.shape == (m, m if full else least) and vh.shape == (n if full else least, n)
        close(lib, u.mT @ u, lib.eye(u.shape[1], dtype=dtype), 1)
        close(lib, vh @ vh.mT, lib.eye(vh.shape[0], dtype=dtype), 1)
        close(lib, u[:, :least] * (s / largest) @ vh[:least], x / largest, 1)
        assert (s[1:] <= s[:-1]).all() and (s >= 0).all()
        close(lib, lib.linalg.svdvals(x) / largest, s / largest, 1)


def test_what_is_not_finite_is_refused(lib):
    for bad in float("nan"), float("inf"):
        x = lib.eye(40)
        x[30, 3] = bad
        with pytest.raises(lib.linalg.LinAlgError):
            lib.linalg.svd(x)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [1, 16, 33, 100, 161])
def test_cholesky_factors_read_one_triangle_and_name_the_pivot_that_fails(lib, n, upper):
    lib.manual_seed(n)
    x = lib.randn(3, n, n, dtype=lib.float64)
    a = x @ x.mT / n + lib.eye(n, dtype=lib.float64)
    factor = lib.linalg.cholesky(a.triu() if upper else a.tril(), upper=upper)
    close(lib, factor.mT @ factor if upper else factor @ factor.mT, a, 1)
    assert (factor == (factor.triu() if upper else factor.tril())).all()
    a[0, n // 2, n // 2], a[2, -1, -1] = -1, float("nan")
    assert lib.linalg.cholesky_ex(a, upper=upper).info.tolist() == [n // 2 + 1, 0, n]


def test_lu_pivots_and_the_first_zero_on_the_diagonal(lib):
    x = lib.arange(40 * 40, dtype=lib.float64).remainder(37).reshape(40, 40) + 5 * lib.eye(40, dtype=lib.float64)
    x[:, 20] = 0
    lu, pivots, info = lib.linalg.lu_factor_ex(x)
    assert info.item() == 21
    p, l, u = lib.lu_unpack(lu, pivots)
    close(lib, p @ l @ u, x, 40)
    assert l.abs().max().item() <= 1
