"""FunctionEvent and EventList: recorded calls, and their sums by name."""
import enum
from typing import NamedTuple

from tede.profiler._table import format_memory, format_time, table

_format_time, _format_memory = format_time, format_memory       # PyTorch's names: programs print times as its tables do


class DeviceType(enum.Enum):
    """Kinds of devices, numbered as in traces."""
    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class Interval:
    """Microseconds since the profile began."""
    __slots__ = ("start", "end")

    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        return self.end - self.start


class Kernel(NamedTuple):
    """What ran on a device."""
    name: str
    device: int
    duration: float


class FormattedTimesMixin:
    """Times as text, and per call."""

    @property
    def cpu_time(self):
        """Microseconds a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self):
        return self.device_time_total / self.count if self.count else 0.0

    cpu_time_str = property(lambda self: format_time(self.cpu_time))
    cpu_time_total_str = property(lambda self: format_time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: format_time(self.self_cpu_time_total))
    device_time_str = property(lambda self: format_time(self.device_time))
    device_time_total_str = property(lambda self: format_time(self.device_time_total))
    self_device_time_total_str = property(lambda self: format_time(self.self_device_time_total))


class FunctionEvent(FormattedTimesMixin):
    """One call: name, when (us since the profile began), how long, what memory it took, what was called inside.

    cpu_time_total: microseconds; self_cpu_time_total: without the calls inside. cpu_memory_usage: bytes taken less those freed;
    self_cpu_memory_usage: without the calls inside. sequence_nr: the number that the call's node in the backward pass has, too; -1 for none.
    Of calls that went to a device: its name with index, the number of the stream, when it began there (device_start) and how long the stream
    took (device_time_total).
    """
    # What few calls have is the class's until it is set.
    overload_name, scope, node_id, count = "", 0, -1, 1
    is_async = is_remote = is_legacy = is_user_annotation = False
    use_device = device_resource_id = None
    device_type, device_index, device_memory_usage, self_device_memory_usage = DeviceType.CPU, 0, 0, 0
    kind, device, stream, marks, device_start, device_time_total = "cpu_op", "cpu", None, None, 0.0, 0.0
    kernels = ()

    def __init__(self, id, name, thread, start_us, end_us, overload_name=None, fwd_thread=None, input_shapes=None, stack=None, scope=0,
                 use_device=None, cpu_memory_usage=0, device_memory_usage=0, is_async=False, is_remote=False, sequence_nr=-1, node_id=-1,
                 device_type=DeviceType.CPU, device_index=0, device_resource_id=None, is_legacy=False, flops=None, trace_name=None,
                 concrete_inputs=None, kwinputs=None, is_user_annotation=False):
        self.fill(id, name, thread, start_us, end_us)
        self.overload_name, self.trace_name, self.fwd_thread = overload_name or "", trace_name or name, fwd_thread or 0
        self.input_shapes, self.stack, self.scope = input_shapes or [], stack or [], scope
        self.concrete_inputs, self.kwinputs = concrete_inputs or [], kwinputs or {}
        self.use_device, self.cpu_memory_usage, self.device_memory_usage = use_device, cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.sequence_nr, self.node_id, self.flops = sequence_nr, node_id, flops or 0
        self.device_type, self.device_index = device_type, device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_user_annotation = is_user_annotation

    def fill(self, id, name, thread, start_us, end_us):
        """What every call has."""
        self.id, self.name, self.trace_name, self.thread, self.fwd_thread = id, name, name, thread, 0
        self.time_range = Interval(start_us, end_us)
        self.cpu_children, self.cpu_parent = [], None
        self.input_shapes, self.stack, self.concrete_inputs, self.kwinputs = [], [], [], {}
        self.cpu_memory_usage = self.flops = 0
        self.sequence_nr = -1
        return self

    @property
    def key(self):
        return self.name

    @property
    def cpu_time_total(self):
        return 0 if self.is_async else self.time_range.end - self.time_range.start

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self):
        """Without the calls inside that went to a stream themselves."""
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children) if self.device_time_total else 0.0

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def append_cpu_child(self, child):
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        self.cpu_parent = parent

    def append_kernel(self, name, device, duration):
        self.kernels = [*self.kernels, Kernel(name, device, duration)]

    def __repr__(self):
        return (f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} device_type={self.device_type} "
                f"node_id={self.node_id} cpu_time={self.cpu_time_str} start_us={self.time_range.start} end_us={self.time_range.end} "
                f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} input_shapes={self.input_shapes} "
                f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr}>")


class FunctionEventAvg(FormattedTimesMixin):
    """The sum of the calls of one name (and of one list of shapes, or stack, where they are kept apart)."""
    is_async = is_remote = is_legacy = False
    use_device = None

    def __init__(self, key=None, input_shapes="", stack=(), overload_name=""):
        self.key, self.input_shapes, self.stack, self.overload_name = key, input_shapes, list(stack), overload_name
        self.count, self.node_id, self.scope, self.flops = 0, -1, 0, 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.device_memory_usage = self.self_device_memory_usage = 0
        self.device_time_total = self.self_device_time_total = 0.0
        self.device, self.device_type = "cpu", DeviceType.CPU
        self.cpu_children, self.cpu_parent = [], None
        self.is_user_annotation = False

    def add(self, event, belongs=None):
        """A call, or another sum. belongs(event): whether another one is summed here, too; those of the same name if it isn't given."""
        if self.key is None:
            self.key, self.node_id, self.scope, self.device_type = event.key, event.node_id, event.scope, event.device_type
            self.overload_name = event.overload_name
        if event.key != self.key:
            raise AssertionError(f"calls of {event.key!r} don't belong to the sum of {self.key!r}")
        # A call inside one that is summed here is part of that one's time.
        parent = event.cpu_parent
        while parent is not None and not (belongs(parent) if belongs else parent.key == event.key):
            parent = parent.cpu_parent
        if parent is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
            self.device_memory_usage += event.device_memory_usage
            self.device_time_total += event.device_time_total
        self.count += event.count
        self.flops += event.flops
        self.self_device_time_total += event.self_device_time_total
        self.device = self.device if event.device == "cpu" else event.device
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.self_device_memory_usage += event.self_device_memory_usage
        self.is_user_annotation = event.is_user_annotation
        return self

    def __iadd__(self, other):
        return self.add(other)

    def __repr__(self):
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
                f"self_cpu_memory={format_memory(self.self_cpu_memory_usage)} count={self.count} input_shapes={self.input_shapes}>")


class EventList(list):
    """Events, or sums of them; a list with PyTorch's methods."""

    def __init__(self, *args, use_device=None, profile_memory=False, with_flops=False, with_shapes=False, with_stack=False, overloads=False,
                 session=None):
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops, self._session = use_device, profile_memory, with_flops, session
        self._with_shapes, self._with_stack, self._overloads = with_shapes, with_stack, overloads

    def _build_tree(self):
        self._populate_cpu_children()

    def _populate_cpu_children(self):
        """Which call was made within which, by their times: of one thread, and not async."""
        threads = {}
        for event in self:
            if not event.is_async and event.device_type is DeviceType.CPU:
                threads.setdefault((event.thread, event.node_id), []).append(event)
        for events in threads.values():
            open = []
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while open and (event.time_range.start >= open[-1].time_range.end or event.time_range.end > open[-1].time_range.end):
                    open.pop()
                if open:
                    open[-1].append_cpu_child(event)
                    event.set_cpu_parent(open[-1])
                open.append(event)

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """Sums by name, and by shapes, by the nearest frames of the stack, by overload if asked for."""
        def key_of(event):
            return (event.key, event.is_user_annotation, str(event.input_shapes) if group_by_input_shapes else "",
                    tuple(event.stack[:group_by_stack_n]), event.overload_name if group_by_overload_name else "")

        sums = {}
        for event in self:
            key = key_of(event)
            if key not in sums:
                sums[key] = FunctionEventAvg(event.key, event.input_shapes if group_by_input_shapes else "", key[3], key[4])
                sums[key].node_id, sums[key].scope, sums[key].device_type = event.node_id, event.scope, event.device_type
            sums[key].add(event, lambda other, key=key: key_of(other) == key)
        return EventList(sums.values(), use_device=self._use_device, profile_memory=self._profile_memory, with_flops=self._with_flops,
                         with_shapes=group_by_input_shapes, with_stack=group_by_stack_n > 0, overloads=group_by_overload_name)

    def total_average(self):
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.flops += event.flops
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            total.self_device_time_total += event.self_device_time_total
        total.device_time_total = total.self_device_time_total
        total.cpu_time_total = total.self_cpu_time_total
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """The events as text. sort_by: "cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "cpu_memory_usage",
        "self_cpu_memory_usage", and as many with device for cpu; row_limit: rows at most, -1 for all; time_unit: "s", "ms" or "us"."""
        return table(self, sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header,
                     top_level_events_only, time_unit, memory=self._profile_memory, flops=self._with_flops, shapes=self._with_shapes,
                     stack=self._with_stack, overloads=self._overloads)

    def _repr_html_(self):
        """The twenty with the most time of their own, as a table of a notebook."""
        import html
        from tede._explain.page import STYLE, table
        from tede.profiler._table import cells
        titles, rows, totals = cells(self, "self_cpu_time_total", 20, 75, 55, 80, False, None, memory=self._profile_memory,
                                     flops=self._with_flops, shapes=self._with_shapes, stack=self._with_stack, overloads=self._overloads)
        left = f"<p class=dim>and {len(self) - 20} more, in table(row_limit=-1)</p>" if len(self) > 20 else ""
        shown = table([*titles[1:], titles[0]], [[*row[1:], row[0]] for row in rows])
        return f'<div class="tede"><style>{STYLE}</style>{shown}{left}<p>{html.escape("; ".join(totals))}</p></div>'

    def export_chrome_trace(self, path):
        """Write a trace that Perfetto and chrome://tracing open."""
        from tede.profiler._trace import write
        write(path, self, self._session)

    def supported_export_stacks_metrics(self):
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Write the stacks with their times, a line each, for a flame graph; events have them by with_stack=True."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        name = metric if metric == "self_cpu_time_total" else "self_device_time_total"
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                if event.stack and int(getattr(event, name)) > 0:
                    frames = ";".join(frame.translate(str.maketrans(" ;\t\n", "____")) for frame in reversed(event.stack))
                    file.write(f"{frames} {int(getattr(event, name))}\n")

    def __str__(self):
        return self.table()
