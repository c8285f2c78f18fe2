"""Types of a graph's values from annotations that leave sizes open."""
import importlib

import pytest

sympy = pytest.importorskip("sympy")


@pytest.fixture
def fx(lib):
    class Names:
        pass
    names = Names()
    for module in ("tensor_type", "annotate", "experimental.graph_gradual_typechecker", "experimental.rewriter", "experimental.unify_refinements",
                   "experimental.refinement_types"):
        vars(names).update(vars(importlib.import_module(f"{lib.__name__}.fx.{module}")))
    return names


def graph_of(lib, fx, forward, *types, **layers):
    module = type("M", (lib.nn.Module,), {"forward": forward})()
    for name, layer in layers.items():
        setattr(module, name, layer)
    traced = lib.fx.symbolic_trace(module)
    for node, kind in zip((node for node in traced.graph.nodes if node.op == "placeholder"), types):
        node.type = kind
    return traced


def checked(lib, fx, forward, *types, **layers):
    """The types of a graph's nodes."""
    traced = graph_of(lib, fx, forward, *types, **layers)
    assert fx.GraphTypeChecker({}, traced).type_check()
    return [node.type for node in traced.graph.nodes]


def tensors(fx, *sizes):
    return [fx.TensorType(s) if isinstance(s, tuple) else s for s in sizes]


def test_sums_are_broadcast(lib, fx):
    Dyn, T = fx.Dyn, fx.TensorType
    add = lambda self, x, y: lib.add(x, y)      # noqa: E731
    assert checked(lib, fx, add, T((1, 2, 3, Dyn)), T((2, 3, 4))) == tensors(fx, (1, 2, 3, Dyn), (2, 3, 4), (1, 2, 3, Dyn), (1, 2, 3, Dyn))
    assert checked(lib, fx, add, int, T((2, 3))) == [int, *tensors(fx, (2, 3), (2, 3), (2, 3))]
    with pytest.raises(TypeError, match="Cannot add arguments"):
        checked(lib, fx, add, T((1, 2, 3, Dyn)), T((1, 2, 3)))
    assert fx.broadcast_types(T((2, 3, 4)), T((1, 2, 1, 4))) == (T((1, 2, 3, 4)),) * 2


def test_shapes(lib, fx):
    Dyn, T = fx.Dyn, fx.TensorType
    assert checked(lib, fx, lambda self, x: lib.flatten(x, 1, 2), T((1, Dyn, 3, 5)))[-1] == T((1, Dyn, 5))
    assert checked(lib, fx, lambda self, x: lib.flatten(x, start_dim=1, end_dim=-1), T((2, 3, 4, 5)))[-1] == T((2, 60))
    assert checked(lib, fx, lambda self, x: lib.transpose(x, 0, 1), T((1, Dyn, 3)))[-1] == T((Dyn, 1, 3))
    assert checked(lib, fx, lambda self, x: lib.reshape(x, [1, 5, -1]), T((1, 15)))[-1] == T((1, 5, Dyn))
    for wrong in (lambda self, x: lib.transpose(x, 0, 10), lambda self, x: lib.reshape(x, [1, 2, -1]), lambda self, x: lib.flatten(x, 3, 7)):
        with pytest.raises(TypeError):
            checked(lib, fx, wrong, T((1, 15)))


def test_layers(lib, fx):
    Dyn, T, nn = fx.Dyn, fx.TensorType, lib.nn

    def forward(self, x):
        return lib.flatten(self.mean(self.linear(self.pool(self.norm(self.conv(x))))), 1)
    layers = dict(conv=nn.Conv2d(3, 6, 5, stride=2, padding=1), norm=nn.BatchNorm2d(6), pool=nn.MaxPool2d(3, padding=1), linear=nn.Linear(5, 12),
                  mean=nn.AdaptiveAvgPool2d((4, 5)))
    types = checked(lib, fx, forward, T((2, 3, 31, 28)), **layers)
    assert types[1:] == tensors(fx, (2, 6, 15, 13), (2, 6, 15, 13), (2, 6, 5, 5), (2, 6, 5, 12), (2, 6, 4, 5), (2, 120), (2, 120))
    assert checked(lib, fx, forward, Dyn, **layers)[0] == T((Dyn,) * 4)
    for wrong in (T((2, 4, 31, 28)), T((2, 3, 31))):
        with pytest.raises(TypeError):
            checked(lib, fx, forward, wrong, **layers)
    with pytest.raises(RuntimeError, match="No inference rule registered for class"):
        checked(lib, fx, lambda self, x: self.fold(x), Dyn, fold=nn.Fold(2, 2))
    with pytest.raises(RuntimeError, match="No inference rule registered for target"):
        checked(lib, fx, lambda self, x: lib.atan2(x, x), Dyn)


ANNOTATED = """
import {0} as lib
from {0}.fx.annotate import annotate
from {0}.fx.tensor_type import Dyn, TensorType

class M(lib.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = lib.nn.BatchNorm2d(2)

    def forward(self, x: Dyn):
        y: TensorType((2, 2, Dyn, 4)) = self.norm(x)
        y += x
        return y
"""


def test_a_variables_annotation_is_its_nodes_type(lib, fx, tmp_path, monkeypatch):
    T, Dyn, tracer = fx.TensorType, fx.Dyn, fx.RewritingTracer()
    (tmp_path / f"annotated_{lib.__name__}.py").write_text(ANNOTATED.format(lib.__name__))
    monkeypatch.syspath_prepend(tmp_path)
    graph = tracer.trace(importlib.import_module(f"annotated_{lib.__name__}").M())
    traced = lib.fx.GraphModule(tracer.root, graph)
    assert fx.GraphTypeChecker({}, traced).type_check()
    assert [node.type for node in traced.graph.nodes] == tensors(fx, (Dyn,) * 4, (2, 2, Dyn, 4), (Dyn,) * 4, (Dyn,) * 4)
    fx.infer_symbolic_types(traced)
    assert all(node.type == T((2, 2, sympy.symbols("~7"), 4)) for node in traced.graph.nodes)


def test_symbols_for_open_sizes(lib, fx):
    Dyn, T, nn = fx.Dyn, fx.TensorType, lib.nn
    traced = graph_of(lib, fx, lambda self, x: self.relu(self.conv(x)), T((Dyn, 3, Dyn, 9)), conv=nn.Conv2d(3, 6, 3, stride=2), relu=nn.ReLU())
    assert fx.GraphTypeChecker({}, traced).type_check()
    fx.infer_symbolic_types(traced)
    x, conv, relu, output = (node.type.__args__ for node in traced.graph.nodes)
    assert x[0] == conv[0] == relu[0] == output[0] and x[0].is_symbol and x[1:] == (3, sympy.symbols("~1"), 9)
    assert [conv[2].subs(x[2], size) for size in (27, 28, 29)] == [13, 13, 14] and conv[3] == 4
    refine = fx.Refine(graph_of(lib, fx, lambda self, x: lib.flatten(x, 1), T((2, 3, 4))))
    assert refine.refine() and refine.constraints == []         # nothing is known of the result before types are checked
    with pytest.raises(RuntimeError, match="already registered"):
        fx.register_inference_rule(lib.add)(lambda n: n)
