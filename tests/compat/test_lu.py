"""LU factors of shapes around where the recursion splits, with their pivots, and solutions from either side."""
import numpy as np
import pytest

SHAPES = [(1, 1), (15, 16), (17, 17), (16, 90), (90, 33), (33, 70), (131, 130)]


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_multiply_to_the_matrix(lib, shape, name):
    t, a = lib, np.random.default_rng(sum(shape)).standard_normal((2, *shape)).astype(name)
    factors, pivots = t.linalg.lu_factor(t.tensor(a))
    p, low, up = t.lu_unpack(factors, pivots)
    assert np.abs((p @ low @ up).numpy() - a).max() < 4 * sum(shape) * np.finfo(name).eps
    assert np.abs(low.numpy()).max() <= 1       # the largest number of a column is divided by
    assert pivots.dtype == t.int32 and int(pivots.min()) >= 1


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("n", [1, 16, 17, 100])
def test_solutions_solve(lib, n, left):
    t, random = lib, np.random.default_rng(n)
    a, b = random.standard_normal((2, n, n)) + 3 * n ** 0.5 * np.eye(n), random.standard_normal((2, n, 3))
    b = b if left else b.swapaxes(1, 2).copy()
    x = t.linalg.solve(t.tensor(a), t.tensor(b), left=left).numpy()
    assert np.abs((a @ x if left else x @ a) - b).max() < 1e-12


def test_a_singular_matrix_names_the_first_zero_on_the_diagonal(lib):
    t = lib
    a = t.eye(40)
    a[20] = a[7]
    assert int(t.linalg.lu_factor_ex(a).info) == 21
    with pytest.raises(RuntimeError, match="singular"):
        t.linalg.solve(a, t.ones(40))
