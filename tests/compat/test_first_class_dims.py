"""Dimensions that are objects: functorch.dim, which is tede.func.dim."""
import gc
import importlib
import weakref

import pytest


@pytest.fixture
def fd(lib):
    return importlib.import_module("functorch.dim" if lib.__name__ == "torch" else "tede.func.dim")


def test_dims_have_the_names_that_they_are_assigned_to(fd):
    i, other = fd.dims()
    only = fd.dims()
    (one, two), three = fd.dims(sizes=[3, 4]), fd.dims(3)
    several = fd.dimlists()
    bound = fd.dimlists(sizes=[[4, 5]])
    assert (str(i), str(other), str(only)) == ("i", "other", "only") and one.size == 3 and two.size == 4 and len(three) == 3
    assert isinstance(several, fd.DimList) and not several.is_bound and [d.size for d in bound] == [4, 5]

    class Holder:
        pass
    holder = Holder()
    first, holder.second, third = fd.dims(3)
    assert [str(d) for d in (first, holder.second, third)] == ["first", "d1", "d2"]


def test_a_dim_keeps_its_size(lib, fd):
    i, j = fd.dims()
    with pytest.raises(ValueError, match="dimension i is unbound"):
        i.size
    x = lib.ones(3, 4)[i, j]
    assert (i.size, j.size, x.shape, x.ndim) == (3, 4, (), 0)
    with pytest.raises(fd.DimensionBindError, match="bound"):
        i.size = 5
    if lib.__name__ == "tede":          # PyTorch takes it, and then has a tensor whose size isn't its dimension's
        with pytest.raises(fd.DimensionBindError, match="bound"):
            lib.ones(5)[i]


def test_products_sum_and_order(lib, fd):
    a, b = lib.randn(3, 4, dtype=lib.float64, requires_grad=True), lib.randn(4, 5, dtype=lib.float64, requires_grad=True)
    i, j, k = fd.dims()
    product = (a[i, k] * b[k, j]).sum(k)
    lib.testing.assert_close(product.order(i, j), a @ b)
    lib.testing.assert_close(product.order(j, i), (a @ b).T)
    weight = lib.randn(3, 5, dtype=lib.float64)
    found = lib.autograd.grad((product.order(i, j) * weight).sum(), (a, b))
    for x, y in zip(found, lib.autograd.grad(((a @ b) * weight).sum(), (a, b))):
        lib.testing.assert_close(x, y)


def test_elementwise_operators_match_dimensions_by_identity(lib, fd):
    x, y = lib.arange(3.0), lib.arange(4.0)
    i, j = fd.dims()
    lib.testing.assert_close((x[i] + y[j] * 2).order(i, j), x[:, None] + y * 2)
    lib.testing.assert_close((x[i] - 1 + y).order(i), (x[:, None] - 1) + y)
    lib.testing.assert_close(lib.where(i <= j, x[i], lib.tensor(0.0)).order(i, j), lib.triu(x[:, None].expand(3, 4)))
    lib.testing.assert_close((x[i] * y[j]).order((j, i)), (y[:, None] * x).flatten())


def test_reductions_over_dims_and_numbers(lib, fd):
    a = lib.randn(2, 3, 4)
    i, j = fd.dims()
    x = a[i, j]
    lib.testing.assert_close(x.sum((i, 0)).order(j), a.sum((0, 2)))
    lib.testing.assert_close(a[i].std(i, True), a.std(0, True))
    lib.testing.assert_close(x.max(j)[0].order(i), a.max(1)[0])
    lib.testing.assert_close(x.max(j)[1].order(i), a.max(1)[1])
    lib.testing.assert_close(x.sort(j)[0].order(i, j), a.sort(1)[0])
    lib.testing.assert_close(fd.softmax(x, i).order(i, j), lib.softmax(a, 0))
    lib.testing.assert_close(x.cumsum(j).order(i, j), a.cumsum(1))
    lib.testing.assert_close(x.mean(-1).order(i, j), a.mean(-1))
    assert a.sum() == x.sum((i, j, 0))
    with pytest.raises(ValueError, match="keepdim=True"):
        x.sum(i, keepdim=True)


def test_any_operator_runs_over_all_members(lib, fd):
    a, b, c = lib.randn(3, 4, 5), lib.randn(2, 4, 5), lib.randn(5, 2)
    i, j = fd.dims()
    aa, bb = lib.mm(a[i], c), lib.mm(b[j], c)
    lib.testing.assert_close(lib.mm(aa.T, bb).order(i, j), lib.einsum("iab,jac->ijbc", a @ c, b @ c))
    lib.testing.assert_close(lib.linalg.det(a[i, :, :4]).order(i), lib.linalg.det(a[:, :, :4]))
    assert {id(d) for d in lib.rand_like(a[i]).dims} == {id(i)} and lib.nn.functional.dropout(a[i]).shape == (4, 5)
    assert a[i].unbind(0)[0].order(i).shape == (3, 5)


def test_one_dimension_of_several_dims(lib, fd):
    x = lib.arange(24.0).reshape(2, 12)
    i, j, k, g = fd.dims()
    k.size = 4
    split = x[i, [j, k]]
    assert j.size == 3
    lib.testing.assert_close(split.order(i, j, k), x.view(2, 3, 4))
    lib.testing.assert_close(split.order(i, [j, k]), x)
    lib.testing.assert_close(x[:, (j, k)].order(k, j), x.view(2, 3, 4).permute(2, 1, 0))
    lib.testing.assert_close(split.index((j, k), g).order(i, g), x)
    lib.testing.assert_close(x.index(1, fd.Dim("column")).shape, (2,))
    with pytest.raises(fd.DimensionBindError):
        x[i, [fd.Dim("p"), fd.Dim("q")]]


def test_indexing_by_what_has_dims(lib, fd):
    table, ids = lib.randn(8, 5), lib.tensor([1, 0, 3, 4])
    batch, feature = fd.dims()
    lib.testing.assert_close(table[ids[batch], feature].order(batch, feature), table[ids])
    a = lib.randn(4, 4)
    i = fd.dims()
    lib.testing.assert_close(a[i, i].order(i), a.diagonal())
    b = lib.randn(1, 2, 3, 4)
    p, q = fd.dims(sizes=[2, 4])
    lib.testing.assert_close(b[:, p + 0, :, q + 0].order(p, q), b.permute(1, 3, 0, 2))
    lib.testing.assert_close(a[..., i].order(i), a.T)
    rest = fd.dimlists()
    lib.testing.assert_close(b[:, p, rest].order(p, *rest), b.permute(1, 2, 3, 0))
    c = lib.arange(2)
    r, s, z = fd.dims()
    lib.testing.assert_close(a[r, s].index(s, c[z]).order(r, z), a[:, :2])


def test_writes_by_what_has_dims(lib, fd):
    table, ids, values = lib.zeros(10, 3), lib.tensor([1, 2]), lib.rand(2, 3)
    i, f = fd.dims()
    table[ids[i], f] += values[i, f]
    expected = lib.zeros(10, 3)
    expected[ids] += values
    lib.testing.assert_close(table, expected)
    square, k = lib.zeros(3, 3), fd.Dim("k")
    square[k, k] = lib.arange(3.0)[k] + 1
    lib.testing.assert_close(square, lib.diag(lib.tensor([1.0, 2.0, 3.0])))


def test_expand_split_stack_and_cat(lib, fd):
    a = lib.randn(3, 7)
    i, j, n, m = fd.dims()
    n.size = 2
    lib.testing.assert_close(a[i].expand(n).order(n, i), a.expand(2, 3, 7))
    assert list(a[i].expand(2, 7).order(i).shape) == [3, 2, 7]
    with pytest.raises(fd.DimensionBindError, match="already exists"):
        a[i].expand(i)
    x, y, z = fd.dims()
    x.size, y.size = 3, 3
    for part, piece, dim in zip(a.split((3, 3, 1), 1), a[i, j].split((x, y, z), dim=j), (x, y, z)):
        lib.testing.assert_close(piece.order(i, dim), part)
    assert z.size == 1
    both, joined = fd.stack([a[i, j], a[i, j] + 1], fd.Dim("both"), j), fd.cat([a[i, j], a[i, j]], j, m)
    assert [d.size for d in both.dims] == [3, 2, 7] and m.size == 14
    lib.testing.assert_close(joined.order(i, m), lib.cat([a, a], 1))
    lib.testing.assert_close(both.order(both.dims[1], i, j), lib.stack([a, a + 1]))


def test_order_takes_dims_that_are_there_once(lib, fd):
    a, i, j = lib.randn(3, 4, 5), fd.Dim("i"), fd.Dim("j")
    x = a[i]
    lib.testing.assert_close(x.order(1, i), a.permute(2, 0, 1))
    lib.testing.assert_close(x.order(0, (1, i)), a.permute(1, 2, 0).reshape(4, 15))
    for wrong in ((j,), (i, i)):
        with pytest.raises(ValueError, match="does not contain dim"):
            x.order(*wrong)
    with pytest.raises(TypeError):
        x.order(wrong=3)


def test_tensors_with_dims_are_freed_at_once(lib, fd):
    gc.collect()
    gc.disable()
    try:
        i, j = fd.dims()
        x = lib.randn(3, 4)
        made = [x[i, j], (x[i, j] * x[i, j]).sum(j), i + j, x[i].sum(i, keepdim=False)]
        held = [weakref.ref(d) for d in (i, j)]
        del made, i, j
        assert all(d() is None for d in held)
    finally:
        gc.enable()
