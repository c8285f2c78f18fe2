"""Sparse tensors on a device from outside: their parts lie there, what they are made of and turned into lies where PyTorch puts it, and values are the CPU's."""
import copy
import io

import pytest
import tede
from test_devices import toy  # noqa: F401  (a fixture)

THERE = "toy:1"
LAYOUTS = [tede.sparse_coo, tede.sparse_csr, tede.sparse_csc, tede.sparse_bsr, tede.sparse_bsc]


def sparse(layout, device="cpu"):
    dense = tede.tensor([[0., 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5], [0, 6, 0, 7]], device=device)
    return dense.to_sparse(layout=layout, blocksize=(2, 2) if layout in LAYOUTS[3:] else None)


def parts(x):
    if x.layout is tede.sparse_coo:
        return x._indices(), x._values()
    return (x.crow_indices(), x.col_indices(), x.values()) if x.layout in (tede.sparse_csr, tede.sparse_bsr) else (x.ccol_indices(), x.row_indices(), x.values())


def assert_there(x, here, device=THERE):
    """x, a tensor of any layout, lies there and is the one of the CPU."""
    assert x.device == tede.device(device) and x.layout is here.layout and x.dtype is here.dtype and x.shape == here.shape
    pairs = zip(parts(x), parts(here)) if x.is_sparse or here.layout in LAYOUTS else [(x, here)]
    for mine, its in pairs:
        assert mine.device == tede.device(device)
        tede.testing.assert_close(mine.cpu(), its)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_sparse_tensor_is_moved_with_its_parts(toy, layout):      # noqa: F811
    here = sparse(layout)
    there = here.to(THERE)
    assert_there(there, here)
    assert_there(sparse(layout, THERE), here)
    assert_there(there.to("toy:0"), here, "toy:0")
    assert_there(there.to(tede.float64), here.to(tede.float64))
    assert_there(here.to(THERE, tede.float16), here.to(tede.float16))
    assert_there(there.clone(), here)
    assert_there(copy.deepcopy(there), here)
    assert there.to(THERE) is there and there.cpu().device == tede.device("cpu")
    tede.testing.assert_close(there.cpu(), here)
    file = io.BytesIO()
    tede.save(there, file)
    for place in THERE, "cpu":
        file.seek(0)
        assert_there(tede.load(file, map_location=place), here, place)
    assert f"device='{THERE}'" in repr(there)
    before = tede._C._cpu_fallback_count()
    assert len(parts(there)) > 1 and (there._nnz(), there.sparse_dim(), there.dense_dim()) == (here._nnz(), here.sparse_dim(), here.dense_dim())
    assert tede._C._cpu_fallback_count() == before      # what it is made of is there


def test_tensors_are_made_there(toy):      # noqa: F811
    i, v = tede.tensor([[1, 0, 1], [2, 0, 2]]), tede.tensor([3., 4, 5])
    here = tede.sparse_coo_tensor(i, v, (2, 3))
    for there in (tede.sparse_coo_tensor(i.to(THERE), v.to(THERE), (2, 3)), tede.sparse_coo_tensor(i, v, (2, 3), device=THERE),
                  tede.sparse_coo_tensor(i, v.to(THERE), (2, 3), check_invariants=True), tede.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], v.to(THERE))):
        assert_there(there, here)
        assert not there.is_coalesced() and there.coalesce().is_coalesced()
        assert_there(there.coalesce(), here.coalesce())
    crow, col = tede.tensor([0, 1, 2]), tede.tensor([2, 0])
    here = tede.sparse_csr_tensor(crow, col, v[:2], (2, 3))
    assert_there(tede.sparse_csr_tensor(crow, col, v[:2], (2, 3), device=THERE, check_invariants=True), here)
    assert_there(tede.sparse_csr_tensor(crow.to(THERE), col.to(THERE), v[:2].to(THERE), (2, 3)), here)
    for layout in tede.sparse_coo, tede.sparse_csr:
        assert_there(tede.zeros(2, 3, layout=layout, device=THERE), tede.zeros(2, 3, layout=layout))
    with pytest.raises(RuntimeError, match="must match device of values"):
        tede.sparse_coo_tensor(i.to("toy:0"), v.to(THERE), (2, 3))
    with pytest.raises(RuntimeError, match="found index 2"):
        tede.sparse_coo_tensor(i, v, (2, 2), device=THERE, check_invariants=True)
    with pytest.raises(RuntimeError, match="crow_indices"):
        tede.sparse_csr_tensor(tede.tensor([1, 1, 2]), col, v[:2], (2, 3), device=THERE, check_invariants=True)


def test_views_are_of_the_parts_as_they_lie(toy):      # noqa: F811
    values = tede.tensor([3., 4.], device=THERE)
    x = tede.sparse_coo_tensor(tede.tensor([[0, 1], [1, 0]]), values, (2, 2), is_coalesced=True)
    assert x.values().data_ptr() == x.values().data_ptr() and x.indices().device == x.device
    x.values().mul_(2)
    assert x.to_dense().tolist() == [[0, 6], [8, 0]]
    assert_there(x.t(), x.cpu().t())


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
@pytest.mark.parametrize("call", [
    lambda x, m: x @ m, lambda x, m: x @ m[:, 0], lambda x, m: tede.sparse.mm(x, m), lambda x, m: tede.addmm(m, x, m, beta=2),
    lambda x, m: x.to_dense(), lambda x, m: x * 2, lambda x, m: x + x, lambda x, m: x.to_sparse_csr(), lambda x, m: tede.sparse.mm(x, x),
    lambda x, m: x.sum(), lambda x, m: x.relu(),
    lambda x, m: tede.zeros_like(x), lambda x, m: x.to_dense().to_sparse(), lambda x, m: x.abs_(), lambda x, m: x.mul_(3),
    lambda x, m: x.zero_(), lambda x, m: m.sparse_mask(x),
])
def test_operators_give_the_cpus_values_there(toy, layout, call):      # noqa: F811
    m = tede.arange(16.).reshape(4, 4)
    x, y = sparse(layout), sparse(layout, THERE)
    assert_there(call(y, m.to(THERE)), call(x, m))
    assert_there(y, x)


def test_gradients_and_an_optimizer(toy):      # noqa: F811
    results = []
    for device in "cpu", THERE:
        i = tede.tensor([[0, 1, 1], [2, 0, 2]], device=device)
        v, w = tede.ones(3, device=device, requires_grad=True), tede.arange(6., device=device).reshape(3, 2).requires_grad_()
        tede.sparse.mm(tede.sparse_coo_tensor(i, v, (2, 3)), w).pow(2).sum().backward()
        tede.manual_seed(0)
        embedding = tede.nn.Embedding(5, 3, sparse=True).to(device)
        optimizer = tede.optim.SparseAdam(embedding.parameters())
        for index in ([1, 3, 1], [0, 3, 4]):
            optimizer.zero_grad()
            embedding(tede.tensor(index, device=device)).pow(2).sum().backward()
            assert embedding.weight.grad.is_sparse and embedding.weight.grad.device == tede.device(device)
            optimizer.step()
        x = tede.arange(6., device=device).reshape(2, 3).requires_grad_()
        tede.gather(x, 1, tede.tensor([[2, 0], [1, 1]], device=device), sparse_grad=True).sum().backward()
        assert x.grad.is_sparse
        results.append((v.grad, w.grad, embedding.weight.detach(), x.grad))
    for here, there in zip(*results):
        assert_there(there, here)


def test_operands_on_two_devices_are_refused(toy):      # noqa: F811
    with pytest.raises(RuntimeError, match="same device"):
        sparse(tede.sparse_coo, THERE) @ tede.ones(4, 2)
    with pytest.raises(RuntimeError, match="same device"):
        sparse(tede.sparse_coo, THERE) + sparse(tede.sparse_coo, "toy:0")
