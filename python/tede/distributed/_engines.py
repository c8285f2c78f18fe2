"""The backends of a group, over the engines: their processes find each other, through a store or by a launcher, and are numbered once for all groups."""
import os
import socket
from datetime import timedelta
from types import SimpleNamespace

from tede import _C
from tede.distributed._backends import _ENGINES, Backend
from tede.distributed._checked import CheckedBackend
from tede.distributed._debug import DebugLevel, get_debug_level
from tede.distributed._group import BackendOptions, EngineBackend, launched_by_mpi
from tede.distributed._stores import PrefixStore
from tede.distributed._work import _seconds
from tede.distributed.constants import default_pg_timeout

_engine_place = []          # (rank, size) of this process among those of the engine, once it has begun
_servers = []               # what must live as long as the engine


def _engine_group(engine, name, rank, size, store, timeout, places=None):
    """A group of an engine, and its members' numbers among the engine's processes. Those who make one without a group above it have a store, through
    which they say their numbers; the first of them begins the engine."""
    if size == 1:
        return _C._Group("alone", name, 0, 1, timeout=timeout), [_engine_place[0][0] if _engine_place else 0]
    address, begins = None, not _engine_place
    if begins and not launched_by_mpi():
        if store is None:
            raise ValueError("a group needs a store, or a launcher of MPI's (mpiexec)")
        address = _serve(store, rank, size)
    if places is None and store is not None and (not begins or launched_by_mpi()):
        if begins:
            _begin_launched(engine, timeout)
        store.set(f"engine/{rank}", str(_engine_place[0][0]))
        places = [int(store.get(f"engine/{i}")) for i in range(size)]
    group = _C._Group(engine, name, rank, size, places, rank, size, address, timeout)
    if begins and not _engine_place:
        _engine_place.append((group.rank, group.size))
    return group, list(range(group.size)) if places is None else places


def _begin_launched(engine, timeout):
    """A launcher says what this process's number is."""
    group = _C._Group(engine, "launched", timeout=timeout)
    _engine_place.append((group.rank, group.size))


def _serve(store, rank, size):
    """Rank 0 serves what processes that no launcher has started ask to find each other (PMI); where, it says through the store."""
    if rank == 0:
        server = _C._PMIServer(size)
        _servers.append(server)
        store.set("engine/address", f"{_host_of(store)}:{server.port}")
    return store.get("engine/address").decode()


def _host_of(store):
    """This host's name, as others know it: rank 0 serves a TCPStore, too."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None) or os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:            # MPI would end the process
        raise _C.DistNetworkError(f"the host '{host}', where processes are to find each other (MASTER_ADDR), isn't known: {error}") from None
    return host


class ProcessGroupGloo(EngineBackend):
    """The backend of CPUs by PyTorch's name, made directly over a store."""

    class Device:
        """Gloo's devices are networks; MPI chooses one itself."""

        def __init__(self, hostname="", interface="", lazy_init=False):
            self.hostname, self.interface = hostname, interface

    class _Options(BackendOptions):
        def __init__(self):
            super().__init__("gloo")
            self._devices, self._threads = [], 2

    Options = _Options

    @staticmethod
    def create_device(hostname="", interface="", lazy_init=False):
        return ProcessGroupGloo.Device(hostname, interface, lazy_init)

    create_default_device = create_device

    def __init__(self, store, rank, size, options=None, timeout=None):
        if isinstance(options, timedelta):
            options, timeout = None, options
        timeout = timeout or (options._timeout if options is not None else default_pg_timeout)
        made, _ = _engine_group("mpi", "gloo", rank, size, store, _seconds(timeout))
        super().__init__(made, "gloo", options)
        _end_with_the_program()


def _new_backend(name, backend_name, device, rank, size, store, timeout, options, ranks, places):
    """The backend of one kind of device, and its members' numbers for the engine."""
    plugin = Backend._plugins.get(backend_name.upper())
    if plugin is not None:
        prefix = _prefix(f"{device}/", store)
        if not plugin.extended_api:
            return plugin.creator_fn(prefix, rank, size, timeout), places
        about = SimpleNamespace(store=prefix, group_rank=rank, group_size=size, timeout=timeout, group_id=name, global_ranks_in_group=ranks)
        return plugin.creator_fn(about, options), places
    engine = _ENGINES.get(backend_name)
    if engine is None:
        raise RuntimeError(f"Unknown c10d backend type {backend_name.upper()}")
    if engine == "nccl" and device != "cuda":
        raise ValueError("NCCL moves tensors of CUDA devices only")
    made, places = _engine_group(engine, f"{name}/{device}", rank, size, store, timeout.total_seconds(), places)
    if options is not None and hasattr(options, "_timeout"):
        made.timeout = timeout.total_seconds()
    kind = ProcessGroupGloo if backend_name == Backend.GLOO else EngineBackend
    backend = kind.__new__(kind)
    EngineBackend.__init__(backend, made, backend_name, options)
    if backend_name in (Backend.GLOO, Backend.NCCL) and get_debug_level() is DebugLevel.DETAIL:
        backend = _checked(backend, f"{name}/{device}/checks", store, rank, size, timeout, places)
    return backend, places


def _checked(backend, name, store, rank, size, timeout, places=None):
    return CheckedBackend(backend, _engine_group("mpi", name, rank, size, store, _seconds(timeout), places)[0])


def _create_process_group_wrapper(wrapped_pg, store_prefix, store, rank, world_size, timeout=default_pg_timeout):
    """A backend whose ranks compare what they are about to do."""
    return _checked(wrapped_pg, f"{store_prefix}/checks", _prefix(store_prefix, store), rank, world_size, timeout)


def _prefix(prefix, store):
    if store is None:
        return None
    return PrefixStore(prefix, store)


_at_exit = []


def _end_with_the_program():
    if not _at_exit:
        import atexit
        import sys
        _at_exit.append(atexit.register(lambda: _C._group_end(hasattr(sys, "last_type"))))       # what no handler has caught
