"""How the launchers of several hosts meet: `static`, with ranks that are given, and `c10d`, whenever they come."""
from tede.distributed.elastic.rendezvous.api import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousGracefulExitError, RendezvousHandler, RendezvousHandlerCreator,
    RendezvousHandlerRegistry, RendezvousInfo, RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError,
    rendezvous_handler_registry)
from tede.distributed.elastic.rendezvous.registry import _register_default_handlers, _register_out_of_tree_handlers

__all__ = ["RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError", "RendezvousHandler",
           "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters", "RendezvousStateError",
           "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry"]

_register_default_handlers()
_register_out_of_tree_handlers()
