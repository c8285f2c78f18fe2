"""Calls that tensors of other layouts and formats are not made for: an error or a result, never memory that isn't theirs."""
import pytest
import tede
from tede import nested


def jagged(dtype=None):
    return nested.nested_tensor([tede.ones(2, 3, dtype=dtype), tede.ones(1, 3, dtype=dtype)], layout=tede.jagged)


def per_channel(shape, axis=0):
    return tede.quantize_per_channel(tede.ones(shape), tede.ones(shape[axis]), tede.zeros(shape[axis], dtype=tede.int64), axis, tede.qint8)


def test_in_place_operators_on_lists_of_nested_tensors():
    a = jagged()
    b = a.clone()
    tede._foreach_add_([a, b], [b, a.detach() / 2])
    assert a.values().unique().tolist() == [2] and b.values().unique().tolist() == [1.5]
    tede._foreach_neg_([a, tede.ones(2)])
    assert a.values().unique().tolist() == [-2]
    with pytest.raises((RuntimeError, NotImplementedError)):
        tede._foreach_addcdiv_([tede.ones(2)], [a], [a], [1.])


def test_in_place_forms_with_arguments_in_another_order():
    a = jagged()
    assert a.polygamma_(1) is a
    assert a.values().allclose(tede.polygamma(1, tede.ones(3, 3)))
    with pytest.raises(RuntimeError, match='negative n'):
        jagged(tede.bool).polygamma_(-2)


def test_older_spellings_with_numbers_in_front():
    a = jagged()
    with pytest.raises((RuntimeError, NotImplementedError)):
        tede.ops.aten.addmv_.deprecated(1, tede.ones(2), 0, a, a)


@pytest.mark.parametrize('call', [
    lambda x: x.sort(stable=False, dim=1), lambda x: x.topk(1, 0), lambda x: x.clamp(0),
    lambda x: tede.ops.aten._upsample_nearest_exact1d(x, [3]),
])
def test_per_channel_quantized_tensors_are_refused_where_there_must_be_one_scale(call):
    with pytest.raises((RuntimeError, NotImplementedError)):
        call(per_channel((4,)))


@pytest.mark.parametrize('dtype', [tede.uint8, tede.float8_e5m2fnuz, tede.bits8])
def test_quantized_tensors_seen_in_another_dtype_have_no_quantizer(dtype):
    x = tede.quantize_per_tensor(tede.tensor([1., 2.]), .5, 3, tede.quint8)
    seen = x.view(dtype)
    assert seen.dtype is dtype and not seen.is_quantized
    assert seen.view(tede.uint8).tolist() == [5, 7]
    if dtype is not tede.bits8:
        assert repr(seen).startswith('tensor(')


def test_gradients_of_products_of_what_has_none():
    with pytest.raises((RuntimeError, NotImplementedError)):
        tede.ops.aten.cumprod_backward(jagged(), jagged(), tede.ones(()), 2)


def test_sparse_indices():
    index = tede.ones(2, 2).to_sparse_csr()
    with pytest.raises((RuntimeError, NotImplementedError)):
        tede.ones(3).index_select(0, index)


def test_quantized_integers_are_not_read_as_other_dtypes():
    q = tede.quantize_per_tensor(tede.ones(2), .5, 0, tede.qint8)
    for call in (lambda: tede.ctc_loss(tede.ones(2, 2, 3), tede.ones(2, 2).long(), q, q),
                 lambda: tede.ops.aten._nested_from_padded(tede.ones(2, 2), q.reshape(2, 1)), lambda: q.to_sparse()):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call()


@pytest.mark.parametrize('name', ['log1p_backward', 'threshold_backward'])
def test_sparse_gradients_of_dense_operands(name):
    with pytest.raises((RuntimeError, NotImplementedError)):
        getattr(tede.ops.aten, name)(tede.ones(2, 4).to_sparse_csr(), tede.ones(2, 4), *[1.] * (name == 'threshold_backward'))


def test_transforms_without_a_complex_dtype():
    with pytest.raises((RuntimeError, NotImplementedError), match='BFloat16'):
        tede.fft.ifft(tede.ones(2, dtype=tede.bfloat16), out=tede.ones(2, dtype=tede.complex64))


def test_no_tangents():
    assert tede.ops.aten.cholesky_solve_tangent(None, None, tede.eye(2), tede.eye(2), False) is None


@pytest.mark.parametrize('dtype', [tede.float8_e4m3fn, tede.float4_e2m1fn_x2, tede.float8_e8m0fnu, tede.bits16])
@pytest.mark.parametrize('make', [tede.rand, tede.randn])
def test_formats_have_no_random_numbers(make, dtype):
    with pytest.raises((RuntimeError, NotImplementedError)):
        make(1000, dtype=dtype)


def test_operands_on_meta_and_not():
    with pytest.raises(RuntimeError, match='same device'):
        tede.isin(tede.ones(3), tede.ones(3, device='meta'))
    with pytest.raises(RuntimeError, match='same device'):
        tede.isin(tede.ones(3, device='meta'), tede.ones(3))


def test_pieces_that_there_are_not():
    for ranks, shapes, dim in (([2, 2], [1, 1], 0), ([1], [2], 1), ([-1], [2], 0), ([2], [2, 2], 5)):
        with pytest.raises((RuntimeError, IndexError)):
            tede.ops.aten.cat_backward(tede.ones(2, 2), ranks, shapes, dim)


@pytest.mark.parametrize('layout', ['to_sparse_csr', 'to_sparse_csc', 'to_sparse_bsr'])
def test_compressed_less_strided(layout):
    x, y = tede.tensor([[1., 2.], [0., 4.]]), tede.tensor([[5., 6.], [7., 8.]])
    s = getattr(x, layout)(*[(1, 1)] * (layout == 'to_sparse_bsr'))
    for alpha in 1, 2:
        assert s.sub(y, alpha=alpha).equal(x.sub(y, alpha=alpha))
        assert y.sub(s, alpha=alpha).equal(y.sub(x, alpha=alpha))
        assert tede.sub(s, y, alpha=alpha, out=tede.zeros(2, 2)).equal(x.sub(y, alpha=alpha))
    assert tede._foreach_sub([s], [y])[0].equal(x - y)


def test_a_part_of_what_has_no_storage_is_not_replaced():
    for x in tede.eye(2).to_sparse(), jagged():
        with pytest.raises((RuntimeError, NotImplementedError)):
            tede.select_scatter(x, x.select(0, 0), 0, 0)
    with pytest.raises((RuntimeError, NotImplementedError)):
        tede.slice_scatter(tede.eye(2).to_sparse(), tede.eye(2).to_sparse())


@pytest.mark.parametrize('value', [2, 2., 2 + 1j])
def test_a_tensor_is_filled_into_half_complex_numbers(value):
    for x in tede.tensor([3., 4.], dtype=tede.complex32), tede.tensor(3., dtype=tede.complex32):
        index = tede.tensor([0])
        filled = x.index_fill(0, index, tede.tensor(value))
        assert filled.dtype is tede.complex32 and filled.reshape(-1)[0].item() == value
        assert x.index_fill_(0, index, tede.tensor(value)).reshape(-1)[0].item() == value


@pytest.mark.parametrize('call', [
    lambda: tede.nn.functional.multi_margin_loss(tede.tensor(1.), tede.tensor(0, device='meta')),
    lambda: tede.nn.functional.max_unpool2d(tede.ones(2, 3, 4), tede.zeros(2, 3, 4, device='meta', dtype=tede.int64), 2),
    lambda: tede._softmax_backward_data(tede.tensor(1., device='meta'), tede.tensor(1.), 0, tede.float32),
])
def test_no_results_of_what_is_not_there(call):
    with pytest.raises(RuntimeError, match='same device'):
        call()


def test_quantized_elements_do_not_accumulate():
    q = tede.quantize_per_tensor(tede.ones(2), .5, 3, tede.qint8)
    at = (tede.tensor([0]),)
    assert q.index_put(at, tede.tensor([2.])).dequantize().tolist() == [2, 1]
    with pytest.raises(RuntimeError, match='accumulate=False'):
        q.index_put(at, tede.tensor([2.]), accumulate=True)


@pytest.mark.parametrize('dtype', [tede.float32, tede.float64, tede.bfloat16, tede.complex64])
def test_a_convolution_of_no_channels(dtype):
    x, w = tede.ones(2, 0, 5, dtype=dtype), tede.ones(3, 0, 3, dtype=dtype)
    held = [tede.full((2, 3, 3), 7., dtype=dtype) for _ in range(9)]         # memory that is not zero
    del held
    for _ in range(3):
        assert tede.conv1d(x, w).eq(0).all() and tede.conv1d(x, w).shape == (2, 3, 3)
        assert tede.conv1d(x, w, tede.tensor([1, 2, 3], dtype=dtype))[1, :, 2].tolist() == [1, 2, 3]


def test_singular_values_of_no_halves():
    with pytest.raises(RuntimeError):
        tede.linalg.svd(tede.ones(0, 2, dtype=tede.float16), out=(tede.ones(3), tede.ones(3), tede.ones(3)))
    assert tede.linalg.svdvals(tede.ones(0, 2)).shape == (0,)


def test_a_number_on_meta_is_not_read_in_place():
    for x, words in (tede.tensor(1.), 'from device meta to device cpu'), (tede.ones(3), 'at least two devices, cpu and meta'):
        for name in 'mul_', 'add_', 'pow_', 'eq_', 'atan2_':
            with pytest.raises(RuntimeError, match=words):
                getattr(x, name)(tede.tensor(2., device='meta'))
    meta = tede.tensor(1., device='meta')
    assert meta.mul_(tede.tensor(2.)).device.type == 'meta'
    with pytest.raises(RuntimeError, match='meta'):
        tede.ops.aten.soft_margin_loss(tede.tensor(1.), tede.tensor(1, device='meta'))


def test_a_factor_that_is_refused_of_a_compressed_tensor():
    with pytest.raises((RuntimeError, NotImplementedError, OverflowError)):
        tede.ops.aten.subtract.Scalar(tede.ones(0, 2, dtype=tede.float64).to_sparse_csc(), -2**63, -2**63)


def test_a_convolution_without_tangents_has_none():
    x, w = tede.ones(1, 1, 3), tede.ones(1, 1, 2)
    with pytest.raises(RuntimeError, match="no operand has a tangent"):
        tede.ops.aten.convolution_tangent(None, None, None, x, w, tede.ones(1, 1, 2), [1], [0], [1], False, [0], 1)
