"""Semi-structured (2:4) matrices: what is packed, products, linear layers, gradients of their inputs, and what is refused."""
import itertools

import pytest
import tede
from tede.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

F = tede.nn.functional


def matrix(rows, columns, dtype=tede.float32, seed=0):
    generator = tede.Generator().manual_seed(seed)
    kept = tede.rand(rows, columns // 4, 4, generator=generator).argsort(-1) < 2
    return (tede.randn(rows, columns, generator=generator) * kept.reshape(rows, columns)).to(dtype)


def test_two_of_every_four_are_kept_in_order_with_their_places():
    x = tede.tensor([[0., 3, 0, 4] + [0.] * 4 + [5., 0, 0, 0] + [0., 0, 6, 0]])
    packed, meta = tede._to_sparse_semi_structured(x)
    assert packed.tolist() == [[3, 4, 0, 0, 5, 0, 0, 6]]
    assert meta.dtype == tede.int16 and meta.tolist() == [[(0b1101 | 0b0100 << 4 | 0b0100 << 8 | 0b1000 << 12) - (1 << 16)]]
    with pytest.raises(RuntimeError, match='more than two nonzero elements among columns 4 to 7'):
        tede._to_sparse_semi_structured(tede.tensor([[0.] * 4 + [1.] * 3 + [0.] * 9]))


@pytest.mark.parametrize('dtype', [tede.float32, tede.float16, tede.bfloat16])
@pytest.mark.parametrize('shape', [(1, 16), (33, 48), (64, 320), (7, 1024)], ids=str)
def test_a_product_is_that_of_the_whole_matrix(shape, dtype):
    w = matrix(*shape, dtype)
    s = to_sparse_semi_structured(w)
    assert isinstance(s, SparseSemiStructuredTensor) and s.shape == w.shape and s.dtype == dtype and tede.equal(s.to_dense(), w)
    close = {'rtol': 1e-5, 'atol': 1e-4} if dtype == tede.float32 else {'rtol': 2e-2, 'atol': 1e-1}
    for columns in (1, 3, 16, 17, 40, 64, 130):
        x = tede.randn(shape[1], columns).to(dtype)
        expected = w.float() @ x.float()
        for operand in (x, x.t().contiguous().t()):
            assert tede.allclose((s @ operand).float(), expected, **close)
        assert tede.allclose(F.linear(x.t(), s).float(), expected.t(), **close)
    assert (s @ tede.ones(shape[1], 0, dtype=dtype)).shape == (shape[0], 0)


def test_the_number_of_threads_doesnt_change_a_product():
    w, x = to_sparse_semi_structured(matrix(300, 512)), tede.randn(512, 70)
    before = tede.get_num_threads()
    try:
        made = []
        for threads in (1, 2):
            tede.set_num_threads(threads)
            made.append(w @ x)
    finally:
        tede.set_num_threads(before)
    assert tede.equal(*made)


def test_it_is_the_weight_of_a_layer():
    layer = tede.nn.Linear(32, 8)
    with tede.no_grad():
        layer.weight.copy_(matrix(8, 32))
    x = tede.randn(2, 5, 32)
    expected = layer(x)
    layer.weight = tede.nn.Parameter(to_sparse_semi_structured(layer.weight.detach()), requires_grad=False)
    x.requires_grad_()
    made = layer(x)
    assert tede.allclose(made, expected, atol=1e-6)
    made.square().sum().backward()
    other = x.detach().clone().requires_grad_()
    F.linear(other, layer.weight.to_dense(), layer.bias.detach()).square().sum().backward()
    assert tede.allclose(x.grad, other.grad, atol=1e-5) and layer.bias.grad.shape == (8,)
    for activation in ('relu', 'silu'):
        got = tede._sparse_semi_structured_linear(x.detach(), layer.weight.packed, layer.weight.meta, bias=layer.bias, activation=activation)
        assert tede.allclose(got, getattr(F, activation)(expected), atol=1e-6)


def test_what_is_refused():
    whole = tede.ones(4, 16)
    with pytest.raises(RuntimeError, match='more than two nonzero'):
        to_sparse_semi_structured(whole)
    zeros = tede.zeros(4, 16)
    for x, why in ((zeros[0], 'Only 2d'), (tede.zeros(16, 16).t()[:, :16][::2], 'not contiguous'), (zeros.double(), 'dtype'), (tede.zeros(4, 12), 'shape')):
        with pytest.raises(RuntimeError, match=why):
            to_sparse_semi_structured(x)
    s = to_sparse_semi_structured(zeros)
    with pytest.raises(NotImplementedError, match='only supports a specific set of operations'):
        s + 1
    with pytest.raises(ValueError, match='not supported'):
        s @ s
    with pytest.raises(RuntimeError, match='cannot be multiplied'):
        s @ tede.ones(8, 2)
    with pytest.raises(RuntimeError, match='eighth of its columns'):
        tede._sparse_semi_structured_mm(s.packed, s.meta[:, :0], tede.ones(16, 2))


@pytest.mark.parametrize('layout', ['sparse_csr', 'sparse_csc', 'sparse_bsr', 'sparse_bsc'])
def test_zeros_into_a_compressed_tensor(layout):
    blocks = (2, 2) if 'bs' in layout else None
    for shape, index_dtype in itertools.product(((4, 4), (4, 6), (2, 4, 4)), (tede.int32, tede.int64)):
        x = tede.eye(4).to_sparse(layout=getattr(tede, layout), blocksize=blocks)
        first, plain = ('crow_indices', 'col_indices') if layout[-1] == 'r' else ('ccol_indices', 'row_indices')
        x = tede.sparse_compressed_tensor(getattr(x, first)().to(index_dtype), getattr(x, plain)().to(index_dtype), x.values(), layout=x.layout)
        made = tede.zeros(shape, out=x)
        assert made is x and x.shape == shape and x._nnz() == 0 and x.layout is getattr(tede, layout)
        assert getattr(x, first)().dtype == index_dtype and not x.to_dense().any()
    with pytest.raises(RuntimeError, match='Resizing columns'):
        tede.zeros(3, 2, out=x)
