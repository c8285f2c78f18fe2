from tede.distributed.elastic.events import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent

__all__ = ["EventSource", "Event", "NodeState", "RdzvEvent", "EventMetadataValue"]
