"""Numbers that a launcher reports, by group and name, to a handler: none by default."""
import abc
import time
from collections import namedtuple
from functools import wraps

__all__ = ["MetricsConfig", "MetricHandler", "ConsoleMetricHandler", "NullMetricHandler", "MetricStream", "configure", "getStream", "prof", "profile",
           "put_metric", "publish_metric", "get_elapsed_time_ms", "MetricData"]

MetricData = namedtuple("MetricData", ["timestamp", "group_name", "name", "value"])


class MetricsConfig:
    def __init__(self, params=None):
        self.params = params or {}


class MetricHandler(abc.ABC):
    @abc.abstractmethod
    def emit(self, metric_data):
        """Take a MetricData."""


class ConsoleMetricHandler(MetricHandler):
    def emit(self, metric_data):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    def emit(self, metric_data):
        pass


class MetricStream:
    def __init__(self, group_name, handler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name, metric_value):
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_metrics_map = {}
_default_metrics_handler = NullMetricHandler()


def configure(handler, group=None):
    """Let a group's numbers, or all others', go to a handler."""
    if group is None:
        global _default_metrics_handler
        _default_metrics_handler = handler
    else:
        _metrics_map[group] = handler


def getStream(group):
    return MetricStream(group, _metrics_map.get(group, _default_metrics_handler))


def _get_metric_name(fn):
    parts = fn.__qualname__.split(".")
    return f"{fn.__module__.split('.')[-1]}.{parts[0]}" if len(parts) == 1 else ".".join(parts[-2:])


def prof(fn=None, group="torchelastic"):
    """Report how often a function succeeds and fails, and its milliseconds."""
    def wrap(f):
        @wraps(f)
        def wrapper(*args, **kwargs):
            key, start = _get_metric_name(f), time.time()
            try:
                result = f(*args, **kwargs)
            except Exception:
                put_metric(f"{key}.failure", 1, group)
                raise
            finally:
                put_metric(f"{key}.duration.ms", get_elapsed_time_ms(start), group)
            put_metric(f"{key}.success", 1, group)
            return result
        return wrapper
    return wrap(fn) if fn else wrap


def profile(group=None):
    return prof(group=group)


def put_metric(metric_name, metric_value, metric_group="torchelastic"):
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group, metric_name, metric_value):
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds):
    return int((time.time() - start_time_in_seconds) * 1000)
