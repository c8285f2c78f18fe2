"""autograd.Function in all its forms, anomaly mode, and what goes wrong in them."""
import gc
import threading
import time
import traceback
import weakref

import pytest


def leaf(lib, *data):
    return lib.tensor(data, dtype=lib.float64, requires_grad=True)


def test_with_setup_context(lib):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(x, power):
            return x ** power, x * power

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.power = inputs
            cube, slope = output
            ctx.mark_non_differentiable(slope)
            ctx.save_for_backward(x, slope)

        @staticmethod
        def backward(ctx, g, unused):
            x, slope = ctx.saved_tensors
            return g * slope * x, None
    x = leaf(lib, 2.0)
    y, slope = Cube.apply(x, 3)
    assert y.requires_grad and not slope.requires_grad
    y.backward()
    assert x.grad.item() == 12.0 * 1.0


def test_double_backward(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 2 * x * g
    x = lib.rand(3, dtype=lib.float64, requires_grad=True)
    assert lib.autograd.gradcheck(Square.apply, (x,)) and lib.autograd.gradgradcheck(Square.apply, (x,))


def test_once_differentiable(lib):
    from importlib import import_module
    once = import_module(lib.__name__ + ".autograd.function").once_differentiable

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once
        def backward(ctx, g):
            x, = ctx.saved_tensors
            assert not lib.is_grad_enabled()
            return 2 * x * g
    x = leaf(lib, 3.0)
    g, = lib.autograd.grad(Square.apply(x) ** 2, x, create_graph=True)
    assert g.item() == 108.0
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.backward()


def test_the_context_is_the_node(lib):
    class Keep(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.note = "here"
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.note == "here"
            return g * 2
    x = leaf(lib, 1.0)
    y = Keep.apply(x)
    assert y.grad_fn.note == "here" and y.grad_fn.saved_tensors[0] is x
    assert type(y.grad_fn).__name__ == "KeepBackward" and y.grad_fn.name() == "KeepBackward"
    assert y.grad_fn.next_functions[0][0].variable is x
    y.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn.saved_tensors


def test_vjp_is_another_name_of_backward(lib):
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2
    x = leaf(lib, 1.0)
    Double.apply(x).backward()
    assert x.grad.item() == 2.0

    class Both(Double):
        @staticmethod
        def backward(ctx, g):
            return g
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not allowed"):
        Both.apply(x).backward()


def test_absent_gradients(lib):
    seen = []

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append((a, b))
            return a, None
    x = leaf(lib, 1.0)
    Two.apply(x, True)[0].backward()
    Two.apply(x, False)[0].backward()
    assert seen[0][1].tolist() == [0.0] and seen[1][1] is None


def test_what_is_wanted(lib):
    seen = []

    class Mul(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c):
            ctx.save_for_backward(a, b)
            return a * b * c

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            return g, None, None
    Mul.apply(leaf(lib, 1.0), lib.ones(1), 3).backward()
    assert seen == [(True, False, False)]


def test_a_write_in_a_function(lib):
    class AddOne(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10
    x = leaf(lib, 1.0)
    y = x * 2
    z = AddOne.apply(y)
    assert z is y and y.grad_fn.name() == "AddOneBackward"
    z.backward()
    assert x.grad.item() == 20.0
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        AddOne.apply(x)


def test_wrong_counts_and_types(lib):
    class Wrong(lib.autograd.Function):
        given = None

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return Wrong.given
    x = leaf(lib, 1.0)
    Wrong.given = (lib.ones(1), lib.ones(1))
    with pytest.raises(RuntimeError, match=r"returned an incorrect number of gradients \(expected 1, got 2\)"):
        Wrong.apply(x).backward()
    Wrong.given = "text"
    with pytest.raises((TypeError, RuntimeError)):
        Wrong.apply(x).backward()
    Wrong.given = lib.ones(3, dtype=lib.float64)
    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0"):
        Wrong.apply(leaf(lib, 1.0, 2.0) * 1).sum().backward()


def test_what_is_not_implemented(lib):
    class NoBackward(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
    y = NoBackward.apply(leaf(lib, 1.0))
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        y.backward()

    class Nothing(lib.autograd.Function):
        pass
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Nothing.apply(leaf(lib, 1.0))


def test_a_context_goes_with_its_graph(lib):
    class Hold(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            ctx.held = Held()
            refs.append(weakref.ref(ctx.held))
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    class Held:
        pass
    refs = []
    y = Hold.apply(leaf(lib, 1.0))
    assert refs[0]() is not None
    del y
    gc.collect()
    assert refs[0]() is None


# ---- errors ----------------------------------------------------------------------------------------------------------

def test_an_exception_comes_with_its_traceback(lib):
    class Fails(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise KeyError("from the depths")
    x = leaf(lib, 1.0)
    y = Fails.apply(x)
    with pytest.raises(KeyError, match="from the depths") as caught:
        y.backward(retain_graph=True)
    assert "raise KeyError" in "".join(traceback.format_tb(caught.value.__traceback__))
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_anomaly_mode_names_the_line(lib):
    class Fails(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("bad luck")
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = lib.autograd.detect_anomaly()
    x = leaf(lib, 1.0)
    with mode:
        y = Fails.apply(x)      # the line that made it
        with pytest.warns(UserWarning, match="the line that made it"), pytest.raises(RuntimeError, match="bad luck"):
            y.backward()


def test_anomaly_mode_finds_nan(lib):
    x = leaf(lib, 0.0)
    with pytest.warns(UserWarning), lib.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match="Function '.*' returned nan values in its 0th output"):
            (x.sqrt() * 0).backward()
    with lib.autograd.set_detect_anomaly(True, check_nan=False), pytest.warns(UserWarning) if False else _nothing():
        x.grad = None
        (x.sqrt() * 0).backward()
    assert not lib.is_anomaly_enabled()


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


# ---- deep and long -----------------------------------------------------------------------------------------------------

def test_a_million_nodes(lib):
    x = leaf(lib, 1.0)
    y = x
    for _ in range(200000 if lib.__name__ == "torch" else 1000000):
        y = y + 0
    y.backward()
    assert x.grad.item() == 1.0
    y = x
    for _ in range(200000 if lib.__name__ == "torch" else 1000000):
        y = y + 0
    del y


def test_control_c_ends_a_pass(lib):
    import signal
    x = lib.ones(1, dtype=lib.float64, requires_grad=True)
    y = x
    for _ in range(300000):
        y = y * 1.0
    if lib.__name__ == "torch":
        pytest.skip("PyTorch goes on to the end")
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.02, lambda: signal.raise_signal(signal.SIGINT)).start()
        for _ in range(10000):
            y.backward(retain_graph=True)
    assert time.monotonic() - start < 3
    x.grad = None
    (x * 2).backward()
    assert x.grad.item() == 2.0


# ---- in place and views ------------------------------------------------------------------------------------------------

def test_a_view_before_its_base_needs_a_gradient(lib):
    w = leaf(lib, 2.0, 3.0)
    buffer = lib.zeros(4, dtype=lib.float64)
    view = buffer[:2]
    view.copy_(w * 3)
    assert buffer.requires_grad and view.requires_grad
    buffer.sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_a_saved_operand_without_gradient(lib):
    w, x = leaf(lib, 2.0), lib.tensor([3.0], dtype=lib.float64)
    y = w * x
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_sum_s_input_may_be_written(lib):
    x = leaf(lib, 1.0, 2.0)
    y = x * 1
    z = y.sum()
    y.mul_(3)
    z.backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_attributes_stay(lib):
    x = leaf(lib, 1.0)
    y = x * x
    y.mark = "mine"
    z = y.exp()
    del y
    gc.collect()
    inner = z.grad_fn.next_functions[0][0]
    assert inner.name() == "MulBackward0"


def test_small_print_of_the_modes(lib):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        @lib.no_grad()
        class Frozen:
            def __init__(self):
                self.recorded = lib.is_grad_enabled()
    assert not Frozen().recorded
    assert lib.autograd.is_multithreading_enabled()
    with lib.autograd.set_multithreading_enabled(False):
        assert not lib.autograd.is_multithreading_enabled()
    x = lib.ones(1, requires_grad=True)
    y = x * x
    with lib.no_grad(), lib.autograd._unsafe_preserve_version_counter(x):
        x.fill_(3)
    y.backward()
    assert x.grad == 6
    lib.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="create_graph=True"):
                (x * x).backward(create_graph=True)
            x.grad = None       # the circle that the warning is about: x, its gradient, the gradient's history, x
    finally:
        lib.set_warn_always(False)


def test_a_function_may_name_its_own_helpers_as_it_likes(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def _backward(grad, factor):
            return grad * factor

        @staticmethod
        def _record(ctx, factor):
            ctx.factor = factor

        @staticmethod
        def forward(ctx, x):
            Twice._record(ctx, 2)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return Twice._backward(grad, ctx.factor)

    x = lib.ones(2, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("keep", ["save_for_backward", "save_for_forward"])
@pytest.mark.parametrize("which", ["input", "output", "view"])
def test_setup_context_does_not_keep_an_input_that_comes_back(lib, keep, which):
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.view_as(x) if which == "view" else x

        @staticmethod
        def setup_context(ctx, inputs, output):
            getattr(ctx, keep)(output if which == "output" else inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.view_as(tangent)

    x = lib.tensor(2., requires_grad=True)
    for call in (lambda: Same.apply(x.clone()), lambda: lib.func.grad(lambda a: Same.apply(a.clone()))(x.detach()),
                 lambda: lib.func.jvp(lambda a: Same.apply(a.clone()), (x.detach(),), (x.detach(),))):
        if which == "view":
            call()
        else:
            with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved for backward"):
                call()


def test_what_comes_back_as_it_is_keeps_its_class(lib):
    class Plain(lib.Tensor):
        pass

    class Wrapped(lib.Tensor):
        def __init__(self, data):
            super().__init__()
            self._data = data

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = func(*[x._data if isinstance(x, cls) else x for x in args], **kwargs or {})
            return cls(result) if isinstance(result, lib.Tensor) else result

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, y

        @staticmethod
        def backward(ctx, grad, other):
            return 3 * grad, other

    x, y = lib.ones(2).as_subclass(Plain).requires_grad_(), lib.ones(2).as_subclass(Plain)
    same, other = Same.apply(x, y)
    assert type(same) is type(other) is Plain and same is not x and other is not y and other.data_ptr() == y.data_ptr()
    same.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert type(Same.apply(Wrapped(lib.ones(2)), lib.ones(2))[0]) is Wrapped

    class Refusing(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if getattr(func, "__name__", "") == "view_as":
                raise KeyError("refused")
            return super().__torch_function__(func, types, args, kwargs)
    with pytest.raises(KeyError, match="refused"):
        Same.apply(lib.ones(2).as_subclass(Refusing), lib.ones(2))


def test_gradcheck_of_a_batch_of_directions_calls_jvp(lib):
    calls = []

    class Own(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx, x_t, y_t):
            calls.append(x_t.shape)
            return x_t, y_t
    x, y = (lib.rand(1, dtype=lib.double, requires_grad=True) for _ in range(2))
    assert lib.autograd.gradcheck(Own.apply, (x, y), check_forward_ad=True, check_undefined_grad=False, check_backward_ad=False,
                                  check_batched_grad=False, check_batched_forward_grad=True)
    assert len(calls) == 8 and set(calls) == {(1,)}        # of each operand: the slope, a batch, and its two directions one by one


def test_the_first_gradient_with_a_graph_is_a_copy(lib):
    x = lib.rand(3, requires_grad=True)
    (x * x).sum().backward(create_graph=True)
    assert x.grad.grad_fn.name().endswith("CopyBackwards") and x.grad.grad_fn.next_functions[0][0] is None
    assert lib.autograd.grad(x.grad.sum(), x)[0].tolist() == [2, 2, 2]
    x.grad = None           # whose graph has x in it


def test_an_output_made_as_a_leaf_can_be_written(lib):
    class AsLeaf(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.detach().clone().requires_grad_()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = lib.ones(3, requires_grad=True)
    y = AsLeaf.apply(x)
    y.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3., 3., 3.]
