"""python -m tede.distributed.run --nproc-per-node=2 script.py: start a program's processes on this host, with the variables by which
they find each other.

    python -m tede.distributed.run --standalone --nproc-per-node=4 train.py --its-arguments
    python -m tede.distributed.run --nnodes=2 --node-rank=0 --master-addr=HOST --master-port=29500 --nproc-per-node=4 train.py

Each host runs one launcher, whose node rank says which of the hosts it is. Rank 0 serves the store at the master's address. If a process
fails, the others of the host are ended, and all are started again, --max-restarts times. Options may also be given as variables: PET_NNODES
for --nnodes, and so on."""
import argparse
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

__all__ = ["get_args_parser", "main", "parse_args", "run"]

_GRACE = 30.0           # seconds between asking processes to end and ending them


class _FromEnvironment(argparse.Action):
    """An option whose default is what PET_NAME says, if it is there."""

    def __init__(self, dest, default=None, required=False, **kwargs):
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and default is None, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class _FlagFromEnvironment(argparse.Action):
    """A flag that PET_NAME=1 sets, too."""

    def __init__(self, dest, **kwargs):
        super().__init__(dest=dest, nargs=0, default=bool(int(os.environ.get(f"PET_{dest.upper()}", "0"))), **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, True)


def get_args_parser():
    parser = argparse.ArgumentParser(prog="python -m tede.distributed.run", description="Start a program's processes.", allow_abbrev=False)

    def option(*names, **kwargs):
        # Both --nproc-per-node and --nproc_per_node.
        parser.add_argument(*names, *(("--" + names[-1][2:].replace("-", "_"),) if "-" in names[-1][2:] else ()), **kwargs)
    option("--nnodes", action=_FromEnvironment, type=str, default="1", help="how many hosts, N; MIN:MAX stands for MIN")
    option("--nproc-per-node", action=_FromEnvironment, type=str, default="1", help="processes on this host: a number, cpu, gpu or auto")
    option("--node-rank", action=_FromEnvironment, type=int, default=0, help="which of the hosts this is")
    option("--master-addr", action=_FromEnvironment, type=str, default="127.0.0.1", help="the host of rank 0")
    option("--master-port", action=_FromEnvironment, type=int, default=29500, help="the port of rank 0's store; 0: a free one")
    option("--standalone", action=_FlagFromEnvironment, help="one host, at a port that is free")
    option("--max-restarts", action=_FromEnvironment, type=int, default=0, help="how often all processes are started again after a failure")
    option("--monitor-interval", action=_FromEnvironment, type=float, default=0.1, help="seconds between looks at the processes")
    option("--role", action=_FromEnvironment, type=str, default="default", help="a name for the processes")
    option("--rdzv-id", action=_FromEnvironment, type=str, default="none", help="a name for the run")
    option("--log-dir", action=_FromEnvironment, type=str, help="a folder for what the processes write")
    option("-r", "--redirects", action=_FromEnvironment, type=str, default="0", help="what goes to files: 1 stdout, 2 stderr, 3 both; or RANK:N,...")
    option("-t", "--tee", action=_FromEnvironment, type=str, default="0", help="the same, to files and the console, each line with its rank")
    option("-m", "--module", action=_FlagFromEnvironment, help="the program is a module")
    option("--no-python", action=_FlagFromEnvironment, help="the program is run as it is")
    option("--run-path", action=_FlagFromEnvironment, help="run the script by runpy.run_path")
    parser.add_argument("training_script", type=str, help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args):
    return get_args_parser().parse_args(args)


def _processes(text):
    """How many processes --nproc-per-node says."""
    if text in ("cpu", "gpu", "auto"):
        import tede
        gpus = tede.cuda.device_count() if text != "cpu" and tede.cuda.is_available() else 0
        if text == "gpu" and not gpus:
            raise ValueError("Cuda is not available.")
        return gpus or len(os.sched_getaffinity(0))
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"Unsupported nproc_per_node value: {text}")
    return int(text)


def _free_port():
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def _by_rank(text, ranks):
    """--redirects and --tee: a number for all, or RANK:NUMBER,..."""
    if ":" not in text:
        return [int(text)] * ranks
    given = dict(map(int, part.split(":")) for part in text.split(","))
    return [given.get(i, 0) for i in range(ranks)]


class _Worker:
    """A process, its files and the threads that copy its lines."""

    def __init__(self, command, environment, name, folder, redirect, tee):
        self.files, self.copies = [], []
        streams = []
        for bit, stream in ((1, "stdout"), (2, "stderr")):
            if not (redirect | tee) & bit:
                streams.append(None)
                continue
            self.files.append(open(os.path.join(folder, stream + ".log"), "wb"))
            streams.append(subprocess.PIPE if tee & bit else self.files[-1])
        self.process = subprocess.Popen(command, env=environment, stdout=streams[0], stderr=streams[1])
        for bit, stream, console in ((1, self.process.stdout, sys.stdout), (2, self.process.stderr, sys.stderr)):
            if stream is not None:
                file = self.files[0 if bit == 1 else -1]
                self.copies.append(threading.Thread(target=self._copy, args=(stream, file, console, f"[{name}]:"), daemon=True))
                self.copies[-1].start()

    @staticmethod
    def _copy(stream, file, console, prefix):
        for line in stream:
            file.write(line)
            file.flush()
            console.write(prefix + line.decode(errors="replace"))
            console.flush()

    def close(self):
        for thread in self.copies:
            thread.join(5)
        for file in self.files:
            file.close()


def _command(args):
    if args.no_python:
        if args.module or args.run_path:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' or '--run-path' flag at the same time.")
        return [args.training_script, *args.training_script_args]
    python = [os.environ.get("PYTHON_EXEC", sys.executable), "-u"]
    if args.run_path:
        return [*python, "-m", "tede.distributed.run", "--run-one", args.training_script, *args.training_script_args]
    return [*python, *(["-m"] if args.module else []), args.training_script, *args.training_script_args]


def _environment(args, nodes, local_ranks, i, port, restart, run_id):
    rank, size = args.node_rank * local_ranks + i, nodes * local_ranks
    values = {"RANK": rank, "LOCAL_RANK": i, "GROUP_RANK": args.node_rank, "ROLE_RANK": rank, "ROLE_NAME": args.role, "WORLD_SIZE": size,
              "LOCAL_WORLD_SIZE": local_ranks, "GROUP_WORLD_SIZE": nodes, "ROLE_WORLD_SIZE": size, "MASTER_ADDR": args.master_addr,
              "MASTER_PORT": port, "TORCHELASTIC_RESTART_COUNT": restart, "TORCHELASTIC_MAX_RESTARTS": args.max_restarts,
              "TORCHELASTIC_RUN_ID": run_id, "TORCHELASTIC_USE_AGENT_STORE": False}
    environment = {**os.environ, **{name: str(value) for name, value in values.items()}}
    if local_ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
        environment["OMP_NUM_THREADS"] = "1"
    return environment


def _end(workers, how):
    """Ask the processes to end; those that don't in time are ended."""
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.send_signal(how)
    deadline = time.monotonic() + _GRACE
    for worker in workers:
        try:
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


def _watch(workers, interval, signals):
    """Until all have ended well (None), or one has failed: its number."""
    while True:
        codes = [worker.process.poll() for worker in workers]
        failed = next((i for i, code in enumerate(codes) if code), None)
        if failed is not None or signals or all(code == 0 for code in codes):
            return failed
        time.sleep(interval)


def run(args):
    """Start the processes and wait for them. A SystemExit with a report if they fail more often than they are to be started again."""
    nodes, local_ranks = int(args.nnodes.split(":")[0]), _processes(args.nproc_per_node)
    if args.standalone:
        nodes, args.node_rank, args.master_addr, args.master_port = 1, 0, "127.0.0.1", 0
    run_id = args.rdzv_id if args.rdzv_id != "none" or not args.standalone else str(uuid.uuid4())
    if local_ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
        print("OMP_NUM_THREADS is set to 1 for each process, so that they don't overload this host; set it to what suits the program.", file=sys.stderr)
    redirects, tee = _by_rank(args.redirects, local_ranks), _by_rank(args.tee, local_ranks)
    folder = args.log_dir or (tempfile.mkdtemp(prefix="tede_run_") if any(redirects + tee) else None)
    command, signals = _command(args), []
    before = {number: signal.signal(number, lambda number, frame: signals.append(number)) for number in (signal.SIGINT, signal.SIGTERM)}
    workers = []
    try:
        for restart in range(args.max_restarts + 1):
            port = args.master_port or _free_port()
            workers = []
            for i in range(local_ranks):
                place = folder and os.path.join(folder, run_id, f"attempt_{restart}", str(i))
                if place:
                    os.makedirs(place, exist_ok=True)
                environment = _environment(args, nodes, local_ranks, i, port, restart, run_id)
                workers.append(_Worker(command, environment, f"{args.role}{i}", place, redirects[i], tee[i]))
            failed = _watch(workers, args.monitor_interval, signals)
            _end(workers, signals[0] if signals else signal.SIGTERM)
            for worker in workers:
                worker.close()
            if signals:
                raise SystemExit(128 + signals[0])
            if failed is None:
                return
            code = workers[failed].process.returncode
            print(f"rank {args.node_rank * local_ranks + failed} (local rank {failed}, pid {workers[failed].process.pid}) of {args.training_script} failed: "
                  + (f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}")
                  + (f"; starting again ({restart + 1} of {args.max_restarts})" if restart < args.max_restarts else ""), file=sys.stderr)
        raise SystemExit(1)
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def main(args=None):
    args = sys.argv[1:] if args is None else args
    if args and args[0] == "--run-one":         # a process of --run-path
        sys.argv = args[1:]
        runpy.run_path(args[1], run_name="__main__")
        return
    run(parse_args(args))


if __name__ == "__main__":
    main()
