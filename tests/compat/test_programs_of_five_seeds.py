"""What random programs of five seeds found, and how PyTorch does it.  Strides are in test_result_layout.py."""
import pytest


def test_one_number_needs_no_order(lib):
    for value in True, 2 + 1j:
        x = lib.tensor(value)
        for found in x.kthvalue(1), x.mode(0), x.cummax(0), x.cummin(0):
            assert found[0].item() == value and found[1].item() == 0 and found[0].dtype is x.dtype
    for call in lambda: lib.tensor([1j]).kthvalue(1), lambda: lib.tensor([True]).kthvalue(1), lambda: lib.tensor([1j]).mode(0):
        with pytest.raises(NotImplementedError, match='not implemented for'):
            call()


def test_nan_to_num_of_complex_numbers_is_no_view(lib):
    x = lib.tensor([complex(float('nan'), 2), 1j])
    y = x.nan_to_num(2., .5, .5)
    assert not y._is_view() and y.tolist() == [2 + 2j, 1j] and y.detach_() is y
    assert x.conj().nan_to_num(0.).tolist() == [-2j, -1j]
    turned = lib.zeros(2, 3, dtype=lib.complex64).t().nan_to_num()
    assert turned.stride() == (1, 3)


def test_a_tensor_is_no_distance(lib):
    for x in lib.zeros(()), lib.zeros(3):
        with pytest.raises(TypeError, match='not callable'):
            lib.nn.functional.triplet_margin_with_distance_loss(x, x, x, distance_function=x)
