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
    for refused in lambda: d.add_(tede.ones(2, 2)), lambda: d.copy_(tede.ones(2, 2)), lambda: tede.ones(2, 2).add_(d), lambda: d - 1:
        with pytest.raises(NotImplementedError, match='use to_dense'):
            refused()
    for refused in lambda: d + make(1., 2., 3.), lambda: make(1.) + d, lambda: d.copy_(make(1.)), lambda: d.add_(e.double()):
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
    for view in lambda: d[0], lambda: d.view(4), lambda: d.unsqueeze(0), lambda: d.as_strided((2,), (1,)):
        with pytest.raises(NotImplementedError, match='diagonal_matrix'):
            view()
    with pytest.raises(TypeError, match='Cannot assign'):
        d[0, 0] = 1
    with pytest.raises(TypeError, match='to_dense'):
        d.numpy()


def test_what_is_not_made_of_such_parts_is_refused():
    kind = tede.diagonal_matrix
    for size, parts in [((2, 3), (('diagonal', tede.ones(2)),)), ((2, 2), (('diagonal', tede.ones(3)),)), ((2, 2), ()), ((2, 2), (('diagonal', 3),))]:
        with pytest.raises(ValueError):
            tede._C._from_layout_parts(kind, size, parts)
    with pytest.raises(ValueError):
        tede._C._from_layout_parts(tede.strided, (2,), ())
    with pytest.raises(NotImplementedError):
        tede._C._layout_parts(tede.ones(2))
