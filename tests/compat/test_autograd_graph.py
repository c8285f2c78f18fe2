"""The gradient graph as an object: edges, node hooks, what is saved, versions, the modes."""
import threading

import pytest


def leaf(lib, *data):
    return lib.tensor(data, dtype=lib.float64, requires_grad=True)


# ---- edges ---------------------------------------------------------------------------------------------------------

def test_an_edge_stands_for_its_tensor(lib):
    graph = lib.autograd.graph
    x = leaf(lib, 2.0)
    y = x.exp()
    z = y * 3
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    g, = lib.autograd.grad(z.sum(), [edge], retain_graph=True)
    assert g.tolist() == [3.0]
    end = graph.get_gradient_edge(z)
    del z
    gx, = lib.autograd.grad([end], [x], [lib.ones(1, dtype=lib.float64)])
    assert gx.item() == pytest.approx(3 * 2.718281828459045 ** 2)


def test_the_edge_of_a_leaf(lib):
    x = leaf(lib, 1.0, 2.0)
    edge = lib.autograd.graph.get_gradient_edge(x)
    assert edge.node.name() == "torch::autograd::AccumulateGrad" or edge.node.name() == "AccumulateGrad"
    assert edge.node.variable is x
    (x * 2).sum().backward(inputs=[edge])
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="not possible to get the gradient edge for a Tensor that does not require"):
        lib.autograd.graph.get_gradient_edge(lib.ones(2))


def test_nodes_know_their_next(lib):
    x, w = leaf(lib, 1.0), leaf(lib, 2.0)
    y = x * w + 1
    assert y.grad_fn.name() == "AddBackward0" and type(y.grad_fn).__name__ == "AddBackward0"
    mul = y.grad_fn.next_functions[0][0]
    assert mul.name() == "MulBackward0"
    assert [n.variable is v for (n, _), v in zip(mul.next_functions, (x, w))] == [True, True]
    assert isinstance(mul, lib.autograd.graph.Node)
    mul.metadata["mine"] = 1
    assert y.grad_fn.next_functions[0][0].metadata == {"mine": 1}


def test_node_hooks_see_and_replace(lib):
    x = leaf(lib, 1.0)
    y = (x * 2).sum()
    seen = []
    mul = y.grad_fn.next_functions[0][0]
    handle = mul.register_prehook(lambda grads: (seen.append(("pre", grads[0].item())), (grads[0] * 10,))[1])
    mul.register_hook(lambda given, taken: seen.append(("post", given[0].item(), taken[0].item())))
    y.backward(retain_graph=True)
    assert seen == [("pre", 1.0), ("post", 20.0, 10.0)] and x.grad.item() == 20.0
    handle.remove()
    y.backward()
    assert x.grad.item() == 22.0


# ---- several gradients ------------------------------------------------------------------------------------------

def test_one_hook_for_several_gradients(lib):
    a, b, c = leaf(lib, 1.0), leaf(lib, 2.0), leaf(lib, 3.0)
    seen = []
    handle = lib.autograd.graph.register_multi_grad_hook((a, b, c), lambda gs: seen.append([g and g.item() for g in gs]))
    (a * b).sum().backward()
    assert seen == [[2.0, 1.0, None]]
    (a * b * c).sum().backward(inputs=[a, c])
    assert seen[1:] == [[6.0, None, 2.0]]
    handle.remove()
    (a * b).sum().backward()
    assert len(seen) == 2


def test_one_hook_for_the_first_gradient(lib):
    a, b = leaf(lib, 1.0), leaf(lib, 2.0)
    seen = []
    lib.autograd.graph.register_multi_grad_hook((a, b), lambda g: seen.append(g.item()), mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        lib.autograd.graph.register_multi_grad_hook((a, b), lambda g: None, mode="some")


# ---- what is saved -------------------------------------------------------------------------------------------------

def test_hooks_on_what_is_saved(lib):
    x = leaf(lib, 2.0, 3.0)
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t.tolist()

    def unpack(data):
        return lib.tensor(data, dtype=lib.float64)
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    z = x * 2
    assert packed == [[2.0, 3.0], [2.0, 3.0]]
    (y + z).sum().backward()
    assert x.grad.tolist() == [6.0, 8.0]


def test_the_innermost_hooks_win(lib):
    x = leaf(lib, 2.0)
    graph = lib.autograd.graph
    with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 100):
        with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 10):
            y = x * x
    y.sum().backward()
    assert x.grad.item() == 40.0


def test_hooks_are_applied_to_what_functions_save(lib):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 2 * x * g
    x = leaf(lib, 3.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.item(), lambda v: lib.tensor([v * 2], dtype=lib.float64)):
        y = Square.apply(x)
    y.backward()
    assert x.grad.item() == 12.0


def test_saved_on_the_cpu(lib):
    x = leaf(lib, 2.0)
    with lib.autograd.graph.save_on_cpu():
        y = x * x
        z = y.exp()
    z.sum().backward()
    assert x.grad.item() == pytest.approx(4 * 54.598150033)


def test_hooks_can_be_forbidden(lib):
    graph = lib.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match="no more"):
            with graph.disable_saved_tensors_hooks("no more"):
                pass


def test_a_pack_hook_must_not_write(lib):
    x = leaf(lib, 2.0)

    def pack(t):
        t *= 2
        return t
    with lib.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        with pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"):
            x * x


def test_an_unpack_hook_must_give_a_tensor(lib):
    x = leaf(lib, 2.0)
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: "no"):
        y = x * x
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor but got result of type str"):
        y.sum().backward()


def test_saved_values_by_name(lib):
    x, w = leaf(lib, 2.0), leaf(lib, 3.0)
    y = x * w
    assert y.grad_fn._saved_self is x and y.grad_fn._saved_other is w
    z = x.exp()
    assert z.grad_fn._saved_result.tolist() == z.tolist()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_self


def test_raw_saved_values_take_hooks(lib):
    x = leaf(lib, 2.0)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 1, lambda t: t * 5)
    y.sum().backward()
    assert x.grad.item() == 2.0 * 5 + 2.0


def test_writes_to_what_is_saved(lib):
    x = leaf(lib, 2.0)
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        a = x * 1
        y = a * a
        with lib.no_grad():
            a.mul_(100)
        y.sum().backward()
    assert x.grad.item() == 4.0


def test_versions_can_be_counted_by_hand(lib):
    x = leaf(lib, 2.0)
    a = x * 1
    y = a * a
    before = a._version
    lib.autograd.graph.increment_version(a)
    assert a._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- modes ---------------------------------------------------------------------------------------------------------

def test_modes_as_decorators(lib):
    @lib.no_grad()
    def off():
        return lib.is_grad_enabled()

    @lib.no_grad
    def bare():
        return lib.is_grad_enabled()

    @lib.enable_grad()
    def on():
        return lib.is_grad_enabled()

    @lib.set_grad_enabled(False)
    def chosen():
        return lib.is_grad_enabled()

    @lib.inference_mode()
    def inference():
        return lib.is_inference_mode_enabled()
    assert (off(), bare(), on(), chosen(), inference()) == (False, False, True, False, True)
    assert lib.is_grad_enabled() and not lib.is_inference_mode_enabled()
    with lib.no_grad():
        assert on() and not lib.is_grad_enabled()


def test_modes_around_generators(lib):
    states = []

    @lib.no_grad()
    def values():
        try:
            states.append(lib.is_grad_enabled())
            got = yield 1
            states.append((got, lib.is_grad_enabled()))
            try:
                yield 2
            except ValueError:
                states.append(("caught", lib.is_grad_enabled()))
                yield 3
            return "end"
        finally:
            states.append(("closed", lib.is_grad_enabled()))
    g = values()
    assert next(g) == 1 and lib.is_grad_enabled()
    assert g.send("hello") == 2 and lib.is_grad_enabled()
    assert g.throw(ValueError()) == 3
    with pytest.raises(StopIteration) as stop:
        next(g)
    assert stop.value.value == "end"
    assert states == [False, ("hello", False), ("caught", False), ("closed", False)]
    other = values()
    next(other)
    other.close()
    assert states[-1] == ("closed", False) and lib.is_grad_enabled()


def test_a_mode_comes_back_after_an_exception(lib):
    with pytest.raises(KeyError):
        with lib.no_grad():
            raise KeyError
    assert lib.is_grad_enabled()


def test_set_grad_enabled_at_once(lib):
    lib.set_grad_enabled(False)
    assert not lib.is_grad_enabled()
    lib.set_grad_enabled(True)
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()
    assert lib.is_grad_enabled()
    with pytest.raises(TypeError, match="must be bool"):
        lib.set_grad_enabled(1)


def test_inference_tensors(lib):
    x = leaf(lib, 1.0)
    with lib.inference_mode():
        y = x * 2
        assert y.is_inference() and not y.requires_grad
        view = x.view(1)
        assert not view.is_inference()
        y.add_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode is not"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * y
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        y._version
    assert (x + y).requires_grad and not (y + 1).is_inference()
    with lib.inference_mode(False):
        assert not lib.ones(1).is_inference()


def test_grad_mode_names(lib):
    names = lib.autograd.grad_mode
    for name in ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled", "set_multithreading_enabled"):
        assert hasattr(names, name)
    with lib.autograd.set_multithreading_enabled(False):
        leaf(lib, 1.0).sum().backward()


# ---- passes ----------------------------------------------------------------------------------------------------------

def test_batched_gradients(lib):
    x = leaf(lib, 1.0, 2.0, 3.0)
    y = x ** 2
    g, = lib.autograd.grad(y, x, lib.eye(3, dtype=lib.float64), is_grads_batched=True)
    assert g.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first dimension of each grad_output"):
        lib.autograd.grad(x ** 2, x, lib.ones(3, 2, dtype=lib.float64), is_grads_batched=True)


def test_materialized_gradients(lib):
    x, w = leaf(lib, 1.0), leaf(lib, 2.0)
    gx, gw = lib.autograd.grad((x * 2).sum(), [x, w], materialize_grads=True)
    assert (gx.item(), gw.item()) == (2.0, 0.0)
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads=True"):
        lib.autograd.grad((x * 2).sum(), [x, w], materialize_grads=True, allow_unused=False)


def test_threads_with_their_own_passes(lib):
    w = lib.ones(100, dtype=lib.float64, requires_grad=True)
    errors = []

    def work():
        try:
            for _ in range(20):
                ((w * 2) ** 2).sum().backward()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_a_pass_is_numbered(lib):
    seen = []
    x = leaf(lib, 1.0)
    x.register_hook(lambda g: seen.append(lib._C._current_graph_task_id()))
    x.sum().backward()
    assert seen[0] >= 0 and lib._C._current_graph_task_id() == -1


def test_variables_are_tensors(lib):
    Variable = lib.autograd.Variable
    x = Variable(lib.ones(2), requires_grad=True)
    assert isinstance(x, Variable) and isinstance(lib.ones(1), Variable) and x.requires_grad
    assert not isinstance(1, Variable)


# ---- memory exchanged under a leaf, and gradcheck of batches ------------------------------------------------------------------

def test_set_on_a_leaf(lib):
    x = leaf(lib, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation."):
        x.set_(lib.ones(3, dtype=lib.float64))
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x.set_(lib.ones(3, dtype=lib.float64).untyped_storage())
    with lib.no_grad():
        x.set_(lib.ones(3, dtype=lib.float64))
    assert x.shape == (3,) and x.requires_grad and x.is_leaf
    with pytest.raises(TypeError, match=r"set_\(\) received an invalid combination of arguments - got \(int\)"):
        x.detach().set_(1)


def test_gradcheck_of_batches(lib):
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return lib.tensor(g.tolist(), dtype=lib.float64) * 2

        @staticmethod
        def jvp(ctx, t):
            return lib.tensor(t.tolist(), dtype=lib.float64) * 2
    check, x = lib.autograd.gradcheck, leaf(lib, 1.0, 2.0)
    every = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert check(lambda x: x.sin() * x, x, **every)
    assert check(lambda x: (x.sin() * x, x.exp()), x.detach().to(lib.complex128).requires_grad_(), **every)
    assert check(Doubled.apply, x, check_forward_ad=True)
    for how in ({"check_batched_grad": True}, {"check_forward_ad": True, "check_batched_forward_grad": True}):
        with pytest.raises(lib.autograd.gradcheck.__globals__["GradcheckError"], match="While computing batched gradients, got:"):
            check(Doubled.apply, x, **how)
        assert not check(Doubled.apply, x, raise_exception=False, **how)


# ---- names ------------------------------------------------------------------------------------------------------------------

def test_nodes_are_numbered_by_overload(lib):
    x = lib.rand(3, 3).add(0.1).requires_grad_()
    y, image = x.detach().clone(), lib.rand(1, 1, 4, 4, requires_grad=True)
    names = {"Sum0": x.sum(), "Mean0": x.mean(), "Prod1": x.prod(0), "Max0": x.max(0)[0],
             "Max1": x.max(), "Min1": x.min(), "Median1": x.median(0)[0], "Squeeze0": x.squeeze(), "Squeeze1": x.squeeze(0),
             "Squeeze2": x.squeeze((0, 1)), "Pow0": x.square(), "Pow1": x ** y, "Pow2": 2 ** x, "Clamp1": x.clamp(0, 1),
             "Div2": lib.div(x, y, rounding_mode="trunc"), "Log1P0": x.log1p(), "NanToNum0": x.nan_to_num(),
             "NllLoss0": lib.nn.functional.nll_loss(x, lib.tensor([0, 1, 2])), "MaskedFill1": x.masked_fill(x > 1, lib.tensor(0.0)),
             "MaxPool2DWithIndices0": lib.nn.functional.max_pool2d(image, 2), "FftC2C0": lib.fft.fft(x + 0j)}
    assert {k: v.grad_fn.name() for k, v in names.items()} == {k: f"{k[:-1]}Backward{k[-1]}" for k in names}


def test_hooks_of_an_accumulator_see_the_gradient_and_run_in_pytorchs_order(lib):
    x = lib.ones(3, requires_grad=True)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: g - 2)
    node.register_prehook(lambda g: (g[0] / 4,))
    x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grown", t.grad.add_(0.5)))
    seen = []
    node.register_hook(lambda into, out: seen.append((len(into), out[0].tolist())))
    x.sum().backward()
    assert seen == [(0, [0.25] * 3)] and x.grad.tolist() == [0.25] * 3


def test_backward_to_an_input_with_a_history_runs_its_nodes_hooks(lib):
    a = lib.ones(2, requires_grad=True)
    b, log = a.clone(), []
    b.grad_fn.register_prehook(lambda g: log.append("node"))
    b.register_hook(lambda g: log.append("tensor"))
    b.sum().backward(inputs=(b,))
    assert log == ["tensor", "node"] and a.grad is None and b.grad.tolist() == [1, 1]


def test_a_hook_that_unpacking_registers_runs_and_sees_no_gradients(lib):
    seen = []

    def unpack(x):
        def hook(results, gradients):
            seen.append(gradients)
            return tuple(r / 2 if r is not None else None for r in results)
        lib._C._current_autograd_node().register_hook(hook)
        return x
    x = lib.tensor([3.], requires_grad=True)
    with lib.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = x.exp()
    y.sum().backward()
    assert seen == [()] and lib.allclose(x.grad, y.detach() / 2)


def test_the_end_of_a_graph_has_an_edge_for_each_result(lib):
    class Once(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, number, y):
            return x + number * y

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * 2, None, grad * 3

    x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    gx, gy = lib.autograd.grad(Once.apply(x, 2, y), (x, y), lib.ones(2, requires_grad=True), create_graph=True)
    assert gx.grad_fn.name() == "torch::autograd::Error" and [n is None for n, _ in gx.grad_fn.next_functions] == [False, True, False]
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gy.sum().backward()


def test_nodes_know_of_nested_gradients(lib):
    parts = [lib.ones(3, 2), lib.ones(2, 2)]
    x = lib.nested.nested_tensor(parts, layout=lib.jagged, requires_grad=True)
    about = x.clone().grad_fn._input_metadata[0]
    assert about.is_nested_tensor and not about.is_cpp_nested_tensor and list(about.shape) == list(x.shape)
    assert not lib.ones(2, requires_grad=True).exp().grad_fn._input_metadata[0].is_nested_tensor


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_the_shapes_of_nested_gradients_are_those_of_components(lib):
    x, g = (lib.nested.as_nested_tensor([lib.ones(*shape)] * 2) for shape in ((3, 2), (2, 3)))
    shapes = lib.autograd._calculate_shape(x, g, False)
    assert [s.tolist() for s in shapes] == [[[3, 2]] * 2, [[2, 3]] * 2]
