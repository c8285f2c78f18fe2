"""Counters that aggregate numbers over windows of time, events, and their handlers."""
import datetime
from importlib import import_module

import pytest


@pytest.fixture
def monitor(lib):
    return import_module(lib.__name__ + ".monitor")


@pytest.fixture
def events(monitor):
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_a_full_window_emits_its_aggregations(monitor, events):
    kinds = monitor.Aggregation
    stat = monitor.Stat("loss", (kinds.SUM, kinds.MEAN, kinds.COUNT, kinds.MAX, kinds.MIN), datetime.timedelta(days=1000), 3)
    assert stat.name == "loss" and stat.count == 0 and set(stat.get().values()) == {0.0}
    stat.add(2)
    stat.add(-3)
    assert stat.count == 2 and not events
    stat.add(4)
    assert stat.count == 0
    assert stat.get() == {kinds.SUM: 3.0, kinds.MEAN: 1.0, kinds.COUNT: 3.0, kinds.MAX: 4.0, kinds.MIN: -3.0}
    assert [event.name for event in events] == ["torch.monitor.Stat"]
    assert events[0].data == {"loss.sum": 3.0, "loss.mean": 1.0, "loss.count": 3.0, "loss.max": 4.0, "loss.min": -3.0}
    stat.add(5)                         # the window has ended
    assert stat.count == 0 and len(events) == 1


def test_a_window_ends_with_its_time(monitor, events):
    stat = monitor.Stat("steps", (monitor.Aggregation.COUNT,), datetime.timedelta(milliseconds=1))
    while not events:
        stat.add(1)
    assert events[0].data["steps.count"] >= 1


def test_handlers_are_called_until_they_are_unregistered(monitor, events):
    others = []
    handle = monitor.register_event_handler(others.append)
    event = monitor.Event("mine", datetime.datetime(2024, 5, 6), {"a": 1, "b": 2.5, "c": "x", "d": True})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert events == [event, event] and others == [event]
    assert event.data == {"a": 1, "b": 2.5, "c": "x", "d": True} and event.timestamp == datetime.datetime(2024, 5, 6)


def test_scalars_are_written_for_tensorboard(monitor):
    class Writer(list):
        def add_scalar(self, *arguments, walltime):
            self.append((*arguments, walltime))
    writer, when = Writer(), datetime.datetime(2024, 5, 6)
    handler = monitor.TensorboardEventHandler(writer)
    handler(monitor.Event(monitor.STAT_EVENT, when, {"a.sum": 1.5}))
    handler(monitor.Event("other", when, {"b": 2.0}))
    assert writer == [("a.sum", 1.5, when.timestamp())]


def test_what_is_no_event_is_refused(monitor):
    for make in (lambda: monitor.Event("x", 1, {}), lambda: monitor.Event("x", datetime.datetime.now(), {"a": [1]}),
                 lambda: monitor.log_event(3), lambda: monitor.unregister_event_handler(3)):
        with pytest.raises(TypeError):
            make()
