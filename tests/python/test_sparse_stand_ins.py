"""What operators on sparse tensors on meta give is what they give of zeros on the CPU (PyTorch has few of them there)."""
import pytest
import tede

CALLS = {
    'product': lambda x, d: x @ d, 'scaled': lambda x, d: x * 2, 'values': lambda x, d: x.sin(), 'dense': lambda x, d: x.to_dense(),
    'sum': lambda x, d: tede.sparse.sum(x, 0), 'rows': lambda x, d: x.to_sparse_csr(), 'joined': lambda x, d: tede.cat([x, x]),
    'transposed': lambda x, d: x.t(), 'mask': lambda x, d: d.sparse_mask(x), 'narrow': lambda x, d: x.to(tede.float16),
    'coalesced': lambda x, d: x.coalesce(), 'added': lambda x, d: d.add_(x), 'in place': lambda x, d: x.neg_(), 'stacked': lambda x, d: tede.stack([x, x]),
}


@pytest.mark.parametrize('call', CALLS.values(), ids=CALLS)
def test_a_call_on_meta_gives_the_shape_that_it_gives_of_zeros(call):
    x, d = tede.zeros(3, 4).to_sparse(), tede.zeros(4, 2) if call is CALLS['product'] else tede.zeros(3, 4)
    want, found = call(x, d), call(tede.zeros(3, 4).to_sparse().to('meta'), d.to('meta'))
    assert found.is_meta and (found.layout, found.shape, found.dtype) == (want.layout, want.shape, want.dtype)
    if want.layout is tede.strided:
        assert found.stride() == want.stride()
    else:
        assert found._nnz() == want._nnz() and found.dense_dim() == want.dense_dim()


def test_an_error_on_meta_is_that_of_the_cpu():
    with pytest.raises(RuntimeError, match='4 and 3|shapes cannot be multiplied|size'):
        tede.zeros(3, 4).to_sparse().to('meta') @ tede.zeros(3, 2, device='meta')
    with pytest.raises(NotImplementedError, match='no values'):
        tede.sparse_coo_tensor(tede.ones(2, 3, dtype=tede.int64, device='meta'), tede.ones(3, device='meta'))


def test_a_gradient_on_meta_has_the_layout_that_it_has_on_the_cpu():
    weight = tede.ones(5, 3, device='meta', requires_grad=True)
    x = tede.zeros(4, 5).to_sparse().to('meta').requires_grad_()
    (x @ weight).sum().backward()
    assert weight.grad.is_meta and weight.grad.shape == (5, 3) and x.grad.is_meta and x.grad.shape == (4, 5)
