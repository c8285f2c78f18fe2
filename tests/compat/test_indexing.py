"""x[...] and x[...] = v: every form of index, against PyTorch where it is there, and the errors."""
import itertools

import pytest

INDICES = [
    "0", "-1", "1, 2", "1, 2, 3", "-1, ..., -1", "...", "..., 0", "None", "None, 0", "0, None, 1", ":, None, ..., None",
    "1:", ":-1", "::2", "5:1", "-100:100", "1:2, ::3, 0", ":, 1", ":, :, 1:3", "()", "..., 1:, None",
    "True", "False", "None, True",
    "[0, 1]", "[1, 0, 1], [0, 0, 2]", "[0], :, [1]", ":, [0, 2]", ":, [0, 2], [1, 3]", "[[0, 1], [1, 0]], 1", "..., [0, -1]",
    "[]", "[True, False]", "0, [True, False, True]", "1, ..., [0, 1]", "[0, 1], None, [1, 1]", "0, :, [[0], [1]]",
]
TENSORS = [
    "lib.tensor(1)", "lib.tensor(1), 0", "lib.tensor([0, 1])", "lib.tensor([[0, 1], [1, 1]])", "lib.tensor([-1, 0])",
    "lib.tensor([True, False])", ":, lib.tensor([True, False, True])", "x > 10", "lib.tensor(True)", "lib.tensor(False), 0",
    "lib.tensor([0, 1], dtype=lib.int32)", "lib.tensor([1, 0], dtype=lib.int8), 1", "lib.tensor([0, 2]).numpy() % 2",
    "slice(lib.tensor(0), lib.tensor(1))", "x[0] > 3, 0", "0, x[0] > 3", "lib.tensor([[True, False, True], [False, True, True]])",
    "lib.tensor([0, 1]), :, lib.tensor([2, 3])", "lib.zeros(0, dtype=lib.int64)", "lib.zeros(2, dtype=lib.bool)",
]


def make(lib):
    return lib.arange(24.0).reshape(2, 3, 4).clone()


def look(lib, text, x):
    return eval(f"x[{text}]", {"lib": lib, "x": x})


def outcome(lib, act):
    """Shape and values, or the exception's class."""
    try:
        x = act()
    except NotImplementedError:
        raise
    except Exception as error:
        return type(error).__name__
    return tuple(x.shape), x.tolist()


@pytest.mark.parametrize("text", INDICES + TENSORS)
def test_reading(both, text):
    for start in (make, lambda lib: make(lib).transpose(0, 2).contiguous().transpose(0, 2), lambda lib: make(lib)[:, :, :3]):
        actual, expected = (outcome(lib, lambda: look(lib, text, start(lib))) for lib in both)
        assert actual == expected


@pytest.mark.parametrize("text", INDICES + TENSORS)
@pytest.mark.parametrize("value", ["7", "lib.tensor(-1.0)", "x.new_full(shape, 5.0)", "x.new_full((1, 1, *shape), 3.0)"])
def test_writing(both, text, value):
    def write(lib):
        x = make(lib)
        shape = tuple(look(lib, text, x).shape)
        exec(f"x[{text}] = {value}", {"lib": lib, "x": x, "shape": shape})
        return x
    actual, expected = (outcome(lib, lambda: write(lib)) for lib in both)
    assert actual == expected


@pytest.mark.parametrize("text", [text for text in INDICES + TENSORS if "False" not in text and "int8" not in text])
def test_gradients_of_reading_and_writing(both, text):
    def gradients(lib):
        x, v = make(lib).requires_grad_(), None
        y = look(lib, text, x)
        (y * lib.arange(1.0, y.numel() + 1).reshape(y.shape)).sum().backward()
        first = x.grad.tolist()
        x = make(lib).requires_grad_()
        z = x * 1
        v = lib.ones(y.shape).requires_grad_()
        exec(f"z[{text}] = v * 2", {"lib": lib, "x": x, "z": z, "v": v})
        (z * z).sum().backward()
        return first, x.grad.tolist(), v.grad.tolist()
    if "x" in text:
        pytest.skip("indices that read x itself")
    actual, expected = (gradients(lib) for lib in both)
    assert actual[0] == expected[0]
    if "[0, 1]" not in text and "1, 1" not in text and "1, 0, 1" not in text:
        assert actual[1:] == expected[1:]


def test_basic_indexing_gives_views(lib):
    x = make(lib)
    for text in ("0", "1:", "..., 2", "None", ":, ::2", "0, 1, 2", "..."):
        view = look(lib, text, x)
        assert view._base is x, text
        view.fill_(-5)
        assert (look(lib, text, x) == -5).all(), text
    assert x[1:].data_ptr() == x.data_ptr() + 48 and x[1, 1].storage_offset() == 16
    assert x[:, 1:, ::2].stride() == (12, 4, 2)


def test_negative_steps_are_views():
    tede = pytest.importorskip("tede")
    x = make(tede)
    back = x[::-1, :, ::-2]
    assert back.stride() == (-12, 4, -2) and back._base is x
    assert back.tolist() == [[[row[3], row[1]] for row in x[i].tolist()] for i in (1, 0)]
    back[0, 0, 0] = 99
    assert x[1, 0, 3] == 99
    g = tede.arange(5.0).requires_grad_()
    (g[::-1] * tede.arange(5.0)).sum().backward()
    assert g.grad.tolist() == [4, 3, 2, 1, 0]
    assert tede.arange(5)[3:0:-1].tolist() == [3, 2, 1] and tede.arange(5)[0:3:-1].tolist() == []


def test_duplicates(both):
    def accumulate(lib):
        x = lib.zeros(4)
        x[[0, 0, 2]] = 1.0
        x[[1, 1]] += 1
        x.index_put_((lib.tensor([3, 3]),), lib.tensor([1.0, 2.0]), accumulate=True)
        return x.tolist()
    assert accumulate(both[0]) == accumulate(both[1])


def test_assignment_converts(lib):
    x = lib.zeros(3, dtype=lib.int64)
    x[0] = 2.7
    x[1] = True
    x[1:] = lib.tensor([5.9, 6.1])
    assert x.tolist() == [2, 5, 6]
    y = lib.zeros(2, 3)
    y[:] = lib.tensor([1, 2, 3])
    y[y > 2] = 0
    assert y.tolist() == [[1, 2, 0]] * 2
    y[0, 0] += 10
    assert y[0, 0] == 11


ERRORS = [
    ("x[5]", IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
    ("x[0, -4]", IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    ("x[0, 0, 0, 0]", IndexError, "too many indices for tensor of dimension 3"),
    ("x[0.5]", IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
     "(got float)"),
    ("x['a']", TypeError, "new(): invalid data type 'str'"),
    ("x['a':]", TypeError, "slice indices must be integers or None or have an __index__ method"),
    ("x[::0]", ValueError, "slice step cannot be zero"),
    ("lib.tensor(1.)[0]", IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
     "C++ to convert a 0-dim tensor to a number"),
    ("x[lib.tensor([0.5])]", IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    ("x[lib.tensor([5])]", IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
    ("x[lib.tensor([True, False, True])]", IndexError, "The shape of the mask [3] at index 0 does not match the shape of the "
     "indexed tensor [2, 3, 4] at index 0"),
    ("x[[0, 1], [0, 1, 2]]", IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]"),
    ("x.__setitem__(0, 'a')", TypeError, "can't assign a str to a torch.FloatTensor"),
    ("x.__setitem__(0, [1, 2])", TypeError, "can't assign a list to a torch.FloatTensor"),
    ("x.__setitem__(9, 1)", IndexError, "index 9 is out of bounds for dimension 0 with size 2"),
    ("x.__delitem__(0)", TypeError, "Tensor does not support deleting items"),
    ("x.__setitem__(0, lib.ones(5))", RuntimeError, None),
    ("x.__setitem__(lib.tensor([0, 1]), lib.ones(3, 4, dtype=lib.float64))", RuntimeError, "Index put requires the source and "
     "destination dtypes match, got Float for the destination and Double for the source."),
]


@pytest.mark.parametrize("call, kind, message", ERRORS, ids=[row[0] for row in ERRORS])
def test_errors(lib, call, kind, message):
    if "delitem" in call and lib.__name__ == "torch":
        call = "operator.delitem(x, 0)"
    import operator
    with pytest.raises(kind) as error:
        eval(call, {"lib": lib, "x": make(lib), "operator": operator})
    if message is not None:
        assert message in str(error.value)


def test_writing_to_a_leaf_is_an_error(lib):
    x = make(lib).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[0] = 1
    with lib.no_grad():
        x[0] = 1
    assert (x[0] == 1).all()


def test_all_pairs_of_simple_items(both):
    items = [0, -1, slice(None), slice(1, None), slice(None, None, 2), None, Ellipsis, [0, 1], True]
    for index in itertools.product(items, repeat=2):
        actual, expected = (outcome(lib, lambda: make(lib)[index]) for lib in both)
        assert actual == expected, index


def test_nothing_leaks_through_errors(lib):
    x = make(lib)
    for _ in range(100):
        with pytest.raises(IndexError):
            x[0, lib.tensor([7])]
    assert x.sum() == 276


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 5), (5, 1), (0, 3), (2, 1, 2, 3)])
def test_masks_of_several_dimensions_pick_what_numpy_picks(lib, shape):
    np = pytest.importorskip("numpy")
    there = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    x = lib.tensor(there.tolist(), dtype=lib.int64).reshape(shape)
    for mask, expected in ((x % 2 == 1, there % 2 == 1), ((x % 3 == 0).flip(0), (there % 3 == 0)[::-1])):
        assert x[mask].tolist() == there[expected].tolist() and x.masked_select(mask).tolist() == there[expected].tolist()
        y, written = x.clone(), there.copy()
        y[mask], written[expected] = -1, -1
        assert y.tolist() == written.tolist()
    rows = x.flatten(1).sum(1) % 2 == 0
    assert x[rows].tolist() == there[there.reshape(shape[0], -1).sum(1) % 2 == 0].tolist() if shape[0] else not x[rows].numel()
    assert x.mT[(x % 2 == 1).mT].tolist() == there.swapaxes(-1, -2)[(there % 2 == 1).swapaxes(-1, -2)].tolist()


def refused(lib, act, error, words):
    with pytest.raises(error, match=words):
        act()


def test_what_has_no_dimensions_takes_no_index(lib):
    x = lib.tensor(1.5)
    for act in (lambda: x[:], lambda: x.__setitem__(slice(None), 2.0)):
        refused(lib, act, IndexError, r"slice\(\) cannot be applied to a 0-dim tensor")
    for act in (lambda: x[lib.tensor(0)], lambda: x.__setitem__(lib.tensor(0), 2.0)):
        refused(lib, act, IndexError, "too many indices for tensor of dimension 0")


def test_indices_and_values_that_do_not_fit(lib):
    x = lib.arange(4)
    refused(lib, lambda: x[lib.tensor([])], IndexError, "must be long, int, byte or bool")
    assert x[[]].shape == (0,)
    refused(lib, lambda: lib.empty(10, 0)[:, [0, 1]], IndexError, "for dimension with size 0")
    refused(lib, lambda: x.__setitem__(x > -1, lib.tensor([])), RuntimeError, "shape mismatch")
    refused(lib, lambda: lib.zeros(3).index_put((lib.tensor([0, 1]),), lib.ones(1, 2)), RuntimeError, "shape mismatch")
    refused(lib, lambda: lib.unravel_index(x, lib.tensor([1, 2])), TypeError, "expected 'shape' to be int or sequence of ints")
    refused(lib, lambda: lib.unravel_index(x, (2, 2.0)), TypeError, "sequence to only contain ints")


def test_masks_are_bool(lib):
    x, bytes_, numbers = lib.zeros(2), lib.ones(2, dtype=lib.uint8), lib.ones(2)
    for mask in (bytes_, numbers):
        refused(lib, lambda: x.masked_fill(mask, 1), RuntimeError, "masked_fill_ only supports boolean masks")
        refused(lib, lambda: x.masked_select(mask), RuntimeError, "masked_select: expected BoolTensor for mask")
    refused(lib, lambda: lib.where(numbers, x, x), RuntimeError, "expected condition to be a boolean tensor")
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[bytes_].shape == (2,)
    refused(lib, lambda: x.__setitem__(bytes_, lib.tensor([1.0])), RuntimeError, "only supports boolean masks")


def test_vectors_of_a_rule_fill_an_out_of_another_shape(lib):
    for make in (lambda out: lib.linspace(0, 3, 4, out=out), lambda out: lib.arange(0, 4, out=out),
                 lambda out: lib.range(0, 3, out=out)):
        for dtype in (lib.float32, lib.int64):
            x = lib.zeros(2, 3, dtype=dtype)
            make(x.narrow(1, 1, 2))
            assert x.tolist() == [[0, 0, 1], [0, 2, 3]]


def test_resizing_to_the_same_sizes_keeps_the_strides(lib):
    x = lib.empty(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3)
    like = lib.empty(2, 3, 4, 5).contiguous(memory_format=lib.channels_last)
    assert lib.empty(120).resize_(2, 3, 4, 5, memory_format=lib.channels_last).stride() == like.stride()
    assert lib.empty(120).resize_as_(like, memory_format=lib.preserve_format).stride() == like.stride()
    assert lib.empty(120).resize_as_(like).is_contiguous()


def test_bytes_seen_as_wider_numbers_lie_at_a_multiple_of_them(lib):
    refused(lib, lambda: lib.zeros(9, dtype=lib.int8)[1:].view(lib.float32), RuntimeError, r"storage_offset\(\) must be divisible by 4")
    refused(lib, lambda: lib.zeros(6, dtype=lib.int8).view(lib.float32), RuntimeError, r"size\(-1\) must be divisible by 4")


def test_writes_to_meta_take_indices_and_numbers_of_the_cpu(lib):
    m = lib.arange(5, device="meta", dtype=lib.float32)
    for index in (lib.tensor([0, 1]), [0, 1], lib.tensor([True, False, True, False, False]), m > 2):
        x = m.clone()
        x[index] = 4
        assert x.shape == (5,) and x.device.type == "meta"
    assert m.index_put((lib.tensor([0, 1]),), lib.ones(2)).device.type == "meta"
    one_hot = lib.nn.functional.one_hot
    assert one_hot(lib.arange(3, device="meta"), 4).shape == (3, 4) and one_hot(lib.arange(0, device="meta"), 4).shape == (0, 4)
    with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
        one_hot(lib.arange(3, device="meta"))


@pytest.mark.parametrize("dtype", ("int8", "int16", "uint16", "uint32", "uint64", "float16", "float64", "complex64"))
def test_arrays_of_any_numbers_count_as_indices(lib, dtype):
    np = pytest.importorskip("numpy")
    x, index = lib.arange(20.).reshape(4, 5), np.array([1, 0], dtype=dtype)
    assert x[index].tolist() == x[[1, 0]].tolist() and x[:, index].tolist() == x[:, [1, 0]].tolist()
    assert x[np.zeros((0, 2), dtype)].shape == (0, 2, 5)
    x[index] = 7.
    assert x[:2].eq(7).all() and not x[2:].eq(7).any()


def test_lists_of_floats_are_indices_and_an_array_scalar_of_bool_is_not(lib):
    np = pytest.importorskip("numpy")
    x = lib.arange(10.)
    assert x[[1.7, 0.]].tolist() == [1., 0.] and x[[np.int16(1), np.int8(2)]].tolist() == [1., 2.]
    with pytest.raises(IndexError, match="only integers, slices"):
        x[np.True_]
    with pytest.raises(TypeError):
        x[[1j]]


def test_masks_of_other_dtypes_are_refused_by_the_names_of_c(lib):
    with pytest.raises(RuntimeError, match="got mask with dtype unsigned char"):
        lib.ones(2).masked_fill(lib.ones(2, dtype=lib.uint8), 1.)
    with pytest.raises(RuntimeError, match="to have the same dtype, but got: float != long int"):
        lib.mm(lib.ones(2, 2), lib.ones(2, 2, dtype=lib.int64))


@pytest.mark.parametrize("name", ["_unsafe_index", "index_put", "_unsafe_index_put", "_index_put_impl_"])
def test_a_list_of_optional_tensors_is_not_optional_itself(lib, name):
    x = lib.ones(2, 3)
    values = () if name == "_unsafe_index" else (lib.tensor(2.),)
    with pytest.raises(TypeError, match="argument 'indices' .* must be tuple of Tensors, not None"):
        getattr(lib, name)(x, None, *values)
    if lib.__name__ == "tede":          # PyTorch's functions take no None as a member, either, only its operators do
        assert getattr(lib, name)(x, [None, lib.tensor([0])], *values).numel() > 0


def test_optional_lists_and_lists_of_optionals_of_an_operator_defined_at_run_time():
    import tede
    from tede.library import Library
    library = Library("optional_lists", "DEF")
    library.define("items(Tensor x, Tensor?[] y) -> Tensor")
    library.define("whole(Tensor x, Tensor[]? y) -> Tensor")
    seen = []
    for name in ("items", "whole"):
        library.impl(name, lambda x, y: (seen.append(y), x.clone())[1], "CPU")
    x = tede.ones(2)
    with pytest.raises(RuntimeError):
        tede.ops.optional_lists.items(x, None)
    with pytest.raises(RuntimeError):
        tede.ops.optional_lists.whole(x, [None])
    tede.ops.optional_lists.items(x, [None])
    tede.ops.optional_lists.whole(x, None)
    assert seen == [[None], None]
