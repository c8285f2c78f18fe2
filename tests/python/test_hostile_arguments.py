"""Arguments that change what is being read: no list, tensor or mode that Python code took away is touched afterwards."""
import gc
import subprocess
import sys
import warnings

import pytest
import tede


class Clears:
    """A number that empties a list, and runs something, when it is read."""

    def __init__(self, items, then=lambda: None):
        self.items, self.then = items, then

    def __index__(self):
        self.items.clear()
        gc.collect()
        self.then()
        return 0

    def __float__(self):
        return float(self.__index__())


def emptied(make=Clears):
    items = [2, 3]
    items.insert(0, make(items))
    items.extend(float(i) for i in range(100))
    return items


CALLS = {
    "reshape": lambda x, n: x.reshape(n), "view": lambda x, n: x.view(n), "sum": lambda x, n: x.sum(n), "permute": lambda x, n: x.permute(n),
    "zeros": lambda x, n: tede.zeros(n), "expand": lambda x, n: x.expand(n), "flip": lambda x, n: x.flip(n),
    "as_strided": lambda x, n: x.as_strided(n, n), "pad": lambda x, n: tede.nn.functional.pad(x, n), "fftn": lambda x, n: tede.fft.fftn(x, s=n),
    "float64": lambda x, n: tede.tensor(n, dtype=tede.float64), "nested": lambda x, n: tede.tensor([n, n], dtype=tede.int64),
    "wrapper": lambda x, n: tede.Tensor._make_wrapper_subclass(tede.Tensor, n),
    "sparse": lambda x, n: tede.sparse_coo_tensor(tede.zeros(3, 0, dtype=tede.int64), tede.zeros(0), n),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_list_that_an_item_empties_is_an_error(name):
    for _ in range(3):
        with pytest.raises((IndexError, TypeError, ValueError, RuntimeError)):
            CALLS[name](tede.ones(2, 3, 4), emptied())


def test_tensors_of_a_list_live_until_the_call_ends():
    for call in (tede.cat, tede.stack):
        tensors = [tede.ones(1000) for _ in range(10)]
        assert call(tensors, Clears(tensors)).sum() == 10000 and not tensors
        assert call([tede.ones(3)] * 2, dim=Clears([])).sum() == 6
    outs = [tede.empty(0), tede.empty(0, dtype=tede.int64)]
    result = tede.sort(tede.ones(3), Clears([]), out=tuple(outs))
    assert result[0] is outs[0]


def test_an_index_that_changes_its_tensor():
    x = tede.ones(1000)

    def replace():
        x.data = tede.ones(1)

    class Replaces:
        def __index__(self):
            replace()
            return 900
    for index in (lambda i: i, lambda i: (i, None), lambda i: slice(i, 950), lambda i: (slice(None), None, i), lambda i: [i, None]):
        x.data = tede.ones(1000)
        try:
            assert x[index(Replaces())].numel() <= 1
        except IndexError:
            pass
        x.data = tede.ones(1000)
        try:
            x[index(Replaces())] = 5.
        except IndexError:
            pass


def test_a_sequence_is_as_long_as_it_says():
    class Endless:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return float(i)
    assert tede.tensor(Endless()).tolist() == [0., 1., 2.] and tede.ones(5)[[Endless()][0:0] or [1, 2]].shape == (2,)

    class Long(Endless):
        def __len__(self):
            return 2 ** 62
    with pytest.raises((RuntimeError, MemoryError)):
        tede.tensor(Long())


def test_lists_that_share_lists_are_refused_at_once():
    for ragged in (False, True):
        items = [1.]
        for _ in range(60):
            items = [items, items]
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            tede.tensor([1., items] if ragged else items)


def test_lists_that_hold_themselves_are_refused_at_once():
    around = []
    around.append(around)
    inner = ([],)
    inner[0].append(inner)
    deep = []
    for _ in range(100000):
        deep = [deep]
    x = tede.ones(2)
    for items in (around, [1, around], inner, deep):
        for call in (lambda: tede.sum(x, items), lambda: tede.clamp(x, items), lambda: tede.bitwise_and(x, items), lambda: tede.tensor(items),
                     lambda: tede._foreach_maximum([x], items), lambda: tede.cat(items), lambda: x[items], lambda: x.reshape(items)):
            with pytest.raises((TypeError, ValueError, IndexError)):
                call()
    with pytest.raises(TypeError):
        tede.clamp(x, ["a"] * 200000)       # every type is named: in linear time


def test_handlers_may_change_lists_and_modes():
    class Taker(tede.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            tensors.clear()
            gc.collect()
            return NotImplemented

    class Other(Taker):
        pass
    tensors = [tede.ones(2).as_subclass(Taker), tede.ones(2).as_subclass(Other)]
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        tede.cat(tensors)
    C = tede._C
    for push, pop, depth, entered in ((C._push_on_torch_function_stack, C._pop_torch_function_stack, C._len_torch_function_stack,
                                       "__torch_function__"),):
        class Pushes:           # never leaves
            def handle(self, *args, **kwargs):
                while True:
                    push(self)
        setattr(Pushes, entered, Pushes.handle)
        push(Pushes())
        try:
            with pytest.raises(RuntimeError, match="too many modes"):
                tede.ones(2) + 1
        finally:
            while depth():
                pop()
    assert (tede.ones(2) + 1).sum() == 4


class Untrue:
    def __bool__(self):
        raise ZeroDivisionError


def test_a_switch_passes_on_what_its_argument_raises():
    switches = [getattr(tede._C, name) for name in dir(tede._C) if name.startswith("_set_")]
    before = tede.is_grad_enabled(), tede.is_inference_mode_enabled(), tede._C._is_python_excluded() if hasattr(tede._C, "_is_python_excluded") else None
    raised = 0
    for switch in switches:
        try:
            switch(Untrue())
        except ZeroDivisionError:
            raised += 1
        except (TypeError, RuntimeError, ValueError):
            pass
    assert raised >= 4 and before[:2] == (tede.is_grad_enabled(), tede.is_inference_mode_enabled())


SUBINTERPRETER = """
import sys
first = sys.argv[1] == "first"
if first:
    import tede
    before = repr(tede.ones(2))
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
made = [interpreters.create(*kind) for kind in ([("isolated",), ("legacy",)] if sys.version_info >= (3, 13) else [()])]
for each in made:
    error = None
    try:
        error = (interpreters.run_string if hasattr(interpreters, "run_string") else interpreters.exec)(each, '''
try:
    import tede
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise AssertionError("it was imported")
''')
    except Exception as failed:
        error = failed
    assert error is None, error
    interpreters.destroy(each)
import tede
assert repr(tede.ones(2)) == "tensor([1., 1.])" and (tede.ones(2).requires_grad_() * 2).sum().backward() is None
import importlib
del sys.modules["tede._C"]
again = importlib.import_module("tede._C")
assert again.Tensor is tede.Tensor
print("fine")
"""


@pytest.mark.parametrize("when", ["first", "after"])
def test_a_subinterpreter_may_not_import_tede(when):
    done = subprocess.run([sys.executable, "-X", "dev", "-c", SUBINTERPRETER, when], capture_output=True, text=True, timeout=200)
    assert done.stdout == "fine\n", done.stderr


def test_overridable_takes_no_keywords():
    with pytest.raises(TypeError, match="keyword"):
        tede._C.overridable(x=1)
    with warnings.catch_warnings(), pytest.raises(TypeError):
        tede._C.overridable()


def swap(*tensors):
    for x in tensors:
        tede.utils.swap_tensors(x, tede.ones(7, 7))
    gc.collect()
    tede.full((3, 4), 7.)


@pytest.mark.parametrize("call", [lambda x, y: x * y, lambda x, y: tede.addcmul(x, x, y), lambda x, y: tede.addcmul(y, x, y, value=2.)])
def test_a_saved_tensor_hook_may_swap_the_operands(call):
    x, y = (tede.ones(3, 4, requires_grad=True) * 1 for _ in range(2))
    seen = []

    def pack(t):
        t = t.detach()
        if not seen:
            swap(x, y)
        seen.append(t)
        return t
    with tede.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        z = call(x, y)
    z.sum().backward()
    assert len(seen) >= 2 and all(t.shape == (3, 4) and t[2, 3] == 1 for t in seen) and x.shape == (7, 7)


def test_a_backward_hook_may_swap_the_root_and_its_gradient():
    x = tede.ones(3, 4, requires_grad=True)
    root, grad = (x * 2).sum(), tede.full((), 3.)
    x.register_hook(lambda g: swap(root, grad))
    root.backward(grad)
    assert x.grad.eq(6).all() and root.shape == grad.shape == (7, 7)
    leaf = tede.ones((), requires_grad=True)                # the pass starts and ends here
    leaf.register_hook(lambda g: swap(leaf))
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        leaf.backward()


def test_what_a_called_node_unpacks_may_swap_its_gradient():
    x, grad = tede.full((3, 4), 3., requires_grad=True), tede.full((3, 4), 2.)
    with tede.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: (swap(grad), t)[1]):
        node = (x * x).grad_fn
    assert all(g.eq(6).all() for g in node(grad)) and grad.shape == (7, 7)


def test_forward_of_a_function_may_swap_its_operands():
    class Swapping(tede.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            swap(x, y)
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return grad, grad
    x, y = (tede.ones(3, 4, requires_grad=True) * 1 for _ in range(2))
    assert Swapping.apply(x, y).shape == (7, 7) and y.shape == (7, 7)


class Swaps:
    """A number that gives the tensor's object another tensor when it is read, so that nobody holds the first one."""

    def __init__(self, x):
        self.x = x

    def __index__(self):
        tede.utils.swap_tensors(self.x, tede.ones(4, 4))
        gc.collect()
        tede.full((3, 4), 7.)
        return 0


@pytest.mark.parametrize("call", [
    lambda x, n: x.sum(n), lambda x, n: tede.sum(x, [n]), lambda x, n: x.transpose(n, n), lambda x, n: x.view(n, -1), lambda x, n: tede.cat([x, x], n),
    lambda x, n: x.narrow(0, n, n), lambda x, n: tede.stack((x, x), dim=n), lambda x, n: tede.ops.aten.sum.dim_IntList(x, [n])])
def test_a_tensor_that_is_swapped_while_its_call_is_read_is_an_error(call):
    x = tede.ones(3, 4)
    with pytest.raises(RuntimeError, match="swap_tensors"):
        call(x, Swaps(x))
    assert x.shape == (4, 4)
