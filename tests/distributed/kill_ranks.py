"""Kills a random rank at a random moment, again and again: all others must end by an exception within the timeout, leaving no process and no file.

    python kill_ranks.py [--runs 50] [--ranks 4] [--seed N] [--timeout SECONDS] [--module tede]

Ranks are processes of their own by env://. They compute and communicate in many ways, some calls waited for at once, others later. The moment is
drawn from the beginning of the first rank on; where all ranks were in the group by then, the others' exceptions must name a rank that has ended, and
one of them the killed one. As root it runs in a mount namespace with a /dev/shm of its own; elsewhere it compares what there is before and after, and so
takes others' files for its own. Prints a line for each run and ends with 1 if any went wrong.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

RANK = """
import datetime, os, sys
import {module} as T
import {module}.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={timeout}))
rank, world = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, world - 1])
dist.barrier()
open(os.environ["READY"] + str(rank), "w").close()
small, large, parts = T.ones(3), T.ones(1 << 18), [T.zeros(1000) for _ in range(world)]
for step in range(1 << 30):
    works = [dist.all_reduce(large, async_op=True), dist.broadcast(small, step % world, async_op=True)]
    T.mm(T.ones(64, 64), T.ones(64, 64))
    for work in works:
        work.wait()
    large.fill_(1)
    dist.all_gather(parts, parts[rank] + 1)
    if rank % 2 == 0 and rank + 1 < world:
        dist.send(small, rank + 1)
    elif rank % 2:
        dist.recv(small, rank - 1)
    if rank in (0, world - 1):
        dist.all_reduce(small, group=pair)
        small.fill_(1)
    dist.barrier()
"""


def children_of(session):
    """Processes of a session."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def one_run(options, draw, folder):
    """What went wrong, and a line for the reader."""
    before, shared = set(os.listdir("/dev/shm")), pathlib.Path(folder, "tmp")
    shared.mkdir()
    ready = pathlib.Path(folder, "ready.")
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(options.ranks), "OMP_NUM_THREADS": "1",
                   "TMPDIR": str(shared), "READY": str(ready), "LOCAL_WORLD_SIZE": str(options.ranks)}
    code = RANK.format(module=options.module, timeout=options.timeout)
    ranks, files = [], []
    for rank in range(options.ranks):
        files.append(open(pathlib.Path(folder, f"errors.{rank}"), "w+"))
        ranks.append(subprocess.Popen([sys.executable, "-c", code], stdout=files[rank], stderr=files[rank], start_new_session=True,
                                      env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
    start, victim, after = time.monotonic(), draw.randrange(options.ranks), draw.uniform(0, options.latest)
    wrong, all_ready = [], False
    try:
        while time.monotonic() < start + 30 and time.monotonic() < start + after and all(p.poll() is None for p in ranks):
            time.sleep(0.005)
        early = [r for r, p in enumerate(ranks) if p.poll() is not None]
        wrong += [f"rank {r} ended by itself" for r in early]
        all_ready = all(os.path.exists(f"{ready}{r}") for r in range(options.ranks))
        killed = time.monotonic()
        ranks[victim].send_signal(signal.SIGKILL)
        for rank, process in enumerate(ranks):
            try:
                process.wait(max(0.1, killed + options.timeout + 15 - time.monotonic()))
            except subprocess.TimeoutExpired:
                wrong.append(f"rank {rank} hangs")
        took = time.monotonic() - killed
        named = set()
        for rank, process in enumerate(ranks):
            files[rank].seek(0)
            said = files[rank].read()
            if rank == victim or process.returncode is None:
                continue
            last = next((line for line in reversed(said.splitlines()) if re.match(r"(\[rank\d+\]: )?\w[\w.]*(Error|Exception)\b", line)), "")
            if process.returncode != 1 or not last:
                wrong.append(f"rank {rank} ended with {process.returncode}: {said[-300:]!r}")
            elif all_ready:
                named |= (others := {int(n) for n in re.findall(r"\brank (\d+)\b", last)} - {rank})
                if not others:
                    wrong.append(f"rank {rank} doesn't name one that has ended: {last!r}")
        if all_ready and not wrong and victim not in named:     # whoever ends next may be the first that the others notice
            wrong.append(f"nobody names the one that died, only {named}")
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
        for file in files:
            file.close()
    left = [pid for p in ranks for pid in children_of(p.pid)]
    wrong += [f"process {pid} is left" for pid in left]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    wrong += [f"file {path} is left" for path in sorted(shared.rglob("*"))]
    wrong += [f"file /dev/shm/{name} is left" for name in sorted(set(os.listdir("/dev/shm")) - before)]
    return wrong, f"rank {victim} of {options.ranks} killed after {after:.2f} s{', all ready' if all_ready else ''}: the others ended within {took:.2f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=20)
    parser.add_argument("--latest", type=float, default=6, help="seconds after the start within which the moment lies")
    parser.add_argument("--module", default="tede")
    options = parser.parse_args()
    if os.geteuid() == 0 and shutil.which("unshare") and "KILL_RANKS_ALONE" not in os.environ:
        alone = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
            os.environ["KILL_RANKS_ALONE"] = "1"
            os.execvp(alone[0], [*alone, sys.executable, *sys.argv])
    draw, bad = random.Random(options.seed), 0
    for run in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            wrong, line = one_run(options, draw, folder)
        bad += bool(wrong)
        print(f"{run + 1:3}: {line}" + "".join(f"\n     {what}" for what in wrong), flush=True)
    print(f"{options.runs - bad} of {options.runs} runs as they should be")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
