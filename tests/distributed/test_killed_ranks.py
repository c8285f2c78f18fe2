"""A rank is killed, and the others end by an exception that names it: a few runs of `make kill-test`."""
import mmap
import os
import pathlib
import socket
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


BEGINS = """
import sys
from tede import _C
_C._Group("mpi", "world", 0, 2, None, 0, 2, sys.argv[1], 3.)
"""


@pytest.mark.parametrize("answered, said", [(0, "can't be reached"), (1, "a process has ended"), (4, "a process has ended"), (None, "can't be reached")])
def test_where_processes_meet_goes_while_mpi_begins(answered, said):
    """MPI by itself would end the process, with a code of its own."""
    from tede import _C
    if not _C._group_engine_there("mpi"):
        pytest.skip("no MPI")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if answered is None:
            server.close()
        process = subprocess.Popen([sys.executable, "-c", BEGINS, f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True)
        if answered is not None:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as lines:
                assert lines.readline() == "cmd=initack pmiid=0\n"
                answers = ["cmd=initack rc=0\ncmd=set size=2\ncmd=set rank=0\ncmd=set debug=0\n", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
                           "cmd=maxes rc=0 kvsname_max=64 keylen_max=256 vallen_max=4096\n", "cmd=appnum rc=0 appnum=0\n"]
                for answer in answers[:answered]:
                    lines.write(answer)
                    lines.flush()
                    assert lines.readline().startswith("cmd=")
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and "RuntimeError: Connection closed by peer: waiting for processes to begin with MPI" in error and said in error


def test_files_that_a_killed_process_left_are_removed_by_the_others():
    """Not those that somebody has open, as one does who is about to remove it."""
    from tede import _C
    if not _C._group_engine_there("mpi"):
        pytest.skip("no MPI")
    paths = [pathlib.Path("/dev/shm", f"{name}{os.getpid()}") for name in ("ucx_shm_left_", "ucx_shm_open_", "mpich_shm_mapped_", "other_")]
    try:
        for path in paths:
            path.write_bytes(bytes(64))
        with paths[1].open("r+b"), paths[2].open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 64)
            file.close()
            process = subprocess.run([sys.executable, "-c", BEGINS, "127.0.0.1:1"], stderr=subprocess.PIPE, text=True, timeout=60)
            memory.close()
        assert "waiting for processes to begin with MPI" in process.stderr and process.returncode == 1
        assert [path.exists() for path in paths] == [False, True, True, True]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
