"""The agent whose processes are this host's."""
import os
import signal
from string import Template

from tede.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerState
from tede.distributed.elastic.multiprocessing import start_processes
from tede.distributed.elastic.utils import macros

__all__ = ["LocalElasticAgent", "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE", "TORCHELASTIC_HEALTH_CHECK_PORT"]

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"


class LocalElasticAgent(SimpleElasticAgent):
    """`log_line_prefix_template`: of ${role_name}, ${rank} and ${local_rank}, what stands before a process's lines on the console."""

    def __init__(self, spec, logs_specs, start_method="spawn", exit_barrier_timeout=300, log_line_prefix_template=None):
        super().__init__(spec, exit_barrier_timeout)
        self._start_method, self._logs_specs, self._prefix, self._pcontext = start_method, logs_specs, log_line_prefix_template, None

    def _environment(self, worker_group, worker):
        spec = worker_group.spec
        values = {"LOCAL_RANK": worker.local_rank, "RANK": worker.global_rank, "GROUP_RANK": worker_group.group_rank, "ROLE_RANK": worker.role_rank,
                  "ROLE_NAME": spec.role, "LOCAL_WORLD_SIZE": spec.local_world_size, "WORLD_SIZE": worker.world_size,
                  "GROUP_WORLD_SIZE": worker_group.group_world_size, "ROLE_WORLD_SIZE": worker.role_world_size, "MASTER_ADDR": worker_group.master_addr,
                  "MASTER_PORT": worker_group.master_port, "TORCHELASTIC_RESTART_COUNT": self._attempt(), "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
                  "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(), "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
                  "TEDE_STORE_PREFIX": worker_group.store_prefix,
                  "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")}
        if "OMP_NUM_THREADS" in os.environ:
            values["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
        return {name: str(value) for name, value in values.items()}

    def _start_workers(self, worker_group):
        spec = worker_group.spec
        workers = {worker.local_rank: worker for worker in worker_group.workers}
        prefixes = self._prefix and {i: Template(self._prefix).safe_substitute(role_name=spec.role, rank=worker.global_rank, local_rank=i)
                                     for i, worker in workers.items()}
        self._pcontext = start_processes(
            spec.role, spec.entrypoint, {i: tuple(macros.substitute(list(spec.args), str(i))) for i in workers},
            {i: self._environment(worker_group, worker) for i, worker in workers.items()}, self._logs_specs, prefixes, self._start_method)
        return self._pcontext.pids()

    def _stop_workers(self, worker_group, is_restart=False):
        self._shutdown(is_restart=is_restart)

    def _shutdown(self, death_sig=signal.SIGTERM, is_restart=False):
        if self._pcontext is not None:
            self._pcontext.close(death_sig)
        if not is_restart and hasattr(self._logs_specs, "clean"):
            self._logs_specs.clean()

    def _monitor_workers(self, worker_group):
        result = self._pcontext.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        if result.is_failed():
            return RunResult(WorkerState.FAILED, failures={ranks[i]: failure for i, failure in result.failures.items()})
        return RunResult(WorkerState.SUCCEEDED, {ranks[i]: value for i, value in result.return_values.items()})
