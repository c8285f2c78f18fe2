"""ExecutionTraceObserver: the calls of a program with their operands, as a graph that other programs can run again.

A file is JSON with a list of nodes, in the order in which calls began: the process, the thread, and each call with the node that it is in
(ctrl_deps), inputs, outputs and attributes. A tensor is written as six numbers and words: its own number, its storage's, the offset there, how many
elements it has, the bytes of one, the device. Numbers stand for addresses, so that tensors in one place have one.

Within a profile the observer takes what the profile's listener is notified of, so that both name calls by the same numbers; alone it has a listener."""
import json
import math
import os
import time

from tede.profiler._listen import Listener, Session, running
from tede.profiler._trace import is_tensor

_SCHEMA = "1.1.1-chakra.0.0.4"
_PROCESS, _THREAD = "[pytorch|profiler|execution_trace|process]", "[pytorch|profiler|execution_trace|thread]"
_KINDS = ("cpu_op", "user_annotation")


class _Numbers:
    """Small numbers for addresses."""

    def __init__(self):
        self._of = {}

    def of(self, address):
        return self._of.setdefault(address, len(self._of) + 1)


class _Writer:
    """Nodes of calls."""

    def __init__(self):
        self._numbers = _Numbers()
        self.nodes = [self._node(1, _PROCESS, 0), self._node(2, _THREAD, 1)]
        self._ids = {}              # number of a call -> its node's

    @staticmethod
    def _node(number, name, parent, inputs=(), outputs=(), attributes=()):
        return {"id": number, "name": name, "ctrl_deps": parent, "inputs": _columns(inputs), "outputs": _columns(outputs),
                "attrs": [{"name": key, "type": kind, "value": value} for key, kind, value in attributes]}

    def add(self, event):
        number = self._ids[event.id] = len(self.nodes) + 1
        parent = event.cpu_parent
        attributes = [("rf_id", "uint64", event.id), ("fw_parent", "uint64", 0), ("seq_id", "int64", event.sequence_nr), ("scope", "uint64", 0),
                      ("tid", "uint64", event.thread), ("fw_tid", "uint64", event.fwd_thread), ("op_schema", "string", "")]
        self.nodes.append(self._node(number, event.trace_name, self._ids.get(parent.id, 2) if parent is not None else 2,
                                     [self._described(v) for v in getattr(event, "values", ())],
                                     [self._described(v) for v in getattr(event, "results", ())], attributes))

    def _described(self, value):
        """(value, shape, type) of an operand."""
        if is_tensor(value):
            address, storage, _, dtype, sizes, _, offset, device, *_ = value
            return ([self._numbers.of((address, tuple(sizes))), self._numbers.of(storage), offset, math.prod(sizes), dtype.itemsize, str(device)],
                    list(sizes), f"Tensor({str(dtype).rpartition('.')[2]})")
        if isinstance(value, (list, tuple)):
            parts = [self._described(v) for v in value]
            return [p[0] for p in parts], [p[1] for p in parts], f"GenericList[{','.join(p[2] for p in parts)}]"
        if isinstance(value, bool):
            return value, [], "Bool"
        if isinstance(value, int):
            return value, [], "Int"
        if isinstance(value, float):
            words = {math.inf: "Infinity", -math.inf: "-Infinity"}
            return "NaN" if math.isnan(value) else words.get(value, value), [], "Double"
        return ("<None>", [], "None") if value is None else (str(value), [], "String" if isinstance(value, str) else type(value).__name__.capitalize())


def _columns(described):
    values, shapes, types = zip(*described) if described else ((), (), ())
    return {"values": list(values), "shapes": list(shapes), "types": list(types)}


class ExecutionTraceObserver:
    """Writes the calls between start() and stop() to a file, when its callback is unregistered or the profile that has it ends.

        observer = ExecutionTraceObserver().register_callback("trace.json")
        with profile(execution_trace_observer=observer): ...
    """

    def __init__(self):
        self._path, self._execution_trace_running = None, False
        self._writer = self._listener = self._own = None        # _writer: there is one as long as the callback is registered

    def __del__(self):
        self.unregister_callback()

    def register_callback(self, output_file_path):
        """Say where the file is to be; gives the observer."""
        if self._writer is None:
            self._path, self._writer = output_file_path, _Writer()
            self._began = time.time_ns()
        return self

    is_registered = property(lambda self: self._writer is not None)

    def get_output_file_path(self):
        """Where the file is or will be; None before there was a callback."""
        return self._path

    def start(self):
        """Note calls from now on. In a profile that wasn't made with this observer they come without operands."""
        if self._writer is None or self._execution_trace_running:
            return
        listener = getattr(running, "listener", None)
        if listener is None:
            listener = self._own = Listener(Session({}), values=True)
            listener.start()
        self._listener, self._first, self._execution_trace_running = listener, len(listener.events), True

    def stop(self):
        """Note nothing any more, until it is started again."""
        if not self._execution_trace_running:
            return
        if self._own is not None:
            self._own.stop()
        for event in self._listener.events[self._first:]:
            if event.kind in _KINDS:
                self._writer.add(event)
        self._listener = self._own = None
        self._execution_trace_running = False

    def unregister_callback(self):
        """Write the file."""
        if self._writer is None:
            return
        self.stop()
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump({"schema": _SCHEMA, "pid": os.getpid(), "time": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._began / 1e9)),
                       "start_ts": self._began // 1000, "nodes": self._writer.nodes}, file, indent=1)
        self._writer = None

    def cleanup(self):
        self.unregister_callback()
