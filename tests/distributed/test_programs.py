"""Programs of the shape of PyTorch's tutorials, with processes by spawn, and the one that the documentation shows."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"


@pytest.mark.parametrize("library, demos, lines", [
    ("tede", ["demo_basic", "demo_checkpoint", "fails"], ["demo_basic", "demo_checkpoint", "fails ProcessRaisedException True"]),
    ("torch", ["demo_checkpoint"], ["demo_checkpoint"]),
])
def test_the_tutorial_on_data_parallel_training(library, demos, lines, tmp_path):
    if not importlib.util.find_spec(library):
        pytest.skip(f"no {library}")
    if library == "tede":
        from tede import _C
        if not _C._group_engine_there("mpi"):
            pytest.skip("no MPI")
    done = subprocess.run([sys.executable, str(PROGRAMS / "ddp_tutorial.py"), library, *demos], capture_output=True, text=True, timeout=150,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and done.stdout.splitlines() == lines, done.stdout + done.stderr
    assert not [path for path in tmp_path.iterdir() if path.name != "torchinductor_root"]


def test_the_program_that_the_documentation_shows(tmp_path):
    page, launcher = PROGRAMS.parents[2] / "docs/distributed.md", pathlib.Path(sys.executable).parent / "mpiexec"
    from tede import _C
    if not launcher.exists() or not _C._group_engine_there("mpi"):
        pytest.skip("no MPI")
    program = tmp_path / "train.py"
    program.write_text(re.search(r"`train.py`.*?```python\n(.*?)```", page.read_text(), re.S)[1])
    done = subprocess.run([str(launcher), "-n", "2", sys.executable, str(program)], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and float(re.fullmatch(r"loss (.*)\n", done.stdout)[1]) < 5, done.stdout + done.stderr
