"""Checkpoints: what one library writes the other reads; pickles, copies and storages; hostile files."""
import collections
import copy
import importlib.util
import io
import linecache
import os
import pickle
import random
import subprocess
import sys
import warnings

import pytest

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


def content(lib):
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
    optimizer = lib.optim.Adam(model.parameters())
    model(lib.randn(5, 3)).sum().backward()
    optimizer.step()
    base = lib.randn(10)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "base": base, "view": base[2:5],
            "transposed": lib.randn(3, 4).t(), "plain": [1, 2.5, None, True, "x", b"ab", (1, 2), {3}, 2 ** 70, -1, 1j],
            "parameter": lib.nn.Parameter(lib.ones(2)), "dtype": lib.float16, "size": lib.Size([1, 2]),
            "device": lib.device("cpu"), "empty": lib.empty(0, 3), "number": lib.tensor(3.5),
            **{name: lib.ones(2, 3, dtype=getattr(lib, name)) for name in DTYPES}}


def flat(value, at=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{at}/{key}")
    elif hasattr(value, "stride"):
        yield at, (str(value.dtype).split(".")[1], tuple(value.shape), value.stride(), value.requires_grad, value.tolist())
    elif isinstance(value, (list, tuple)) and type(value).__name__ != "Size":
        for i, item in enumerate(value):
            yield from flat(item, f"{at}/{i}")
    else:
        yield at, str(value).replace("tede.", "torch.")


@pytest.mark.parametrize("new", (True, False), ids=("zip", "legacy"))
@pytest.mark.parametrize("weights_only", (True, False))
def test_each_library_reads_what_the_other_wrote(both, tmp_path, new, weights_only):
    for writer, reader in (both, both[::-1]):
        for target in (io.BytesIO(), tmp_path / "file.pt"):
            saved = content(writer)
            writer.save(saved, target, _use_new_zipfile_serialization=new)
            if isinstance(target, io.BytesIO):
                target.seek(0)
            loaded = reader.load(target, weights_only=weights_only)
            assert dict(flat(loaded)) == dict(flat(saved))
            assert loaded["view"].data_ptr() == loaded["base"].data_ptr() + 8
            assert type(loaded["parameter"]) is reader.nn.Parameter
            assert loaded["model"]._metadata == saved["model"]._metadata


def test_modules_travel_whole(both):
    for writer, reader in (both, both[::-1]):
        model = writer.nn.Sequential(writer.nn.Linear(3, 4), writer.nn.Flatten(), writer.nn.InstanceNorm1d(4))
        file = io.BytesIO()
        writer.save(model, file)
        file.seek(0)
        loaded = reader.load(file, weights_only=False)
        assert repr(loaded) == repr(model) and isinstance(loaded, reader.nn.Sequential)
        assert loaded[0](reader.ones(3)).tolist() == pytest.approx(model[0](writer.ones(3)).tolist())


@pytest.mark.parametrize("new", (True, False), ids=("zip", "legacy"))
def test_a_round_trip(lib, tmp_path, new):
    path = tmp_path / "file.pt"
    saved = content(lib)
    lib.save(saved, path, _use_new_zipfile_serialization=new)
    assert dict(flat(lib.load(path))) == dict(flat(saved))
    if new:
        mapped = lib.load(path, mmap=True)
        assert dict(flat(mapped)) == dict(flat(saved))
        mapped["base"].zero_()
        assert lib.load(path)["base"].tolist() == saved["base"].tolist()


def test_map_location(lib, tmp_path):
    path = tmp_path / "file.pt"
    lib.save({"a": lib.ones(3)}, path)
    seen = []
    for where in ("cpu", lib.device("cpu"), {"cpu": "cpu"}, lambda storage, location: seen.append(location) or storage,
                  lambda storage, location: None):
        assert lib.load(path, map_location=where)["a"].tolist() == [1, 1, 1]
    assert seen == ["cpu"]
    assert lib.load(path, map_location="meta")["a"].is_meta
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device but torch.cuda.is_available"):
        lib.load(path, map_location="cuda")
    with pytest.raises(RuntimeError, match="don't know how to restore data location of"):
        lib.load(path, map_location="nowhere")


class Harmless:
    def __init__(self):
        self.value = 3


def test_only_data_is_read_unless_trusted(lib):
    for thing in (Harmless(), os.getcwd, print):
        file = io.BytesIO()
        lib.save({"x": thing}, file)
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            lib.load(file)
    file = io.BytesIO()
    lib.save(Harmless(), file)
    file.seek(0)
    with lib.serialization.safe_globals([Harmless]):
        assert lib.load(file).value == 3
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL .*Harmless was not an allowed global"):
        lib.load(file)
    file.seek(0)
    assert len(lib.serialization.get_unsafe_globals_in_checkpoint(file)) == 1
    file.seek(0)
    assert lib.load(file, weights_only=False).value == 3


def test_errors(lib, tmp_path):
    with pytest.raises(FileNotFoundError):
        lib.load(tmp_path / "none")
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        lib.save(1, tmp_path / "none" / "file")
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object with a 'write' attribute"):
        lib.save(1, 3)
    with pytest.raises((EOFError, pickle.UnpicklingError)):
        lib.load(io.BytesIO())
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        lib.load(io.BytesIO(b"PK\x03\x04 and nothing more"))
    x = lib.ones(4)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view the same data as different"):
        lib.save((x, x.view(lib.int32)), io.BytesIO())
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        file = io.BytesIO()
        lib.save(x, file)
        file.seek(0)
        lib.load(file, mmap=True)


def test_broken_files_are_errors():
    tede = pytest.importorskip("tede")
    random.seed(1)
    for new in (True, False):
        file = io.BytesIO()
        tede.save({"a": tede.randn(20)[3:], "b": [1, 2, "x", b"y"], "c": tede.nn.Linear(2, 2).state_dict()}, file,
                  _use_new_zipfile_serialization=new)
        outcomes = collections.Counter()
        for _ in range(500):
            data = bytearray(file.getvalue())
            for _ in range(random.choice((1, 3, 10))):
                data[random.randrange(len(data))] = random.choice((0, 255, random.randrange(256)))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    tede.load(io.BytesIO(bytes(data[:random.randrange(len(data))] if random.random() < .1 else data)))
                outcomes["read"] += 1
            except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, AssertionError):
                outcomes["refused"] += 1
        assert outcomes["refused"] > 100


def test_a_failed_save_leaves_the_old_file():
    tede = pytest.importorskip("tede")
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.pt")
        tede.save(tede.ones(3), path)
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            tede.save([tede.zeros(3), lambda: 0], path)
        assert tede.load(path).tolist() == [1, 1, 1] and os.listdir(folder) == ["file.pt"]


def test_pickle_and_copies(lib):
    x = lib.randn(3, 4)
    x.note = "kept"
    p = lib.nn.Parameter(lib.ones(2))
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert again.tolist() == x.tolist() and again.note == "kept" and again.data_ptr() != x.data_ptr()
    assert copy.copy(x).data_ptr() == x.data_ptr()
    for again in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p)):
        assert type(again) is lib.nn.Parameter and again.requires_grad
    a, b = copy.deepcopy((x, x[1]))
    assert b.data_ptr() == a.data_ptr() + 16
    generator = lib.Generator()
    generator.manual_seed(5)
    again = pickle.loads(pickle.dumps(generator))
    assert lib.rand(3, generator=again).tolist() == lib.rand(3, generator=generator).tolist()
    for value in (lib.float32, lib.Size([1, 2]), lib.device("cpu"), lib.strided, lib.contiguous_format):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    func, args = x.detach().clone().__reduce_ex__(2)
    assert func.__name__ == "_rebuild_tensor_v2" and args[1:4] == (0, (3, 4), (4, 1))


def test_storages(lib, tmp_path):
    x = lib.arange(4, dtype=lib.int16)
    storage = x.untyped_storage()
    assert storage is x.untyped_storage() and isinstance(storage, lib.UntypedStorage) and lib.is_storage(storage)
    assert len(storage) == storage.nbytes() == 8 and storage.tolist() == [0, 0, 1, 0, 2, 0, 3, 0] and storage[2] == 1
    storage[2] = 7
    assert x[1] == 7 and storage[4:6].tolist() == [2, 0]
    clone = storage.clone()
    clone.fill_(1)
    assert x[1] == 7 and clone.tolist() == [1] * 8 and clone.copy_(storage).tolist() == storage.tolist()
    assert lib.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3] and lib.UntypedStorage(5).nbytes() == 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = x.storage()
        assert typed.tolist() == [0, 7, 2, 3] and typed.dtype == lib.int16 and len(typed) == 4 and typed[1] == 7
        assert isinstance(typed, lib.ShortStorage) and not isinstance(typed, lib.FloatStorage)
        assert lib.FloatStorage([1.5, 2]).double().tolist() == [1.5, 2]
    file = tmp_path / "bytes"
    mapped = lib.UntypedStorage.from_file(str(file), shared=True, nbytes=8)
    lib.empty(0, dtype=lib.int32).set_(mapped, 0, (2,), (1,)).copy_(lib.tensor([1, 2], dtype=lib.int32))
    assert file.read_bytes() == bytes([1, 0, 0, 0, 2, 0, 0, 0]) and mapped.filename == str(file)


@pytest.mark.parametrize("new", (True, False), ids=("zip", "legacy"))
def test_a_saved_file_is_whole_before_it_is_closed(lib, tmp_path, new):
    with open(tmp_path / "x.pt", "wb") as file:
        lib.save([lib.arange(5), lib.ones(3)], file, _use_new_zipfile_serialization=new)
        assert lib.load(tmp_path / "x.pt")[0].tolist() == [0, 1, 2, 3, 4]
        assert not new or lib.load(tmp_path / "x.pt", mmap=True)[1].tolist() == [1, 1, 1]


def test_empty_storages_may_have_two_dtypes(lib):
    x = lib.empty(0)
    file = io.BytesIO()
    lib.save([x, x.view(lib.int32)], file)
    file.seek(0)
    assert [str(y.dtype).split(".")[1] for y in lib.load(file)] == ["float32", "int32"]


def test_a_subclass_says_what_its_state_is(lib):
    class Marked(lib.Tensor):
        def __getstate__(self):
            return "mine", self.__dict__, 1

        def __setstate__(self, state):
            mark, self.__dict__, _ = state
            assert mark == "mine"
            self.reloaded = True
    x = lib.ones(2).as_subclass(Marked)
    x.foo = 3
    function, arguments = x.__reduce_ex__(2)
    y = function(*arguments)
    assert type(y) is Marked and y.foo == 3 and y.reloaded


def test_copies_of_a_wrapper_are_its_own_clone(lib):
    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = lib.Tensor._make_subclass(cls, inner.to("meta"), inner.requires_grad)
            made.inner = inner
            return made

        def clone(self):
            return type(self)(self.inner.clone())
    x = Wrapper(lib.ones(2))
    x.foo = [3]
    y = copy.deepcopy(x)
    assert type(y) is Wrapper and y.inner.tolist() == [1, 1] and y.inner is not x.inner and y.foo == [3]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_storage_without_memory_gives_no_data(lib):
    for storage in (lib.empty(3, device="meta").storage(), lib.empty(3, device="meta").untyped_storage()):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            storage.cpu()


class Reluctant:
    """Moves a few bytes at a time, as raw files may."""

    def __init__(self, into=True):
        self.inner, self.parts = io.BytesIO(), []
        if into:
            self.readinto = lambda view: self.inner.readinto(view[:7])

    def read(self, n=-1):
        return self.inner.read(n)

    def write(self, data):
        self.parts.append(data)                 # may be kept
        return self.inner.write(bytes(data[:1000]))

    def seek(self, *args):
        return self.inner.seek(*args)

    def tell(self):
        return self.inner.tell()

def test_file_objects_that_move_a_few_bytes_at_a_time():
    tede = pytest.importorskip("tede")
    file = Reluctant()
    tede.save({"w": tede.arange(1000.)}, file)
    file.seek(0)
    assert tede.load(file)["w"].tolist() == list(range(1000))
    assert b"".join(bytes(part) for part in file.parts).count(b"PK\1\2") > 0
    without = Reluctant(into=False)
    without.inner = file.inner
    without.seek(0)
    assert tede.load(without)["w"].tolist() == list(range(1000))


def test_an_archive_may_begin_within_a_file(lib):
    file = io.BytesIO()
    file.write(b"before")
    lib.save(lib.arange(5), file)
    file.seek(6)
    assert lib.load(file).tolist() == [0, 1, 2, 3, 4]


def test_records_are_written_once(lib, tmp_path):
    writer = lib._C.PyTorchFileWriter(str(tmp_path / "named.pt"))
    writer.write_record("a", b"12", 2)
    with pytest.raises(RuntimeError, match="Tried to serialize file twice: a"):
        writer.write_record("a", b"12", 2)
    assert writer.archive_name() == "named" and set(writer.get_all_written_records()) == {"a"}
    writer.write_end_of_file()
    reader = lib._C.PyTorchFileReader(str(tmp_path / "named.pt"))
    assert reader.get_record_offset("a") % 64 == 0 and reader.get_record_size("a") == 2
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed locating file b: file not found"):
        reader.get_record("b")


def test_archives_that_are_none(lib, tmp_path):
    for data, words in (b"PK\3\4", "not a ZIP archive"), (b"PK\3\4" + bytes(100), "failed finding central directory"):
        (tmp_path / "x.pt").write_bytes(data)
        for file in str(tmp_path / "x.pt"), io.BytesIO(data):
            with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading zip archive: " + words):
                lib.load(file)


def test_options_stand_in_one_place(lib, tmp_path):
    from importlib import import_module
    config = import_module(lib.__name__ + ".utils.serialization").config
    path = str(tmp_path / "x.pt")
    assert lib.serialization.get_crc32_options() is config.save.compute_crc32 is True
    with config.patch("save.storage_alignment", 4096):
        lib.save(lib.arange(5), path)
    assert lib._C.PyTorchFileReader(path).get_record_offset("data/0") % 4096 == 0 and config.save.storage_alignment == 64
    with config.patch({"load.mmap": True}):
        assert lib.load(path).tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
            with open(path, "rb") as file:
                lib.load(file)
        with open(path, "rb") as file:
            assert lib.load(file, mmap=False).tolist() == [0, 1, 2, 3, 4]
    with lib.serialization.set_default_mmap_options(1):
        assert config.load.mmap_flags == 1
    assert config.load.mmap_flags == lib.serialization.get_default_mmap_options() == 2
    with pytest.raises(AttributeError):
        config.load.colour = 1


def test_file_objects_are_used_with_the_interpreters_lock(lib):
    """Python's checks of its allocator end a process that frees without it."""
    program = f"""
import io, {lib.__name__} as lib
file = io.BytesIO()
lib.save([lib.arange(100.), lib.ones(3)], file)
file.seek(0)
assert lib.load(file)[1].sum() == 3
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    assert done.returncode == 0, done.stderr


def test_fake_tensors_may_be_saved_as_those_that_they_stand_for(lib):
    fakes = importlib.import_module(f"{lib.__name__}._subclasses")
    with fakes.FakeTensorMode():
        x = lib.randn(2, 3, requires_grad=True)
    file = io.BytesIO()
    with lib.serialization.skip_data(materialize_fake_tensors=True):
        lib.save({"x": x, "row": x.detach()[1]}, file)
    file.seek(0)
    loaded = lib.load(file)
    assert loaded["x"].device.type == "cpu" and loaded["x"].shape == (2, 3) and loaded["x"].requires_grad
    assert loaded["row"].storage_offset() == 3 and loaded["row"].untyped_storage()._cdata == loaded["x"].untyped_storage()._cdata


def test_a_module_whose_class_has_changed_since_it_was_saved(lib, tmp_path, monkeypatch):
    def define(body):
        path = tmp_path / "changing.py"
        path.write_text(f"import {lib.__name__}\nclass Net({lib.__name__}.nn.Module):\n    def forward(self, x):\n        return {body}\n")
        linecache.clearcache()
        spec = importlib.util.spec_from_file_location("changing", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "changing", module)
        spec.loader.exec_module(module)
        return module
    file = io.BytesIO()
    lib.save(define("x").Net(), file, _use_new_zipfile_serialization=False)
    for body, warned in (("x", 0), ("x + 1 - 1", 1)):
        module = define(body)
        file.seek(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert type(lib.load(file, weights_only=False)) is module.Net
        assert [w.category for w in caught] == [lib.serialization.SourceChangeWarning] * warned


def test_what_is_saved_without_data_is_known(lib):
    state = lib.serialization._serialization_tls
    assert not state.skip_data and not state.materialize_fake_tensors
    with lib.serialization.skip_data(materialize_fake_tensors=True):
        assert state.skip_data and state.materialize_fake_tensors
    assert not state.skip_data and not state.materialize_fake_tensors


def test_a_loss_with_options_is_pickled(lib):
    import copy
    import pickle
    options = lib.nn.LinearCrossEntropyOptions(allow_retain_graph=True, batch_chunk_size=3)
    for made in (copy.copy(options), copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert (made.allow_retain_graph, made.batch_chunk_size, made.chunking_method) == (True, 3, options.chunking_method)
