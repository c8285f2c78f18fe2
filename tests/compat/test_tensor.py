"""What a Tensor is as a Python object: identity, attributes, numbers, operators, calls and their errors."""
import copy
import gc
import operator
import pickle
import weakref

import pytest


def short(x):
    return str(x).rpartition(".")[2]


# ---- identity ------------------------------------------------------------------------------------------------------

def test_the_same_object_comes_back_while_the_core_holds_it(lib):
    x = lib.ones(3, requires_grad=True)
    x.grad = lib.zeros(3)
    x.grad.mark = "kept"
    gc.collect()
    assert x.grad.mark == "kept"
    assert x.grad is x.grad


def test_attributes_survive_in_the_graph(lib):
    leaf = lib.ones(2, requires_grad=True)
    leaf.mark = 7
    y = (leaf * leaf).sum()
    del leaf
    gc.collect()
    node = y.grad_fn
    while node.next_functions:
        node = node.next_functions[0][0]
    assert node.variable.mark == 7


def test_a_weak_reference_lives_as_long_as_the_core_holds_the_tensor(lib):
    x, grad = lib.ones(2, requires_grad=True), lib.zeros(2)
    x.grad = grad
    reference = weakref.ref(grad)
    del grad
    assert reference() is x.grad
    x.grad = None
    gc.collect()
    assert reference() is None


def test_cycles_through_attributes_are_collected(lib):
    x = lib.ones(2)
    x.self = x
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_hash_and_membership_go_by_identity(lib):
    x, y = lib.ones(2), lib.ones(2)
    assert hash(x) == id(x)
    assert len({x, y, x}) == 2


def test_in_place_operators_return_their_operand(lib):
    x = lib.ones(3)
    y = x
    assert x.add_(1) is x
    x += 1
    x *= 2
    assert x is y
    assert x.tolist() == [6, 6, 6]
    out = lib.empty(3)
    assert lib.add(x, x, out=out) is out
    assert out.tolist() == [12, 12, 12]


# ---- attributes ------------------------------------------------------------------------------------------------------

def test_shape_and_strides(lib):
    x = lib.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4) == x.size() and isinstance(x.shape, tuple) and isinstance(x.shape, lib.Size)
    assert x.size(1) == x.size(-2) == x.shape[1] == 3
    assert x.stride() == (12, 4, 1) and x.stride(0) == 12
    assert x.dim() == x.ndim == 3 and x.numel() == x.nelement() == 24 and len(x) == 2
    assert x.element_size() == x.itemsize == 4 and x.nbytes == 96
    assert x.shape.numel() == 24 and isinstance(x.shape[1:], lib.Size)
    assert x[1].storage_offset() == 12 and x[1].data_ptr() == x.data_ptr() + 48
    assert x.is_contiguous() and not x.transpose(0, 1).is_contiguous()
    for dim in (3, -4):
        with pytest.raises(IndexError, match="Dimension out of range"):
            x.size(dim)


def test_kind(lib):
    x = lib.zeros(2, dtype=lib.float64)
    assert x.dtype == lib.float64 == lib.double and short(x.dtype) == "float64"
    assert x.dtype.is_floating_point and not x.dtype.is_complex and x.dtype.is_signed and x.dtype.itemsize == 8
    assert str(x.device) == "cpu" and x.device == lib.device("cpu") and x.device.type == "cpu" and x.device.index is None
    assert short(x.layout) == "strided" and x.is_cpu and not x.is_cuda and not x.is_sparse
    assert lib.is_tensor(x) and x.is_floating_point() and not x.is_complex()
    assert x.type() == "torch.DoubleTensor" and x.type(lib.int64).dtype == lib.int64
    assert repr(lib.device("cuda", 1)) == "device(type='cuda', index=1)"


def test_requires_grad_and_leaves(lib):
    x = lib.ones(2)
    assert not x.requires_grad and x.is_leaf and x.grad is None and x.grad_fn is None
    assert x.requires_grad_() is x and x.requires_grad
    y = x * 2
    assert not y.is_leaf and y.grad_fn is not None and type(y.grad_fn).__name__ == "MulBackward0"
    y.retain_grad()
    assert y.retains_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="floating point"):
        lib.ones(2, dtype=lib.int64).requires_grad_()
    with pytest.raises(RuntimeError):
        y.requires_grad = False


def test_data_shares_memory_but_not_versions(lib):
    x = lib.ones(2, requires_grad=True)
    before = x._version
    x.data[0] = 5
    assert x.tolist() == [5, 1] and x._version == before and not x.data.requires_grad
    x.detach().mul_(2)
    assert x._version == before + 1
    x.data = lib.zeros(3)
    assert x.shape == (3,) and x.requires_grad


def test_transposes(lib):
    x = lib.arange(6).reshape(2, 3)
    assert x.T.tolist() == x.mT.tolist() == x.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.T.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="tensor.mT is only supported"):
        x[0].mT


def test_views_know_their_base(lib):
    x = lib.zeros(4)
    assert x._base is None and x[1:]._base is x and x[1:][1:]._base is x
    x[1:].add_(1)
    assert x._version == x[2:]._version == 1


def test_unknown_attributes_are_errors(lib):
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nonsense'"):
        lib.ones(1).nonsense
    with pytest.raises(AttributeError):
        lib.nonsense


# ---- numbers -------------------------------------------------------------------------------------------------------

def test_one_element_is_a_number(lib):
    x = lib.tensor([[2.5]])
    assert x.item() == float(x) == 2.5 and int(x) == 2 and bool(x) and complex(x) == 2.5
    assert lib.tensor(3).__index__() == 3 and [1, 2, 3][lib.tensor(1)] == 2
    assert f"{lib.tensor(3.14159):.2f}" == "3.14" and "%.1f" % lib.tensor(2.0) == "2.0"  # noqa: UP031
    assert isinstance(lib.tensor(True).item(), bool) and isinstance(lib.tensor(1).item(), int)
    assert lib.tensor(1 + 2j).item() == 1 + 2j
    assert lib.tensor(2**64 - 1, dtype=lib.uint64).item() == 2**64 - 1


def test_more_elements_are_not_a_number(lib):
    x = lib.ones(2)
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(x[:0])
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        float(x)
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        operator.index(x[0])


def test_tolist(lib):
    x = lib.arange(6).reshape(1, 2, 3)
    assert x.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert x.transpose(1, 2).tolist() == [[[0, 3], [1, 4], [2, 5]]]
    assert x[0, 1, 2].tolist() == 5 and x[:0].tolist() == []
    for dtype, value in (("bool", True), ("float16", 0.5), ("bfloat16", 1.5), ("int8", -3), ("complex64", 1 - 2j)):
        assert lib.tensor([value], dtype=getattr(lib, dtype)).tolist() == [value]


def test_iteration(lib):
    x = lib.arange(6.0).reshape(2, 3)
    rows = list(x)
    assert [row.tolist() for row in rows] == x.tolist()
    rows[0][0] = 9
    assert x[0, 0] == 9
    assert [float(v) for v in x[1]] == [3, 4, 5]
    a, b = x
    assert b.shape == (3,)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(lib.tensor(1.0))
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(lib.tensor(1.0))
    g = lib.ones(2, requires_grad=True)
    sum(v * v for v in g).backward()
    assert g.grad.tolist() == [2, 2]


def test_membership(lib):
    x = lib.tensor([1.0, 2.0])
    assert 2 in x and 3 not in x and lib.tensor(1.0) in x
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in x


# ---- operators -------------------------------------------------------------------------------------------------------

BINARY = "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split()


@pytest.mark.parametrize("name", BINARY)
def test_operators_with_numbers_on_both_sides(both, name):
    results = []
    for lib in both:
        x = lib.tensor([-3.0, 0.5, 2.0, 7.0])
        apply = getattr(operator, name)
        results.append([apply(x, 2).tolist(), apply(x, 1.5).tolist(), apply(3, x.abs()).tolist(), apply(x, x.abs()).tolist(),
                        short(apply(x, 2).dtype), short(apply(lib.tensor([1, 2]), 2).dtype),
                        short(apply(lib.tensor([1, 2]), 1.5).dtype), short(apply(2.5, lib.tensor([1, 2])).dtype)])
    assert results[0][4:] == results[1][4:]
    for a, b in zip(results[0][:4], results[1][:4]):
        assert a == pytest.approx(b, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", "and_ or_ xor lshift rshift".split())
def test_operators_of_integers(both, name):
    apply = getattr(operator, name)
    expected, actual = ([apply(lib.tensor([1, 6, 12]), 2).tolist(),
                         apply(lib.tensor([1, 6, 12]), lib.tensor([1, 2, 3])).tolist()] for lib in both[::-1])
    assert actual == expected


def test_unary_operators(lib):
    x = lib.tensor([-1.0, 2.0])
    assert (-x).tolist() == [1, -2] and abs(x).tolist() == [1, 2] and (+x).tolist() == x.tolist()
    assert (~lib.tensor([True, False])).tolist() == [False, True] and (~lib.tensor([0, 5])).tolist() == [-1, -6]
    with pytest.raises(TypeError, match="operator.invert"):
        ~x


def test_in_place_operators(lib):
    x = lib.tensor([4.0, 9.0])
    y = x
    x += 1
    x -= 2
    x *= 3
    x /= 4
    x **= 2
    assert x is y and x.tolist() == pytest.approx([5.0625, 36.0])
    x //= 2
    x %= 5
    assert x is y and x.tolist() == [2, 3]


def test_foreign_operands_get_their_turn(lib):
    class Other:
        def __radd__(self, x):
            return "radd"

        def __rmatmul__(self, x):
            return "rmatmul"

        def __eq__(self, x):
            return "eq"
    x = lib.ones(2)
    assert x + Other() == "radd" and x @ Other() == "rmatmul" and (x == Other()) == "eq"
    assert (x == "a") is False and (x != None) is True                      # noqa: E711
    for other in ("a", (1, 2), None):
        with pytest.raises(TypeError, match="unsupported operand type"):
            x + other
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Tensor' and 'str'"):
        x < "a"
    with pytest.raises(TypeError):
        x @ 3


def test_wrapped_numbers_do_not_widen(lib):
    assert (lib.ones(2, dtype=lib.float16) * 1e3).dtype == lib.float16
    assert (lib.ones(2, dtype=lib.int8) + 1).dtype == lib.int8
    assert (lib.ones(2, dtype=lib.uint8) + lib.tensor(1)).dtype == lib.uint8
    assert (lib.ones(2, dtype=lib.int32) + 0.5).dtype == lib.float32


# ---- calls -----------------------------------------------------------------------------------------------------------

def test_ways_to_say_the_same(lib):
    x = lib.arange(6.0).reshape(2, 3)
    assert x.sum(0).tolist() == x.sum(dim=0).tolist() == x.sum(axis=0).tolist() == x.sum((0,)).tolist() \
        == lib.sum(x, 0).tolist() == lib.sum(input=x, dim=[0]).tolist() == [3, 5, 7]
    assert x.sum(0, keepdims=True).shape == x.sum(0, True).shape == (1, 3)
    assert x.view(3, 2).shape == x.view((3, 2)).shape == x.view([3, -1]).shape == x.view(size=(3, 2)).shape == (3, 2)
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == lib.permute(x, (1, 0)).shape == (3, 2)
    assert lib.zeros(2, 3).shape == lib.zeros((2, 3)).shape == lib.zeros(size=(2, 3)).shape == lib.zeros(x.shape).shape
    assert lib.zeros(lib.tensor(2), 3).shape == (2, 3) and lib.zeros(()).shape == ()
    assert lib.add(x, x, alpha=2).tolist() == lib.add(x1=x, x2=x, alpha=2).tolist() == (x + 2 * x).tolist()
    assert x.view(lib.int32).dtype == x.view(dtype=lib.int32).dtype == lib.int32
    assert lib.add(1, 2).item() == 3
    assert x.expand(4, 2, 3).shape == x.expand((4, -1, -1)).shape == (4, 2, 3)


def test_conversions(lib):
    x = lib.tensor([1.7, -2.3])
    assert x.to(lib.int64).tolist() == x.long().tolist() == x.to(dtype=lib.int64).tolist() == [1, -2]
    assert x.to(x) is x and x.to("cpu") is x and x.float() is x and x.to(lib.float32, copy=True) is not x
    assert x.to("cpu", lib.float64).dtype == x.to(lib.ones(1).double()).dtype == x.double().dtype == lib.float64
    assert x.half().dtype == lib.float16 and x.bool().tolist() == [True, True] and x.type_as(x.int()).dtype == lib.int32
    with pytest.raises(TypeError, match="to\\(\\) received an invalid combination of arguments"):
        x.to(1, 2, 3, 4, 5, 6)


ERRORS = [
    ("relu('a')", "relu(): argument 'input' (position 1) must be Tensor, not str"),
    ("relu()", 'relu() missing 1 required positional arguments: "input"'),
    ("relu(x, 2)", "relu() takes 1 positional argument but 2 were given"),
    ("relu(x, b=2)", "relu() got an unexpected keyword argument 'b'"),
    ("relu(x, input=x)", "relu() got multiple values for argument 'input'"),
    ("add(x, 'a')", "add(): argument 'other' (position 2) must be Tensor, not str"),
    ("add(x, x, alpha='a')", "add(): argument 'alpha' must be Number, not str"),
    ("zeros(2, 'a')", "zeros(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of "
     "ints,but got str\""),
    ("zeros('a')", "zeros(): argument 'size' (position 1) must be tuple of ints, not str"),
    ("transpose(x, 0)", 'transpose() missing 1 required positional arguments: "dim1"'),
    ("transpose(x, 0, 1.5)", "transpose(): argument 'dim1' (position 3) must be int, not float"),
    ("unsqueeze(x, True)", "unsqueeze(): argument 'dim' (position 2) must be int, not bool"),
    ("cat(x)", "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    ("cat([1, 2])", "expected Tensor as element 0 in argument 0, but got int"),
    ("cat([x, 'a'])", "expected Tensor as element 1 in argument 0, but got str"),
    ("full((2,), 'a')", "full(): argument 'fill_value' (position 2) must be Number, not str"),
    ("mm(x, 1)", "mm(): argument 'mat2' (position 2) must be Tensor, not int"),
    ("maximum(x, 1)", "maximum(): argument 'other' (position 2) must be Tensor, not int"),
    ("max(x, 's')", "max() received an invalid combination of arguments - got (Tensor, str), but expected one of:\n"
     " * (Tensor input, *, Tensor out = None)\n * (Tensor input, Tensor other, *, Tensor out = None)\n"
     " * (Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None)\n"),
    ("Tensor.add(x, 'a')", "add(): argument 'other' (position 1) must be Tensor, not str"),
    ("Tensor.view(x, 2.0)", "view() received an invalid combination of arguments - got (float), but expected one of:\n"
     " * (torch.dtype dtype)\n      didn't match because some of the arguments have invalid types: (!float!)\n"
     " * (tuple of ints size)\n      didn't match because some of the arguments have invalid types: (!float!)\n"),
    ("Tensor.relu('a')", "descriptor 'relu' for 'torch._C.TensorBase' objects doesn't apply to a 'str' object"),
]


@pytest.mark.parametrize("call, message", ERRORS, ids=[call for call, _ in ERRORS])
def test_wrong_arguments_are_named(lib, call, message):
    with pytest.raises(TypeError) as error:
        eval("lib." + call, {"lib": lib, "x": lib.ones(2, 3)})
    assert str(error.value) == message


def test_several_results(lib):
    x = lib.tensor([[1.0, 5.0], [7.0, 3.0]])
    found = lib.max(x, 1)
    assert found.values.tolist() == found[0].tolist() == [5, 7] and found.indices.tolist() == [1, 0]
    assert type(found).__name__ == "max" and isinstance(found, tuple)
    values, indices = x.max(dim=0)
    assert values.tolist() == [7, 5]
    out = lib.empty(2), lib.empty(2, dtype=lib.int64)
    given = lib.max(x, 1, out=out)
    assert given[0] is out[0] and out[1].tolist() == [1, 0]
    assert isinstance(x.unbind(), tuple) and isinstance(x.split(1), tuple) and isinstance(x.chunk(2), tuple)


# ---- copies ------------------------------------------------------------------------------------------------------------

def test_pickling_keeps_what_matters(lib):
    x = lib.arange(6.0).reshape(2, 3).t().requires_grad_()
    x.mark = "here"
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist() and y.stride() == x.stride() and y.requires_grad and y.mark == "here"
    for value in (lib.float32, lib.Size([2]), lib.device("cpu"), lib.strided):
        assert pickle.loads(pickle.dumps(value)) == value
    p = pickle.loads(pickle.dumps(lib.nn.Parameter(lib.ones(2))))
    assert isinstance(p, lib.nn.Parameter) and p.requires_grad


def test_deep_copies(lib):
    x = lib.ones(2, requires_grad=True)
    x.grad = lib.zeros(2)
    y = copy.deepcopy(x)
    assert y is not x and y.requires_grad and y.tolist() == [1, 1] and y.grad is not x.grad and y.grad.tolist() == [0, 0]
    a, b = copy.deepcopy([x, x])
    assert a is b
    base = lib.arange(4.0)
    whole, part = copy.deepcopy([base, base[1:]])
    whole[1] = 9
    assert part[0] == 9 and base[1] == 1
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)
    p = copy.deepcopy(lib.nn.Parameter(lib.ones(2)))
    assert isinstance(p, lib.nn.Parameter)


# ---- classes made from Tensor --------------------------------------------------------------------------------------------

def test_results_of_a_subclass_are_of_the_subclass(lib):
    class Mine(lib.Tensor):
        pass
    x = lib.ones(3).as_subclass(Mine)
    assert type(x) is Mine and type(x + 1) is Mine and type(x[0]) is Mine and type(lib.relu(x)) is Mine
    assert type(x.detach()) is Mine and isinstance(x.max(0), tuple) and type(x.shape) is lib.Size
    assert repr(x) == "Mine([1., 1., 1.])"
    x.mark = 1
    assert x.mark == 1


def test_torch_function_sees_calls(lib):
    calls = []

    class Logged(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})
    x = lib.ones(3).as_subclass(Logged)
    calls.clear()
    y = lib.add(x, 1)
    z = lib.ones(3) + x
    x.sum(dim=0)
    assert calls[0] == "add" and "sum" in calls and type(y) is type(z) is Logged


def test_torch_function_of_foreign_classes(lib):
    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, len(args), kwargs, types
    name, n, kwargs, types = lib.add(lib.ones(2), Foreign(), alpha=3)
    assert (name, n, kwargs) == ("add", 2, {"alpha": 3}) and Foreign in types
    assert lib.cat([lib.ones(1), Foreign()])[0] == "cat"

    class Refuses:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.add'"):
        lib.add(lib.ones(2), Refuses())


def test_parameters(lib):
    p = lib.nn.Parameter(lib.ones(2))
    assert p.requires_grad and p.is_leaf and isinstance(p, lib.Tensor) and isinstance(p, lib.nn.Parameter)
    assert type(p * 2) is lib.Tensor and type(p.data) is lib.Tensor
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert not lib.nn.Parameter(lib.ones(1), requires_grad=False).requires_grad


# ---- modes, Function, hooks ------------------------------------------------------------------------------------------------

def test_modes(lib):
    x = lib.ones(1, requires_grad=True)
    assert lib.is_grad_enabled()
    with lib.no_grad():
        assert not lib.is_grad_enabled() and not (x * 2).requires_grad
        with lib.enable_grad():
            assert (x * 2).requires_grad
    with lib.set_grad_enabled(False):
        assert not (x * 2).requires_grad

    @lib.no_grad()
    def quiet():
        return (x * 2).requires_grad
    assert not quiet() and quiet.__name__ == "quiet" and lib.is_grad_enabled()

    @lib.no_grad()
    def generate():
        yield lib.is_grad_enabled()
        yield lib.is_grad_enabled()
    assert [(value, lib.is_grad_enabled()) for value in generate()] == [(False, True)] * 2
    with lib.inference_mode():
        y = x * 2
        assert y.is_inference() and lib.is_inference_mode_enabled()
    assert lib.is_grad_enabled() and not lib.is_inference_mode_enabled()


def test_function(lib):
    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor, x + 1

        @staticmethod
        def backward(ctx, first, second):
            x, = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return first * ctx.factor + second, None
    x = lib.ones(2, requires_grad=True)
    a, b = Scale.apply(x, 3.0)
    (a + 2 * b).sum().backward()
    assert x.grad.tolist() == [5, 5] and type(a.grad_fn).__name__ == "ScaleBackward"

    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, g
    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        Wrong.apply(x).sum().backward()


def test_hooks(lib):
    x = lib.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: g * 10)
    (x * 3).sum().backward()
    assert seen == [[3, 3]] and x.grad.tolist() == [30, 30]
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        lib.ones(1).register_hook(print)

    def fails(g):
        raise KeyError("from the hook")
    y = lib.ones(1, requires_grad=True)
    y.register_hook(fails)
    with pytest.raises(KeyError, match="from the hook") as error:
        (y * 2).backward()
    assert error.traceback[-1].name == "fails"


def test_backward_says_what_is_wrong(lib):
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        lib.ones(1).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output\\[0\\] has a shape of"):
        x.sum().backward(lib.ones(3))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    x.grad = None
    (x * 2).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2, 2]
    first, = lib.autograd.grad((x * x).sum(), x, create_graph=True)
    second, = lib.autograd.grad(first.sum(), x)
    assert second.tolist() == [2, 2]
    with pytest.raises(RuntimeError):
        lib.autograd.grad(x.sum(), lib.ones(1, requires_grad=True))
    assert lib.autograd.grad(x.sum(), [x, lib.ones(1, requires_grad=True)], allow_unused=True)[1] is None


@pytest.mark.filterwarnings("ignore")
def test_what_dir_names_is_there(lib):
    x = lib.rand(2, 2)
    assert [name for name in dir(x) if name != "imag" and not hasattr(x, name)] == []
    assert "shape" in dir(x)


def test_the_collector_leaves_what_a_graph_still_holds(lib):
    x = lib.ones(2, requires_grad=True).clone()
    x.note = 2
    ring = [x]
    ring.append(ring)
    y = x ** 2
    del x, ring
    gc.collect()
    assert y.grad_fn._saved_self.note == 2


def test_a_cycle_of_attributes_lives_as_long_as_a_gradient_in_it(lib):
    class Note:
        pass

    x, y, z = lib.empty(2), lib.empty(2), lib.empty(2)
    x.other, y.other, y.note = y, x, Note()
    z.grad, weak = x, weakref.ref(y.note)
    del x, y
    gc.collect()
    assert weak() is not None and z.grad.other.other is z.grad
    del z
    gc.collect()
    assert weak() is None
