"""torch.jit.trace: a graph that computes what the function or module does, for other sizes and after a file as well."""
import io
import warnings

import pytest
import tede
import tede.nn.functional as F
from exported_models import MODELS
from tede import nn


def rand(*sizes):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes) + len(sizes))) * 2 - 1


def leaves(x):
    return tede.utils._pytree.tree_leaves(x)


def loaded(traced):
    file = io.BytesIO()
    tede.jit.save(traced, file)
    file.seek(0)
    return tede.jit.load(file)


@pytest.mark.parametrize("name", ["gpt2", "vit", "lstm", "unet"])
def test_a_model_its_file_and_other_sizes(name):
    tede.manual_seed(0)
    kind, example, other, _ = MODELS[name]
    model = kind().eval()
    traced = tede.jit.trace(model, example())
    assert isinstance(traced, tede.jit.ScriptModule) and traced.original_name == kind.__name__ and not traced.training
    assert list(traced.state_dict()) == list(model.state_dict())
    for module in (traced, loaded(traced)):
        for args in (example(), other()):
            for a, b in zip(leaves(module(*args)), leaves(model(*args)), strict=True):
                tede.testing.assert_close(a, b)


def test_a_function():
    traced = tede.jit.trace(lambda x, y: (x @ y, F.softmax(x, -1)), (rand(2, 3), rand(3, 4)))
    assert isinstance(traced, tede.jit.ScriptFunction) and "torch.ops.aten.mm.default" in traced.code and len(list(traced.graph.nodes)) > 3
    for f in (traced, loaded(traced)):
        a, b = f(rand(5, 7), rand(7, 2))
        assert a.shape == (5, 2) and tede.equal(b, F.softmax(rand(5, 7), -1))
    x = rand(4, 4)
    assert tede.equal(tede.jit.trace(tede.sin, x)(x[:2, :3]), x[:2, :3].sin())
    assert tede.jit.trace(traced, (x, x)) is traced


def test_gradients_and_training():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    before = {name: x.clone() for name, x in model.state_dict().items()}
    traced = tede.jit.trace(model, rand(5, 3))
    assert all(tede.equal(x, before[name]) for name, x in model.state_dict().items())        # tracing and its check leave nothing behind
    traced(rand(5, 3)).square().sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    assert model[1].num_batches_tracked == 1 and traced.training
    model.load_state_dict(before), model.zero_grad()
    model(rand(5, 3)).square().sum().backward()
    for a, p in zip(got, model.parameters()):
        tede.testing.assert_close(a, p.grad)


def test_check_trace_compares_with_the_program():
    count = [0]

    def f(x):
        count[0] += 1
        return x * count[0]
    with pytest.warns(tede.jit.TracerWarning, match="Output nr 1. of the traced function does not match"):
        tede.jit.trace(f, rand(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tede.jit.trace(f, rand(3), check_trace=False)
        tede.jit.trace(lambda x: F.dropout(x, 0.5), rand(30))
        tede.jit.trace(lambda x: x + 1, rand(3), check_inputs=[(rand(3),), rand(3)])


def test_what_needs_a_value_is_refused():
    with pytest.raises(RuntimeError, match=r"needs a value.*test_jit_trace.py:\d+: .*x.sum\(\) > 0"):
        tede.jit.trace(lambda x: x + 1 if x.sum() > 0 else x, rand(3))
    traced = tede.jit.trace(lambda x: x + 1 if x.shape[0] == 3 else x, rand(3, 2))
    assert tede.equal(traced(rand(3, 5)), rand(3, 5) + 1)
    with pytest.raises(RuntimeError, match=r"size\(\)\[0\] == 3, it is 4"):
        traced(rand(4, 2))


def test_sizes_that_vary_together():
    traced = tede.jit.trace(lambda x, y: x + y.t(), (rand(2, 5), rand(5, 2)))
    assert traced(rand(4, 3), rand(3, 4)).shape == (4, 3)
    with pytest.raises(RuntimeError, match="Guard failed"):
        traced(rand(4, 3), rand(3, 1))


def test_keyword_arguments_trace_module_and_extra_files(tmp_path):
    class Scaled(nn.Module):
        def forward(self, x, scale):
            return {"y": x * scale}
    traced = tede.jit.trace(Scaled(), example_kwarg_inputs={"x": rand(3), "scale": rand(3)}, strict=False)
    assert tede.equal(traced(x=rand(3), scale=rand(3))["y"], rand(3) ** 2) and tede.equal(traced(rand(3), rand(3))["y"], rand(3) ** 2)
    assert tede.equal(tede.jit.trace_module(nn.ReLU(), {"forward": rand(3)})(rand(4)), rand(4).relu())
    with pytest.raises(NotImplementedError, match="only forward"):
        tede.jit.trace_module(nn.ReLU(), {"other": rand(3)})
    path, files = tmp_path / "m.pt", {"note.txt": ""}
    tede.jit.save(traced, path, _extra_files={"note.txt": "text"})
    tede.jit.load(path, _extra_files=files)
    assert files == {"note.txt": b"text"}


def test_files_of_others_and_modules_that_are_not_traced(tmp_path):
    with pytest.raises(NotImplementedError, match="state_dict"):
        tede.jit.save(nn.ReLU(), tmp_path / "m.pt")
    with pytest.raises(NotImplementedError, match="torch.nn.Module"):
        tede.jit.ScriptModule()
    tede.save({"a": 1}, tmp_path / "s.pt")
    with pytest.raises(RuntimeError, match="archive of tede's programs"):
        tede.jit.load(tmp_path / "s.pt")
    tede.export.save(tede.export.export(nn.ReLU(), (rand(3),)), tmp_path / "e.pt2")
    with pytest.raises(RuntimeError, match="exported program"):
        tede.jit.load(tmp_path / "e.pt2")


def test_the_query_of_libraries():
    seen = []
    tede.jit.trace(lambda x: (seen.append(tede.jit.is_tracing()), x + 1)[1], rand(3), check_trace=False)
    assert seen and all(seen) and not tede.jit.is_tracing()


@pytest.mark.parametrize("container", [lambda x: [x], lambda x: {"a": x}, lambda x: (x, {"a": x})])
def test_lists_and_dicts_among_results_are_an_error_of_strict_traces(container):
    with pytest.raises(RuntimeError, match="at the output of the tracer might cause the trace to be incorrect"):
        tede.jit.trace(lambda x: container(x + 1), tede.ones(2))
    assert tede.utils._pytree.tree_leaves(tede.jit.trace(lambda x: container(x + 1), tede.ones(2), strict=False)(tede.ones(2)))[0].tolist() == [2, 2]
