"""Libraries of examples/c for the tests of a session: a process loads a device once, whichever tests use it."""
import ctypes
import subprocess

import pytest
from test_c_examples import CC, ROOT, flags

tede = pytest.importorskip("tede")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """library(name, *options): examples/c/<name>.c as a shared library; or of a source text, as name.c."""
    if not CC:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("libraries")

    def build(name, *options, text=None):
        out = folder / f"{name}.so"
        if not out.exists():
            source = ROOT / "examples/c" / f"{name}.c"
            if text is not None:
                source = folder / f"{name}.c"
                source.write_text(text)
            done = subprocess.run([CC, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", *options, str(source),
                                   "-o", str(out), *flags(), "-lm", "-pthread"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return str(out)
    return build


@pytest.fixture(scope="session")
def toy(library):
    path = library("toy_device")
    if not hasattr(tede, "toy"):
        tede.load_device(path)
    handle = ctypes.CDLL(path)
    counts = {name: (ctypes.c_int64 * 2).in_dll(handle, name) for name in ("toy_copies", "toy_kernels", "toy_live_bytes")}
    return lambda name: list(counts[f"toy_{name}"])
