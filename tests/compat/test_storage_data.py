"""Tensors made of storages, and storages that tensors are pointed at."""
import pytest


def test_the_elements_of_a_storage_are_data(lib):
    x = lib.tensor([1., 2., 3., 4.])
    storage = x.untyped_storage()
    assert lib.tensor(storage).dtype is lib.int64 and lib.tensor(storage).numel() == 2
    y = lib.tensor(storage, dtype=lib.float32)
    assert y.tolist() == [1, 2, 3, 4]
    for shared in (lib.as_tensor(storage, dtype=lib.float32), lib.asarray(storage, dtype=lib.float32)):
        assert shared.data_ptr() == x.data_ptr() and shared.tolist() == [1, 2, 3, 4]
    assert x.new_tensor(storage).tolist() == [1, 2, 3, 4]
    assert lib.as_tensor(storage, dtype=lib.complex64).tolist() == [1 + 2j, 3 + 4j]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_new_of_a_storage_looks_at_it(lib):
    x = lib.tensor([1., 2.])
    for storage in (x.untyped_storage(), x.storage()):
        y = lib.empty(0).new(storage)
        assert y.data_ptr() == x.data_ptr() and y.tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_set_takes_storages_of_its_own_dtype_or_of_none(lib):
    x = lib.zeros(2, dtype=lib.float64)
    with pytest.raises(RuntimeError, match="Expected a Storage of type float.* or an UntypedStorage, but got type"):
        lib.empty(0).set_(x.storage())
    assert lib.empty(0).set_(x.untyped_storage()).shape == (4,)
    assert lib.empty(0, dtype=lib.float64).set_(x.storage()).shape == (2,)


def test_arrays_without_dimensions_are_sizes(lib):
    numpy = pytest.importorskip("numpy")
    three, two = numpy.array(3), numpy.int64(2)
    assert lib.ones((three, two)).shape == lib.ones(three, two).shape == lib.ones([three, 2]).shape == (3, 2)
    assert lib.ones(6).reshape(numpy.array(2), -1).shape == lib.ones(6).view(numpy.array(2), 3).shape == (2, 3)
    assert lib.ones(5).topk(numpy.array(2)).values.shape == lib.randint(0, numpy.array(9), (numpy.array(2),)).shape == (2,)
    with pytest.raises(TypeError):
        lib.ones((numpy.array(2.), 3))


def test_ldexp_reaches_beyond_float32_and_keeps_the_dtype(lib):
    assert lib.ldexp(lib.tensor([2. ** -100], dtype=lib.float64), lib.tensor([200])).item() == 2. ** 100
    half = lib.ldexp(lib.tensor([2. ** -14], dtype=lib.float16), lib.tensor([20]))
    assert half.dtype is lib.float16 and half.item() == 64
    assert lib.ldexp(lib.tensor([3]), lib.tensor([2])).dtype is lib.float32
    x = lib.tensor([3.], requires_grad=True)
    lib.ldexp(x, lib.tensor([2])).backward()
    assert x.grad.item() == 4


def test_polygamma_of_negative_order_is_refused(lib):
    with pytest.raises(RuntimeError, match=r"polygamma\(n, x\) does not support negative n"):
        lib.polygamma(-1, lib.ones(2))


def test_batch_norm_update_stats(lib):
    x, mean, var = lib.arange(24.).reshape(2, 4, 3), lib.zeros(4), lib.ones(4)
    now = lib.batch_norm_update_stats(x, mean, var, .1)
    assert now[0].tolist() == [7, 10, 13, 16]
    assert lib.allclose(now[1], lib.full((4,), 36.666668)) and lib.allclose(var, lib.full((4,), 5.3))
    assert lib.allclose(mean, now[0] * .1)
    assert lib.equal(lib.batch_norm_update_stats(x, None, None, .1)[0], now[0])


@pytest.mark.parametrize("reduce, start", [("sum", 0.), ("prod", 1.), ("max", float("-inf")), ("min", float("inf"))])
def test_segments_of_nothing(lib, reduce, start):
    assert lib.segment_reduce(lib.ones(0), reduce, lengths=lib.tensor([0, 0])).tolist() == [start, start]
    assert lib.segment_reduce(lib.ones(0), reduce, lengths=lib.tensor([0]), initial=3.).tolist() == [3.]


def test_diff_names_the_dimension_that_differs(lib):
    with pytest.raises(RuntimeError, match=r"except along the differencing dimension; input.size\(0\) = 2, but got tensor.size\(0\) = 1"):
        lib.diff(lib.ones(2, 3), dim=1, prepend=lib.ones(1, 2))


class Noted(list):
    """Notes that it goes."""

    def __init__(self, gone):
        self.gone = gone

    def __del__(self):
        self.gone.append(True)


def test_a_storage_keeps_its_attributes_as_long_as_a_tensor_has_it(lib):
    x, gone = lib.ones(10), []
    storage = x.untyped_storage()
    storage.note = Noted(gone)
    del storage
    assert not gone and x.untyped_storage().note.gone is gone
    storage = x.untyped_storage()
    del x
    assert not gone and storage.nbytes() == 40
    del storage
    assert gone
    y = lib.ones(2)
    y.untyped_storage().note = Noted(gone)
    del y
    assert len(gone) == 2


def test_a_storage_of_a_class_comes_back_as_it_was(lib):
    class Counted(lib.UntypedStorage):
        gone = 0

        def __del__(self):
            Counted.gone += 1

    x = lib.as_tensor(Counted(8), dtype=lib.float32)
    assert Counted.gone == 0 and type(x.untyped_storage()) is Counted and Counted.gone == 0
    del x
    assert Counted.gone == 1


def test_a_weak_reference_brings_back_a_storage_that_a_tensor_has(lib):
    import weakref
    storage = lib.UntypedStorage([1, 2, 3, 4])
    weak, x = weakref.ref(storage), lib.as_tensor(storage, dtype=lib.uint8)
    del storage
    storage = weak()
    storage._fix_weakref()
    del x
    assert storage.tolist() == [1, 2, 3, 4]
    del storage
    assert weak() is None


def test_a_storage_in_a_cycle_is_collected_once_no_tensor_has_it(lib):
    import gc
    gone, x = [], lib.ones(4)
    storage = x.untyped_storage()
    storage.itself, storage.note = storage, Noted(gone)
    del storage
    gc.collect()
    assert not gone and x.untyped_storage().itself is x.untyped_storage()
    del x
    gc.collect()
    assert gone


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_storages_of_quantized_dtypes_hold_integers(lib):
    for name in ("QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"):
        storage = getattr(lib, name)([1, 2, 3])
        assert storage.tolist() == [1, 2, 3] and len(storage) == 3
        storage[0], storage[1:] = 5, 7
        assert storage.tolist() == [5, 7, 7]


def test_a_storage_that_no_tensor_looks_at_moves_to_shared_memory(lib):
    storage = lib.UntypedStorage([1, 2, 3])
    assert storage.share_memory_() is storage and storage.is_shared() and storage.tolist() == [1, 2, 3]


def test_a_storage_on_a_device_that_is_none_is_refused(lib):
    with pytest.raises(RuntimeError, match="Storage device not recognized"):
        lib.UntypedStorage(2, device="xla")


def test_storage_is_the_class_of_the_default_dtype(lib):
    assert lib.Storage is lib.FloatStorage
    lib.set_default_dtype(lib.float64)
    try:
        assert lib.Storage is lib.DoubleStorage
    finally:
        lib.set_default_dtype(lib.float32)
