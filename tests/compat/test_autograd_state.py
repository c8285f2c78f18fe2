"""What hangs on tensors and nodes beside the graph: hooks that are set, cycles through hooks, leaves whose memory changes."""
import gc
import weakref
from collections import OrderedDict

import pytest


def test_the_hooks_of_a_tensor_can_be_set(lib):
    x = lib.ones(3, requires_grad=True)
    x.register_hook(lambda g: g * 100)
    hooks = OrderedDict({-1: lambda g: g * 2})
    x._backward_hooks = hooks
    assert x._backward_hooks is hooks
    handle = x.register_hook(lambda g: g + 1)
    assert len(hooks) == 2
    x.sum().backward()
    assert x.grad.tolist() == [3.] * 3
    handle.remove()
    assert len(hooks) == 1
    x._backward_hooks = None
    assert x._backward_hooks is None
    x.sum().backward()
    assert x.grad.tolist() == [4.] * 3
    with pytest.raises(RuntimeError, match="Deletion of _backwards_hooks not allowed"):
        del x._backward_hooks


def test_volatile_is_gone_with_a_warning(lib):
    x = lib.ones(2)
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert x.volatile is False
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        x.volatile = True
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        lib.autograd.Variable(x, volatile=True)
    assert lib.autograd.torch is lib


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("on_tensor", [False, True])
def test_a_hook_that_holds_its_node_is_collected_once_the_graph_is_gone(lib, custom, on_tensor):
    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    class Sentinel:
        pass
    calls = []

    def scope():
        a = lib.tensor(1., requires_grad=True)
        b = Same.apply(a) if custom else a.clone()
        node, sentinel = b.grad_fn, Sentinel()

        def hook(*grads):
            calls.append((node, sentinel))
        (b if on_tensor else node).register_hook(hook)
        return b.clone(), weakref.ref(sentinel)
    y, alive = scope()
    y.backward(retain_graph=True)
    gc.collect()
    y.backward(retain_graph=True)
    assert len(calls) == 2 and alive() is not None
    calls.clear()
    del y
    gc.collect()
    assert alive() is None


def test_hooks_on_saved_tensors_that_a_pass_pushes_go_with_it(lib):
    def scope():
        def unpack(x):
            inside().__enter__()
            return x
        hooks = lib.autograd.graph.saved_tensors_hooks(lambda x: x, unpack)
        inside = weakref.ref(hooks)
        x = lib.ones(3, requires_grad=True)
        with hooks:
            x.sin().sum().backward()
        (x * x).sum().backward()
        return weakref.ref(unpack)
    left = scope()
    gc.collect()
    assert left() is None


def test_a_leaf_set_to_other_memory_has_an_accumulator_of_its_own(lib):
    edge = lib.autograd.graph.get_gradient_edge
    x, seen = lib.ones(2, requires_grad=True), []
    node = edge(x).node
    node.register_prehook(lambda grads: seen.append("pre"))
    x.register_hook(lambda g: seen.append("hook"))
    old = x * 2
    with lib.no_grad():
        x.set_(lib.zeros(2))
    assert edge(x).node is not node
    (x * 3).sum().backward()
    assert seen == ["hook"] and x.grad.tolist() == [3., 3.]
    old.sum().backward()
    assert seen == ["hook", "hook", "pre"] and x.grad.tolist() == [5., 5.]
    x.data = lib.ones(2, dtype=lib.float64)
    assert edge(x).node is not node and x.requires_grad


def test_a_gradient_of_another_shape_than_its_leaf_is_refused_or_spread(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    with lib.no_grad():
        x.set_(lib.ones(3, 3))
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(2\)"):
        y.sum().backward()
    assert x.grad is None
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    x.data = lib.ones(3, 2)
    y.sum().backward()
    assert x.grad.tolist() == [[2., 2.]] * 3


def test_set_counts_as_a_write(lib):
    x, w = lib.ones(2), lib.ones(2, requires_grad=True)
    view, y = x[:1], x * w
    x.set_(lib.zeros(2))
    assert x._version == 1 and view._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_mode_sees_gradients_added_up_and_left_at_leaves(lib):
    from importlib import import_module
    base = import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode

    class Log(base):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls.append(str(function))
            return function(*args, **(kwargs or {}))
    x, calls = lib.ones(2, requires_grad=True), []
    start = ["aten.ones_like.default", "aten.expand.default", "aten.mul.Tensor", "aten.mul.Tensor", "aten.add.Tensor"]
    for last in ("aten.detach.default", "aten.add_.Tensor"):
        y = (x * x).sum()
        with Log():
            y.backward()
        assert calls == [*start, last]
        calls.clear()


@pytest.mark.parametrize("write", ["out", "resize_", "set_", "add_", "detached"])
def test_tensors_of_inference_mode_are_not_written_outside_of_it(lib, write):
    with lib.inference_mode():
        x = lib.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        if write == "out":
            lib.mul(lib.ones(2), 2, out=x)
        elif write == "detached":
            x.view(-1).mul_(2)
        else:
            getattr(x, write)(*{"resize_": (3,), "set_": (lib.ones(3),), "add_": (1,)}[write])
    with lib.inference_mode():
        lib.mul(lib.ones(2), 2, out=x)
        leaf = lib.ones(2, requires_grad=True)
        assert leaf.resize_(4).shape == (4,)


def test_asking_whether_a_pass_runs_a_node(lib):
    asked = lib._C._will_engine_execute_node
    x = lib.ones(2, requires_grad=True)
    leaf, y = x.clone().grad_fn.next_functions[0][0], x * 2
    z, found = y.cos(), []
    y.register_hook(lambda g: found.append(asked(y.grad_fn)))
    lib.autograd.grad(z.sum(), y, retain_graph=True)
    lib.autograd.backward(z.sum(), inputs=x, retain_graph=True)
    assert found == [True, True]

    def refused(g):
        with pytest.raises(RuntimeError, match="currently running autograd.grad"):
            asked(leaf)
        found.append(None)
    y.register_hook(refused)
    lib.autograd.grad(z.sum(), x)
    assert found == [True, True, True, None]
    with pytest.raises(RuntimeError, match="expects an grad_fn"):
        asked(x)


def test_a_tangent_without_elements_is_taken_as_it_is(lib):
    from importlib import import_module
    forward = import_module(lib.__name__ + ".autograd.forward_ad")
    x, t = lib.ones(1).as_strided((0,), (1,), 1), lib.ones(1).as_strided((0,), (1,), 2)
    with forward.dual_level():
        assert forward.unpack_dual(forward.make_dual(x, t)).tangent is t


def test_lists_that_a_node_saved_come_as_tuples(lib):
    x, i = lib.ones(4, 4, requires_grad=True), lib.tensor([0, 1])
    node = x[:, i].grad_fn
    assert node._saved_self_sym_sizes == (4, 4)
    first, second = node._saved_indices
    assert first is None and second.tolist() == [0, 1]
    assert len(node._raw_saved_indices) == 2
    x[i].sum().backward()


def test_hooks_on_saved_tensors_see_operands_themselves(lib):
    w = lib.nn.Parameter(lib.ones(2))
    x = lib.ones(2, requires_grad=True) * 1
    seen = []
    with lib.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(t), t)[1], lambda t: t):
        y = x * w
    assert sorted(map(id, seen)) == sorted(map(id, (x, w)))
    assert all(t.requires_grad for t in seen) and any(isinstance(t, lib.nn.Parameter) for t in seen)
    y.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_leaf_may_say_which_dtype_its_gradient_has(lib):
    x = lib.ones(2, dtype=lib.bfloat16, requires_grad=True)
    assert x.grad_dtype == lib.bfloat16
    x.grad_dtype = lib.float32
    for total in (2., 4.):
        (x * 2).sum().backward()
        assert x.grad.dtype == lib.float32 and x.grad.tolist() == [total] * 2
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'Double' because there is already a gradient"):
        x.grad_dtype = lib.float64
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype .* to a tensor with grad_dtype 'Float'"):
        x.grad = lib.ones(2, dtype=lib.bfloat16)
    assert x.detach().grad_dtype == lib.bfloat16
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        (x * 2).grad_dtype  # noqa: B018
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        (x * 2).grad_dtype = None
    with pytest.raises(RuntimeError, match="grad_dtype must be a torch.dtype or None, but got int"):
        x.grad_dtype = 3


def test_a_leaf_may_take_gradients_of_any_dtype(lib):
    class Wide(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.double() / 3
    x = lib.ones(2, requires_grad=True)
    x.grad_dtype = None
    Wide.apply(x).sum().backward()
    assert x.grad_dtype is None and x.grad.dtype == lib.float64
    x.grad = lib.ones(2, dtype=lib.float16)
    assert x.grad.dtype == lib.float16


def test_operands_of_a_function_may_come_by_keyword(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, by=2):
            return x * by

        @staticmethod
        def backward(ctx, g):
            return g * 2, None
    x = lib.ones(2, requires_grad=True)
    Twice.apply(x=x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert Twice.apply(x, by=5).tolist() == [5, 5]


def test_what_a_function_gives_wrong_is_said(lib):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            with pytest.raises(TypeError, match="set_materialize_grads"):
                ctx.set_materialize_grads(1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            with pytest.raises(AttributeError, match="'WrongBackward' object has no attribute 'lost'"):
                ctx.lost  # noqa: B018
            return lib.complex(g, g)
    with pytest.raises(RuntimeError, match="input_is_complex == grad_is_complex"):
        Wrong.apply(lib.ones(2, requires_grad=True)).sum().backward()


def test_other_data_leave_a_tensor_counted_with_its_old_views(lib):
    x = lib.zeros(2, 3)
    view, detached = x[0], x.detach()
    x.data = lib.ones(3, 2)
    later = x[0]
    versions = lambda: [t._version for t in (x, view, detached, view[:1], later)]  # noqa: E731
    assert versions() == [0] * 5
    x.add_(1)
    assert versions() == [1] * 5
    view.mul_(2)
    assert versions() == [2] * 5
    x.data = lib.ones(4)
    view.mul_(2)
    assert x._version == 3
    w = lib.ones(3, requires_grad=True)
    y = w * view
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_policy_of_checkpointing_is_asked_about_the_operators_of_the_program(lib):
    from importlib import import_module
    saving = import_module(lib.__name__ + ".utils.checkpoint")
    asked, x = [], lib.rand(3, requires_grad=True)

    def policy(context, op, *args, **kwargs):
        asked.append((context.is_recompute, str(op)))
        return saving.CheckpointPolicy.MUST_SAVE
    y = saving.checkpoint(lambda x: x.cos().exp().sin(), x, use_reentrant=False,
                          context_fn=lambda: saving.create_selective_checkpoint_contexts(policy))
    y.sum().backward()
    names = ["aten.cos.default", "aten.exp.default", "aten.sin.default"]
    assert asked[:3] == [(False, name) for name in names]
    assert [again for again, name in asked[3:]] == [True] * len(asked[3:]) and {name for _, name in asked} <= set(names)
    assert x.grad is not None


def test_a_gradient_is_one_object_as_long_as_it_is_there(lib):
    layer = lib.nn.Linear(2, 2)
    layer(lib.ones(2)).sum().backward()
    before = [id(p.grad) for p in layer.parameters()]
    others = [lib.ones(1) for _ in range(8)]
    layer(lib.ones(2)).sum().backward()             # added in place
    layer.to(lib.float64)
    assert [id(p.grad) for p in layer.parameters()] == before and len(others) == 8
    assert layer.weight.grad.dtype == lib.float64
    layer.zero_grad()
    assert layer.weight.grad is None
