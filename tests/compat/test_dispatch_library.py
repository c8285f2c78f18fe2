"""library: operators of one's own, and ops.<namespace>.<name>.<overload>."""
import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def space():
    return f"compat{next(_numbers)}"


# ---- operators by name -------------------------------------------------------------------------------------------------

def test_operators_by_name(lib):
    add = lib.ops.aten.add
    assert add.Tensor(lib.ones(2), lib.ones(2)).tolist() == [2.0, 2.0]
    assert add(lib.ones(2), 1).tolist() == [2.0, 2.0]
    assert str(add.Tensor) == "aten.add.Tensor" and add.Tensor.name() == "aten::add.Tensor" and str(add) == "aten.add"
    assert repr(add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert "Tensor" in add.overloads() and add.Tensor.overloadpacket is add
    assert lib.ops.aten.relu.default(lib.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0]
    with pytest.raises(AttributeError):
        lib.ops.aten.no_such_operator
    with pytest.raises(AttributeError):
        add.NoSuchOverload
    with pytest.raises((TypeError, RuntimeError)):
        add.Tensor()


def test_schemas(lib):
    schema = lib.ops.aten.add.Tensor._schema
    assert schema.name == "aten::add" and schema.overload_name == "Tensor"
    assert [a.name for a in schema.arguments] == ["self", "other", "alpha"]
    assert schema.arguments[2].kwarg_only and schema.arguments[2].default_value == 1
    assert str(schema.arguments[0].type) == "Tensor" and str(schema.returns[0].type) == "Tensor"
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    inplace = lib.ops.aten.add_.Tensor._schema
    assert inplace.is_mutable and inplace.arguments[0].alias_info.is_write and not schema.is_mutable


# ---- Library ---------------------------------------------------------------------------------------------------------

def test_a_library(lib, space):
    library = lib.library.Library(space, "DEF")
    assert library.define("scale(Tensor x, float factor=2.0) -> Tensor") == "scale"
    library.impl("scale", lambda x, factor=2.0: x * factor, "CompositeExplicitAutograd")
    op = getattr(lib.ops, space).scale
    assert op(lib.ones(2)).tolist() == [2.0, 2.0] and op.default(lib.ones(2), 3.0).tolist() == [3.0, 3.0]
    assert op(lib.ones(1), factor=4.0).item() == 4.0
    with pytest.raises(RuntimeError):
        op("no tensor")
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY can be used to register the namespace"):
        lib.library.Library(space, "DEF")
    library._destroy()
    with pytest.raises(AttributeError):
        getattr(lib.ops, space).scale.default


def test_names_of_operators_may_be_long(lib, space):
    library = lib.library.Library(space, "DEF")
    for name in ("a" * 300, "a" * 300 + ".b"):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, lambda x: x * 2, "CompositeExplicitAutograd")
    op = getattr(getattr(lib.ops, space), "a" * 300)
    x = lib.ones(2, requires_grad=True)
    assert op.default(x).tolist() == op.b(x).tolist() == [2., 2.]
    assert str(op.b) == f"{space}.{'a' * 300}.b"
    lib.library.register_autocast(f"{space}::{'a' * 300}", "cpu", lib.bfloat16)
    with lib.autocast("cpu", lib.bfloat16):
        assert op(lib.ones(2)).dtype == lib.bfloat16
    library._destroy()


def test_kernels_for_keys(lib, space):
    library = lib.library.Library(space, "FRAGMENT")
    library.define("f(Tensor x, int[] dims, str mode='a', bool flag=True, int? n=None) -> (Tensor, Tensor)")

    def cpu(x, dims, mode="a", flag=True, n=None):
        return x + len(dims), x * (1 if flag else -1)
    library.impl("f", cpu, "CPU")
    library.impl("f", lambda x, dims, mode="a", flag=True, n=None: (lib.empty_like(x), lib.empty_like(x)), "Meta")
    f = getattr(lib.ops, space).f
    a, b = f(lib.ones(2), [1, 2, 3], flag=False)
    assert a.tolist() == [4.0, 4.0] and b.tolist() == [-1.0, -1.0]
    assert f(lib.ones(2, device="meta"), [1])[0].device.type == "meta"


def test_lists_overloads_and_nothing(lib, space):
    library = lib.library.Library(space, "FRAGMENT")
    library.define("total(Tensor[] xs) -> Tensor")
    library.define("total.scaled(Tensor[] xs, Scalar by) -> Tensor")
    library.define("pieces(Tensor x) -> Tensor[]")
    library.define("maybe(Tensor? x) -> int")
    library.impl("total", lambda xs: sum(xs), "CompositeImplicitAutograd")
    library.impl("total.scaled", lambda xs, by: sum(xs) * by, "CompositeImplicitAutograd")
    library.impl("pieces", lambda x: [x[0], x[1]], "CompositeImplicitAutograd")
    library.impl("maybe", lambda x: 0 if x is None else x.numel(), "CompositeImplicitAutograd")
    mine = getattr(lib.ops, space)
    assert mine.total([lib.ones(1), lib.ones(1)]).item() == 2.0
    assert mine.total([lib.ones(1), lib.ones(1)], 3).item() == 6.0 and sorted(mine.total.overloads()) == ["default", "scaled"]
    assert [p.item() for p in mine.pieces(lib.tensor([1.0, 2.0]))] == [1.0, 2.0]
    assert mine.maybe(lib.ones(3)) == 3
    x = lib.ones(2, requires_grad=True)
    mine.total([x, x]).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_an_operator_that_writes(lib, space):
    library = lib.library.Library(space, "FRAGMENT")
    library.define("fill_(Tensor(a!) x, float v) -> ()")
    library.impl("fill_", lambda x, v: (x.fill_(v), None)[1], "CompositeExplicitAutograd")
    x = lib.zeros(2)
    assert getattr(lib.ops, space).fill_(x, 3.0) is None and x.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("text", [
    "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "aten::positive(Tensor(a) self) -> Tensor(a)", "aten::celu(Tensor self, Scalar alpha=1.) -> Tensor",
    "aten::rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
    "aten::fft_fftfreq.out(int n, float d=1., *, Tensor(a!) out) -> Tensor(a!)",
    "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    'aten::gelu(Tensor self, *, str approximate="none") -> Tensor',
    "aten::relu_(Tensor(a!) self) -> Tensor(a!)", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
])
def test_schemas_are_printed_alike(lib, text):
    name, _, overload = text.partition("(")[0].removeprefix("aten::").partition(".")
    schema = getattr(getattr(lib.ops.aten, name), overload or "default")._schema
    assert str(schema).replace("SymInt", "int") == text
    before = schema.arguments[0].alias_info
    assert (before is None) == ("Tensor(a" not in text.partition(",")[0])
    assert before is None or before.is_write == ("(a!) self" in text)


def test_bad_schemas(lib, space):
    library = lib.library.Library(space, "FRAGMENT")
    for text in ("f(Tensor x", "f(Tensr x) -> Tensor", "f(Tensor x)", "(Tensor x) -> Tensor"):
        with pytest.raises(RuntimeError):
            library.define(text)
    library.define("g(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError):
        library.define("g(Tensor x) -> Tensor")


def test_replacing_a_kernel(lib, recwarn):
    """An operator that exists can be given another kernel, until the library goes."""
    library = lib.library.Library("aten", "IMPL")
    library.impl("erfinv", lambda x: x.new_full(x.shape, 7.0), "CPU")
    try:
        assert lib.erfinv(lib.zeros(2)).tolist() == [7.0, 7.0]
    finally:
        library._destroy()
    assert lib.erfinv(lib.zeros(2)).tolist() == [0.0, 0.0]


# ---- by names --------------------------------------------------------------------------------------------------------

def test_define_and_impl(lib, space):
    lib.library.define(f"{space}::sin", "(Tensor x) -> Tensor")

    @lib.library.impl(f"{space}::sin", "cpu")
    def f(x):
        return lib.sin(x)
    assert getattr(lib.ops, space).sin(lib.zeros(1)).item() == 0.0

    @lib.library.register_fake(f"{space}::sin")
    def _(x):
        return lib.empty_like(x)
    assert getattr(lib.ops, space).sin(lib.zeros(3, device="meta")).shape == (3,)


def test_a_gradient_by_name(lib, space):
    lib.library.define(f"{space}::double", "(Tensor x) -> Tensor")
    lib.library.impl(f"{space}::double", "CPU", lambda x: x.detach() * 2)
    lib.library.register_autograd(f"{space}::double", lambda ctx, g: g * 20)
    x = lib.ones(2, requires_grad=True)
    getattr(lib.ops, space).double(x).sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


# ---- custom_op ---------------------------------------------------------------------------------------------------------

def product(lib, space):
    def mul(x: lib.Tensor, y: lib.Tensor, scale: float = 1.0) -> lib.Tensor:
        return x * y * scale
    return lib.library.custom_op(f"{space}::product", mul, mutates_args=())


def test_a_custom_operator(lib, space):
    op = product(lib, space)
    assert op(lib.ones(2), lib.ones(2), 3.0).tolist() == [3.0, 3.0]
    assert getattr(lib.ops, space).product(lib.ones(2), lib.ones(2)).tolist() == [1.0, 1.0]
    assert str(op._opoverload._schema) == f"{space}::product(Tensor x, Tensor y, float scale=1.) -> Tensor" or \
        "float scale=1.0" in str(op._opoverload._schema)


def test_a_custom_operator_s_gradient(lib, space):
    op = product(lib, space)
    x, y = (lib.rand(3, dtype=lib.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        op(x, y).sum().backward()

    def setup(ctx, inputs, output):
        a, b, ctx.scale = inputs
        ctx.save_for_backward(a, b)

    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b * ctx.scale, g * a * ctx.scale, None
    op.register_autograd(backward, setup_context=setup)
    assert lib.autograd.gradcheck(lambda a, b: op(a, b, 2.0), (x, y))
    assert lib.autograd.gradgradcheck(lambda a, b: op(a, b), (x, y))
    assert "product" in op(x, y).grad_fn.name()


def test_a_custom_operator_s_shape(lib, space):
    op = product(lib, space)
    with pytest.raises(Exception, match="no fake impl registered"):
        op(lib.ones(2, device="meta"), lib.ones(2, device="meta"))

    @op.register_fake
    def _(x, y, scale=1.0):
        return lib.empty_like(x)
    assert op(lib.ones(2, 3, device="meta"), lib.ones(2, 3, device="meta")).shape == (2, 3)


def test_a_custom_operator_that_writes(lib, space):
    @lib.library.custom_op(f"{space}::scale_", mutates_args={"x"})
    def scale_(x: lib.Tensor, by: float) -> None:
        x.mul_(by)
    x = lib.ones(2)
    version = x._version
    scale_(x, 3.0)
    assert x.tolist() == [3.0, 3.0] and x._version > version


def test_results_have_memory_of_their_own(lib, space):
    @lib.library.custom_op(f"{space}::same", mutates_args=())
    def same(x: lib.Tensor) -> lib.Tensor:
        return x
    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(lib.ones(2))


def test_lists_of_operands(lib, space):
    from typing import List, Tuple

    @lib.library.custom_op(f"{space}::stats", mutates_args=())
    def stats(xs: List[lib.Tensor]) -> Tuple[lib.Tensor, lib.Tensor]:
        return sum(xs) + 0, sum(xs) * 2

    def backward(ctx, a, b):
        return [a + 2 * b] * ctx.n
    stats.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "n", len(inputs[0])))
    xs = [lib.ones(2, requires_grad=True) for _ in range(2)]
    a, b = stats(xs)
    (a.sum() + b.sum()).backward()
    assert xs[0].grad.tolist() == [3.0, 3.0] and xs[1].grad.tolist() == [3.0, 3.0]


def test_schemas_from_annotations(lib):
    from typing import List, Optional

    def f(x: lib.Tensor, n: int, s: str, v: List[float], t: Optional[lib.Tensor] = None, *, flag: bool = False) -> None:
        pass
    text = lib.library.infer_schema(f, mutates_args={"x"})
    assert text == '(Tensor(a0!) x, SymInt n, str s, float[] v, Tensor? t=None, *, bool flag=False) -> ()'

    def no_annotation(x):
        pass
    with pytest.raises(ValueError, match="must have a type annotation"):
        lib.library.infer_schema(no_annotation, mutates_args=())

    def odd(x: dict) -> lib.Tensor:
        pass
    with pytest.raises(ValueError, match="unsupported type"):
        lib.library.infer_schema(odd, mutates_args=())


def test_opcheck(lib, space):
    op = product(lib, space)
    op.register_fake(lambda x, y, scale=1.0: lib.empty_like(x))
    found = lib.library.opcheck(op, (lib.ones(2), lib.ones(2)))
    assert set(found.values()) == {"SUCCESS"}

    @lib.library.custom_op(f"{space}::sneaky", mutates_args=())
    def sneaky(x: lib.Tensor) -> lib.Tensor:
        x.add_(1)
        return x.clone()
    sneaky.register_fake(lambda x: lib.empty_like(x))
    with pytest.raises(Exception, match="not defined as mutable but was mutated"):
        lib.library.opcheck(sneaky, (lib.ones(2),), test_utils="test_schema")


def test_kernels_switched_off(lib, space):
    op = product(lib, space)
    op.register_kernel("cpu", lambda x, y, scale=1.0: x * 0)
    assert op(lib.ones(1), lib.ones(1)).item() == 0.0
    with op.set_kernel_enabled("cpu", enabled=False):
        assert op(lib.ones(1), lib.ones(1)).item() == 1.0


def test_kernels_may_come_before_the_definition(lib, space):
    early = lib.library.Library(space, "FRAGMENT")
    early.impl("later", lambda x: x + 7, "CPU")
    lib.library.define(f"{space}::later", "(Tensor x) -> Tensor")
    assert getattr(lib.ops, space).later(lib.zeros(1)).item() == 7
    early.impl("later", lambda x: x + 8, "CPU")                     # the last one counts
    assert getattr(lib.ops, space).later(lib.zeros(1)).item() in (7, 8)


def test_what_libraries_refuse(lib, space):
    Library = lib.library.Library

    def same(x: lib.Tensor) -> lib.Tensor:
        return x
    for call, error, words in (
            (lambda: Library(space, "XX"), ValueError, "Unsupported kind: XX"),
            (lambda: Library("prim", "DEF"), ValueError, "prim is a reserved namespace"),
            (lambda: Library(space, "IMPL", "CPU").define("z(Tensor x) -> Tensor"), RuntimeError, "Cannot define an operator inside"),
            (lambda: Library(space, "FRAGMENT").impl(3, lambda x: x, "CPU"), RuntimeError, "should be passed either a name or an OpOverload"),
            (lambda: lib.library.define("noname", "(Tensor x) -> Tensor"), ValueError, "Expected `qualname` to be of the form"),
            (lambda: lib.library.infer_schema(same, mutates_args="x"), ValueError, "mutates_args must either be a sequence")):
        with pytest.raises(error, match=words):
            call()
    assert lib.library.get_ctx() is None


def test_results_by_name_are_lists_and_tuples(lib):
    aten = lib.ops.aten
    assert type(aten.split.Tensor(lib.ones(4), 2)) is list
    assert type(aten.max.dim(lib.ones(2, 2), 0)) is tuple and type(lib.ones(2, 2).max(0)) is not tuple


def test_an_operator_that_writes_a_leaf(lib, space):
    @lib.library.custom_op(f"{space}::fill", mutates_args={"x"})
    def fill(x: lib.Tensor, v: float) -> None:
        x.fill_(v)
    leaf = lib.zeros(2, requires_grad=True)
    assert fill(leaf, 3.0) is None and leaf.tolist() == [3, 3]


def test_opcheck_says_which_test_failed(lib, space):
    @lib.library.custom_op(f"{space}::bad", mutates_args=())
    def bad(x: lib.Tensor) -> lib.Tensor:
        x.add_(1)
        return x.clone()
    with pytest.raises(Exception, match=r"opcheck\(op, ...\): test_schema failed with Argument x is not defined as mutable but was mutated"):
        lib.library.opcheck(bad, (lib.ones(2),), test_utils="test_schema")
    found = lib.library.opcheck(bad, (lib.ones(2),), test_utils="test_schema", raise_exception=False)
    assert isinstance(found["test_schema"], RuntimeError)


# ---- rules for batches, and for classes that see operators ----------------------------------------------------------------

def sine(lib, space):
    @lib.library.custom_op(f"{space}::sine", mutates_args=())
    def op(x: lib.Tensor, k: int) -> lib.Tensor:
        return x.sin() * k
    return op


def test_a_rule_for_batches(lib, space):
    op, seen = sine(lib, space), []

    @op.register_vmap
    def rule(info, in_dims, x, k):
        seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), k))
        return op(x, k), in_dims[0]
    x = lib.arange(6.0).reshape(3, 2)
    assert lib.equal(lib.vmap(lambda x: op(x, 2), in_dims=1)(x), (x.sin() * 2).T)
    assert seen == [(2, "error", (1, None), (3, 2), 2)]
    del seen[:]
    lib.vmap(lib.vmap(lambda x: op(x, 2)), randomness="different")(x)
    assert [s[:4] for s in seen] == [(2, "error", (0, None), (2,)), (3, "different", (0, None), (3, 2))]
    del seen[:]
    lib.vmap(lambda y: op(x, 2).sum() + y)(x)
    assert not seen


def test_a_rule_for_lists_and_keywords(lib, space):
    library = lib.library.Library(space, "DEF")
    library.define("scaled(Tensor[] xs, Tensor? y=None, *, float k=1.0) -> Tensor[]")
    library.impl("scaled", lambda xs, y=None, *, k=1.0: [x * k for x in xs], "CompositeExplicitAutograd")
    op = getattr(lib.ops, space).scaled

    def rule(info, in_dims, xs, y=None, *, k=1.0):
        assert in_dims[0] == [0, 1] and y is None
        return op([xs[0], xs[1].T], y, k=k), [0, 0]
    lib.library.register_vmap(f"{space}::scaled", rule, lib=library)
    a, b = lib.vmap(lambda x, y: op([x, y], k=2.0), in_dims=(0, 1))(lib.ones(3, 2), lib.ones(2, 3))
    assert a.tolist() == b.tolist() == [[2.0, 2.0]] * 3


def test_rules_for_batches_answer_with_a_pair(lib, space):
    op = sine(lib, space)
    op.register_vmap(lambda info, in_dims, x, k: op(x, k))
    with pytest.raises(RuntimeError, match="to have two returns, an output and out_dims"):
        lib.vmap(lambda x: op(x, 2))(lib.ones(3, 2))
    op.register_vmap(lambda info, in_dims, x, k: (op(x, k), (0, 0)))
    with pytest.raises(RuntimeError, match="incompatible"):
        lib.vmap(lambda x: op(x, 2))(lib.ones(3, 2))
    with pytest.raises(ValueError, match="got unexpected type for op"):
        lib.library.register_vmap(3, lambda: None)


def test_an_operator_that_writes_has_a_rule(lib, space):
    @lib.library.custom_op(f"{space}::triple_", mutates_args=("x",))
    def op(x: lib.Tensor) -> None:
        x.mul_(3)

    @op.register_vmap
    def rule(info, in_dims, x):
        op(x)
        return None, None

    def function(x):
        op(x)
        return x + 0
    x = lib.ones(3, 2)
    assert lib.vmap(function)(x).tolist() == x.tolist() == [[3.0, 3.0]] * 3


def test_gradients_through_a_rule(lib, space):
    op = sine(lib, space)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]
    op.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.k, None), setup_context=setup)
    op.register_vmap(lambda info, in_dims, x, k: (op(x, k), in_dims[0]))
    x = lib.arange(6.0).reshape(3, 2).requires_grad_()
    lib.vmap(lambda x: op(x, 2))(x).sum().backward()
    assert lib.allclose(x.grad, 2 * x.detach().cos())


def test_a_handler_of_one_operator(lib, space):
    from importlib import import_module
    op, seen = sine(lib, space), []

    class Mode(import_module(lib.__name__ + ".utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class Boxed(lib.Tensor):
        @staticmethod
        def __new__(cls, x):
            made = lib.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
            made.x = x
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        op(Boxed(lib.ones(2)), 2)

    @lib.library.register_torch_dispatch(op, Mode)
    def of_mode(mode, func, types, args, kwargs):
        assert isinstance(mode, Mode)
        return func(*args, **kwargs) * 100

    @op.register_torch_dispatch(Boxed)
    def of_class(cls, func, types, args, kwargs):
        assert cls is Boxed and Boxed in types
        return Boxed(func(args[0].x, *args[1:]))
    assert lib.equal(op(Boxed(lib.ones(2)), 2).x, lib.ones(2).sin() * 2)
    x = lib.ones(2)
    with Mode():
        y = op(x, 2)
        x.sin()
    assert lib.equal(y, lib.ones(2).sin() * 2 * 100) and seen == ["aten.sin.default"]


def test_schemas_of_annotations_number_what_is_written(lib):
    from typing import List, Optional, Tuple, Union

    def writes(x: lib.Tensor, y: List[lib.Tensor], z: List[lib.Tensor], w: List[Optional[lib.Tensor]]) -> None:
        pass

    def gives(x: lib.Tensor) -> Tuple[Union[int, float, bool], lib.Tensor]:
        pass
    infer = lib.library.infer_schema
    assert infer(writes, mutates_args={"x", "z", "w"}) == "(Tensor(a0!) x, Tensor[] y, Tensor(a2!)[] z, Tensor(a3!)?[] w) -> ()"
    assert infer(gives, mutates_args=()) == "(Tensor x) -> (Scalar, Tensor)"
    with pytest.raises(ValueError, match="schema suggests that the op mutates {'x'}"):
        lib.library.custom_op("numbered::f", lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()")


def test_kernels_for_keys_that_nothing_has(lib):
    own = lib.library.Library("never_keys", "FRAGMENT")
    own.define("f(Tensor x) -> Tensor")
    own.impl("f", lambda x: x + 1, "CPU")
    for key in ("AutogradCUDA", "XPU", "AutocastCUDA", "QuantizedCPU", "ZeroTensor"):
        own.impl("f", lambda x: x - 1, key)
    assert lib.ops.never_keys.f(lib.zeros(1)).item() == 1
    own._destroy()


def test_the_modules_of_the_library(lib):
    import importlib
    utils = importlib.import_module(lib.__name__ + "._library.utils")
    inferred = importlib.import_module(lib.__name__ + "._library.infer_schema")
    aten = lib.ops.aten
    assert utils.lookup_op("aten::add.Tensor") is aten.add.Tensor and utils.parse_namespace("a::b") == ("a", "b")
    assert utils.is_functional_schema(aten.sin.default._schema) and not utils.is_functional_schema(aten.sin_.default._schema)
    assert utils.is_functional_schema("aten::f(Tensor x) -> Tensor") and not utils.is_functional_schema("aten::f(Tensor x) -> ()")
    assert not utils.is_functional_schema(aten.view.default._schema)
    assert utils.is_functional_schema(aten.view.default._schema, allow_valid_view=True)
    assert utils.mutates_and_returns_first_arg(aten.sin_.default) and not utils.mutates_and_returns_first_arg(aten.sin.out)
    assert utils.is_out(aten.sin.out) and utils.is_builtin(aten.sin.default)
    kinds = [a.type for a in aten.cat.default._schema.arguments]
    assert utils.is_tensorlist_like_type(kinds[0]) and not utils.is_tensor_like_type(kinds[0])
    assert utils.fill_defaults(aten.sum.dim_IntList._schema, (1, [0]), {}) == ((1, [0], False), {"dtype": None})
    assert [(a.name, v) for a, v in utils.zip_schema(aten.add.Tensor._schema, (1, 2), {"alpha": 3})] == \
        [("self", 1), ("other", 2), ("alpha", 3)]
    assert inferred.SUPPORTED_RETURN_TYPES[lib.Tensor] == "Tensor" and inferred.infer_schema is lib.library.infer_schema
    assert lib._library.utils is utils and str(lib._C.parse_schema("aten::f(Tensor x, int y=3) -> Tensor")) == \
        "aten::f(Tensor x, int y=3) -> Tensor"


def test_schemas_with_types_that_there_are_not(lib):
    with lib.library._scoped_library("tede_types", "FRAGMENT") as own:
        for schema, says in (("foo(Tensor a) -> asdf", "unknown type specifier"), ("foo(asdf a) -> Tensor", "unknown type specifier"),
                             ("foo(int64_t a) -> Tensor", "Use `SymInt` or `int`"), ("foo(double a) -> Tensor", "Use `float`")):
            with pytest.raises(RuntimeError, match=says):
                own.define(schema)


def test_dtypes_and_devices_as_defaults(lib):
    with lib.library._scoped_library("tede_defaults", "FRAGMENT") as own:
        own.define('foo(Tensor x, ScalarType t=float32, ScalarType i=int32, Device d="cpu:0") -> Tensor')
        seen = []
        own.impl("foo", lambda x, t=lib.float32, i=lib.int32, d=lib.device("cpu:0"): seen.append((t, i, d)) or x.clone(), "CPU")
        op = lib.ops.tede_defaults.foo.default
        op(lib.ones(2))
        assert seen[0] == (lib.float32, lib.int32, lib.device("cpu:0"))
        op(lib.ones(2), lib.float64)
        assert seen[1][0] in (lib.float64, 7)       # PyTorch's kernel gets the number
        assert [a.default_value for a in op._schema.arguments[1:]] == [6, 3, lib.device("cpu:0")]
        assert op._defined_in_python and not lib.ops.aten.sin.default._defined_in_python


def test_a_fake_kernel_that_would_never_run(lib):
    with lib.library._scoped_library("tede_hidden", "FRAGMENT") as own:
        own.define("foo(Tensor x) -> Tensor")
        own.impl("foo", lambda x: x.sin(), "CompositeImplicitAutograd")
        with pytest.raises(RuntimeError, match="CompositeImplicitAutograd"):
            lib.library.register_fake("tede_hidden::foo", lambda x: lib.empty_like(x), lib=own)


def test_operators_with_tensors_by_keyword_only(lib):
    with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
        @lib.library.custom_op("tede_keyword::bar", mutates_args=())
        def bar(x: lib.Tensor, *, z: lib.Tensor) -> lib.Tensor:
            pass
    with lib.library._scoped_library("tede_keyword", "FRAGMENT") as own:
        own.define("foo(Tensor x, *, Tensor y) -> Tensor")
        with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
            lib.library.register_autograd("tede_keyword::foo", lambda ctx, g: g)
        with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
            lib.library.register_vmap("tede_keyword::foo", lambda info, in_dims, x, *, y: (x, 0))


def test_keywords_with_defaults_reach_setup_context(lib):
    with lib.library._scoped_library("tede_filled", "FRAGMENT") as own:
        own.define("foo(Tensor w, int x = 2, *, int y = 3, int z) -> Tensor")
        own.impl("foo", lambda w, x=2, *, y=3, z: w * x * y * z, "CPU")
        seen = []

        def setup(ctx, inputs, keyword_only_inputs, output):
            seen.append((len(inputs), inputs[1], keyword_only_inputs))
        lib.library.register_autograd("tede_filled::foo", lambda ctx, g: g, setup_context=setup, lib=own)
        lib.ops.tede_filled.foo(lib.ones(2, requires_grad=True), z=42).sum().backward()
        assert seen == [(2, 2, {"y": 3, "z": 42})]


def test_operators_without_tensors_run_where_their_argument_says(lib):
    @lib.library.custom_op("tede_factory::f", mutates_args={}, device_types="cpu")
    def f(device: lib.device) -> lib.Tensor:
        return lib.ones(3)
    assert f(device="cpu").tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="f does not have a kernel registered for cuda"):
        f("cuda")
    with pytest.raises(ValueError, match="without tensor inputs are required to have a `device: torch.device` argument"):
        @lib.library.custom_op("tede_factory::g", mutates_args={}, device_types="cpu")
        def g() -> lib.Tensor:
            return lib.ones(3)


def test_switching_kernels_that_are_not_there_or_not_on_is_logged(lib, caplog):
    @lib.library.custom_op("tede_switched::f", mutates_args=())
    def f(x: lib.Tensor) -> lib.Tensor:
        return x + 1

    def log(device, enabled):
        caplog.clear()
        with f.set_kernel_enabled(device, enabled=enabled):
            f(lib.ones(1))
        return caplog.text
    assert "no kernel was registered for this device type" in log("gpu", False)
    f.register_kernel("cpu", lambda x: x + 2)
    assert "already enabled" in log("cpu", True)
    assert log("cpu", False) == ""


def test_functions_of_lists_of_tensors(lib):
    from importlib import import_module
    autograd = import_module(f"{lib.__name__}._library.autograd")

    @autograd.supports_tensorlist
    class Stack(lib.autograd.Function):
        @staticmethod
        def forward(ctx, xs, factor):
            ctx.n = len(xs)
            return lib.stack(xs) * factor

        @staticmethod
        def backward(ctx, grad):
            assert ctx.needs_input_grad == ([True] * ctx.n, False)
            return list(grad.unbind(0)), None
    xs = [lib.ones(2, requires_grad=True) for _ in range(3)]
    y = Stack.apply(xs, 2)
    assert [g.tolist() for g in lib.autograd.grad(y.sum(), xs)] == [[1, 1]] * 3
    with pytest.raises(NotImplementedError, match="Function.forward directly"):
        Stack.forward(None, xs)

    @autograd.supports_tensorlist
    class Some(lib.autograd.Function):
        @staticmethod
        def forward(ctx, xs):
            return [x + i for i, x in enumerate(xs)]

        @staticmethod
        def backward(ctx, grads):
            return [g * i for i, g in enumerate(grads)]
    ys = Some.apply(xs)
    assert isinstance(ys, list)
    assert [g.tolist() for g in lib.autograd.grad(sum(y.sum() for y in ys), xs)] == [[0, 0], [1, 1], [2, 2]]


def test_opcheck_finds_wrong_fakes_and_takes_sizes_that_data_decides(lib):
    with lib.library._scoped_library("tede_checked", "FRAGMENT") as own:
        own.define("wide(Tensor x) -> Tensor")
        own.impl("wide", lambda x: x.clone(), "CPU")
        own.impl("wide", lambda x: x.unsqueeze(1).clone(), "Meta")
        with pytest.raises(lib.library.OpCheckError if lib.__name__ == "tede" else Exception, match="hapes .* are not equal"):
            lib.library.opcheck(lib.ops.tede_checked.wide.default, (lib.ones(3),), test_utils="test_faketensor")
        own.define("found(Tensor x) -> Tensor")
        own.impl("found", lambda x: x.nonzero(), "CPU")
        lib.library.register_fake("tede_checked::found", lambda x: x.new_empty([lib.library.get_ctx().new_dynamic_size(), x.ndim],
                                                                              dtype=lib.int64), lib=own)
        assert lib.library.opcheck(lib.ops.tede_checked.found.default, (lib.tensor([0., 1.]),),
                                   test_utils="test_faketensor") == {"test_faketensor": "SUCCESS"}
    with pytest.raises(ValueError, match="OpOverload"):
        lib.library.opcheck(lib.sin, (lib.ones(2),))


def test_fake_tensors_are_held_against_real_ones(lib):
    from importlib import import_module
    subclasses = import_module(f"{lib.__name__}._subclasses")
    with lib.library._scoped_library("tede_crossed", "FRAGMENT") as own:
        own.define("wide(Tensor x) -> Tensor")
        own.impl("wide", lambda x: x.clone(), "CPU")
        own.impl("wide", lambda x: x.unsqueeze(1).clone(), "Meta")
        x = lib.ones(3)
        with subclasses.CrossRefFakeMode():
            assert (x + x).nonzero().shape == (3, 1)
            with pytest.raises(Exception, match="mismatched"):
                lib.ops.tede_crossed.wide(x)
        with subclasses.CrossRefFakeMode(ignore_op_fn=lambda op: op.namespace == "tede_crossed"):
            assert lib.ops.tede_crossed.wide(x).shape == (3,)


def test_symbolic_numbers_come_to_a_kernel_as_they_are(lib):
    pytest.importorskip("sympy")
    from importlib import import_module
    shapes = import_module(f"{lib.__name__}.fx.experimental.symbolic_shapes").ShapeEnv()
    mode = import_module(f"{lib.__name__}._subclasses").FakeTensorMode(shape_env=shapes)
    a, b = mode.from_tensor(lib.rand(2, 3)).shape
    with lib.library._scoped_library("tede_symbols", "FRAGMENT") as own:
        own.define("squares(SymInt a, SymInt b) -> SymInt")
        own.impl("squares", lambda a, b: a * a + b * b, "CompositeExplicitAutograd")
        squares = lib.ops.tede_symbols.squares.default
        made = squares(a, b)
        assert isinstance(made, lib.SymInt) and shapes.evaluate_expr(made.node.expr) == 13
        assert squares(a, b=b).node.expr == made.node.expr and squares(2, 3) == 13
