"""lstsq by each of its drivers."""
import numpy as np
import pytest


@pytest.mark.parametrize("driver", [None, "gelsy", "gelsd"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (40, 33)])
def test_least_squares_without_full_rank(lib, shape, dtype, driver):
    """The smallest of the best solutions, whichever way it is found."""
    if lib.__name__ == "torch" and driver != "gelsd":
        pytest.skip("PyTorch gives LAPACK places of columns that nobody set")
    random = np.random.default_rng(sum(shape))
    a, b = random.standard_normal((2, *shape)), random.standard_normal((*shape[:1], 3))
    a = (a[0] + 1j * a[1] if "complex" in dtype else a[0]).astype(dtype)
    a[:, 1] = 2 * a[:, 0]
    b = b.astype(dtype)
    found = lib.linalg.lstsq(lib.tensor(a), lib.tensor(b), rcond=1e-4, driver=driver)
    assert int(found.rank) == min(shape[0], shape[1] - 1)
    right = np.linalg.pinv(a.astype("complex128"), rcond=1e-4) @ b
    assert np.abs(found.solution.numpy() - right).max() < 5e3 * np.finfo(dtype).eps * np.abs(right).max()
    assert (found.singular_values.numel() > 0) == (driver == "gelsd")


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3), (2, 3, 2)])
def test_a_bound_above_all_singular_values_leaves_none_of_them_to_gelss(lib, shape):
    a, b = lib.randn(shape, dtype=lib.float64), lib.ones(shape[:-1] + (2,), dtype=lib.float64)
    full = min(shape[-2:])
    for rcond in (1.0, 1.5):
        solution, _, rank, values = lib.linalg.lstsq(a, b, rcond=rcond, driver="gelss")
        assert not solution.any() and not rank.any() and lib.allclose(values, lib.linalg.svdvals(a))
        assert (lib.linalg.lstsq(a, b, rcond=rcond, driver="gelsd").rank == full).all()


def test_gels_refuses_a_deficient_rank_unless_all_is_zero(lib):
    b = lib.ones(3, 1)
    for a, code in ([[0., 0.], [0., 1.], [0., 2.]], 1), ([[1., 0.], [1., 0.], [2., 0.]], 2):
        with pytest.raises(RuntimeError, match=rf"does not have full rank \(error code: {code}\)"):
            lib.linalg.lstsq(lib.tensor(a), b, driver="gels")
    solution, residuals, rank, _ = lib.linalg.lstsq(lib.zeros(3, 2), b, driver="gels")
    assert not solution.any() and rank.shape == (0,)
    a = lib.tensor([[1., 2.], [1., 3.], [3., 6.]])
    solution, residuals, _, _ = lib.linalg.lstsq(a, b, driver="gels")
    assert lib.allclose(solution, lib.linalg.lstsq(a, b, driver="gelsd").solution, atol=1e-5)
    assert abs(residuals.item() - 0.4) < 1e-5


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_a_batch_of_none_is_solved_without_a_look_at_it(lib, driver):
    for n in 71, 131:
        assert lib.linalg.lstsq(lib.ones(0, 140, n), lib.ones(0, 140, 2), driver=driver).solution.shape == (0, n, 2)
