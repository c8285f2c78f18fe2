"""HigherOrderOperator: operators that take functions, with kernels in Python."""
import importlib

import pytest


def parts(lib):
    ops = importlib.import_module(lib.__name__ + "._ops")
    mode = importlib.import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode
    return ops.HigherOrderOperator, lib._C.DispatchKey, mode


made = 0


def twice(lib):
    """f(f(x)), and a list of what ran."""
    global made
    made += 1
    base, key, _ = parts(lib)
    ran = []

    class Twice(base):
        def __init__(self):
            super().__init__(f"twice_{made}")

        def __call__(self, f, x):
            return super().__call__(f, x)
    op = Twice()

    @op.py_impl(key.CompositeExplicitAutograd)
    def dense(f, x):
        ran.append("dense")
        return f(f(x))

    @op.py_impl(key.Autograd)
    def autograd(f, x):
        ran.append("autograd")
        with lib._C._AutoDispatchBelowAutograd():
            return op(f, x)
    return op, ran


def double(x):
    return x * 2


def test_keys_in_their_order(lib):
    op, ran = twice(lib)
    assert op(double, lib.ones(2)).tolist() == [4, 4] and ran == ["autograd", "dense"]
    assert getattr(lib.ops.higher_order, op.name()) is op
    assert str(op) == op.__name__ == op.name() and op.namespace == "higher_order" and op.__module__ == "torch.ops.higher_order"
    assert op.has_kernel_for_dispatch_key(parts(lib)[1].Autograd) and not op.has_kernel_for_dispatch_key(parts(lib)[1].Meta)


def test_modes(lib):
    op, ran = twice(lib)
    base = parts(lib)[2]

    class Deaf(base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Hears(Deaf):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ran.append(str(func))
            return func(*args, **(kwargs or {}))

    class Ruled(Deaf):
        pass

    x = lib.ones(2)
    with Deaf(), pytest.raises(NotImplementedError, match="There was no rule registered for HigherOrderOperator twice"):
        op(double, x)
    ran.clear()
    with Hears():
        op(double, x)
    assert ran == ["autograd", op.name(), "dense"]         # what the kernel calls, the handler called
    op.py_impl(Ruled)(lambda mode, f, x: (type(mode), op(f, x).tolist()))
    with Ruled():
        assert op(double, lib.ones(2)) == (Ruled, [4, 4])


def test_classes(lib):
    op, ran = twice(lib)

    class Quiet(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented
    x = lib.ones(2).as_subclass(Quiet)
    with pytest.raises(NotImplementedError, match="There was no rule registered for HOP twice"):
        op(double, x)
    op.py_impl(Quiet)(lambda f, x: 7)
    assert op(double, x) == 7


def test_torch_function(lib):
    op, ran = twice(lib)
    seen = []

    class Watching(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})
    op(double, lib.ones(2).as_subclass(Watching))
    assert seen[0] is op

    class Mode(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    seen.clear()
    x = lib.ones(2)
    with Mode():
        op(double, x)
    assert seen[0] is op


def test_what_is_missing(lib):
    base, key, _ = parts(lib)

    class Bare(base):
        def __init__(self):
            super().__init__("bare")

        def __call__(self, *args):
            return super().__call__(*args)
    op = Bare()
    op.py_impl(key.CPU)(lambda *args: len(args))
    with pytest.raises(NotImplementedError, match="could not find kernel for HigherOrderOperator bare at dispatch key DispatchKey.AutogradCPU"):
        op(lib.ones(2))
    op.fallthrough(key.AutogradCPU)
    assert op(lib.ones(2)) == 1
    with pytest.raises(NotImplementedError, match="DispatchKey.Undefined"):
        op(3)
    with pytest.raises(RuntimeError, match="Trying to override a python impl for DispatchKey.CPU on operator bare"):
        op.py_impl(key.CPU)(len)
    with pytest.raises(TypeError, match="abstract"):
        base("direct")
    with pytest.raises(AttributeError):
        lib.ops.higher_order.not_there
