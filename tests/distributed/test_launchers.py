"""What tede.distributed.run is made of: launchers of several hosts that meet, functions as processes, errors that are reported."""
import json
import os
import socket
import subprocess
import sys
import time

import pytest


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


def launch_two(*rows, **environment):
    """Two launchers, as of two hosts, with their own arguments."""
    launchers = [subprocess.Popen([sys.executable, "-m", "tede.distributed.run", *map(str, row)], stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, **environment}) for row in rows]
    try:
        return [(launcher.communicate(timeout=60)[1], launcher.returncode) for launcher in launchers]
    finally:
        for launcher in launchers:
            launcher.kill()


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text("import json, os, pathlib, sys, time\nhere = pathlib.Path(__file__).parent\nrank = os.environ['RANK']\n" + text)
        return path
    return write


def test_processes_have_their_variables(script, tmp_path):
    path, port = script("(here / ('rank' + rank)).write_text(json.dumps([dict(os.environ), sys.argv[1:]]))"), free_port()
    common = ["--nnodes=2", "--master-addr=localhost", f"--master-port={port}", "--role=r"]
    done = launch_two([*common, "--node-rank=1", "--nproc-per-node=2", path, "--lr", 3], [*common, "--node-rank=0", path, "--lr", 3])
    assert [code for _, code in done] == [0, 0], done
    found, arguments = json.loads((tmp_path / "rank2").read_text())
    assert arguments == ["--lr", "3"] and (tmp_path / "rank0").exists() and (tmp_path / "rank1").exists()
    expected = dict(RANK="2", LOCAL_RANK="1", WORLD_SIZE="3", LOCAL_WORLD_SIZE="2", GROUP_RANK="1", ROLE_RANK="2", ROLE_NAME="r", MASTER_ADDR="localhost",
                    MASTER_PORT=str(port), TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_MAX_RESTARTS="0", GROUP_WORLD_SIZE="2")
    assert {name: found[name] for name in expected} == expected


def test_launchers_meet_in_any_order_and_begin_again_together(script, tmp_path):
    path = script("again = (here / 'again').exists()\n"
                  "(here / ('_'.join([str(int(again)), rank, os.environ['GROUP_RANK'], os.environ['WORLD_SIZE']]))).touch()\n"
                  "if not again and rank == '0':\n    time.sleep(50)\n"
                  "if not again:\n    while len(list(here.glob('0_*'))) < 2: time.sleep(0.05)\n    (here / 'again').touch()\n    sys.exit(1)\n"
                  "from tede.distributed import rendezvous\nstore, _, _ = next(rendezvous('env://'))\nstore.set(rank, 'here')\n"
                  "store.get('0'), store.get('1')")
    common = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=job", "--max-restarts=2", path]
    done = launch_two(common, common)
    assert [code for _, code in done] == [0, 0], done
    assert {name.name for name in tmp_path.glob("*_*")} == {"0_0_0_2", "0_1_1_2", "1_0_0_2", "1_1_1_2"}


def test_a_launcher_that_is_killed_is_replaced_and_then_done_without(script, tmp_path):
    path = script("ours = here / f'{os.getppid()}_{os.environ[\"WORLD_SIZE\"]}'\nours.touch()\n"
                  "while not (here / 'end').exists():\n    time.sleep(0.05)\n"
                  "    if (here / 'fail').exists():\n        (here / 'fail').unlink()\n        sys.exit(1)")
    port, launchers = free_port(), []

    def begin():
        options = f"is_host={int(not launchers)},keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=5"
        launchers.append(subprocess.Popen([sys.executable, "-m", "tede.distributed.run", "--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=job", "--max-restarts=1",
                                           f"--rdzv-endpoint=localhost:{port}", f"--rdzv-conf={options}", path], stderr=subprocess.DEVNULL))
        return launchers[-1]

    def met(size, *of):
        end = time.monotonic() + 40
        while not (there := all((tmp_path / f"{launcher.pid}_{size}").exists() for launcher in of)) and time.monotonic() < end:
            time.sleep(0.05)
        return there
    try:
        first, second = begin(), begin()
        assert met(2, first, second)
        (tmp_path / f"{first.pid}_2").unlink()
        third = begin()                     # waits, since there are two
        second.kill()
        assert met(2, first, third)
        third.kill()                        # nobody comes, and the process that is left fails
        (tmp_path / "fail").touch()
        assert met(1, first)
        (tmp_path / "end").touch()
        assert first.wait(60) == 0
    finally:
        (tmp_path / "end").touch()
        for launcher in launchers:
            launcher.kill()
            launcher.wait()


def test_the_first_error_is_reported_with_its_traceback(script, tmp_path):
    path = script("from tede.distributed.elastic.multiprocessing.errors import record\n@record\ndef main():\n    if rank == '1':\n"
                  "        raise ValueError('a wrong value')\n    time.sleep(50)\nmain()")
    done = subprocess.run([sys.executable, "-m", "tede.distributed.run", "--standalone", "--nproc-per-node=2", "--redirects=3", f"--log-dir={tmp_path}/logs",
                           str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "ValueError: a wrong value" in done.stderr and "in main" in done.stderr and "Traceback" in done.stderr


def scaled(by):
    return int(os.environ["RANK"]) * by


def test_a_fork_server_starts_processes_at_once(monkeypatch):
    from tede.distributed.launcher.api import LaunchConfig, elastic_launch
    monkeypatch.setenv("TORCH_MP_PARALLEL_START", "1")
    config = LaunchConfig(1, 1, 2, run_id="x", rdzv_endpoint="localhost:0", max_restarts=0, start_method="forkserver")
    assert elastic_launch(config, scaled)(3) == {0: 0, 1: 3}


def test_functions_return_their_values(tmp_path, monkeypatch):
    from tede.distributed.elastic.multiprocessing.errors import ChildFailedError
    from tede.distributed.launcher.api import LaunchConfig, elastic_launch
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    from tede.distributed.elastic import metrics

    class Keeps(metrics.MetricHandler):
        def emit(self, metric_data):
            kept[metric_data.name] = metric_data.value
    kept = {}
    metrics.configure(Keeps())
    config = LaunchConfig(1, 1, 2, run_id="x", rdzv_endpoint="localhost:0", max_restarts=0)
    try:
        assert elastic_launch(config, scaled)(10) == {0: 0, 1: 10}
    finally:
        metrics.configure(metrics.NullMetricHandler())
    assert kept["workers.default_role.run_success_no_retries"] == 1 and kept["workers.default_role.flakiness"] == 0
    assert not list(tmp_path.iterdir())
    with pytest.raises(ChildFailedError, match="scaled FAILED") as caught:
        elastic_launch(LaunchConfig(1, 1, 2, run_id="y", rdzv_endpoint="localhost:0", max_restarts=0), scaled)(None)
    assert "TypeError" in caught.value.get_first_failure()[1].message["message"]
