"""What random programs of six seeds found: refusals, writes and results at the edges of operators."""
import math
import warnings

import pytest


def refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_numbers_that_the_result_cannot_hold(lib):
    refused(lambda: lib.ones(2).addcdiv(lib.ones(2), lib.ones(2), value=1 + 2j), RuntimeError, 'without overflow')
    x, nowhere = lib.tensor([1, 2]), lib.tensor([], dtype=lib.int64)
    assert x.scatter(0, nowhere, math.inf).tolist() == [1, 2]
    assert x.scatter_(0, nowhere, math.inf, reduce='multiply').tolist() == [1, 2]
    refused(lambda: x.scatter_(0, lib.tensor([0]), math.inf), RuntimeError, 'without overflow')


def test_transposed_convolutions_of_integers_are_never_empty(lib):
    x, w = lib.ones(2, 1, 2, 3, 2), lib.ones(1, 1, 2, 2, 2)
    assert lib.conv_transpose3d(x, w, stride=[2, 1, 5], padding=2).shape == (2, 1, 0, 0, 3)
    refused(lambda: lib.conv_transpose3d(x.long(), w.long(), stride=[2, 1, 5], padding=2), RuntimeError, 'Output size is too small')


def test_trapezoids_count_the_dimension_in_y(lib):
    for integral in lib.trapezoid, lib.cumulative_trapezoid:
        refused(lambda: integral(lib.ones(2, 3, 2), lib.ones(2, 2, 3, 3)), RuntimeError, r'must match the size of tensor b \(2\)')  # noqa: B023


def test_histograms_have_a_bin(lib):
    for call in (lambda: lib.histogram(lib.ones(1), lib.ones(1)), lambda: lib.histogramdd(lib.ones(1, 2), [lib.ones(3), lib.ones(1)])):
        refused(call, RuntimeError, 'bins must be > 0, but got 0')


@pytest.mark.parametrize('dtype', ['complex64', 'bool'])
def test_elements_are_reduced_in_real_numbers_though_there_are_none(lib, dtype):
    none, nowhere = lib.tensor([], dtype=getattr(lib, dtype)), lib.tensor([], dtype=lib.int64)
    refused(lambda: none.index_reduce(0, nowhere, none, 'amin'), NotImplementedError, 'index_func_')


def test_dtypes_of_out(lib):
    wide, half = lib.zeros(2, 2, dtype=lib.float64), lib.eye(2).half()
    for n in 0, 1, 4, -4:
        x = half if n >= 0 else lib.eye(2)
        assert lib.linalg.matrix_power(x, n, out=wide).tolist() == [[1, 0], [0, 1]]
    for n in 2, 3, -1:
        refused(lambda: lib.linalg.matrix_power(lib.eye(2), n, out=wide), RuntimeError, 'Expected out tensor to have dtype')  # noqa: B023
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        refused(lambda: lib.nuclear_norm(lib.eye(2).double(), out=lib.zeros(())), RuntimeError, 'expected out tensor dtype Double but got: Float')
    for f in lib.fft.ifft, lib.fft.ihfft:
        refused(lambda: f(wide, out=lib.empty(0, dtype=lib.complex64)), RuntimeError, 'Found dtype ComplexFloat')  # noqa: B023
    assert lib.fft.ifft(lib.ones(2, dtype=lib.complex128), out=lib.empty(0, dtype=lib.complex64)).tolist() == [1, 0]


def test_a_conjugate_in_out_is_one_write(lib):
    out = lib.zeros(2, 2, dtype=lib.complex64)
    lib.fft.ifft(lib.ones(2, 2), out=out)
    assert out._version == 1
    out.copy_(lib.tensor([1j, 2j]).conj())
    assert out._version == 2 and out[0].tolist() == [-1j, -2j]


def test_inference_mode_detaches_views(lib):
    view = lib.ones(4)[::2]
    with lib.inference_mode():
        assert view.detach_() is view
    refused(view.detach_, RuntimeError, "Can't detach views in-place")


def test_options_that_nothing_needs(lib):
    assert lib.repeat_interleave(lib.tensor([], dtype=lib.int64), output_size=3).shape == (0,)
    assert lib.linalg.svdvals(lib.ones(0, 3), driver='gesvd').shape == (0,)
    refused(lambda: lib.linalg.svdvals(lib.ones(2, 3), driver='gesvd'), RuntimeError, 'driver')


def test_view_copy_takes_any_strides(lib):
    x = lib.arange(4.).reshape(2, 2).t().requires_grad_()
    y = lib.view_copy(x, [4])
    (y * lib.arange(4.)).sum().backward()
    assert y.tolist() == [0, 2, 1, 3] and x.grad.tolist() == [[0, 1], [2, 3]]
    z = lib.view_copy(x.t(), [4])
    assert z.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() and z.tolist() == [0, 1, 2, 3]
    refused(lambda: lib.view_copy(x, [5]), RuntimeError, 'invalid for input of size 4')
