"""elastic_launch: what tede.distributed.run does, for programs.

    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="try", rdzv_backend="c10d", rdzv_endpoint="localhost:0")
    values = elastic_launch(config, train)(0.1)         # train(0.1) in two processes: {rank: what it returns}
"""
import sys
import uuid
from dataclasses import dataclass, field

import tede.distributed.elastic.rendezvous.registry as rdzv_registry
from tede.distributed.elastic import events, metrics
from tede.distributed.elastic.agent.server.api import WorkerSpec
from tede.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from tede.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from tede.distributed.elastic.multiprocessing.errors import ChildFailedError
from tede.distributed.elastic.rendezvous import RendezvousParameters
from tede.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """Between min_nodes and max_nodes hosts, each with nproc_per_node processes. `rdzv_configs`: options of the rendezvous."""
    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: object = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()


class elastic_launch:
    """Call it with the arguments of the function or the command."""

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def _get_entrypoint_name(entrypoint, args):
    if callable(entrypoint):
        return entrypoint.__name__
    if entrypoint == sys.executable:
        return next((arg for arg in args if arg[0] != "-"), "")
    return entrypoint or ""


def _get_addr_and_port(parameters):
    """The processes' master where it is given."""
    if parameters.backend != "static":
        return None, None
    endpoint = parameters.endpoint.strip()
    if not endpoint:
        raise ValueError("Endpoint is missing in endpoint. Try to add --master-addr and --master-port")
    host, port = parse_rendezvous_endpoint(endpoint, default_port=-1)
    if port == -1:
        raise ValueError(f"port is missing in endpoint: {endpoint}. Try to specify --master-port")
    return host, port or None           # 0: the one at which the store comes to serve


def launch_agent(config, entrypoint, args):
    """Run the processes: {global rank: what the function returned}. A ChildFailedError if they failed more often than they are to be started again."""
    config.run_id = config.run_id or str(uuid.uuid4().int)
    name = _get_entrypoint_name(entrypoint, args)
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes, config.local_addr,
                                      **config.rdzv_configs)
    host, port = _get_addr_and_port(parameters)
    spec = WorkerSpec(config.role, config.nproc_per_node, rdzv_registry.get_rendezvous_handler(parameters), entrypoint=entrypoint, args=tuple(args),
                      max_restarts=config.max_restarts, monitor_interval=config.monitor_interval, master_addr=host, master_port=port,
                      local_addr=config.local_addr, event_log_handler=config.event_log_handler)
    agent = LocalElasticAgent(spec, logs_specs=config.logs_specs, start_method=config.start_method, log_line_prefix_template=config.log_line_prefix_template)
    closes = True
    try:
        metrics.initialize_metrics(metrics.MetricsConfig(config.metrics_cfg))
        result = agent.run()
        events.record(agent.get_event_succeeded(), config.event_log_handler)        # the agent has; the processes may have failed
        if result.is_failed():
            raise ChildFailedError(name, result.failures)
        return result.return_values
    except ChildFailedError:
        raise
    except SignalException:
        closes = False                  # the others may go on without this host
        events.record(agent.get_event_failed(), config.event_log_handler)
        raise
    except Exception:
        events.record(agent.get_event_failed(), config.event_log_handler)
        raise
    finally:
        if closes:
            spec.rdzv_handler.shutdown()
