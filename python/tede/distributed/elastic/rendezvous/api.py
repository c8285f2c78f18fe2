"""How the launchers of several hosts find each other: a handler gives each a rank among them and a store."""
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass

__all__ = ["RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError", "RendezvousHandler",
           "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
           "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry"]


class RendezvousError(Exception):
    """What goes wrong when launchers meet."""


class RendezvousClosedError(RendezvousError):
    """The run has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Not all came in time."""


class RendezvousConnectionError(RendezvousError):
    """The store can't be reached."""


class RendezvousStateError(RendezvousError):
    """What the store says makes no sense."""


class RendezvousGracefulExitError(RendezvousError):
    """This launcher isn't needed."""


@dataclass
class RendezvousStoreInfo:
    """Where the processes' store is to be."""
    MASTER_ADDR_KEY = "MASTER_ADDR"
    MASTER_PORT_KEY = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank, store, local_addr=None, server_port=None):
        """Rank 0 says where, through the launchers' store; the others read it."""
        if rank == 0:
            from tede.distributed.elastic.utils.distributed import get_free_port
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, (local_addr or socket.getfqdn()).encode())
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(server_port or get_free_port()).encode())
        return RendezvousStoreInfo(store.get(RendezvousStoreInfo.MASTER_ADDR_KEY).decode(), int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY)))


class RendezvousInfo:
    """What a launcher knows after all have met. `round`: which meeting it was, where launchers meet more than once."""

    def __init__(self, store, rank, world_size, bootstrap_store_info, round=None):
        self.round, self.store, self.rank, self.world_size, self.bootstrap_store_info = round, store, rank, world_size, bootstrap_store_info


class RendezvousHandler(ABC):
    @abstractmethod
    def get_backend(self):
        """The name of this kind of handler."""

    @property
    def use_agent_store(self):
        """Whether the processes use the launcher's store; else rank 0 serves one."""
        return False

    @abstractmethod
    def next_rendezvous(self):
        """Wait until enough launchers have come: a RendezvousInfo."""

    @abstractmethod
    def is_closed(self):
        """Whether the run has ended."""

    @abstractmethod
    def set_closed(self):
        """Say that the run has ended."""

    @abstractmethod
    def num_nodes_waiting(self):
        """How many launchers wait for the others to meet again."""

    @abstractmethod
    def get_run_id(self):
        """The name of the run."""

    @abstractmethod
    def shutdown(self):
        """Close what is open; True if that went well."""


class RendezvousParameters:
    """What the options of a launcher say. Further ones are in `config`."""

    def __init__(self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum number of "
                             f"rendezvous nodes ({min_nodes}).")
        self.backend, self.endpoint, self.run_id, self.min_nodes, self.max_nodes = backend, endpoint, run_id, min_nodes, max_nodes
        self.config, self.local_addr = kwargs, local_addr

    def get(self, key, default=None):
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        if isinstance(value, str):
            if value.lower() in ("1", "true", "t", "yes", "y"):
                return True
            if value.lower() in ("0", "false", "f", "no", "n"):
                return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key, default=None):
        value = self.get(key, default)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid integer value.") from error


RendezvousHandlerCreator = "Callable[[RendezvousParameters], RendezvousHandler]"


class RendezvousHandlerRegistry:
    """What makes handlers, by the name of their kind."""

    def __init__(self):
        self._registry = {}

    def register(self, backend, creator):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if self._registry.get(backend, creator) != creator:
            raise ValueError(f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered with "
                             f"'{self._registry[backend]}'.")
        self._registry[backend] = creator

    def create_handler(self, params):
        if params.backend not in self._registry:
            raise ValueError(f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?")
        handler = self._registry[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend '{params.backend}'.")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
