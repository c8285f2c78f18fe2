"""__torch_function__ on subclasses, on other classes, and modes."""
import copy
import importlib

import pytest


# ---- subclasses --------------------------------------------------------------------------------------------------------

def logging(lib):
    class Logging(lib.Tensor):
        log = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.log.append(func)
            return super().__torch_function__(func, types, args, kwargs)
    Logging.log = []
    return Logging


def test_a_subclass_sees_its_calls(lib):
    Logging = logging(lib)
    x = lib.ones(2).as_subclass(Logging)
    y = lib.add(x, 1)
    z = x + y
    w = y.sum()
    assert all(type(t) is Logging for t in (y, z, w))
    assert Logging.log[0] is lib.add and lib.Tensor.add in Logging.log and lib.Tensor.sum in Logging.log
    x.shape
    assert Logging.log[-1] == lib.Tensor.shape.__get__


def test_without_a_function_of_its_own(lib):
    class Plain(lib.Tensor):
        pass
    x = lib.ones(2).as_subclass(Plain)
    assert type(x + 1) is Plain and type(x.sum()) is Plain and type(x[0]) is Plain
    assert type(lib.stack([x, lib.ones(2)])) is Plain
    assert all(type(t) is Plain for t in x.split(1))
    class Off(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl
    assert type(lib.ones(2).as_subclass(Off) + 1) is lib.Tensor


def test_subclasses_go_before_bases(lib):
    seen = []

    class Base(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(cls.__name__)
            return NotImplemented if cls.__name__ == "Derived" else "done"

    class Derived(Base):
        pass
    a, b = lib.ones(1).as_subclass(Base), lib.ones(1).as_subclass(Derived)
    assert lib.add(a, b) == "done" and seen == ["Derived", "Base"]


def test_nobody_answers(lib):
    class Refuses:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented
    with pytest.raises(TypeError, match=r"(?i)multiple dispatch failed|no implementation found"):
        lib.add(Refuses(), lib.ones(1))


# ---- classes that are no tensors -------------------------------------------------------------------------------------

def diagonal(lib, handled):
    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in handled:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))
    return Diagonal


def test_a_duck_type(lib):
    handled = {}
    Diagonal = diagonal(lib, handled)
    handled[lib.mean] = lambda d: d.value / d.n
    handled[lib.matmul] = lambda a, b: "product"
    handled[lib.cat] = lambda ds, dim=0: f"cat of {len(ds)}"
    handled[lib.where] = lambda c, a, b: "where"
    d = Diagonal(4, 2.0)
    assert lib.mean(d) == 0.5
    assert lib.matmul(lib.ones(2, 2), d) == "product" and lib.matmul(d, d) == "product"
    assert lib.cat([lib.ones(1), d]) == "cat of 2" and lib.where(lib.ones(1).bool(), d, 1.0) == "where"
    with pytest.raises(TypeError):
        lib.sum(d)


def test_keywords_count_too(lib):
    handled = {}
    Diagonal = diagonal(lib, handled)
    handled[lib.add] = lambda *args, **kwargs: (len(args), sorted(kwargs))
    assert lib.add(lib.ones(1), other=Diagonal(1, 1.0)) == (1, ["other"])
    assert lib.add(lib.ones(1), lib.ones(1), out=Diagonal(1, 1.0)) == (2, ["out"])


def test_functions_of_one_s_own(lib):
    overrides = lib.overrides

    def mine(x, scale=1):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(mine, (x,), x, scale=scale)
        return x * scale
    handled = {}
    Diagonal = diagonal(lib, handled)
    handled[mine] = lambda x, scale: ("mine", scale)
    assert mine(Diagonal(1, 1.0), 3) == ("mine", 3)
    assert mine(lib.ones(1), 3).item() == 3
    assert overrides.has_torch_function_unary(Diagonal(1, 1)) and not overrides.has_torch_function_variadic(1, lib.ones(1))

    @overrides.wrap_torch_function(lambda x: (x,))
    def wrapped(x):
        return "plain"
    handled[wrapped] = lambda x: "handled"
    assert wrapped(1) == "plain" and wrapped(Diagonal(1, 1)) == "handled"


def test_tensor_likes(lib):
    like = lib.overrides.is_tensor_like
    Diagonal = diagonal(lib, {})
    assert like(lib.ones(1)) and like(Diagonal(1, 1)) and not like([1]) and not like(3)


def test_guards(lib):
    Logging = logging(lib)
    x = lib.ones(1).as_subclass(Logging)
    with lib._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is lib.Tensor
    assert not Logging.log


# ---- modes -----------------------------------------------------------------------------------------------------------

def test_a_mode_sees_all_calls(lib):
    seen = []

    class Log(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    x = lib.ones(2)
    with Log():
        y = lib.add(x, 1)
        x * 2
        x.sum()
        lib.zeros(3)
        lib.nn.functional.relu(x)
    assert y.tolist() == [2.0, 2.0]
    assert seen[0] is lib.add and lib.zeros in seen and lib.Tensor.sum in seen
    assert any(getattr(f, "__name__", "") == "relu" for f in seen)
    n = len(seen)
    x + 1
    assert len(seen) == n


def test_a_mode_changes_results(lib):
    class Ones(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is lib.zeros:
                func = lib.ones
            return func(*args, **(kwargs or {}))
    with Ones():
        assert lib.zeros(2).tolist() == [1.0, 1.0]
    with Ones(), lib._C.DisableTorchFunction():
        assert lib.zeros(2).tolist() == [0.0, 0.0]


def test_modes_within_modes(lib):
    order = []

    class Named(lib.overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))
    with Named("outer"), Named("inner"):
        lib.add(lib.ones(1), 1)
    assert order[-2:] == ["inner", "outer"]
    with pytest.raises(KeyError), Named("a"):
        raise KeyError
    order.clear()
    lib.add(lib.ones(1), 1)
    assert not order


def test_modes_before_classes(lib):
    Logging = logging(lib)
    seen = []

    class Log(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(types)
            return func(*args, **(kwargs or {}))
    x = lib.ones(1).as_subclass(Logging)
    with Log():
        lib.add(x, x)
    assert Logging in tuple(seen[0]) and lib.add in Logging.log


def test_names(lib):
    overrides = lib.overrides
    functions = overrides.get_overridable_functions()
    assert lib.add in functions[lib] and lib.Tensor.add in functions[lib.Tensor] and lib.nn.functional.linear in functions[lib.nn.functional]
    assert overrides.resolve_name(lib.Tensor.add) == "torch.Tensor.add" and overrides.resolve_name(lib.add) == "torch.add"
    assert lib.add in overrides.get_testing_overrides()
    assert overrides.is_tensor_method_or_property(lib.Tensor.add) and not overrides.is_tensor_method_or_property(lib.add)
    assert lib.zeros in overrides.get_ignored_functions()


def test_sizes_and_strides_of_subclasses_take_their_arguments(lib):
    class Mine(lib.Tensor):
        pass
    x = lib.ones(2, 3).as_subclass(Mine)
    assert x.size(1) == 3 and x.size(dim=0) == 2 and tuple(x.size()) == (2, 3) and x.stride(0) == 3 and x.stride(dim=1) == 1


@pytest.mark.parametrize("call", [
    lambda lib, x: x.dim(), lambda lib, x: x.ndimension(), lambda lib, x: x.numel(), lambda lib, x: x.data_ptr(),
    lambda lib, x: x.is_contiguous(), lambda lib, x: x.is_complex(), lambda lib, x: x.is_shared(), lambda lib, x: float(x),
    lambda lib, x: x.__index__(), lambda lib, x: x.register_hook(print), lambda lib, x: x.type(), lambda lib, x: lib.is_complex(x),
    lambda lib, x: lib.atleast_1d(x), lambda lib, x: lib.split(x, 1), lambda lib, x: lib.zeros(2)[x],
    lambda lib, x: lib.nn.init.constant_(x, 1)])
def test_whatever_asks_a_tensor_asks_its_class_first(lib, call):
    class Counted(lib.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            return 2.5 if func.__name__ == "__float__" else 7
    x = lib.ones(()).as_subclass(Counted)
    assert call(lib, x) in (7, 2.5) and len(Counted.seen) == 1


def test_a_mode_sees_what_asks_a_tensor(lib):
    seen = []

    class Seeing(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))
    x = lib.ones(3)
    with Seeing():
        assert len(x) == 3 and x.dim() == 1 and x.storage_offset() == 0 and lib.is_floating_point(x)
    assert seen == ["__len__", "dim", "storage_offset", "is_floating_point"]


def test_a_mode_whose_method_is_the_classes_is_refused(lib):
    class Wrong(lib.overrides.TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    with pytest.raises(RuntimeError, match="classmethod is not supported, please make it a plain method"), Wrong():
        lib.ones(1) + 1


def test_modes_are_asked_by_operators_of_plain_tensors(lib):
    asked = []

    class Listening(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            asked.append(getattr(function, "__name__", ""))
            return function(*args, **kwargs or {})

    x, m = lib.ones(3), lib.ones(2, 2)
    with Listening():
        results = [x + x, 1 + x, x * 2, x - 1.0, m @ m, x > 0, x / 2]
        x.requires_grad_(requires_grad=False)
    assert [name.strip("_") for name in asked] == ["add", "add", "mul", "sub", "matmul", "gt", "div", "requires_grad"]
    assert [r.sum().item() for r in results] == [6, 6, 6, 0, 8, 3, 1.5]


# ---- functions that are no operators -----------------------------------------------------------------------------------

class Recording:
    """A class of no tensors that takes whatever it is given to, and says so."""
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return "taken"


@pytest.mark.parametrize("call", [
    lambda lib, r: (lib.nn.functional.relu, lib.nn.functional.relu(r)),
    lambda lib, r: (lib.nn.functional.glu, lib.nn.functional.glu(r)),
    lambda lib, r: (lib.nn.functional.relu6, lib.nn.functional.relu6(r, inplace=True)),
    lambda lib, r: (lib.nn.functional.cross_entropy, lib.nn.functional.cross_entropy(lib.ones(2, 3), r)),
    lambda lib, r: (lib.nn.functional.mse_loss, lib.nn.functional.mse_loss(lib.ones(2), target=r)),
    lambda lib, r: (lib.nn.functional.pad, lib.nn.functional.pad(r, (1, 1))),
    lambda lib, r: (lib.nn.functional.layer_norm, lib.nn.functional.layer_norm(r, (3,))),
    lambda lib, r: (lib.autograd.grad, lib.autograd.grad(r, r)),
    lambda lib, r: (lib.result_type, lib.result_type(r, 1)),
])
def test_functions_in_python_are_taken_over_by_their_own_name(lib, call):
    Recording.seen = []
    function, result = call(lib, Recording())
    assert result == "taken" and Recording.seen == [function]


def test_a_mode_is_told_of_the_function_not_of_its_operators(lib):
    F, seen = lib.nn.functional, []

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    x, target = lib.ones(2, 3), lib.tensor([0, 1])
    with Mode():
        F.softmax(x, -1)
        F.cross_entropy(x, target)
        F.dropout(x, 0.5)
        lib.sparse_coo_tensor([[0]], [1.], (2,))
    assert seen == [F.softmax, F.cross_entropy, F.dropout, lib.sparse_coo_tensor]


def test_a_function_that_is_asked_for_is_still_a_function(lib):
    import copy
    import inspect
    import pickle
    relu = lib.nn.functional.relu
    assert pickle.loads(pickle.dumps(relu)) is relu and copy.deepcopy(relu) is relu
    assert list(inspect.signature(relu).parameters) == ["input", "inplace"] and relu.__name__ == "relu" and relu.__doc__
    assert relu(input=lib.tensor([-1., 2.]), inplace=True).tolist() == [0., 2.]


@pytest.mark.parametrize("name", ["is_cuda", "is_sparse", "is_sparse_csr", "is_meta", "is_quantized", "is_nested", "is_xpu"])
def test_what_kind_of_tensor_it_is_is_the_class_to_say(lib, name):
    class Pretending(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func == getattr(lib.Tensor, name).__get__
    assert getattr(lib.ones(2).as_subclass(Pretending), name) is True
    assert getattr(lib.ones(2), name) is False


def test_enabling_within_what_is_disabled(lib):
    Logging, seen = logging(lib), []
    x = lib.ones(2).as_subclass(Logging)

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    with lib._C.DisableTorchFunctionSubclass():
        guard = lib._C._EnableTorchFunction()
        assert type(lib.sum(x)) is Logging
        del guard
        assert type(lib.sum(x)) is lib.Tensor
    with Mode(), lib._C.DisableTorchFunction():
        assert type(lib.sum(x)) is lib.Tensor and seen == []
        with lib.overrides._enable_torch_function():
            assert type(lib.sum(x)) is Logging and seen[0] is lib.sum


def test_a_mode_entered_while_all_is_disabled_leaves_the_others_alone(lib):
    seen = []

    class Mode(lib.overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(self.name)
            return func(*args, **(kwargs or {}))
    x = lib.ones(2)
    with Mode("outer"):
        with lib._C.DisableTorchFunction():
            with Mode("inner"):
                lib.sum(x)
            lib.sum(x)
        assert seen == []
        lib.sum(x)
    assert seen == ["outer"]


def test_values_broadcast_beside_a_class_of_no_tensors(lib):
    from importlib import import_module
    broadcast_all = import_module(lib.__name__ + ".distributions.utils").broadcast_all
    Recording.seen = []
    assert broadcast_all(Recording(), 1.) == "taken" and Recording.seen == [lib.functional.broadcast_tensors]


def test_what_operators_of_python_are_told_as(lib):
    seen = []

    class Overriding(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func, [type(a) for a in args]))
            return super().__torch_function__(func, types, args, kwargs or {})

    T, x, i = lib.Tensor, lib.ones(2, 2).as_subclass(Overriding), lib.ones(2, dtype=lib.int64).as_subclass(Overriding)
    for run, method, kinds in (
            (lambda: x + 1, T.add, [Overriding, int]), (lambda: 1 + x, T.add, [Overriding, int]), (lambda: 1 - x, T.__rsub__, [Overriding, int]),
            (lambda: 2 * x, T.mul, [Overriding, int]), (lambda: 2 / x, T.__rtruediv__, [Overriding, int]), (lambda: x // 2, T.__floordiv__, [Overriding, int]),
            (lambda: 2 // x, T.__rfloordiv__, [Overriding, int]), (lambda: x ** 2, T.__pow__, [Overriding, int]), (lambda: 2 ** x, T.__rpow__, [Overriding, int]),
            (lambda: 5 % x, T.__rmod__, [Overriding, int]), (lambda: i & 1, T.__and__, [Overriding, int]), (lambda: 1 | i, T.bitwise_or, [Overriding, int]),
            (lambda: 1 << i, T.__rlshift__, [Overriding, int]), (lambda: i >> 1, T.__rshift__, [Overriding, int]), (lambda: +x, T.positive, [Overriding]),
            (lambda: x == 1, T.__eq__, [Overriding, int]), (lambda: x == None, T.__eq__, [Overriding, type(None)]), (lambda: x < 1, T.lt, [Overriding, int]),  # noqa: E711
            (lambda: 1 in x, T.__contains__, [Overriding, int]), (lambda: i.__ior__(1), T.__ior__, [Overriding, int]),
            (lambda: lib.ones(2, 2) @ x, T.matmul, [lib.Tensor, Overriding])):
        seen.clear()
        run()
        assert seen[0] == (method, kinds)
    assert (x == None) is False  # noqa: E711


def test_a_type_error_of_a_handler_leaves_it_to_the_other_operand(lib):
    class Strict(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Other:
        def __radd__(self, left):
            return "other's"
    x = lib.ones(2).as_subclass(Strict)
    assert x + Other() == "other's"
    with pytest.raises(TypeError, match="unsupported operand type"):
        x + 1


def test_modes_see_factories_of_data(lib):
    seen = []

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    x = lib.ones(2)
    with Mode():
        lib.tensor([1]), lib.as_tensor([1]), lib.asarray([1]), x.new_tensor([1])
    assert seen == [lib.tensor, lib.as_tensor, lib.asarray, lib.Tensor.new_tensor]


def test_a_redispatched_deepcopy_reaches_its_body(lib):
    class Redispatch(lib.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func)
            result = lib.overrides.redispatch_function(func, types, args, kwargs or {})
            return lib.Tensor.as_subclass(result, cls) if type(result) is lib.Tensor else result
    x = lib.ones(2).as_subclass(Redispatch)
    x.mark = [1]
    Redispatch.seen.clear()
    y = copy.deepcopy(x)
    assert type(y) is Redispatch and y.mark == [1] and y.mark is not x.mark and Redispatch.seen[0] is lib.Tensor.__deepcopy__


# ---- every way to an operator is taken over alike ------------------------------------------------------------------------

@pytest.mark.parametrize("call, args, keywords", [
    (lambda lib, x: x.backward(lib.ones(3), retain_graph=True), None, {"gradient", "retain_graph"}),
    (lambda lib, x: x.numpy(force=True), (), {"force"}),
    (lambda lib, x: x.float(memory_format=lib.preserve_format), (), {"memory_format"}),
    (lambda lib, x: x.cpu(memory_format=lib.preserve_format), (), {"memory_format"}),
    (lambda lib, x: x.to(lib.float64, copy=True), (True,), {"copy"})])
def test_a_method_that_is_taken_over_keeps_its_arguments(lib, call, args, keywords):
    seen = []

    class Mine(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((args, kwargs or {}))
            return 7
    x = lib.ones(3).as_subclass(Mine)
    assert call(lib, x) in (7, None)
    args, given = seen[0]
    assert args[0] is x and keywords <= {name for name, value in given.items() if value is not None} | set(
        ["gradient"] if len(args) > 1 else [])


def test_a_subclass_goes_backward_with_a_gradient(lib):
    class Mine(lib.Tensor):
        pass
    x = lib.ones(3, requires_grad=True)
    y = (x * 2).as_subclass(Mine)
    y.backward(lib.tensor([1.0, 2.0, 3.0]), retain_graph=True)
    y.backward(gradient=lib.ones(3))
    assert x.grad.tolist() == [4, 6, 8]


def test_iterating_and_numpy_ask(lib):
    np = pytest.importorskip("numpy")
    seen = []

    class Seeing(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Mine(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)
    x = lib.arange(3.0)
    for call, wanted in [(list, "unbind"), (np.asarray, "__array__"), (np.array, "__array__")]:
        with Seeing():
            got = call(x)
        assert wanted in seen and [float(v) for v in got] == [0, 1, 2]
        seen.clear()
        assert len(call(x.as_subclass(Mine))) == 3 and wanted in seen
        seen.clear()


def test_numbers_in_a_list_that_are_tensors_of_a_class_are_asked(lib):
    class Other(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 5.0 if func.__name__ == "__float__" else super().__torch_function__(func, types, args, kwargs)
    x = lib.tensor(1.0).as_subclass(Other)
    assert lib.tensor([x, x]).tolist() == [5, 5]


def test_which_handlers_are_called_is_a_state_that_can_be_saved_and_set(lib):
    states, get, put = lib._C._TorchFunctionState, lib._C._get_torch_function_state, lib._C._set_torch_function_state

    class Mine(lib.Tensor):
        pass
    x = lib.ones(2).as_subclass(Mine)
    assert get() == states.ENABLED
    with lib._C.DisableTorchFunctionSubclass():
        assert get() == states.SUBCLASSES_DISABLED
        before = get()
        put(states.ENABLED)
        assert type(x + 1) is Mine
        put(before)
        assert type(x + 1) is lib.Tensor
    with lib._C.DisableTorchFunction():
        assert get() == states.ALL_DISABLED
    assert get() == states.ENABLED
    with pytest.raises(TypeError):
        put("on")


def test_attributes_that_can_be_overridden_say_what_they_are(lib):
    overrides = importlib.import_module(lib.__name__ + ".overrides")
    getters = [f.__self__ for f in overrides.get_testing_overrides() if getattr(f, "__name__", "") == "__get__"]
    assert len(getters) > 20 and not [g for g in getters if not hasattr(g, "__qualname__") and not hasattr(g, "fget")]


@pytest.mark.parametrize("sign, name", [("**", "__rpow__"), ("-", "__rsub__"), ("/", "__rtruediv__"), ("//", "__rfloordiv__"), ("%", "__rmod__"),
                                        ("@", "__rmatmul__"), ("<<", "__rlshift__")])
def test_the_second_operands_class_has_its_turn_when_the_firsts_refuses(lib, sign, name):
    class Refusing(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Reflected(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return (args[0] is b, args[1] is a) if func is getattr(lib.Tensor, name) else NotImplemented
    a, b = Refusing(), Reflected()
    assert eval(f"a {sign} b") == (True, True)
    with pytest.raises(TypeError, match="unsupported operand"):
        eval(f"a {sign} c", {"a": a, "c": Refusing()})


def test_memory_methods_can_be_overridden(lib):
    class Class(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args), kwargs or {}
    x = Class([1.])
    assert x.is_pinned() == ("is_pinned", 1, {}) and x.pin_memory() == ("pin_memory", 1, {})
    if lib.__name__ == "tede":          # there is no stream for PyTorch's check of the argument on a machine without devices
        assert x.record_stream(None) == ("record_stream", 2, {})


def test_modes_take_the_constructor_of_devices_over(lib):
    from importlib import import_module
    seen = []

    class Mode(import_module(lib.__name__ + ".overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is lib.device:
                seen.append((args, kwargs or {}))
                if args == ("any",):
                    return lib.device("meta")
            return func(*args, **(kwargs or {}))
    with Mode():
        assert lib.device("cpu", 0) == lib.device(device="cpu:0") and lib.device("any").type == "meta"
    assert seen == [(("cpu", 0), {}), ((), {"device": "cpu:0"}), (("any",), {})]
    with pytest.raises(RuntimeError):
        lib.device("any")


def test_a_handler_that_is_a_plain_method_is_warned_of(lib):
    class Plain:
        def __torch_function__(self, *args, **kwargs):
            pass
    with pytest.warns(DeprecationWarning, match="as a plain method is deprecated"):
        lib.nn.functional.dropout(Plain())


def test_all_that_can_be_overridden_is_found_by_its_name(lib):
    from importlib import import_module
    overrides = import_module(lib.__name__ + ".overrides")
    for functions in overrides.get_overridable_functions().values():
        for function in functions:
            assert eval(overrides.resolve_name(function), {"torch": lib}) == function
    assert overrides.resolve_name(lib.ops.aten.add) == "aten.add"


def test_a_device_decorates_functions_and_generators(lib):
    from importlib import import_module
    set_device = import_module(lib.__name__ + ".utils._device").set_device

    @set_device("meta")
    def both():
        yield lib.empty(1)
        yield lib.empty(1)

    @set_device("meta")
    def one():
        return lib.empty(1)
    assert [x.device.type for x in (*both(), one(), lib.empty(1))] == ["meta", "meta", "meta", "cpu"]
