"""Names that programs ask for and that say little: what they answer."""
import copy
import inspect
import pickle
import types
from importlib import import_module

import importlib

import pytest


def test_open_numbers_are_never_met(lib):
    x = lib.ones(2, 3)
    assert not isinstance(x.shape[0], (lib.SymInt, lib.SymFloat, lib.SymBool))


def test_tags(lib):
    assert lib.Tag.pt2_compliant_tag != lib.Tag.core


def test_return_types_have_names_before_their_calls(lib):
    kind = lib.return_types.topk
    found = lib.topk(lib.tensor([1.0, 3.0, 2.0]), 2)
    assert type(found) is kind and kind is lib.return_types.topk
    assert isinstance(lib.max(lib.ones(2, 2), 0), lib.return_types.max)
    assert type(lib.svd(lib.eye(2))) is lib.return_types.svd
    with pytest.raises(AttributeError):
        lib.return_types.no_such_operator


def test_cond_and_while_loop(lib):
    x = lib.tensor([3.0])
    assert lib.cond(x > 2, lambda a: a + 1, lambda a: a - 1, (x,)).item() == 4
    assert lib.cond(False, lambda a: a + 1, lambda a: a - 1, (x,)).item() == 2
    n, y = lib.while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * 2), (lib.tensor(0), lib.tensor(1.0)))
    assert n.item() == 4 and y.item() == 16


def test_products_under_old_names(lib):
    a, b = lib.arange(6.0).reshape(2, 3), lib.arange(6.0).reshape(3, 2)
    assert lib.dsmm(a, b).tolist() == lib.spmm(a, b).tolist() == lib.mm(a, b).tolist()


def test_swapped_tensors_change_places(lib):
    a, b = lib.ones(2, requires_grad=True), lib.zeros(3)
    a.tag, held = "a", {"b": b}
    (a * 2).sum().backward()
    lib.utils.swap_tensors(a, b)
    assert a.shape == (3,) and b.shape == (2,) and held["b"].requires_grad and not a.requires_grad
    assert b.grad.tolist() == [2, 2] and a.grad is None and b.tag == "a" and not hasattr(a, "tag")
    (b * 3).sum().backward()
    assert b.grad.tolist() == [5, 5]


def test_swapped_parameters_keep_their_identity(lib):
    layer = lib.nn.Linear(2, 2)
    weight, storage = layer.weight, layer.weight.data_ptr()
    lib.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight and weight.dtype == lib.float64 and weight.data_ptr() != storage
    assert isinstance(weight, lib.nn.Parameter) and weight.requires_grad


def test_weak_dictionary_by_identity(lib):
    weak = import_module(lib.__name__ + ".utils.weak")
    there = weak.WeakTensorKeyDictionary()
    a, b = lib.ones(2), lib.ones(2)
    there[a], there[b] = 1, 2
    assert there[a] == 1 and there[b] == 2 and len(there) == 2 and a in there
    del a
    assert len(there) == 1 and list(there.values()) == [2]


def test_batch_norm_without_statistics(lib):
    net = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
    lib.func.replace_all_batch_norm_modules_(net)
    assert net[1].running_mean is None and not net[1].track_running_stats


def test_flags_of_devices_that_are_not_there(lib):
    x = lib.ones(1)
    assert not (x.is_ipu or x.is_maia or x.is_mtia or x.is_vulkan)


def test_replicas_share_buffers_and_have_no_parameters(lib):
    norm = lib.nn.BatchNorm1d(2)
    replica = norm._replicate_for_data_parallel()
    assert type(replica) is type(norm) and not list(replica.parameters()) and replica.running_mean is norm.running_mean
    assert len(list(norm.parameters())) == 2


def test_weak_dictionaries_are_joined_and_copied(lib):
    weak = import_module(lib.__name__ + ".utils.weak")
    a, b, c = lib.ones(2), lib.ones(2), lib.ones(2)
    first, second = weak.WeakIdKeyDictionary({a: [1], b: [2]}), weak.WeakIdKeyDictionary({b: [3]})
    joined = first | second
    assert type(joined) is weak.WeakIdKeyDictionary and joined[a] == [1] and joined[b] == [3] and first[b] == [2]
    assert (first | {c: 4})[c] == 4 and ({b: 5} | first)[b] == [2] and len({c: 5} | first) == 3
    with pytest.raises(TypeError):
        first | [(a, 1)]
    second |= {a: 6}
    assert second[a] == 6 and len(second) == 2
    deep = copy.deepcopy(first)
    assert [id(key) for key in deep] == [id(a), id(b)] and deep[a] == [1] and deep[a] is not first[a] and copy.copy(first)[a] is first[a]

    class Broken:
        def keys(self):
            return iter([a, b])

        def __getitem__(self, key):
            raise KeyError("none") if key is b else IndexError("first")
    with pytest.raises(IndexError):
        first.update(Broken())

    class Same:
        def __hash__(self):
            return 7
    one, other = Same(), Same()
    assert weak._WeakHashRef(one) == weak._WeakHashRef(other) and weak.WeakIdRef(one) != weak.WeakIdRef(other)


def test_operators_are_builtin_functions_and_method_descriptors(lib):
    for function in (lib.add, lib.relu_, lib.nn.functional.conv2d, lib.linalg.det, lib.special.gammaln, lib.fft.fft):
        assert isinstance(function, types.BuiltinFunctionType) and inspect.isbuiltin(function) and inspect.isroutine(function)
        assert copy.deepcopy(function) is function and pickle.loads(pickle.dumps(function)) == function
    assert isinstance(lib.Tensor.add, types.MethodDescriptorType) and inspect.ismethoddescriptor(lib.Tensor.add)
    assert not isinstance(lib.Tensor.add, types.BuiltinFunctionType)


def test_functions_of_torch_functional(lib):
    functional = importlib.import_module(lib.__name__ + ".functional")
    assert all(getattr(functional, name) is getattr(lib, name) for name in ("istft", "lu", "pca_lowrank", "stft", "svd_lowrank", "einsum"))
    assert not hasattr(functional, "no_such_function")


def test_backends_of_attention_are_no_integers(lib):
    backend = importlib.import_module(lib.__name__ + ".nn.attention").SDPBackend
    assert int(backend.MATH) == 0 and backend(1) is backend.FLASH_ATTENTION or backend(1) == backend.FLASH_ATTENTION
    assert not isinstance(backend.MATH, int) and backend.MATH != 0 and backend.ERROR.value == -1 and backend.MATH.name == "MATH"


def test_operators_of_the_mkldnn_layout_have_their_plain_names(lib):
    for name in ("mkldnn_convolution", "mkldnn_max_pool2d", "mkldnn_max_pool3d", "mkldnn_adaptive_avg_pool2d", "_mkldnn_reshape", "_mkldnn_transpose"):
        assert callable(getattr(lib._VF, name)) and callable(getattr(lib, name))


def test_short_forms_of_products(lib):
    utils = importlib.import_module(lib.__name__ + "._linalg_utils")
    a, s = lib.tensor([[2., 1.], [1., 3.]]), lib.tensor([[1.], [2.]])
    assert utils.matmul(None, s) is s and utils.matmul(a.to_sparse(), s).tolist() == utils.matmul(a, s).tolist() == [[4.], [7.]]
    assert utils.qform(a, s).tolist() == [[18.]] and utils.bform(s, None, s).tolist() == [[5.]]
    assert lib.allclose(utils.symeig(a, True)[0], utils.symeig(a)[0].flip(-1)) and utils.basis(s).shape == (2, 1)
    assert utils.get_floating_dtype(s.long()) == lib.float32 and not utils.is_sparse(a)
    with pytest.raises(TypeError, match="expected Tensor"):
        utils.is_sparse([1])


def test_sizes_that_two_tensors_are_broadcast_to(lib):
    assert lib._C._infer_size(lib.Size((3, 1)), lib.Size((2,))) == lib.Size((3, 2))
    with pytest.raises(RuntimeError):
        lib._C._infer_size(lib.Size((3,)), lib.Size((2,)))
