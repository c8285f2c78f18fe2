"""FunctionEvent and EventList: recorded calls, and their sums by name as a table."""
import json
import os


class FunctionEvent:
    """One call: name, when (us since the profile began), how long, what memory it took, what was called inside.

    cpu_time_total: microseconds; self_cpu_time_total: without the calls inside. cpu_memory_usage: bytes taken less those
    freed; self_cpu_memory_usage: without the calls inside. Of calls that went to a device: its name with index, the number of the stream, when it
    began there (device_start) and how long the stream took (device_time_total).
    """

    __slots__ = ("name", "key", "thread", "start", "end", "cpu_children", "cpu_parent", "input_shapes", "stack", "kind",
                 "self_cpu_memory_usage", "is_user_annotation", "id", "count", "device", "stream", "marks", "device_start", "device_time_total")

    def __init__(self, name, start, thread, kind="cpu_op"):
        self.name = self.key = name
        self.start = self.end = start
        self.thread, self.kind = thread, kind
        self.cpu_children, self.cpu_parent = [], None
        self.input_shapes, self.stack, self.self_cpu_memory_usage = [], [], 0
        self.is_user_annotation = kind == "user_annotation"
        self.id = self.count = 1
        self.device, self.stream, self.marks, self.device_start, self.device_time_total = "cpu", None, None, 0.0, 0.0

    @property
    def cpu_time_total(self):
        return (self.end - self.start) / 1e3

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self):
        """Without the calls inside that went to a stream themselves."""
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children) if self.device_time_total else 0.0

    @property
    def cpu_memory_usage(self):
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self):
        return (f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} cpu_time={_format_time(self.cpu_time_total)} "
                f"input_shapes={self.input_shapes}>")


class FunctionEventAvg:
    """The sum of the calls of one name (and of one list of shapes, where they are kept apart)."""

    def __init__(self, key, input_shapes=""):
        self.key, self.input_shapes, self.count = key, input_shapes, 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_time_total = self.self_device_time_total = 0.0
        self.device = "cpu"
        self.is_user_annotation = False

    def add(self, event, belongs=None):
        """belongs(event): whether another one is summed here, too; those of the same name if it isn't given."""
        self.count += 1
        # A call inside one that is summed here is part of that one's time.
        parent = event.cpu_parent
        while parent is not None and not (belongs(parent) if belongs else parent.key == event.key):
            parent = parent.cpu_parent
        if parent is None:
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
            self.device_time_total += event.device_time_total
        self.self_device_time_total += event.self_device_time_total
        self.device = self.device if event.device == "cpu" else event.device
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.is_user_annotation = event.is_user_annotation

    @property
    def cpu_time(self):
        """Microseconds a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={_format_time(self.self_cpu_time_total)} "
                f"cpu_time={_format_time(self.cpu_time)} count={self.count}>")


class EventList(list):
    """Events, or sums of them; a list with PyTorch's methods."""

    def __init__(self, *args, profile_memory=False, with_shapes=False):
        super().__init__(*args)
        self.profile_memory, self.with_shapes = profile_memory, with_shapes

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0):
        """Sums by name, and by shapes if asked for."""
        def key_of(event):
            return event.key, str(event.input_shapes) if group_by_input_shape else "", tuple(event.stack[:group_by_stack_n])

        sums = {}
        for event in self:
            key = key_of(event)
            if key not in sums:
                sums[key] = FunctionEventAvg(event.key, key[1])
            sums[key].add(event, lambda other, key=key: key_of(other) == key)
        return EventList(sums.values(), profile_memory=self.profile_memory, with_shapes=group_by_input_shape)

    def total_average(self):
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            total.self_device_time_total += event.self_device_time_total
        total.device_time_total = total.self_device_time_total
        total.cpu_time_total = total.self_cpu_time_total
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False):
        """The events as text. sort_by: "cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "cpu_memory_usage",
        "self_cpu_memory_usage"; row_limit: rows at most, -1 for all."""
        events = [e for e in self if not top_level_events_only or getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            events.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        whole = sum(e.self_cpu_time_total for e in events) or 1.0
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if self.profile_memory:
            titles += ["CPU Mem", "Self CPU Mem"]
        kind = next((e.device.partition(":")[0].upper() for e in events if e.device != "cpu"), "")
        device_whole = sum(e.self_device_time_total for e in events) or 1.0
        if kind:
            titles += [f"Self {kind}", f"Self {kind} %", f"{kind} total", f"{kind} time avg"]
        titles.append("# of Calls")
        if self.with_shapes:
            titles.append("Input Shapes")
        rows = []
        for e in events if row_limit < 0 else events[:row_limit]:
            name = e.key if len(e.key) <= max_name_column_width else e.key[:max_name_column_width - 3] + "..."
            row = [name, f"{100 * e.self_cpu_time_total / whole:.2f}%", _format_time(e.self_cpu_time_total),
                   f"{100 * e.cpu_time_total / whole:.2f}%", _format_time(e.cpu_time_total), _format_time(e.cpu_time_total / e.count)]
            if self.profile_memory:
                row += [_memory(e.cpu_memory_usage), _memory(e.self_cpu_memory_usage)]
            if kind:
                row += [_format_time(e.self_device_time_total), f"{100 * e.self_device_time_total / device_whole:.2f}%",
                        _format_time(e.device_time_total), _format_time(e.device_time_total / e.count)]
            row.append(str(e.count))
            if self.with_shapes:
                row.append(str(e.input_shapes)[:max_shapes_column_width])
            rows.append(row)
        widths = [max(len(row[i]) for row in [titles, *rows]) + 2 for i in range(len(titles))]
        rule = "  ".join("-" * width for width in widths)
        lines = [header] if header else []
        lines += [rule, "  ".join(t.rjust(w) for t, w in zip(titles, widths)), rule]
        lines += ["  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows]
        lines += [rule, f"Self CPU time total: {_format_time(whole if events else 0.0)}"]
        return "\n".join([*lines, *([f"Self {kind} time total: {_format_time(device_whole)}"] if kind else []), ""])

    def export_chrome_trace(self, path):
        """Write a trace that Perfetto and chrome://tracing open."""
        pid = os.getpid()
        began = min((e.start for e in self), default=0)
        events = [{"ph": "X", "cat": e.kind, "name": e.name, "pid": pid, "tid": e.thread, "ts": (e.start - began) / 1e3,
                   "dur": e.cpu_time_total, "args": {"Input Dims": e.input_shapes} if e.input_shapes else {}} for e in self]
        events += [{"ph": "X", "cat": "kernel", "name": e.name, "pid": e.device, "tid": f"stream {e.stream}", "ts": (e.device_start - began) / 1e3,
                    "dur": e.device_time_total, "args": {"device": e.device, "stream": e.stream}} for e in self if e.device != "cpu"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events}, file)

    def __str__(self):
        return self.table()


def _format_time(microseconds):
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def _memory(nbytes):
    for unit, scale in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} b"
