"""A rank is killed, and the others end by an exception that names it: a few runs of `make kill-test`."""
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parent / "kill_ranks.py"


def test_the_others_end_by_an_exception():
    from tede import _C
    if not _C._group_engine_there("mpi"):
        pytest.skip("no MPI")
    done = subprocess.run([sys.executable, str(PROGRAM), "--runs", "2", "--ranks", "3", "--latest", "6", "--timeout", "15", "--seed", str(os.getpid())],
                          capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
