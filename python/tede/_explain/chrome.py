"""A tree of calls as a Chrome trace, which Perfetto and chrome://tracing open (the "Trace Event Format")."""
import json
import os

from tede._explain.text import notes, title


def trace(steps, began):
    """The trace as a string of JSON: complete events ("X"), microseconds from the beginning."""
    pid = os.getpid()
    events = [{"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": "tede"}}]

    def add(step):
        event = {"name": step.overload if step.kind == "call" else step.name, "cat": step.kind, "ph": "X", "pid": pid,
                 "tid": step.thread[0], "ts": (step.began - began) / 1e3, "dur": (step.ended - step.began) / 1e3, "args": {"call": title(step)}}
        for kind, text in notes(step):
            event["args"][kind] = f"{event['args'][kind]}; {text}" if kind in event["args"] else text
        if step.site:
            event["args"]["site"] = f"{step.site[0]}:{step.site[1]}"
        events.append(event)
        for child in step.steps:
            add(child)

    for step in steps:
        add(step)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
