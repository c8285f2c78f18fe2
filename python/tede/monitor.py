"""torch.monitor: counters and events of a program, and handlers that are notified of them.

A Stat collects numbers for a window of time, or until it has as many as were asked for, and then emits one Event with their
aggregations. Handlers are process-wide and are called by the thread that emits.
"""
import datetime
import enum
import threading
import time

__all__ = ["Aggregation", "Event", "EventHandlerHandle", "STAT_EVENT", "Stat", "TensorboardEventHandler", "data_value_t", "log_event",
           "register_event_handler", "unregister_event_handler"]

STAT_EVENT = "torch.monitor.Stat"
data_value_t = int | float | bool | str


class Aggregation(enum.Enum):
    """What a Stat says of the numbers that it was given."""
    VALUE = 0           # the last one
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __str__(self):
        return f"Aggregation.{self.name}"


class Event:
    """Something that happened: its name, when it did, and data by name."""

    def __init__(self, name, timestamp, data):
        if not isinstance(name, str):
            raise TypeError(f"Event: name must be a str, got {type(name).__name__}")
        if not isinstance(timestamp, datetime.datetime):
            raise TypeError(f"Event: timestamp must be a datetime.datetime, got {type(timestamp).__name__}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, data_value_t):
                raise TypeError(f"Event: data must map str to int, float, bool or str, got {key!r}: {value!r}")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What register_event_handler returns."""

    def __init__(self, handler):
        self._handler = handler


_handlers, _lock = [], threading.Lock()


def register_event_handler(callback):
    """Calls callback(event) for each event from now on; unregister_event_handler takes the result."""
    if not callable(callback):
        raise TypeError(f"register_event_handler(): callback must be callable, got {type(callback).__name__}")
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler):
    """Ends what register_event_handler began."""
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler(): handler must be an EventHandlerHandle, got {type(handler).__name__}")
    with _lock:
        if handler in _handlers:
            _handlers.remove(handler)


def log_event(event):
    """Hands the event to all handlers."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): event must be an Event, got {type(event).__name__}")
    with _lock:
        handlers = list(_handlers)
    for handle in handlers:
        handle._handler(event)


_OF = {Aggregation.VALUE: lambda numbers: numbers[-1] if numbers else 0.0,
       Aggregation.MEAN: lambda numbers: sum(numbers) / len(numbers) if numbers else 0.0,
       Aggregation.COUNT: lambda numbers: float(len(numbers)), Aggregation.SUM: lambda numbers: float(sum(numbers)),
       Aggregation.MAX: lambda numbers: max(numbers, default=0.0), Aggregation.MIN: lambda numbers: min(numbers, default=0.0)}


class Stat:
    """Stat(name, aggregations, window_size, max_samples): aggregates numbers over windows of time.

    A window ends after ``window_size``, a timedelta, or with ``max_samples`` numbers; what is added to it afterwards is dropped.
    Then an event ``torch.monitor.Stat`` has ``name.sum`` and the like.
    """

    def __init__(self, name, aggregations, window_size, max_samples=2**63 - 1):
        if not isinstance(window_size, datetime.timedelta) or window_size <= datetime.timedelta(0):
            raise TypeError(f"Stat: window_size must be a positive datetime.timedelta, got {window_size!r}")
        self._name, self._aggregations, self._most = str(name), [Aggregation(a) for a in aggregations], max_samples
        self._window, self._logged, self._length = 0, -1, window_size.total_seconds()
        self._numbers, self._last, self._guard = [], [], threading.RLock()

    @property
    def name(self):
        return self._name

    @property
    def count(self):
        """How many numbers the current window has."""
        with self._guard:
            return len(self._numbers)

    def _end_window(self):
        window = int(time.monotonic() / self._length) + 1
        if (window != self._window or len(self._numbers) >= self._most) and self._logged != window:
            self._log()
            self._logged, self._window = self._window, window
        return self._logged == window

    def _log(self):
        self._last, self._numbers = self._numbers, []
        if self._last:
            log_event(Event(STAT_EVENT, datetime.datetime.now(), {f"{self._name}.{a.name.lower()}": v for a, v in self.get().items()}))

    def add(self, v):
        """Adds a number to the current window."""
        v = float(v)
        with self._guard:
            if not self._end_window():
                self._numbers.append(v)
                self._end_window()

    def get(self):
        """The aggregations of the window that ended last, zeros if none has."""
        with self._guard:
            return {a: _OF[a](self._last) for a in self._aggregations}

    def __del__(self):
        if getattr(self, "_numbers", None):
            self._log()


class TensorboardEventHandler:
    """A handler that writes the aggregations of Stats to a SummaryWriter, as scalars."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())
