"""tede.npy reads what NumPy writes."""
import subprocess
import sys

import pytest
import tede
import tede.npy

DTYPES = "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.fixture
def np():
    return pytest.importorskip("numpy")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_order(np, tmp_path, dtype, order):
    for shape in ((), (0,), (5,), (2, 3, 4), (3, 0, 2)):
        a = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(np.dtype(dtype).newbyteorder(order))
        for array in (a, a.copy(order="F")):
            np.save(tmp_path / "x.npy", array)
            x = tede.npy.load(tmp_path / "x.npy")
            assert x.dtype == getattr(tede, dtype) and tuple(x.shape) == shape and x.tolist() == array.tolist()
            if array.size:
                assert x.stride() == tuple(step // array.itemsize for step in array.strides)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(np, tmp_path, version):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(6.).reshape(2, 3), version)
    assert tede.npy.load(str(tmp_path / "x.npy")).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("save", ["savez", "savez_compressed"])
def test_archives(np, tmp_path, save):
    arrays = {"a": np.arange(1000, dtype=np.int16), "folder/b": np.eye(3), "": np.float32(2)}
    getattr(np, save)(tmp_path / "x.npz", **arrays)
    tensors = tede.npy.load(tmp_path / "x.npz")
    assert {name: x.tolist() for name, x in tensors.items()} == {name: a.tolist() for name, a in arrays.items()}


@pytest.mark.parametrize("save", ["savez", "savez_compressed"])
def test_damaged_archives_are_refused(np, tmp_path, save):
    """A bit that flips in an entry's bytes shows in its check sum, as in NumPy."""
    getattr(np, save)(tmp_path / "x.npz", a=np.random.default_rng(0).integers(0, 255, 1000, dtype=np.uint8))
    whole = (tmp_path / "x.npz").read_bytes()
    for at in range(200, 900, 70):
        (tmp_path / "y.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        with pytest.raises((RuntimeError, ValueError)):
            tede.npy.load(tmp_path / "y.npz")


def test_what_has_no_numbers_is_refused(np, tmp_path):
    for array, words in ((np.zeros(2, dtype=[("a", "f4")]), "structured"), (np.array(["x"]), "'<U1'"), (np.array([None]), r"'\|O'")):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(TypeError, match=f"npy: .*{words}"):
            tede.npy.load(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\x00")
    with pytest.raises(ValueError, match="npy: a header of 255 bytes doesn't fit into 10.*x.npy"):
        tede.npy.load(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError):
        tede.npy.load(tmp_path / "none.npy")


def test_numpy_is_not_needed(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8))
    code = "import sys, tede.npy\nassert tede.npy.load(sys.argv[1]).tolist() == [0, 0] and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.npy")], check=True)


def test_writing_changes_no_file(np, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(4))
    tede.npy.load(tmp_path / "x.npy").fill_(7)
    assert np.load(tmp_path / "x.npy").tolist() == [1] * 4
