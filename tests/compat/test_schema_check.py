"""SchemaCheckMode, tags, and outputs that are given by their own names."""
import importlib

import pytest


def mode(lib):
    return importlib.import_module(lib.__name__ + "._subclasses.schema_check_mode").SchemaCheckMode()


def operator(lib, schema, kernel):
    name = f"f{id(kernel)}"
    lib.library.define(f"schema_check::{name}", schema)
    lib.library.impl(f"schema_check::{name}", "cpu", kernel)
    return getattr(lib.ops.schema_check, name)


def test_what_is_seen(lib):
    x, y = lib.rand(3, 3), lib.rand(3, 3)
    with mode(lib) as check:
        x.relu().sin()
    assert (check.ops, check.mutated, check.aliasing) == (["aten::relu", "aten::sin"], [], [])
    with mode(lib) as check:
        x.add_(x)
    assert check.mutated == [("aten::add_", "input"), ("aten::add_", "other")]
    assert check.aliasing == [("aten::add_", "input", "output_0"), ("aten::add_", "other", "output_0")]
    check.reset_cache()
    with check:
        y.resize_(9)
    assert check.mutated == [("aten::resize_", "input")] and check.aliasing == [("aten::resize_", "input", "output_0")]
    with mode(lib) as check:
        lib.frexp(lib.arange(9.), out=(lib.zeros(9), lib.ones(9, dtype=lib.int32)))
    assert check.mutated == [("aten::frexp", "mantissa"), ("aten::frexp", "exponent")]
    assert check.aliasing == [("aten::frexp", "mantissa", "output_0"), ("aten::frexp", "exponent", "output_1")]
    with mode(lib):
        assert y.view(-1).split(2)[0].unbind()[0].shape == ()
    norm = lib.nn.BatchNorm1d(3)
    with mode(lib):
        norm(x)


def two_of_one(x):
    y = x * 2
    return y, y


@pytest.mark.parametrize("schema, kernel, says", [
    ("(Tensor x) -> Tensor", lambda x: x.view(-1), "Argument x is not defined to alias output but was aliasing"),
    ("(Tensor self) -> Tensor", lambda x: x, "Argument input is not defined to alias output but was aliasing"),
    ("(Tensor x) -> Tensor", lambda x: x.add_(1).clone(), "Argument x is not defined as mutable but was mutated"),
    ("(Tensor x) -> (Tensor, Tensor)", two_of_one, "Outputs 0 and 1 alias unexpectedly"),
    ("(Tensor(a) x) -> Tensor(a)", lambda x: x, "are not allowed to directly return inputs"),
])
def test_what_is_wrong(lib, schema, kernel, says):
    if lib.__name__ == "torch":
        kernel = eval_again(kernel)
    op = operator(lib, schema, kernel)
    with pytest.raises(RuntimeError, match=says), mode(lib):
        op(lib.ones(3))
    with pytest.raises(Exception, match="opcheck.op, ....: test_schema failed"):
        lib.library.opcheck(op.default, (lib.ones(3),), test_utils="test_schema")


def eval_again(kernel):
    return lambda x: kernel(x)


def test_what_is_right(lib):
    op = operator(lib, "(Tensor(a!) x, Tensor y) -> Tensor(a!)", lambda x, y: x.add_(y))
    with mode(lib) as check:
        op(lib.ones(3), lib.ones(3))
    assert [tuple(m)[1] for m in check.mutated] == ["x"]


def test_outputs_by_their_names(lib):
    aten, x = lib.ops.aten, lib.tensor([3., 1., 2.])
    values, indices = lib.zeros(3), lib.zeros(3, dtype=lib.int64)
    found = aten.sort.values(x, values=values, indices=indices)
    assert found[0] is values and found[1] is indices and values.tolist() == [1, 2, 3] and indices.tolist() == [1, 2, 0]
    aten.sort(x, 0, True, values=values, indices=indices)
    assert values.tolist() == [3, 2, 1]
    base = importlib.import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode

    class Again(base):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen = str(func), sorted(kwargs or {})
            return func(*args, **(kwargs or {}))
    with Again() as again:
        lib.max(x, 0, out=(lib.zeros(()), lib.zeros((), dtype=lib.int64)))
    assert again.seen == ("aten.max.dim_max", ["max", "max_values"])


def test_tags(lib):
    aten, Tag = lib.ops.aten, lib.Tag
    for op, tags in ((aten.add.Tensor, [Tag.core, Tag.pointwise, Tag.pt2_compliant_tag]),
                     (aten.bernoulli.default, [Tag.nondeterministic_seeded, Tag.pt2_compliant_tag]),
                     (aten.nonzero.default, [Tag.core, Tag.dynamic_output_shape, Tag.pt2_compliant_tag]),
                     (aten.item.default, [Tag.data_dependent_output, Tag.pt2_compliant_tag]),
                     (aten.squeeze_.default, [Tag.inplace, Tag.inplace_view, Tag.pt2_compliant_tag]),
                     (aten.sum.dim_IntList, [Tag.core, Tag.reduction, Tag.pt2_compliant_tag])):
        assert sorted(op.tags, key=lambda t: t.name) == sorted(tags, key=lambda t: t.name), op
    lib.library.define("schema_check::tagged", "(Tensor x) -> Tensor", tags=(Tag.pointwise,))
    assert lib.ops.schema_check.tagged.default.tags == [Tag.pointwise]
    op = lib.library.custom_op("schema_check::made", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    assert op._opoverload.tags == [Tag.pt2_compliant_tag]
