"""Libraries of examples/c, compiled as a user would, for tests of several files."""
import subprocess

import pytest
import tede
from test_c_examples import CC, ROOT, flags


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """library(name, *options): examples/c/<name>.c as a shared library; or of a source text, as name.c."""
    if not CC:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("libraries")

    def build(name, *options, text=None):
        out = folder / (name + "".join(options) + ".so")
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
def diagonal(library):
    """The layout of examples/c/diagonal.c, which a process registers once."""
    if tede._C._registered("diagonal_matrix") is None:
        tede.ops.load_library(library("diagonal", "-DDIAGONAL_LIBRARY"))
