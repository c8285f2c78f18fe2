"""A profile as a file for Perfetto or chrome://tracing, with the fields that PyTorch's traces have."""
import gzip
import json
import os
import socket
import sys

# Names and numbers of dtypes in traces.
_TYPES = {"uint8": ("unsigned char", 0), "int8": ("signed char", 1), "int16": ("short", 2), "int32": ("int", 3), "int64": ("long int", 4),
          "float16": ("c10::Half", 5), "float32": ("float", 6), "float64": ("double", 7), "complex64": ("c10::complex<float>", 9),
          "complex128": ("c10::complex<double>", 10), "bool": ("bool", 11), "bfloat16": ("c10::BFloat16", 15)}


def _short(dtype):
    return str(dtype).rpartition(".")[2]


def is_tensor(value):
    """Whether an argument, as listeners get it, is a tensor."""
    return isinstance(value, tuple) and len(value) == 10


def shape_of(value):
    """The sizes of a tensor, or of each of a list; nothing of other arguments."""
    if is_tensor(value):
        return list(value[4])
    return [list(v[4]) for v in value if is_tensor(v)] if isinstance(value, list) and any(map(is_tensor, value)) else []


def _strides_of(value):
    if is_tensor(value):
        return list(value[5])
    return [list(v[5]) for v in value if is_tensor(v)] if isinstance(value, list) and any(map(is_tensor, value)) else []


def _kind_of(value):
    if is_tensor(value):
        return _TYPES.get(_short(value[3]), (_short(value[3]),))[0]
    if isinstance(value, list):
        return "TensorList" if any(map(is_tensor, value)) else "ScalarList"
    return "" if value is None or isinstance(value, str) or type(value).__name__ == "device" else "Scalar"


def concrete(value):
    """What isn't a tensor, as a number, a list of numbers or text; an empty list for tensors."""
    if is_tensor(value) or isinstance(value, list) and any(map(is_tensor, value)):
        return []
    if type(value).__name__ == "dtype":
        return _TYPES.get(_short(value), ("", -1))[1]
    return value if value is None or isinstance(value, (bool, int, float, list, str)) else str(value)


def _arguments(event, number, shapes):
    args = {"External id": event.id, "Record function id": event.id, "Ev Idx": number}
    if event.sequence_nr >= 0:
        args |= {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread}
    values = getattr(event, "values", None) if shapes else None
    if values is not None:
        args |= {"Input Dims": [shape_of(v) for v in values], "Input Strides": [_strides_of(v) for v in values],
                 "Input type": [_kind_of(v) for v in values],
                 "Concrete Inputs": ["" if concrete(v) in ([], None) else str(concrete(v)) for v in values]}
    for key, value in event.kwinputs.items():
        if isinstance(value, str) and key != "stream":
            args[key] = "None" if '"' in value else value
        elif isinstance(value, (bool, int, float)):
            args[key] = value
    return args


def _links(events):
    """Arrows from calls to their nodes in the backward pass, in the order of the latter."""
    forward = {e.sequence_nr: e for e in events if e.sequence_nr >= 0 and not e.fwd_thread}
    links, seen = [], set()
    for e in events:
        if e.fwd_thread and e.sequence_nr in forward and e.sequence_nr not in seen:
            seen.add(e.sequence_nr)
            links.append((forward[e.sequence_nr], e))
    return links


def as_dict(events, session):
    """The trace as JSON has it. session: of a listener, or None for events without one."""
    pid, tid = (session.pid, session.native_thread) if session else (os.getpid(), 0)
    began, ended = 0.0, session.length_us if session else max((e.time_range.end for e in events), default=0.0)
    common = {"pid": pid, "tid": tid}
    made = [{"ph": "M", "name": name, "ts": began, "pid": pid, "tid": 0, "args": args}
            for name, args in (("process_name", {"name": os.path.basename(sys.executable)}), ("process_labels", {"labels": "CPU"}),
                               ("process_sort_index", {"sort_index": pid}))]
    made += [{"ph": "M", "name": "thread_name", "ts": began, **common, "args": {"name": f"thread {tid}"}}]
    for number, e in enumerate(events):
        if e.kind == "cpu_instant_event":           # the session's memory has them
            continue
        made.append({"ph": "X", "cat": e.kind, "name": e.trace_name, **common, "ts": e.time_range.start, "dur": e.time_range.elapsed_us(),
                     "args": _arguments(e, number, session is None or "record_shapes" in session.options)})
        if e.device != "cpu":
            made.append({"ph": "X", "cat": "kernel", "name": e.name, "pid": e.device, "tid": f"stream {e.stream}", "ts": e.device_start,
                         "dur": e.device_time_total, "args": {"device": e.device, "stream": e.stream}})
    if session:
        for number, (start, end) in enumerate(_links(events) if session.links else (), 1):
            made.append({"ph": "s", "id": number, **common, "ts": start.time_range.start, "cat": "fwdbwd", "name": "fwdbwd"})
            made.append({"ph": "f", "id": number, **common, "ts": end.time_range.start, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"})
        made += [{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", **common, "ts": when,
                  "args": {"Total Allocated": total, "Total Reserved": 0, "Bytes": nbytes, "Addr": address, "Device Id": -1, "Device Type": 0}}
                 for when, address, nbytes, total in session.memory]
        made += [{"ph": "X", "cat": "python_function", "name": call.name, **common, "ts": call.start, "dur": call.end - call.start,
                  "args": {"Python id": call.id, "Python parent id": call.parent}} for call in session.python]
    made += [{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": began,
              "dur": ended - began, "args": {"Op count": 0}},
             {"ph": "M", "name": "process_sort_index", "ts": began, "pid": "Spans", "tid": 0, "args": {"sort_index": 536870912}},
             {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": began},
             {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": ended}]
    head = {"schemaVersion": 1, "deviceProperties": [], "host_name": socket.gethostname(), "displayTimeUnit": "ms"}
    if session:
        head |= {"baseTimeNanoseconds": session.wall, **session.options, **session.metadata}
    return {**head, "traceEvents": made}


def write(path, events, session=None):
    """As a file; compressed if its name ends in .gz."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump({**as_dict(events, session), "traceName": str(path)}, file)
