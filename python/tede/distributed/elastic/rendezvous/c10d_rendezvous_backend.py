"""The store of launchers that meet dynamically: a TCPStore that the launcher at the endpoint serves, or a file."""
import datetime
import os
import tempfile
from dataclasses import dataclass

from tede.distributed import FileStore, TCPStore
from tede.distributed.elastic.rendezvous.api import RendezvousConnectionError
from tede.distributed.elastic.rendezvous.utils import _matches_machine_hostname, parse_rendezvous_endpoint

__all__ = ["C10dRendezvousBackend", "create_backend"]


@dataclass
class Server:
    """Where processes of other hosts reach the store."""
    host: str
    port: int


class C10dRendezvousBackend:
    def __init__(self, store, run_id, server=None):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self.run_id, self.server = store, run_id, server

    @property
    def name(self):
        return "c10d"


def _tcp_store(params):
    host, port = parse_rendezvous_endpoint(params.endpoint, default_port=29400)
    serves = params.get_as_bool("is_host")
    tries = [serves] if serves is not None else [True, False] if _matches_machine_hostname(host) else [False]
    seconds = params.get_as_int("read_timeout", 60)
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    for serve in tries:
        try:
            store = TCPStore(host, port, None, serve, datetime.timedelta(seconds=seconds), wait_for_workers=False, multi_tenant=True)
            return store, Server(host, store.port)
        except (ValueError, RuntimeError, TimeoutError) as error:
            if serve == tries[-1]:
                raise RendezvousConnectionError("The connection to the C10d store has failed. See inner exception for details.") from error
    raise AssertionError("unreachable")


def _file_store(params):
    path = params.endpoint
    if not path:
        try:
            _, path = tempfile.mkstemp()
        except OSError as error:
            raise RendezvousConnectionError("The file creation for C10d store has failed. See inner exception for details.") from error
    return FileStore(os.path.abspath(path)), None


def create_backend(params):
    """(backend, store). Options: store_type (tcp, file), read_timeout, is_host."""
    kind = params.get("store_type", "tcp").strip().lower()
    if kind not in ("tcp", "file"):
        raise ValueError(f"Invalid store type: {kind}. Supported store types: 'tcp', 'file'")
    store, server = _file_store(params) if kind == "file" else _tcp_store(params)
    return C10dRendezvousBackend(store, params.run_id, server), store
