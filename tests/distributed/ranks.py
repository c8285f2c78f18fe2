"""Runs a function in several processes that are the ranks of a group, on tede or on PyTorch.

    def sums(lib, rank, size):
        x = lib.ones(3) * (rank + 1)
        lib.distributed.all_reduce(x)
        return x.tolist()

    def test_sums(library):                       # "tede" and "torch", see conftest.py
        assert ranks.run(sums, 2, library) == [[3.0] * 3] * 2

The function belongs to a file's top level: each process imports that file, makes the default group (gloo) and calls it. What it returns is
pickled, so tensors become lists first. An error in a rank is raised here as `Failed`, with all tracebacks; `check=False` returns an `Outcome` of each
rank instead. After `timeout` seconds all processes are killed; none is ever left behind.

`start` says who starts the processes: "mpiexec" (tede only), or "file": each finds the others by a file. Arguments after it go to the function."""
import ctypes
import dataclasses
import importlib
import importlib.util
import inspect
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
MPIEXEC = pathlib.Path(sys.executable).parent / "mpiexec"


@dataclasses.dataclass
class Outcome:
    value: object = None
    error: str | None = None            # the traceback
    kind: str | None = None             # the exception's class
    status: int | None = None           # the process's


class Failed(AssertionError):
    """What went wrong in the ranks."""


def run(function, size, library="tede", *arguments, timeout=60, check=True, start=None, environment=None, group=True):
    """The function's results, by rank. `group`: make the default group before it is called."""
    start = start or "file"
    with tempfile.TemporaryDirectory() as folder:
        about = dict(file=inspect.getsourcefile(function), function=function.__name__, library=library, arguments=arguments, start=start, group=group)
        pathlib.Path(folder, "about").write_bytes(pickle.dumps(about))
        env = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", **environment or {})
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_SIZE"):
            env.pop(name, None)
        command = [sys.executable, str(HERE / "ranks.py"), folder]
        if start == "mpiexec":
            processes = [_start([str(MPIEXEC), "-n", str(size), *command], env)]
        else:
            processes = [_start([*command, str(rank), str(size)], env) for rank in range(size)]
        try:
            _wait(processes, timeout)
        finally:
            for process in processes:
                _kill(process)
        outcomes = [_outcome(folder, rank, processes[rank if len(processes) == size else 0].returncode) for rank in range(size)]
    if not check:
        return outcomes
    wrong = [f"rank {rank}: {one.error or f'ended with {one.status}'}" for rank, one in enumerate(outcomes) if one.error or one.kind or one.value is _NOTHING]
    if wrong:
        raise Failed("\n".join(wrong))
    return [one.value for one in outcomes]


_NOTHING = "the rank has said nothing"


def _start(command, env):
    return subprocess.Popen(command, env=env, start_new_session=True, stdin=subprocess.DEVNULL)


def _wait(processes, timeout):
    end = time.monotonic() + timeout
    for process in processes:
        try:
            process.wait(max(0.01, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return


def _kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _outcome(folder, rank, status):
    path = pathlib.Path(folder, f"rank{rank}")
    if not path.exists():
        return Outcome(value=_NOTHING, status=status)
    return Outcome(**pickle.loads(path.read_bytes()), status=status)


# ---- in a rank's process ---------------------------------------------------------------------------------------------

def _die_with_parent():
    """A launcher's own children aren't in its session."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _write(folder, rank, outcome):
    path = pathlib.Path(folder, f"rank{rank}")
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(outcome))
    part.rename(path)                   # at once, for a rank may be killed while it writes


def _load(about):
    sys.path[:0] = [str(HERE), str(pathlib.Path(about["file"]).parent)]
    spec = importlib.util.spec_from_file_location(pathlib.Path(about["file"]).stem, about["file"])
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, about["function"])


def main():
    _die_with_parent()
    folder, *place = sys.argv[1:]
    about = pickle.loads(pathlib.Path(folder, "about").read_bytes())
    rank, size = map(int, place) if place else (int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"]))
    try:
        lib = importlib.import_module(about["library"])
        lib.set_num_threads(1)
        function = _load(about)
        if about["group"]:
            where = {} if about["start"] == "mpiexec" else dict(init_method=f"file://{folder}/store", rank=rank, world_size=size)
            lib.distributed.init_process_group("gloo", **where)
            if about["library"] == "torch":
                lib.distributed.barrier()       # a rank that ends while Gloo still connects another makes that one fail
        value = function(lib, rank, size, *about["arguments"])
        outcome = dict(value=value)
    except BaseException as error:
        outcome = dict(error=traceback.format_exc(), kind=type(error).__name__)
    _write(folder, rank, outcome)
    if about["group"] and "error" not in outcome and lib.distributed.is_initialized():
        lib.distributed.destroy_process_group()
    if "error" in outcome:
        os._exit(1)                     # the others needn't wait


if __name__ == "__main__":
    main()
