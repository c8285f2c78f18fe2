"""torch.profiler: PyTorch's profiler interface over the events that the core emits.

    with tede.profiler.profile(record_shapes=True) as prof:
        with tede.profiler.record_function("forward"):
            model(x)
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")

Times are in microseconds and contain what listening costs, about a microsecond an event; `tede.explain` reports more of
each call and costs more.
"""
from tede.profiler import _listen
from tede.profiler._averages import DeviceType, EventList, FunctionEvent, FunctionEventAvg, Interval, Kernel  # noqa: F401
from tede.profiler._execution import ExecutionTraceObserver  # noqa: F401
from tede.profiler._listen import _RecordFunctionFast, record_function  # noqa: F401
from tede.profiler._profile import (  # noqa: F401
    KinetoStepTracker, ProfilerAction, ProfilerActivity, _ExperimentalConfig, _ProfilerStats, profile, schedule, supported_activities,
    tensorboard_trace_handler)
from tede.utils._traceback import gather_traceback, symbolize_tracebacks  # noqa: F401

__all__ = ["DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
           "supported_activities", "tensorboard_trace_handler"]


def kineto_available():
    """True: what PyTorch records by that library is recorded here, by our own."""
    return True


def _set_record_concrete_inputs_enabled_val(value):
    """Whether events keep arguments that aren't tensors, where shapes are recorded."""
    _listen.settings["concrete_inputs"] = value


def _set_fwd_bwd_enabled_val(value):
    """Whether traces have arrows from calls to their nodes in the backward pass."""
    _listen.settings["links"] = value
