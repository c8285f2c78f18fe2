"""Exceptions of hooks and Functions leave a backward pass as they were raised, and nothing of it holds them afterwards."""
import gc
import threading
import weakref

import pytest
import tede
from test_devices import toy  # noqa: F401  (fixtures)


class Mine(Exception):
    pass


class FailingBackward(tede.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise Mine("backward")


class FailingForward(tede.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        raise Mine("forward")


def fail(*args):
    raise Mine("hook")


def deep(run, depth=42):
    """Passes within passes, so many that the last ones run on threads of their own; the innermost one is run()."""
    class Nested(tede.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            with tede.enable_grad():
                deep(run, depth - 1) if depth else run()
            return grad
    Nested.apply(tede.ones(1, requires_grad=True)).sum().backward()


def hooked(where, device="cpu"):
    x = tede.ones(2, requires_grad=True)
    y = x.to(device) * 2
    if where == "tensor":
        y.register_hook(fail)
    elif where == "pre":
        y.grad_fn.register_prehook(fail)
    elif where == "post":
        y.grad_fn.register_hook(fail)
    elif where == "leaf":
        x.register_post_accumulate_grad_hook(fail)
    elif where == "function":
        y = FailingBackward.apply(y)
    elif where == "end":
        y.register_hook(lambda grad: tede.autograd.Variable._execution_engine.queue_callback(fail))
    elif where == "unpack":
        with tede.autograd.graph.saved_tensors_hooks(lambda t: t, fail):
            y = y.exp()
    return y.sum()


def forget(run):
    """run() raises Mine; how often the object is referred to afterwards shows as a dead weak reference."""
    try:
        run()
    except Mine as error:
        alive = weakref.ref(error)
        error.__traceback__ = None
    else:
        pytest.fail("nothing was raised")
    gc.collect()
    return alive() is None


PLACES = ["tensor", "pre", "post", "leaf", "function", "end", "unpack"]


@pytest.mark.parametrize("where", PLACES)
def test_an_exception_is_freed(where):
    assert forget(lambda: hooked(where).backward())
    assert forget(lambda: deep(lambda: hooked(where).backward()))


@pytest.mark.parametrize("where", PLACES)
def test_an_exception_of_a_worker_is_freed(where, toy):  # noqa: F811
    assert forget(lambda: hooked(where, "toy:1").backward())
    assert forget(lambda: hooked(where, "toy:0").backward())
    assert forget(lambda: deep(lambda: hooked(where, "toy:1").backward(), depth=42))


def test_of_two_workers_exceptions_one_is_raised_and_both_are_freed(toy):  # noqa: F811
    alive, together = [], threading.Barrier(2, timeout=20)

    def fail_together(grad):
        together.wait()
        error = Mine("both")
        alive.append(weakref.ref(error))
        raise error

    def run():
        x = tede.ones(2, requires_grad=True)
        parts = [x.to(f"toy:{i}") * 2 for i in (0, 1)]
        for part in parts:
            part.register_hook(fail_together)
        (parts[0].to("cpu") + parts[1].to("cpu")).sum().backward()
    assert forget(run)
    gc.collect()
    tede.ones(2).exp()
    assert len(alive) == 2 and not any(error() for error in alive)


def test_an_exception_in_forward_is_freed():
    assert forget(lambda: FailingForward.apply(tede.ones(1, requires_grad=True)))
    assert forget(lambda: deep(lambda: FailingForward.apply(tede.ones(1, requires_grad=True))))

    def packing():
        with tede.autograd.graph.saved_tensors_hooks(fail, lambda t: t):
            tede.ones(1, requires_grad=True).exp()
    assert forget(packing)


def test_a_write_in_anomaly_mode_is_reported_after_it():
    x = tede.ones(3, requires_grad=True)
    with pytest.warns(UserWarning, match='Anomaly'), tede.autograd.detect_anomaly(check_nan=False):
        z = (x * 2).exp()
        y = z.sum()
        z.mul_(2)
    with pytest.raises(RuntimeError, match='mul_ wrote over it'):
        y.backward()
        z.sum().backward()
