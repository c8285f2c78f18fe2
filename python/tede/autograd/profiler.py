"""The older entry to the profiler: ``with autograd.profiler.profile() as prof``."""
from tede.profiler import (  # noqa: F401
    DeviceType, EventList, FunctionEvent, FunctionEventAvg, KinetoStepTracker, _listen, _ProfilerStats, itt, kineto_available, record_function)
from tede.profiler import profile as _profile

__all__ = ["KinetoStepTracker", "EventList", "FunctionEvent", "emit_itt", "emit_nvtx", "profile", "record_function"]


class profile(_profile):
    """As `tede.profiler.profile`, with the older arguments; `enabled=False` records nothing."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, with_flops=False,
                 profile_memory=False, with_stack=False, with_modules=False, use_kineto=False, use_cpu=True, experimental_config=None,
                 acc_events=False, **more):
        super().__init__(record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops,
                         with_modules=with_modules, experimental_config=experimental_config, acc_events=acc_events)
        self.enabled = enabled

    _stats = property(_profile._stats)

    def start(self):
        if self.enabled:
            super().start()

    def table(self, *args, **kwargs):
        return self.events().table(*args, **kwargs)

    def __str__(self):
        return self.table()

    def total_average(self):
        return self.events().total_average()

    @property
    def self_cpu_time_total(self):
        return self.events().self_cpu_time_total


class _emit:
    """Calls as ranges for a tool outside, which isn't there: `enabled=False` does nothing, the rest is an error."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            self._refuse()
            return self

    def __exit__(self, *error):
        return False


class emit_nvtx(_emit):
    """Ranges for NVIDIA's tools."""

    def _refuse(self):
        raise AssertionError("Torch not compiled with CUDA enabled")


class emit_itt(_emit):
    """Ranges for Intel's VTune."""
    _refuse = staticmethod(itt.range_push)


def __getattr__(name):
    if name == "_is_profiler_enabled":          # by any thread
        return _listen.counts["listeners"] > 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
