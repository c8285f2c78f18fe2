"""What linear algebra raises."""
import pytest


def test_what_cannot_be_solved_is_a_linalgerror(lib):
    zeros = lib.zeros(2, 2)
    for call in (lambda: lib.linalg.inv(zeros), lambda: zeros.inverse(), lambda: lib.linalg.solve(zeros, lib.ones(2)),
                 lambda: lib.linalg.cholesky(-lib.eye(2)), lambda: lib.linalg.inv(lib.zeros(3, 2, 2))):
        with pytest.raises(lib.linalg.LinAlgError):
            call()
    assert issubclass(lib.linalg.LinAlgError, RuntimeError) and lib.linalg.LinAlgError is lib._C._LinAlgError
    with pytest.raises(lib.linalg.LinAlgError, match="non-finite"):
        lib.linalg.svd(lib.full((2, 2), float("nan")))
