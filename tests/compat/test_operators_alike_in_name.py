"""An operator of a program's own that has the name of one of aten's shares nothing with it: no rule, tangent, policy or tag."""
import warnings

import pytest


@pytest.fixture
def own(lib, monkeypatch):
    """own("relu_(Tensor(a!) self) -> Tensor(a!)", kernel): the operator in a namespace of its own."""
    warnings.simplefilter("ignore")
    library = lib.library.Library("alikeinname", "FRAGMENT")

    def define(schema, kernel):
        library.define(schema)
        name = schema.partition("(")[0]
        library.impl(name, kernel, "CPU")
        return getattr(lib.ops.alikeinname, name)
    yield define
    library._destroy()


def test_in_place_operators_have_no_functional_form(lib, own):
    relu_, x = own("relu_(Tensor(a!) self) -> Tensor(a!)", lambda x: x.mul_(0).add_(10)), lib.arange(6.).reshape(2, 3) - 3
    assert lib.vmap(lambda v: relu_(v.clone()))(x).tolist() == [[10] * 3] * 2
    value, tangent = lib.func.jvp(lambda v: relu_(v.clone()), (x,), (lib.ones(2, 3),))
    assert value.tolist() == [[10] * 3] * 2 and tangent.tolist() == [[0] * 3] * 2


def test_a_functional_operator_beside_it_isn_t_taken_either(lib, own):
    own("relu(Tensor self) -> Tensor", lambda x: x * 0 - 1)
    relu_ = own("relu_(Tensor(a!) self) -> Tensor(a!)", lambda x: x.mul_(0).add_(10))
    assert lib.vmap(lambda v: relu_(v.clone()))(lib.ones(2, 3)).tolist() == [[10] * 3] * 2


@pytest.mark.parametrize("schema, kernel, arguments", [
    ("embedding(Tensor self, int by) -> Tensor", lambda x, by: x + by, (3,)),
    ("cumsum(Tensor self, int dim) -> Tensor", lambda x, dim: x.sum() + x.cumsum(dim), (0,)),
    ("permute(Tensor self, int[] dims) -> Tensor", lambda x, dims: x * len(dims), ([5, 6, 7],)),
    ("randn(Tensor self) -> Tensor", lambda x: x + x.sum(), ()),
    ("sum(Tensor self) -> Tensor", lambda x: x + x.sum(), ()),
    ("linear(Tensor self) -> Tensor", lambda x: x.flip(0) * x.sum(), ()),
    ("clone(Tensor self) -> Tensor", lambda x: x - x.sum(), ()),
    ("native_dropout(Tensor self, float p, bool? train) -> (Tensor, Tensor)", lambda x, p, train: (x - x.sum(), x > 1), (.5, True)),
    ("max(Tensor self, int dim) -> (Tensor values, Tensor indices)", lambda x, dim: (x - x.sum(), x > 1), (0,)),
], ids=lambda value: value.partition("(")[0] if isinstance(value, str) else "")
def test_members_of_a_batch_are_computed_one_by_one(lib, own, schema, kernel, arguments):
    op, x = own(schema, kernel), lib.arange(6.).reshape(2, 3)
    got, want = lib.vmap(lambda v: op(v, *arguments))(x), [kernel(v, *arguments) for v in x]
    if isinstance(got, tuple):
        assert [y.tolist() for y in got] == [lib.stack(parts).tolist() for parts in zip(*want)]
    else:
        assert got.tolist() == lib.stack(want).tolist()


def test_a_batch_in_the_other_operand(lib, own):
    mm = own("mm(Tensor self, Tensor mat2) -> Tensor", lambda a, b: a + b.sum())
    x = lib.arange(6.).reshape(2, 3)
    assert lib.vmap(lambda v: mm(lib.ones(3), v))(x).tolist() == [[4] * 3, [13] * 3]
    add_ = own("add_(Tensor(a!) self, Tensor other) -> Tensor(a!)", lambda a, b: a.copy_(b))
    with pytest.raises(RuntimeError, match="alikeinname::add_.*`other`|inplace arithmetic"):
        lib.vmap(lambda v: add_(lib.zeros(3), v))(x)


def test_autocast_leaves_its_operands_alone(lib, own):
    mm = own("mm(Tensor self, Tensor mat2) -> Tensor", lambda a, b: a @ b)
    mse_loss = own("mse_loss(Tensor self) -> Tensor", lambda a: a + 1)
    with lib.autocast("cpu", dtype=lib.bfloat16):
        assert mse_loss(lib.ones(2, dtype=lib.bfloat16)).dtype == lib.bfloat16
        assert mm(lib.ones(2, 2), lib.ones(2, 2)).dtype in (lib.bfloat16, lib.float32)      # of the product in its kernel


def test_it_has_no_tags(lib, own):
    own("relu(Tensor self) -> Tensor", lambda x: x)
    own("dropout(Tensor self) -> Tensor", lambda x: x)
    assert not {lib.Tag.core, lib.Tag.pointwise} & set(lib.ops.alikeinname.relu.default.tags)
    assert lib.Tag.nondeterministic_seeded not in lib.ops.alikeinname.dropout.default.tags


def test_it_is_not_counted(lib, own):
    import importlib
    counter = importlib.import_module(lib.__name__ + ".utils.flop_counter")
    mm = own("mm(Tensor self, Tensor mat2) -> Tensor", lambda a, b: a + b)
    with counter.FlopCounterMode(display=False) as mode:
        mm(lib.ones(2, 2), lib.ones(2, 2))
    assert mode.get_total_flops() == 0


@pytest.mark.parametrize("change", ["squeeze_", "squeeze_dim", "unsqueeze_", "transpose_", "t_", "swapaxes_"])
def test_tangents_change_shape_as_their_tensors_do(lib, change):
    def f(x):
        y = x * 2
        return {"squeeze_": y.squeeze_, "squeeze_dim": lambda: y.squeeze_(1), "unsqueeze_": lambda: y.unsqueeze_(1),
                "transpose_": lambda: y.transpose_(0, 1), "t_": y.t_, "swapaxes_": lambda: y.swapaxes_(0, 1)}[change]() * 3
    x, t = lib.arange(3.).reshape(3, 1), lib.tensor([[1.], [2.], [4.]])
    value, tangent = lib.func.jvp(f, (x,), (t,))
    assert tangent.shape == value.shape and tangent.tolist() == f(t).tolist()


def test_one_made_of_others_has_their_derivatives(lib):
    library = lib.library.Library("alikeinname", "FRAGMENT")
    library.define("tanh(Tensor self) -> Tensor")
    library.impl("tanh", lambda x: x.sin() * 2, "CompositeImplicitAutograd")
    tanh, x = lib.ops.alikeinname.tanh, lib.tensor([.5, 1.])
    try:
        assert lib.allclose(lib.func.grad(lambda v: tanh(v).sum())(x), 2 * x.cos())
        assert lib.allclose(lib.func.jvp(tanh, (x,), (lib.ones(2),))[1], 2 * x.cos())
        assert lib.allclose(lib.func.vmap(lib.func.grad(tanh))(x), 2 * x.cos())
        assert lib.allclose(lib.func.grad(lambda v: lib.func.grad(lambda w: tanh(w).sum())(v).sum())(x), -2 * x.sin())
    finally:
        library._destroy()
