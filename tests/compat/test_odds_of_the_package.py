"""Rare names and modes of the package that programs, and PyTorch's own tests, rely on."""
import enum
import pickle
import sys
import traceback
import warnings

import pytest


@pytest.fixture
def deterministic(lib):
    lib.use_deterministic_algorithms(True)
    yield
    lib.use_deterministic_algorithms(False)
    lib.utils.deterministic.fill_uninitialized_memory = True


DTYPES = ["float32", "float64", "float16", "bfloat16", "complex64", "bool", "uint8", "int8", "int16", "int32", "int64", "uint16",
          "uint32", "uint64"]


def is_marked(lib, x):
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return bool(x.isnan().all())
    return x.flatten().tolist() == [True if x.dtype is lib.bool else lib.iinfo(x.dtype).max] * x.numel()


@pytest.mark.parametrize("dtype", DTYPES)
def test_new_memory_is_filled_while_deterministic_algorithms_are_wanted(lib, deterministic, dtype):
    dtype = getattr(lib, dtype)
    zeros = lib.zeros(2, 3, dtype=dtype)
    for x in (lib.empty(2, 3, dtype=dtype), lib.empty(2, 3, out=lib.zeros(1, dtype=dtype)), lib.empty_like(zeros),
              lib.empty_like(zeros.t()), lib.empty_strided((2, 3), (1, 4), dtype=dtype),
              lib.empty_permuted((2, 3), (1, 0), dtype=dtype), zeros.new_empty(3)):
        assert is_marked(lib, x)
    grown = lib.zeros(2, dtype=dtype).resize_(5)
    assert is_marked(lib, grown[2:]) and grown[:2].tolist() == lib.zeros(2, dtype=dtype).tolist()
    assert zeros.clone().tolist() == zeros.tolist() == lib.zeros_like(zeros).tolist()


def test_whether_new_memory_is_filled_can_be_chosen(lib, deterministic):
    assert lib.utils.deterministic.fill_uninitialized_memory and lib._C._get_deterministic_fill_uninitialized_memory()
    lib.utils.deterministic.fill_uninitialized_memory = False
    assert not lib._C._get_deterministic_fill_uninitialized_memory()
    x = lib.zeros(2).resize_(0).resize_(2)
    assert x.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        lib.utils.deterministic.fill_uninitialized_memory = 1


def test_typed_storages_warn_once_or_each_time(lib):
    storage = lib.FloatStorage([1, 2, 3])
    public = (lambda: lib.FloatStorage(), lambda: lib.FloatStorage.dtype, lambda: storage.fill_(0), lambda: storage.is_cuda,
              lambda: storage.untyped(), lambda: len(storage), lambda: storage[0], lambda: lib.ones(2).storage())
    own = (lambda: lib.FloatStorage._dtype, lambda: storage._size(), lambda: storage._nbytes(), lambda: storage._setitem(0, 1),
           lambda: storage._pickle_storage_type(), lambda: storage._data_ptr(), lambda: storage._is_shared(),
           lambda: storage._deepcopy({}), lambda: lib.FloatStorage(_internal=True), lambda: storage._resize_(4))
    before = lib.storage._get_always_warn_typed_storage_removal()
    lib.storage._set_always_warn_typed_storage_removal(True)
    try:
        for call in public:
            with pytest.warns(UserWarning, match="TypedStorage is deprecated") as caught:
                call()
            assert len(caught) == 1 and caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for call in own:
                call()
    finally:
        lib.storage._set_always_warn_typed_storage_removal(before)
    lib.storage._reset_warn_typed_storage_removal()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lib.FloatStorage()
        lib.ones(2).storage()
    assert len(caught) == 1


def test_a_typed_storage_becomes_a_tensor_of_its_dtype_over_its_memory(lib):
    storage = lib.ones(3).storage()
    x = lib.tensor(storage)
    x.fill_(7)
    assert x.dtype is lib.float32 and storage.tolist() == [7, 7, 7]
    untyped = lib.UntypedStorage(8)
    assert lib.tensor(untyped, dtype=lib.float32).untyped_storage()._cdata == untyped._cdata
    with pytest.raises(RuntimeError, match="Expected a Storage of type Int or an UntypedStorage, but got Float"):
        lib.tensor(storage, dtype=lib.int32)


def test_storages_without_memory_refuse_to_be_read_or_shared(lib):
    storage = lib.TypedStorage([1, 2], device="meta", dtype=lib.float32)
    for call, error, words in ((storage.cpu, NotImplementedError, "Cannot copy out"), (storage.tolist, NotImplementedError, "Not available"),
                               (storage._share_fd_cpu_, RuntimeError, "only available on CPU"),
                               (storage._share_filename_cpu_, RuntimeError, "only available on CPU"),
                               (storage.share_memory_, RuntimeError, "only available on CPU")):
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(RuntimeError, match="cannot set item"):
        lib.FloatStorage(2).fill_(lib.FloatStorage(2))
    with pytest.raises(RuntimeError, match="Only child classes of _LegacyStorage"):
        lib.storage._LegacyStorage()
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        lib.FloatStorage("four")
    with pytest.raises(RuntimeError, match="Not available for CUDA storage"):
        lib.cuda.ByteStorage.from_buffer()


def test_classes_of_the_older_kind_are_listed(lib):
    assert {lib.FloatTensor, lib.LongTensor, lib.BoolTensor, lib.cuda.FloatTensor} <= lib._tensor_classes
    assert {lib.FloatStorage, lib.ByteStorage, lib.UntypedStorage, lib.TypedStorage, lib.cuda.ByteStorage} <= lib._storage_classes
    assert lib.cuda.HalfTensor.dtype is lib.float16 and all(isinstance(kind.dtype, lib.dtype) for kind in lib._tensor_classes)
    assert lib.cuda.FloatStorage.dtype is lib.float32
    assert all(kind.is_cuda == ("cuda" in kind.__module__) for kind in lib._tensor_classes)
    assert lib.storage._dtype_to_storage_type_map()[lib.float64] == "DoubleStorage"


def test_the_base_of_tensor_has_a_name(lib):
    assert isinstance(lib.ones(1), lib._C.TensorBase) and not isinstance(1, lib._C.TensorBase)
    assert issubclass(lib.nn.Parameter, lib._C.TensorBase) and lib._C.TensorBase.add(lib.ones(1), 1).item() == 2
    with pytest.raises(RuntimeError, match="Cannot directly construct TensorBase"):
        lib._C.TensorBase()
    with pytest.raises(RuntimeError, match="Cannot subclass _TensorBase directly"):
        type("T", (lib._C.TensorBase,), {})


def test_overlap_within_a_tensor_is_seen_from_its_strides(lib):
    cases = ((lib.ones(3, 3), 0), (lib.ones(3, 3).t(), 0), (lib.ones(1, 3).expand(4, 3), 1),
             (lib.ones(10).as_strided([2, 1, 5], [1, 0, 2]), 0), (lib.ones(2, 1, 10)[::2].as_strided((2, 1, 5), (10, 0, 2)), 2))
    for x, expected in cases:
        assert lib._debug_has_internal_overlap(x) == expected


def test_warnings_from_the_core_have_their_categories(lib):
    with pytest.warns(UserWarning, match="Test message for TORCH_WARN"):
        lib._C._warn()
    with pytest.warns(DeprecationWarning, match="Test message for TORCH_WARN_DEPRECATION"):
        lib._C._warn_deprecation()


def test_an_operator_may_return_none(lib):
    library = lib.library.Library("odds_none", "FRAGMENT")
    library.define("note(Tensor x) -> None")
    seen = []
    library.impl("note", lambda x: seen.append(x.item()), "CPU")
    assert lib.ops.odds_none.note(lib.ones(())) is None and seen == [1]


def test_quantized_dtypes_have_no_sign_and_cuda_graphs_no_device(lib):
    for name in ("qint8", "quint8", "qint32"):
        with pytest.raises(RuntimeError, match="not supported for quantized"):
            getattr(lib, name).is_signed
    for kind in (lib.cuda.Event, lib.cuda.CUDAGraph):
        with pytest.raises(RuntimeError, match="Tried to instantiate dummy base class " + kind.__name__):
            kind()


class Colour(enum.Enum):
    RED = 1


def test_a_tree_may_have_members_of_enumerations_as_context(lib):
    pytree = lib.utils._pytree
    leaf = pytree.tree_structure(1)
    spec = pytree.TreeSpec(dict, [Colour.RED], [leaf])
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_registering_a_node_anew_warns(lib):
    pytree = lib.utils._pytree

    class Pair:
        def __init__(self, *values):
            self.values = values
    with pytest.warns(FutureWarning, match="_register_pytree_node"):
        pytree._register_pytree_node(Pair, lambda p: (list(p.values), None), lambda values, _: Pair(*values))
    with pytest.warns(UserWarning, match="already registered"):
        pytree._private_register_pytree_node(Pair, lambda p: (list(p.values), None), lambda values, _: Pair(*values))
    assert pytree.tree_leaves(Pair(1, 2)) == [1, 2]
    pytree._deregister_pytree_node(Pair)


def test_stacks_are_kept_and_formatted_later(lib):
    from importlib import import_module
    kept = import_module(lib.__name__ + ".utils._traceback").CapturedTraceback
    stack = kept.extract()
    assert stack.summary()[-1].name == "test_stacks_are_kept_and_formatted_later"
    assert stack.format()[-1].startswith(f'  File "{__file__}"') and kept.format_all([stack]) == [stack.format()]
    assert len(kept.extract(skip=1).summary()) == len(stack.summary()) - 1
    assert pickle.loads(pickle.dumps(stack)).summary() == []
    stack.cleanup()
    assert stack.format() == []


def test_errors_in_compiled_strings_show_their_lines(lib):
    from importlib import import_module
    within = import_module(lib.__name__ + ".utils._traceback").report_compile_source_on_error
    source = "def f(x):\n    y = x + 1\n    raise ValueError('here')\n"
    names = {"__compile_source__": source}
    exec(compile(source, "<string>", "exec"), names)
    with pytest.raises(ValueError, match="here") as caught, within():
        names["f"](1)
    assert "raise ValueError('here')" in "".join(traceback.format_exception(caught.value))
    if lib.__name__ == "torch":
        return                          # its frame's table of lines doesn't fit the code: a process that is traced ends
    before = sys.gettrace()
    sys.settrace(lambda *_: sys.gettrace())
    try:
        with pytest.raises(ValueError, match="here") as caught, within():
            names["f"](1)
    finally:
        sys.settrace(before)
    entry = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (entry.name, entry.lineno, entry.line) == ("f", 3, "raise ValueError('here')")


def test_archives_are_read_and_written_record_by_record(lib, tmp_path):
    import io
    import zipfile
    serialization = lib.serialization
    path = str(tmp_path / "records.pt")
    for target in (path, io.BytesIO()):
        with serialization._open_zipfile_writer(target) as archive:
            archive.write_record("a", b"123", 3)
            archive.write_record("b/c", b"45", 2)
        if target is not path:
            target.seek(0)
        with serialization._open_file_like(target, "rb") as file, serialization._open_zipfile_reader(file) as archive:
            assert archive.get_record("a") == b"123" and archive.get_record("b/c") == b"45" and not archive.has_record("d")
    serialization.set_crc32_options(False)
    try:
        lib.save({"x": lib.arange(9)}, path)
    finally:
        serialization.set_crc32_options(True)
    assert lib.load(path)["x"].tolist() == list(range(9))
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"), zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)


def test_functions_that_check_for_classes_are_listed_and_the_others_are_not(lib):
    functions = lib.overrides.get_overridable_functions()
    every = {function for members in functions.values() for function in members}
    for function in (lib.add, lib.einsum, lib.sym_max, lib.Tensor.unique, lib.Tensor.norm, lib.nn.functional.relu):
        assert function in every and function not in lib.overrides.get_ignored_functions()
    for function in (lib.get_autocast_dtype, lib.is_autocast_cpu_enabled, lib.init_num_threads, lib.result_type, lib.normal,
                     lib.nn.init.constant, lib.nn.init.calculate_gain):
        assert function not in every and function in lib.overrides.get_ignored_functions()


def test_methods_written_over_functions_are_taken_over_as_methods(lib):
    class Taking(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func
    x = lib.ones(2).as_subclass(Taking)
    for name in ("norm", "unique", "unique_consecutive"):
        assert getattr(x, name)() is getattr(lib.Tensor, name)
    assert lib.sym_sqrt(x) is lib.sym_sqrt


def test_futures_are_completed_once_and_pass_errors_on(lib, capfd):
    import threading
    Future, collect_all, wait_all = lib.futures.Future, lib.futures.collect_all, lib.futures.wait_all

    def fail(future):
        raise ValueError("expected")
    first, order = Future(), []
    then = first.then(lambda f: f.wait() + len(order))
    failing = first.then(fail)
    first.add_done_callback(lambda f: order.append(f.value()))
    first.add_done_callback(fail)
    first.set_result(3)
    assert first.wait() == 3 and then.wait() == 3 and order == [3]
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ValueError: expected"):
        failing.wait()
    with pytest.raises(RuntimeError, match="Future can only be marked completed once"):
        first.set_result(4)
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        pickle.dumps(first)
    broken = Future()
    broken.set_exception(KeyError("one"))
    with pytest.raises(KeyError, match="one"):
        broken.value()
    later, both = Future(), None
    both = collect_all([first, later])
    assert not both.done()
    thread = threading.Thread(target=later.set_result, args=(5,))
    thread.start()
    assert [f.wait() for f in both.wait()] == [3, 5] == wait_all([first, later])
    thread.join()
    with pytest.raises(RuntimeError, match="expected"):
        wait_all([failing, first])
    with pytest.raises(RuntimeError, match="Future can't be None"):
        collect_all((first, None))
    with pytest.raises(AssertionError, match="not an Exception"):
        Future().set_exception("text")


def test_a_storage_is_written_to_a_file_behind_its_length(lib):
    import io
    file = io.BytesIO()
    lib.tensor([1, 2], dtype=lib.int32).untyped_storage()._write_file(file, False, True, 4)
    assert file.getvalue() == (2).to_bytes(8, "little") + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
