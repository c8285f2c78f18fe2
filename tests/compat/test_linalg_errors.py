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


HALVES_ACCEPTED = ['svd', 'svdvals', 'eigh', 'eigvalsh', 'ldl_factor', 'ldl_factor_ex', 'cond', 'det', 'lu_factor', 'cholesky', 'matrix_exp']
HALVES_REFUSED = {'eig': 'linalg_eig_out_cpu', 'eigvals': 'linalg_eig_out_cpu', 'qr': 'geqrf_cpu', 'inv': 'Low precision', 'slogdet': 'Low precision',
                  'matrix_rank': 'types other than float and double', 'pinv': r'linalg.pinv\(Half'}


@pytest.mark.parametrize('name', HALVES_ACCEPTED)
def test_a_factorization_of_no_halves(lib, name):
    for shape in ((0, 0), (2, 0, 0), (0, 2, 2)):
        made = getattr(lib.linalg, name)(lib.zeros(shape, dtype=lib.float16))
        first = made if isinstance(made, lib.Tensor) else made[0]
        assert first.dtype == lib.float16 and first.shape[:len(shape) - 2] == shape[:-2]


@pytest.mark.parametrize('name', HALVES_REFUSED)
def test_a_factorization_of_halves_is_refused_by_name(lib, name):
    for shape in ((0, 0), (0, 2, 2), (2, 2)):
        with pytest.raises((RuntimeError, NotImplementedError), match=HALVES_REFUSED[name]):
            getattr(lib.linalg, name)(lib.zeros(shape, dtype=lib.float16))


def test_older_solvers_refuse_halves_by_name(lib):
    x = lib.zeros(2, 2, dtype=lib.float16)
    for call, words in ((lambda: lib.cholesky_inverse(x), 'cholesky_inverse_out_cpu'), (lambda: lib.cholesky_solve(x, x), 'cholesky_solve_cpu'),
                        (lambda: lib.geqrf(x), 'geqrf_cpu'), (lambda: lib.geqrf(x.long()), 'geqrf_cpu')):
        with pytest.raises(NotImplementedError, match=words):
            call()
    for ord in (2, -2, 'nuc'):
        with pytest.raises(RuntimeError, match='linalg.matrix_norm: Low precision'):
            lib.linalg.matrix_norm(x, ord)
    with pytest.raises(RuntimeError, match='linalg.matrix_norm: Expected a floating point'):
        lib.linalg.norm(x.byte(), 1, dtype=lib.float64)
    assert lib.linalg.eigvalsh(lib.zeros(0, 0, dtype=lib.int64)).dtype == lib.int64
    assert lib.linalg.cond(lib.zeros(2, 0, 0, dtype=lib.int64)).tolist() == [0, 0]


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'complex64'])
def test_singular_vectors_of_infinite_numbers_come_to_an_end(lib, dtype):
    x = lib.tensor([[2, -1, 0], [float('inf'), 2, 1], [1, 0, 3]], dtype=getattr(lib, dtype))
    parts = lib.linalg.svd(lib.stack([x, lib.eye(3, dtype=x.dtype)]))
    assert parts[1][0].isnan().all() and parts[1][1].tolist() == [1, 1, 1]
    assert lib.linalg.svdvals(x.requires_grad_().clone()).isnan().all()


@pytest.mark.parametrize('bad', [float('inf'), float('nan')])
def test_least_squares_by_singular_values_of_what_is_not_finite(lib, bad):
    x = lib.eye(3)
    x[1, 0] = bad
    with pytest.raises(RuntimeError):
        lib.linalg.lstsq(x, lib.eye(3), driver='gelsd')


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'complex64'])
def test_what_is_left_of_a_matrix_that_is_not_positive_definite(lib, dtype):
    x = lib.tensor([[4, -1.5, -1.5, 1], [-2, -2, 1, 0], [.5, -2.5, 4, 2], [1, 3, -1, 5]], dtype=getattr(lib, dtype))
    lower, failed = lib.linalg.cholesky_ex(x)
    assert failed.item() == 2 and lower.tolist() == [[2, 0, 0, 0], [-1, -3, 0, 0], [.25, -2.5, 4, 0], [.5, 3, -1, 5]]
    upper, failed = lib.linalg.cholesky_ex(lib.stack([lib.eye(4, dtype=x.dtype), x]), upper=True)
    assert failed.tolist() == [0, 2]
    assert upper[1].tolist() == [[2, -.75, -.75, .5], [0, -2.5625, 1, 0], [0, 0, 4, 2], [0, 0, 0, 5]] and lib.equal(upper[0], lib.eye(4, dtype=x.dtype))


@pytest.mark.parametrize("equation, text", [("a.,b", "found '.' for operand 0 that is not part of any ellipsis"), ("a,b.", "found '.' for operand 1 that is not"),
                                            ("...a...,b", "for operand 0 for which an ellipsis was already found"),
                                            ("a,b->..", r"for output that is not part of any ellipsis \(...\)"),
                                            ("a,b->......", r"for output but an ellipsis \(...\) was already found")])
def test_einsum_says_in_which_operand_a_dot_is_wrong(lib, equation, text):
    with pytest.raises(RuntimeError, match=text):
        lib.einsum(equation, lib.ones(2), lib.ones(2))


def test_a_complex_rcond_is_called_rcond(lib):
    with pytest.raises(RuntimeError, match="rcond tensor of complex type is not supported"):
        lib.linalg.pinv(lib.ones(2, 2), rcond=lib.tensor(1j))
