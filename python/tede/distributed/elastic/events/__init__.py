"""What a launcher reports of a run: records that go to the log handler of a name, by default to none."""
import json
import logging
import os
import socket
import traceback
from dataclasses import asdict, dataclass, field
from enum import Enum

__all__ = ["EventSource", "Event", "record", "get_logging_handler", "construct_and_record_rdzv_event", "record_rdzv_event", "NodeState", "RdzvEvent"]

EventMetadataValue = str | int | float | bool | None


class EventSource(str, Enum):      # noqa: UP042  (its text is the name)
    """Who reports."""
    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):      # noqa: UP042  (its text is the name)
    """What a launcher is doing."""
    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Record:
    def __str__(self):
        return self.serialize()

    @classmethod
    def deserialize(cls, data):
        return data if isinstance(data, cls) else cls._of(json.loads(data))

    @classmethod
    def _of(cls, data):
        return cls(**data)

    def serialize(self):
        return json.dumps(asdict(self))


@dataclass
class Event(_Record):
    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict = field(default_factory=dict)

    __str__ = _Record.__str__

    @classmethod
    def _of(cls, data):
        return cls(**{**data, "source": EventSource[data["source"]]})


@dataclass
class RdzvEvent(_Record):
    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    __str__ = _Record.__str__

    @classmethod
    def _of(cls, data):
        return cls(**{**data, "node_state": NodeState[data["node_state"]]})


_handlers = {"console": logging.StreamHandler(), "dynamic_rendezvous": logging.NullHandler(), "null": logging.NullHandler()}
_loggers = {}


def get_logging_handler(destination="null"):
    return _handlers[destination]


def _get_or_create_logger(destination="null"):
    if destination not in _loggers:
        logger = _loggers[destination] = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
    return _loggers[destination]


def record(event, destination="null"):
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event):
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(run_id, message, node_state, name="", hostname="", pid=None, master_endpoint="", local_id=None, rank=None):
    """Report what happens while launchers meet, unless nobody listens."""
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    if not name:
        caller = traceback.extract_stack()[-2]
        name = f"{os.path.splitext(os.path.basename(caller.filename))[0]}:{caller.name}"
    trace = traceback.format_exc() if node_state == NodeState.FAILED else ""
    record_rdzv_event(RdzvEvent(name, run_id, message, hostname or socket.getfqdn(), pid or os.getpid(), node_state, master_endpoint, rank, local_id, trace))
