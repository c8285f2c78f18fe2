"""Sizes for which PyTorch wraps, hangs or crashes, too: errors, at once."""
import pytest

import tede

HUGE = 2 ** 62


def refused(call, kind=RuntimeError):
    with pytest.raises(kind):
        call()


def test_split_sizes_are_added_without_wrapping():
    refused(lambda: tede.ones(4).split([2 ** 63 - 1, 2 ** 63 - 1, 6]))


def test_results_too_large_are_errors_at_once():
    huge = tede.ones(1).expand(HUGE)
    refused(lambda: tede.cat([huge, huge]))
    refused(lambda: tede.stack([huge, huge]))
    refused(lambda: tede.nn.functional.pixel_shuffle(tede.ones(1, 4, 1, 1), 2 ** 32), ValueError)
    refused(lambda: tede.tril_indices(2 ** 60, 2 ** 60))
    refused(lambda: tede.triu_indices(2 ** 60, 2 ** 60))
    refused(lambda: tede.nn.functional.max_pool2d(tede.ones(1, 4, 4), 2 ** 63 - 1))
    refused(lambda: tede.nn.functional.unfold(tede.ones(1, 1, 4, 4), 2 ** 63 - 1))
    refused(lambda: tede.nn.functional.fold(tede.ones(1, 4, 4), 4, 2 ** 32))
    refused(lambda: tede.nn.functional.pad(tede.ones(3), (2 ** 63 - 1, 2 ** 63 - 1)))


@pytest.mark.parametrize('argument', ['padding', 'dilation'])
def test_windows_of_huge_numbers_are_errors(argument):
    refused(lambda: tede.nn.functional.conv2d(tede.ones(1, 1, 4, 4), tede.ones(1, 1, 2, 2), **{argument: 2 ** 63 - 1}))


def test_sums_and_products_that_wrap_to_a_right_number_are_refused():
    quarter = tede.ones(1).expand(HUGE)
    refused(lambda: tede.cat([quarter] * 4 + [tede.ones(3)]))
    refused(lambda: tede.ops.aten.block_diag([quarter] * 4 + [tede.ones(3)]))
    refused(lambda: tede.nn.functional.pad(tede.ones(1, 1, 4), (-2 ** 63, -2 ** 63), mode='reflect'))
    refused(lambda: tede.gru(tede.ones(2, 1, 3), tede.ones(1, 1, 4), [], True, HUGE, 0., False, False, False))
    refused(lambda: tede.ones(()).expand(HUGE).masked_fill_(tede.tensor(True), 0.))


def test_complex_eigenvectors_stay_within_the_work_space_that_lapack_counts():
    matrix = tede.zeros(1, dtype=tede.complex64).expand(32766, 32766)
    with pytest.raises(RuntimeError, match="up to 32765 rows, not 32766"):
        tede.linalg.eigh(matrix)
