"""torchrun: start a program's processes on this host, with the variables by which they find each other.

    python -m tede.distributed.run --standalone --nproc-per-node=4 train.py --its-arguments
    python -m tede.distributed.run --nnodes=2 --node-rank=0 --master-addr=HOST --master-port=29500 --nproc-per-node=4 train.py
    python -m tede.distributed.run --nnodes=2:4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 --rdzv-id=job --max-restarts=3 --nproc-per-node=4 train.py

Each host runs one launcher. By `static` rendezvous its node rank says which of the hosts it is; by `c10d` the launchers agree on that, and the one at the
endpoint serves the store. If a process fails, the others are ended, and all are started again, --max-restarts times. Options may also be given as variables:
PET_NNODES for --nnodes, and so on."""
import argparse
import os
import runpy
import sys
import uuid
from importlib import metadata

import tede
from tede.distributed.argparse_util import check_env, env
from tede.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from tede.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from tede.distributed.elastic.rendezvous.utils import _parse_rendezvous_config
from tede.distributed.elastic.utils import macros
from tede.distributed.launcher.api import LaunchConfig, elastic_launch

__all__ = ["config_from_args", "determine_local_world_size", "get_args_parser", "get_rdzv_endpoint", "get_use_env", "main", "parse_args",
           "parse_min_max_nnodes", "run", "run_script_path"]


def get_args_parser():
    parser = argparse.ArgumentParser(prog="torchrun", description="Start a program's processes.")

    def option(*names, **kwargs):
        # Both --nproc-per-node and --nproc_per_node.
        parser.add_argument(*names, *(("--" + names[-1][2:].replace("-", "_"),) if "-" in names[-1][2:] else ()), **{"action": env, **kwargs})
    option("--nnodes", type=str, default="1:1", help="how many hosts: N, or MIN:MAX")
    option("--nproc-per-node", type=str, default="1", help="processes on this host: a number, cpu, gpu or auto")
    option("--rdzv-backend", type=str, default="static", help="how the hosts' launchers meet: static or c10d")
    option("--rdzv-endpoint", type=str, default="", help="where they meet: HOST:PORT")
    option("--rdzv-id", type=str, default="none", help="a name for the run")
    option("--rdzv-conf", type=str, default="", help="further options of the rendezvous: name=value,...")
    option("--standalone", action=check_env, help="one host, at a port that is free")
    option("--max-restarts", type=int, default=0, help="how often all processes are started again after a failure")
    option("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    option("--start-method", type=str, default="spawn", choices=["spawn", "fork", "forkserver"], help="how processes of functions begin")
    option("--event-log-handler", type=str, default="null", help="where reports of the run go")
    option("--role", type=str, default="default", help="a name for the processes")
    option("-m", "--module", action=check_env, help="the program is a module")
    option("--no-python", action=check_env, help="the program is run as it is")
    option("--run-path", action=check_env, help="run the script by runpy.run_path")
    option("--log-dir", type=str, default=None, help="a folder for what the processes write")
    option("-r", "--redirects", type=str, default="0", help="what goes to files: 1 stdout, 2 stderr, 3 both; or RANK:N,...")
    option("-t", "--tee", type=str, default="0", help="the same, to files and the console, each line with its rank")
    option("--local-ranks-filter", type=str, default="", help="the local ranks whose output the console shows: 0,1,...; all by default")
    option("--node-rank", type=int, default=0, help="static: which of the hosts this is")
    option("--master-addr", type=str, default="127.0.0.1", help="static: the host of rank 0")
    option("--master-port", type=int, default=29500, help="static: the port of the store; 0: a free one")
    option("--local-addr", type=str, default=None, help="this host's address for the others")
    option("--logs-specs", type=str, default=None, help="an entry point of the group torchrun.logs_specs that says where output goes")
    parser.add_argument("training_script", type=str, help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args):
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes):
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node):
    """How many processes --nproc-per-node says."""
    if nproc_per_node in ("cpu", "gpu", "auto"):
        there = nproc_per_node != "cpu" and tede.cuda.is_available()
        if nproc_per_node == "gpu" and not there:
            raise ValueError("Cuda is not available.")
        return tede.cuda.device_count() if there else os.cpu_count()
    try:
        return int(nproc_per_node)
    except ValueError as error:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from error


def get_rdzv_endpoint(args):
    return f"{args.master_addr}:{args.master_port}" if args.rdzv_backend == "static" and not args.rdzv_endpoint else args.rdzv_endpoint


def get_use_env(args):
    """Whether LOCAL_RANK alone says the local rank; torch.distributed.launch gives it as an argument, too."""
    return getattr(args, "use_env", True)


def _get_logs_specs_class(name):
    if name is None:
        return DefaultLogsSpecs
    group = metadata.entry_points().select(group="torchrun.logs_specs")
    if not group.select(name=name):
        raise ValueError(f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")
    return group[name].load()


def _filter(text):
    try:
        return {int(part) for part in text.split(",")} if text else None
    except ValueError as error:
        raise ValueError("--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2") from error


def run_script_path(training_script, *training_script_args):
    """Run a script as the main module of this process."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def _command(args):
    """What is started, and its arguments."""
    if args.run_path:
        from tede.distributed.run import run_script_path as command     # by the name under which processes import it
        command, given = command, [args.training_script]
    elif args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        command, given = args.training_script, []
    else:
        command, given = os.environ.get("PYTHON_EXEC", sys.executable), ["-u", *(["-m"] if args.module else []), args.training_script]
    return command, given + ([] if get_use_env(args) else [f"--local-rank={macros.local_rank}"]) + args.training_script_args


def config_from_args(args):
    """(LaunchConfig, function or command, its arguments)"""
    min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
    if not 0 < min_nodes <= max_nodes or args.max_restarts < 0:
        raise AssertionError("--nnodes is positive, MIN:MAX in order, and --max-restarts isn't negative")
    processes = determine_local_world_size(args.nproc_per_node)
    if "OMP_NUM_THREADS" not in os.environ and processes > 1:
        os.environ["OMP_NUM_THREADS"] = "1"
        print("OMP_NUM_THREADS is set to 1 for each process, so that they don't overload this host; set it to what suits the program.", file=sys.stderr)
    options = _parse_rendezvous_config(args.rdzv_conf.strip("'\""))
    if args.rdzv_backend == "static":
        options["rank"] = args.node_rank
    logs = _get_logs_specs_class(args.logs_specs)(log_dir=args.log_dir, redirects=Std.from_str(args.redirects), tee=Std.from_str(args.tee),
                                                  local_ranks_filter=_filter(args.local_ranks_filter))
    config = LaunchConfig(min_nodes, max_nodes, processes, logs_specs=logs, run_id=args.rdzv_id, role=args.role, rdzv_endpoint=get_rdzv_endpoint(args),
                          rdzv_backend=args.rdzv_backend, rdzv_configs=options, max_restarts=args.max_restarts, monitor_interval=args.monitor_interval,
                          start_method=args.start_method, log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
                          local_addr=args.local_addr, event_log_handler=args.event_log_handler)
    return config, *_command(args)


def run(args):
    """Start the processes and wait for them. A ChildFailedError if they fail more often than they are to be started again."""
    if args.standalone:
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4()) if args.rdzv_id == "none" else args.rdzv_id
    config, command, arguments = config_from_args(args)
    elastic_launch(config, command)(*arguments)


@record
def main(args=None):
    run(parse_args(args))


def _main():
    """main() of a command: failures of the processes are a report, without this process's traceback."""
    try:
        main()
    except ChildFailedError as error:
        raise SystemExit(str(error)) from None
    except SignalException as error:
        raise SystemExit(128 + error.sigval) from None


if __name__ == "__main__":
    _main()
