"""python -m tede.distributed.run: the variables of its processes, failures, restarts, signals and output."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest


def launch(*arguments, run=("tede.distributed.run",), **environment):
    return subprocess.run([sys.executable, "-m", *run, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text("import json, os, pathlib, sys, time\nhere = pathlib.Path(__file__).parent\nrank = os.environ['RANK']\n" + text)
        return path
    return write


def test_options_come_from_the_environment(script, tmp_path):
    path = script("(here / ('rank' + rank)).write_text(os.environ['WORLD_SIZE'])")
    assert launch("--standalone", path, PET_NPROC_PER_NODE="3").returncode == 0
    assert (tmp_path / "rank2").read_text() == "3"


def test_a_failure_ends_the_others_and_is_reported(script):
    path = script("if rank == '1':\n    sys.exit(7)\ntime.sleep(50)")
    began = time.monotonic()
    done = launch("--standalone", "--nproc-per-node=2", path)
    assert done.returncode == 1 and "rank       : 1 (local_rank: 1)" in done.stderr and "exitcode   : 7" in done.stderr
    assert time.monotonic() - began < 30


def test_restarts(script, tmp_path):
    path = script("n = os.environ['TORCHELASTIC_RESTART_COUNT']\n(here / (n + '_' + rank)).touch()\nsys.exit(n != '2')")
    assert launch("--standalone", "--nproc-per-node=2", "--max-restarts=2", path).returncode == 0
    assert (tmp_path / "2_0").exists() and (tmp_path / "2_1").exists()


def test_output_by_rank(script, tmp_path):
    path = script("print('out', rank)\nprint('err', rank, file=sys.stderr)")
    done = launch("--standalone", "--nproc-per-node=2", "--rdzv-id=x", f"--log-dir={tmp_path}/logs", "--tee=3", path)
    assert "[default1]:out 1\n" in done.stdout and "[default0]:err 0\n" in done.stderr
    assert next(tmp_path.glob("logs/x_*/attempt_0/1/stdout.log")).read_text() == "out 1\n"
    done = launch("--standalone", "--nproc-per-node=2", "--rdzv-id=y", f"--log-dir={tmp_path}/logs", "--redirects=0:1", path)
    assert "out 0" not in done.stdout and "out 1" in done.stdout and next(tmp_path.glob("logs/y_*/attempt_0/0/stdout.log")).read_text() == "out 0\n"


def test_signals_end_all_processes(script, tmp_path):
    path = script("(here / ('pid' + rank)).write_text(str(os.getpid()))\n(here / ('ready' + rank)).touch()\ntime.sleep(50)")
    launcher = subprocess.Popen([sys.executable, "-m", "tede.distributed.run", "--standalone", "--nproc-per-node=2", str(path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not all((tmp_path / f"ready{i}").exists() for i in range(2)) and time.monotonic() < deadline:
        time.sleep(0.05)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(40) == 128 + signal.SIGTERM
    assert not any(pathlib.Path(f"/proc/{(tmp_path / f'pid{i}').read_text()}").exists() for i in range(2))


def lives(pid):
    """Whether a process is there that hasn't ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["run", "spawn"])
def test_processes_end_when_the_one_that_started_them_is_killed(script, tmp_path, how):
    path = script("(here / ('pid' + rank)).write_text(str(os.getpid()))\n(here / ('ready' + rank)).touch()\ntime.sleep(50)")
    if how == "spawn":
        path.write_text("import os, pathlib, sys, time\nhere = pathlib.Path(__file__).parent\n"
                        "def wait(i):\n    (here / f'pid{i}').write_text(str(os.getpid()))\n    (here / f'ready{i}').touch()\n    time.sleep(50)\n"
                        "if __name__ == '__main__':\n    import tede.multiprocessing\n    tede.multiprocessing.spawn(wait, nprocs=2)")
    command = [str(path)] if how == "spawn" else ["-m", "tede.distributed.run", "--standalone", "--nproc-per-node=2", str(path)]
    starter = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 40
    while not all((tmp_path / f"ready{i}").exists() for i in range(2)) and time.monotonic() < deadline:
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    pids = [(tmp_path / f"pid{i}").read_text() for i in range(2)]
    while any(map(lives, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, pids))


def test_modules_and_other_programs(script, tmp_path):
    assert launch("--standalone", "--no-python", "sh", "-c", f"echo $RANK > {tmp_path}/sh").returncode == 0
    assert (tmp_path / "sh").read_text() == "0\n"
    assert launch("--standalone", "-m", "platform").returncode == 0
    assert launch("--standalone", "--run-path", script("(here / 'path').write_text(__name__)")).returncode == 0
    assert (tmp_path / "path").read_text() == "__main__"
    assert launch("--standalone", "--nproc-per-node=some", script("")).returncode != 0


def test_pytorchs_name_of_it_gives_processes_that_see_pytorchs_names(script, tmp_path):
    path = script("import torch\n(here / ('saw' + rank)).write_text(torch.nn.Linear.__module__ + torch.randn.__class__.__module__)")
    done = launch("--standalone", "--nproc-per-node=2", path, run=("tede.as_torch", "-m", "torch.distributed.run"))
    assert done.returncode == 0, done.stderr
    assert "torch.nn" in (tmp_path / "saw1").read_text() and "tede" not in (tmp_path / "saw0").read_text().replace("tede._C", "")


def test_torchrun_is_a_command_under_as_torch(script, tmp_path):
    path = script("import torch\n(here / ('saw' + rank)).write_text(torch.nn.Linear.__module__)\n"
                  "if 'again' not in sys.argv:\n    import subprocess\n    del os.environ['RANK']\n"
                  "    sys.exit(subprocess.call(['torchrun', '--standalone', '--nproc-per-node=2', __file__, 'again']))")
    done = launch("torchrun", "--standalone", path, run=("tede.as_torch",))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "saw1").read_text().startswith("torch.nn")


def test_launch_gives_the_local_rank_as_an_argument(script, tmp_path):
    path = script("(here / ('rank' + rank)).write_text(' '.join(sys.argv[1:]))")
    done = launch("--standalone", "--nproc-per-node=2", path, "more", run=("tede.distributed.launch",))
    assert done.returncode == 0 and (tmp_path / "rank1").read_text() == "--local-rank=1 more", done.stderr
