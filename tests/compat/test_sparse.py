"""Sparse tensors: making, converting, arithmetic, products, gradients.  Values and wording are PyTorch's."""
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
