"""Functionalization: programs that write and take views, as calls that do neither."""
import importlib
import operator

import pytest


def make_fx(lib):
    return importlib.import_module(lib.__name__ + ".fx.experimental.proxy_tensor").make_fx


def steps(module):
    return [n.target.__name__ for n in module.graph.nodes if n.op == "call_function"]


def ended(lib, functional):
    lib._sync(functional)
    return lib._from_functional_tensor(functional)


def select_and_add(x):
    y = x[0]
    y.add_(1)
    return x * 2


def views_of_views(x):
    y = x.view(8)
    z = y.reshape(2, 4).transpose(1, 0)
    z.unsqueeze_(0)
    z.squeeze_()
    a, b = z.split(2)
    a.add_(1)
    b.mul_(3)
    return y + 1, a.diagonal()


def scattered(x):
    y = x.clone()
    y.diagonal().fill_(7)
    y[1:, ::2].mul_(2)
    y.t()[0] = x[:, 0]
    for part in y.unbind(1):
        part[0] = 5
    y.as_strided((2,), (3,), 1).sub_(1)
    return y


def permuted(x):
    y = x.clone().permute(1, 0).unsqueeze(1)
    y.squeeze(1)[0].exp_()
    y.movedim(0, 2).flatten()[2:].neg_()
    a, b = y.split_with_sizes([1, y.shape[0] - 1])
    b.zero_()
    return y, a


def out_of_view(lib):
    def f(x):
        out = lib.empty(4)
        y = out.view(2, 2)
        lib.add(x[:2], x[2:], out=y)
        low, high = lib.empty(2), lib.empty(2)
        lib.aminmax(x, dim=0, out=(low, high))
        return out, low, high - low
    return f


def without_functional_form(x):
    y = x.clone()
    y[0].erfinv_().clamp_(max=3)
    y.index_fill_(0, y.new_zeros(1, dtype=y.long().dtype), 2.)
    y[1].uniform_(2, 2)
    return y


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("program", [select_and_add, views_of_views, scattered, permuted, out_of_view, without_functional_form],
                         ids=lambda f: f.__name__)
def test_programs_give_the_same_and_write_only_at_the_end(lib, program, remove):
    f = program(lib) if program is out_of_view else program
    x = lib.linspace(-0.5, 0.9, 8).view(4, 2)
    y, z = x.clone(), x.clone()
    expected, got = f(x), lib.func.functionalize(f, remove=remove)(y)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (expected, got)]):
        lib.testing.assert_close(a, b)
    assert lib.equal(x, y) and type(got if not isinstance(got, tuple) else got[0]) is lib.Tensor
    graph = make_fx(lib)(lib.func.functionalize(f, remove=remove))(z)
    written = [n for n in graph.graph.nodes if n.op == "call_function" and n.target is not operator.getitem and n.target._schema.is_mutable]
    inputs = [n for n in graph.graph.nodes if n.op == "placeholder"]
    if program is not without_functional_form:
        assert all(n.target is lib.ops.aten.copy_.default and n.args[0] in inputs for n in written)
    again = lib.linspace(-0.5, 0.9, 8).view(4, 2)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (expected, graph(again))]):
        lib.testing.assert_close(a, b)
    assert lib.equal(x, again)


def test_graphs(lib):
    assert steps(make_fx(lib)(lib.func.functionalize(select_and_add))(lib.zeros(2, 2))) == [
        "select.int", "add.Tensor", "select_scatter.default", "select.int", "mul.Tensor", "copy_.default"]
    assert steps(make_fx(lib)(lib.func.functionalize(select_and_add, remove="mutations_and_views"))(lib.zeros(2, 2))) == [
        "select_copy.int", "add.Tensor", "select_scatter.default", "select_copy.int", "mul.Tensor", "copy_.default"]

    def numbers(x) -> lib.Tensor:
        y = lib.tensor([1., 2.])
        y[:] += 2 * x
        return y
    graph = make_fx(lib)(lib.func.functionalize(numbers))(lib.zeros(2))
    assert "def forward(self, x_1) -> torch.Tensor:" in graph.code and "mul.Tensor(x_1, 2)" in graph.code
    assert "lift_fresh_copy.default(_tensor_constant0)" in graph.code and graph._tensor_constant0.tolist() == [1, 2]
    assert graph(lib.ones(2)).tolist() == graph(lib.ones(2)).tolist() == [3, 4]


def test_numbers_in_a_graph_are_not_what_a_program_writes_to(lib):
    def f(x):
        y = lib.tensor([1., 2.])
        y.add_(x)
        return y
    graph = make_fx(lib)(f)(lib.ones(2))
    assert graph(lib.ones(2)).tolist() == graph(lib.ones(2)).tolist() == [2, 3] and graph._tensor_constant0.tolist() == [1, 2]


def test_transforms_around_and_within(lib):
    functionalize, grad, vmap, jvp = lib.func.functionalize, lib.func.grad, lib.func.vmap, lib.func.jvp

    def f(x):
        y = x * x
        y[0].mul_(3)
        y.view(-1).add_(x)
        return y.sum()
    x = lib.tensor([1., 2., 3.])
    expected = grad(f)(x)
    for g in (grad(functionalize(f)), functionalize(grad(f)), functionalize(grad(functionalize(f)))):
        assert lib.equal(g(x), expected)
    xs = lib.arange(6.).view(2, 3)
    assert lib.equal(functionalize(vmap(f))(xs), vmap(f)(xs)) and lib.equal(vmap(functionalize(f))(xs), vmap(f)(xs))
    assert lib.equal(functionalize(vmap(grad(f)))(xs), vmap(grad(f))(xs))
    assert lib.equal(functionalize(lambda x, t: jvp(f, (x,), (t,))[1])(x, x), jvp(f, (x,), (x,))[1])
    w = x.clone().requires_grad_()
    functionalize(f)(w).backward()
    assert lib.equal(w.grad, expected)


def test_a_gradient_goes_through_what_is_written_in_part(lib):
    """The gradient's own views are made of tensors that have no memory."""
    def written(a, w):
        x = a.clone()
        x[..., 0] = w.sum()
        return x * 2
    a, b = lib.rand(3, 4), lib.rand(3)
    for chunk in (None, 1):
        found = lib.func.functionalize(lambda v: lib.func.jacrev(lambda w: written(a, w), chunk_size=chunk)(b))(a)
        assert found.equal(lib.func.jacrev(lambda w: written(a, w))(b))


def test_modes_of_the_library_within(lib):
    fakes = importlib.import_module(lib.__name__ + "._subclasses.fake_tensor")
    with fakes.FakeTensorMode():
        x = lib.ones(2, 3)
        y = lib.func.functionalize(select_and_add)(x)
        assert type(y) is fakes.FakeTensor and y.shape == (2, 3)


def test_functional_tensors(lib):
    x = lib.ones(2, 2)
    f = lib._to_functional_tensor(x)
    assert lib._is_functional_tensor(f) and not lib._is_functional_tensor(x) and lib._from_functional_tensor(f) is x
    y = f[0]
    y.add_(1)
    assert ended(lib, f).tolist() == [[2, 2], [1, 1]] and ended(lib, y).tolist() == [2, 2] and x.tolist() == [[1, 1], [1, 1]]
    f.transpose_(0, 1)
    assert f.shape == (2, 2) and ended(lib, f).tolist() == [[2, 1], [2, 1]]
    f.ge_(2)
    assert f.dtype == lib.float32 and ended(lib, f).dtype == lib.float32
    with pytest.raises(RuntimeError):
        x.add_(f)
    lib._freeze_functional_tensor(y)
    with pytest.raises(RuntimeError, match="cannot mutate tensors with frozen storage"):
        f.add_(1)
    lib._enable_functionalization(reapply_views=True)
    try:
        made = lib.ones(3)
        made.mul_(2)
        assert lib._is_functional_tensor(made) and lib._is_functional_tensor(lib.tensor([1]))
        with pytest.raises(RuntimeError):
            lib._enable_functionalization()
    finally:
        lib._disable_functionalization()
    assert ended(lib, made).tolist() == [2, 2, 2] and not lib._is_functional_tensor(lib.ones(3))


def test_what_resize_makes(lib):
    def larger(x):
        y = x + 1
        y.resize_(5, 5)
        y.view(25).fill_(1)
        return y + 1

    def smaller(x):
        y = (x + 1).view(4, 4)
        y.resize_(3, 3)
        y.view(-1).add_(1)
        return y + 1
    for f in (larger, smaller):
        assert lib.equal(lib.func.functionalize(f)(lib.ones(8, 2)), f(lib.ones(8, 2)))
    with pytest.raises(RuntimeError, match="Attempted to resize a view tensor to a larger size"):
        lib.func.functionalize(lambda x: x.view(4).resize_(9))(lib.ones(2, 2))
    x = lib.zeros(0)
    assert lib.func.functionalize(lambda x: x.resize_(3).fill_(2))(x).tolist() == x.tolist() == [2, 2, 2]


def test_refusals(lib):
    with pytest.raises(RuntimeError, match="encountered a tensor being mutated that has internal overlap|more than one element of the written-to"):
        lib.func.functionalize(lambda x: (x + x).unfold(1, 3, 2).abs_())(lib.ones(1, 5))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        lib.func.functionalize(lambda x: x.add_(x.new_ones(3, 2)))(lib.ones(2))
    with pytest.raises(RuntimeError, match="received invalid argument for remove=both"):
        lib.func.functionalize(lambda x: x, remove="both")


def test_the_mode_of_functional_tensors(lib):
    F = importlib.import_module(lib.__name__ + "._subclasses.functional_tensor")

    def f(x):
        y = x.view(-1)
        x.mul_(2)
        return y + 1
    x = lib.arange(4.).view(2, 2)
    assert F.dispatch_functionalize(f)(x).tolist() == [1, 3, 5, 7] and x.tolist() == [[0, 1], [2, 3]]
    off = lib._C._ExcludeDispatchKeyGuard(lib._C.DispatchKeySet(lib._C.DispatchKey.Functionalize))
    with off, F.FunctionalTensorMode():
        wrapped = F.FunctionalTensor.to_functional(x)
        out = f(wrapped).elem
        assert isinstance(wrapped, F.FunctionalTensor) and wrapped.shape == (2, 2)
    assert ended(lib, out).tolist() == [1, 3, 5, 7]


def test_marks_of_complex_numbers(lib):
    def f(x):
        y = x.clone().conj()
        y.mul_(2j)
        lib.view_as_real(x)[0] = 1
        return y, y.is_conj(), x.real + 1, x.imag.is_neg()
    x = lib.tensor([1 + 2j, 3 - 1j])
    y = x.clone()
    expected, got = f(x), lib.func.functionalize(f)(y)
    assert lib.equal(expected[0], got[0]) and expected[1] == got[1] and lib.equal(expected[2], got[2]) and lib.equal(x, y)


def test_writes_in_place_again(lib):
    reinplace = importlib.import_module(lib.__name__ + ".fx.passes.reinplace").reinplace

    def f(x):
        y = x.clone()
        y.diagonal().add_(1)
        z = y * 2
        return z.relu_()

    def kept(x):
        y = x.clone()
        z = y + 1
        return y, z + y
    x = lib.ones(2, 2)
    graph = reinplace(make_fx(lib)(lib.func.functionalize(f))(x), x)
    assert "add_.Tensor" in steps(graph) and "relu_.default" in steps(graph) and not any("scatter" in s for s in steps(graph))
    assert lib.equal(graph(x), f(x)) and lib.equal(x, lib.ones(2, 2))
    graph = reinplace(make_fx(lib)(kept)(x), x)
    assert [lib.equal(a, b) for a, b in zip(graph(x), kept(x))] == [True, True] and steps(graph)[1] == "add.Tensor"
