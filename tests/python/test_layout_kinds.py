"""A layout from outside (examples/c/diagonal.c, built with installed headers) does what sparse does: it lists its parts and is made
of them, and printing, pickling, copies, conversions, functions that keep zeros and gradients follow."""
import copy
import io
import pickle
import re
import subprocess
import sys

import pytest
import tede

pytestmark = pytest.mark.usefixtures('diagonal')


def make(*numbers, **options):
    return tede.ops.toy.from_diagonal(tede.tensor(numbers, **options))


def same(x, numbers):
    return x.layout is tede.diagonal_matrix and x.to_dense().tolist() == tede.diag(tede.tensor(numbers)).tolist()


def test_printing_shows_the_parts():
    assert re.sub(r'\s+', ' ', repr(make(1., 2.))) == 'tensor(diagonal=tensor([1., 2.]), size=(2, 2), layout=torch.diagonal_matrix)'
    assert 'float64' in repr(make(1., 2., dtype=tede.float64)) and 'the values of a tensor of shape [2, 2]' in str(make(1., 2.).show())


def test_pickles_checkpoints_and_copies():
    d = make(1., 2., 3.)
    file = io.BytesIO()
    tede.save({'d': d}, file)
    file.seek(0)
    for other in pickle.loads(pickle.dumps(d)), tede.load(file)['d'], copy.deepcopy(d), copy.copy(d), d.clone():
        assert same(other, [1., 2., 3.])
    leaf = pickle.loads(pickle.dumps(d.requires_grad_()))
    assert leaf.requires_grad and leaf.is_leaf


def test_a_pickle_of_a_layout_that_nobody_registered():
    data = pickle.dumps(make(1., 2.))
    done = subprocess.run([sys.executable, '-c', f'import tede, pickle; pickle.loads({data!r})'], capture_output=True, text=True)
    assert "there is no layout named 'diagonal_matrix'" in done.stderr


def test_dtypes_and_devices():
    d = make(1., 2.)
    assert d.double().dtype is tede.float64 and same(d.to(tede.float16).float(), [1., 2.])
    there = d.to('meta')
    assert there.is_meta and there.layout is tede.diagonal_matrix and there.shape == (2, 2)


def test_factories_and_conversions():
    assert same(tede.zeros(2, 2, layout=tede.diagonal_matrix), [0., 0.])
    assert same(tede.zeros_like(tede.ones(2, 2), layout=tede.diagonal_matrix), [0., 0.])
    assert tede.empty(2, 2, dtype=tede.int32, layout=tede.diagonal_matrix).dtype is tede.int32
    assert same(tede.arange(4.).reshape(2, 2).to_sparse(layout=tede.diagonal_matrix), [0., 3.])
    assert make(1., 2.).to_sparse().to_dense().tolist() == [[1., 0.], [0., 2.]]
    with pytest.raises(ValueError, match='as many rows as columns'):
        tede.zeros(2, 3, layout=tede.diagonal_matrix)
    with pytest.raises(ValueError, match='as many rows as columns'):
        tede.ones(2, 3).to_sparse(layout=tede.diagonal_matrix)
    with pytest.raises(RuntimeError, match='not implemented for diagonal_matrix layout'):
        tede.ones(2, 2, layout=tede.diagonal_matrix)


def test_functions_that_keep_zeros_work_on_the_values():
    d = make(-1., 4.)
    assert same(d.add(d, alpha=2) * 3, [-9., 36.])
    assert same(d.abs(), [1., 4.]) and same(d.abs().sqrt(), [1., 2.]) and same(-d, [1., -4.])
    other = d.clone()
    alias = other.detach()
    assert same(other.abs_(), [1., 4.]) and same(alias, [-1., 4.])          # as with sparse: an alias keeps what it had
    out = make(0., 0.)
    assert tede.neg(d, out=out) is out and same(out, [1., -4.])
    dense = tede.empty(0)
    assert tede.neg(d, out=dense).tolist() == [[1., 0.], [0., -4.]]
    with pytest.raises(NotImplementedError, match="'aten::exp' .*'diagonal_matrixCPU'"):
        d.exp()
    with pytest.raises(NotImplementedError, match='aten::neg'):
        tede.neg(tede.ones(2, 2), out=out)


def test_arithmetic_of_two_and_what_is_written():
    d, e = make(1., 2.), make(3., 5.)
    assert same(d - e, [-2., -3.]) and same(d.sub(e, alpha=2), [-5., -8.]) and same(d * e, [3., 10.])
    for write, numbers in [(lambda x: x.add_(e, alpha=2), [7., 12.]), (lambda x: x.sub_(e), [-2., -3.]), (lambda x: x.mul_(2), [2., 4.]),
                           (lambda x: x.copy_(e.double()), [3., 5.])]:
        x = d.clone()
        alias, version = tede.ops.aten.alias(x), x._version
        assert write(x) is x and same(x, numbers) and x.dtype is tede.float32 and x._version > version
        assert same(alias, [1., 2.])                                        # as with sparse: an alias keeps what it had
    assert tede.zeros(2, 2).copy_(e).tolist() == [[3., 0.], [0., 5.]]
    for refused, words in [(lambda: d.add_(tede.ones(2, 2)), 'layout strided'), (lambda: d.copy_(tede.ones(2, 2)), 'use to_dense'),
                           (lambda: tede.ones(2, 2).mul_(d).div_(d), 'use to_dense'), (lambda: d - 1, 'use to_dense'), (lambda: 1 / d, 'diagonal_matrix')]:
        with pytest.raises(NotImplementedError, match=words):
            refused()
    for refused in lambda: d + make(1., 2., 3.), lambda: make(1.) + d, lambda: d.copy_(make(1.)), lambda: d.int().div_(2):
        with pytest.raises(RuntimeError):
            refused()


def test_factories_after_a_tensor_of_the_layout():
    d = make(1., 2.)
    assert same(tede.zeros_like(d), [0., 0.]) and tede.zeros_like(d, dtype=tede.int32).dtype is tede.int32
    assert tede.empty_like(d).layout is tede.diagonal_matrix
    assert tede.zeros_like(d, layout=tede.strided).tolist() == [[0., 0.], [0., 0.]]


def test_gradients_are_added_up():
    d = make(1., 2., 3.).requires_grad_()
    for _ in range(2):
        (d - d.mul(3)).to_dense().sum().backward()
    assert same(d.grad, [-4.] * 3)


def test_gradients():
    d = make(1., 2., 3.).requires_grad_()
    d.mm(tede.ones(3, 2)).sum().backward()
    assert d.grad.tolist() == [[2.] * 3] * 3
    d = make(1., 2., 3.).requires_grad_()
    (d.neg() + d + d).to_dense().sum().backward()
    assert same(d.grad, [1., 1., 1.])
    x = tede.arange(4.).reshape(2, 2).requires_grad_()
    x.to_sparse(layout=tede.diagonal_matrix).to_dense().mul(3).sum().backward()
    assert x.grad.tolist() == [[3., 0.], [0., 3.]]


def test_views_are_made_or_refused():
    d = make(1., 2.)
    assert same(d.t(), [1., 2.]) and same(d.transpose(0, 1), [1., 2.]) and same(d.detach(), [1., 2.])
    for view in lambda: d.view(4), lambda: d.expand(3, 2, 2), lambda: d.diagonal(), lambda: d.as_strided((2,), (1,)):
        with pytest.raises(NotImplementedError, match='diagonal_matrix'):
            view()
    with pytest.raises(TypeError, match='Cannot assign'):
        d[0, 0] = 1
    with pytest.raises(TypeError, match='to_dense'):
        d.numpy()


ALSO_OF_SPARSE = """d / 2; d // 2; d.div(2, rounding_mode='floor'); d.mul_(2); d.div_(2); d.floor_divide_(2); d.zero_(); d.new_zeros(2, 2);
    d.new_zeros(3, 3, dtype=tede.int32); d.pow(2); d ** 3; d.float_power(2); d @ e; d @ x; x @ d; d @ v; d.mv(v); tede.mm(d, e); tede.addmm(x, d, x);
    tede.addmm(x, d, x, beta=0, alpha=3); tede.nn.functional.linear(x, d); x + d; x - d; x * d; d * x; x.clone().add_(d); x.clone().sub_(d);
    d.sum(); d.sum(0); d.sum((0, 1)); d.sum(1, keepdim=True); d.sum(dtype=tede.float64); d.any(); d.norm(); d.norm(1);
    d.T; d.mT; d.t_(); d.transpose_(0, 1); d.permute(1, 0); d.select(0, 1); d[0]; d[:, 1]; d[1, 1]; d.unsqueeze(0); d.squeeze(0); d.unbind()[1];
    d.index_select(0, tede.tensor([1])); tede.cat([d, e]); tede.stack([d, e]); d.narrow_copy(0, 0, 1); d.to_sparse_csr(); d.to_sparse_csc();
    tede.add(d, e, out=o); tede.sub(d, e, alpha=2, out=o); tede.mul(d, e, out=o); tede.div(d, 2, out=o); tede.mm(d, e, out=o); tede.matmul(d, e, out=o);
    tede.add(d, e, out=tede.empty(0)); tede.mm(d, x, out=tede.empty(0)); tede.add(d.double(), e, out=o); tede.sin(d, out=o)"""


@pytest.mark.parametrize('call', re.split(r';\s+', ALSO_OF_SPARSE))
def test_what_sparse_does_has_the_same_elements_here(call):
    results = []
    for layout in tede.diagonal_matrix, tede.sparse_coo, tede.strided:
        d, e, o = (tede.diag(tede.tensor(line)) for line in ([3., -5.], [2., .5], [0., 0.]))
        if layout is not tede.strided:
            d, e, o = (m.to_sparse(layout=layout) for m in (d, e, o))
        result = eval(call, dict(d=d, e=e, o=o, x=tede.arange(4.).reshape(2, 2), v=tede.arange(2.), tede=tede))
        assert 'out=o' not in call or result is o
        results.append((result.dtype, result.shape, result.to_dense().tolist()))
    assert results[0] == results[1] == results[2]
    small = make(3.)
    assert small.item() == 3 and float(small) == 3 and bool(small) and not bool(make(0.))


def test_gradients_pass_through_what_sparse_differentiates():
    x, v = tede.arange(4.).reshape(2, 2), tede.arange(2.)
    for f in (lambda d: d / 2, lambda d: d ** 2, lambda d: d @ x, lambda d: x @ d, lambda d: d @ v, lambda d: x + d, lambda d: d.sum(), lambda d: d.T,
              lambda d: d.relu(), lambda d: d.log1p(), lambda d: tede.cat([d, d]), lambda d: tede.addmm(x, d, x), lambda d: (d * 1).mul_(2)):
        gradients = []
        for d in make(3., .5), tede.diag(tede.tensor([3., .5])):
            y = f(d.requires_grad_()).to_dense()
            (y * tede.arange(1., y.numel() + 1).reshape(y.shape)).sum().backward()
            gradients.append(d.grad.to_dense().diagonal().tolist())
        assert gradients[0] == gradients[1]


def test_on_meta_there_are_shapes_and_layouts():
    d, x = make(1., 2.).to('meta'), tede.empty(2, 3, device='meta')
    assert (d @ x).shape == (2, 3) and d[0].shape == (2,) and d.sum().shape == ()
    for made in d + d, d.mul_(2), d.zero_(), d.t(), d / 2, tede.zeros_like(make(1., 2.), device='meta'):
        assert made.is_meta and made.layout is tede.diagonal_matrix and made.shape == (2, 2)


def test_arguments_that_no_diagonal_matrix_has_are_refused():
    d, out = make(1., 2.), make(0., 0.)
    for call, error, words in [
            (lambda: d.transpose(0, 2), RuntimeError, 'dimensions of a matrix'), (lambda: d.permute(0, 0), RuntimeError, 'each dimension once'),
            (lambda: d @ tede.ones(3, 2), RuntimeError, 'have 2 elements'), (lambda: tede.ones(2, 3) @ d, RuntimeError, 'have 2 elements'),
            (lambda: d @ tede.tensor(2.), RuntimeError, 'have 2 elements'), (lambda: d ** 0, RuntimeError, 'zeros to stay zeros'),
            (lambda: tede.linalg.vector_norm(d, -1), RuntimeError, '0 or more'), (lambda: d.new_zeros(2, 3), ValueError, 'as many rows'),
            (lambda: d.mv(d), RuntimeError, 'dimension'), (lambda: tede.add(d, d, out=out.int()), RuntimeError, "can't be cast"),
            (lambda: tede.mm(tede.ones(2, 2), tede.ones(2, 2), out=out), NotImplementedError, "aten::mm"),
            (lambda: tede.add(tede.ones(2, 2), d, out=out), NotImplementedError, 'layout strided')]:
        with pytest.raises(error, match=words):
            call()
    assert same(out, [0., 0.])


def test_what_is_not_made_of_such_parts_is_refused():
    kind = tede.diagonal_matrix
    for size, parts in [((2, 3), (('diagonal', tede.ones(2)),)), ((2, 2), (('diagonal', tede.ones(3)),)), ((2, 2), ()), ((2, 2), (('diagonal', 3),))]:
        with pytest.raises(ValueError):
            tede._C._from_layout_parts(kind, size, parts)
    with pytest.raises(ValueError):
        tede._C._from_layout_parts(tede.strided, (2,), ())
    with pytest.raises(NotImplementedError):
        tede._C._layout_parts(tede.ones(2))
