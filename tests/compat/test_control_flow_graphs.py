"""cond, while_loop and map as operators of a graph that make_fx makes, and under vmap."""
import importlib

import pytest


def _ops(lib):
    return importlib.import_module(f"{lib.__name__}._higher_order_ops")


def _make_fx(lib):
    return importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor").make_fx


def _calls(graph, operator):
    return [node for node in graph.graph.nodes if node.target is operator]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_has_both_branches_of_a_cond(lib, mode):
    outside = lib.tensor([1.0, 2.0])

    def branches(x, pred):
        double = x * 2
        return lib.cond(pred, lambda x: (x + outside).sin() * double, lambda x: x.cos() - double, (x,))
    graph = _make_fx(lib)(branches, tracing_mode=mode, _allow_non_fake_inputs=True)(lib.tensor([0.5, 1.5]), lib.tensor(True))
    node, = _calls(graph, lib.ops.higher_order.cond)
    assert " = torch.ops.higher_order.cond(pred_1, true_graph_0, false_graph_0, " in graph.code
    assert {a.target for a in node.args[1:3]} == {"true_graph_0", "false_graph_0"}
    for branch in graph.true_graph_0, graph.false_graph_0:
        assert len([n for n in branch.graph.nodes if n.op == "placeholder"]) == len(node.args[3]) >= 3
    x = lib.tensor([3.0, -1.0])
    for pred in lib.tensor(True), lib.tensor(False):
        lib.testing.assert_close(graph(x, pred), branches(x, pred))


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_cond_in_a_cond_is_in_the_graph(lib, mode):
    def inner(x, second):
        return lib.cond(second, lambda x: x * x, lambda x: x + x, (x,)) + 1

    def outer(x, first, second):
        return lib.cond(first, inner, lambda x, _: x.cos(), (x, second))
    x = lib.tensor([3.0, -1.0])
    graph = _make_fx(lib)(outer, tracing_mode=mode)(x, lib.tensor(False), lib.tensor(False))
    assert _calls(graph, lib.ops.higher_order.cond) and _calls(graph.true_graph_0, lib.ops.higher_order.cond)
    again = _make_fx(lib)(graph, tracing_mode=mode)(x, lib.tensor(False), lib.tensor(False))
    for first in True, False:
        for second in True, False:
            flags = lib.tensor(first), lib.tensor(second)
            lib.testing.assert_close(graph(x, *flags), outer(x, *flags))
            lib.testing.assert_close(again(x, *flags), outer(x, *flags))


def test_the_gradient_of_a_cond_is_a_cond_in_the_graph(lib):
    weight = lib.tensor([2.0, 3.0], requires_grad=True)

    def gradients(x, pred):
        x = x.detach().requires_grad_()
        y = lib.cond(pred, lambda x: (x * weight).sin(), lambda x: x.cos() * 1.0, (x,))
        return lib.autograd.grad(y.sum(), [x, weight], allow_unused=True, materialize_grads=True)
    x = lib.tensor([0.5, -1.0])
    graph = _make_fx(lib)(gradients)(x, lib.tensor(True))
    assert len(_calls(graph, lib.ops.higher_order.cond)) == 2
    for pred in lib.tensor(True), lib.tensor(False):
        for found, expected in zip(graph(x, pred), gradients(x, pred)):
            lib.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_has_a_while_loop(lib, mode):
    step = lib.tensor([1.0, 2.0])

    def loop(x, n):
        return lib.while_loop(lambda x, n: n < 4, lambda x, n: (x * 2 + step, n + 1), (x, n))
    graph = _make_fx(lib)(loop, tracing_mode=mode, _allow_non_fake_inputs=True)(lib.tensor([0.5, 1.5]), lib.tensor(3))
    node, = _calls(graph, lib.ops.higher_order.while_loop)
    assert [a.target for a in node.args[:2]] == ["while_loop_cond_graph_0", "while_loop_body_graph_0"]
    for start in 0, 2, 5:
        x, n = lib.tensor([3.0, -1.0]), lib.tensor(start)
        for found, expected in zip(graph(x, n), loop(x, n)):
            lib.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_has_a_map(lib, mode):
    def mapped(x, y):
        return _ops(lib).map(lambda a, b: (a["p"] * b, b.sum() + a["q"]), x, y)
    x, y = {"p": lib.arange(6.0).reshape(3, 2), "q": lib.tensor([1.0, 2.0, 3.0])}, lib.tensor([0.5, 2.0])
    graph = _make_fx(lib)(mapped, tracing_mode=mode)(x, y)
    assert len(_calls(graph, lib.ops.higher_order.map_impl)) == 1
    for found, expected in zip(graph(x, y), mapped(x, y)):
        lib.testing.assert_close(found, expected)
    lib.testing.assert_close(mapped(x, y)[0], x["p"] * y)


def test_map_says_what_it_takes(lib):
    ones = lib.ones
    for xs, words in ([3, ones(2)], "can only consist of tensors"), (ones(0, 2), "cannot be 0"), ((ones(3, 1), ones(2, 1)), "must be consistent"):
        with pytest.raises(RuntimeError, match=words):
            _ops(lib).map(lambda x: x, xs)


def test_members_of_a_batch_take_branches_of_their_own(lib):
    found = lib.func.vmap(lambda pred, x: lib.cond(pred, lambda x: x + 1, lambda x: x * 5, (x,)))(lib.tensor([True, False]), lib.tensor([1.0, 2.0]))
    assert found.tolist() == [2, 10]


def test_what_a_branch_passes_on_is_a_result_of_the_cond(lib):
    def f(x, pred):
        y = lib.cond(pred, lambda x: x.clone(), lambda x: x * 2, (x,))
        return x + y
    graph = _make_fx(lib)(f)(lib.tensor([1.0]), lib.tensor(True))
    assert graph(lib.tensor([3.0]), lib.tensor(False)).item() == 9 and graph(lib.tensor([3.0]), lib.tensor(True)).item() == 6

    def loop(n, x):
        m, y = lib.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, x))
        return x + y
    graph = _make_fx(lib)(loop)(lib.tensor(0), lib.tensor([1.0]))
    assert graph(lib.tensor(2), lib.tensor([3.0])).item() == 15
