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


@pytest.mark.parametrize("name, text", [("cholesky_ex", "not positive-definite"), ("inv_ex", "inversion could not be completed"),
                                        ("solve_ex", "input matrix is singular"), ("lu_factor_ex", "is zero and using it on lu_solve")])
def test_check_errors_names_the_matrix_that_failed(lib, name, text):
    function = getattr(lib.linalg, name)
    singular = lib.stack([lib.eye(2), lib.zeros(2, 2)])
    operands = (singular, singular) if name == "solve_ex" else (singular,)
    assert function(*operands)[-1].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=text) as caught:
        function(*operands, check_errors=True)
    assert "(Batch element 1)" in str(caught.value)
