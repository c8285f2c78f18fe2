"""torch.profiler: PyTorch's profiler interface over the events that the core emits.

    with tede.profiler.profile(record_shapes=True) as prof:
        with tede.profiler.record_function("forward"):
            model(x)
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")

Times are in microseconds and contain what listening costs, about a microsecond an event; `tede.explain` reports more of
each call and costs more.
"""
from tede.profiler._averages import EventList, FunctionEvent, FunctionEventAvg  # noqa: F401
from tede.profiler._profile import (  # noqa: F401
    ProfilerAction, ProfilerActivity, profile, record_function, schedule, supported_activities,
    tensorboard_trace_handler)
from tede.utils._traceback import gather_traceback, symbolize_tracebacks  # noqa: F401


def kineto_available():
    """False: that library isn't used here."""
    return False
