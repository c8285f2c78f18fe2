"""An agent: it meets those of other hosts, gives its processes ranks, watches them, and begins again when one fails or a host comes or goes."""
import abc
import json
import os
import signal
import socket
import time
import traceback
from dataclasses import dataclass, field
from enum import Enum

from tede.distributed.elastic.events import Event, EventSource, record
from tede.distributed.elastic.metrics import put_metric
from tede.distributed.elastic.multiprocessing import SignalException
from tede.distributed.elastic.rendezvous import RendezvousGracefulExitError
from tede.distributed.elastic.utils import store as store_util
from tede.distributed.elastic.utils.logging import get_logger

__all__ = ["WorkerSpec", "Worker", "WorkerState", "WorkerGroup", "RunResult", "ElasticAgent", "SimpleElasticAgent"]

logger = get_logger(__name__)


def _get_fq_hostname():
    return socket.getfqdn(socket.gethostname())


@dataclass
class WorkerSpec:
    """What is started. `entrypoint`: a function or a command."""
    role: str
    local_world_size: int
    rdzv_handler: object
    fn: object = None
    entrypoint: object = None
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"

    def __post_init__(self):
        if self.local_world_size <= 0 or self.monitor_interval <= 0:
            raise AssertionError("local_world_size and monitor_interval are positive")
        self.entrypoint = self.entrypoint or self.fn
        if not self.entrypoint:
            raise AssertionError("an entrypoint is needed")

    def get_entrypoint_name(self):
        return self.entrypoint if isinstance(self.entrypoint, str) else self.entrypoint.__qualname__


class Worker:
    """A process's ranks. `id`: its number in the system."""
    __slots__ = ["global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size"]

    def __init__(self, local_rank, global_rank=-1, role_rank=-1, world_size=-1, role_world_size=-1):
        self.id, self.local_rank, self.global_rank, self.role_rank = None, local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __repr__(self):
        return f"Worker({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"

    __str__ = __repr__


class WorkerState(str, Enum):      # noqa: UP042  (its text is the name)
    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state):
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The processes of this host, and what the last meeting gave."""

    def __init__(self, spec):
        self.spec = spec
        self.workers = [Worker(i) for i in range(spec.local_world_size)]
        self.store = self.store_prefix = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None
        self.state = WorkerState.INIT


class _RoleInstanceInfo:
    """What an agent says of itself: role, rank among agents, number of processes."""
    __slots__ = ["local_world_size", "rank", "role"]

    def __init__(self, role, rank, local_world_size):
        self.role, self.rank, self.local_world_size = role, rank, local_world_size

    def serialize(self):
        return json.dumps({"role": self.role, "rank": self.rank, "local_world_size": self.local_world_size}).encode("UTF-8")

    @staticmethod
    def deserialize(data):
        found = json.loads(data.decode("UTF-8"))
        return _RoleInstanceInfo(found["role"], found["rank"], found["local_world_size"])


@dataclass
class RunResult:
    """How a run has ended, by global rank."""
    state: WorkerState
    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)

    def is_failed(self):
        return self.state == WorkerState.FAILED


class ElasticAgent(abc.ABC):
    @abc.abstractmethod
    def run(self, role="default"):
        """Start the processes and watch them: a RunResult."""

    @abc.abstractmethod
    def get_worker_group(self, role="default"):
        """The processes."""


class SimpleElasticAgent(ElasticAgent):
    """An agent of one role. A subclass says how processes are started, looked at and ended."""

    def __init__(self, spec, exit_barrier_timeout=300):
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts, self._exit_barrier_timeout = spec.max_restarts, exit_barrier_timeout
        self._total_execution_time = 0

    def get_worker_group(self, role="default"):
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group):
        """Start the processes: {local rank: id}."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group, is_restart=False):
        """End them."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group):
        """How they are: a RunResult."""

    @abc.abstractmethod
    def _shutdown(self, death_sig=signal.SIGTERM):
        """End them, and give back what was taken."""

    # ---- meeting --------------------------------------------------------------------------------------------------------------

    def _rendezvous(self, worker_group):
        spec = worker_group.spec
        info = spec.rdzv_handler.next_rendezvous()
        worker_group.store, worker_group.group_rank, worker_group.group_world_size = info.store, info.rank, info.world_size
        # Launchers count their own restarts, so the number of a meeting is what all have in common.
        worker_group.store_prefix = f"/worker/attempt_{self._attempt()}" if info.round is None else f"/worker/round_{info.round}"
        worker_group.workers = self._assign_worker_ranks(info.store, info.rank, info.world_size, spec)
        worker_group.master_addr = spec.master_addr or info.bootstrap_store_info.master_addr
        worker_group.master_port = spec.master_port or info.bootstrap_store_info.master_port

    def _assign_worker_ranks(self, store, group_rank, group_world_size, spec):
        """Global ranks go by the agents' ranks, those of a role by the agents that have it. Hosts may have different numbers of processes."""
        prefix = "torchelastic/role_info/"
        said = store_util.synchronize(store, _RoleInstanceInfo(spec.role, group_rank, spec.local_world_size).serialize(), group_rank, group_world_size, prefix)
        infos = [_RoleInstanceInfo.deserialize(data) for data in said]
        same = [info for info in infos if info.role == spec.role]
        first = sum(info.local_world_size for info in infos if info.rank < group_rank)
        first_of_role = sum(info.local_world_size for info in same if info.rank < group_rank)
        size, of_role = sum(info.local_world_size for info in infos), sum(info.local_world_size for info in same)
        return [Worker(i, first + i, first_of_role + i, size, of_role) for i in range(spec.local_world_size)]

    def _attempt(self):
        return self._worker_group.spec.max_restarts - self._remaining_restarts

    def _initialize_workers(self, worker_group):
        self._rendezvous(worker_group)
        for local_rank, identity in self._start_workers(worker_group).items():
            worker_group.workers[local_rank].id = identity
        worker_group.state = WorkerState.HEALTHY

    def _restart_workers(self, worker_group):
        self._stop_workers(worker_group, is_restart=True)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    # ---- running ----------------------------------------------------------------------------------------------------------------

    def run(self, role="default"):
        began, cleaned = time.monotonic(), False
        try:
            result = self._invoke_run(role)
            self._record_metrics(result)
            self._record_worker_events(result)
            return result
        except RendezvousGracefulExitError:
            return RunResult(WorkerState.SUCCEEDED)
        except SignalException as error:
            self._shutdown(error.sigval)
            cleaned = True
            raise
        finally:
            if not cleaned:
                self._shutdown()
            self._total_execution_time = int(time.monotonic() - began)

    def _invoke_run(self, role="default"):
        group = self._worker_group
        spec = group.spec
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{role}.{result.state.name.lower()}", 1)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                failed = ", ".join(f"rank {rank} ({failure.signal_name() if failure.exitcode < 0 else f'exit code {failure.exitcode}'})"
                                   for rank, failure in result.failures.items())
                logger.warning("[%s] failed: %s; all processes are started again (%d of %d)", role, failed, self._attempt() + 1, spec.max_restarts)
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state == WorkerState.HEALTHY:
                if spec.rdzv_handler.num_nodes_waiting() > 0:       # others begin again, or have come
                    self._restart_workers(group)
            else:
                raise Exception(f"[{role}] Worker group in {result.state.name} state")

    def _exit_barrier(self):
        """Wait for the other agents: the first serves the store that their processes use."""
        group = self._worker_group
        try:
            store_util.barrier(group.store, group.group_world_size, "torchelastic.agent.terminal_state", self._exit_barrier_timeout)
        except SignalException:
            raise
        except Exception:
            logger.exception("Error waiting on exit barrier")

    # ---- reports ----------------------------------------------------------------------------------------------------------------

    def _record_metrics(self, group_results):
        """How the run has ended: each of these is 1 or 0."""
        role, failed = self._worker_group.spec.role, group_results.is_failed()
        retried = self._remaining_restarts != self._worker_group.spec.max_restarts
        self._record_flakiness_metric(failed)
        put_metric(f"workers.{role}.run_total", 1)
        for name, held in (("success_with_retries", not failed and retried), ("success_no_retries", not failed and not retried),
                           ("failed_with_retries", failed and retried), ("failed_no_retries", failed and not retried)):
            put_metric(f"workers.{role}.run_{name}", int(held))

    def _record_flakiness_metric(self, is_failed=False):
        """The share of the starts that there may be that were needed beyond the first, in percent; 100 if all have failed."""
        most = self._worker_group.spec.max_restarts + 1
        put_metric(f"workers.{self._worker_group.spec.role}.flakiness", 100 if is_failed else int(100.0 - 100.0 * (self._remaining_restarts + 1) / most))

    def get_event_failed(self):
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self):
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def _record_worker_events(self, result):
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            state = "FAILED" if failure else "SUCCEEDED" if result.state == WorkerState.SUCCEEDED else "TERMINATED"
            raw = json.dumps(failure.error_file_data) if failure else None
            record(self._construct_event(state, EventSource.WORKER, worker, raw_error=raw), self._worker_group.spec.event_log_handler)

    def _construct_event(self, state, source, worker=None, raw_error=None, duration_ms=None, exit_code=None, worker_pid=None):
        group, spec = self._worker_group, self._worker_group.spec
        about = {"group_world_size": group.group_world_size, "entry_point": spec.get_entrypoint_name(), "local_rank": [worker.local_rank if worker else None],
                 "role_rank": [worker.role_rank if worker else None], "role_world_size": [group.workers[0].role_world_size]}
        metadata = {"run_id": spec.rdzv_handler.get_run_id(), "global_rank": worker.global_rank if worker else None, "group_rank": group.group_rank,
                    "worker_id": str(worker.id) if worker else None, "role": spec.role, "hostname": _get_fq_hostname(), "state": state,
                    "total_run_time": self._total_execution_time, "rdzv_backend": spec.rdzv_handler.get_backend(), "raw_error": raw_error,
                    "metadata": json.dumps(about), "agent_restarts": spec.max_restarts - self._remaining_restarts, "duration_ms": duration_ms,
                    "exit_code": exit_code, "pid": worker_pid or os.getpid()}
        return Event(name=f"torchelastic.worker.status.{state}", source=source, metadata=metadata)
