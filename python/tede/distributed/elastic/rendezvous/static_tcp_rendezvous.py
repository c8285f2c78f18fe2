"""Launchers whose number and ranks are given; the first serves the store at the endpoint."""
import datetime

from tede.distributed import PrefixStore, TCPStore
from tede.distributed.elastic.rendezvous.api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from tede.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]

_default_timeout_seconds = 600


class StaticTCPRendezvous(RendezvousHandler):
    def __init__(self, master_addr, master_port, rank, world_size, run_id, timeout):
        self.master_addr, self.master_port, self.rank, self.world_size, self.run_id = master_addr, master_port, rank, world_size, run_id
        self.timeout, self._store = datetime.timedelta(seconds=timeout), None

    def get_backend(self):
        return "static"

    @property
    def use_agent_store(self):
        return True

    def next_rendezvous(self):
        if self._store is None:
            self._store = TCPStore(self.master_addr, self.master_port, self.world_size, self.rank == 0, self.timeout, wait_for_workers=False, multi_tenant=True)
        where = RendezvousStoreInfo(self.master_addr, self._store.port)
        return RendezvousInfo(PrefixStore(self.run_id, self._store), self.rank, self.world_size, where)

    def is_closed(self):
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self):
        return 0

    def get_run_id(self):
        return self.run_id

    def shutdown(self):
        self._store = None
        return True


def create_rdzv_handler(params):
    if "rank" not in params.config:
        raise ValueError("rank is absent in RendezvousParameters.Try to add the rank (--node-rank) to the configuration")
    endpoint = params.endpoint.strip()
    if not endpoint:
        raise ValueError("endpoint is absent in RendezvousParameters. Try to add --master-addr and --master-port")
    host, port = parse_rendezvous_endpoint(endpoint, -1)
    if port == -1:
        raise ValueError(f"Port is absent in endpoint: {endpoint}. Try to add --master-port")
    timeout = int(params.get("timeout") or _default_timeout_seconds)
    return StaticTCPRendezvous(host, port, int(params.config["rank"]), params.max_nodes, params.run_id, timeout)
