"""Sparse tensors on meta and as fake tensors: shapes, dtypes and parts without values."""
import importlib

import pytest

LAYOUTS = ['sparse_coo', 'sparse_csr', 'sparse_csc', 'sparse_bsr', 'sparse_bsc']


def sparse(lib, layout):
    x = lib.eye(4, dtype=lib.float64)
    return x.to_sparse(layout=getattr(lib, layout), blocksize=(2, 2) if layout.endswith(('bsr', 'bsc')) else None)


def parts(x):
    name = str(x.layout).rpartition('_')[2]
    return (x._indices(), x._values()) if name == 'coo' else (x.crow_indices(), x.col_indices(), x.values()) if name.endswith('sr') \
        else (x.ccol_indices(), x.row_indices(), x.values())


@pytest.mark.parametrize('layout', LAYOUTS)
def test_what_goes_to_meta_has_parts_without_elements(lib, layout):
    x = sparse(lib, layout)
    made = [x.to('meta'), lib.zeros_like(x, device='meta'), lib.empty_like(x.to('meta')), x.to('meta').detach()]
    for m in [*made, made[0] + made[0]] if layout in ('sparse_coo', 'sparse_csr') else made:
        assert m.is_meta and m.layout is x.layout and m.shape == x.shape and m.dtype is x.dtype and m._nnz() == 0
        assert m.sparse_dim() == 2 and m.dense_dim() == 0
        for of_meta, of_x in zip(parts(m), parts(x)):
            assert of_meta.is_meta and of_meta.dtype is of_x.dtype and of_meta.ndim == of_x.ndim
    total = x.to('meta').sum()
    assert total.is_meta and total.shape == () and total.dtype is lib.float64


def test_parts_on_meta_keep_their_number_of_elements(lib):
    at, values = lib.ones(2, 3, dtype=lib.int64, device='meta'), lib.ones(3, device='meta')
    x = lib.sparse_coo_tensor(at, values, (4, 5))
    assert x._nnz() == 3 and x._values().shape == (3,) and x.shape == (4, 5)
    assert 'nnz' not in str(x) and "device='meta', size=(4, 5)" in str(x)
    rows = lib.sparse_csr_tensor(lib.ones(5, dtype=lib.int64, device='meta'), at[0], values, (4, 5))
    assert rows._nnz() == 3 and rows.col_indices().shape == (3,) and "device='meta'" in str(rows)
    with pytest.raises(RuntimeError, match='must match'):
        lib.sparse_coo_tensor(at, lib.ones(3), (4, 5))
    with pytest.raises(NotImplementedError):
        lib.equal(x, x)


def test_a_sparse_meta_tensor_is_resized(lib):
    x = lib.empty(4, 4, layout=lib.sparse_coo, device='meta')
    x.sparse_resize_and_clear_((4, 4, 4), 2, 1)
    assert (x.shape, x._dimI(), x._dimV(), x._nnz(), x.is_coalesced()) == ((4, 4, 4), 2, 1, 0, True)
    x._coalesced_(False)
    assert not x.is_coalesced() and x._values().shape == (0, 4)


@pytest.mark.parametrize('layout', LAYOUTS)
def test_fake_tensors_keep_the_layout(lib, layout):
    fake = pytest.importorskip(f'{lib.__name__}._subclasses.fake_tensor')
    x, mode = sparse(lib, layout), fake.FakeTensorMode()
    f = fake.FakeTensor.from_tensor(x, mode)
    for y in f, f.detach():
        assert isinstance(y, fake.FakeTensor) and y.layout is x.layout and y.shape == x.shape and y.device == x.device


@pytest.mark.parametrize('mode', ['fake', 'symbolic'])
@pytest.mark.parametrize('layout', LAYOUTS)
def test_sparse_tensors_are_traced_over_fakes(lib, layout, mode):
    make_fx, x = importlib.import_module(f'{lib.__name__}.fx.experimental.proxy_tensor').make_fx, sparse(lib, layout)
    traced = make_fx(lambda x: x.to_dense() + 1, tracing_mode=mode)(x)
    assert lib.equal(traced(x), x.to_dense() + 1) and 'aten._to_dense.default(x_1)' in traced.code
