"""torch.export: a recorded call computes what the module does, with its signature, its sizes and its files."""
import io

import pytest
import tede
import tede.nn.functional as F
from exported_models import MODELS
from tede import nn
from tede.export import Dim, export, load, save
from tede.export.graph_signature import InputKind, OutputKind


def rand(*sizes):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes) + len(sizes))) * 2 - 1


def leaves(x):
    return tede.utils._pytree.tree_leaves(x)


def again(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_file(name):
    tede.manual_seed(0)
    kind, example, other, dynamic = MODELS[name]
    model = kind().eval()
    program = export(model, example(), dynamic_shapes=dynamic)
    for p in (program, again(program)):
        module = p.module()
        for args in (example(), other()):
            for a, b in zip(leaves(module(*args)), leaves(model(*args)), strict=True):
                tede.testing.assert_close(a, b)
        assert set(p.graph_signature.parameters) == {name for name, _ in model.named_parameters()}
        assert set(p.state_dict) == set(model.state_dict())


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.register_buffer("calls", tede.zeros((), dtype=tede.int64))
        self.register_buffer("hidden", tede.ones(4), persistent=False)

    def forward(self, x, *, factor=2.0):
        self.calls += 1
        return {"y": self.norm(self.linear(x)) * factor * self.hidden * tede.tensor([1., 2., 3., 4.]), "n": factor}


def test_signature_and_writes():
    model = Counts()
    program = export(model, (rand(5, 3),), {"factor": 3.0})
    signature = program.graph_signature
    assert signature.parameters == ("linear.weight", "linear.bias", "norm.weight", "norm.bias")
    assert set(signature.buffers) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "calls", "hidden"}
    assert signature.non_persistent_buffers == ("hidden",) and signature.user_inputs == ("x", 3.0) and len(signature.lifted_tensor_constants) == 1
    assert set(signature.buffers_to_mutate.values()) == {"norm.num_batches_tracked", "calls"}      # batch_norm itself writes the other two
    assert [s.kind for s in signature.output_specs][-2:] == [OutputKind.USER_OUTPUT] * 2 and signature.input_specs[0].kind is InputKind.PARAMETER
    assert not any(node.target is tede.ops.aten.add_.Tensor for node in program.graph.nodes)
    module, x = program.module(), rand(5, 3)
    before = model.calls.item()
    got = module(x, factor=3.0)
    assert module.calls.item() == before + 1 and got["n"] == 3.0 and module.norm.num_batches_tracked.item() == 1
    model.calls.zero_(), model.norm.reset_running_stats()
    tede.testing.assert_close(got["y"], model(x, factor=3.0)["y"])
    assert tede.equal(module.norm.running_mean, model.norm.running_mean) and model.norm.running_mean.abs().sum() > 0
    with pytest.raises(RuntimeError, match="factor was 3.0"):
        module(x, factor=2.0)


def test_gradients_through_the_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))
    module, x = export(model, (rand(2, 3),)).module(), rand(2, 3)
    module(x).sum().backward()
    got = [p.grad.clone() for p in model.parameters()]      # its parameters are the model's
    model.zero_grad()
    model(x).sum().backward()
    for a, p in zip(got, model.parameters()):
        tede.testing.assert_close(a, p.grad)


def test_sizes():
    class Pair(nn.Module):
        def forward(self, x, y):
            return x.reshape(x.shape[0] * x.shape[1], -1) @ y, x.new_zeros(2 * x.shape[0] + 1)
    batch, time = Dim("batch", min=2, max=10), Dim("time")
    program = export(Pair(), (rand(2, 3, 4), rand(4, 5)), dynamic_shapes={"x": {0: batch, 1: time}, "y": None})
    assert program.range_constraints == {"batch": batch, "time": time}
    for module in (program.module(), again(program).module()):
        a, b = module(rand(7, 1, 4), rand(4, 5))
        assert a.shape == (7, 5) and b.shape == (15,)
        with pytest.raises(RuntimeError, match=r"batch|x.size\(\)\[0\] is 11, not within 2 to 10"):
            module(rand(11, 3, 4), rand(4, 5))
        with pytest.raises(RuntimeError, match=r"Guard failed: x.size\(\)\[2\] == 4, it is 5"):
            module(rand(2, 3, 5), rand(5, 5))
    with pytest.raises(ValueError, match="dimension 'n' has sizes 2 and 5"):
        export(Pair(), (rand(2, 3, 4), rand(4, 5)), dynamic_shapes=({0: "n"}, {1: "n"}))


def test_an_example_of_one_is_no_special_size():
    class Mean(nn.Module):
        def forward(self, x):
            return F.softmax(x, -1).expand(x.shape[0], -1).squeeze(0)
    with pytest.raises(RuntimeError, match="depends on a size"):
        export(nn.Sequential(nn.Flatten(0), nn.Unflatten(0, (2, -1))), (rand(1, 4),), dynamic_shapes=({1: "n"},)).module()(rand(1, 5))
    program = export(nn.Linear(4, 2), (rand(1, 4),), dynamic_shapes=({0: Dim.AUTO},))
    assert program.module()(rand(6, 4)).shape == (6, 2) and program.module()(rand(1, 4)).shape == (1, 2)
    assert export(Mean(), (rand(3, 4),)).module()(rand(3, 4)).shape == (3, 4)


def test_what_depends_on_values_or_sizes_is_refused():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x
    with pytest.raises(RuntimeError, match=r"needs a value.*test_export.py:\d+: return x \+ 1 if"):
        export(Branch(), (rand(3),))

    class Loop(nn.Module):
        def forward(self, x):
            for _ in range(x.shape[0]):
                x = x + 1
            return x
    with pytest.raises(RuntimeError, match="dimension 'n'.*program depends on the size"):
        export(Loop(), (rand(3),), dynamic_shapes=({0: "n"},))
    assert tede.equal(export(Loop(), (rand(3),)).module()(tede.zeros(3)), tede.full((3,), 3.))

    class Chosen(nn.Module):
        def forward(self, x):
            y, z = x.sin(), x.cos()
            return (y, z) if x.shape[0] == 3 else (z, y)
    with pytest.raises(RuntimeError, match="is of other values: the program depends on the size"):
        export(Chosen(), (rand(3),), dynamic_shapes=({0: "n"},))

    class Numbers(nn.Module):
        def forward(self, x):
            return x / x.shape[0] ** 0.5
    with pytest.raises(RuntimeError, match="isn't a whole number|depends on a size"):
        export(Numbers(), (rand(3),), dynamic_shapes=({0: "n"},))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"torch.nn.Module"):
        export(lambda x: x, (rand(3),))
    with pytest.raises(TypeError, match="tuple"):
        export(nn.ReLU(), rand(3))
    with pytest.raises(ValueError, match="no arguments"):
        export(nn.ReLU(), (rand(3),), dynamic_shapes={"y": {0: "n"}})
    with pytest.raises(RuntimeError, match="directly"):
        export(nn.ReLU(), (rand(3),))(rand(3))
    with pytest.raises(TypeError, match="structure"):
        export(nn.ReLU(), (rand(3),)).module()(rand(3), rand(3))
    with pytest.raises(RuntimeError, match="archive"):
        load(io.BytesIO(b"no archive"))
    with pytest.raises(ValueError, match="identifier"):
        Dim("a b")


def test_structures_and_names():
    class Nested(nn.Module):
        def forward(self, pair, table):
            return [pair[0] + table["a"], {"b": pair[1]}]
    args = ((rand(2), rand(3)), {"a": rand(2)})
    program = export(Nested(), args, dynamic_shapes={"pair": ({0: "n"}, None), "table": {"a": {0: "n"}}})
    assert program.graph_signature.user_inputs == ("pair_0", "pair_1", "table_0")
    a, b = program.module()((rand(5), rand(3)), {"a": rand(5)})
    assert a.shape == (5,) and list(b) == ["b"]
    assert [node.name for node in program.graph.nodes if node.op == "placeholder"] == ["pair_0", "pair_1", "table_0"]


class Shared(nn.Module):
    """A layer under two names."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.again, self.head = self.body, nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.again(self.body(x))) + 1


def test_a_layer_under_two_names_has_its_parameters_afterwards():
    model = Shared()
    before = dict(model.named_parameters())
    program = export(model, (rand(4, 3),))
    assert dict(model.named_parameters()) == before
    tede.testing.assert_close(program.module()(rand(4, 3)), model(rand(4, 3)))


def test_nodes_say_in_which_modules_they_were_made():
    graph = export(Shared(), (rand(4, 3),)).graph
    stacks = {n.name: [path for path, _ in n.meta["nn_module_stack"].values()] for n in graph.nodes if n.op == "call_function"}
    assert stacks["addmm"] == stacks["addmm_1"] == ["", "body", "body.0"] and stacks["relu"] == ["", "body", "body.1"]
    assert stacks["addmm_2"] == ["", "head"] and stacks["add"] == [""]
    kinds = next(n for n in graph.nodes if n.name == "relu").meta["nn_module_stack"]
    assert list(kinds) == ["L__self__", "L__self__body", "L__self__body.1"] and kinds["L__self__body.1"][1].endswith("activation.ReLU")

    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Shared()

        def forward(self, x):
            try:
                self.inner(x[:, :2])
            except RuntimeError:
                return x * 2
    (node,) = [n for n in export(Fails(), (rand(4, 3),)).graph.nodes if n.name.startswith("mul")]
    assert list(node.meta["nn_module_stack"]) == ["L__self__"]
