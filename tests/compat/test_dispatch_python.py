"""__torch_dispatch__: wrapper subclasses and modes, below autograd."""
import importlib

import pytest


def mode_class(lib):
    return importlib.import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode


def log_mode(lib):
    class Log(mode_class(lib)):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls.append(str(func))
            return func(*args, **(kwargs or {}))
    return Log()


def wrapper(lib):
    """A tensor that holds another, unwraps it for each call and wraps the results."""
    pytree = importlib.import_module(lib.__name__ + ".utils._pytree")

    class Wrapper(lib.Tensor):
        log = []

        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), dtype=inner.dtype,
                                                     device=inner.device, requires_grad=requires_grad)
            made.inner = inner
            return made

        def __repr__(self):
            return f"Wrapper({self.inner})"

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.log.append(str(func))
            args, kwargs = pytree.tree_map_only(cls, lambda x: x.inner, (args, kwargs or {}))
            return pytree.tree_map_only(lib.Tensor, cls, func(*args, **kwargs))
    Wrapper.log = []
    return Wrapper


# ---- modes -----------------------------------------------------------------------------------------------------------

def test_a_mode_sees_operators(lib):
    log = log_mode(lib)
    x = lib.ones(2, 3)
    with log:
        y = (x + 1).relu()
        lib.mm(x, x.t())
        lib.zeros(2)
    assert y.tolist() == [[2.0] * 3] * 2
    assert log.calls[:4] == ["aten.add.Tensor", "aten.relu.default", "aten.t.default", "aten.mm.default"]
    assert any(c.startswith("aten.zeros") for c in log.calls)
    x + 1
    assert len(log.calls) <= 6


def test_a_mode_sees_what_autograd_makes_of_it(lib):
    log = log_mode(lib)
    x = lib.ones(2, requires_grad=True)
    with log:
        y = x.exp()
        assert y.requires_grad
        g, = lib.autograd.grad(y.sum(), x)
    assert "aten.exp.default" in log.calls and "aten.mul.Tensor" in log.calls and g.shape == (2,)


def test_products_are_seen_as_matrices(lib):
    log = log_mode(lib)
    with log:
        lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 3), lib.ones(4))
        lib.matmul(lib.ones(2, 2), lib.ones(2, 2))
        lib.matmul(lib.ones(5, 2, 2), lib.ones(5, 2, 2))
    assert [c for c in log.calls if "mm" in c] == ["aten.addmm.default", "aten.mm.default", "aten.bmm.default"]


def test_a_mode_changes_results(lib):
    ops = lib.ops.aten

    class Swap(mode_class(lib)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is ops.sin.default:
                func = ops.cos.default
            return func(*args, **(kwargs or {}))
    with Swap():
        assert lib.zeros(1).sin().item() == 1.0
    assert lib.zeros(1).sin().item() == 0.0


def test_modes_within_modes(lib):
    outer, inner = log_mode(lib), log_mode(lib)
    with outer, inner:
        lib.ones(2) + 1
    assert "aten.add.Tensor" in outer.calls and "aten.add.Tensor" in inner.calls
    with pytest.raises(KeyError), outer:
        raise KeyError
    n = len(outer.calls)
    lib.ones(2) + 1
    assert len(outer.calls) == n


def test_an_exception_in_a_mode(lib):
    class Refuses(mode_class(lib)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError("not today")
    x = lib.ones(2)
    with pytest.raises(ValueError, match="not today"), Refuses():
        x + 1
    assert (x + 1).tolist() == [2.0, 2.0]


def test_arguments_are_those_of_the_schema(lib):
    seen = {}

    class Look(mode_class(lib)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen[str(func)] = args, kwargs
            return func(*args, **(kwargs or {}))
    x = lib.ones(2, 3)
    with Look():
        lib.add(x, 2, alpha=3)
        lib.add(x, x)
        x.amax(1)
        x.amax(1, True)
        lib.cat([x, x], 1)
    args, kwargs = seen["aten.add.Tensor"]
    assert args[0] is x and args[1] is x and kwargs == {}
    assert seen["aten.amax.default"][0][1:] == ([1], True)
    assert [t is x for t in seen["aten.cat.default"][0][0]] == [True, True] and seen["aten.cat.default"][0][1] == 1


# ---- subclasses --------------------------------------------------------------------------------------------------------

def test_a_wrapper(lib):
    Wrapper = wrapper(lib)
    x = Wrapper(lib.tensor([1.0, -2.0]))
    y = (x * 2 + 1).relu()
    assert type(y) is Wrapper and y.inner.tolist() == [3.0, 0.0]
    assert Wrapper.log[:2] == ["aten.mul.Tensor", "aten.add.Tensor"] and "aten.relu.default" in Wrapper.log
    assert x.shape == (2,) and x.dtype is lib.float32 and repr(y) == "Wrapper(tensor([3., 0.]))"
    assert type(lib.stack([x, y])) is Wrapper


def test_a_wrapper_has_gradients(lib):
    Wrapper = wrapper(lib)
    x = Wrapper(lib.tensor([1.0, 2.0], dtype=lib.float64), requires_grad=True)
    y = (x.exp() * x).sum()
    assert y.requires_grad and type(y) is Wrapper
    y.backward()
    assert type(x.grad) is Wrapper
    assert x.grad.inner.tolist() == pytest.approx([2 * 2.718281828459045, 3 * 7.38905609893065])
    y2 = (x * x).sum()
    y2.backward()
    assert type(x.grad) is Wrapper


def test_a_wrapper_is_written(lib):
    Wrapper = wrapper(lib)
    x = Wrapper(lib.zeros(2))
    before = x._version
    y = x.add_(1)
    assert y is x and x.inner.tolist() == [1.0, 1.0] and x._version > before
    x[0] = 5.0
    assert x.inner.tolist() == [5.0, 1.0]


def test_a_wrapper_beside_plain_tensors(lib):
    Wrapper = wrapper(lib)
    x, w = Wrapper(lib.ones(2, 2)), lib.ones(2, 2, requires_grad=True)
    y = lib.mm(w, x)
    assert type(y) is Wrapper and y.requires_grad
    a, b = y.split(1)
    assert type(a) is Wrapper and a.shape == (1, 2)


def test_views_of_a_wrapper(lib):
    Wrapper = wrapper(lib)
    x = Wrapper(lib.arange(6.0))
    v = x.view(2, 3)[1]
    assert type(v) is Wrapper and v.inner.tolist() == [3.0, 4.0, 5.0] and v.shape == (3,)
    assert type(x.detach()) is Wrapper and type(x.clone()) is Wrapper


def test_refusing(lib):
    class Refuses(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.size())

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented
    with pytest.raises(TypeError, match="(?i)multiple dispatch failed|no implementation found"):
        lib.add(Refuses(lib.ones(1)), 1)


def test_a_class_without_dispatch_is_no_wrapper(lib):
    class Plain(lib.Tensor):
        pass
    with pytest.raises((TypeError, RuntimeError), match="must define __torch_dispatch__"):
        lib.Tensor._make_wrapper_subclass(Plain, (2,))


def test_a_subclass_with_memory(lib):
    seen = []

    class Counted(lib.Tensor):
        @staticmethod
        def __new__(cls, data):
            return lib.Tensor._make_subclass(cls, data)

        __torch_function__ = lib._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            with lib._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))
    x = Counted(lib.ones(2))
    assert lib.add(x, 1).tolist() == [2.0, 2.0] and seen == ["aten.add.Tensor"]


def test_no_gradients_below(lib):
    """What a handler computes is not recorded, whatever it switches on."""
    states = []

    class Look(mode_class(lib)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            w = lib.ones(1, requires_grad=True)
            states.append((w * 2).requires_grad)
            with lib.no_grad():
                pass
            states.append((w * 2).requires_grad)
            return func(*args, **(kwargs or {}))
    x = lib.ones(1, requires_grad=True)
    with Look():
        y = x * 2
    assert states == [False, False] and y.requires_grad


def test_helpers(lib):
    m = importlib.import_module(lib.__name__ + ".utils._python_dispatch")
    Wrapper = wrapper(lib)
    assert not m.is_traceable_wrapper_subclass(Wrapper(lib.ones(1)))

    class Flat(Wrapper):
        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Flat(inner["inner"])
    x = Flat(lib.ones(2))
    assert m.is_traceable_wrapper_subclass(x)
    assert m.transform_subclass(x, lambda name, t: t * 3).inner.tolist() == [3.0, 3.0]
    log = log_mode(lib)
    with log:
        assert m._get_current_dispatch_mode() is log
        with m._disable_current_modes():
            lib.ones(1) + 1
    assert "aten.add.Tensor" not in log.calls


# ---- calls as PyTorch's parser makes them, and classes without a __torch_function__ of their own ---------------------

@pytest.mark.parametrize("wanted", [False, True])
def test_numbers_and_whole_sums_are_shown_as_they_were_written(lib, wanted):
    x, i = lib.rand(2, 3, requires_grad=wanted), lib.tensor([1])
    with log_mode(lib) as log:
        x > 0.5, 1 - x, x.sum(), x.mean(), x.sum(0), x * 2, x.detach().eq_(1)
        2 % x.detach(), x.detach().sum(0, keepdim=True), 1 << i
    assert log.calls == ["aten.gt.Scalar", "aten.rsub.Scalar", "aten.sum.default", "aten.mean.default", "aten.sum.dim_IntList",
                         "aten.mul.Tensor", "aten.detach.default", "aten.eq_.Scalar",
                         "aten.detach.default", "aten.remainder.Scalar_Tensor", "aten.detach.default", "aten.sum.dim_IntList",
                         "aten.bitwise_left_shift.Scalar_Tensor"]
    assert lib.ops.aten.add.Tensor.__module__ == "torch._ops.aten"


def test_new_tensors_say_where_they_are(lib):
    seen = []

    class Look(mode_class(lib)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append({k: str(v) for k, v in kwargs.items()})
            return func(*args, **kwargs)
    x = lib.ones(2)
    with Look():
        lib.zeros(2), lib.full((2,), 1., dtype=lib.float64), x.new_zeros(2), lib.zeros_like(x)
    assert seen == [{"device": "cpu", "pin_memory": "False"},
                    {"dtype": str(lib.float64), "device": "cpu", "pin_memory": "False"},
                    {"pin_memory": "False"}, {"pin_memory": "False"}]


def plain_where_possible(lib):
    """A diagonal matrix that knows its diagonal only; other results are plain tensors."""
    tree_map = importlib.import_module(lib.__name__ + ".utils._pytree").tree_map

    class Diagonal(lib.Tensor):
        @staticmethod
        def __new__(cls, diag):
            made = lib.Tensor._make_wrapper_subclass(cls, diag.shape + diag.shape, dtype=diag.dtype, requires_grad=diag.requires_grad)
            made.diag = diag
            return made

        def __repr__(self):
            return super().__repr__(tensor_contents=f"diag={self.diag}")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func in (lib.ops.aten.clone.default, lib.ops.aten.detach.default, lib.ops.aten.add.Tensor):
                return cls(func(*(x.diag for x in args)))
            full = tree_map(lambda x: x.diag.diag() if isinstance(x, cls) else x, (args, kwargs or {}))
            return func(*full[0], **full[1])
    return Diagonal


def test_a_class_with_a_dispatch_of_its_own_decides_what_its_results_are(lib):
    import copy
    kind = plain_where_possible(lib)
    assert kind.__torch_function__ is lib._C._disabled_torch_function_impl
    p = lib.nn.Parameter(kind(lib.tensor([1., 2.])))
    both = p + kind(lib.ones(2))
    assert type(both) is kind and type(both.sum()) is lib.Tensor and float(both.sum()) == 5
    both.sum().backward()
    assert type(p.grad) is lib.Tensor and p.grad.tolist() == [[1, 1], [1, 1]]
    assert repr(p.detach()) == "Diagonal(diag=tensor([1., 2.]))" and repr(p).startswith("Parameter(Diagonal(diag=")
    p.grad = None
    again = copy.deepcopy(p)
    assert type(again) is kind and again.diag.tolist() == [1, 2] and again.diag is not p.diag
    assert isinstance(again, lib.nn.Parameter) and again.requires_grad


class Tagged:
    """For files: made a tensor class per library below."""


def test_a_wrapper_travels_through_a_file(lib, tmp_path):
    kind = plain_where_possible(lib)
    kind.__module__, kind.__qualname__ = __name__, "Tagged"
    globals()["Tagged"] = kind
    lib.save(kind(lib.tensor([1., 2.])), tmp_path / "x.pt")
    with lib.serialization.safe_globals([kind]):
        back = lib.load(tmp_path / "x.pt")
    assert type(back) is kind and back.diag.tolist() == [1, 2] and back.shape == (2, 2)


def test_a_copy_of_another_kind_is_refused(lib):
    import copy

    class Lost(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with importlib.import_module(lib.__name__ + ".utils._mode_utils").no_dispatch():
                return func(*args, **(kwargs or {}))
    with pytest.raises(RuntimeError, match="only works for subclass types that implement new_empty"):
        copy.deepcopy(Lost(lib.ones(2)))


def test_a_gradient_is_added_to_the_first_one_in_place(lib):
    Wrapper = wrapper(lib)
    x = Wrapper(lib.ones(2)).requires_grad_()
    x.grad = Wrapper(lib.zeros(2))
    first = x.grad
    (x * 3).backward(Wrapper(lib.ones(2)))
    assert x.grad is first and x.grad.inner.tolist() == [3, 3]


def test_one_hop_is_skipped_and_no_more(lib):
    names = []

    class Counted(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return lib.overrides.redispatch_function(func, types, args, kwargs)

    def twice(x):
        if lib.overrides.has_torch_function((x,)):
            return lib.overrides.handle_torch_function(twice, (x,), x)
        return x * 2
    assert type(twice(lib.ones(2).as_subclass(Counted))) is lib.Tensor
    assert names[-2:] == ["twice", "mul"]


def test_whether_a_mode_is_on(lib):
    inside = importlib.import_module(lib.__name__ + ".utils._python_dispatch").is_in_torch_dispatch_mode
    assert not inside()
    with log_mode(lib):
        assert inside() and inside(include_infra_modes=False)
    assert not inside()


@pytest.mark.parametrize("call, wanted", [
    (lambda lib, x, i: x[i], ["_local_scalar_dense.default", "select.int"]),
    (lambda lib, x, i: x[i, None], ["_local_scalar_dense.default", "select.int", "unsqueeze.default"]),
    (lambda lib, x, i: x.data, ["detach.default"]),
    (lambda lib, x, i: x.view(2, 2).H, ["view.default", "transpose.int"]),
    (lambda lib, x, i: lib.tensor(x), ["detach.default", "_to_copy.default"]),
    (lambda lib, x, i: lib.asarray(x, copy=True), ["clone.default"]),
    (lambda lib, x, i: float(x.sum()), ["sum.default", "_local_scalar_dense.default"])])
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_modes_and_wrappers_see_the_same_calls(lib, call, wanted):
    x, i, cls = lib.arange(4.0), lib.tensor(1), wrapper(lib)
    with log_mode(lib) as mode:
        call(lib, x, i)
    call(lib, cls(x), cls(i))
    assert mode.calls == cls.log == ["aten." + name for name in wanted]


def test_copies_of_subclasses_need_new_empty_to_give_one(lib):
    import copy

    class Plain(lib.Tensor):
        pass

    class Made(lib.Tensor):
        def new_empty(self, shape):
            return type(self)(shape)
    with pytest.raises(RuntimeError, match="for which that function returns another instance of the same subclass"):
        copy.deepcopy(Plain(3))
    assert type(copy.deepcopy(Made(3))) is Made

    class Unwrapped(lib.Tensor):
        @staticmethod
        def __new__(cls, elem):
            self = lib.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
            self.elem = elem
            return self

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return args[0].elem.clone()
    with pytest.raises(RuntimeError, match="for which cloning returns another instance of the same subclass"):
        copy.deepcopy(Unwrapped(lib.ones(2)))


def test_what_set_does_is_a_call_that_a_class_gets(lib):
    calls = []

    class Logged(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)
    x, other = Logged(lib.zeros(2)), lib.ones(3)
    x.data = lib.zeros(4)
    assert calls == []
    x.set_(other)
    assert calls == ["aten.set_.source_Tensor"] and type(x) is Logged
    assert x.shape == (3,) and x.data_ptr() == other.data_ptr()


def test_a_class_that_gives_no_tensor_where_one_is_needed(lib):
    class Lacking(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, requires_grad=inner.requires_grad)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = [x.inner if isinstance(x, cls) else x for x in args]
            return None if func._opname == "add" else cls(func(*inner, **(kwargs or {})))
    x = Lacking(lib.rand(2))
    assert x + 2 is None
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="Expected a proper Tensor but got None"):
        x.acos().sum().backward()           # 1 - x * x is an add there


def test_a_mode_is_passed_the_layout_that_was_asked_for(lib):
    x, seen = lib.ones(2), []

    class Layouts(lib.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((kwargs or {}).get("layout"))
            return func(*args, **(kwargs or {}))
    calls = (lib.zeros, lib.empty, lambda size, **given: lib.full(size, 1., **given), lambda size, **given: lib.zeros_like(x, **given),
             lambda size, **given: x.new_zeros(size, **given), lambda size, **given: lib.ops.aten._to_copy.default(x, dtype=lib.float64, **given))
    with Layouts():
        for call in calls:
            assert call((2,), layout=lib.strided).shape == (2,)
            call((2,))
    assert seen == [lib.strided, None] * len(calls)
