"""What PyTorch's own test files and programs of other people met: one test per thing that once differed."""
import copy
import gc
import inspect
import io
import pickle
import types
import warnings
from collections import OrderedDict

import pytest


def test_a_decorated_function_keeps_its_signature(lib):
    def wanted(self, device, dtype=None):
        return lib.is_grad_enabled()

    wanted.note = "kept"
    for mode in (lib.no_grad, lib.enable_grad, lib.inference_mode):
        wrapped = mode()(wanted)
        assert list(inspect.signature(wrapped).parameters) == ["self", "device", "dtype"] and wrapped.note == "kept"
        assert inspect.unwrap(wrapped) is wanted and not hasattr(wanted, "__wrapped__")
        assert wrapped(None, "cpu") is (mode is lib.enable_grad)


def test_deterministic_algorithms_are_asked_for_and_told(lib):
    lib.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert lib.are_deterministic_algorithms_enabled() is True and lib.get_deterministic_debug_mode() == 1
    finally:
        lib.use_deterministic_algorithms(False)
    assert lib.is_deterministic_algorithms_warn_only_enabled() is False


def test_bytes_seen_as_other_numbers_pass_no_gradient_on(lib):
    x = lib.ones(2, 4, requires_grad=True)
    for dtype in (lib.float64, lib.complex64, lib.int32, lib.float16):
        for source in (x, x * 2):
            assert not source.view(dtype).requires_grad
    bits = lib.zeros(2).view(lib.int32)
    assert bits.fill_(0x3f800000).view(lib.float32).tolist() == [1, 1]


def test_searchsorted_and_bucketize_between_dtypes(lib):
    whole = lib.tensor([1, 2, 3])
    assert lib.searchsorted(whole, lib.tensor([1.5, 3])).tolist() == [1, 2]
    assert lib.searchsorted(whole, 1.5).item() == 1 and lib.bucketize(2.5, whole).item() == 2
    assert lib.searchsorted(whole.half(), lib.tensor([2]), right=True).tolist() == [2]
    assert lib.bucketize(lib.tensor([2.5], dtype=lib.float64), whole.int(), out_int32=True).dtype == lib.int32


def test_equal_looks_at_values_not_dtypes(lib):
    assert lib.equal(lib.tensor([1., 2]), lib.tensor([1, 2])) and not lib.equal(lib.tensor([1.5]), lib.tensor([1]))
    assert lib.equal(lib.tensor([]), lib.tensor([], dtype=lib.int32)) and not lib.equal(lib.ones(1), lib.ones(2).int())


def test_strides_that_overflow_without_any_element(lib):
    for make in (lambda: lib.empty([0, 4, 2**61]), lambda: lib.empty(0).resize_([0, 8, 2**61])):
        with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
            make()


# Embeddings ------------------------------------------------------------------------------------------------------

def test_embedding_bag_with_a_last_offset(lib):
    weight, rows = lib.arange(6.).view(3, 2), lib.arange(3)
    bag = lib.nn.functional.embedding_bag

    def of(offsets, **options):
        return bag(rows, weight, lib.tensor(offsets), include_last_offset=True, **options).tolist()
    assert of([0, 2], mode="sum") == [[2, 4]] and of([0, 2, 2], mode="sum") == [[2, 4], [0, 0]]
    assert of([0, 2, 2], mode="max") == [[2, 3], [4, 5]]
    assert of([0, 2, 2], padding_idx=1) == of([0, 2, 3], padding_idx=1) == [[0, 1], [4, 5]]


def test_what_embedding_bag_refuses(lib):
    weight, rows, offsets = lib.ones(3, 2), lib.arange(3), lib.tensor([0, 2])
    bag = lib.nn.functional.embedding_bag
    with pytest.raises(RuntimeError, match=r"Index 1 of input takes value -1 which is not in the valid range \[0, 3\)"):
        bag(lib.tensor([0, -1]), weight, offsets)
    for options in ({"mode": "max"}, {"padding_idx": 0}):
        with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings but found idx to be 5"):
            bag(lib.tensor([0, 5]), weight, offsets, **options)
    with pytest.raises(RuntimeError, match="'weight' to have the same type as tensor"):
        bag(rows, weight, offsets, mode="sum", per_sample_weights=lib.ones(3, dtype=lib.float64))
    with pytest.raises(RuntimeError, match="input has to be a 1D or 2D Tensor, but got Tensor of dimension 3"):
        lib.embedding_bag(weight, lib.ones(1, 1, 1).long(), offsets)


def test_an_embedding_of_integers(lib):
    table = lib.nn.Embedding.from_pretrained(lib.tensor([[1, 2], [3, 4]], dtype=lib.int16))
    assert table(lib.tensor([1])).tolist() == [[3, 4]] and not table.weight.requires_grad
    with pytest.raises(AssertionError, match="padding_idx must be within num_embeddings"):
        lib.nn.EmbeddingBag(3, 2, padding_idx=5)


# Modules ---------------------------------------------------------------------------------------------------------

def test_the_dicts_of_global_hooks_can_be_replaced(lib):
    module, calls = lib.nn.modules.module, []
    module.register_module_forward_hook(lambda *args: calls.append("hook"))
    layer = lib.nn.Identity()
    layer(lib.ones(1))
    module._global_forward_hooks = OrderedDict()
    layer(lib.ones(1))
    assert calls == ["hook"]
    with module.register_module_forward_hook(lambda *args: calls.append("again")):
        layer(lib.ones(1))
    layer(lib.ones(1))
    assert calls == ["hook", "again"]


def test_loading_leaves_no_cycle_behind(lib):
    layer = lib.nn.LSTM(4, 4, bidirectional=True)
    state = copy.deepcopy(layer).state_dict()
    gc.collect()
    layer.load_state_dict(state)
    assert gc.collect() == 0


@pytest.mark.parametrize("assign", [False, True])
def test_loading_by_exchange_keeps_the_parameters(lib, assign):
    layer, state = lib.nn.Linear(2, 2), {"weight": lib.full((2, 2), 3.), "bias": lib.zeros(2)}
    weight = layer.weight.requires_grad_(False)
    lib.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.load_state_dict(state, assign=assign)
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight and weight.unique().tolist() == [3] and type(weight) is lib.nn.Parameter
    assert not weight.requires_grad and layer.bias.requires_grad


def test_tensors_with_other_slots_do_not_change_places(lib):
    class Slotted(lib.Tensor):
        __slots__ = ("one",)
    with pytest.raises(RuntimeError, match="Cannot swap t1 and t2 if they have different slots"):
        lib.utils.swap_tensors(lib.ones(1), lib.ones(1).as_subclass(Slotted))


# Schedules and checkpoints ---------------------------------------------------------------------------------------

def warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(w.message) for w in caught]


def test_a_schedule_sees_steps_of_an_optimizer_around_another_one(lib):
    class Around(lib.optim.Optimizer):
        def __init__(self, optimizer):          # without its base's
            self.optimizer, self.param_groups = optimizer, optimizer.param_groups

        def step(self, closure=None):
            self.optimizer.step(closure)
    optimizer = Around(lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.))
    schedule = lib.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    assert warnings_of(schedule.step) == []


def test_a_schedule_that_steps_first_says_where_to_read_on(lib):
    def made():
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.)
        return optimizer, lib.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer, schedule = made()
    said, = warnings_of(schedule.step)
    assert said.startswith("Detected call of `lr_scheduler.step()` before") and said.endswith("#how-to-adjust-learning-rate")
    optimizer, schedule = made()
    optimizer.step = types.MethodType(lambda self: None, optimizer)
    optimizer.step()
    said, = warnings_of(schedule.step)
    assert "`optimizer.step()` has been overridden after learning rate scheduler" in said
    schedule = lib.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer._opt_called = True
    assert warnings_of(schedule.step) == []


def test_a_one_cycle_schedule_of_an_old_checkpoint(lib):
    optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.)
    cycle = lib.optim.lr_scheduler.OneCycleLR
    schedule, other = (cycle(optimizer, 1., total_steps=9, cycle_momentum=False) for _ in range(2))
    state = schedule.state_dict()
    del state["_anneal_func_type"], schedule._anneal_func_type
    schedule.load_state_dict({**state, "anneal_func": cycle._annealing_cos})
    optimizer.step()
    schedule.step(), other.step()
    assert schedule.get_last_lr() == other.get_last_lr()


def test_classes_of_the_library_can_be_named_safe(lib):
    d = lib.distributions
    saved, kinds = io.BytesIO(), [d.TransformedDistribution, d.AffineTransform, d.Normal]
    lib.save(d.TransformedDistribution(d.Normal(0, 1), [d.AffineTransform(2, 3)]), saved)
    saved.seek(0)
    with lib.serialization.safe_globals(kinds):
        assert type(lib.load(saved)) is kinds[0]


# Tensors from data, and of other tensors ---------------------------------------------------------------------------

def test_numpys_doubles_keep_their_dtype(lib):
    numpy = pytest.importorskip("numpy")
    double = numpy.float64(.5)
    for make in (lib.tensor, lib.as_tensor, lib.asarray):
        for data in (double, [double], [[double]], (double, 1), [double, numpy.float32(2)], [1, double]):
            assert make(data).dtype == lib.float64
        assert make(numpy.complex128(1j)).dtype == lib.complex128
        assert make([.5, 1]).dtype == make([numpy.float32(1), 2.5]).dtype == lib.float32
    assert (lib.ones(1) * double).dtype == lib.full((1,), double).dtype == lib.float32


def test_sequences_that_are_none(lib):
    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            raise TypeError

    with pytest.raises(ValueError, match="could not determine the shape of object type 'Broken'"):
        lib.tensor(Broken())
    endless = [0]
    endless.append(endless)
    with pytest.raises(TypeError, match="self-referential lists are incompatible"):
        lib.tensor(endless)


def test_what_is_made_like_a_tensor_with_gaps_keeps_its_order(lib):
    x = lib.randn(10, 8).t()[::2, ::2]
    for made in (x.clone(), lib.empty_like(x), lib.zeros_like(x), x.exp()):
        assert made.stride() == (1, 4)
    assert lib.equal(x.clone(), x) and lib.empty_like(lib.ones(3, 4, 5).permute(2, 0, 1)[::2]).stride() == (1, 12, 3)
    assert lib.ones(4, 1, 5).expand(4, 3, 5).permute(2, 1, 0).clone().stride() == (1, 5, 15)
    assert lib.zeros_like(lib.ones(1, 5).expand(4, 5)).stride() == (5, 1)


def test_the_order_of_dimensions_in_memory(lib):
    assert lib.ones(2, 3, 5).transpose(0, 1).dim_order() == (1, 0, 2)
    assert lib.ones(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        lib.ones(2, 1, 3).dim_order(ambiguity_check=True)
    formats = [lib.contiguous_format, lib.channels_last]
    assert lib.ones(2, 2, 2, 3).dim_order(ambiguity_check=formats) == (0, 1, 2, 3)


def test_older_types_take_storages_and_classes(lib):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = lib.FloatStorage(4)
        x = lib.FloatTensor(storage)
        assert x.fill_(2).data_ptr() == storage.data_ptr() and storage.tolist() == [2, 2, 2, 2]
    assert lib.ones(2).int().type(lib.Tensor).dtype == lib.get_default_dtype()


def test_functional_knows_of_tensor_likes(lib):
    functional = lib.nn.functional
    assert functional.has_torch_function((lib.ones(1),)) is False and callable(functional.handle_torch_function)


def test_an_empty_batch_is_not_packed(lib):
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        lib.nn.utils.rnn.pack_padded_sequence(lib.randn(0, 1, 10), lib.ones(2, 2).long(), True)


def test_modules_name_the_devices_that_are_not_there(lib):
    for name in ("xpu", "ipu", "mtia"):
        with pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
            getattr(lib.nn.Linear(1, 1), name)()


def test_versions_of_modules_are_compared(lib):
    module, at_least = types.ModuleType("some"), lib.serialization.check_module_version_greater_or_equal
    module.__version__ = "1.12.3"
    assert at_least(module, (1, 9)) and not at_least(module, (1, 13)) and at_least(module, (1, 12, "3"))
    module.__version__ = "one"
    with pytest.raises(RuntimeError, match="'some' module version string is malformed"):
        at_least(module, (1, 9))


def test_functions_of_the_namespaces_can_be_pickled(lib):
    functional = lib.nn.functional
    for function in (functional.gelu, functional.linear, lib.linalg.inv, lib.special.expit, lib.fft.fft, lib.add):
        assert pickle.loads(pickle.dumps(function)) is function
    layer = lib.nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
    assert pickle.loads(pickle.dumps(layer)).activation is functional.gelu


def test_modules_take_only_what_to_means_for_them(lib):
    layer = lib.nn.Linear(2, 2)
    with pytest.raises(TypeError):
        layer.to(lib.device("cpu"), True)
    with pytest.raises(RuntimeError, match="does not accept copy argument"):
        layer.to("cpu", copy=True)
    assert layer.to(lib.float64, True).weight.dtype == lib.float64


def test_a_register_buffer_without_persistent_is_enough(lib):
    class Narrow(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = lib.nn.Buffer(lib.ones(2))

        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)
    assert list(Narrow().state_dict()) == ["kept"]


def test_batched_gradients_of_a_derived_input_leave_nothing_behind(lib):
    x = lib.randn(4, 3, dtype=lib.float64, requires_grad=True).t()
    assert lib.autograd.gradcheck(lambda x: x.sin(), (x,), check_batched_grad=True)


def test_rows_that_hold_nan_are_all_different(lib):
    nan = float("nan")
    for rows in ([[nan, 1.0], [5.0, 1.0], [nan, 2.0], [5.0, 1.0]], [[1.0, nan], [1.0, 5.0], [1.0, 2.0], [1.0, 5.0]]):
        x = lib.tensor(rows)
        found, places, counts = lib.unique(x, dim=0, return_inverse=True, return_counts=True)
        assert sorted(counts.tolist()) == [1, 1, 2]
        assert lib.equal(found[places].nan_to_num(-1), x.nan_to_num(-1))
    assert len(lib.unique_consecutive(lib.tensor([[1.0, nan], [1.0, nan], [1.0, 5.0], [1.0, 5.0]]), dim=0)) == 3


def test_shapes_to_broadcast_are_ints_or_tuples(lib):
    with pytest.raises(RuntimeError, match="Input shapes should be of type ints"):
        lib.broadcast_shapes(1.0)


def test_arguments_that_go_by_name(lib):
    assert lib.manual_seed(seed=3).initial_seed() == lib.initial_seed() == 3
    state = lib.get_rng_state()
    first = lib.rand(2)
    lib.set_rng_state(new_state=state)
    assert lib.equal(lib.rand(2), first)
    lib.random.manual_seed(seed=4)
    lib.set_default_device(device="cpu")
    lib.set_default_device(device=None)
    assert lib.promote_types(type1=lib.int32, type2=lib.float32) is lib.float32
    x, seen = lib.ones(2, requires_grad=True), []
    x.register_hook(hook=seen.append)
    x.register_post_accumulate_grad_hook(hook=seen.append)
    (x * 2).sum().backward()
    assert len(seen) == 2
    y = lib.zeros(2)
    y.copy_(other=x.detach())
    assert y.tolist() == [1, 1] and y.cpu(memory_format=lib.preserve_format) is y
    for call in (lambda: lib.manual_seed(), lambda: lib.manual_seed(1, 2), lambda: lib.manual_seed(sed=1),
                 lambda: y.register_hook(), lambda: y.copy_(source=y)):
        with pytest.raises(TypeError):
            call()


def test_functions_that_tell_their_signature(lib):
    for function, names in ((lib.manual_seed, ["seed"]), (lib.get_rng_state, []), (lib.set_rng_state, ["new_state"]),
                            (lib.from_dlpack, ["ext_tensor", "device", "copy"]), (lib.set_default_device, ["device"]),
                            (lib.Tensor.register_hook, ["self", "hook"]),
                            (lib.Tensor.backward, ["self", "gradient", "retain_graph", "create_graph", "inputs"])):
        assert list(inspect.signature(function).parameters) == names
