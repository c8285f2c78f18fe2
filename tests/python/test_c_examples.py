"""The programs in examples/c, compiled as a user would: against an installed tede, or against this build of it.

The Python package says where headers and library are; without it pkg-config does. TEDE_INCLUDE and TEDE_LIB name other folders.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two builds of the library may find different OpenBLASes, whose sums differ in the last bits: none is the same everywhere.
ALIKE = {**os.environ, "TEDE_OPENBLAS": ""}
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def flags():
    """The compiler's arguments for tede; the test is skipped where there is no library to link with."""
    if "TEDE_LIB" in os.environ:
        include, library = os.environ.get("TEDE_INCLUDE", str(ROOT / "include")), os.environ["TEDE_LIB"]
        return [f"-I{include}", f"-L{library}", "-ltede", f"-Wl,-rpath,{library}"]
    try:
        from tede import config
        return config.cflags() + config.libs()
    except (ImportError, FileNotFoundError):
        pass
    if shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", "tede"]).returncode == 0:
        return subprocess.run(["pkg-config", "--cflags", "--libs", "tede"], capture_output=True, text=True, check=True).stdout.split()
    pytest.skip("no libtede: neither TEDE_LIB, nor the Python package, nor pkg-config's tede")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """program(name): the compiled example."""
    if not CC:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("c")

    def build(name):
        out = folder / name
        if not out.exists():
            done = subprocess.run([CC, "-O1", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples/c" / f"{name}.c"), "-o", str(out),
                                   *flags(), "-lm", "-pthread"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return str(out)
    return build


def test_the_spirals_are_learned(program):
    done = subprocess.run([program("train_mlp")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first, last = (float(line.split("accuracy")[1].split()[0]) for line in (lines[0], lines[-1]))
    assert first < 60 and last > 98
    assert sum(set(line) <= set(".o#") for line in lines) == 21


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_processes_train_one_model(program, ranks):
    launcher = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if not launcher:
        pytest.skip("no mpiexec")
    mpi = pathlib.Path(sys.prefix, "lib", "libmpi_abi.so.1")       # of the environment, wherever the library lies
    done = subprocess.run([launcher, "-n", str(ranks), program("data_parallel")], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "OMP_NUM_THREADS": "1", **({"TEDE_MPI": str(mpi)} if mpi.exists() else {})})
    assert done.returncode == 0, done.stdout + done.stderr
    first, *steps, last = done.stdout.splitlines()
    assert first.startswith(f"{ranks} ranks: gradients differ") and float(first.split()[-1]) < 1e-6
    losses = [float(line.split()[-1]) for line in steps]
    assert len(losses) == 5 and losses[-1] < 0.3 * losses[0]
    assert last == "all ranks have the same parameters"


def test_an_operator_from_outside(program):
    done = subprocess.run([program("operator")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["gradient within 1e-15 of the formula", "2 calls counted", "taken away"]


@pytest.mark.parametrize("name, lines", [
    ("diagonal", ["diagonal=tensor([0., 1., 4., 9.]), size=(4, 4)", "tensor([3., 3., 3., 3.])", "Could not run 'aten::exp'"]),
    ("scaled8", ["tensor([-4., -3., -1.,  1.,  3.,  4.], dtype=torch.scaled8)", '"matmul" not implemented for a dtype from outside']),
    ("trace", ["%2 = aten::matmul(%0, %1)", "%3 = aten::relu_(%3)", "played: 50, gradient 4"]),
])
def test_layouts_dtypes_and_recordings_from_outside(program, name, lines):
    done = subprocess.run([program(name)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    for line in lines:
        assert line in done.stdout


def test_records_of_checkpoints_and_archives(program, tmp_path):
    tede = pytest.importorskip("tede")
    tede.save({"w": tede.arange(4.), "b": tede.ones(1)}, tmp_path / "model.pt")
    done = subprocess.run([program("records"), str(tmp_path / "model.pt")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "        16 bytes at " in done.stdout and "model/data/0" in done.stdout and "model/data.pkl" in done.stdout
    assert "the largest as float32: tensor([0., 1., 2., 3.])" in done.stdout
    header = b"{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0\1\0\2")
    done = subprocess.run([program("records"), str(tmp_path / "x.npz")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "x.npy\ntensor([1, 2], dtype=torch.int16)\n" in done.stdout, done.stdout + done.stderr
    done = subprocess.run([program("records"), str(tmp_path / "none.pt")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "zip: can't open" in done.stderr


def test_a_device_from_outside(program, tmp_path):
    library = tmp_path / "toy_device.so"
    built = subprocess.run([CC, "-shared", "-fPIC", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples/c/toy_device.c"),
                            "-o", str(library), *flags(), "-pthread"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program("toy"), str(library)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for line in ("2 devices", "loss 51.4645", "[8.7183, 8.7183, 8.7183]", "threads: one for each device", "found at least two devices, toy:0 and cpu!"):
        assert line in done.stdout


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    pytest.importorskip("tede")
    path = tmp_path_factory.mktemp("gpt") / "gpt.safetensors"
    gpt(path, "--steps", "20", "--text-limit", "60000", "--eval-windows", "4", "--eval-every", "20", "--context", "32", "--width",
        "32", "--layers", "2", "--heads", "2", "--batch", "4", "--bytes", "1", "--plot", str(path) + ".svg")
    return path


def gpt(path, *arguments):
    done = subprocess.run([sys.executable, str(ROOT / "examples/gpt.py"), "--checkpoint", str(path), *arguments],
                          capture_output=True, timeout=300, env=ALIKE)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("arguments", [
    ["--seed", "1", "--prompt", "import "], ["--temperature", "0", "--bytes", "60"],
    ["--seed", "12345678901", "--top-k", "0", "--temperature", "1.3", "--prompt", ""],
], ids=["sampled", "likeliest", "from nothing"])
def test_c_and_python_write_the_same(program, checkpoint, arguments):
    done = subprocess.run([program("generate"), "--checkpoint", str(checkpoint), *arguments], capture_output=True, timeout=300,
                          env=ALIKE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == gpt(checkpoint, "--sample", *arguments)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, None], ids=["empty", "no header", "missing"])
def test_a_file_that_is_no_checkpoint_is_refused(program, tmp_path, damage):
    path = tmp_path / "gpt.safetensors"
    if damage is not None:
        path.write_bytes(damage)
    done = subprocess.run([program("generate"), "--checkpoint", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and str(path) in done.stderr and "Traceback" not in done.stderr


def test_another_programs_tensors_are_refused(program, tmp_path):
    tede = pytest.importorskip("tede")
    from tede.safetensors import save_file
    save_file({"x": tede.zeros(2)}, tmp_path / "x")
    done = subprocess.run([program("generate"), "--checkpoint", str(tmp_path / "x")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "'context'" in done.stderr
    save_file({"x": tede.zeros(2)}, tmp_path / "x", {name: "2" for name in ("context", "width", "layers", "heads")})
    done = subprocess.run([program("generate"), "--checkpoint", str(tmp_path / "x")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no tensor 'model." in done.stderr


CXX = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
HEADERS = sorted((ROOT / "include/tede").glob("*.h"))


@pytest.mark.skipif(not CXX, reason="no C++ compiler")
def test_a_cpp_program_gets_a_gradient_and_an_exception(tmp_path):
    done = subprocess.run([CXX, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(ROOT / "examples/c/gradient.cpp"),
                           "-o", str(tmp_path / "gradient"), *flags()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([tmp_path / "gradient"], capture_output=True, text=True)
    assert done.returncode == 0 and "[1., 1., 1.]" in done.stdout and "must match the size" in done.stdout, done.stdout


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_a_public_header_compiles_alone(header):
    if not CC:
        pytest.skip("no C compiler")
    languages = [[CC, "-std=c11", "-xc"]] + ([[CXX, "-std=c++11", "-xc++"]] if CXX else [])
    for compiler in languages:
        done = subprocess.run([*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-pragma-once-outside-header", "-Werror",
                               f"-I{ROOT / 'include'}", str(header)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
