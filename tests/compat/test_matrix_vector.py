"""Products of matrices and vectors, however the matrix lies, and whatever is left over beyond whole vectors."""
import pytest


@pytest.mark.parametrize("m, k", [(1, 1), (1, 777), (3, 64), (4, 100), (7, 15), (67, 259), (300, 300), (2100, 9), (5, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_with_vectors_agree_with_sums(lib, m, k, dtype):
    lib.manual_seed(m)
    dtype = getattr(lib, dtype)
    a, x, y = lib.randn(m, k, dtype=dtype), lib.randn(k, dtype=dtype), lib.randn(m, dtype=dtype)
    expected = (a.double() * x.double()).sum(1)
    least = 8 * lib.finfo(dtype).eps * (1 + k ** 0.5) * 4
    wide = lib.zeros(m, 2 * k, dtype=dtype)
    wide[:, ::2] = a
    for matrix in a, a.t().contiguous().t(), wide[:, ::2]:
        assert ((matrix @ x).double() - expected).abs().max() <= least
        assert ((x @ matrix.t()).double() - expected).abs().max() <= least
        both = lib.addmv(y, matrix, x, beta=2, alpha=-1).double()
        assert (both - (2 * y.double() - expected)).abs().max() <= least + 1e-6 * (dtype == lib.float32)
    if m > 1 and lib.__name__ == "tede":       # a row's sum doesn't depend on its neighbours
        assert (a[1:] @ x == (a @ x)[1:]).all()


@pytest.mark.parametrize("m, k", [(1, 1), (2, 31), (3, 64), (5, 100), (7, 15), (67, 259), (130, 300), (9, 5000)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_added_up_as_floats(lib, m, k, dtype):
    """One rounding of a sum that float32 holds to seven digits."""
    lib.manual_seed(k)
    dtype = getattr(lib, dtype)
    a, x = lib.randn(m, k, dtype=dtype), lib.randn(k, dtype=dtype)
    wide = lib.zeros(m, k + 3, dtype=dtype)
    wide[:, :k] = a
    right = (a.double() * x.double()).sum(1)
    for matrix in a, wide[:, :k]:
        for result in matrix @ x, lib.nn.functional.linear(x[None], matrix)[0], lib.addmv(lib.zeros(m, dtype=dtype), matrix, x):
            assert result.dtype is dtype
            assert ((result.double() - right).abs() <= lib.finfo(dtype).eps * right.abs() + 1e-5 * (k + 1) ** .5).all()
    y = lib.ones(m, dtype=dtype)
    both = lib.addmv(y, a, x, beta=2, alpha=-1).double()
    assert ((both - (2 - right)).abs() <= lib.finfo(dtype).eps * (right.abs() + 2)).all()
    odd = a.clone()
    odd[0, k - 1] = float("inf")
    assert not (odd @ x)[0].isfinite() and (odd @ x)[1:].isfinite().all()
