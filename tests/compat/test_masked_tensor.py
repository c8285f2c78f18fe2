"""MaskedTensor: what counts and what doesn't goes along with the data."""
from importlib import import_module

import pytest

M = [[True, False, True], [False, False, True]]


@pytest.fixture
def masked(lib):
    def make(data=((0.0, 1.0, 2.0), (3.0, 4.0, 5.0)), mask=M, **options):
        return lib.masked.masked_tensor(lib.tensor(data), lib.tensor(mask), **options)
    return make


def shown(x):
    """The elements, None where they don't count."""
    if x.dim() == 0:
        return x.get_data().item() if x.get_mask().item() else None
    return [shown(x[i]) for i in range(len(x))]


def test_looks(lib, masked):
    assert str(masked()) == ("MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [      --,       --,   5.0000]\n  ]\n)")
    assert repr(masked(0.5, True)) == "MaskedTensor(  0.5000, True)" and repr(masked(0.5, False)) == "MaskedTensor(--, False)"
    assert repr(masked([1, 2], [True, False])) == "MaskedTensor(\n  [1,       --]\n)"


def test_parts(lib, masked):
    x = masked()
    assert lib.masked.is_masked_tensor(x) and isinstance(x, lib.Tensor) and not lib.masked.is_masked_tensor(x.get_data())
    assert x.get_mask().tolist() == M and x.to_tensor(-1).tolist() == [[0, -1, 2], [-1, -1, 5]]
    assert x.shape == (2, 3) and x.dtype == lib.float32 and x.is_contiguous() and x.double().dtype == lib.float64


@pytest.mark.parametrize("wrong, error, says", [
    (lambda lib, d, m: (d, m.int()), TypeError, "mask must have dtype bool"),
    (lambda lib, d, m: (d, m[0]), ValueError, "data.dim\\(\\) must equal mask.dim"),
    (lambda lib, d, m: (d, lib.ones(2, 4).bool()), ValueError, "data.size\\(\\) must equal mask.size"),
    (lambda lib, d, m: (3, m), TypeError, "data must be a Tensor"),
    (lambda lib, d, m: (d.to(lib.complex64), m), TypeError, "not supported in MaskedTensor"),
    (lambda lib, d, m: (lib.masked.masked_tensor(d, m), m), TypeError, "data must be a Tensor"),
])
def test_what_is_no_data_and_no_mask(lib, wrong, error, says):
    with pytest.raises(error, match=says):
        lib.masked.masked_tensor(*wrong(lib, lib.ones(2, 3), lib.tensor(M)))


@pytest.mark.parametrize("f", [lambda x: x.exp(), lambda x: -x, lambda x: x * 2, lambda x: 2 * x, lambda x: x ** 2, lambda x: x > 1,
                               lambda x: x.clamp(1, 3), lambda x: x / x, lambda x: x.sqrt() + x], ids=range(9))
def test_elementwise(lib, masked, f):
    x = masked()
    full = f(x.get_data())
    assert f(x).get_mask().tolist() == M
    lib.testing.assert_close(f(x).to_tensor(0), full.masked_fill(~x.get_mask(), 0), equal_nan=True)


def test_in_place_and_plain_operands(lib, masked):
    x = masked()
    assert shown(x.add_(1)) == [[1, None, 3], [None, None, 6]] and shown(x + lib.ones(3)) == [[2, None, 4], [None, None, 7]]
    assert shown(lib.ones(2, 3) + x) == [[2, None, 4], [None, None, 7]]


def test_masks_must_match(lib, masked):
    with pytest.raises(ValueError, match="Input masks must match"):
        masked() + masked(mask=[[True, True, True], [False, False, True]])
    with pytest.raises(ValueError, match="unary ops require that len\\(kwargs\\) == 0"):
        lib.round(masked(), decimals=1)


@pytest.mark.parametrize("name, whole, rows, columns", [
    ("sum", 7, [2, 5], [0, None, 7]), ("mean", 7 / 3, [1, 5], [0, None, 3.5]), ("amax", 5, [2, 5], [0, None, 5]),
    ("amin", 0, [0, 5], [0, None, 2]), ("prod", 0, [0, 5], [0, None, 10]), ("argmax", 5, [2, 2], [0, None, 1]),
    ("argmin", 0, [0, 2], [0, None, 0])])
def test_reductions(lib, masked, name, whole, rows, columns):
    x = masked()
    assert shown(getattr(lib, name)(x)) == pytest.approx(whole)
    assert shown(getattr(lib, name)(x, dim=1)) == rows and shown(getattr(x, name)(dim=0, keepdim=True)) == [columns]


def test_reductions_of_booleans_and_spreads(lib, masked):
    x = masked([[False, True, True], [True, False, True]])
    assert shown(x.all()) is False and shown(x.all(dim=1)) == [False, True]
    assert shown(masked().var()) == pytest.approx(19 / 3) and shown(masked().std()) == pytest.approx((19 / 3) ** 0.5)


def test_masks_move_along(lib, masked):
    x = masked()
    assert shown(x.t()) == [[0, None], [None, None], [2, 5]] and shown(x[1]) == [None, None, 5]
    assert shown(x.view(3, 2)) == [[0, None], [2, None], [None, 5]] and shown(x.reshape(6)) == [0, None, 2, None, None, 5]
    assert shown(lib.cat([x[:1], x[:1]])) == shown(lib.stack([x[0], x[0]])) == [[0, None, 2]] * 2
    assert [shown(part) for part in x.chunk(3, 1)] == [[[0], [None]], [[None], [None]], [[2], [5]]]
    assert shown(x.expand(2, 2, 3)) == [shown(x)] * 2


def test_where_and_softmax(lib, masked):
    x, mask = masked(), lib.tensor(M)
    assert shown(lib.where(mask, x, lib.ones(2, 3))) == [[0, 1, 2], [1, 1, 5]]
    soft = x.softmax(1)
    lib.testing.assert_close(soft.to_tensor(0), lib.tensor([[0.1192, 0, 0.8808], [0, 0, 1]]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("f, expected", [
    (lambda x: x.sum(), [[1, None, 1], [None, None, 1]]), (lambda x: x.mean(), [[1 / 3, None, 1 / 3], [None, None, 1 / 3]]),
    (lambda x: x.mean(1).sum(), [[0.5, None, 0.5], [None, None, 1]]), (lambda x: x.amax(), [[0, None, 0], [None, None, 1]]),
    (lambda x: x.prod(), [[10, None, 0], [None, None, 0]]), (lambda x: (x * x).sum(), [[0, None, 4], [None, None, 10]]),
    (lambda x: x[0].sum(), [[1, None, 1], [None] * 3]), (lambda x: (x.view(6) * 3).sum(), [[3, None, 3], [None, None, 3]]),
], ids=range(8))
def test_gradients_are_masked(lib, masked, f, expected):
    x = masked(requires_grad=True)
    f(x).backward()
    assert [[None if v is None else pytest.approx(v) for v in row] for row in expected] == shown(x.grad)


def test_gradients_reach_what_was_masked(lib):
    data = lib.arange(6.0).reshape(2, 3).requires_grad_()
    (lib.masked.as_masked_tensor(data, lib.tensor(M)) * 2).sum().backward()
    assert shown(data.grad) == [[2, None, 2], [None, None, 2]]
    x = lib.masked.masked_tensor(data.detach(), lib.tensor(M), requires_grad=True)
    x.get_data().sum().backward()
    assert shown(x.grad) == [[1, None, 1], [None, None, 1]]


def test_data_with_a_history_and_numbers_without_slopes(lib):
    mask = lib.tensor([True])
    with pytest.warns(UserWarning, match="It is not recommended to create a MaskedTensor"):
        lib.masked.masked_tensor(lib.ones(1, requires_grad=True), mask)
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        lib.masked.masked_tensor(lib.tensor([1]), mask, requires_grad=True)


def test_what_has_no_meaning_is_refused(lib, masked):
    for f in (lambda x: x.max(), lib.relu, lambda x: lib.matmul(x, lib.ones(3, 1)), lib.median):
        with pytest.raises(TypeError, match="__torch_dispatch__ handlers returned NotImplemented"):
            f(masked())


def test_anomalies_are_looked_for(lib, masked):
    x = masked(requires_grad=True)
    with lib.autograd.detect_anomaly():
        x.sum().backward()
    assert shown(x.grad) == [[1, None, 1], [None, None, 1]]


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
def test_sparse_tensors_without_dimensions_are_reduced(lib, name):
    x = lib.tensor(3.).to_sparse()
    reduction = getattr(lib.masked, name)
    for dim in (0, -1, None, ()):
        for keepdim in (False, True):
            y = reduction(x, dim, keepdim=keepdim, mask=lib.tensor(True).to_sparse())
            assert y.layout is lib.sparse_coo and y.shape == () and y.to_dense().item() == 3


def test_neutral_elements_are_found_by_a_functions_whole_name(lib):
    identity, x = import_module(lib.__name__ + ".masked._ops")._reduction_identity, lib.ones(2, dtype=lib.float16)
    assert identity("masked.var", x) is None and identity("masked.amin", x).item() == float("inf")
    assert identity("masked.sum", x).dtype == lib.float16


# ---- sparse data and masks

def _sparse_pair(lib, layout):
    data, mask = lib.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), lib.tensor(M)
    mask = mask.to_sparse().coalesce() if layout == "sparse_coo" else mask.to_sparse_csr()
    return data.sparse_mask(mask), mask


@pytest.fixture(params=["sparse_coo", "sparse_csr"])
def sparse(lib, request):
    def make(**options):
        return lib.masked.masked_tensor(*_sparse_pair(lib, request.param), **options)
    make.layout = getattr(lib, request.param)
    return make


def test_sparse_data_have_a_layout_and_no_strides(lib, sparse):
    x = sparse()
    assert x.layout is sparse.layout and x.is_sparse_coo() is (sparse.layout is lib.sparse_coo)
    assert x.is_sparse_csr() is (sparse.layout is lib.sparse_csr)
    assert x.get_data().layout is x.get_mask().layout is sparse.layout and x.dtype == lib.float32 and x.shape == (2, 3)
    for f in (x.is_contiguous, x.contiguous) if sparse.layout is lib.sparse_coo else ():
        with pytest.raises(ValueError, match="MaskedTensors with sparse data do not have is_contiguous"):
            f()


@pytest.mark.parametrize("f", [lambda x: x.exp(), lambda x: -x, lambda x: x ** 2, lambda x: x + x, lambda x: x * x, lambda x: x.cos() - x,
                               lambda x: x.eq(x)], ids=range(7))
def test_elementwise_on_sparse_data_is_on_the_values(lib, sparse, masked, f):
    found = f(sparse())
    assert found.layout is sparse.layout and shown(found.to_dense()) == shown(f(masked()))


def test_writes_of_sparse_data(lib, sparse):
    if lib.__name__ == "torch" and sparse.layout is lib.sparse_coo:
        pytest.skip("PyTorch loses that the result is coalesced")
    x = sparse()
    assert x.exp_() is x and x.get_data().values().tolist() == pytest.approx([1.0, 7.389056, 148.413159])


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
def test_sparse_data_are_reduced_as_a_whole(lib, sparse, masked, name):
    x, y = sparse(requires_grad=True), masked(requires_grad=True)
    found, wanted = getattr(x, name)(), getattr(y, name)()
    assert shown(found) == shown(wanted)
    if lib.__name__ == "torch":
        return                                  # which computes it without a history
    found.backward()
    wanted.backward()
    assert x.grad.layout is sparse.layout and x.grad.to_dense().to_tensor(0).tolist() == y.grad.to_tensor(0).tolist()
    with pytest.raises((NotImplementedError, TypeError), match="sparse"):
        x.sum(dim=0)


def test_conversions_keep_the_gradient(lib, sparse, masked):
    x = sparse(requires_grad=True)
    dense = x.to_dense()
    assert dense.layout is lib.strided and shown(dense) == [[0, None, 2], [None, None, 5]]
    (dense * 2).sum().backward()
    assert x.grad.layout is sparse.layout and x.grad.get_data().values().tolist() == [2, 2, 2]
    y = masked(requires_grad=True)
    z = y.to_sparse() if sparse.layout is lib.sparse_coo else y.to_sparse_csr()
    assert z.layout is sparse.layout and z.get_data().values().tolist() == [0, 2, 5]
    z.to_dense().sum().backward()
    assert y.grad.layout is lib.strided and y.grad.get_data().tolist() == [[1, 0, 1], [0, 0, 1]] and y.grad.get_mask().tolist() == M


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_data_at_other_elements_than_the_mask(lib, layout):
    data, mask = _sparse_pair(lib, layout)
    other = lib.tensor([[True, True, True], [False, False, False]])
    other = other.to_sparse().coalesce() if layout == "sparse_coo" else other.to_sparse_csr()
    with pytest.raises(ValueError, match="do not have the same indices|do not share either crow or col indices"):
        lib.masked.masked_tensor(data, other)
    with pytest.raises(ValueError, match="indices must match|masks must match"):
        lib.masked.masked_tensor(data, mask) + lib.masked.masked_tensor(lib.ones(2, 3).sparse_mask(other), other)
    with pytest.raises(TypeError, match="data layout of .*sparse_csc is not supported"):
        lib.masked.masked_tensor(lib.ones(2, 2).to_sparse_csc(), lib.ones(2, 2).bool().to_sparse_csc())
    with pytest.raises(TypeError, match="data and mask must have the same layout"):
        lib.masked.masked_tensor(data, lib.tensor(M))


def test_contiguous_is_of_data_and_mask(lib):
    data = lib.arange(6.).reshape(2, 3).t()
    x = lib.masked.masked_tensor(data, data > 1)
    y = x.contiguous()
    assert not x.is_contiguous() and y.is_contiguous() and y.stride() == (2, 1)
    assert y.get_data().is_contiguous() and y.get_mask().is_contiguous() and shown(y) == shown(x)
