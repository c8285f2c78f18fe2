"""Sparse tensors: making, converting, arithmetic, products, gradients.  Values and wording are PyTorch's."""
import warnings

import pytest


def coo(lib, **options):
    """Not coalesced: (1, 0) comes twice."""
    return lib.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [1., 2., 3.], (2, 2), **options)


def same(x, numbers):
    assert x.to_dense().tolist() == numbers


def test_parts_and_shape(lib):
    x = coo(lib)
    assert x.is_sparse and x.layout is lib.sparse_coo and not x.is_coalesced()
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), tuple(x.shape)) == (2, 0, 3, (2, 2))
    c = x.coalesce()
    assert c.is_coalesced() and c.indices().tolist() == [[0, 1], [1, 0]] and c.values().tolist() == [1., 5.]
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor, please call .coalesce.. first"):
        x.indices()
    same(x, [[0., 1.], [5., 0.]])


def test_a_hybrid_tensor_has_dense_dimensions(lib):
    x = lib.sparse_coo_tensor([[0, 2]], lib.tensor([[1, 2], [3, 4]]), (3, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (1, 1)
    same(x, [[1, 2], [0, 0], [3, 4]])
    back = x.to_dense().to_sparse(1)
    assert back._indices().tolist() == [[0, 2]] and back._values().tolist() == [[1, 2], [3, 4]]


def test_forms_of_the_constructor(lib):
    assert tuple(lib.sparse_coo_tensor([[0, 3]], [1., 2.]).shape) == (4,)
    empty = lib.sparse_coo_tensor((2, 3))
    assert empty._nnz() == 0 and tuple(empty._indices().shape) == (2, 0) and empty.to_dense().sum() == 0
    assert coo(lib, dtype=lib.int32).dtype is lib.int32
    assert lib.sparse_coo_tensor([[0], [1]], [1.], (2, 2), is_coalesced=True).is_coalesced()


@pytest.mark.parametrize("arguments, text", [
    (([[0, 1]], [1.]), "indices and values must have same nnz, but got nnz from indices: 2, nnz from values: 1"),
    (([[-1]], [1.]), "found negative index -1 for dim 0"),
    (([0], [1.]), r"indices must be sparse_dim x nnz, but got: \[1\]"),
    (([[0], [1]], [1.], (2,)), "'len.size. == sparse_dim . dense_dim' is not satisfied: len.size. = 1, sparse_dim = 2, dense_dim = 0"),
])
def test_what_cannot_be_made(lib, arguments, text):
    with pytest.raises(RuntimeError, match=text):
        lib.sparse_coo_tensor(*arguments)


def test_invariants_are_checked_if_asked_for(lib):
    lib.sparse_coo_tensor([[5]], [1.], (2,), check_invariants=False)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices: for dim 0, size is 2 but found index 5"):
        lib.sparse_coo_tensor([[5]], [1.], (2,), check_invariants=True)
    with lib.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="found index 5"):
        lib.sparse_coo_tensor([[5]], [1.], (2,))


def test_repr(lib):
    assert repr(coo(lib)) == ("tensor(indices=tensor([[0, 1, 1],\n                       [1, 0, 0]]),\n"
                              "       values=tensor([1., 2., 3.]),\n       size=(2, 2), nnz=3, layout=torch.sparse_coo)")


def test_sums_and_products_by_element(lib):
    x, dense = coo(lib), lib.tensor([[1., 2.], [3., 4.]])
    same(x + x.coalesce(), [[0., 2.], [10., 0.]])
    same(dense + x, [[1., 3.], [8., 4.]])
    same(dense - x, [[1., 1.], [-2., 4.]])
    same(x * dense, [[0., 2.], [15., 0.]])
    same(x * x, [[0., 1.], [25., 0.]])
    same(x * 2 / 4, [[0., .5], [2.5, 0.]])
    with pytest.raises(RuntimeError, match="add.sparse, dense. is not supported. Use add.dense, sparse. instead."):
        x + dense
    dense.add_(x, alpha=10)
    same(dense, [[1., 12.], [53., 4.]])


def test_products_of_matrices(lib):
    x, dense = coo(lib), lib.tensor([[1., 2.], [3., 4.]])
    same(lib.mm(x, dense), [[3., 4.], [5., 10.]])
    same(lib.mm(x, x), [[5., 0.], [0., 5.]])
    same(lib.mv(x, lib.tensor([1., 1.])), [1., 5.])
    same(lib.addmm(dense, x, dense, beta=2), [[5., 8.], [11., 18.]])
    with pytest.raises(RuntimeError, match="Expected dim 0 size 2, got 3"):
        lib.mm(x, lib.ones(3, 2))


def test_embedding_with_sparse_gradients(lib):
    for module, arguments in ((lib.nn.Embedding, ()), (lib.nn.EmbeddingBag, (lib.tensor([0, 2]),))):
        lib.manual_seed(0)
        plain = module(5, 3)
        sparse = module(5, 3, sparse=True)
        sparse.load_state_dict(plain.state_dict())
        index = lib.tensor([1, 3, 1, 0])
        for layer in (plain, sparse):
            for _ in range(2):          # gradients are added up
                (layer(index, *arguments) ** 2).sum().backward()
        assert sparse.weight.grad.is_sparse
        assert lib.allclose(sparse.weight.grad.to_dense(), plain.weight.grad)


def test_a_sparse_and_a_strided_gradient_add_up(lib):
    for sparse_first in (True, False):
        w = lib.ones(4, 2, requires_grad=True)
        for sparse in (sparse_first, not sparse_first):
            lib.nn.functional.embedding(lib.tensor([1, 1]), w, sparse=sparse).sum().backward()
        assert not w.grad.is_sparse
        same(w.grad, [[0., 0.], [4., 4.], [0., 0.], [0., 0.]])


def test_gather_with_a_sparse_gradient(lib):
    x = lib.arange(6.).reshape(2, 3).requires_grad_()
    lib.gather(x, 1, lib.tensor([[0, 0], [2, 1]]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse
    same(x.grad, [[2., 0., 0.], [0., 1., 1.]])


def test_optimizers_take_sparse_gradients(lib):
    for optimizer, options in (("SGD", {"lr": .1}), ("SGD", {"lr": .1, "momentum": .9}), ("Adagrad", {"lr": .1}),
                               ("SparseAdam", {"lr": .1})):
        w = lib.ones(4, 2, requires_grad=True)
        step = getattr(lib.optim, optimizer)([w], **options)
        for _ in range(3):
            step.zero_grad()
            lib.nn.functional.embedding(lib.tensor([1, 2, 1]), w, sparse=True).square().sum().backward()
            step.step()
        assert w[0].tolist() == [1., 1.] and (w[1] < 1).all()
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients, please consider SparseAdam instead"):
        w = lib.ones(4, 2, requires_grad=True)
        lib.nn.functional.embedding(lib.tensor([1]), w, sparse=True).sum().backward()
        lib.optim.Adam([w]).step()


def test_gradients_of_making_and_converting(lib):
    values = lib.tensor([1., 2., 3.], requires_grad=True)
    x = lib.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], values, (2, 2))
    (x.to_dense() * lib.tensor([[1., 2.], [3., 4.]])).sum().backward()
    assert values.grad.tolist() == [2., 3., 3.]
    dense = lib.tensor([[0., 2.], [3., 0.]], requires_grad=True)
    (dense.to_sparse().to_dense() * 5).sum().backward()
    same(dense.grad, [[0., 5.], [5., 0.]])


def test_compressed_layouts(lib):
    dense = lib.tensor([[0., 1., 0., 2.], [0., 0., 3., 0.]])
    for layout, blocks in (("csr", None), ("csc", None), ("bsr", (2, 2)), ("bsc", (1, 2))):
        x = getattr(dense, "to_sparse_" + layout)(*([blocks] if blocks else []))
        assert x.layout is getattr(lib, "sparse_" + layout) and not x.is_sparse
        same(x, dense.tolist())
        same(x.to_sparse(), dense.tolist())
    x = lib.sparse_csr_tensor([0, 2, 3], [1, 3, 2], [1., 2., 3.], (2, 4))
    same(x, dense.tolist())
    assert x.crow_indices().tolist() == [0, 2, 3] and x.col_indices().tolist() == [1, 3, 2]
    same(lib.mm(x, lib.ones(4, 1)), [[3.], [3.]])
    same(x + x, (2 * dense).tolist())


def test_indices_beyond_the_size_are_errors_where_they_are_used(lib):
    if "tede" not in lib.__name__:
        pytest.skip("PyTorch reads and writes beyond the memory")
    x = lib.sparse_coo_tensor([[7, 1]], [1., 2.], (2,))
    for use in (x.coalesce, x.to_dense, lambda: lib.zeros(2) + x, lambda: x * lib.ones(2)):
        with pytest.raises((IndexError, RuntimeError), match="index 7 is out of bounds for dimension 0 of a sparse tensor with size 2"):
            use()
    with pytest.raises(NotImplementedError, match="Could not run 'aten::exp' with arguments from the 'SparseCPU' backend"):
        x.exp()


def test_functions_that_keep_zero_apply_to_the_values(lib):
    x = lib.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [-1., 2., 2.], (2, 2))
    for name in ("abs", "sin", "relu", "sign", "neg", "floor", "expm1", "sqrt", "isnan", "deg2rad", "square"):
        y = getattr(lib, name)(x)
        assert y.is_sparse
        assert lib.equal(y.to_dense().nan_to_num(), getattr(lib, name)(x.to_dense()).nan_to_num()), name
    with pytest.raises(RuntimeError, match="abs_ requires coalesced input"):
        x.abs_()
    x = x.coalesce().abs_()
    same(x, [[0., 1.], [4., 0.]])
    csr = x.to_sparse_csr().neg()
    assert csr.layout is lib.sparse_csr
    same(csr, [[0., -1.], [-4., 0.]])


def test_sums_over_dimensions(lib):
    x = lib.sparse_coo_tensor([[0, 1, 1], [1, 0, 0]], [[1., 2.], [3., 4.], [5., 6.]], (2, 3, 2))
    for dims in (0, 1, 2, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        for total in (lib.sparse.sum(x, dims), x.sum(dims), x.sum(dims, keepdim=True)):
            assert total.to_dense().sum() == 21.
        assert lib.equal(x.sum(dims).to_dense(), x.to_dense().sum(dims))
    assert x.sum() == 21. and lib.sparse.sum(x) == 21.


def test_softmax_over_what_is_there(lib):
    x = lib.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1., 2., 3.], (2, 3)).requires_grad_()
    y = lib.sparse.softmax(x, 1)
    hidden = lib.where(x.detach().to_dense() == 0, -float("inf"), x.detach().to_dense()).requires_grad_()
    want = hidden.softmax(1)
    assert lib.allclose(y.to_dense(), want) and lib.allclose(lib.sparse.log_softmax(x, 1).to_dense().exp()[0, 2], want[0, 2])
    weights = lib.tensor([[1., 5., 2.], [3., 4., 6.]])
    (y.to_dense() * weights).sum().backward()
    (want * weights).sum().backward()
    assert lib.allclose(x.grad.to_dense(), hidden.grad.nan_to_num(), atol=1e-6)


def test_dimensions_moved_picked_and_joined(lib):
    x = lib.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], [[1., 2.], [3., 4.], [5., 6.]], (2, 3, 2))
    dense = x.to_dense()
    for f in (lambda t: t.transpose(0, 1), lambda t: t.permute(1, 0, 2), lambda t: t[1], lambda t: t.select(2, 1), lambda t: t.select(1, -1),
              lambda t: t.index_select(0, lib.tensor([1, 1, 0])), lambda t: t.index_select(2, lib.tensor([1])),
              lambda t: t.narrow_copy(1, 1, 2), lambda t: t.narrow_copy(2, 0, 1), lambda t: t.unsqueeze(1), lambda t: t.unsqueeze(-1),
              lambda t: lib.cat([t, t], 1), lambda t: lib.cat([t, t, t], 2), lambda t: lib.stack([t, t])):
        assert lib.equal(f(x).to_dense(), f(dense))
    assert lib.sparse_coo_tensor([[0]], [3.], (2,)).select(0, 0) == 3.


def test_products_of_torch_sparse_and_their_gradients(lib):
    a = lib.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1., 2., 3.], (2, 3)).requires_grad_()
    b = lib.arange(6.).reshape(3, 2).requires_grad_()
    lib.sparse.mm(a, b).square().sum().backward()
    p, q = a.detach().to_dense().requires_grad_(), b.detach().clone().requires_grad_()
    (p @ q).square().sum().backward()
    assert a.grad.is_sparse and lib.equal(a.grad.to_dense(), p.grad * (p != 0)) and lib.equal(b.grad, q.grad)
    same(lib.hspmm(a.detach(), q.detach()), (p @ q).tolist())
    same(lib.smm(a.detach(), q.detach()), (p @ q).tolist())
    same(lib.sspaddmm(lib.sparse_coo_tensor((2, 2)), a.detach(), q.detach(), alpha=2), (2 * p @ q).tolist())
    same(lib.bmm(lib.stack([a.detach(), a.detach()]), lib.stack([q, q]).detach()), [(p @ q).tolist()] * 2)
    s = a.detach().to_sparse_csr()
    same(lib.sparse.sampled_addmm(s, lib.ones(2, 2), lib.ones(2, 3), beta=0.), [[2., 0., 2.], [0., 2., 0.]])
    same(s @ q.detach(), (p @ q).tolist())


def test_factories_know_sparse_layouts(lib):
    for name in ("zeros", "empty"):
        x = getattr(lib, name)(2, 3, layout=lib.sparse_coo)
        assert x.is_sparse and tuple(x.shape) == (2, 3) and x._nnz() == 0
    assert lib.zeros(2, 3, layout=lib.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert lib.zeros_like(coo(lib)).is_sparse and lib.zeros_like(lib.ones(2), layout=lib.sparse_coo).is_sparse
    with pytest.raises(RuntimeError, match="is not implemented for sparse layout"):
        lib.ones(2, layout=lib.sparse_coo)


def test_pickle_save_and_copy(lib, tmp_path):
    import copy
    import pickle
    dense = lib.tensor([[0., 1.], [2., 0.]])
    for x in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((1, 2)), coo(lib)):
        lib.save({"x": x}, tmp_path / "x.pt")
        copies = [pickle.loads(pickle.dumps(x)), lib.load(tmp_path / "x.pt")["x"]]
        for y in copies + ([copy.deepcopy(x)] if x.is_sparse else []):
            assert y.layout is x.layout and y._nnz() == x._nnz() and lib.equal(y.to_dense(), x.to_dense())
            assert not y.is_sparse or y.is_coalesced() == x.is_coalesced()


def test_writes_in_place(lib):
    x = coo(lib)
    x.mul_(2).add_(x.clone())
    same(x, [[0., 4.], [20., 0.]])
    y = lib.sparse_coo_tensor((2, 2)).copy_(x)
    x.zero_()
    assert x._nnz() == 0
    same(y, [[0., 4.], [20., 0.]])
    y.sparse_resize_((3, 4), 2, 0)
    assert tuple(y.shape) == (3, 4) and y.to_dense()[1, 0] == 20.
    with pytest.raises(RuntimeError, match="shrinking the size of sparse dimensions"):
        y.sparse_resize_((1, 1), 2, 0)
    same(lib.arange(4.).reshape(2, 2).sparse_mask(coo(lib).coalesce()), [[0., 1.], [2., 0.]])


def test_scipy_by_plain_arrays(lib):
    sparse = pytest.importorskip("scipy.sparse")
    numpy = pytest.importorskip("numpy")
    m = sparse.random(5, 4, density=.4, format="csr", random_state=0, dtype=numpy.float64)
    x = lib.sparse_csr_tensor(lib.from_numpy(m.indptr), lib.from_numpy(m.indices), lib.from_numpy(m.data), m.shape)
    assert x.to_dense().tolist() == m.toarray().tolist()
    c = m.tocoo()
    y = lib.sparse_coo_tensor(numpy.vstack([c.row, c.col]), c.data, c.shape).coalesce()
    back = sparse.coo_matrix((y.values().numpy(), y.indices().numpy()), shape=tuple(y.shape))
    assert (back != m).nnz == 0


def test_nothing_reads_memory_that_is_not_there(lib):
    x = coo(lib)
    for use in (lambda: x.view(4), lambda: x.data_ptr(), lambda: x.tolist(), lambda: x.numpy(), lambda: memoryview(x.numpy()),
                lambda: x.untyped_storage(), lambda: lib.exp(x), lambda: x.fill_(1), lambda: x.uniform_(), lambda: x.masked_fill_(x > 0, 1),
                lambda: lib.sin(lib.ones(2, 2), out=x), lambda: x.set_(lib.ones(2)), lambda: x.as_strided((1,), (1,)),
                lambda: x.copy_(lib.ones(2, 2)), lambda: lib.ones(2, 2).copy_(x), lambda: x[0:1], lambda: x.squeeze()):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            use()
    same(x, [[0., 1.], [5., 0.]])


def test_gradcheck_of_sparse_operands(lib):
    a = lib.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1., 2., 3.], (2, 3), dtype=lib.float64).coalesce().requires_grad_()
    b = lib.arange(6., dtype=lib.float64).reshape(3, 2).requires_grad_()
    assert lib.autograd.gradcheck(lib.sparse.mm, (a, b), masked=True)
    for f in (lambda x: x.to_dense(), lambda x: lib.sparse.sum(x, 0).to_dense(), lambda x: lib.sparse.softmax(x, 1).to_dense(),
              lambda x: (x * 2 + x).to_dense(), lambda x: x.t().to_dense(), lambda x: x.values()):
        assert lib.autograd.gradcheck(f, (a,), masked=True)


def test_what_graph_programs_ask_for(lib):
    row = lib.tensor([0, 0, 2])
    crow = lib._convert_indices_from_coo_to_csr(row, 3)
    assert crow.tolist() == [0, 2, 2, 3]
    assert lib._convert_indices_from_csr_to_coo(crow, lib.tensor([1, 2, 0])).tolist() == [[0, 0, 2], [1, 2, 0]]
    adjacent = lib.sparse_csr_tensor(crow, lib.tensor([1, 2, 0]), lib.ones(3), (3, 3))
    x = lib.arange(6.).reshape(3, 2)
    same(adjacent @ x, [[6., 8.], [0., 0.], [0., 1.]])
    same(adjacent.t().to_sparse_csr(), adjacent.to_dense().t().tolist())
    same(lib.sparse.mm(adjacent, x, "amax"), [[4., 5.], [0., 0.], [0., 1.]])


def test_resize_as_of_another_sparse_tensor(lib):
    x = lib.sparse_coo_tensor(lib.tensor([[0, 2]]), lib.ones(2, 3), (5, 3))
    y = x.new().resize_as_(x)
    assert y.shape == x.shape and y._nnz() == 0 and y.sparse_dim() == 1
    with pytest.raises(RuntimeError):
        x.clone().resize_as_(lib.ones(2))
    with pytest.raises(RuntimeError):
        x.clone().resize_(2)


def test_batches_of_compressed_matrices(lib):
    dense = lib.arange(1., 17.).reshape(2, 2, 4)
    for layout, blocks in (("csr", None), ("csc", None), ("bsr", (1, 2)), ("bsc", (2, 2))):
        x = getattr(dense, "to_sparse_" + layout)(*([blocks] if blocks else []))
        assert x.dense_dim() == 0 and tuple(x.shape) == (2, 2, 4)
        same(x + x, (2 * dense).tolist())
        same(x[1], dense[1].tolist())
        same(x.transpose(-1, -2), dense.transpose(-1, -2).tolist())
        same(x.to_sparse(), dense.tolist())


def test_the_older_constructor_of_a_sparse_tensor(lib):
    x = coo(lib).coalesce()
    same(x.new(x._indices(), x._values() * 2, x.size()), [[0., 2.], [10., 0.]])


def test_a_strided_tensor_is_its_own_dense_form(lib):
    w = lib.ones(2, 2, requires_grad=True)
    assert w.to_dense() is w and w.is_leaf and w.grad_fn is None
    w.to_dense(dtype=lib.float64).sum().backward()
    assert w.grad.tolist() == [[1, 1], [1, 1]]
    (w.to_sparse().to_dense() * 2).sum().backward()
    assert w.grad.tolist() == [[3, 3], [3, 3]]


def test_stacked_sparse_tensors_are_sparse(lib):
    x = coo(lib)
    for d in (0, 1, 2, -1):
        stacked = lib.stack([x, x * 2], d)
        assert stacked.is_sparse and lib.equal(stacked.to_dense(), lib.stack([x.to_dense(), x.to_dense() * 2], d))


def test_a_single_element_is_coalesced(lib):
    x = lib.sparse_coo_tensor([[0], [1]], [3.], (2, 2))
    assert x.is_coalesced() and x.indices().tolist() == [[0], [1]] and x.values().tolist() == [3]
    assert (x * 2).is_coalesced() and (x + x).is_coalesced() and x.clone().is_coalesced()
    assert not lib.sparse_coo_tensor([[0], [1]], [3.], (2, 2), is_coalesced=False).is_coalesced()
    assert not lib.sparse_coo_tensor([[0, 1], [0, 1]], [1., 2.], (2, 2)).is_coalesced()
    nothing = lib.sparse_coo_tensor(lib.empty(2, 0, dtype=lib.int64), lib.ones(0), (2, 2))
    assert nothing.is_coalesced() and nothing.t().is_coalesced() and not x.t().is_coalesced()


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
def test_empty_compressed_tensors_have_batches(lib, layout):
    layout = getattr(lib, layout)
    for make in (lib.empty, lib.zeros, lib.ones(1).new_zeros, lib.ones(1).new_empty):
        x = make((2, 3, 4), layout=layout)
        assert x.shape == (2, 3, 4) and x.layout is layout and x._nnz() == 0 and x.values().shape == (2, 0)
        assert (x.crow_indices() if layout is lib.sparse_csr else x.ccol_indices()).shape == (2, 4 if layout is lib.sparse_csr else 5)
    for size in ((5,), ()):
        with pytest.raises(RuntimeError, match=r"torch.empty: Only batched sparse compressed \(non-block\) tensors are supported"):
            lib.empty(size, layout=layout)
    with pytest.raises(RuntimeError, match=r"expected sparse compressed \(non-block\) tensor layout but got SparseBsr"):
        lib.empty((2, 2), layout=lib.sparse_bsr)
    x = lib.eye(3).to_sparse(layout=layout)
    like = lib.empty_like(x, layout=layout, dtype=lib.float64)
    assert like.layout is layout and like.dtype == lib.float64 and like._nnz() == 3
    with pytest.raises(RuntimeError, match="empty_like with different sparse layout is not supported"):
        lib.empty_like(x, layout=lib.sparse_bsc)


def test_compressed_tensors_of_given_numbers_of_elements(lib):
    x = lib.ops.aten._sparse_compressed_tensor_with_dims(3, 1, (2, 4, 6, 5), (2, 3), lib.int32, dtype=lib.float64, layout=lib.sparse_bsr)
    assert x.shape == (2, 4, 6, 5) and x.dense_dim() == 1 and x._nnz() == 3 and x.values().shape == (2, 3, 2, 3, 5)
    assert x.crow_indices().shape == (2, 3) and x.col_indices().dtype == lib.int32


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "float16", "bfloat16", "complex64"])
def test_what_is_selected_keeps_its_dtype(lib, dtype):
    dense = lib.tensor([[1, 0, 1], [0, 1, 0]]).to(getattr(lib, dtype))
    for x in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((1, 3))):
        assert x[0, 2].dtype == dense.dtype and x[0, 2].item() == dense[0, 2].item() and x[1, 2].item() == dense[1, 2].item()
        assert x.select(0, 1).dtype == dense.dtype and x.select(0, 1).to_dense().tolist() == dense[1].tolist()
        assert lib.select_copy(x, 0, 1).to_dense().tolist() == dense[1].tolist()


def test_dimensions_beside_the_matrix_are_selected(lib):
    dense = lib.arange(1., 49).reshape(2, 2, 4, 3)
    for x in (dense.to_sparse_csr(1), dense.to_sparse_bsr((1, 2), 1)):
        assert x.select(-1, 2).layout is x.layout and x.select(-1, 2).to_dense().tolist() == dense.select(-1, 2).tolist()
        assert x.select(0, 1).layout is x.layout and x.select(0, 1).to_dense().tolist() == dense[1].tolist()
        for dim in (1, 2):
            with pytest.raises(RuntimeError, match="selecting sparse dimensions is not supported for batched sparse compressed tensors"):
                x.select(dim, 0)
        with pytest.raises(IndexError, match="index 2 out of range for tensor of size"):
            x.select(0, 2)
    with pytest.raises(RuntimeError, match=r"can only transpose dimensions of the same type \(Batch, Sparse, Dense\), got 0\(Batch\)"):
        lib.ones(2, 2, 2).to_sparse_csr().transpose(0, 1)


def test_zeros_after_a_sparse_tensor_are_of_any_layout(lib):
    dense = lib.ones(4, 6, 2)
    layouts = [lib.sparse_coo, lib.sparse_csr, lib.sparse_csc]
    for x in (dense.to_sparse(2), dense.to_sparse_csr(1), dense.to_sparse_csc(1), dense.to_sparse_bsr((2, 3), 1), dense.to_sparse_bsc((2, 3), 1)):
        blocked = x.layout in (lib.sparse_bsr, lib.sparse_bsc)
        for layout in (lib.sparse_coo, lib.sparse_bsr, lib.sparse_bsc) if blocked else layouts:
            y = lib.zeros_like(x, layout=layout, dtype=lib.float64)
            assert y.layout is layout and y.shape == x.shape and y._nnz() == 0 and y.dense_dim() == 1 and y.dtype == lib.float64
            if blocked and layout is not lib.sparse_coo:
                assert y.values().shape == (0, 2, 3, 2)
    with pytest.raises(RuntimeError, match="blocksize needs to be a tuple of size 2, but got 0"):
        lib.zeros_like(dense.to_sparse_csr(1), layout=lib.sparse_bsr)


def test_diagonals_that_make_no_matrix_are_refused(lib):
    one, at = lib.ones(1, 3), lib.tensor([0])
    for arguments, says in (((lib.ones(1, 2, 3), at, (3, 3)), "Diagonals must be vector or matrix"),
                            ((one, lib.tensor([[0]]), (3, 3)), "Offsets must be scalar or vector"),
                            ((one, at, (3, 3, 3)), "Output shape must be 2d"),
                            ((lib.ones(2, 3), lib.tensor([1, 1]), (3, 3)), "Offset tensor contains duplicate values"),
                            ((one, at, (3, 3), lib.strided), r"Only output layouts \(Sparse, SparseCsc, SparseCsr\) are supported, got Strided")):
        with pytest.raises(RuntimeError, match=says):
            lib.sparse.spdiags(*arguments)
    with pytest.raises(RuntimeError, match="mat1 dtype Float does not match mat2 dtype Double"):
        lib.sparse.mm(lib.eye(2).to_sparse(), lib.eye(2, dtype=lib.float64).to_sparse())


def test_coo_tensors_have_no_memory_format(lib):
    x = lib.eye(2).to_sparse()
    for make in (lib.empty_like, lib.zeros_like):
        assert make(x)._nnz() == 0
        for form in (lib.preserve_format, lib.contiguous_format):
            with pytest.raises(RuntimeError, match="memory format option is only supported by strided tensors"):
                make(x, memory_format=form)


def test_reductions_of_sparse_tensors_are_silent(lib):
    x = lib.tensor([[1., 0, 2], [0, 3, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*(beta state|invariant checks)")
        for soft in (lib.sparse.softmax, lib.sparse.log_softmax):
            soft(x.to_sparse(), 1)
        for reduce in ("mean", "amax", "amin"):
            lib.sparse.mm(x.to_sparse_csr(), lib.ones(3, 2), reduce)


# ---- what PyTorch refuses

@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("start", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("end", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_conversions_between_compressed_layouts(lib, start, end, batched):
    blocks = {"sparse_bsr": (2, 2), "sparse_bsc": (2, 2)}
    dense = lib.eye(4).expand(2, 4, 4) if batched else lib.eye(4)
    x = dense.to_sparse(layout=getattr(lib, start), blocksize=blocks.get(start))
    refused = ("expected SparseCsr or SparseCsc layout but got SparseBs" if start in blocks and end not in blocks else
               "for batched inputs is not supported" if batched and end in blocks and start not in blocks else None)
    if refused is None:
        found = x.to_sparse(layout=getattr(lib, end), blocksize=blocks.get(end))
        assert found.layout is getattr(lib, end) and lib.equal(found.to_dense(), dense)
        return
    with pytest.raises(RuntimeError, match=refused):
        x.to_sparse(layout=getattr(lib, end), blocksize=blocks.get(end))
    with pytest.raises(RuntimeError, match=refused):
        getattr(x, "to_" + end)(*([blocks[end]] if end in blocks else []))


def test_blocks_are_not_changed(lib):
    x = lib.eye(4).to_sparse_bsr((2, 2))
    for convert in x.to_sparse_bsr, x.to_sparse_bsc:
        with pytest.raises(RuntimeError, match=r"blocksize changed from \[2, 2\] to \[1, 2\] is not supported"):
            convert((1, 2))


@pytest.mark.parametrize("f, says", [
    (lambda lib, x: x.narrow_copy(10, 0, 1), "Dimension 10 out of range. Expecting 0 <= dim < 2"),
    (lambda lib, x: x.narrow_copy(-1, 0, 1), "Dimension -1 out of range"),
    (lambda lib, x: x.narrow_copy(0, -1, 1), "Invalid range to narrow"),
    (lambda lib, x: lib._sparse_broadcast_to(x, (2, 3)), "input's length 2 at dimension 1 does not broadcast over the requested shape of length 3"),
    (lambda lib, x: lib._sparse_broadcast_to(x, (2,)), "the requested broadcast shape has fewer dimensions than the input"),
    (lambda lib, x: x.copy_(x.narrow_copy(0, 0, 1)), "shrinking the size of sparse dimensions"),
    (lambda lib, x: x.copy_(lib.eye(2).to_sparse(1)), "changing the number of sparse dimensions"),
    (lambda lib, x: lib.ones(2, 2, 2).to_sparse(1).permute(1, 0, 2), "transpositions between sparse and dense dimensions are not allowed"),
    (lambda lib, x: x.int().requires_grad_(), "only Tensors of floating point dtype can require gradients"),
    (lambda lib, x: x.norm(p=0, dtype=lib.float64), "norm_sparse currently does not support 'dtype' argument"),
    (lambda lib, x: lib.sparse_coo_tensor([[0, 1]], 5.), "got nnz from indices: 2, nnz from values: 1"),
], ids=range(11))
def test_what_sparse_tensors_refuse(lib, f, says):
    with pytest.raises(RuntimeError, match=says):
        f(lib, coo(lib))


def test_frobenius_norm_of_a_sparse_tensor_keeps_its_dtype(lib):
    with pytest.raises(ValueError, match="dtype argument is not supported in frobenius norm"):
        lib.norm(coo(lib), p="fro", dtype=lib.float64)


# ---- what is shared, and what isn't

def test_a_product_in_place_leaves_the_values_that_others_have(lib):
    values = lib.ones(2)
    x = lib.sparse_coo_tensor([[0, 1], [0, 1]], values, (2, 2))
    alias = x.detach()
    x *= 3
    assert x._values().tolist() == [3, 3] and values.tolist() == [1, 1] and alias._values().tolist() == [1, 1]
    y = lib.sparse_csr_tensor([0, 1, 2], [0, 1], values, (2, 2))
    y *= 3
    assert y.values().tolist() == values.tolist() == [3, 3]


def test_copies_between_sparse_tensors_take_a_larger_shape(lib):
    x = coo(lib).narrow_copy(0, 0, 1)
    assert x.copy_(coo(lib)) is x and tuple(x.shape) == (2, 2)
    same(x, [[0., 1.], [5., 0.]])


def test_growing_dense_dimensions_keeps_the_order_in_memory(lib):
    x = lib.sparse_coo_tensor([[0]], lib.arange(6.).reshape(1, 2, 3), (2, 2, 3))
    x.sparse_resize_((2, 2, 4), 1, 2)
    assert x.to_dense()[0].reshape(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_permutations_and_order(lib):
    x = coo(lib).coalesce()
    assert x.permute(0, 1).is_coalesced() and not x.permute(1, 0).is_coalesced() and not x.permute(-2, -1).is_coalesced()
    empty = lib.sparse_coo_tensor((2, 2))
    assert empty.t().is_coalesced() and not empty.permute(1, 0).is_coalesced()


# ---- numbers, dense dimensions

@pytest.mark.parametrize("coalesced", [False, True])
def test_products_with_a_sparse_number(lib, coalesced):
    x = coo(lib).coalesce() if coalesced else coo(lib)
    number = lib.tensor(2.).to_sparse()
    same(x * number, [[0., 2.], [10., 0.]])
    same(number * x, [[0., 2.], [10., 0.]])
    assert (number * number).to_dense().item() == 4


def test_products_broadcast_dense_dimensions(lib):
    a = lib.arange(12.).reshape(2, 2, 3).to_sparse(1)
    for shape in (2, 1, 3), (2, 2, 1), (2, 1, 1):
        b = lib.full(shape, 2.).to_sparse(1)
        for found in a * b, b * a:
            assert tuple(found.shape) == (2, 2, 3) and lib.equal(found.to_dense(), a.to_dense() * b.to_dense())


def test_one_number_is_the_value_of_one_element(lib):
    same(lib.sparse_coo_tensor([[0], [1]], 5., (2, 2), check_invariants=True), [[0., 5.], [0., 0.]])
    assert lib.sparse_coo_tensor([[1]], lib.tensor(5.)).to_dense().tolist() == [0, 5]


def test_zeros_into_a_sparse_tensor(lib):
    x = coo(lib, dtype=lib.int32)
    assert lib.zeros((3, 4), out=x) is x and tuple(x.shape) == (3, 4) and x._nnz() == 0 and x.dtype == lib.int32
    hybrid = lib.ones(2, 3).to_sparse(1)
    assert lib.zeros((2, 3), out=hybrid).dense_dim() == 0


def test_saddmm_is_sparse(lib):
    x = coo(lib)
    found = lib.saddmm(x, x, lib.ones(2, 2), beta=2, alpha=3)
    assert found.layout is lib.sparse_coo
    same(found, [[3., 5.], [25., 15.]])


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_randn_like_of_a_compressed_tensor_has_its_pattern(lib, layout):
    x = lib.eye(4).to_sparse(layout=getattr(lib, layout), blocksize=(2, 2) if "bs" in layout else None)
    for options in {}, {"layout": x.layout}, {"dtype": lib.float64}:
        y = lib.randn_like(x, **options)
        assert y.layout is x.layout and y._nnz() == x._nnz() and y.values().shape == x.values().shape
        assert y.values().count_nonzero() == y.values().numel() and y.dtype == options.get("dtype", lib.float32)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck_of_sparse_inputs(lib, layout, masked):
    check = lib.sparse.as_sparse_gradcheck(lib.autograd.gradcheck)
    dense = lib.tensor([[0., 2, 0, 1], [3, 0, 0, 0]], dtype=lib.float64)
    x = dense.to_sparse(layout=getattr(lib, layout), blocksize=(1, 2) if "bs" in layout else None).requires_grad_()
    for f in (lambda x: x, lambda x: x.to_dense(masked_grad=masked), lambda x: x.values() if x.layout is not lib.sparse_coo else x.coalesce().values()):
        assert check(f, x, masked=masked)


def test_hybrid_compressed_tensors_have_dense_gradients(lib):
    dense = lib.arange(12.).reshape(2, 2, 3)
    x = dense.to_sparse_csr(dense_dim=1).requires_grad_()
    (x.to_dense(masked_grad=False) * dense).sum().backward()
    assert x.grad.layout is lib.sparse_csr and x.grad.dense_dim() == 1 and lib.equal(x.grad.to_dense(), dense)


# ---- compressed tensors: parts that don't fit, sums, batches of none

def _invalid(lib):
    t, values = lib.tensor, lib.tensor([1., 2, 3, 4])
    return [
        (t([0, -1, 2, -1, 4, -1])[::2], t([0, 1, 0, 2]), values, (2, 3), "expected crow_indices to be a contiguous tensor per batch"),
        (t([0, 2, 4]), t([0, -1, 1, -1, 0, -1, 2, -1])[::2], values, (2, 3), "expected col_indices to be a contiguous tensor per batch"),
        (t(0), t([0, 1, 0, 2]), values, (2, 3), "crow_indices must have dimensionality >= 1 but got 0"),
        (t([[0, 2, 4]]), t([0, 1, 0, 2]), values, (2, 3), "crow_indices and col_indices dimensionalities must be equal but got 2 and 1"),
        (t([[0, 2, 4]]), t([[0, 1, 0, 2]]), values, (2, 3), r"sum of batch and block dimensionalities \(=1 \+ 0\) but got 1"),
        (t([0, 2, 4]), t([0, 1, 0, 2]), values, (2,), r"sum of batch, base, and dense dimensionalities \(=0 \+ 2 \+ 0\) but got 1"),
        (t([[0, 2, 4]]), t([[0, 1, 0, 2]]), values[None], (2, 2, 3),
         r"crow_indices \(=\[1\]\), col_indices \(=\[1\]\), and values \(=\[1\]\) must be equal to tensor batch dimensions \(=\[2\]\)"),
        (t([0, 2, 3, 4]), t([0, 1, 0, 2]), values, (2, 3), r"equal to the number of rows \+ 1 \(=3\), but got 4"),
        (t([0, 2, 4]), t([0, 1, 0, 1, 2]), values, (2, 3), r"must be equal to nnz \(=4\) as defined by values.shape\[0\], but got 5"),
        (t([0, 2, 4]).int(), t([0, 1, 0, 2]), values, (2, 3), "must have the same dtype, bot got Int and Long, respectively"),
        (t([0, 2, 4]).short(), t([0, 1, 0, 2]).short(), values, (2, 3), "dtype must be Int or Long, but got Short"),
        (t([0, 0, 4]), t([0, 1, 0, 2]), values, (2, 3), r"0 <= crow_indices\[..., 1:\] - crow_indices\[..., :-1\] <= ncols` is not satisfied"),
        (t([0, 5, 4]), t([0, 1, 0, 2]), values, (2, 3), r"0 <= crow_indices\[..., 1:\] - crow_indices\[..., :-1\] <= ncols` is not satisfied"),
    ]


@pytest.mark.parametrize("case", range(13))
def test_parts_of_a_compressed_tensor_that_do_not_fit(lib, case):
    *parts, size, says = _invalid(lib)[case]
    with pytest.raises(RuntimeError, match=says):
        lib._validate_sparse_compressed_tensor_args(*parts, size, lib.sparse_csr)
    with pytest.raises(RuntimeError, match=says):
        lib.sparse_csr_tensor(*parts, size, check_invariants=True)


def test_compressed_indices_alone_are_validated(lib):
    check = lib._validate_compressed_sparse_indices
    for dtype in lib.int32, lib.int64:
        assert check(True, lib.tensor([0, 0], dtype=dtype), lib.tensor([], dtype=dtype), 1, 1, 0) is None
        assert check(False, lib.tensor([0, 1, 1, 1], dtype=dtype), lib.tensor([1], dtype=dtype), 3, 2, 1) is None
        with pytest.raises(RuntimeError, match="is not satisfied"):
            check(True, lib.tensor([0, 1], dtype=dtype), lib.tensor([3], dtype=dtype), 1, 3, 1)


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_csc"])
def test_alpha_is_the_factor_of_the_sparse_operand(lib, layout):
    x, dense = lib.tensor([[0., 1], [0, 2]]).to_sparse(layout=getattr(lib, layout)), lib.tensor([[1., 2], [3, 4]])
    for y in dense, dense.t(), dense.double():
        expected = y + 0.5 * x.to_dense()
        for found in lib.add(y, x, alpha=0.5), lib.add(x, y, alpha=0.5):
            assert found.dtype == expected.dtype and lib.equal(found, expected)


@pytest.mark.parametrize("name", ["csr", "csc", "bsr", "bsc"])
def test_a_batch_of_no_matrices_is_not_compressed(lib, name):
    with pytest.raises(RuntimeError, match=f"to_sparse_{name}: Expected product of batch dimensions to be non-zero"):
        getattr(lib.ones(0, 4, 4), f"to_sparse_{name}")(*[(2, 2)] * (name[0] == "b"))


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
@pytest.mark.parametrize("name, slope", [("log1p", lambda x: 1 / (1 + x)), ("relu", lambda x: 1. * (x > 0))])
def test_functions_whose_slope_is_no_zero_have_gradients_at_the_elements(lib, layout, name, slope):
    dense = lib.tensor([[0., 1., 0.], [3., 0., 0.5]])
    x = dense.to_sparse(layout=getattr(lib, layout)).requires_grad_()
    weight = lib.arange(6.).reshape(2, 3)
    (getattr(lib, name)(x).to_dense() * weight).sum().backward()
    assert x.grad.layout == x.layout and x.grad._nnz() == 3
    assert lib.allclose(x.grad.to_dense(), weight * slope(dense) * (dense != 0))


@pytest.mark.parametrize("layout, blocks", [("sparse_csc", None), ("sparse_bsr", (1, 1)), ("sparse_bsc", (1, 1))])
def test_products_and_sums_of_other_compressed_layouts_are_refused(lib, layout, blocks):
    x = lib.eye(2).to_sparse(layout=getattr(lib, layout), blocksize=blocks)
    with pytest.raises(RuntimeError, match="non-block" if blocks else "Expected result Tensor to be of format CSR"):
        x * x
    for dim, keepdim in (0, False), (0, True), ((0, 1), False):
        with pytest.raises(RuntimeError, match="Currently the only compressed sparse format supported for sum.dim_IntList is CSR"):
            x.sum(dim, keepdim=keepdim)
    assert x.sum() == 2 and (x * 2).to_dense().sum() == 4


def test_csr_matrices_are_multiplied_with_dense_dimensions_but_not_in_batches(lib):
    hybrid = lib.full((2, 2, 2), 3.).to_sparse_csr(dense_dim=1)
    assert (hybrid * hybrid).values().tolist() == [[9., 9.]] * 4
    x = lib.ones(2, 2, 2).to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"conversion from Sparse to SparseCsr for input tensors with sparse_dim\(\)!=2"):
        x * x


def test_at_the_levels_of_transforms_a_sparse_tensor_is_one(lib):
    """A wrapper has its value's layout: to_dense() converts, and its gradient is of that layout."""
    s, seen = lib.tensor([[1., 0.], [0., 2.]]).to_sparse(), []

    def total(z):
        seen.append((z.layout, z.is_sparse))
        return (z.neg().to_dense() * 3).sum()
    grad = lib.func.grad(total)(s)
    assert seen == [(lib.sparse_coo, True)]
    assert grad.layout == lib.sparse_coo and grad.values().tolist() == [-3., -3.]
    value, pull = lib.func.vjp(lambda z: z.to_dense(), s)
    assert value.layout == lib.strided and pull(lib.ones(2, 2))[0].to_dense().tolist() == [[1., 0.], [0., 1.]]
    many = lib.vmap(lambda v: (s * v).to_dense())(lib.tensor([1., 2.]))
    assert many.layout == lib.strided and many.tolist() == [[[1., 0.], [0., 2.]], [[2., 0.], [0., 4.]]]


def test_a_factory_of_nothing_makes_it_on_its_device(lib):
    assert lib.sparse_coo_tensor((2, 3), device="meta").device.type == "meta"
    assert lib.zeros(2, 3, layout=lib.sparse_csr, device="meta").device.type == "meta"
    with lib.device("meta"):
        assert lib.sparse_coo_tensor((2, 3)).device.type == lib.zeros(2, 3, layout=lib.sparse_csr).device.type == "meta"


def test_what_is_coalesced_after_conversions_and_sums(lib):
    x = lib.tensor([[0., 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 0], [1, 0, 0, 5]])
    csc = x.to_sparse_csc().to_sparse()
    assert not csc.is_coalesced() and csc._indices().tolist() == [[1, 3, 0, 2, 0, 3], [0, 0, 1, 2, 3, 3]]
    assert x.to_sparse_csr().to_sparse().is_coalesced() and not x.to_sparse_bsr((2, 2)).to_sparse(2).is_coalesced()
    assert not x.to_sparse().unsqueeze(0).is_coalesced() and lib.zeros(3).to_sparse().unsqueeze(0).is_coalesced()
    assert [x.to_sparse().sum(0, keepdim=keep).is_coalesced() for keep in (False, True)] == [True, False]


@pytest.mark.parametrize("sparse_dim", [1, 2, 3])
def test_a_kept_dimension_of_a_sum_may_become_sparse(lib, sparse_dim):
    x = lib.arange(12.).reshape(3, 2, 1, 2).to_sparse(sparse_dim)
    sums = [x.sum(d, keepdim=True) for d in range(4)]
    assert [(s.sparse_dim(), s.dense_dim()) for s in sums if s.is_sparse] == {
        1: [(2, 2), (1, 3), (1, 3)], 2: [(2, 2), (2, 2), (3, 1), (2, 2)], 3: [(3, 1), (3, 1), (3, 1), (4, 0)]}[sparse_dim]
    for d, s in enumerate(sums):
        assert (s.to_dense() == x.to_dense().sum(d, keepdim=True)).all()


def test_a_masked_product_that_is_zero_is_specified(lib):
    x = lib.tensor([[-5, 0, 3], [0, 0, 0], [1, 7, 0]]).to_sparse_csr()
    mask = lib.tensor([[1, 0, 1], [1, 1, 1], [0, 1, 0]]).bool()
    for product in (lib.masked.prod(x, dim=(0, -1), keepdim=True, mask=mask), lib.masked.prod(x, dim=(0, 1), keepdim=True, mask=mask.to_sparse_csr())):
        assert product.values().tolist() == [0] and product.crow_indices().tolist() == [0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64"])
@pytest.mark.parametrize("columns", [0, 1, 3, 16, 37, 100, 259])
def test_products_of_compressed_rows_at_all_widths(lib, dtype, columns):
    lib.manual_seed(3)
    a = lib.randint(-4, 5, (61, 90)) * (lib.rand(61, 90) < 0.1)         # some rows are empty, a few aren't
    a[7] = lib.arange(90) % 5 - 2
    b = lib.randint(-4, 5, (90, columns))
    dtype = getattr(lib, dtype)
    expected = (a @ b).to(dtype)
    for left in (a.to(dtype).to_sparse_csr(), a.to(dtype).to_sparse()):
        assert lib.equal(left @ b.to(dtype), expected)


def test_row_indices_are_a_vector(lib):
    with pytest.raises(RuntimeError, match="Input is supposed to be a vector, but got 2 dimensional tensor"):
        lib._convert_indices_from_coo_to_csr(lib.ones(2, 2, dtype=lib.int64), 3)
    if lib.__name__ == "tede":      # PyTorch ends the process
        with pytest.raises(RuntimeError, match="must not be negative, got -1"):
            lib._convert_indices_from_coo_to_csr(lib.ones(2, dtype=lib.int64), -1)


def test_a_sparse_gradient_that_nobody_else_has_becomes_the_leafs(lib):
    class Seen(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            Seen.values = grad._values().data_ptr()
            return grad, grad

    a, b = lib.ones(5, 3, requires_grad=True), lib.ones(5, 3, requires_grad=True)
    y = lib.nn.functional.embedding_bag(lib.tensor([1, 3, 1]), Seen.apply(a, b), lib.tensor([0, 2]), sparse=True).sum()
    y.backward(retain_graph=True)
    assert [x.grad._values().data_ptr() == Seen.values for x in (a, b)].count(True) == 1
    y.backward()
    assert a.grad.to_dense()[:, 0].tolist() == b.grad.to_dense()[:, 0].tolist() == [0, 3, 0, 1, 0]


def test_a_sparse_gradient_whose_values_are_seen_is_copied(lib):
    values = lib.ones(2, 3)

    class Given(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return lib.sparse_coo_tensor(lib.tensor([[0, 4]]), values, (5, 3))

    x = lib.ones(5, 3, requires_grad=True)
    Given.apply(x).sum().backward()
    x.grad.mul_(3)
    assert x.grad.to_dense()[:, 0].tolist() == [3, 0, 0, 0, 3] and values.sum() == 6


@pytest.mark.parametrize("shape, sparse_dim", [((2, 2, 2), 3), ((2, 2, 2), 1), ((2, 2), 1)])
def test_a_transposed_sparse_tensor_is_a_matrix_of_sparse_dimensions(lib, shape, sparse_dim):
    with pytest.raises(RuntimeError, match=rf"<= 2 sparse and 0 dense dimensions, but got {sparse_dim} sparse and {len(shape) - sparse_dim} dense"):
        lib.ones(shape).to_sparse(sparse_dim).t()


def test_gradcheck_names_gradients_of_another_layout(lib):
    def converted(x):
        y = x.clone()
        y.register_hook(lambda grad: grad.to_dense().to_sparse(1))
        return y.to_dense()

    class SparseOfDense(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.to_sparse()

    dense = lib.ones(2, 2, dtype=lib.float64, requires_grad=True)
    for fast in (True, False):
        with pytest.raises(RuntimeError, match="grad is sparse tensor, but has incorrect sparse_dim"):
            lib.autograd.gradcheck(converted, (dense.to_sparse(),), masked=True, fast_mode=fast)
        with pytest.raises(RuntimeError, match="grad is incorrect layout"):
            lib.autograd.gradcheck(SparseOfDense.apply, (dense,), fast_mode=fast)


def test_new_of_a_sparse_tensor_takes_its_parts_and_sizes(lib):
    s = lib.sparse_coo_tensor(lib.tensor([[0, 1], [2, 0]]), lib.tensor([3., 4.]), (2, 3))
    for made, size in ((s.new(), (0,)), (s.new(lib.Size([2, 3])), (2, 3)), (s.new(4, 5), (4, 5)), (s.new(s._indices(), s._values()), (2, 3))):
        assert made.layout == lib.sparse_coo and made.shape == size
    for argument in [6], (2, 3), s._values(), s._values().untyped_storage():
        with pytest.raises(TypeError):
            s.new(argument)


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_an_addend_times_zero_is_not_read(lib, layout):
    def compressed(x):
        return getattr(x, f"to_sparse_{layout}")()
    a, b, addend = lib.tensor([[1., 0.], [0., 2.]]), lib.tensor([[0., 3.], [1., 0.]]), lib.full((2, 2), float("nan"))
    out = compressed(lib.zeros(2, 2))
    for result in (lib.addmm(compressed(addend), compressed(a), compressed(b), beta=0),
                   lib.addmm(compressed(addend), compressed(a), compressed(b), beta=0, out=out)):
        assert result.layout == getattr(lib, "sparse_" + layout) and result.to_dense().tolist() == [[0., 3.], [2., 0.]]


def test_sums_of_compressed_tensors_of_two_shapes_name_both(lib):
    a, b = lib.eye(2).to_sparse_csr(), lib.ones(2, 1).to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"Expected input tensors to have the same shape, but got tensor `self` with shape \[2, 2\] and tensor "
                                           r"`other` with shape \[2, 1\]"):
        a + b
