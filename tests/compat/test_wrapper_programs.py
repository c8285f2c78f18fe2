"""Programs whose tensors hold others: quantized weights, wrapped parameters in training."""
import copy
import importlib

import pytest


def parts(lib):
    return importlib.import_module(lib.__name__ + ".utils._python_dispatch"), importlib.import_module(lib.__name__ + ".utils._pytree")


def wrapper(lib):
    """A class whose tensors hold one other, and what it was asked for."""
    dispatch, pytree = parts(lib)
    log = []

    class Held(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

        def __init__(self, inner):
            self.inner = inner

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(tensors, context, size, stride):
            return Held(tensors["inner"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(str(func))
            args, kwargs = args, kwargs or {}
            plain = pytree.tree_map_only(Held, lambda x: x.inner, (args, kwargs))
            made = pytree.tree_map_only(lib.Tensor, Held, func(*plain[0], **plain[1]))
            return dispatch.return_and_correct_aliasing(func, args, kwargs, made)
    return Held, log


@pytest.mark.parametrize("change, dtype", [("double", "float64"), ("half", "float16"), (None, "bfloat16")])
def test_a_converted_module_has_converted_insides(lib, change, dtype):
    Held, _ = wrapper(lib)
    layer = lib.nn.Linear(3, 2)
    layer.weight = lib.nn.Parameter(Held(layer.weight.detach()))
    weight = layer.weight
    weight.grad = Held(lib.ones(2, 3))
    layer.to(lib.bfloat16) if change is None else getattr(layer, change)()
    assert layer.weight is weight and weight.dtype == weight.inner.dtype == getattr(lib, dtype)
    assert isinstance(weight, lib.nn.Parameter) and weight.requires_grad
    assert type(weight.grad) is Held and weight.grad.dtype == weight.grad.inner.dtype == getattr(lib, dtype)


@pytest.mark.parametrize("make, operator", [
    (lambda lib, p: lib.optim.SGD(p, lr=0.1, momentum=0.9), "aten.add_.Tensor"),
    (lambda lib, p: lib.optim.AdamW(p, lr=0.1), "aten.addcdiv_.default"),
    (lambda lib, p: lib.optim.Adam(p, lr=0.1), "aten.addcdiv_.default")])
def test_optimizers_step_in_single_operators(lib, make, operator):
    Held, log = wrapper(lib)
    lib.manual_seed(0)
    start = lib.randn(4)
    plain, held = lib.nn.Parameter(start.clone()), lib.nn.Parameter(Held(start.clone()))
    for p in (plain, held):
        optimizer = make(lib, [p])
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            log.clear()
            optimizer.step()
    assert operator in log and not any("fused" in name for name in log)
    lib.testing.assert_close(held.inner.detach(), plain.detach())


def test_a_mode_sees_a_step_in_single_operators(lib):
    seen = []

    class Log(parts(lib)[0].TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))
    p = lib.nn.Parameter(lib.ones(2))
    optimizer = lib.optim.SGD([p], lr=0.1)
    p.grad = lib.ones(2)
    with Log():
        optimizer.step()
    assert "aten.add_.Tensor" in seen and not any("fused" in name for name in seen)


def test_quantized_weights(lib):
    dispatch, _ = parts(lib)
    aten = lib.ops.aten

    class Int8(lib.Tensor):
        @staticmethod
        def __new__(cls, data, scale):
            return lib.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

        def __init__(self, data, scale):
            self.data8, self.scale = data, scale

        def __tensor_flatten__(self):
            return ["data8", "scale"], None

        @classmethod
        def __tensor_unflatten__(cls, tensors, context, size=None, stride=None):
            return cls(tensors["data8"], tensors["scale"])

        @classmethod
        def of(cls, w):
            scale = w.abs().amax(1) / 127
            return cls((w / scale[:, None]).round().to(lib.int8), scale)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is lib.nn.functional.linear:
                x, w, bias = args
                return (x @ w.data8.t().to(x.dtype)) * w.scale + bias
            with lib._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func in (aten.detach.default, aten.clone.default):
                made = cls(func(args[0].data8), func(args[0].scale))
                return dispatch.return_and_correct_aliasing(func, args, kwargs or {}, made)
            if func is aten.copy_.default:
                args[0].data8.copy_(args[1].data8)
                args[0].scale.copy_(args[1].scale)
                return args[0]
            raise NotImplementedError(f"no {func}")

    lib.manual_seed(0)
    layer, x = lib.nn.Linear(8, 4), lib.randn(3, 8)
    exact = layer(x)
    layer.weight = lib.nn.Parameter(Int8.of(layer.weight.detach()), requires_grad=False)
    assert (layer(x) - exact).abs().max() < 0.05
    other = lib.nn.Linear(8, 4)
    other.weight = lib.nn.Parameter(Int8.of(other.weight.detach()), requires_grad=False)
    other.load_state_dict(layer.state_dict())
    twin = copy.deepcopy(layer)
    assert type(twin.weight) is type(layer.weight) and twin.weight.data8 is not layer.weight.data8
    assert lib.equal(other(x), layer(x)) and lib.equal(twin(x), layer(x))
    made = dispatch.transform_subclass(layer.weight, lambda name, x: x.clone())
    assert lib.equal(made.data8, layer.weight.data8)
    with pytest.raises(NotImplementedError, match="no aten.sin.default"):
        lib.sin(layer.weight)


def test_swapped_tensors_take_their_metadata_queries_along(lib):
    Held, log = wrapper(lib)

    class Asked(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return (7,) if func is lib.ops.aten.sym_size.default else None
    a, b = Held(lib.ones(2)), lib.Tensor._make_wrapper_subclass(Asked, (3,), dispatch_sizes_strides_policy="sizes")
    lib.utils.swap_tensors(a, b)
    assert a.shape == (7,) and b.shape == (2,)


def test_padding_keeps_the_class_and_the_gradient(lib):
    Held, log = wrapper(lib)
    x = Held(lib.ones(2, 2))
    made = lib.nn.functional.pad(x, (1, 0))
    assert type(made) is Held and made.inner.tolist() == [[0, 1, 1], [0, 1, 1]] and log[-1] == "aten.constant_pad_nd.default"
    x = Held(lib.ones(2, 2)).requires_grad_()
    lib.nn.functional.pad(x, (1, 0)).sum().backward()
    assert type(x.grad) is Held and x.grad.inner.tolist() == [[1, 1], [1, 1]]


def test_a_mode_sees_what_is_drawn_and_read(lib):
    dispatch, _ = parts(lib)
    seen = []

    class Seeded(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), dispatch.is_in_torch_dispatch_mode()))
            if lib.Tag.nondeterministic_seeded in func.tags:
                lib.manual_seed(7)
            return func(*args, **(kwargs or {}))
    x = lib.ones(2, 8)
    with Seeded():
        assert lib.equal(lib.rand(3), lib.rand(3))
        assert lib.equal(lib.nn.functional.dropout(x, 0.5), lib.nn.functional.dropout(x, 0.5))
        assert lib.equal(lib.nn.functional.dropout1d(x[None], 0.5), lib.nn.functional.dropout1d(x[None], 0.5))
        seen.clear()
        x[0, 0].item(), bool(x[0, 0]), float(x[0, 0])
    assert [name for name, _ in seen].count("aten._local_scalar_dense.default") == 3 and all(inside for _, inside in seen)
    assert not dispatch.is_in_torch_dispatch_mode()
    lib.manual_seed(3)
    plain = lib.nn.functional.dropout(x, 0.3)
    with dispatch.BaseTorchDispatchMode():
        lib.manual_seed(3)
        assert lib.equal(lib.nn.functional.dropout(x, 0.3), plain)
        y = lib.ones(4, requires_grad=True)
        z = lib.nn.functional.dropout(y, 0.5)
        z.sum().backward()
    assert lib.equal(y.grad, z.detach())


def test_a_handler_may_be_a_plain_method(lib):
    """It gets the operand then, of the wrapper's class, whatever modes are active."""
    Mode = importlib.import_module(f"{lib.__name__}.utils._python_dispatch").TorchDispatchMode

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert self is args[0] and types == (Wrapper,)
            return func(self.inner, *args[1:], **(kwargs or {}))

    class Through(Mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    x = Wrapper(lib.ones(2))
    assert (x * 2).tolist() == [2, 2]
    with Through():
        assert x.clone().tolist() == [1, 1]


def test_parts_of_a_wrapper_are_in_its_storage(lib):
    aliased = importlib.import_module(f"{lib.__name__}.utils._python_dispatch").return_and_correct_aliasing
    tree = importlib.import_module(f"{lib.__name__}.utils._pytree")

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride(), storage_offset=inner.storage_offset())

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = tree.tree_map_only(Wrapper, lambda x: x.inner, args)
            return aliased(func, args, kwargs or {}, tree.tree_map_only(lib.Tensor, Wrapper, func(*inner, **(kwargs or {}))))
    x = Wrapper(lib.ones(4, 4))
    number = x.untyped_storage()._cdata
    for parts in (x.split(2), x.chunk(2), x.unbind(), x.split([1, 3]), (x.view(16),)):
        assert all(part.untyped_storage()._cdata == number for part in parts)
    assert x.split(2)[1].storage_offset() == 8 and (x * 2).untyped_storage()._cdata != number


def test_an_alias_that_a_handler_makes_by_set_is_counted_with_its_operand(lib):
    """What an operator saves of its result goes through detach; the handler's set_() isn't a write to it."""
    dispatch = importlib.import_module(f"{lib.__name__}.utils._python_dispatch")
    tree = importlib.import_module(f"{lib.__name__}.utils._pytree")

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner.detach()

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = tree.tree_map_only(Wrapper, lambda x: x.inner, args)
            out = tree.tree_map_only(lib.Tensor, Wrapper, func(*inner, **(kwargs or {})))
            if func is lib.ops.aten.detach.default:
                with dispatch.no_dispatch() if lib.__name__ == "tede" else lib._C._DisableTorchDispatch():
                    out.set_(func(*args))
            return out
    x = Wrapper(lib.ones(3, requires_grad=True))
    y = x.exp()
    g, = lib.autograd.grad(y, x, Wrapper(lib.ones(3)))
    assert lib.allclose(g.inner, lib.ones(3).exp())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_numbers_are_read_through_the_class(lib, device):
    dispatch, pytree = parts(lib)
    log = []

    class Held(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=device)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            log.append(func)
            return func(*pytree.tree_map_only(Held, lambda x: x.inner, args), **(kwargs or {}))
    x = Held(lib.tensor(3))
    for read, wanted in ((lambda: x.item(), 3), (lambda: int(x), 3), (lambda: bool(x), True), (lambda: [*"abcd"][x], "d"),
                         (lambda: lib.arange(x).tolist(), [0, 1, 2]), (lambda: lib.arange(5).narrow(0, x, 1).tolist(), [3])):
        assert read() == wanted and log == [lib.ops.aten._local_scalar_dense.default]
        log.clear()
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        lib.ones((), device="meta").item()
