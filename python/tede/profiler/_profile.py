"""profile, record_function and the schedule of a profile over many steps."""
import enum
import functools
import os
import socket
import sys
import threading
import time

from tede import _C
from tede._explain.listen import listen, unlisten
from tede.profiler._averages import EventList, FunctionEvent

_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END = 0, 1, 5, 6, 9, 10
_running = threading.local()


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


class _Listener:
    """Gathers the events of one recording on one thread."""

    def __init__(self, shapes, stack, timing=None):
        self.events, self.open, self.shapes, self.stack, self.timing = [], [], shapes, stack, timing
        self.thread = threading.get_ident()

    def begin(self, name, when, kind="cpu_op"):
        event = FunctionEvent(name, when, self.thread, kind)
        event.id = len(self.events) + 1
        if self.open:
            event.cpu_parent = self.open[-1]
            self.open[-1].cpu_children.append(event)
        self.events.append(event)
        self.open.append(event)
        return event

    def end(self, when):
        if self.open:
            event = self.open.pop()
            event.end = when
            if event.marks:
                self.timing.end(event)

    def on_event(self, kind, when, name, keys, pointer, numbers, more):
        if kind == _CALL:
            event = self.begin("aten::" + name, when)
            if self.timing:
                self.timing.begin(event, keys, more[1])
            if self.shapes:
                event.input_shapes = [list(v[4]) if isinstance(v, tuple) and len(v) == 10 else [] for v in more[1]]
            if self.stack and len(self.open) == 1:
                frame = sys._getframe(1)
                while frame:
                    event.stack.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
                    frame = frame.f_back
        elif kind == _NODE:
            self.begin(f"autograd::engine::evaluate_function: {name}", when)
        elif kind in (_RETURN, _NODE_END):
            self.end(when)
        elif self.open:
            self.open[-1].self_cpu_memory_usage += numbers[0] if kind == _ALLOCATE else -numbers[0]


class _DeviceTiming:
    """Events on the streams of devices, around each call that goes to one: what a stream did between them is the call's device time."""

    def __init__(self):
        self.names = {bit: name for bit, name in _C._key_names().items() if bit < 12 and name.lower() in sys.modules["tede._devices"].loaded}
        self.mask = sum(1 << bit for bit in self.names)
        self.origins = {}               # by device: an event, and the time when it was recorded

    def begin(self, event, keys, values):
        if not keys & self.mask:
            return
        kinds = [name.lower() for bit, name in self.names.items() if keys >> bit & 1]
        device = next((v[7] for v in _records(values) if v[7].type in kinds), None)
        where = str(device) if device is not None else f"{kinds[0]}:{_C._device_current(kinds[0])}"
        if where not in self.origins:
            self.origins[where] = _C.Event(where, enable_timing=True), time.monotonic_ns()
            self.origins[where][0].record()
        stream = _C._stream_current(where)
        event.device, event.stream = where, stream.stream_id
        event.marks = _C.Event(where, enable_timing=True), _C.Event(where, enable_timing=True)
        event.marks[0].record(stream)

    def end(self, event):
        event.marks[1].record(_C._stream_current(event.device))

    def finish(self, events):
        """Wait for what was recorded, and replace the marks by times."""
        for where in self.origins:
            _C._device_synchronize(where)
        for event in events:
            if event.marks:
                (begin, end), event.marks = event.marks, None
                origin, when = self.origins[event.device]
                event.device_start = when + 1e6 * origin.elapsed_time(begin)
                event.device_time_total = 1e3 * begin.elapsed_time(end)


def _records(values):
    for value in values:
        if isinstance(value, list):
            yield from _records(value)
        elif isinstance(value, tuple) and len(value) == 10:
            yield value


class profile:
    """Record the operators that this thread calls; a context manager, or start() and stop().

    activities: ProfilerActivity.CPU, and CUDA, XPU, ... or PrivateUse1 for what devices that were loaded do meanwhile, by stream; all of them
    where none are named. schedule: what to do in which step(), see `schedule`;
    on_trace_ready: called with the profile when a recording is complete. record_shapes, profile_memory, with_stack: what
    to keep beside the times. The other arguments are accepted; there is nothing that they could record.
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None,
                 execution_trace_observer=None, acc_events=False, use_cuda=None, custom_trace_id_callback=None):
        named = set(activities) if activities is not None else supported_activities()
        self._times_devices = bool(named - {ProfilerActivity.CPU} and supported_activities() - {ProfilerActivity.CPU})
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.step_num, self.current_action = 0, ProfilerAction.NONE
        self._listener, self._events = None, EventList(profile_memory=profile_memory)

    def start(self):
        self._enter(self.schedule(self.step_num))

    def stop(self):
        recording = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._finish()
        self.current_action = ProfilerAction.NONE
        if recording and self.on_trace_ready:
            self.on_trace_ready(self)

    def step(self):
        """Tell that a step is done, for the schedule."""
        before = self.current_action
        self.step_num += 1
        after = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
            if self.on_trace_ready:
                self.on_trace_ready(self)
        self._enter(after)

    def _enter(self, action):
        self.current_action = action
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._listener:
            timing = _DeviceTiming() if self._times_devices else None
            self._listener = _Listener(self.record_shapes, self.with_stack, timing)
            kinds = 1 << _CALL | 1 << _RETURN | 1 << _NODE | 1 << _NODE_END
            if self.profile_memory:
                kinds |= 1 << _ALLOCATE | 1 << _FREE
            listen(self._listener.on_event, kinds, self.record_shapes or timing is not None)
            _running.listener = self._listener
        elif not recording:
            self._finish()

    def _finish(self):
        if self._listener:
            unlisten(self._listener.on_event)
            now = time.monotonic_ns()
            while self._listener.open:
                self._listener.end(now)
            if self._listener.timing:
                self._listener.timing.finish(self._listener.events)
            self._events = EventList(self._listener.events, profile_memory=self.profile_memory)
            self._listener = _running.listener = None

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
        return self._events

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """Sums by name: an EventList, whose table() is text."""
        return self._events.key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path):
        """Write the calls for Perfetto or chrome://tracing; compressed if the path ends in .gz."""
        if str(path).endswith(".gz"):
            import gzip
            plain = str(path)[:-3]
            self._events.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(path, "wb") as target:
                target.write(source.read())
            os.remove(plain)
        else:
            self._events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write the stacks with their times, for a flame graph; needs with_stack=True."""
        with open(path, "w", encoding="utf-8") as file:
            for event in self._events:
                if event.stack:
                    file.write(";".join(reversed(event.stack)).replace(" ", "_") + f" {int(getattr(event, metric))}\n")

    def add_metadata(self, key, value):
        """Accepted for compatibility: traces hold no metadata."""

    add_metadata_json = add_metadata


class record_function:
    """A named part of the program; a context manager and a decorator. It costs next to nothing where nothing records."""

    def __init__(self, name, args=None):
        self.name, self.args, self._listener = name, args, None

    def __enter__(self):
        self._listener = getattr(_running, "listener", None)
        if self._listener:
            self._listener.begin(self.name, time.monotonic_ns(), "user_annotation")
        return self

    def __exit__(self, *error):
        if self._listener and self._listener is getattr(_running, "listener", None):
            self._listener.end(time.monotonic_ns())
        self._listener = None

    def __call__(self, function):
        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)
        return recorded
