"""profile, and the schedule of a profile over many steps."""
import enum
import functools
import json
import os
import socket
import sys
import time
from dataclasses import dataclass

from tede.profiler._averages import EventList
from tede.profiler._listen import DeviceTiming, Listener, Session, record_function


class ProfilerActivity(enum.Enum):
    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What the profiler does during a step."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    """CPU, and for each device that was loaded the activity of its name, else PrivateUse1."""
    devices = sys.modules.get("tede._devices")
    names = [name.upper() for name in devices.loaded] if devices else []
    return {ProfilerActivity.CPU} | {ProfilerActivity.__members__.get(name, ProfilerActivity.PrivateUse1) for name in names}


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function from a step's number to a ProfilerAction: skip `skip_first` steps, then again and again (`repeat`
    times; 0: without end) wait, warm up, and record the active ones."""
    if min(wait, warmup, active, repeat, skip_first) < 0 or not active:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step >= cycle * repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for `on_trace_ready` that writes each trace to a file in a folder."""
    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json")
        prof.export_chrome_trace(path + ".gz" if use_gzip else path)
    return handler


class _ExperimentalConfig:
    """Options of PyTorch's profiler for what only its own library records: kept, and but for adjust_profiler_step not acted on."""

    def __init__(self, **options):
        self.__dict__.update(options)


class KinetoStepTracker:
    """Steps of a program that several parties count, a profile and optimizers: the most that one of them has counted."""
    _steps, _current = {}, 0

    @classmethod
    def init_step_count(cls, requester):
        cls._steps[requester] = cls._current

    @classmethod
    def erase_step_count(cls, requester):
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        cls._steps[requester] = cls._steps.get(requester, cls._current) + 1
        cls._current = max(cls._current, *cls._steps.values())
        return cls._current

    @classmethod
    def current_step(cls):
        return cls._current


@dataclass
class _ProfilerStats:
    """What the profile itself took."""
    profiling_window_duration_sec: float = 0
    number_of_events: int = 0
    profiler_prepare_call_duration_us: int = 0
    profiler_enable_call_duration_us: int = 0
    profiler_disable_call_duration_us: int = 0
    parse_kineto_call_duration_us: int = 0
    function_events_build_tree_call_duration_us: int = 0


class profile:
    """Record the operators that this thread calls; a context manager, or start() and stop().

    activities: ProfilerActivity.CPU, and CUDA, XPU, ... or PrivateUse1 for what devices that were loaded do meanwhile, by stream; all of them
    where none are named. schedule: what to do in which step(), see `schedule`; on_trace_ready: called with the profile when a recording is
    complete. record_shapes, profile_memory, with_flops: what to keep beside the times; with_stack: where calls come from, and Python's functions
    in the trace; acc_events: keep the events of all cycles of a schedule; execution_trace_observer: writes the same calls to its file;
    experimental_config: with adjust_profiler_step, steps end with the Python function that called step(). The other arguments are accepted;
    there is nothing that they could record. with_flops counts products and convolutions: a column of the table. In a notebook a profile
    shows itself as a table.
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None, execution_trace_observer=None,
                 acc_events=False, use_cuda=None, custom_trace_id_callback=None, post_processing_timeout_s=None):
        named = set(activities) if activities is not None else supported_activities()
        self.activities = named
        self._times_devices = bool(named - {ProfilerActivity.CPU} and supported_activities() - {ProfilerActivity.CPU})
        self.schedule, self.record_steps = schedule or (lambda step: ProfilerAction.RECORD), schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.experimental_config, self.acc_events = with_flops, with_modules, experimental_config, acc_events
        self.step_num, self.current_action, self.step_rec_fn = 0, ProfilerAction.NONE, None
        self.preset_metadata, self._metadata, self._counts = {}, {}, _ProfilerStats()
        self._session = self._listener = self._raw = None
        self.execution_trace_observer = execution_trace_observer
        self._events = self._list([])

    @property
    def profiler(self):
        """The recording, which here is the profile itself."""
        return self

    function_events = property(lambda self: self.events())

    def _list(self, events):
        return EventList(events, profile_memory=self.profile_memory, with_flops=self.with_flops, session=self._session)

    def start(self):
        if self.record_steps:
            KinetoStepTracker.init_step_count("Torch Profiler")
        self._enter(self.schedule(self.step_num))
        self._begin_step()

    def stop(self):
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._end_step()
        self._finish()
        self.current_action = ProfilerAction.NONE
        if self.record_steps:
            KinetoStepTracker.erase_step_count("Torch Profiler")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()
        if recording and self.on_trace_ready:
            self.on_trace_ready(self)

    def step(self):
        """Tell that a step is done, for the schedule."""
        before = self.current_action
        self._end_step()
        self.step_num += 1
        after = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
            if self.on_trace_ready:
                self.on_trace_ready(self)
        self._enter(after)
        KinetoStepTracker.increment_step("Torch Profiler")
        self._begin_step()

    def _begin_step(self):
        if self.record_steps and self._listener:
            self.step_rec_fn = record_function("ProfilerStep*").__enter__()         # one name in sums; the trace has the number
            self.step_rec_fn.event.trace_name = f"ProfilerStep#{self.step_num}"

    def _end_step(self):
        if self.step_rec_fn:
            self.step_rec_fn.__exit__()
        self.step_rec_fn = None

    def _enter(self, action):
        self.current_action = action
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._listener:
            began = time.perf_counter_ns()
            options = {"with_stack": self.with_stack, "profile_memory": self.profile_memory, "record_shapes": self.record_shapes,
                       "with_flops": self.with_flops, "with_modules": self.with_modules}
            self._session = Session({key: 1 for key, value in options.items() if value})
            timing = DeviceTiming(self._session) if self._times_devices else None
            self._listener = Listener(self._session, self.record_shapes, self.with_stack, self.profile_memory, self.with_flops, timing,
                                      values=self.execution_trace_observer is not None)
            ready = time.perf_counter_ns()
            self._counts.profiler_prepare_call_duration_us = max(1, (ready - began) // 1000)
            self._listener.start()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.start()
            self._counts.profiler_enable_call_duration_us = max(1, (time.perf_counter_ns() - ready) // 1000)
        elif not recording:
            self._finish()

    def _finish(self):
        if self._listener:
            began = time.perf_counter_ns()
            self._listener.stop()
            if getattr(self.experimental_config, "adjust_profiler_step", False):
                self._listener.adjust_steps()
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.stop()
            self._raw = [*(self._events if self.acc_events else ()), *self._listener.events]
            self._session.metadata = {**self.preset_metadata, **self._metadata}
            self._listener, self._metadata = None, {}
            self._counts.profiling_window_duration_sec = self._session.length_us / 1e6
            self._counts.profiler_disable_call_duration_us = max(1, (time.perf_counter_ns() - began) // 1000)
            if self.acc_events:
                self.events()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def __call__(self, function):
        @functools.wraps(function)
        def profiled(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return profiled

    def events(self):
        """All calls, in the order in which they began."""
        if self._raw is not None:
            began = time.perf_counter_ns()
            self._events, self._raw = self._list(self._raw), None
            self._counts.number_of_events = len(self._events)
            took = max(1, (time.perf_counter_ns() - began) // 1000)
            self._counts.parse_kineto_call_duration_us = self._counts.function_events_build_tree_call_duration_us = took
        return self._events

    def _stats(self):
        return self._counts

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Sums by name: an EventList, whose table() is text."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path):
        """Write the calls for Perfetto or chrome://tracing; compressed if the path ends in .gz."""
        if self._session:
            self._session.metadata = {**self._session.metadata, **self._metadata}
        self.events().export_chrome_trace(path)

    def _repr_html_(self):
        return self.key_averages()._repr_html_()

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write the stacks with their times, for a flame graph; needs with_stack=True."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key, value):
        """A text for the trace that is being recorded."""
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        """As add_metadata, of a value in JSON."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key, value):
        """As add_metadata_json, for all traces of this profile."""
        self.preset_metadata[key] = json.loads(value)

    def toggle_collection_dynamic(self, enable, activities):
        """Stop recording, or go on, within a recording, if CPU is among the activities."""
        if ProfilerActivity.CPU in activities and self._listener:
            self._listener.pause(not enable)
