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


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_many_small_matrices_give_what_each_gives_alone(lib, n, name):
    t, random = lib, np.random.default_rng(n)
    a = random.standard_normal((37, n, n)).astype(name)
    a[3] = 0                                                    # one without an inverse
    a[5, :, 0] = 0
    eps = np.finfo(name).eps
    inverse, info = t.linalg.inv_ex(t.tensor(a))
    assert info[3] == 1 and info[5] == 1 and (info != 0).sum() == 2
    good = [i for i in range(37) if i not in (3, 5)]
    size = np.abs(a[good]).max() * np.abs(inverse[good].numpy()).max()
    assert np.abs(a[good] @ inverse[good].numpy() - np.eye(n)).max() < 8 * n * size * eps
    for k in (1, 3, 8, 9):
        b = random.standard_normal((37, n, k)).astype(name)
        x = t.linalg.solve(t.tensor(a[good]), t.tensor(b[good]))
        for i in (0, 1, 30):
            alone = t.linalg.solve(t.tensor(a[good[i]]), t.tensor(b[good[i]]))
            assert np.abs((x[i] - alone).numpy()).max() <= 2 * n * size * eps * np.abs(x[i].numpy()).max()
    factors, pivots, infos = t.linalg.lu_factor_ex(t.tensor(a))
    p, low, up = t.lu_unpack(factors, pivots)
    assert np.abs((p @ low @ up).numpy() - a).max() < 8 * n * eps * np.abs(a).max()
    assert np.abs(low.numpy()).max() <= 1 and infos[3] == 1
    right = np.linalg.det(a.astype("float64"))
    assert np.abs(t.linalg.det(t.tensor(a)).numpy() - right).max() < 40 * n * eps * np.abs(right).max()
