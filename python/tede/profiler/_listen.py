"""What one recording gathers: calls, memory, Python's functions; and the ways in which programs name parts of themselves in it."""
import functools
import os
import sys
import threading
import time

from tede import _C
from tede._explain.listen import listen, unlisten
from tede.profiler._averages import FunctionEvent
from tede.profiler._trace import concrete, is_tensor, shape_of

_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END = 0, 1, 5, 6, 9, 10
running = threading.local()                 # .listener: this thread's
counts = {"listeners": 0, "events": 0}      # now, in the process; calls so far, which have numbers
settings = {"concrete_inputs": True, "links": True}
_AUTOGRAD = 1 << next(bit for bit, name in _C._key_names().items() if name == "Autograd")


class Session:
    """What a trace says beside the calls. Times are microseconds since its beginning."""

    def __init__(self, options):
        self.pid, self.native_thread, self.options, self.metadata = os.getpid(), threading.get_native_id(), options, {}
        self.length_us = 0.0
        self.begin()
        self.memory, self.python, self.links = [], [], settings["links"]        # memory: (when, address, bytes, total)

    def begin(self):
        self.origin, self.wall = time.monotonic_ns(), time.time_ns()

    def since(self, nanoseconds):
        return (nanoseconds - self.origin) / 1e3


class Listener:
    """Gathers the events of one recording on one thread."""

    def __init__(self, session, shapes=False, stack=False, memory=False, flops=False, timing=None, values=False):
        self.session, self.shapes, self.stack, self.timing, self._memory = session, shapes, stack, timing, memory
        self.values = values            # whether events keep their operands and results
        self.events, self.open, self.thread, self._total = [], [], threading.get_ident(), 0
        self._formulas, self._python = _formulas() if flops else None, PythonCalls(session) if stack else None

    def start(self):
        self.session.begin()
        self.pause(False)
        counts["listeners"] += 1
        if self._python:
            self._python.start()

    def stop(self):
        if self._python:
            self._python.stop()
        self.pause(True)
        counts["listeners"] -= 1
        now = time.monotonic_ns()
        while self.open:
            self.end(now)
        self.session.length_us = self.session.since(now)
        if self.timing:
            self.timing.finish(self.events)

    def adjust_steps(self):
        """Let steps end with the Python function that called step(), so that neither's span in a trace cuts through the other's."""
        steps = [e for e in self.events if e.trace_name.startswith("ProfilerStep#")]
        for step, after in zip(steps, [*steps[1:], None]):
            start, end = step.time_range.start, step.time_range.end
            step.time_range.end = max((call.end for call in self.session.python if start < call.start < end < call.end), default=end)
            if after is not None:
                after.time_range.start = max(step.time_range.end, after.time_range.start)

    def pause(self, on):
        """Hear of nothing while it is on."""
        if on:
            unlisten(self.on_event)
            running.listener = None
            while self.open:
                self.end(time.monotonic_ns())
        elif getattr(running, "listener", None) is not self:
            kinds = 1 << _CALL | 1 << _RETURN | 1 << _NODE | 1 << _NODE_END
            if self._memory:
                kinds |= 1 << _ALLOCATE | 1 << _FREE
            listen(self.on_event, kinds, self.shapes or self.values or self._formulas is not None or self.timing is not None)
            running.listener = self

    def begin(self, name, when, kind="cpu_op"):
        event = FunctionEvent.__new__(FunctionEvent)
        at = self.session.since(when)
        counts["events"] += 1
        event.fill(counts["events"], name, self.thread, at, at)
        if kind != "cpu_op":
            event.kind, event.is_user_annotation = kind, kind == "user_annotation"
        if self.open:
            event.cpu_parent = self.open[-1]
            self.open[-1].cpu_children.append(event)
        self.events.append(event)
        self.open.append(event)
        return event

    def beside(self, name, shapes):
        """A call that goes on by itself, beside those after it; the function that is given ends it."""
        event = self.begin(name, time.monotonic_ns())
        self.open.pop()
        event.is_async, event.input_shapes = True, shapes if self.shapes else []

        def end():
            event.time_range.end = self.session.since(time.monotonic_ns())
        return end

    def end(self, when, upto=None):
        """End the innermost call, or all up to this one."""
        while self.open and (upto is None or upto in self.open):
            event = self.open.pop()
            event.time_range.end = self.session.since(when)
            if event.marks:
                self.timing.end(event)
            if self.open:
                self.open[-1].cpu_memory_usage += event.cpu_memory_usage
            if upto is None or event is upto:
                return

    def on_event(self, kind, when, name, keys, pointer, numbers, more):
        if kind == _CALL:
            event = self.begin("aten::" + name, when)
            if keys & _AUTOGRAD and _C.is_grad_enabled():
                event.sequence_nr = _C._next_sequence()
            if self.timing:
                self.timing.begin(event, keys, more[1])
            if self.values or self.shapes:
                event.values = _said(*more[:2])
            if self.shapes:
                event.input_shapes = [shape_of(v) for v in event.values]
                if settings["concrete_inputs"]:
                    event.concrete_inputs = [concrete(v) for v in event.values]
            if self._formulas:
                event.call = more[0].partition("(")[0], more[1]
            if self.stack and len(self.open) == 1:
                frame = sys._getframe(1)
                while frame:
                    event.stack.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
                    frame = frame.f_back
        elif kind == _NODE:
            name = "torch::autograd::AccumulateGrad" if name == "AccumulateGrad" else name
            for title in (f"autograd::engine::evaluate_function: {name}", name):
                event = self.begin(title, when)
                event.sequence_nr, event.fwd_thread = numbers[0], self.thread if numbers[0] >= 0 else 0
        elif kind == _RETURN:
            if self.values and self.open:
                self.open[-1].results = more[1] or ()
            if self._formulas and self.open:
                self._count_flops(self.open[-1], more[1])
            self.end(when)
        elif kind == _NODE_END:
            self.end(when)
            self.end(when)
        elif name:                      # a device's memory
            if self.open:
                self.open[-1].device_memory_usage += numbers[0] if kind == _ALLOCATE else -numbers[0]
        else:
            nbytes = numbers[0] if kind == _ALLOCATE else -numbers[0]
            self._total += nbytes
            self.session.memory.append((self.session.since(when), pointer, nbytes, self._total))
            if not self.open:
                self.begin("[memory]", when, "cpu_instant_event").cpu_memory_usage = nbytes
                self.end(when)
            else:
                self.open[-1].cpu_memory_usage += nbytes

    def _count_flops(self, event, results):
        name, values = getattr(event, "call", ("", ()))
        formula = self._formulas.get(name.removeprefix("aten::").partition(".")[0])
        if formula is not None and results and is_tensor(results[0]):
            event.flops = int(formula(*(tuple(v[4]) if is_tensor(v) else v for v in values), out_val=tuple(results[0][4])))


@functools.lru_cache(4096)
def _pinned(schema):
    """Where a factory's arguments say whether its memory is pinned; None for other operators."""
    arguments = schema.partition("(")[2].rpartition(" -> ")[0]
    names = [a.partition("=")[0].rpartition(" ")[2] for a in arguments.split(", ") if a != "*"]
    return names.index("pin_memory") if not arguments.startswith("Tensor") and "pin_memory" in names else None


def _said(schema, values):
    """The values of a call's arguments, as PyTorch hands them on: memory that isn't said to be pinned is said not to be."""
    at = _pinned(schema)
    return values if at is None or values[at] is not None else [*values[:at], False, *values[at + 1:]]


@functools.cache
def _formulas():
    """Names of operators, and their formulas, which take shapes in the place of tensors."""
    from tede.utils.flop_counter import flop_registry
    return {str(packet).rpartition(".")[2]: formula for packet, formula in flop_registry.items()}


class _Call:
    __slots__ = ("name", "start", "end", "id", "parent")

    def __init__(self, name, start, id, parent):
        self.name, self.start, self.end, self.id, self.parent = name, start, start, id, parent


_OURS = os.path.dirname(__file__), os.path.dirname(sys.modules[listen.__module__].__file__)


class PythonCalls:
    """Python's functions, called while it is on; those of modules' forward stand in a call named after the module. Another profiler of
    Python's functions keeps its place: then there are none."""

    def __init__(self, session):
        self._session, self._open, self._modules, self._on = session, [], {}, False

    def start(self):
        if sys.getprofile() is None:
            self._on = True
            sys.setprofile(self._notice)

    def stop(self):
        if self._on:
            sys.setprofile(None)
            while self._open:
                self._leave()
        self._on = False

    def _enter(self, frame, name):
        calls = self._session.python
        call = _Call(name, self._session.since(time.monotonic_ns()), len(calls) + 1, self._open[-1][1].id if self._open else None)
        calls.append(call)
        self._open.append((frame, call))

    def _leave(self):
        _, call = self._open.pop()
        call.end = self._session.since(time.monotonic_ns())

    def _notice(self, frame, kind, argument):
        if kind == "call":
            code = frame.f_code
            if code.co_filename.startswith(_OURS):
                return
            if code.co_name == "forward" and isinstance(module := frame.f_locals.get("self"), _C._ModuleBase):
                names = self._modules.setdefault(type(module).__name__, {})
                self._enter(frame, f"nn.Module: {type(module).__name__}_{names.setdefault(id(module), len(names))}")
            self._enter(frame, f"{_relative(code.co_filename)}({code.co_firstlineno}): {code.co_name}")
        elif kind == "return":
            while self._open and self._open[-1][0] is frame:        # a frame that was entered before isn't there
                self._leave()


@functools.lru_cache(4096)
def _relative(filename):
    """A file's name below the folder that Python found it in."""
    folders = [folder for folder in sys.path if folder and filename.startswith(folder + os.sep)]
    return os.path.relpath(filename, max(folders, key=len)) if folders else filename


class DeviceTiming:
    """Events on the streams of devices, around each call that goes to one: what a stream did between them is the call's device time."""

    def __init__(self, session):
        self.names = {bit: name for bit, name in _C._key_names().items() if bit < 12 and name.lower() in sys.modules["tede._devices"].loaded}
        self.mask = sum(1 << bit for bit in self.names)
        self.origins, self._session = {}, session               # by device: an event, and the time when it had happened

    def begin(self, event, keys, values):
        if not keys & self.mask:
            return
        kinds = [name.lower() for bit, name in self.names.items() if keys >> bit & 1]
        device = next((v[7] for v in _records(values) if v[7].type in kinds), None)
        where = str(device) if device is not None else f"{kinds[0]}:{_C._device_current(kinds[0])}"
        stream = _C._stream_current(where)
        if where not in self.origins:                           # `record()` alone is the stream of the current device, which may be another one
            origin = _C.Event(where, enable_timing=True)
            origin.record(stream)
            origin.synchronize()                                # streams run beside each other: what comes later on another one is to be later
            self.origins[where] = origin, time.monotonic_ns()
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
                event.device_start = self._session.since(when) + 1e3 * origin.elapsed_time(begin)
                event.device_time_total = 1e3 * begin.elapsed_time(end)


def _records(values):
    for value in values:
        if isinstance(value, list):
            yield from _records(value)
        elif is_tensor(value):
            yield value


# ---- parts of a program ---------------------------------------------------------------------------------------------

class record_function:
    """A named part of the program; a context manager and a decorator. It costs next to nothing where nothing records."""
    _kind = "user_annotation"

    def __init__(self, name, args=None):
        self.name, self.args, self._listener, self.event = name, args, None, None

    def __enter__(self):
        self._listener = getattr(running, "listener", None)
        if self._listener:
            self.event = self._listener.begin(self.name, time.monotonic_ns(), self._kind)
            if self.args is not None and self._listener.shapes:
                self.event.input_shapes = [[]]
        return self

    def __exit__(self, *error):
        if self._listener and self._listener is getattr(running, "listener", None):
            self._listener.end(time.monotonic_ns(), self.event)
        self._listener = self.event = None

    def __call__(self, function):
        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)
        return recorded


def _recorded(value):
    """An operand as listeners get it."""
    if isinstance(value, (list, tuple)):
        return [_recorded(v) for v in value]
    if not isinstance(value, _C.Tensor):
        return value
    storage = value.untyped_storage()
    return (storage.data_ptr() + value.storage_offset() * value.itemsize, storage.data_ptr(), storage.nbytes(), value.dtype, value.size(), value.stride(),
            value.storage_offset(), value.device, value.requires_grad, None)


class _RecordFunctionFast(record_function):
    """As record_function, with operands, whose shapes are kept where shapes are, and values by keyword for the trace."""
    _kind = "cpu_op"

    def __init__(self, name, input_values=None, keyword_values=None):
        super().__init__(name)
        self._inputs, self._keywords = input_values or (), keyword_values or {}

    def __enter__(self):
        super().__enter__()
        if self._listener and self._listener.shapes:
            self.event.input_shapes = [list(v.shape) if isinstance(v, _C.Tensor) else [] for v in self._inputs]
            self.event.kwinputs = dict(self._keywords)
        if self._listener and self._listener.values:
            self.event.values = [_recorded(v) for v in self._inputs]
        return self


def record_function_with_args_enter(name, *args):
    """Begin a part of the program with operands; what it gives ends it."""
    return _RecordFunctionFast(name, args).__enter__()
