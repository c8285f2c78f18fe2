"""Checkpoints that were cut, changed or made to do harm: an error that says what is wrong, and nothing is called."""
import io
import os
import pickle
import struct
import zipfile

import pytest

REFUSED = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, AssertionError, TypeError, IndexError, KeyError)


def written(lib, new=True):
    file = io.BytesIO()
    lib.save({"w": lib.arange(1000.), "b": lib.ones(3)}, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def changed(lib, change, method=zipfile.ZIP_STORED, more=()):
    """The archive with its records passed through change(name, data); None leaves one out."""
    before, file = zipfile.ZipFile(io.BytesIO(written(lib))), io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as after:
        for entry in before.infolist():
            data = change(entry.filename.split("/", 1)[1], before.read(entry))
            if data is not None:
                after.writestr(entry.filename, data)
        for name, data in more:
            after.writestr(name, data)
    return file.getvalue()


def load(lib, data, **options):
    return lib.load(io.BytesIO(data), **options)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_a_file_that_was_cut(lib, new):
    data = written(lib, new)
    for length in {0, 1, 3, 10, 100, len(data) // 2, len(data) - 1}:
        with pytest.raises(REFUSED):
            load(lib, data[:length])


@pytest.mark.parametrize("name, data, words", [
    ("data.pkl", None, "failed locating file data.pkl"),
    ("data/0", None, "failed locating file data/0"),
    ("data/0", b"x" * 100, r"record size \(100 bytes\) does not match expected size \(4000 bytes"),
    ("data/0", b"x" * 4100, r"record size \(4100 bytes\) does not match expected size \(4000 bytes"),
    ("version", None, r'Expected hasRecord\("version"\) to be true'),
    ("version", b"abc", "Couldn't parse the version"),
    ("version", b"99999", "Attempted to read a PyTorch file with version 99999, but the maximum supported version for reading is 10"),
    ("byteorder", b"middle", "Unknown endianness type: middle"),
])
def test_records_that_are_not_what_they_should_be(lib, name, data, words):
    with pytest.raises((RuntimeError, ValueError), match=words):
        load(lib, changed(lib, lambda n, old: data if n == name else old))


def test_files_beside_the_archives_folder_are_refused(lib):
    with pytest.raises(RuntimeError, match="file in archive is not in a subdirectory archive/: evil/x"):
        load(lib, changed(lib, lambda n, old: old, more=[("evil/x", b"")]))


def test_a_compressed_archive_is_read_but_not_mapped(lib, tmp_path):
    packed = changed(lib, lambda n, old: old, zipfile.ZIP_DEFLATED)
    assert lib.equal(load(lib, packed)["w"], lib.arange(1000.))
    (tmp_path / "packed.pt").write_bytes(packed)
    with pytest.raises(RuntimeError):
        lib.load(tmp_path / "packed.pt", mmap=True)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    tede = pytest.importorskip("tede")
    bomb = changed(tede, lambda n, old: bytes(1 << 28) if n == "data/0" else old, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 20
    import tracemalloc
    tracemalloc.start()
    with pytest.raises(RuntimeError, match=r"record size \(268435456 bytes\) does not match expected size \(4000 bytes"):
        load(tede, bomb)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


class Calls:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("new", [True, False, None], ids=["zip", "legacy", "pickle"])
def test_nothing_is_called(lib, tmp_path, new):
    mark = tmp_path / "called"
    for thing in (Calls(os.system, f"touch {mark}"), Calls(eval, f"open({str(mark)!r}, 'w')"), Calls(open, str(mark), "w")):
        file = io.BytesIO()
        if new is None:
            pickle.dump(thing, file)
        else:
            lib.save({"x": thing}, file, _use_new_zipfile_serialization=new)
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            load(lib, file.getvalue())
    assert not mark.exists()


def number(n):
    return b"\x8a\x08" + struct.pack("<q", n)


def many(*values):
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor_of(offset, sizes, strides):
    """A pickled tensor over storage 0, with a geometry of its own."""
    text = lambda s: b"X" + struct.pack("<i", len(s)) + s
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(b"0") +
            text(b"cpu") + number(1000) + b"tQ" + number(offset) + many(*sizes) + many(*strides) +
            b"\x89ccollections\nOrderedDict\n)RtR.")


def test_the_geometry_of_a_tensor_is_checked(lib):
    def of(*geometry):
        return load(lib, changed(lib, lambda n, old: tensor_of(*geometry) if n == "data.pkl" else old))
    assert of(2, (3,), (5,)).tolist() == [2, 7, 12]
    for geometry in ((5000, (10,), (1,)), (-1, (10,), (1,)), (0, (100000,), (1,)), (0, (10,), (1000,)), (0, (-10,), (1,)),
                     (0, (2 ** 62, 2 ** 62), (1, 1)), (0, (3,), (2 ** 62,)), (0, (3, 3), (1,)), (2 ** 62, (3,), (1,))):
        with pytest.raises(RuntimeError):
            of(*geometry)


@pytest.mark.parametrize("body", [b"0.", b"\xff", b"t.", b"h\x09.", b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"K\x01Q.", b"R.", b"b.",
                                  b"s.", b"(u.", b"]", b""])
def test_broken_pickles_are_errors(lib, body):
    with pytest.raises(REFUSED):
        load(lib, changed(lib, lambda n, old: b"\x80\x02" + body if n == "data.pkl" else old))
