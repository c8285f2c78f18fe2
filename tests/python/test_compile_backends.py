"""tede.compile with a function for a backend: graphs of what was called; tede.compiler.explain, and fullgraph's words."""
import copy
import inspect

import pytest
import tede
import tede.nn.functional as F
from exported_models import MODELS
from tede import _compile, nn
from test_regions import PROGRAMS, same


class Backend:
    """Keeps the graphs that it gets, and counts the calls of what it returns."""

    def __init__(self):
        self.graphs, self.inputs, self.calls = [], [], 0

    def __call__(self, gm, inputs):
        self.graphs.append(gm)
        self.inputs.append(inputs)

        def run(*args):
            self.calls += 1
            return gm(*args)
        return run

    @property
    def targets(self):
        return [[getattr(n.target, "__name__", n.target) for n in gm.graph.nodes if n.op.startswith("call_")] for gm in self.graphs]


def rand(*sizes, **options):
    return tede.rand(*sizes, generator=tede.Generator().manual_seed(sum(sizes)), **options) * 2 - 1


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_backend_gets_the_calls_and_what_it_returns_is_called():
    backend = Backend()
    f = tede.compile(lambda x, w: F.softmax(x @ w, -1) + 1, backend=backend)
    x, w = rand(4, 3), rand(3, 5)
    for _ in range(3):
        assert tede.equal(f(x, w), F.softmax(x @ w, -1) + 1)
    assert backend.targets == [["matmul", "softmax", "add"]] and backend.calls == 3
    assert [i.shape for i in backend.inputs[0]] == [x.shape, w.shape] and backend.inputs[0][0] is x
    f(x[:2], w)                     # other sizes: another graph
    assert len(backend.graphs) == 2
    f(x, w)
    assert len(backend.graphs) == 2 and backend.calls == 5


def test_what_the_backend_returns_is_what_the_program_gets():
    f = tede.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda x: (x * 100,))
    assert f(tede.tensor([2.])).item() == 200
    with pytest.raises(RuntimeError, match="must return 1 results"):
        tede.compile(lambda x: x + 1, backend=lambda gm, inputs: lambda x: ())(rand(3))
    with pytest.raises(TypeError, match="must return a function"):
        tede.compile(lambda x: x + 1, backend=lambda gm, inputs: 3)(rand(3))


def test_options_and_mode_are_passed_on():
    got = {}

    def backend(gm, inputs, **options):
        got.update(options)
        return gm
    tede.compile(lambda x: x + 1, backend=backend, options={"a": 1})(rand(3))
    assert got == {"options": {"a": 1}}


def test_the_default_backend_may_be_a_function():
    backend = Backend()
    tede.compiler.set_default_backend(backend)
    try:
        tede.compile(lambda x: x + 1)(rand(3))
    finally:
        tede.compiler.set_default_backend(None)
    assert backend.calls == 1


def test_python_runs_each_time():
    backend, factor = Backend(), [2]
    f = tede.compile(lambda x: x * factor[0], backend=backend)
    x = rand(3)
    assert tede.equal(f(x), x * 2)
    factor[0] = 3
    assert tede.equal(f(x), x * 3)
    assert len(backend.graphs) == 2


def branch(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y - 1, y


def test_a_value_that_is_needed_ends_a_graph():
    backend = Backend()
    f = tede.compile(branch, backend=backend)
    for x in (rand(3).abs(), -rand(3).abs()):
        a, b = f(x), branch(x)
        assert tede.equal(a[0], b[0]) and tede.equal(a[1], b[1])
    assert backend.targets == [["mul", "sum", "gt"], ["add", "sub"], ["sub"]]


def test_gradients_are_those_of_the_program():
    def f(x, w):
        with tede.no_grad():
            scale = (x * 2).amax()
        return F.layer_norm(x @ w, (5,)).sum() * scale
    grads = []
    for g in (f, tede.compile(f, backend=Backend())):
        x, w = rand(4, 3).requires_grad_(), rand(3, 5).requires_grad_()
        g(x, w).backward()
        grads.append((x.grad, w.grad))
    assert all(tede.equal(a, b) for a, b in zip(*grads))


class Hundred(tede.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 100


def test_an_autograd_function_is_between_two_graphs():
    backend = Backend()
    x = rand(3).requires_grad_()
    tede.compile(lambda x: (Hundred.apply(x + 1) * 3).sum(), backend=backend)(x).backward()
    assert tede.equal(x.grad, tede.full((3,), 300.)) and backend.targets == [["add"], ["mul", "sum"]]


def test_hooks_on_saved_tensors_are_called():
    packed = []

    def f(x):
        y = x + 1
        with tede.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            return (y * y).sum()
    x = rand(3).requires_grad_()
    tede.compile(f, backend=Backend())(x).backward()
    assert packed and tede.allclose(x.grad, 2 * (x.detach() + 1))


def test_a_whole_step_with_an_optimizer():
    results = []
    for compiled in (False, True):
        tede.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.GELU(), nn.Linear(8, 2))
        optimizer = tede.optim.SGD(model.parameters(), 1e-2, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss
        run = tede.compile(step, backend=Backend()) if compiled else step
        results.append([run(rand(16, 3)).detach() for _ in range(4)] + [*model.state_dict().values()])
    assert all(tede.allclose(a, b) for a, b in zip(*results))


def test_a_module_is_compiled_with_its_state():
    backend = Backend()
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    compiled = tede.compile(model, backend=backend)
    x = rand(2, 3)
    assert tede.equal(compiled(x), model(x)) and backend.targets == [["linear", "relu"]]
    assert compiled.state_dict().keys() == {"_orig_mod." + name for name in model.state_dict()}


def test_writes_in_place_and_to_what_the_program_has():
    def f(x, buffer):
        y = x + 1
        y.mul_(2)
        z = y[0]
        z.zero_()
        buffer.add_(y.sum())
        buffer.unsqueeze_(0)
        return y, buffer.shape
    backend = Backend()
    b = [tede.zeros(2), tede.zeros(2)]
    x = rand(3, 2)
    (y, shape), (expected, like) = tede.compile(f, backend=backend)(x, b[0]), f(x, b[1])
    assert tede.equal(y, expected) and tede.equal(*b) and shape == like == (1, 2)


def test_sizes_lists_and_slices_are_arguments():
    def f(x, pair):
        return tede.cat([x.view(x.shape), tede.zeros(x.shape), x[:, None][:, 0, ...]], dim=0)[1:-1], tede.stack(list(pair)), x.new_zeros(x.size()).expand_as(x)
    backend, x = Backend(), rand(3, 2)
    got, expected = tede.compile(f, backend=backend)(x, (x, x + 1)), f(x, (x, x + 1))
    assert all(map(tede.equal, got, expected)) and len(backend.graphs) == 1


def test_random_numbers_and_seeds():
    def f(x):
        y = x + tede.rand(3)
        tede.manual_seed(5)
        return y, F.dropout(x, 0.5), tede.randn(2)
    x = rand(3)
    tede.manual_seed(1)
    a = f(x)
    state = tede.get_rng_state()
    tede.manual_seed(1)
    b = tede.compile(f, backend=Backend())(x)
    assert all(map(tede.equal, a, b)) and tede.equal(state, tede.get_rng_state())


def test_autocast_and_inference_mode():
    def f(x):
        y = x @ x
        with tede.autocast("cpu", dtype=tede.bfloat16):
            z = x @ x
        return y, z
    x = rand(4, 4)
    for context in (tede.inference_mode, tede.no_grad, tede.enable_grad):
        with context():
            a, b = tede.compile(f, backend=Backend())(x), f(x)
        assert [y.dtype for y in a] == [tede.float32, tede.bfloat16] and all(map(tede.equal, a, b))
        assert [y.is_inference() for y in a] == [y.is_inference() for y in b]


def test_errors_are_the_programs_and_leave_what_was_computed():
    kept = []

    def f(x):
        kept.append(x + 1)
        return x @ tede.zeros(7, 7)
    x = rand(2, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tede.compile(f, backend=Backend())(x)
    assert type(kept[0]) is tede.Tensor and tede.equal(kept[0], x + 1)


def test_a_transform_over_a_late_tensor_is_refused():
    with pytest.raises((NotImplementedError, RuntimeError), match="transform|fake|Fake"):
        tede.compile(lambda x: tede.vmap(lambda r: r * 2)(x + 1), backend=Backend())(rand(3, 2))


def test_compiled_functions_nest():
    inner, outer = Backend(), Backend()
    g = tede.compile(lambda x: x * 2, backend=inner)
    x = rand(3)
    assert tede.equal(tede.compile(lambda x: g(x) + 1, backend=outer)(x), x * 2 + 1)
    assert outer.targets == [["mul", "add"]] and not inner.graphs


@pytest.mark.parametrize("name", MODELS)
def test_a_models_step_is_one_graph_and_its_gradients_are_equal(name):
    tede.manual_seed(0)
    kind, example, *_ = MODELS[name]
    model, backend, args = kind(), Backend(), example()
    other = copy.deepcopy(model)
    for run in (model, tede.compile(other, backend=backend, fullgraph=True)):
        tede.manual_seed(1)         # dropout
        sum(x.square().sum() for x in tede.utils._pytree.tree_leaves(run(*args))).backward()
    assert len(backend.graphs) == 1
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None) and (a.grad is None or tede.equal(a.grad, b.grad)), name
    assert all(tede.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_give_what_they_give_without(program):
    x = rand(20, 50)
    same(tede.compile(program, backend=Backend())(x), program(x))


def test_a_backend_may_have_a_name():
    backend = Backend()
    assert tede._dynamo.register_backend(name="counting")(backend) is backend and "counting" in tede.compiler.list_backends()
    assert tede.equal(tede.compile(lambda x: x + 1, backend="counting")(rand(3)), rand(3) + 1) and backend.calls == 1
    tede._dynamo.optimize("counting")(lambda x: x * 2)(rand(3))
    assert backend.calls == 2
    del _compile.backends["counting"]


# ---- explain, fullgraph

def test_explain_says_what_ended_a_region_and_where():
    report = tede.compiler.explain(branch)(rand(300, 100).abs())
    assert [part.ended_by for part in report.parts][-1] is None and report.graph_break_count == 1
    first = report.parts[0]
    assert (first.file, first.line) == (__file__, line_of(branch, "if y.sum()")) and first.recorded == 3
    assert str(first.line) in str(report) and tede.equal(report.result[0], branch(rand(300, 100).abs())[0])
    assert tede.compiler.explain(tede.compile(lambda x: x * 2 + 1))(rand(300, 100)).parts[0].fused == 2


def test_explain_with_a_backend_has_graphs():
    report = tede.compiler.explain(branch, backend=lambda gm, inputs: gm)(rand(3).abs())
    assert report.graph_count == 2 and report.op_count == 5 and report.ops_per_graph[1] == ["add", "sub"]
    assert report.parts[0].ended_by == "torch.Tensor.__bool__" and report.parts[0].line == line_of(branch, "if y.sum()")
    assert tede._dynamo.explain(branch)(rand(3).abs()).graph_count == 2


@pytest.mark.parametrize("backend", [None, Backend()], ids=["region", "graphs"])
def test_fullgraph_names_the_operator_and_the_line(backend):
    with pytest.raises(RuntimeError, match=rf"fullgraph=True: torch.Tensor.\w+ .*{__file__}:{line_of(branch, 'if y.sum()')}: if y.sum"):
        tede.compile(branch, fullgraph=True, backend=backend)(rand(300, 100).abs())
    x = rand(300, 100)
    assert tede.equal(tede.compile(lambda x: x * 2 + 1, fullgraph=True, backend=backend)(x), x * 2 + 1)
