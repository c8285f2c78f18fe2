"""torch.fx.passes and torch.fx.experimental: graphs split, fused, folded, rewritten."""
import importlib
import operator
import sys
import typing

import pytest


@pytest.fixture
def fx(lib):
    return importlib.import_module(lib.__name__ + ".fx")


@pytest.fixture
def module(lib):
    return lambda name: importlib.import_module(f"{lib.__name__}.fx.{name}")


@pytest.fixture
def model(lib, nn):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4))
            self.scale = nn.Parameter(lib.rand(4))

        def forward(self, x, y=1.0):
            a = self.first(x) * self.scale
            b = lib.relu(a + y)
            return {"sum": self.second(b) + a, "first": a}
    return Model()


def _same(lib, a, b):
    assert a.keys() == b.keys() and all(lib.equal(a[key], b[key]) for key in a)


def test_split_module(lib, fx, module, model):
    split_module = module("passes.split_module").split_module
    traced, x = fx.symbolic_trace(model), lib.randn(3, 4)
    for node in traced.graph.nodes:
        node.meta["note"] = node.name
    names = {}
    split = split_module(traced, model, lambda node: 0 if node.name in ("first", "mul") else 1, names)
    _same(lib, split(x), model(x))
    _same(lib, split(x, 3.0), model(x, 3.0))
    assert [name for name, _ in split.named_children()] == ["submod_0", "submod_1"]
    assert names == {"submod_0.first": "first", "submod_1.second.0": "second.0"} or names == {
        "submod_0.first": "first", "submod_1.second_0": "second.0"}
    assert [n.target for n in split.graph.nodes if n.op == "get_attr"] == ["scale"]         # handed in
    assert [n.meta["note"] for n in split.submod_1.graph.nodes if n.op != "output"] == ["mul", "y", "add", "relu", "second_0", "add_1"]
    # parts that take turns
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module(traced, model, lambda node: node.name in ("first", "relu"))
    # no part, and parts without a value
    empty = split_module(fx.symbolic_trace(lambda a: (a,)), None, lambda node: 0)
    assert len(empty.graph.nodes) == 2

    def written(a):
        lib.relu_(a)
    assert split_module(fx.symbolic_trace(written), None, lambda node: 0, partition_affix="p").submod_p_0.graph.output_node() is not None


def test_split_by_tags(lib, fx, module, model):
    split_by_tags = module("passes.split_utils").split_by_tags
    traced, x = fx.symbolic_trace(model), lib.randn(3, 4)
    for node in traced.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            node.tag = "front" if node.name in ("first", "mul", "add") else "back"
    split, names = split_by_tags(traced, ["front", "back"], return_fqn_mapping=True)
    _same(lib, split(x, 3.0), model(x, 3.0))
    assert [name for name, _ in split.named_children()] == ["front", "back"]
    assert {"first": "front.first", "second.0": "back.second.0"}.items() <= names.items()
    assert all(name in dict(split.named_modules()) or name.endswith("scale") for name in names.values())


def test_partitions_are_fused(lib, fx, module):
    partitioner = module("passes.infra.partitioner").CapabilityBasedPartitioner
    support = module("passes.operator_support")

    def f(a, b):
        x = a + b
        y = lib.relu(x)
        z = x + 1
        p, q = lib.std_mean(z + y)
        return p + q, z
    traced = fx.symbolic_trace(f)
    adds = support.create_op_support(lambda modules, node: node.target is operator.add)
    made = partitioner(traced, adds, allows_single_node_partition=True)
    found = made.propose_partitions()
    # z + y is joined to z, and not to x, which relu needs before
    assert sorted(sorted(n.name for n in p.nodes) for p in found) == [["add"], ["add_1", "add_2"], ["add_3"]]
    fused, a, b = made.fuse_partitions(found), lib.randn(3), lib.randn(3)
    for one, other in zip(fused(a, b), f(a, b)):
        assert lib.equal(one, other)
    assert sum(n.op == "call_module" for n in fused.graph.nodes) == 3
    assert len(partitioner(fx.symbolic_trace(f), adds).propose_partitions()) == 1      # one node alone isn't worth while


def test_what_can_not_be_fused(lib, fx, module):
    fuse = module("passes.utils.fuser_utils")
    traced = fx.symbolic_trace(lambda a: lib.relu(a + 1) * (a + 1 + 2))
    nodes = {n.name: n for n in traced.graph.nodes}
    assert not fuse.validate_partition([nodes["add"], nodes["mul"]])
    with pytest.raises(AssertionError, match="Invalid partition, found dependency cycles"):
        fuse.fuse_by_partitions(traced, [dict.fromkeys([nodes["add"], nodes["mul"]])])
    assert [n.name for n in fuse.topo_sort([nodes["mul"], nodes["relu"], nodes["add"]])] == ["add", "relu", "mul"]


def test_bookends_without_work_stay_outside(lib, fx, module):
    aten = lib.ops.aten
    support = module("passes.operator_support")
    node_target = module("passes.tools_common").get_node_target

    def f(a):
        return aten.permute(aten.permute(aten.view(a, [2, 2]), [1, 0]) + 1, [1, 0])
    traced = fx.symbolic_trace(f)
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets[0] is aten.view and targets[1] is aten.permute            # what the program called, not a function of the same name
    assert [node_target({}, n) for n in traced.graph.nodes if n.op == "call_function"] == [
        "torch.ops.aten.view", "torch.ops.aten.permute", "_operator.add", "torch.ops.aten.permute"]
    made = module("passes.infra.partitioner").CapabilityBasedPartitioner(
        traced, support.any_chain(support.create_op_support(lambda modules, node: node.op == "call_function")),
        non_compute_ops=["torch.ops.aten.view", "torch.ops.aten.permute"], allows_single_node_partition=True)
    found = made.propose_partitions()
    made.remove_bookend_non_compute_ops(found)
    assert [[n.name for n in p.nodes] for p in found] == [["add"]]


def test_overrides_get_the_packet_that_was_called(lib):
    class Noting:
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append((func, args[1:], kwargs))
            return 7
    aten = lib.ops.aten
    assert aten.add(Noting(), 1, alpha=2) == 7 and aten.add.Tensor(Noting(), 1) == 7 and lib.add(Noting(), 1) == 7
    assert [func for func, _, _ in Noting.seen] == [aten.add, aten.add.Tensor, lib.add]
    assert Noting.seen[0][1:] == ((1,), {"alpha": 2})


def test_support_by_table_and_by_dtype(lib, fx, module):
    support = module("passes.operator_support")
    traced = fx.symbolic_trace(lambda a, b: lib.relu(a) + lib.relu(b))
    module("passes.shape_prop").ShapeProp(traced).propagate(lib.ones(2), lib.ones(2, dtype=lib.float64))
    relus = [n for n in traced.graph.nodes if n.op == "call_function" and n.target is lib.relu]
    table = support.OperatorSupport({"torch.relu": (((lib.float32,),), {})})
    assert [table.is_node_supported({}, n) for n in relus] == [True, False]
    both = support.chain(support.OperatorSupport({"torch.relu": None}), support.OpSupports.decline_if_input_dtype(lib.float32))
    assert [both.is_node_supported({}, n) for n in relus] == [False, True]
    named = support.OpSupports.decline_if_node_in_names({"relu"})
    assert [named.is_node_supported({}, n) for n in relus] == [False, True]


def test_constants_are_folded(lib, fx, module, nn):
    split_const_subgraphs = module("experimental.const_fold").split_const_subgraphs

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.layer = nn.Parameter(lib.randn(3)), nn.Parameter(lib.randn(3)), nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.a * self.b) + x * (self.a + 1) - self.b
    model, x = Model(), lib.randn(3)
    folded = split_const_subgraphs(model)
    assert folded.const_subgraph_module is not None and not folded.has_folding_been_run
    assert not any(n.op == "call_module" for n in folded.graph.nodes)
    assert lib.equal(folded(x), model(x)) and folded.has_folding_been_run
    assert len(folded._FX_CONST_FOLDED_ATTRS) == 2
    nothing = split_const_subgraphs(model, skip_folding_node_fn=lambda node: node.op != "get_attr")
    assert nothing.const_subgraph_module is None and lib.equal(nothing(x), model(x))


def test_norms_are_folded_into_layers(lib, fx, module, nn):
    optimization = module("experimental.optimization")
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout(), nn.Conv2d(3, 1, 1), nn.BatchNorm2d(1, track_running_stats=False))
    model(lib.randn(4, 2, 8, 8))
    model.eval()
    x = lib.randn(2, 2, 5, 5)
    fused = optimization.fuse(model)
    assert lib.allclose(fused(x), model(x), atol=1e-5)
    assert [type(m).__name__ for _, m in fused.named_modules() if "Norm" in type(m).__name__] == ["BatchNorm2d"]
    assert not any(isinstance(m, nn.Dropout) for m in optimization.remove_dropout(model).modules())


def test_arguments_by_name(lib, fx, module):
    normalize = module("experimental.normalize")
    traced = fx.symbolic_trace(lambda x: lib.add(lib.nn.functional.dropout(x, 0.0), x))
    module("passes.shape_prop").ShapeProp(traced).propagate(lib.ones(2))
    call = next(n for n in traced.graph.nodes if n.op == "call_function")
    assert call.normalized_arguments(traced, normalize_to_only_use_kwargs=True).kwargs == {
        "input": call.args[0], "p": 0.0, "training": True, "inplace": False}
    named = normalize.NormalizeArgs(traced).transform()
    assert all(not n.args for n in named.graph.nodes if n.op == "call_function")
    assert named(lib.ones(2)).tolist() == [2, 2]
    signs = normalize.NormalizeOperators(traced).transform()
    assert operator.add in [n.target for n in signs.graph.nodes] and signs(lib.ones(2)).tolist() == [2, 2]


def test_annotations_of_parameters_are_kept(lib, fx, module):
    class Pair(typing.NamedTuple):
        x: int
        y: float

    def f(a: typing.List[int], b: typing.Optional[int], c: typing.Tuple[int, Pair], d: typing.Dict[str, float], e):
        return a[0], c[1], d["k"]
    traced = fx.symbolic_trace(f)
    kinds = {n.name: n.type for n in traced.graph.nodes if n.op == "placeholder"}
    assert kinds == {"a": typing.List[int], "b": typing.Optional[int], "c": typing.Tuple[int, Pair], "d": typing.Dict[str, float], "e": None}
    pair = Pair(1, 2.0)
    assert traced([5], None, (1, pair), {"k": 2.5}, 0) == (5, pair, 2.5)
    module("passes.annotate_getitem_nodes").annotate_getitem_nodes(traced.graph)
    assert [n.type for n in traced.graph.nodes if n.target is operator.getitem][:2] == [int, Pair]


def test_products_with_one_matrix_are_joined(lib, fx, module, nn):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.right = lib.randn(3, 4)

        def forward(self, x, y):
            return lib.matmul(x, self.right).sum() + lib.matmul(y, self.right).sum()
    model, x, y = Model(), lib.ones(2, 3), lib.ones(5, 3)
    joined = module("experimental.merge_matmul").merge_matmul(model)
    assert sum(n.target is lib.matmul for n in joined.graph.nodes) == 1
    assert lib.allclose(joined(x, y), model(x, y), atol=1e-4)


def test_a_module_as_a_package(lib, fx, model, tmp_path, monkeypatch):
    traced, x = fx.symbolic_trace(model), lib.randn(2, 4)
    traced.to_folder(tmp_path / "written", "Foo")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        _same(lib, importlib.import_module("written").Foo()(x), model(x))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "written"]:
            del sys.modules[name]


def test_sizes_and_targets_of_nodes(lib, fx, module, nn):
    manipulation = module("passes.graph_manipulation")
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2)))
    manipulation.get_size_of_all_nodes(traced, [lib.ones(3, 4)])
    assert [tuple(n.size_bytes) for n in traced.graph.nodes if n.op != "output"] == [(48, 48), (24, 24 + 40)]
    traced = fx.symbolic_trace(lambda a: lib.relu(a) + 1)
    manipulation.replace_target_nodes_with(traced, "call_function", lib.relu, "call_function", lib.neg)
    traced.recompile()
    assert traced(lib.ones(2)).tolist() == [0, 0]


def test_values_of_nodes_as_fake_tensors(lib, fx, module):
    traced = fx.symbolic_trace(lambda a: lib.relu(a).sum(0))
    module("passes.fake_tensor_prop").FakeTensorProp(traced).propagate(lib.ones(2, 3))
    assert [tuple(n.meta["val"].shape) for n in traced.graph.nodes] == [(2, 3), (2, 3), (3,), (3,)]


def test_an_assertion_with_a_message_of_several_lines(lib, fx, module, monkeypatch):
    monkeypatch.setitem(globals(), "torch", lib)         # PyTorch's rewriter writes this name
    tracer = module("experimental.rewriter").RewritingTracer

    def f(a, b):
        message = """
what
 it says
"""
        assert a == b, message
        return a + b
    traced = fx.GraphModule(lib.nn.Module(), tracer().trace(f))
    assert traced(3, 3) == 6
    with pytest.raises(AssertionError, match="\nwhat\n it says\n"):
        traced(3, 5)
