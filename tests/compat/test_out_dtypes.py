"""Which dtypes and devices an out= may have: what only has to hold the result, and what must be exactly the result's."""
import pytest

EXACT = {
    'matmul': lambda lib, x, out: lib.matmul(x, x, out=out),
    'linear solve': lambda lib, x, out: lib.linalg.solve(x, x, out=out),
    'scatter_add': lambda lib, x, out: lib.scatter_add(x, 0, lib.zeros(3, 3, dtype=lib.int64), x, out=out),
    'softmax': lambda lib, x, out: lib.softmax(x, 0, out=out),
    'diagonal_copy': lambda lib, x, out: lib.diagonal_copy(x, out=out),
    'diag': lambda lib, x, out: lib.diag(x, out=out),
    'take_along_dim': lambda lib, x, out: lib.take_along_dim(x, lib.zeros(3, 3, dtype=lib.int64), 0, out=out),
    'cross': lambda lib, x, out: lib.linalg.cross(x, x, out=out),
}
WORDS = {
    'vdot': (lambda lib, x, out: lib.vdot(x[0], x[0], out=out), 'result dtype Double does not match input dtype Float'),
    'cummax': (lambda lib, x, out: lib.cummax(x, 0, out=(out, lib.empty(0, dtype=lib.int64))), 'expected scalar_type Float but found Double'),
    'isposinf': (lambda lib, x, out: lib.isposinf(x, out=out), 'isposinf does not support non-boolean outputs'),
    'nan_to_num': (lambda lib, x, out: lib.nan_to_num(x, out=out), 'dtype of out: Double should be same as input: Float'),
    'where': (lambda lib, x, out: lib.where(x > 0, x, x, out=out), 'Expected out type to be Float but got Double'),
    'nonzero': (lambda lib, x, out: lib.nonzero(x, out=out), 'nonzero: Expected out tensor to have scalar type Long'),
    'any': (lambda lib, x, out: lib.any(x, out=out), 'any only supports bool tensor for result, got: Double'),
    'zeros': (lambda lib, x, out: lib.zeros(3, dtype=lib.float32, out=out), r'dtype Float does not match dtype of out parameter \(Double\)'),
    'quantile': (lambda lib, x, out: lib.quantile(x, 0.5, out=out), 'out tensor must be same dtype as the input'),
    'irfft': (lambda lib, x, out: lib.fft.irfft(x, out=out.to(lib.complex64)), 'irfft expects a floating point output tensor, but got ComplexFloat'),
}


@pytest.mark.parametrize('name', EXACT)
def test_an_out_of_another_dtype_is_refused(lib, name):
    x = lib.eye(3)
    with pytest.raises(RuntimeError, match='Expected out tensor to have dtype float, but got double instead'):
        EXACT[name](lib, x, lib.empty(0, dtype=lib.float64))
    assert EXACT[name](lib, x, lib.empty(0)).dtype == lib.float32


@pytest.mark.parametrize('name', WORDS)
def test_some_say_so_in_words_of_their_own(lib, name):
    call, words = WORDS[name]
    out = lib.ones(2, dtype=lib.float64)
    with pytest.raises(RuntimeError, match=words):
        call(lib, lib.eye(3), out)
    assert bool((out == 1).all())


def test_others_take_what_holds_the_result(lib):
    x = lib.ones(3)
    for call in (lib.exp, lambda x, out: lib.add(x, x, out=out), lambda x, out: lib.cumsum(x, 0, out=out), lib.fft.irfft):
        assert call(x, out=lib.empty(0, dtype=lib.float64)).dtype == lib.float64


def test_lists_joined_name_the_join(lib):
    for join in lib.stack, lib.hstack, lib.vstack, lib.dstack, lib.column_stack:
        with pytest.raises(TypeError, match=r"input types can't be cast to the desired output type Long"):
            join([lib.ones(3), lib.ones(3)], out=lib.empty(0, dtype=lib.int64))


def test_an_out_on_another_device_is_refused(lib):
    x, there = lib.ones(2, 2), lib.ones(2, 2, device='meta')
    for call in (lambda: lib.exp(x, out=there), lambda: lib.mm(x, x, out=there), lambda: lib.sort(x, out=(there, there.long()))):
        with pytest.raises(RuntimeError, match='Attempting to copy from device cpu to device meta'):
            call()
    with pytest.raises(RuntimeError, match='Attempting to copy from device meta to device cpu'):
        lib.exp(there, out=x)


def test_factories_take_dtype_and_shape_from_out_and_do_not_warn(lib, recwarn):
    assert lib.zeros(3, out=lib.ones(2, dtype=lib.int64)).tolist() == [0, 0, 0]
    assert lib.linspace(0, 1, 3, out=lib.ones(5, dtype=lib.float64)).dtype == lib.float64
    assert lib.eye(2, out=lib.ones(1, dtype=lib.int32)).tolist() == [[1, 0], [0, 1]]
    assert not [w for w in recwarn if 'resized' in str(w.message)]
