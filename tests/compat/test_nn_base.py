"""What Python programs do to modules: subclassing with hooks into attributes and calls, other bases, patches."""
import abc
import copy
import gc
import inspect
import pickle
import weakref

import pytest


def test_a_getattr_of_its_own_is_asked_for_what_a_module_holds(lib, nn):
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.asked = []
            self.module = module

        def __getattr__(self, name):
            if name != "asked":
                self.asked.append(name)
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("module"), name)

    w = Wrapper(nn.Linear(2, 3))
    del w.asked[:]
    assert w.in_features == 2 and w.weight.shape == (3, 2) and w.module is w._modules["module"]
    assert w.asked == ["in_features", "weight", "module"]
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nothing'"):
        w.nothing


def test_a_getattr_hung_on_later(nn):
    class Late(nn.Module):
        pass

    m = Late()
    m.child = nn.ReLU()
    Late.__getattr__ = lambda self, name: "late " + name
    assert m.child == "late child"
    del Late.__getattr__
    assert isinstance(m.child, nn.ReLU)


def test_setattr_of_its_own_and_past_it(lib, nn):
    class Doubling(nn.Module):
        def __setattr__(self, name, value):
            super().__setattr__(name, 2 * value if isinstance(value, int) else value)

    m = Doubling()
    m.n, m.w, m.child = 4, nn.Parameter(lib.ones(1)), nn.ReLU()
    assert m.n == 8 and list(m._parameters) == ["w"] and list(m._modules) == ["child"]
    object.__setattr__(m, "hidden", nn.ReLU())
    assert "hidden" not in m._modules and isinstance(m.hidden, nn.ReLU)


def test_properties_that_fail_fall_through_to_the_members(nn):
    class Failing(nn.Module):
        @property
        def value(self):
            return self.nothing

    with pytest.raises(AttributeError, match="'Failing' object has no attribute 'value'"):
        Failing().value


def test_before_init(lib, nn):
    class Empty(nn.Module):
        def __init__(self):
            pass

    m = Empty()
    m.plain = 3
    assert m.plain == 3
    for value, kind in ((nn.Parameter(lib.ones(1)), "parameters"), (nn.ReLU(), "module")):
        with pytest.raises(AttributeError, match=f"cannot assign {kind} before Module.__init__"):
            m.x = value
    with pytest.raises(AttributeError, match="'Empty' object has no attribute 'weight'"):
        m.weight
    with pytest.raises(AttributeError, match="'Empty' object has no attribute '_backward_hooks'"):
        m(1)


def test_calls(lib, nn):
    class Counted(nn.Module):
        def __call__(self, *args, **kwargs):
            return "called", super().__call__(*args, **kwargs)

        def forward(self, *args, **kwargs):
            return args, kwargs

    assert Counted()(*range(12), key=1) == ("called", (tuple(range(12)), {"key": 1}))
    m = nn.ReLU()
    m.forward = lambda x: "patched"
    assert m(1) == "patched"
    assert str(inspect.signature(m)) == "(*args, **kwargs)" and "inplace" in str(inspect.signature(nn.ReLU))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        nn.Linear(1, 1)()


def test_the_call_of_all_modules_can_be_patched(lib, nn, monkeypatch):
    seen, plain = [], nn.Module.__call__

    def patched(self, *args, **kwargs):
        seen.append(type(self).__name__)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(nn.Module, "__call__", patched)
    nn.Sequential(nn.ReLU(), nn.Identity())(lib.ones(1))
    assert seen == ["Sequential", "ReLU", "Identity"]


def test_other_bases(lib, nn):
    class Both(nn.Module, dict):
        def __init__(self):
            nn.Module.__init__(self)
            dict.__init__(self, a=1)

    both = Both()
    both.w = nn.Parameter(lib.ones(2))
    assert both["a"] == 1 and both.w.shape == (2,)

    class Abstract(nn.Module, abc.ABC):
        @abc.abstractmethod
        def f(self):
            pass

    with pytest.raises(TypeError, match="abstract"):
        Abstract()

    class Tagged:
        def __init_subclass__(cls, tag=None, **kwargs):
            cls.tag = tag
            super().__init_subclass__(**kwargs)

    class Model(nn.Module, Tagged, tag="t"):
        pass

    assert Model.tag == "t"
    with pytest.raises(TypeError):
        type("Model", (nn.Module,), {}, tag="t")


def test_copies_pickles_classes_and_garbage(lib, nn):
    m = nn.Linear(2, 2)
    for again in (copy.deepcopy(m), *(pickle.loads(pickle.dumps(m, protocol)) for protocol in (0, 2, 4))):
        assert again.weight.tolist() == m.weight.tolist()

    class Other(nn.Linear):
        pass

    m.__class__ = Other
    assert type(m) is Other and m.weight.shape == (2, 2)
    m.child = nn.ReLU()
    object.__setattr__(m.child, "parent", m)
    ref = weakref.ref(m)
    del m, again
    gc.collect()
    assert ref() is None


def test_members_in_dicts_of_another_class(nn):
    class Shouting(dict):
        def __getitem__(self, key):
            return key.upper()

    m = nn.Module()
    m._parameters = Shouting(w=1)
    assert m.w == "W"


def test_gradients_that_a_full_backward_hook_sees(lib, nn):
    class Three(nn.Module):
        def forward(self, x, y):
            return x * y, x + y, 5

    seen, m = [], Three()
    m.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    x, y = lib.ones(2, requires_grad=True), lib.full((2,), 3.0)
    m(x, y)[0].sum().backward()
    (to_x, to_y), (first, second, third) = seen[0]
    assert to_x.tolist() == [3, 3] and to_y.tolist() == [0, 0]         # zeros where none was asked for
    assert first.tolist() == [1, 1] and second is None and third is None


def test_uninitialized_parameters(lib, nn):
    m = nn.LazyLinear(2)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
        m.weight + 1
    for again in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert again.has_uninitialized_params() and again(lib.ones(1, 3)).shape == (1, 2)
        assert type(again) is nn.Linear
    assert m.double().weight.dtype == lib.float64 and m.has_uninitialized_params()


def test_data_parallel_without_devices(lib, nn):
    m = nn.DataParallel(nn.Linear(2, 2))
    state = m.state_dict()
    assert list(state) == ["module.weight", "module.bias"] and m(lib.ones(1, 2)).shape == (1, 2)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert nn.Linear(2, 2).load_state_dict(state).missing_keys == [] and list(state._metadata) == [""]
