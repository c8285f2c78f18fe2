"""What is written through sparse tensors, and what crosses between libraries in files."""
import io
import itertools

import pytest

KINDS = ['coo', 'csr', 'csc', 'bsr', 'bsc', 'hybrid', 'uncoalesced', 'empty']


def make(lib, kind):
    dense = lib.tensor([[0., 1, 0, 0], [2, 0, 0, 3], [0, 0, 0, 0], [0, 0, 4, 0]])
    if kind in ('bsr', 'bsc'):
        return getattr(dense, f'to_sparse_{kind}')((2, 2))
    return {'coo': dense.to_sparse, 'csr': dense.to_sparse_csr, 'csc': dense.to_sparse_csc,
            'hybrid': lambda: lib.sparse_coo_tensor(lib.tensor([[0, 1]]), lib.ones(2, 3), (2, 3)),
            'uncoalesced': lambda: lib.sparse_coo_tensor(lib.tensor([[0, 0], [1, 1]]), lib.tensor([1., 2.]), (2, 3)),
            'empty': lambda: lib.sparse_coo_tensor(size=(2, 3))}[kind]()


@pytest.mark.parametrize('kind', KINDS)
def test_nothing_is_assigned_to_a_sparse_tensor(lib, kind):
    x = make(lib, kind)
    before = x.to_dense()
    for index in (1, 1), 0, slice(None), ..., None, lib.tensor([0]), before > 1:
        for value in 5., lib.tensor(5.):
            with pytest.raises(TypeError, match='Cannot assign to a sparse tensor'):
                x[index] = value
    assert lib.equal(x.to_dense(), before)


def test_stacked_sparse_tensors_have_gradients(lib):
    parts = [lib.eye(2).to_sparse().requires_grad_() for _ in range(3)]
    for dim in 0, 1, 2, -1:
        (lib.stack(parts, dim).to_dense() * 3).sum().backward()
    for part in parts:
        assert part.grad.is_sparse and part.grad.to_dense().sum() == 24
    cats = [lib.eye(2).to_sparse().requires_grad_() for _ in range(2)]
    lib.cat(cats, 1).to_dense()[:, 1:].sum().backward()
    assert [c.grad.to_dense().sum().item() for c in cats] == [1, 2]


@pytest.mark.parametrize('kind, weights_only', itertools.product(KINDS, (True, False)))
def test_sparse_tensors_are_exchanged_in_files(both, kind, weights_only):
    for writer, reader in (both, both[::-1], (both[0], both[0])):
        want, file = make(writer, kind), io.BytesIO()
        writer.save({'x': want}, file)
        file.seek(0)
        found = reader.load(file, weights_only=weights_only)['x']
        assert str(found.layout).rpartition('.')[2] == str(want.layout).rpartition('.')[2]
        assert found.to_dense().tolist() == want.to_dense().tolist() and str(found.dtype)[-7:] == str(want.dtype)[-7:]
        assert kind not in ('coo', 'uncoalesced') or found.is_coalesced() == want.is_coalesced()


def test_histc_of_ranges_that_overflow_and_of_nan(lib):
    huge = lib.tensor([-1.5e308, 0., 1.5e308, 1e308], dtype=lib.float64)
    with pytest.raises(RuntimeError, match='not finite'):
        lib.histc(lib.tensor([1., float('nan'), 3.]))
    assert lib.histc(lib.tensor([1., float('nan'), 3.]), 2, 0, 4).tolist() == [1, 1]
    if lib.__name__ == 'tede':      # PyTorch casts infinity and NaN to an index
        assert lib.histc(huge, 3).tolist() == [1, 1, 2] and lib.histc(huge[1:], 3).tolist() == [1, 0, 2]
