"""Operators see values, not layouts: reversed, sliced, transposed and expanded operands give what contiguous ones give,
and what is written through such a view lands where it belongs."""
import pytest
import tede
import tede.nn.functional as F


def reversed_rows(x):
    return x.flip(0)[::-1]


def reversed_all(x):
    return x.flip(tuple(range(x.ndim)))[tuple(slice(None, None, -1) for _ in range(x.ndim))]


def every_other(x):
    wide = tede.zeros([2 * n + 1 for n in x.shape], dtype=x.dtype)
    view = wide[tuple(slice(1, None, 2) for _ in range(x.ndim))]
    return view.copy_(x)


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


LAYOUTS = [reversed_rows, reversed_all, every_other, transposed]
INDEX = tede.tensor([2, 0, 3])
UNARY = {
    'exp': tede.exp, 'neg': tede.neg, 'sum': tede.sum, 'sum0': lambda x: x.sum(0), 'sum1': lambda x: x.sum(-1),
    'mean': tede.mean, 'var': lambda x: x.var(0), 'amax': lambda x: x.amax(1), 'argmax': lambda x: x.argmax(0),
    'max': lambda x: x.max(1), 'norm': lambda x: tede.linalg.vector_norm(x, 3, dim=0),
    'logsumexp': lambda x: x.logsumexp(1), 'prod': lambda x: x.prod(0), 'cumsum': lambda x: x.cumsum(0),
    'cumprod': lambda x: x.cumprod(1), 'cummax': lambda x: x.cummax(0), 'flip': lambda x: x.flip(0),
    'sort': lambda x: x.sort(0), 'topk': lambda x: x.topk(2, 0), 'kthvalue': lambda x: x.kthvalue(2, 0),
    'median': lambda x: x.median(0), 'unique': lambda x: tede.unique(x), 'nonzero': tede.nonzero,
    'roll': lambda x: x.roll(1, 0), 'tril': lambda x: x.tril(), 'softmax': lambda x: F.softmax(x, 0),
    'log_softmax': lambda x: F.log_softmax(x, 1), 'layer_norm': lambda x: F.layer_norm(x, x.shape[-1:]),
    'cat': lambda x: tede.cat((x, x), 0), 'stack': lambda x: tede.stack((x, x), 1),
    'pad': lambda x: F.pad(x, (1, 2), value=3), 'index_select': lambda x: x.index_select(0, INDEX),
    'index': lambda x: x[INDEX], 'gather': lambda x: x.gather(0, INDEX[:, None]), 'take': lambda x: x.take(INDEX),
    'masked_select': lambda x: x.masked_select(x > 0), 'scatter': lambda x: x.scatter(0, INDEX[:, None], 9.),
    'index_add': lambda x: x.index_add(0, INDEX, x[:3]), 'where': lambda x: tede.where(x > 0, x, -x),
    'reshape': lambda x: x.reshape(-1), 'fft': lambda x: tede.fft.fft(x, dim=0), 'rfft': lambda x: tede.fft.rfft(x),
    'float64': lambda x: x.to(tede.float64), 'int64': lambda x: (x * 10).to(tede.int64),
    'bfloat16': lambda x: x.to(tede.bfloat16).float(), 'clone': tede.clone, 'matmul': lambda x: x @ x.T,
    'addmm': lambda x: tede.addmm(x @ x.T, x, x.T), 'einsum': lambda x: tede.einsum('ij,kj->ki', x, x),
    'outer': lambda x: tede.outer(x[0], x[1]), 'dot': lambda x: tede.dot(x[0], x[2]),
    'mv': lambda x: tede.mv(x, x[0]), 'cdist': lambda x: tede.cdist(x, x),
    'conv1d': lambda x: F.conv1d(x[None], x[None, :, :2]), 'max_pool1d': lambda x: F.max_pool1d(x[None], 2),
    'avg_pool1d': lambda x: F.avg_pool1d(x[None], 2), 'bmm': lambda x: tede.bmm(x[None], x.T[None]),
    'repeat': lambda x: x.repeat(2, 1), 'cross_entropy': lambda x: F.cross_entropy(x, tede.tensor([0, 1, 2, 0])),
    'embedding': lambda x: F.embedding(INDEX, x), 'histc': lambda x: tede.histc(x, 4, -2, 2),
    'searchsorted': lambda x: tede.searchsorted(x.sort(1)[0], x), 'tolist': lambda x: tede.tensor(x.tolist()),
}


def leaves(result):
    return [result] if isinstance(result, tede.Tensor) else list(result)


@pytest.mark.parametrize('layout', LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize('name', UNARY)
def test_a_layout_changes_no_value(name, layout):
    tede.manual_seed(3)
    plain = tede.randn(4, 3)
    view = layout(plain)
    assert view.tolist() == plain.tolist()
    for got, want in zip(leaves(UNARY[name](view)), leaves(UNARY[name](plain)), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        assert tede.allclose(got, want, rtol=1e-5, atol=1e-6)
    assert view.tolist() == plain.tolist()


@pytest.mark.parametrize('name', sorted(UNARY))
def test_an_expanded_operand_counts_as_often_as_it_is_seen(name):
    tede.manual_seed(3)
    for view in tede.randn(1, 3).expand(4, 3), tede.randn(4, 1).expand(4, 3), tede.randn(()).expand(4, 3):
        for got, want in zip(leaves(UNARY[name](view)), leaves(UNARY[name](view.contiguous())), strict=True):
            assert tede.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize('layout', LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize('write', [
    lambda x: x.mul_(2), lambda x: x.copy_(tede.arange(12.).reshape(4, 3)), lambda x: x.zero_(), lambda x: x.cumsum_(0),
    lambda x: x.index_fill_(0, INDEX, 5.), lambda x: x.masked_fill_(x > 0, 7.),
    lambda x: x.addmm_(tede.ones(4, 2), tede.ones(2, 3)),
    lambda x: tede.exp(x.clone(), out=x), lambda x: tede.mm(tede.ones(4, 2), tede.ones(2, 3), out=x),
    lambda x: tede.softmax(x.clone(), 0, out=x), lambda x: x.scatter_(0, INDEX[:, None], 4.),
    lambda x: tede.sort(x.clone(), 0, out=(x, tede.empty(0, dtype=tede.int64))),
])
def test_writing_through_a_layout_lands_where_it_belongs(write, layout):
    tede.manual_seed(3)
    plain = tede.randn(4, 3)
    view = layout(plain)
    memory = tede.as_strided(view, (view.untyped_storage().nbytes() // 4,), (1,), 0)
    outside = memory.clone()
    write(view), write(plain)
    assert tede.allclose(view, plain)
    if layout is every_other:       # what lies between is untouched
        between = tede.ones(9, 7, dtype=tede.bool)
        between[1::2, 1::2] = False
        assert memory.reshape(9, 7)[between].tolist() == outside.reshape(9, 7)[between].tolist()


@pytest.mark.parametrize('dims', [1, 2, 3])
def test_a_convolution_of_no_channels_is_its_bias(dims):
    convolve = getattr(tede.nn.functional, f'conv{dims}d')
    x, w = tede.zeros(2, 0, *[5] * dims, requires_grad=True), tede.zeros(3, 0, *[2] * dims, requires_grad=True)
    bias = tede.arange(3.0).requires_grad_()
    y = convolve(x, w, bias)
    assert y.shape == (2, 3, *[4] * dims) and tede.equal(y, bias.detach().reshape(3, *[1] * dims).expand(y.shape))
    y.sum().backward()
    assert x.grad.shape == x.shape and w.grad.shape == w.shape and bias.grad.tolist() == [2 * 4 ** dims] * 3


@pytest.mark.parametrize('there', [lambda x: x.to_sparse_csc(), lambda x: x.to_sparse_bsr((1, 1)), lambda x: x.to_sparse_bsc((1, 1))])
def test_fewer_than_two_elements_of_a_compressed_tensor_are_coalesced(there):
    one = tede.zeros(2, 3)
    one[1, 2] = 1
    assert [there(x).to_sparse().is_coalesced() for x in (tede.zeros(0, 3), one, tede.ones(2, 3))] == [True, True, False]
    assert there(one).to_sparse().indices().tolist() == [[1], [2]]
