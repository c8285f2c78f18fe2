"""What libraries on top of PyTorch ask of it: each of these kept one of them from running."""
import collections
import functools
import importlib
import inspect
import types
import typing
import warnings
import weakref

import pytest


def test_a_part_of_a_storage_becomes_a_tensor(lib):
    storage = lib.arange(13, dtype=lib.uint8).untyped_storage()
    whole = lib.asarray(storage, dtype=lib.uint8)
    assert whole.tolist() == list(range(13)) and whole.data_ptr() == storage.data_ptr()
    assert lib.asarray(storage, dtype=lib.int16).shape == (6,)
    assert lib.asarray(storage[3:5], dtype=lib.uint8).tolist() == [3, 4]
    for nothing in (storage[0:0], storage[13:], storage[5:3]):
        assert lib.asarray(nothing, dtype=lib.float32).shape == (0,)


def test_marks_for_a_compiler(lib):
    dynamo = importlib.import_module(f"{lib.__name__}._dynamo")
    importlib.import_module(f"{lib.__name__}._dynamo.eval_frame" if lib.__name__ == "torch" else "tede._dynamo")
    x = lib.ones(3)
    dynamo.mark_static_address(x)
    dynamo.mark_static(x)
    dynamo.mark_dynamic(x, 0)
    assert not isinstance(lib.nn.Linear(1, 1), dynamo.eval_frame.OptimizedModule)
    assert importlib.import_module(f"{lib.__name__}._guards").active_fake_mode() is None


def _control(lib):
    return importlib.import_module(f"{lib.__name__}._higher_order_ops")


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(lib, length, reverse):
    if lib.__name__ == "torch":
        pytest.skip("PyTorch compiles it, which takes a minute")
    x = lib.randn(3, length, dtype=lib.float64, requires_grad=True)
    found = _control(lib).associative_scan(lambda a, b: a + b, x, 1, reverse=reverse, combine_mode="generic")
    expected = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    lib.testing.assert_close(found, expected)
    weight = lib.arange(3.0 * length, dtype=lib.float64).reshape(3, length)
    lib.testing.assert_close(*(lib.autograd.grad((y * weight).sum(), x)[0] for y in (found, expected)))


def test_associative_scan_of_pairs_is_a_linear_recurrence(lib):
    if lib.__name__ == "torch":
        pytest.skip("PyTorch compiles it, which takes a minute")
    a, b = lib.rand(7, 2), lib.randn(7, 2)

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]
    found = _control(lib).associative_scan(combine, (a, b), 0, combine_mode="generic")[1]
    h, expected = lib.zeros(2), []
    for i in range(7):
        h = a[i] * h + b[i]
        expected.append(h)
    lib.testing.assert_close(found, lib.stack(expected))


def test_scan_and_map(lib):
    if lib.__name__ == "torch":
        pytest.skip("PyTorch compiles it, which takes a minute")
    x = lib.arange(6.0).reshape(3, 2)
    carry, sums = _control(lib).scan(lambda c, row: (c + row["x"], (c + row["x"]).clone()), lib.zeros(2), {"x": x})
    assert carry.tolist() == [6, 9] and sums.tolist() == x.cumsum(0).tolist()
    sums = _control(lib).scan(lambda c, row: (c + row, {"y": c + row}), lib.zeros(2), x, reverse=True)[1]["y"]
    assert sums.tolist() == x.flip(0).cumsum(0).flip(0).tolist()
    assert _control(lib).map(lambda row, k: row.sum() * k, x, 2).tolist() == [2, 10, 18]


def test_a_transform_or_a_distribution_may_be_a_module(lib):
    class Shift(lib.distributions.Transform, lib.nn.Module):
        domain = codomain = lib.distributions.constraints.real
        bijective, __hash__ = True, lib.nn.Module.__hash__

        def __init__(self):
            super().__init__(cache_size=1)
            self.layer = lib.nn.Linear(1, 1)

    class Mine(lib.distributions.Distribution, lib.nn.Module):
        arg_constraints = {}

        def __init__(self):
            super().__init__(validate_args=False)
            self.layer = lib.nn.Linear(1, 1)
    assert len(list(Shift().parameters())) == len(list(Mine().parameters())) == 2


def test_words_of_to(lib):
    parse = lib._C._nn._parse_to
    cpu = lib.device("cpu")
    assert parse(lib.float64) == (None, lib.float64, False, None)
    assert parse("cpu", lib.float16, True) == (cpu, lib.float16, True, None)
    assert parse(lib.ones(2).double()) == (cpu, lib.float64, False, None)
    assert parse(memory_format=lib.channels_last) == (None, None, False, lib.channels_last)


def test_states_of_the_extension(lib):
    C = lib._C
    x = lib.ones(3)
    assert C._is_alias_of(x, x[1:]) and not C._is_alias_of(x, x.clone())
    seen = []
    lib.func.grad(lambda y: (seen.append(C._are_functorch_transforms_active()), y.sum())[1])(x)
    assert seen == [True] and not C._are_functorch_transforms_active()
    assert str(C._get_default_device()) == "cpu" and not C._is_torch_function_mode_enabled()
    for name in ("Graph", "Value", "Node"):
        assert not isinstance(x, getattr(C, name))


def test_numbers_of_tensors(lib):
    x = lib.ones(2)
    alias = x.detach()
    assert isinstance(x._cdata, int) and x._cdata == x._cdata != alias._cdata


def test_states_of_no_devices(lib):
    if lib.cuda.is_available():
        pytest.skip("there are devices")
    assert lib.cuda.get_rng_state_all() == [] and lib.cuda.set_rng_state_all([]) is None


def test_assert_async(lib):
    lib._assert_async(lib.tensor(2.0))
    with pytest.raises(RuntimeError, match="single nonzero value, but got zero"):
        lib._assert_async(lib.tensor(0))
    with pytest.raises(RuntimeError, match="no luck"):
        lib._assert_async(lib.tensor(False), "no luck")
    with pytest.raises(RuntimeError, match="ambiguous"):
        lib._assert_async(lib.ones(2))


def test_the_steps_of_vmap_can_be_replaced(lib, monkeypatch):
    steps = importlib.import_module("torch._functorch.vmap" if lib.__name__ == "torch" else "tede.func._vmap")
    before = steps._process_batched_inputs, steps._create_batched_inputs, steps._unwrap_batched
    seen = []

    def wrapped(step):
        def call(*args):
            seen.append(step.__name__)
            return step(*args)
        return call
    for step in before:
        monkeypatch.setattr(steps, step.__name__, wrapped(step))
    assert lib.func.vmap(lambda x: x * 2)(lib.ones(3)).tolist() == [2, 2, 2]
    assert seen == [step.__name__ for step in before]


def test_members_and_batches(lib):
    steps = importlib.import_module("torch._functorch.vmap" if lib.__name__ == "torch" else "tede.func._vmap")

    def f(x):
        level = lib._C._functorch.maybe_current_level() if hasattr(lib._C._functorch, "maybe_current_level") else 1
        inner = steps._add_batch_dim(lib.arange(6.0).reshape(2, 3), 1, level)
        assert inner.shape == (2,)
        assert steps._remove_batch_dim(inner, level, 3, 0).tolist() == [[0, 3], [1, 4], [2, 5]]
        assert steps._maybe_remove_batch_dim("f", inner, level, 3, 1).shape == (2, 3)
        with pytest.raises(ValueError, match="must only return Tensors"):
            steps._maybe_remove_batch_dim("f", 3, level, 3, 0)
        return x
    lib.func.vmap(f)(lib.ones(3))


def test_the_tracers_warning_can_be_filtered(lib):
    assert issubclass(lib.jit.TracerWarning, Warning)


def test_generators_of_the_processor_have_no_offset_and_can_be_referred_to_weakly(lib):
    generator = lib.Generator()
    reference = weakref.ref(generator)
    assert reference() is generator
    for name, arguments in (("get_offset", ()), ("set_offset", (4,))):
        with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
            getattr(generator, name)(*arguments)
    for name, arguments in (("graphsafe_get_state", ()), ("graphsafe_set_state", (generator,))):
        with pytest.raises(NotImplementedError, match=f"{name} is not supported in this Generator"):
            getattr(generator, name)(*arguments)
    del generator, arguments
    assert reference() is None


def test_functions_take_attributes(lib):
    relu = lib.nn.functional.leaky_relu
    relu.mark = [1]
    try:
        assert relu.mark == [1] and relu.__dict__["mark"] == [1] and functools.wraps(relu)(lambda: 0).mark == [1]
        assert getattr(lib.nn.functional.hardtanh, "mark", None) is None
    finally:
        del relu.mark
    assert not hasattr(relu, "mark") and relu(lib.tensor(-1.0)) < 0


def test_types_of_schemas_are_objects(lib):
    schema = lib._C.parse_schema("a::b(Tensor x, int[2]? n, SymInt k, Device d, float[] f, str s, Generator? g) -> Tensor")
    types = [argument.type for argument in schema.arguments]
    assert [str(t) for t in types] == ["Tensor", "Optional[List[int]]", "int", "Device", "List[float]", "str", "Optional[Generator]"]
    assert [t.str() for t in types] == ["Tensor", "int[]?", "int", "Device", "float[]", "str", "Generator?"]
    assert lib.DictType(lib.StringType.get(), lib.TupleType([lib.NumberType.get(), lib.FloatType.get()])).str() == "Dict(str, (Scalar, float))"
    assert [t.kind() for t in types] == ["TensorType", "OptionalType", "IntType", "DeviceObjType", "ListType", "StringType",
                                         "OptionalType"]
    assert isinstance(types[0], lib.TensorType) and isinstance(types[1].getElementType(), lib.ListType)
    assert types[2] == lib.IntType.get() and types[4] == lib.ListType.ofFloats() != lib.ListType.ofInts()
    assert types[2].isSubtypeOf(lib.NumberType.get()) and types[2].isSubtypeOf(lib.OptionalType(lib.IntType.get()))
    assert not types[2].isSubtypeOf(lib.StringType.get()) and types[4].isSubtypeOf(lib.AnyType.get())
    assert str(lib.DictType(lib.StringType.get(), lib.TupleType([lib.BoolType.get(), lib.FloatType.get()]))) == \
        "Dict[str, Tuple[bool, float]]"
    with pytest.raises(TypeError, match="No constructor defined"):
        lib.DeviceObjType()


@pytest.mark.parametrize("text, printed", [
    ("a::b(Tensor! x) -> Tensor", "a::b(Tensor($0! -> ) x) -> Tensor"),
    ("a::b(Tensor!? x, Tensor![] y) -> ()", "a::b(Tensor($0! -> )? x, Tensor($1! -> )[] y) -> ()"),
    ("a::b(Tensor x, Tensor! y, Tensor! z) -> Tensor!", "a::b(Tensor x, Tensor($0! -> ) y, Tensor($1! -> ) z) -> Tensor($2! -> )"),
    ("a::b(Tensor(a!) x, int! n) -> Tensor(a!)", "a::b(Tensor(a!) x, int($0! -> ) n) -> Tensor(a!)")])
def test_what_a_schema_writes_to_needs_no_name(lib, text, printed):
    schema = lib._C.parse_schema(text)
    assert str(schema) == printed and schema.is_mutable
    writes = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    assert writes == ["!" in part for part in text.partition("->")[0].split(",")]


def test_an_operator_with_such_a_schema_writes(lib):
    with lib.library._scoped_library("bare_marks", "DEF") as library:
        library.define("fill(Tensor! x, int n) -> ()")
        library.impl("fill", lambda x, n: [x.fill_(n)].clear(), "CPU")
        x = lib.zeros(2)
        version = x._version
        lib.ops.bare_marks.fill(x, 3)
        assert x.tolist() == [3, 3] and x._version > version


def test_references_to_storages_are_equal_where_tensors_share(lib):
    reductions = importlib.import_module(f"{lib.__name__}.multiprocessing.reductions")
    tied = {"a": lib.ones(3), "c": lib.ones(5000)}
    tied["b"] = tied["a"][1:]
    keys = {name: reductions.StorageWeakRef(x.untyped_storage()) for name, x in tied.items()}
    assert keys["a"] == keys["b"] != keys["c"] and len(set(keys.values())) == 2 and hash(keys["a"]) == hash(keys["b"])
    del tied["a"]
    assert not any(key.expired() for key in keys.values())
    tied.clear()
    assert all(key.expired() for key in keys.values())
    others = [lib.ones(3) for _ in range(4)]
    assert keys["a"] not in {reductions.StorageWeakRef(x.untyped_storage()) for x in others}


def test_vectors_of_several_tensors(lib):
    utils = importlib.import_module(f"{lib.__name__}._utils")
    tensors = [lib.arange(4.0).reshape(2, 2), lib.zeros(0, 3), lib.tensor(7.0)]
    flat = utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 7]
    parts = utils._unflatten_dense_tensors(flat * 2, tensors)
    assert [x.tolist() for x in parts] == [[[0, 2], [4, 6]], [], 14] and [x.shape for x in parts] == [x.shape for x in tensors]
    sparse = [lib.eye(2).to_sparse(), lib.ones(1, 3).to_sparse()]
    flat = utils._flatten_sparse_tensors(sparse)
    again = utils._unflatten_sparse_tensors(flat, sparse)
    assert [x.to_dense().tolist() for x in again] == [x.to_dense().tolist() for x in sparse]
    mixed = [lib.ones(4), lib.ones(2, dtype=lib.int64), lib.ones(4), lib.ones(4)]
    groups = list(utils._take_tensors(mixed, 32))
    assert [[tuple(x.shape) for x in group] for group in groups] == [[(4,), (4,)], [(4,)], [(2,)]]
    assert [x.dtype for x in utils._reorder_tensors_as([x for group in groups for x in group], mixed)] == [x.dtype for x in mixed]
    with pytest.warns(UserWarning, match="is_compiling"):
        assert utils.is_compiling() is False
    assert utils._get_device_index(3) == 3 and utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        utils._get_device_index("cpu")


def test_batches_are_pinned_through_their_containers(lib):
    module = importlib.import_module(f"{lib.__name__}.utils.data._utils.pin_memory")

    class Pinned:
        def pin_memory(self):
            return "pinned"
    Pair = collections.namedtuple("Pair", "a b")
    batch = {"x": [Pinned(), "text"], "y": Pair(Pinned(), b"b"), "z": (Pinned(), range(2), 3)}
    assert module.pin_memory(batch) == {"x": ["pinned", "text"], "y": Pair("pinned", b"b"), "z": ("pinned", [0, 1], 3)}


def test_words_for_isinstance_and_annotations(lib):
    assert isinstance(lib.nn.Parameter(lib.ones(1)), lib.nn.Parameter) and type(lib.nn.Parameter) is lib.nn.parameter._ParameterMeta
    assert not lib._C._has_xpu and not lib._C._is_tracing() and lib._C._get_privateuse1_backend_name() == "privateuseone"
    assert issubclass(lib.futures.Future, lib.Future)
    pattern = importlib.import_module(f"{lib.__name__}.utils.data._utils.collate").np_str_obj_array_pattern
    assert pattern.search("<U3") and not pattern.search("<f4")


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "CrossEntropyLoss", "LayerNorm", "AvgPool2d", "Embedding", "ReLU", "BatchNorm1d",
                                  "MaxPool3d", "GRU", "GroupNorm", "Dropout"])
def test_modules_are_annotated(both, name):
    def hints(lib):
        cls = getattr(lib.nn, name)
        return {key: str(value).replace(lib.__name__, "lib").replace("typing.", "") for base in cls.__mro__[:-1]
                for key, value in inspect.get_annotations(base).items()
                if base is not lib.nn.Module and key[0] != "_" and str(value).count("[") < 2 and "Literal" not in str(value)
                and "Union" not in str(value)}
    ours, theirs = map(hints, both)
    assert theirs and {key: ours.get(key) for key in theirs} == theirs


def test_hints_of_a_loss_are_found(lib):
    hints = typing.get_type_hints(lib.nn.CrossEntropyLoss(), globalns={}, localns={})
    assert hints["ignore_index"] is int and hints["label_smoothing"] is float


def test_modules_that_come_with_their_packages(lib):
    assert lib.amp.grad_scaler.GradScaler is lib.amp.GradScaler and lib.amp.autocast_mode.autocast is lib.amp.autocast
    names = {}
    exec(f"from {lib.__name__}.fft import *", names)
    assert {"fft", "irfftn", "fftfreq", "rfftfreq", "ifftshift"} <= names.keys() and names.keys() - {"__builtins__"} == set(lib.fft.__all__)
    utils = importlib.import_module(f"{lib.__name__}._dynamo.utils")
    with pytest.warns(UserWarning, match="once only"):
        utils.warn_once("once only")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        utils.warn_once("once only")


def test_data_of_a_parameter_subclass_is_a_plain_tensor(lib):
    class Quantized(lib.nn.Parameter):
        pass

    class Made(lib.nn.Parameter):
        @staticmethod
        def __new__(cls, data, requires_grad=True):
            return lib.Tensor._make_subclass(cls, data, requires_grad)

    class Kind(lib.Tensor):
        pass

    class Aside(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl
    for cls in (lib.nn.Parameter, Quantized, Made, Aside):
        x = cls(lib.ones(2)) if issubclass(cls, lib.nn.Parameter) else lib.ones(2).as_subclass(cls)
        assert type(x) is cls and {type(x.data), type(x.data.data), type(x.detach())} == {lib.Tensor}
        assert x.data.data_ptr() == x.data_ptr() and not x.data.requires_grad
    x = lib.ones(2).as_subclass(Kind)           # its class hasn't given up __torch_function__
    assert type(x.data) is type(x.detach()) is Kind
    with lib._C.DisableTorchFunctionSubclass():
        assert type(x.data) is type(x.detach()) is lib.Tensor
    assert type(lib.nn.Buffer(lib.ones(2)).data) is type(lib.nn.Buffer(lib.ones(2)).detach()) is lib.Tensor
    lazy = lib.nn.UninitializedParameter()
    assert type(lazy.data) is lib.Tensor
    with pytest.raises(ValueError, match="uninitialized parameter"):
        lazy.detach()


@pytest.mark.parametrize("mode", ["triangular", "triangular2", "exp_range"])
def test_the_state_of_a_cyclic_schedule(lib, mode):
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return self.factor

    def schedule(**kwargs):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1, momentum=0.9)
        return lib.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, 4, **kwargs)
    first = schedule(mode=mode, gamma=0.5)
    for _ in range(10):
        first.optimizer.step()
        first.step()
    state = first.state_dict()
    assert set(state) == {"max_lrs", "total_size", "step_ratio", "mode", "gamma", "scale_mode", "cycle_momentum", "use_beta1",
                          "base_momentums", "max_momentums", "base_lrs", "last_epoch", "_step_count", "_is_initial",
                          "_get_lr_called_within_step", "_last_lr", "_scale_fn_custom"}
    assert state["_scale_fn_custom"] is None and state["scale_mode"] == ("iterations" if mode == "exp_range" else "cycle")
    second = schedule()
    second.load_state_dict(dict(state, scale_mode="neither"))       # the mode decides
    assert second.scale_mode == state["scale_mode"] and second.get_last_lr() == first.get_last_lr()
    assert second.scale_fn(3) == first.scale_fn(3) == {"triangular": 1.0, "triangular2": 0.25, "exp_range": 0.125}[mode]
    assert schedule(scale_fn=lambda x: 1.0).state_dict()["_scale_fn_custom"] is None
    state = schedule(scale_fn=Scale(3)).state_dict()
    assert state["_scale_fn_custom"] == {"factor": 3}
    other = schedule(scale_fn=Scale(9))
    other.load_state_dict(state)
    assert other.scale_fn(1) == 3


def test_statistics_where_no_accelerator_is(lib):
    accelerator = lib.accelerator
    if accelerator.is_available():
        pytest.skip("an accelerator is there")
    for name in ("memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "empty_cache",
                 "get_memory_info", "reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            getattr(accelerator, name)()
    assert lib.xpu.get_rng_state_all() == []


def test_private_names_that_libraries_import(lib):
    optimizer = importlib.import_module(f"{lib.__name__}.optim.optimizer")
    loader = importlib.import_module(f"{lib.__name__}.utils.data.dataloader")
    assert len(typing.get_args(optimizer.ParamsT)) == 3 and typing.get_args(loader._worker_init_fn_t) == ([int], None)
    assert loader._collate_fn_t
    assert lib.Tensor.grad.__get__ in lib.overrides.get_default_nowrap_functions()
    assert lib.Tensor.T.__get__ not in lib.overrides.get_default_nowrap_functions()

    class Named(lib.optim.Optimizer):
        @optimizer._use_grad_for_differentiable
        def step(self, closure=None):
            """A step."""
            return lib.is_grad_enabled()
    weight = lib.nn.Parameter(lib.ones(1))
    assert [Named([weight], {"differentiable": flag}).step() for flag in (True, False)] == [True, False]
    assert Named.step.__doc__ == "A step." and lib.is_grad_enabled()


@pytest.mark.parametrize("name", ["nn.modules.activation", "nn.modules.conv", "nn.modules.loss", "nn.modules.module", "nn.modules.rnn",
                                  "optim.adam", "optim.lr_scheduler", "optim.optimizer", "optim.sgd", "distributions.kl"])
def test_the_names_that_a_module_hands_out(both, name):
    ours, theirs = (importlib.import_module(f"{lib.__name__}.{name}") for lib in both)
    assert set(ours.__all__) == set(theirs.__all__) and all(hasattr(ours, word) for word in ours.__all__)


def test_what_an_optimizer_chooses_by_default(lib):
    choose = importlib.import_module(f"{lib.__name__}.optim.optimizer")._default_to_fused_or_foreach
    weights = [lib.nn.Parameter(lib.ones(1)), None, lib.ones(2)]
    assert choose(weights, False) == (False, False) and choose(weights, False, use_fused=True) == (True, False)
    assert choose(weights, True, use_fused=True) == (False, False) and choose([None], False) == (False, True)
    assert choose([lib.ones(1, dtype=lib.int64)], False, use_fused=True) == (False, False)


def test_names_for_a_compiler_that_nothing_compiles_without(lib):
    np = pytest.importorskip("numpy")
    compiler = importlib.import_module(f"{lib.__name__}.compiler")
    twice = compiler.wrap_numpy(lambda a, scale=1.: {"sum": np.sum(a * a) * scale, "twice": 2 * a})
    found = twice(lib.arange(3.), scale=2.)
    assert found["twice"].tolist() == [0, 2, 4] and float(found["sum"]) == 10 and isinstance(found["twice"], lib.Tensor)
    assert compiler.get_default_backend() == "inductor" and compiler.save_cache_artifacts() is None
    with pytest.raises(TypeError, match="backend must be a string or callable, got <class 'int'>"):
        compiler.set_default_backend(3)
    entries = [types.SimpleNamespace(guard_type=kind, is_global=shared, value=value) for kind, shared, value in (
        ("TENSOR_MATCH", False, lib.ones(1)), ("TENSOR_MATCH", True, lib.nn.Parameter(lib.ones(1))), ("SHAPE_ENV", False, 3))]
    assert compiler.keep_portable_guards_unsafe(entries) == [True, False, True]
    assert compiler.keep_tensor_guards_unsafe(entries) == [True, False, False]
    assert compiler.keep_tensor_guards_unsafe(entries, keep_parameters=True) == [True, True, False]
    assert compiler.skip_guard_on_globals_unsafe(entries) == [True, False, True] and compiler.skip_all_guards_unsafe(entries) == [False] * 3


def test_what_needs_an_accelerator_says_so(lib):
    accelerator = importlib.import_module(f"{lib.__name__}.accelerator")
    parallel = lib.nn.parallel
    if lib.__name__ == "torch" and accelerator.is_available():
        pytest.skip("there is one")
    assert parallel.replicate(lib.nn.Linear(1, 1), []) == []
    with pytest.raises(AssertionError):
        parallel.replicate(lib.nn.Linear(1, 1), [0])
    with pytest.raises(AssertionError, match="The number of modules 1 is not equal to the number of inputs 2"):
        parallel.parallel_apply([lib.nn.Linear(1, 1)], [lib.ones(1)] * 2)
    for call in (lambda: parallel.parallel_apply([lib.nn.Linear(1, 1)], [lib.ones(1)]), accelerator.empty_host_cache):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            call()


def test_helpers_that_optimizers_of_others_use(lib):
    optimizer = importlib.import_module(f"{lib.__name__}.optim.optimizer")
    assert optimizer._get_value(lib.tensor(2.5)) == 2.5 and optimizer._get_value(3) == 3
    assert optimizer._to_scalar(lib.ones(1, 1)).dim() == 0 and optimizer._to_scalar(2.) == 2
    assert optimizer._get_scalar_dtype() == optimizer._get_scalar_dtype(is_fused=True) == lib.float32
    assert optimizer._get_capturable_supported_devices(supports_xla=False) == ["cuda", "xpu", "hpu", "privateuseone"]
    params, states = [lib.ones(2, dtype=lib.complex64), lib.ones(3)], [lib.zeros(2, dtype=lib.complex64), lib.zeros(3)]
    optimizer._view_as_real(params, states)
    assert [tuple(p.shape) for p in params] == [tuple(s.shape) for s in states] == [(2, 2), (3,)]
    assert optimizer._disable_dynamo_if_unsupported()(abs)(-2) == 2
    optimizer._device_dtype_check_for_fused(lib.ones(1))
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
        optimizer._device_dtype_check_for_fused(lib.ones(1, dtype=lib.int64))
    assert lib.nn.Parameter in optimizer._foreach_supported_types


def test_adafactor_as_a_function(lib):
    adafactor = importlib.import_module(f"{lib.__name__}.optim._adafactor").adafactor
    options = {"d": 1., "lr": .1, "beta2_decay": -.8, "weight_decay": .1, "eps1": 1e-7, "eps2": 1e-3, "maximize": False}
    start = [lib.arange(6.).reshape(2, 3) / 4, lib.ones(3)]
    grads = [lib.arange(6.).reshape(2, 3) - 2, lib.tensor([1., -2., 3.])]
    params = [p.clone() for p in start]
    rows, columns, variances = [lib.zeros(2, 1), None], [lib.zeros(1, 3), None], [None, lib.zeros(3)]
    steps = [lib.tensor(0.), lib.tensor(0.)]
    leaves = [lib.nn.Parameter(p.clone()) for p in start]
    whole = lib.optim.Adafactor(leaves, lr=.1, weight_decay=.1, eps=(1e-7, 1e-3))
    for _ in range(3):
        adafactor(params, grads, rows, columns, variances, steps, **options)
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad.clone()
        whole.step()
    for p, leaf in zip(params, leaves):
        lib.testing.assert_close(p, leaf.detach())
    assert [s.item() for s in steps] == [3, 3]


def test_constraints_that_programs_import_by_star(lib):
    assert {"is_dependent", "MixtureSameFamilyConstraint"} <= set(lib.distributions.constraints.__all__)


def test_the_older_amp_says_whether_it_can_be(lib):
    common = importlib.import_module(f"{lib.__name__}.cuda.amp" + (".common" if lib.__name__ == "torch" else ""))
    assert common.amp_definitely_not_available() is not lib.cuda.is_available()
