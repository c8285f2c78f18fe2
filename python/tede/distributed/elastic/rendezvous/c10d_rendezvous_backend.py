"""The store of launchers that meet dynamically: a TCPStore that the launcher at the endpoint serves, or a file."""
import base64
import binascii
import datetime
import os
import tempfile
from dataclasses import dataclass

from tede.distributed import FileStore, TCPStore
from tede.distributed.elastic.rendezvous.api import RendezvousConnectionError, RendezvousStateError
from tede.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend
from tede.distributed.elastic.rendezvous.utils import _matches_machine_hostname, parse_rendezvous_endpoint

__all__ = ["C10dRendezvousBackend", "create_backend"]


DEFAULT_PORT = 29400


@dataclass
class Server:
    """Where processes of other hosts reach the store."""
    host: str
    port: int


class C10dRendezvousBackend(RendezvousBackend):
    """A store, and a state in it that launchers change one after the other: whoever sets it says which state he has seen."""
    _NOTHING = "Y2FuaW1hZGFt"           # PyTorch's launchers read it, too

    def __init__(self, store, run_id, server=None):
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self.run_id, self.server = store, run_id, server
        self._key = f"torch.rendezvous.{run_id}"
        self._asked("compare_set", self._key, "", self._NOTHING)

    @property
    def name(self):
        return "c10d"

    def _asked(self, call, *args):
        try:
            return getattr(self._store, call)(*args)
        except (ValueError, RuntimeError, TimeoutError) as error:
            raise RendezvousConnectionError("The connection to the C10d store has failed. See inner exception for details.") from error

    def _state_and_token(self, stored):
        if stored == self._NOTHING.encode():
            return None
        try:
            return base64.b64decode(stored), stored
        except binascii.Error as error:
            raise RendezvousStateError("The state object is corrupt. See inner exception for details.") from error

    def get_state(self):
        """(state, token), or None where nobody has set one."""
        return self._state_and_token(self._asked("get", self._key))

    def set_state(self, state, token=None):
        """(state, token, whether it is this one): set, if the token is that of the state there, or if there is none."""
        if token is not None and not isinstance(token, bytes):
            found = self.get_state()
            return None if found is None else (*found, False)
        wanted = base64.b64encode(state).decode()
        found = self._state_and_token(self._asked("compare_set", self._key, token.decode() if token else self._NOTHING, wanted))
        return None if found is None else (*found, found[0] == state)


def _tcp_store(params):
    host, port = parse_rendezvous_endpoint(params.endpoint, default_port=DEFAULT_PORT)
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
    try:
        return FileStore(os.path.abspath(path)), None
    except (ValueError, RuntimeError) as error:
        raise RendezvousConnectionError("The connection to the C10d store has failed. See inner exception for details.") from error


def create_backend(params):
    """(backend, store). Options: store_type (tcp, file), read_timeout, is_host."""
    kind = params.get("store_type", "tcp").strip().lower()
    if kind not in ("tcp", "file"):
        raise ValueError("Invalid store type given. Currently only supports file and tcp.")
    store, server = _file_store(params) if kind == "file" else _tcp_store(params)
    return C10dRendezvousBackend(store, params.run_id, server), store
