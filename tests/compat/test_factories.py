"""Making tensors: tensor(), the factories, dtypes and their limits, generators."""
import warnings

import pytest


def short(x):
    return str(x).rpartition(".")[2]


def same(both, make):
    """The same dtype, shape and elements, or the same error class and message."""
    def outcome(lib):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x = make(lib)
        except NotImplementedError:
            raise
        except Exception as error:
            return type(error).__name__, str(error)
        return short(x.dtype), tuple(x.shape), repr(x.tolist()), x.requires_grad
    actual, expected = map(outcome, both)
    assert actual == expected


DATA = [
    "1", "True", "1.5", "1j", "[]", "[[]]", "()", "[1, 2]", "[1, 2.5]", "[True, 2]", "[1, 2j]", "[[1, 2], [3, 4]]", "range(4)",
    "(1, [2][0])", "[float('nan'), float('inf')]", "[1e400]", "2**62", "-2**63", "2**63", "2**64", "[[1, 2], [3]]", "[[1], 2]",
    "[1, [2]]", "None", "[None]", "'a'", "['a']", "{}", "[lib.tensor(1.5), 2]", "np.float32(3)", "[np.float32(3)]", "np.ones((2, 3))",
    "np.arange(3, dtype='int16')", "[np.ones(2), np.zeros(2)]", "np.int64(7)", "[np.bool_(True)]", "object()",
    "np.array(['a'])", "[[[1.0]]] * 3", "b'ab'", "[1, 2, 'a']", "[1.0, object()]",
]


@pytest.mark.parametrize("data", DATA)
def test_tensor_infers(both, data):
    import numpy as np
    same(both, lambda lib: lib.tensor(eval(data, {"lib": lib, "np": np})))


@pytest.mark.parametrize("dtype", "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split())
@pytest.mark.parametrize("data", ["[0, 1, 2]", "[1.7, -0.5]", "3", "[True]", "[1e10]", "[-1]", "[300]", "[1j]", "[2**40]"])
def test_tensor_with_a_dtype(both, dtype, data):
    same(both, lambda lib: lib.tensor(eval(data), dtype=getattr(lib, dtype)))


def test_tensor_copies(lib):
    data = lib.ones(2)
    with pytest.warns(UserWarning, match="To copy construct from a tensor, it is recommended to use sourceTensor"):
        copy = lib.tensor(data)
    copy[0] = 5
    assert data.tolist() == [1, 1]
    assert lib.tensor([1.0], requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        lib.tensor([1], requires_grad=True)


@pytest.mark.parametrize("call, message", [
    ("tensor()", 'tensor() missing 1 required positional arguments: "data"'),
    ("tensor([1], 2)", "tensor() takes 1 positional argument but 2 were given"),
    ("tensor([1], foo=2)", "tensor() got an unexpected keyword argument 'foo'"),
    ("tensor([1], dtype='a')", "tensor(): argument 'dtype' must be torch.dtype, not str"),
])
def test_wrong_arguments(lib, call, message):
    with pytest.raises(TypeError) as error:
        eval("lib." + call)
    assert str(error.value) == message


def test_new_tensor_and_new(lib):
    x = lib.ones(1, dtype=lib.float64)
    assert x.new_tensor([1, 2]).dtype == lib.float64 and x.new_tensor([1], dtype=lib.int8).dtype == lib.int8
    assert x.new_zeros(2, 3).shape == x.new_ones((2, 3)).shape == x.new_full((2, 3), 4).shape == (2, 3)
    assert x.new_empty(0).dtype == lib.float64


def test_as_tensor_shares(lib):
    import numpy as np
    x = lib.ones(2)
    assert lib.as_tensor(x) is x and lib.as_tensor(x, dtype=lib.float64).dtype == lib.float64
    array = np.zeros(2)
    lib.as_tensor(array)[0] = 3
    assert array[0] == 3
    assert lib.as_tensor([1, 2]).tolist() == [1, 2]
    assert lib.asarray(array).data_ptr() == array.__array_interface__["data"][0]
    assert lib.asarray(array, copy=True).data_ptr() != array.__array_interface__["data"][0]
    assert lib.asarray([1, 2], dtype=lib.float32).dtype == lib.float32


def test_the_old_constructors(lib):
    assert lib.Tensor([1, 2]).dtype == lib.float32 and lib.Tensor(2, 3).shape == (2, 3) and lib.Tensor().shape == (0,)
    assert lib.LongTensor([1, 2]).dtype == lib.int64 and isinstance(lib.ones(1), lib.FloatTensor)
    with pytest.raises(TypeError):
        lib.Tensor(2.5)


def test_options_of_factories(lib):
    x = lib.zeros(2, dtype=lib.float64, device="cpu", requires_grad=True)
    assert x.dtype == lib.float64 and x.requires_grad and x.is_leaf
    assert lib.ones_like(x).dtype == lib.float64 and not lib.ones_like(x).requires_grad
    assert lib.zeros_like(x, dtype=lib.int32).dtype == lib.int32
    assert lib.zeros(2, dtype=float).dtype == lib.float64 and lib.zeros(2, dtype=int).dtype == lib.int64
    assert lib.empty(2, 3, device="meta").shape == (2, 3)
    assert lib.full((2,), True).dtype == lib.bool and lib.full((2,), 1).dtype == lib.int64
    assert lib.zeros(2, layout=lib.strided, pin_memory=False).shape == (2,)
    with pytest.raises(TypeError, match="argument 'dtype' must be torch.dtype, not int"):
        lib.zeros(2, dtype=3)
    with pytest.raises(RuntimeError):
        lib.zeros(2, device="nonsense")
    with pytest.raises(RuntimeError):
        lib.zeros(-1)
    with pytest.raises(RuntimeError):
        lib.empty(2**40, 2**40)


@pytest.mark.parametrize("call", ["arange(5)", "arange(1, 4)", "arange(0, 1, 0.25)", "arange(5.)", "arange(3, 0, -1)",
                                  "arange(0, 3, dtype=lib.float64)", "arange(2**31, 2**31 + 2)", "arange(1, 0)"])
def test_arange(both, call):
    same(both, lambda lib: eval("lib." + call, {"lib": lib}))


def test_default_dtype(lib):
    assert lib.get_default_dtype() == lib.float32
    try:
        lib.set_default_dtype(lib.float64)
        assert lib.tensor(1.0).dtype == lib.zeros(1).dtype == lib.float64 and lib.tensor(1j).dtype == lib.complex128
        assert (lib.tensor([1]) / 2).dtype == lib.float64
    finally:
        lib.set_default_dtype(lib.float32)
    with pytest.raises(TypeError):
        lib.set_default_dtype(lib.int64)


@pytest.mark.parametrize("real, complex_", [("float16", "complex64"), ("bfloat16", "complex64"), ("float64", "complex128")])
def test_full_of_a_complex_number_is_complex64_or_complex128(lib, real, complex_):
    """Also where a complex number elsewhere is half as wide."""
    try:
        lib.set_default_dtype(getattr(lib, real))
        assert lib.full((2,), 1j).dtype == getattr(lib, complex_) and lib.full((2,), 1.).dtype == getattr(lib, real)
    finally:
        lib.set_default_dtype(lib.float32)


DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


def test_promotion(both):
    def table(lib):
        return [(short(lib.promote_types(getattr(lib, a), getattr(lib, b))), lib.can_cast(getattr(lib, a), getattr(lib, b)))
                for a in DTYPES for b in DTYPES]
    assert table(both[0]) == table(both[1])


def test_result_type(both):
    def table(lib):
        operands = [lib.ones(1, dtype=getattr(lib, d)) for d in DTYPES] + [lib.tensor(1), lib.tensor(1.0), 1, 1.0, True, 1j]
        return [short(lib.result_type(a, b)) for a in operands for b in operands if lib.is_tensor(a) or lib.is_tensor(b)]
    assert table(both[0]) == table(both[1])


def test_limits(both):
    def limits(lib):
        floats = [[getattr(lib.finfo(getattr(lib, d)), name) for name in
                   "bits eps max min tiny smallest_normal resolution dtype".split()] for d in DTYPES[6:]]
        ints = [[getattr(lib.iinfo(getattr(lib, d)), name) for name in "bits max min dtype".split()] for d in DTYPES[1:6]]
        return floats, ints, repr(lib.iinfo(lib.int8)), repr(lib.finfo(lib.float32))
    assert limits(both[0]) == limits(both[1])
    for lib in both:
        with pytest.raises(TypeError):
            lib.finfo(lib.int32)
        with pytest.raises(TypeError):
            lib.iinfo(lib.float32)


def test_sizes(lib):
    size = lib.Size([2, 3, 4])
    assert size == (2, 3, 4) and size.numel() == 24 and isinstance(size[:2], lib.Size) and size[-1] == 4
    assert isinstance(size + (1,), lib.Size) and isinstance(size * 2, lib.Size) and hash(size) == hash((2, 3, 4))
    assert repr(size).endswith("Size([2, 3, 4])")
    with pytest.raises(TypeError):
        lib.Size([1.5])


def test_devices(lib):
    assert lib.device("cuda:1").index == 1 and str(lib.device("cuda", 1)) == "cuda:1" and lib.device("cpu").index is None
    assert lib.device("cpu") != lib.device("meta") and len({lib.device("cpu"), lib.device("cpu")}) == 1
    with pytest.raises(RuntimeError, match="device type at start of device string: nonsense"):
        lib.device("nonsense")


def test_generators(lib):
    g = lib.Generator().manual_seed(3)
    assert g.initial_seed() == 3 and isinstance(g.seed(), int) and str(g.device) == "cpu"
    state = g.get_state()
    assert state.dtype == lib.uint8
    g.manual_seed(9)
    g.set_state(state)
    assert g.get_state().tolist() == state.tolist()
    assert isinstance(lib.manual_seed(5), lib.Generator) and lib.initial_seed() == 5
    before = lib.get_rng_state()
    lib.manual_seed(6)
    lib.set_rng_state(before)
    assert lib.get_rng_state().tolist() == before.tolist()


def test_generator_states_are_pytorchs(both):
    def state(lib):
        lib.manual_seed(1234)
        return lib.get_rng_state().tolist()
    assert state(both[0]) == state(both[1])


def test_threads(lib):
    n = lib.get_num_threads()
    try:
        lib.set_num_threads(1)
        assert lib.get_num_threads() == 1
    finally:
        lib.set_num_threads(n)
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        lib.set_num_threads(0)


def test_evenly_spaced_numbers_have_the_dtypes_own_roundings(lib):
    # A grid's first difference is divided by: its last bit decides where in the grid a point lies.
    x = lib.linspace(0, 1, 101)
    assert [v.hex() for v in x[4:7].tolist()] == ["0x1.47ae140000000p-5", "0x1.9999980000000p-5", "0x1.eb851e0000000p-5"]
    grid = lib.linspace(-1.2, 1.2, 128)
    assert [v.hex() for v in grid[[5, 50, 127]].tolist()] == [
        "-0x1.1b02d40000000p+0", "-0x1.053db20000000p-2", "0x1.3333340000000p+0"]
    assert lib.linspace(0, 1, 8, dtype=lib.float16)[3].item().hex() == "0x1.b6c0000000000p-2"
    assert lib.linspace(0, 1, 8, dtype=lib.bfloat16)[3].item().hex() == "0x1.b600000000000p-2"
    assert lib.linspace(3, 7, 1, dtype=lib.float16).tolist() == [3] and lib.linspace(3, 7, 0).tolist() == []


def test_the_processor_is_one_device_whatever_index_is_named(lib):
    where = lib.device("cpu", 0)
    assert where != lib.device("cpu") and lib.device("cpu:0").index == 0
    x = lib.zeros(2)
    made = [lib.zeros(2, device="cpu:0"), lib.empty(300, 300, device=where), x.to(where), x.to("cpu:0"), lib.empty_like(x, device=where),
            lib.asarray([1.], device=where), lib.nn.Linear(2, 2, device=where).weight, lib.empty_strided((2, 2), (1, 2), device=where)]
    assert all(m.device == lib.device("cpu") for m in made)
    assert lib.zeros(2, device="meta:0").device == lib.device("meta")


def test_tensors_in_a_list_give_their_number(lib):
    """Of one element each, whatever their dimensions; others are refused."""
    one, two = lib.ones(1), lib.ones(1, 1) * 2
    assert lib.tensor([one, two]).tolist() == lib.as_tensor((one, two)).tolist() == one.new_tensor([one, two]).tolist() == [1, 2]
    assert lib.tensor([[one], [two]]).shape == (2, 1) and lib.tensor([one, 2.5]).tolist() == [1, 2.5]
    assert lib.tensor([lib.ones(1, dtype=lib.int64), 2.5]).dtype is lib.float32
    for several in ([lib.ones(2), lib.ones(2)], [lib.ones(1, 2)], [one, lib.ones(2)], [lib.ones(0)]):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            lib.tensor(several)
    assert lib.tensor([[1., 2.], lib.ones(2)]).tolist() == [[1, 2], [1, 1]]


def test_asarray_with_a_copy_of_a_result_is_a_clone(lib):
    made = lib.asarray(lib.ones(3, requires_grad=True) * 1, copy=True, requires_grad=True)
    assert type(made.grad_fn).__name__ == "CloneBackward0"


def test_old_constructors_take_no_device_but_their_own(lib):
    x = lib.tensor([1.])
    for call, message in ((lambda: lib.Tensor(x, device="cpu"), "Legacy tensor constructor of the form"),
                          (lambda: x.new(x, device="cpu"), "Legacy tensor new of the form"),
                          (lambda: x.new((2.0, 3.0), device="meta"), "legacy constructor expects device type: cpu"),
                          (lambda: lib.FloatTensor((2.0, 3.0), device="meta"), "legacy constructor expects device type: cpu")):
        with pytest.raises(RuntimeError, match=message):
            call()
    assert x.new((2.0, 3.0), device="cpu").tolist() == [2, 3]


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_the_layout_asked_for_is_that_of_out(lib, name):
    with pytest.raises(RuntimeError, match="does not match layout of out parameter"):
        getattr(lib, name)((3, 4), layout=lib.sparse_coo, out=lib.empty(3, 4))
    assert getattr(lib, name)((3, 4), layout=lib.strided, out=lib.empty(0)).shape == (3, 4)


def test_copying_an_array_that_is_not_writable_needs_no_warning(lib):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(3.)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lib.tensor(array).tolist() == [0, 1, 2]
    lib.set_warn_always(True)       # PyTorch warns once in a process, and another test may have had it
    try:
        with pytest.warns(UserWarning, match="NumPy array is not writable"):
            lib.as_tensor(array)
    finally:
        lib.set_warn_always(False)


def test_randperm_gives_out_its_own_shape(lib):
    out = lib.zeros(3, 2, dtype=lib.int64)
    assert lib.randperm(6, out=out).shape == out.shape == (6,)


def test_arange_says_how_many_elements_out_should_have(lib):
    with pytest.warns(UserWarning, match=r"out tensor of shape \[1, 49\] is 49 which does not match the computed number of elements 4"):
        assert lib.arange(1, 5, out=lib.empty(1, 49)).shape == (4,)


def test_only_a_shared_mapping_of_a_file_has_its_name(lib, tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(16))
    for shared in (True, False):
        assert lib.from_file(str(path), shared=shared, size=4).untyped_storage().filename == (str(path) if shared else None)
