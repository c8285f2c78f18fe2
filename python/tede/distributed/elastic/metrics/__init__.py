"""Numbers that a launcher reports."""
from tede.distributed.elastic.metrics.api import (
    ConsoleMetricHandler, MetricData, MetricHandler, MetricsConfig, MetricStream, NullMetricHandler, configure, get_elapsed_time_ms, getStream, prof, profile,
    publish_metric, put_metric)

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricsConfig", "MetricStream", "NullMetricHandler", "configure", "get_elapsed_time_ms",
           "getStream", "initialize_metrics", "prof", "profile", "publish_metric", "put_metric"]


def initialize_metrics(cfg=None):
    """Programs set a handler by configure()."""
