"""tede.explain's recorder: makes a tree of calls of the events that the core emits."""
import collections
import linecache
import math
import os
import sys
import threading
import time

from tede import _C
from tede._explain import symbols
from tede._explain.listen import listen, unlisten

(CALL, RETURN, LOOP, ITERATE, PARALLEL, ALLOCATE, FREE, COPY, LIBRARY, NODE, NODE_END, SAVE, FALLBACK) = range(13)
_KEYS = _C._key_names()
_DEVICES = (1 << 12) - 1
# The stage of a call's time that an event begins; other events leave the stage as it is. What no loop, copy or library reports is the
# call's own: looking for the kernel, checks, autograd, and all that a kernel does which reports nothing.
_STAGES = {CALL: "own", LOOP: "loop", ITERATE: "loop", PARALLEL: "loop", COPY: "copy", FALLBACK: "fallback", LIBRARY: "library",
           SAVE: "own", RETURN: "own", NODE_END: "own"}
_AUTOGRAD = next(bit for bit, name in _KEYS.items() if name == "Autograd")
_COPIES = 33554432          # TD_OP_COPIES: a call of such an operator is meant to copy; one inside of another call may be a surprise
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

TensorRecord = collections.namedtuple("TensorRecord", "data storage nbytes dtype shape strides offset device requires_grad node")
TensorRecord.__doc__ = "A tensor as it was: addresses of its data and storage, and what describes it."


def key_names(keys):
    """The names of the bits of a key set, the highest, which is dispatched on first, in front."""
    if keys & _DEVICES & ~sum(1 << bit for bit in _KEYS):       # of one that was loaded since
        _KEYS.update(_C._key_names())
    return [_KEYS.get(bit, str(bit)) for bit in reversed(range(40)) if keys >> bit & 1]


class Step:
    """A call of an operator, or a node of a backward pass.

    name, schema, arguments, results: of a call; tensors in them are `TensorRecord`.
    site: (file, line, text) of the Python line, for calls that come from Python; of a node, of the call that recorded it.
    keys: the names of the dispatch keys, the highest first. fallbacks: (why, bytes) where a device's call was computed on the CPU.
    kernel: the device's kernel. loops: (function, instruction set) of pointwise loops.
    iterations: (sizes, strides by operand, number of operands, dimensions before) of the iterator.
    parallel: (length, grain, threads). libraries: (function, sizes). copies: (TensorRecord, why, bytes).
    allocated, freed: bytes, those of steps inside included. saved: (node, TensorRecord).
    began, ended: nanoseconds, with what listening took; duration: without. stages: of that, {stage: nanoseconds}: in a "loop", "copy",
    "library" or "fallback" from its event on, else the call's "own"; steps inside count for themselves.
    thread: where it ran, (number, name). steps: what was called inside.
    """

    def __init__(self, kind, name, began):
        self.kind, self.name, self.began, self.ended = kind, name, began, began
        self.schema, self.flags, self.arguments, self.results, self.site = "", 0, (), (), None
        self.keys, self.kernel, self.failed = [], "", False
        self.loops, self.iterations, self.parallel, self.libraries, self.copies, self.saved, self.fallbacks, self.steps = ([] for _ in range(8))
        self.allocated = self.freed = self.allocations = self.released = 0
        self.thread = (0, "")
        self.stages, self._stage, self._mark, self._lost = {}, "own", began, 0

    @property
    def overload(self):
        return self.schema.partition("(")[0] or self.name

    @property
    def duration(self):
        """Nanoseconds, without what listening took."""
        return max(self.ended - self.began - self._lost, 0)

    def pause(self, when):
        """Until now it was in a stage."""
        self.stages[self._stage] = self.stages.get(self._stage, 0) + max(when - self._mark, 0)

    def tensors(self):
        """(name of the argument, TensorRecord) of the arguments that are tensors."""
        names = [part.split("=")[0].split()[-1] for part in
                 self.schema.partition("(")[2].rpartition(") ->")[0].split(", ") if part not in ("*", "")]
        for name, value in zip(names, self.arguments):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, TensorRecord):
                    yield name, item

    def viewed(self):
        """For each result that is a tensor: the name of the argument whose storage it shares, or None."""
        owners = {x.storage: name for name, x in self.tensors() if x.nbytes}
        return [owners.get(x.storage) if x.nbytes else None for value in self.results
                for x in (value if isinstance(value, list) else [value]) if isinstance(x, TensorRecord)]

    def copied(self):
        """Bytes that the call copied on the way to a result that might have been a view, or to an operand that fits."""
        return sum(step.results[0].nbytes for _, step in self.copying())

    def copying(self):
        """(the caller, the call that copied) of what copied() counts. A call that is there to copy hides nothing, nor does what it calls."""
        if self.kind == "call" and not self.flags & _COPIES:
            for step in self.steps:
                if step.copies_as_asked():
                    yield self, step
                else:
                    yield from step.copying()

    def copies_as_asked(self):
        """Whether it is a call that is there to copy, as contiguous() and to(), and did so."""
        return bool(self.flags & _COPIES and self.results and isinstance(self.results[0], TensorRecord) and self.viewed() == [None])

    @property
    def own(self):
        """Nanoseconds without those of the calls inside."""
        return max(self.duration - sum(step.duration for step in self.steps), 0)

    def traverse(self):
        """This step and all inside it."""
        yield self
        for step in self.steps:
            yield from step.traverse()


def recorded(value):
    if isinstance(value, tuple) and len(value) == 10:
        return TensorRecord(*value)
    return [recorded(item) for item in value] if isinstance(value, list) else value


def _site():
    """The line of Python that made the call: the innermost one outside of the package."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if not frame:
        return None
    return frame.f_code.co_filename, frame.f_lineno, linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


class Recorder:
    """Listens to this thread from start() to stop(). `steps` are the outermost calls, in order."""

    def __init__(self):
        self.steps, self._open = [], []
        self._recorded = {}                        # number of a node of the backward pass -> the line whose call recorded it
        self.outside = Step("outside", "", 0)      # memory allocated and freed between the calls
        self._lost = 0                             # nanoseconds spent here
        self.began = self.ended = 0

    @property
    def duration(self):
        """Nanoseconds from start() to stop(), without what listening took."""
        return max((self.ended or time.monotonic_ns()) - self.began - self._lost, 0)

    def start(self):
        symbols.name_of(_C._anchor())        # reads the table now, not during the first call
        self.began = time.monotonic_ns()
        listen(self._on_event)

    def stop(self):
        unlisten(self._on_event)
        self.ended = time.monotonic_ns()
        while self._open:
            self._close(self.ended)

    def traverse(self):
        for step in self.steps:
            yield from step.traverse()

    def _open_step(self, kind, name, when):
        step = Step(kind, name, when)
        thread = threading.current_thread()
        step.thread = thread.ident, thread.name
        step._lost = -self._lost
        (self._open[-1].steps if self._open else self.steps).append(step)
        self._open.append(step)
        return step

    def _close(self, when):
        step = self._open.pop()
        step.ended = when
        step._lost += self._lost
        if self._open:
            for field in ("allocated", "freed", "allocations"):
                setattr(self._open[-1], field, getattr(self._open[-1], field) + getattr(step, field))

    def _on_event(self, kind, when, *event):
        step = self._open[-1] if self._open else self.outside
        step.pause(when)
        self._take(kind, when, *event)
        step = self._open[-1] if self._open else self.outside
        step._stage = _STAGES.get(kind, step._stage)
        now = step._mark = time.monotonic_ns()
        self._lost += now - when

    def _take(self, kind, when, name, keys, pointer, numbers, more):
        if kind == CALL:
            step = self._open_step("call", name, when)
            step.schema, values, step.flags = more
            step.arguments = tuple(recorded(v) for v in values)
            step.keys, step.kernel = key_names(keys), symbols.name_of(pointer)
            if len(self._open) == 1 or self._open[-2].kind == "node":
                step.site = _site()
            if keys >> _AUTOGRAD & 1 and _C.is_grad_enabled():      # one that records nothing leaves the number to the next
                self._recorded[_C._next_sequence()] = self._open[0].site
            return
        if kind == NODE:
            self._open_step("node", name, when).site = self._recorded.get(numbers[0])
            return
        step = self._open[-1] if self._open else self.outside
        if kind == RETURN:
            step.results = tuple(recorded(v) for v in more[1])
            step.failed = not more[1] and not step.schema.endswith("-> ()")
            self._close(when)
        elif kind == NODE_END:
            step.released = numbers[0]
            self._close(when)
        elif kind == LOOP:
            step.loops.append((symbols.name_of(pointer), ("v2", "v3", "v4")[numbers[0]]))
        elif kind == ITERATE:
            step.iterations.append((*more, numbers[0], numbers[1]))
        elif kind == PARALLEL:
            step.parallel.append(numbers[:3])
        elif kind == ALLOCATE:
            step.allocated += numbers[0]
            step.allocations += 1
        elif kind == FREE:
            step.freed += numbers[0]
        elif kind == COPY:
            step.copies.append((recorded(more), name, numbers[0]))
        elif kind == LIBRARY:
            step.libraries.append((name, tuple(n for n in numbers if n)))
        elif kind == SAVE:
            step.saved.append((name, recorded(more)))
        elif kind == FALLBACK:
            step.fallbacks.append((name, numbers[1]))


def why_copied(asked, copy):
    """Why the call `asked` made a copy on the way to its result."""
    given, made = next((x for _, x in copy.tensors()), None), copy.results[0]
    if given is None:
        return f"{asked.name} needs separate memory"
    if given.dtype != made.dtype:
        return f"{asked.name} makes {_short(made.dtype)} of {_short(given.dtype)}"
    if given.device != made.device:
        return f"{asked.name} brings it from {given.device} to {made.device}"
    for key, what in (("Conjugate", "conjugated"), ("Negative", "negated")):
        if key in asked.keys:
            return f"an operand is only marked as {what}; {asked.name} reads elements, which were written out"
    seen = next((value for value in asked.results if isinstance(value, TensorRecord)), None)
    reason = seen and math.prod(seen.shape) == math.prod(given.shape) and _why_no_view(given.shape, given.strides, seen.shape)
    if reason:
        return f"{list(given.shape)} with strides {list(given.strides)} can't be seen as {list(seen.shape)}{reason}"
    if given.strides != made.strides:
        return f"{asked.name} wants strides {list(made.strides)}, there were {list(given.strides)}"
    return f"{asked.name} needs separate memory"


def _short(dtype):
    return str(dtype).rpartition(".")[2]


def _why_no_view(shape, strides, seen):
    """The innermost two dimensions that would have to become one and can't."""
    cuts, behind = {1}, 1
    for n in reversed(seen):
        behind *= n
        cuts.add(behind)
    kept, behind = [d for d, n in enumerate(shape) if n != 1], 1
    for outer, inner in zip(reversed(kept[:-1]), reversed(kept)):
        behind *= shape[inner]
        if behind not in cuts and strides[outer] != shape[inner] * strides[inner]:
            return f": dimensions {outer} and {inner} can't be one, steps along {outer} are {strides[outer]}, not {shape[inner]} x {strides[inner]}"
    return ""


def why_apart(sizes, strides, names):
    """Why the iterator could not merge the dimensions that are left: the first pair and the operand that objects."""
    for d in range(len(sizes) - 1):
        for operand, row in enumerate(strides):
            if row[d + 1] != row[d] * sizes[d]:
                return (f"dimensions {d} and {d + 1} stay apart: {names[operand]} steps {row[d + 1]} bytes from row to row, "
                        f"not {sizes[d]} x {row[d]}")
    return ""


def why_overload(step):
    """Which of an operator's overloads was taken, in words."""
    operator = _C._operators.get(step.name)
    schemas = [s for s in (operator.schemas if operator else []) if "Tensor(a!) out" not in s]
    if len(schemas) < 2:
        return ""
    arguments = list(step.arguments)
    while arguments and arguments[-1] is None:
        arguments.pop()
    given = ", ".join("Tensor" if isinstance(a, TensorRecord) else type(a).__name__ for a in arguments)
    names = [s.partition("(")[0] for s in schemas]
    at = names.index(step.overload) + 1 if step.overload in names else 0
    return f"{at} of {len(names)}, the first that takes ({given})" if at else ""
