"""What random programs of five seeds found, and how PyTorch does it.  Strides are in test_result_layout.py."""
import pytest


def test_one_number_needs_no_order(lib):
    for value in True, 2 + 1j:
        x = lib.tensor(value)
        for found in x.kthvalue(1), x.mode(0), x.cummax(0), x.cummin(0):
            assert found[0].item() == value and found[1].item() == 0 and found[0].dtype is x.dtype
    none = lib.zeros(0, 3, dtype=lib.complex64)
    assert none.mode(1).values.shape == (0,) and none.median().isnan() and none.nanmedian().isnan()
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


def test_an_infinite_matrix_leaves_the_others_of_its_batch_alone(lib):
    x = lib.tensor([[3., -4.5, 5.5], [4.5, 6, 6], [3, 3.5, -1.5]], dtype=lib.float64)
    bad = x.clone()
    bad[0, 0] = float('inf')
    alone, both = x.matrix_exp(), lib.stack([x, bad]).matrix_exp()
    assert lib.allclose(both[0], alone, rtol=1e-12) and not both[1].isfinite().any()


def test_indices_of_nothing_are_not_looked_at(lib):
    far = lib.tensor([5, -7])
    for shape in (0, 0), (0, 3, 0):
        source = lib.zeros(2, *shape[1:])
        assert lib.zeros(shape).index_copy_(0, far, source).shape == lib.zeros(shape).index_fill_(0, far, 1.).shape == shape
    for call in lambda: lib.zeros(0, 3).index_copy_(0, far, lib.zeros(2, 3)), lambda: lib.zeros(0).index_fill_(0, far, 1.):
        with pytest.raises((RuntimeError, IndexError)):
            call()


def test_no_integers_have_a_normal_distribution(lib):
    none = lib.zeros(2, 0, dtype=lib.int32)
    assert lib.normal(-1., none, out=lib.zeros(2, 0, dtype=lib.int32)).shape == (2, 0)
    with pytest.raises(NotImplementedError, match='normal_kernel_cpu'):
        lib.normal(-1., none.new_ones(2), out=lib.zeros(2, dtype=lib.int32))


def test_a_gradient_of_0_stays_0_where_xlogy_is_nan(lib):
    for call in lib.xlogy, lib.special.xlog1py:
        x, y = lib.tensor([1., 2., 0.], requires_grad=True), lib.tensor([-3., 2., -3.])
        (call(x, y) * lib.tensor([0., 1., 1.])).sum().backward()
        assert x.grad[0] == x.grad[2] == 0 and x.grad[1] > 0


def test_kron_is_no_view(lib):
    for x in lib.ones(2, 0), lib.ones(2, 2), lib.ones(2, 3).t(), lib.ones(2):
        y = lib.kron(x, x)
        assert not y._is_view() and y.detach_() is y
