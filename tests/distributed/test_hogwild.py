"""Processes that train one model in shared memory, without locks: the program has the shape of PyTorch's mnist_hogwild."""
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parent / "programs/hogwild.py"


@pytest.mark.parametrize("library, how", [("tede", "spawn"), ("torch", "fork")])
def test_a_shared_model_learns(library, how):
    if not importlib.util.find_spec(library):
        pytest.skip(f"no {library}")
    done = subprocess.run([sys.executable, str(PROGRAM), library, how], capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split())
    assert before < 0.3 and after > 0.5
