"""What functions beside the operators refuse, and in which words."""
import gc
import pickle

import numpy as np
import pytest


def refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call()


def test_only_subclasses_of_tensor_can_be_made_of_tensors(lib):
    words = "Creating a Tensor subclass from a class that does not inherit from Tensor"
    refused(TypeError, words, lambda: lib.ones(1).as_subclass(int))
    refused(TypeError, words, lambda: lib.Tensor._make_subclass(int, lib.ones(1)))
    refused(TypeError, words, lambda: lib.Tensor._make_wrapper_subclass(int, (1,)))


def test_types_of_tensors_are_not_base_classes(lib):
    with pytest.raises(TypeError, match="'torch.FloatTensor' is not an acceptable base type"):
        class Own(lib.FloatTensor):
            pass
    assert lib.FloatTensor.dtype is lib.float32 and not lib.FloatTensor.is_cuda and lib.LongTensor.layout is lib.strided


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_types_are_floating_point_types_that_are_there(lib):
    for absent in ("torch.cuda.FloatTensor", lib.cuda.FloatTensor):
        refused(TypeError, "type torch.cuda.FloatTensor not available. Torch not compiled with CUDA enabled",
                lambda: lib.set_default_tensor_type(absent))
    refused(TypeError, "only floating-point types are supported as the default type", lambda: lib.set_default_tensor_type(3))
    refused(TypeError, "only floating-point types are supported as the default type",
            lambda: lib.set_default_tensor_type(lib.LongTensor))
    lib.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert lib.ones(1).dtype is lib.float64
    finally:
        lib.set_default_tensor_type(lib.FloatTensor)


def test_modes_of_determinism_are_checked(lib):
    refused(RuntimeError, "expected one of `default`, `warn`, `error`, but got x", lambda: lib.set_deterministic_debug_mode("x"))
    refused(RuntimeError, "expected 0, 1, or 2, but got 7", lambda: lib.set_deterministic_debug_mode(7))
    refused(TypeError, "debug_mode must be str or int, but got <class 'list'>", lambda: lib.set_deterministic_debug_mode([]))
    refused(TypeError, r"argument 'mode' \(position 1\) must be bool, not int", lambda: lib.use_deterministic_algorithms(1))
    refused(TypeError, "argument 'warn_only' must be bool, not str",
            lambda: lib.use_deterministic_algorithms(True, warn_only="yes"))


def test_numbers_of_threads_are_checked(lib):
    for function in (lib.set_num_threads, lib.set_num_interop_threads):
        refused(RuntimeError, "expects a positive integer", lambda: function(-1))
        refused(RuntimeError, "expects an int, but got str", lambda: function("a"))
        refused(ValueError, "Overflow when unpacking long long", lambda: function(2**65))


def test_storages_are_made_of_their_subclasses(lib):
    refused(RuntimeError, "Cannot directly construct StorageBase", lib._C.StorageBase)
    assert lib.UntypedStorage(3).nbytes() == 3


def test_memory_that_an_array_reads_is_not_resized(lib):
    """The array would be left with memory that is freed."""
    x = lib.arange(500000.)
    assert x.untyped_storage().resizable() and x.storage().resizable()
    a = x.numpy()
    assert not x.untyped_storage().resizable() and not x.storage().resizable()
    refused(RuntimeError, "Trying to resize storage that is not resizable", lambda: x.resize_(1000000))
    refused(RuntimeError, "Trying to resize storage that is not resizable", lambda: x.untyped_storage().resize_(0))
    refused(RuntimeError, "Trying to resize storage that is not resizable", lambda: lib.ones(1).set_(x).resize_(1000000))
    assert a[4] == 4 and x.resize_(10).shape == (10,)           # what fits needs no more memory
    x = None
    gc.collect()
    assert a[499999] == 499999
    assert not lib.from_numpy(np.ones(3)).untyped_storage().resizable()
    assert pickle.loads(pickle.dumps(lib.ones(3))).resize_(100).shape == (100,)


def test_places_beyond_a_tensor_are_named(lib):
    x, at = lib.zeros(5, 5), lib.tensor([9])
    refused(RuntimeError, "index 9 is out of bounds for dimension 0 with size 5", lambda: x.index_add_(0, at, lib.ones(1, 5)))
    refused(IndexError, "index out of range in self", lambda: lib.zeros(5).index_add_(0, at, lib.ones(1)))
    refused(IndexError, "index out of range in self", lambda: x.index_reduce_(0, at, lib.ones(1, 5), "mean"))
    refused(IndexError, "index 9 is out of bounds for dimension 0 with size 5", lambda: x.index_copy_(0, at, lib.ones(1, 5)))
    refused(IndexError, "index 9 is out of bounds for dimension 0 with size 5", lambda: x.index_fill_(0, at, 1.))


def test_helpers_of_utils_are_there_without_an_import(lib):
    assert lib.utils._mode_utils.no_dispatch
    assert lib.utils._import_utils._check_module_exists("json")
    assert not lib.utils._import_utils._check_module_exists("no_such_package.inner")


def test_tolerances_are_those_of_tensors_and_dtypes(lib):
    from importlib import import_module
    default_tolerances = import_module(lib.__name__ + ".testing._comparison").default_tolerances
    assert default_tolerances(lib.float64, lib.ones(1)) == (1.3e-6, 1e-5)
    refused(TypeError, "Expected a torch.Tensor or a torch.dtype, but got <class 'int'> instead", lambda: default_tolerances(3))


def test_numbers_that_an_operator_cannot_hold(lib):
    """A complex weight lost its imaginary part."""
    x = lib.ones(2, 2)
    for dtype in (lib.float16, lib.float32, lib.float64):
        refused(RuntimeError, "value cannot be converted to type .* without overflow", lambda: lib.lerp(x.to(dtype), x.to(dtype), 1 + 1j))
    assert lib.lerp(x, x * 3, 1 + 0j)[0, 0] == 3
    refused(RuntimeError, "Expected a non-complex scalar as the order of norm", lambda: lib.linalg.matrix_norm(x, 1 + 1j))
    number, none = lib.tensor(1j), lib.zeros(2, 0)
    refused(RuntimeError, "atol tensor of complex type is not supported. Got ComplexFloat", lambda: lib.linalg.matrix_rank(none, tol=number))
    refused(RuntimeError, "tensor of complex type is not supported. Got ComplexFloat", lambda: lib.linalg.pinv(none, rtol=number))


def test_kinds_of_errors(lib):
    x, matrix = lib.zeros(4), lib.zeros(2, 2).long()
    refused(IndexError, "Expected source and index to have the same number of elements", lambda: x.put_(lib.tensor([0, 1]), lib.ones(3)))
    refused(RuntimeError, "Index has to be a vector/scalar", lambda: x.index_fill_(0, matrix, 1.))
    refused(RuntimeError, "Expected self.dtype to be equal to src.dtype", lambda: lib.zeros(2, 0).scatter_add_(1, lib.zeros(2, 0).long(), lib.zeros(2, 0).int()))
    refused(IndexError, "cannot be applied to a 0-dim tensor", lambda: lib.cumulative_trapezoid(lib.tensor(1.), lib.tensor(1.)))
    refused(ValueError, "1D target must have size 1, but got target size: 3", lambda: lib.nn.functional.nll_loss(x, lib.zeros(3).long()))
    refused(ValueError, "Input tensor must have at least 2 dimensions, but got 1", lambda: lib.nn.functional.rms_norm(x, (4, 4)))
    refused(ValueError, "broadcast a dimension with negative length", lambda: lib.broadcast_shapes((-1, 3), (1, 3)))


def test_integers_beyond_64_bits(lib):
    x, far = lib.ones(3), 2 ** 64
    for call in (lambda: x.sum(far), lambda: x.cumsum(-far), lambda: x[far], lambda: x.__setitem__(far, 1), lambda: x.size(far), lambda: x.topk(far),
                 lambda: x.roll(far), lambda: x.chunk(far), lambda: lib.eye(far), lambda: lib.nn.functional.max_pool1d(x[None], far),
                 lambda: lib.Generator().manual_seed(far)):
        refused(ValueError, "Overflow when unpacking long long", call)
    for place, call in ((1, lambda: x.reshape(far)), (2, lambda: x.reshape([1, far])), (2, lambda: lib.zeros(2, far)), (1, lambda: x.flip(-far)),
                        (1, lambda: x.permute((far,))), (1, lambda: lib.nn.functional.pad(x, (far, 1)))):
        refused(TypeError, f"failed to unpack the object at pos {place} with error \"Overflow when unpacking long long", call)
    refused(OverflowError, "int too big to convert", lambda: x + far)           # a number, no size
