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


def test_stacked_hybrid_tensors_have_gradients(lib):
    for dim in 0, 1, 2:
        x = lib.sparse_coo_tensor(lib.tensor([[0, 2]]), lib.arange(6.).reshape(2, 3), (4, 3)).requires_grad_()
        lib.stack([x, x * 2], dim).to_dense().sum().backward()
        assert x.grad.to_dense().tolist() == [[3.] * 3, [0.] * 3, [3.] * 3, [0.] * 3]


def test_joined_sparse_tensors_have_gradients(lib):
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


def test_csr_tensors_are_resized(lib):
    x = lib.tensor([[1., 0, 2], [0, 3, 4]]).to_sparse_csr()
    x.resize_(4, 5)
    assert x.shape == (4, 5) and x._nnz() == 4 and x.crow_indices().tolist() == [0, 2, 4, 4, 4]
    x = lib.ones(2, 3).to_sparse_csr().resize_(1, 4)
    assert x.shape == (1, 4) and x._nnz() == 4 and x.col_indices().tolist() == [0, 1, 2, 0] and x.crow_indices().tolist() == [0, 4]
    with pytest.raises(RuntimeError, match="torch.resize_: Only batched sparse CSR matrices are supported"):
        x.resize_(4)
    with pytest.raises(RuntimeError, match="Resizing columns of sparse CSR tensors to a smaller value is not supported"):
        x.resize_(1, 3)


def test_compressed_tensors_take_anothers_size(lib):
    for layout in ("csr", "csc", "bsr", "bsc"):
        block = ((1, 2),) if layout[0] == "b" else ()
        x, like = (getattr(lib.ones(n, 4, dtype=d), "to_sparse_" + layout)(*block) for n, d in ((2, lib.float32), (3, lib.float64)))
        x.resize_as_sparse_(like)
        assert x.shape == (3, 4) and x._nnz() == like._nnz() and x.dtype == lib.float32 and x.values().shape == like.values().shape
        lib._validate_sparse_compressed_tensor_args(*parts(x, layout), x.values(), x.shape, x.layout)
    with pytest.raises(RuntimeError, match="self and src must have the same layout"):
        lib.ones(2, 2).to_sparse_csr().resize_as_sparse_(lib.ones(2, 2).to_sparse_csc())


def parts(x, layout):
    return (x.crow_indices(), x.col_indices()) if layout[2] == "r" else (x.ccol_indices(), x.row_indices())


def test_compressed_tensors_are_copied_from_their_like(lib):
    x = lib.ones(4, 6).to_sparse_bsr((2, 3))
    for other, says in ((lib.ones(4, 6), "having different layouts is not supported"),
                        (lib.eye(4, 6).to_sparse_bsr((2, 3)), "only sparse compressed tensors with the same number of specified elements"),
                        (lib.ones(6, 4).to_sparse_bsr((3, 2)), "expected shapes of self and src to match along dimension 0"),
                        (lib.ones(4, 6).to_sparse_bsr((1, 6)), "having different block sizes is not supported")):
        with pytest.raises(RuntimeError, match=says):
            x.copy_(other)
    assert x.copy_(2 * x).to_dense().tolist() == [[2.] * 6] * 4


def test_a_strided_vector_gets_a_compressed_product_added(lib):
    matrix, vector, to = lib.tensor([[1., 0, 2], [0, 3, 0]]), lib.tensor([1., 2, 3]), lib.tensor([10., 20])
    for x in (matrix.to_sparse_csr(), matrix.to_sparse_bsr((1, 1))):
        assert lib.addmv(to, x, vector, beta=2, alpha=3).tolist() == [41, 58]
        assert lib.addmv(lib.tensor([lib.nan, 1]), x, vector, beta=0).tolist() == [7, 6]
        assert to.clone().addmv_(x, vector).tolist() == [17, 26]
