"""Operators that read values, on meta: shapes where they follow from shapes, PyTorch's errors where they don't."""
import pytest
import tede


def test_shapes_where_values_do_not_matter():
    x = tede.ones(6, 2, device='meta')
    two = tede.ones(2, dtype=tede.int64, device='meta')
    assert tede.segment_reduce(x, 'sum', lengths=two).shape == (2, 2)
    assert tede.segment_reduce(x, 'max', offsets=two).shape == (1, 2)
    assert tede.matrix_exp(tede.ones(3, 4, 4, device='meta')).shape == (3, 4, 4)
    zero = tede.zeros((), device='meta')
    assert tede.linspace(zero, 1., 5, device='meta').shape == tede.logspace(0., zero, 5, device='meta').shape == (5,)
    assert [part.shape[0] for part in tede.tensor_split(x, tede.tensor([1, 4]))] == [1, 3, 2]


def test_errors_where_they_do():
    x = tede.ones(6, 2, device='meta')
    for call in (lambda: tede.tensor_split(x, tede.ones(2, dtype=tede.int64, device='meta')), lambda: x[0, 0].item(), lambda: bool(x.sum())):
        with pytest.raises(RuntimeError, match='meta'):
            call()
