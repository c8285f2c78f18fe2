"""Tensors over memory in which elements don't begin where their type wants them.  (PyTorch reads them so, and crashes in some kernels.)"""
import pytest
import tede

DTYPES = ['int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128']


@pytest.fixture
def lib():
    return tede


def unaligned(lib, n, dtype, start=0):
    """Numbers from `start` on, one byte behind where they should lie."""
    item = lib.empty(0, dtype=dtype).element_size()
    x = lib.frombuffer(bytearray(n * item + 1), dtype=dtype, count=n, offset=1)
    assert x.data_ptr() % 2
    return x.copy_(lib.arange(start, start + n))


PROGRAMS = {
    'arithmetic': lambda lib, x: x * 2 + x.flip(0) - 1,
    'reductions': lambda lib, x: lib.stack([x.sum(), x.prod(), x.reshape(3, 4).sum(0)[1], x[1:].mean(dtype=lib.complex128).to(x.dtype)]),
    'order': lambda lib, x: x if x.is_complex() else lib.cat([x.sort(descending=True).values, x.cumsum(0), x.topk(3).values, x.max()[None]]),
    'products': lambda lib, x: x.reshape(3, 4) @ x.reshape(4, 3),
    'indexing': lambda lib, x: lib.cat([x[[1, 5]], x[x != 3], x.index_select(0, lib.tensor([2])), x.reshape(3, 4).t()[1, ::2], x.take(lib.tensor([7]))]),
    'layouts': lambda lib, x: lib.cat([x.reshape(3, 4).t().contiguous().reshape(-1), x.as_strided((2, 3), (1, 2), 3).reshape(-1), x.unfold(0, 3, 2).reshape(-1)]),
    'dtypes': lambda lib, x: x.to(lib.complex128) + x.real.double(),
    'conjugates': lambda lib, x: (x.conj() * x).resolve_conj(),
    'copies': lambda lib, x: lib.zeros(12, dtype=x.dtype).copy_(x.clone()),
}


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('name', PROGRAMS)
def test_values_do_not_depend_on_alignment(lib, name, dtype):
    dtype = getattr(lib, dtype)
    x, want = unaligned(lib, 12, dtype), lib.arange(12).to(dtype)
    found = PROGRAMS[name](lib, x)
    assert lib.equal(found, PROGRAMS[name](lib, want)) and x.tolist() == want.tolist()


@pytest.mark.parametrize('dtype', DTYPES)
def test_what_is_written_arrives(lib, dtype):
    dtype = getattr(lib, dtype)
    x, want = unaligned(lib, 12, dtype), lib.arange(12).to(dtype)
    for y in x, want:
        y[2] = 7
        y[3:5].mul_(2)
        y.reshape(3, 4).t()[1:3] += 1
        y[[0, 1]] = y[[5, 6]]
        y[::5].fill_(3)
        lib.add(y[:2], y[2:4], out=y[6:8])
        y.as_strided((2,), (3,), 1).copy_(lib.ones(2))
        y.index_add_(0, lib.tensor([11, 11]), lib.ones(2, dtype=dtype))
    assert x.tolist() == want.tolist() and str(x) == str(want) and x[2].item() == want[2].item()
    assert x.data_ptr() % 2


def test_gradients_come_from_unaligned_leaves(lib):
    x, want = unaligned(lib, 6, lib.float32, 1).requires_grad_(), lib.arange(1., 7, requires_grad=True)
    for y in x, want:
        (y.reshape(2, 3).t() @ y.reshape(2, 3)).log().sum().backward()
        (y.sigmoid() * y[:1]).sum().backward()
    assert lib.allclose(x.grad, want.grad)
    with lib.no_grad():
        x.sub_(x.grad)
    assert lib.allclose(x, want - want.grad)


def test_other_sources_of_unaligned_memory(lib):
    np = pytest.importorskip('numpy')
    array = np.frombuffer(bytearray(41), dtype=np.float64, count=5, offset=1)
    array[:] = np.arange(5)
    x = lib.from_numpy(array)
    assert (x + x).tolist() == [0, 2, 4, 6, 8] and x.numpy().ctypes.data == array.ctypes.data
    x[1:3] *= 10
    assert array.tolist() == [0, 10, 20, 3, 4]
    fields = np.zeros(4, dtype=[('a', 'u1'), ('b', 'f4')])
    if (fields['b'].strides[0] % 4) == 0:
        assert lib.from_numpy(fields['b']).sum() == 0
    wide = unaligned(lib, 8, lib.int16).view(lib.int32)
    assert (wide + 0).tolist() == lib.arange(8).to(lib.int16).view(lib.int32).tolist()
    y = lib.from_dlpack(unaligned(lib, 4, lib.float32))
    assert y.exp().sum() == lib.arange(4.).exp().sum()
    empty = lib.frombuffer(bytearray(9), dtype=lib.float32, count=2, offset=1)[:0]
    assert empty.sum() == 0 and empty.sort().values.shape == (0,)


def test_indices_of_a_split_may_be_unaligned(lib):
    parts = lib.tensor_split(lib.arange(6), unaligned(lib, 2, lib.int64, 2))
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3, 4, 5]]
