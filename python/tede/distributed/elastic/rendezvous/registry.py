"""The kinds of handlers that there are; others come from packages with an entry point of the group torchrun.handlers."""
from importlib import metadata

from tede.distributed.elastic.rendezvous.api import rendezvous_handler_registry as handler_registry

__all__ = ["get_rendezvous_handler"]


def _create_static_handler(params):
    from tede.distributed.elastic.rendezvous import static_tcp_rendezvous
    return static_tcp_rendezvous.create_rdzv_handler(params)


def _create_c10d_handler(params):
    from tede.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
    from tede.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
    backend, store = create_backend(params)
    return create_handler(store, backend, params)


def _register_default_handlers():
    handler_registry.register("c10d", _create_c10d_handler)
    handler_registry.register("static", _create_static_handler)


def _register_out_of_tree_handlers():
    for entry in metadata.entry_points(group="torchrun.handlers"):
        handler_registry.register(entry.name, entry.load()())


def get_rendezvous_handler(params):
    return handler_registry.create_handler(params)
