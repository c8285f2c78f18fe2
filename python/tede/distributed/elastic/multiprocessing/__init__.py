"""start_processes: copies of a function or a command, each with its arguments, variables and log files.

    context = start_processes("trainer", train, args={0: (0.1,), 1: (0.2,)}, envs={0: {"RANK": "0"}, 1: {"RANK": "1"}}, logs_specs=DefaultLogsSpecs("logs"))
    result = context.wait()                 # .return_values, or .failures after all others have been ended
"""
from tede.distributed.elastic.multiprocessing.api import (
    DefaultLogsSpecs, LogsDest, LogsSpecs, MultiprocessContext, PContext, RunProcsResult, SignalException, Std, SubprocessContext, _validate_full_rank, to_map)
from tede.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record

__all__ = ["start_processes", "MultiprocessContext", "PContext", "RunProcsResult", "SignalException", "Std", "LogsDest", "LogsSpecs", "DefaultLogsSpecs",
           "SubprocessContext", "to_map", "ChildFailedError", "ProcessFailure", "record"]


def start_processes(name, entrypoint, args, envs, logs_specs, log_line_prefixes=None, start_method="spawn", numa_options=None):
    """A context of as many processes as there are `args`; a command is run by itself, a function by multiprocessing's `start_method`."""
    _validate_full_rank(args, len(args), "args")
    _validate_full_rank(envs, len(args), "envs")
    if numa_options is not None:
        raise NotImplementedError("start_processes: processes aren't bound to NUMA nodes here")
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, logs_specs, log_line_prefixes)
    else:
        context = MultiprocessContext(name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes)
    try:
        context.start()
        return context
    except Exception:
        context.close()
        raise
