"""torch.distributed.distributed_c10d: the default group, groups of some of its ranks, and calls that all of a group make together.

Ranks in these functions are those of the default group, `group_src` and `group_dst` those of the group."""
import contextlib
import enum
import hashlib
import io
import itertools
import logging
import os
import pickle
import socket
import threading
import time
import warnings
from datetime import timedelta

import tede
from tede import _C
from tede.distributed import _group as _base
from tede.distributed._group import EngineBackend, ProcessGroup, launched_by_mpi
from tede.distributed._work import (
    AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions, GatherOptions, ReduceOp,
    ReduceOptions, ReduceScatterOptions, ScatterOptions, Work, _reduction, _seconds)
from tede.distributed.constants import default_pg_nccl_timeout, default_pg_timeout

logger = logging.getLogger(__name__)
_pickler, _unpickler = pickle.Pickler, pickle.Unpickler
RedOpType = ReduceOp.RedOpType
STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"      # the key in the store that ranks count themselves in
_TORCHCOMM_AVAILABLE = False        # another library of PyTorch's for groups
GroupName = str


# ---- backends by name ------------------------------------------------------------------------------------------------

class Backend(str):
    """A backend's name, in lower case."""
    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    backend_capability = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"], XCCL: ["xpu"], FAKE: ["cpu", "cuda"]}
    backend_type_map = {UNDEFINED: ProcessGroup.BackendType.UNDEFINED, GLOO: ProcessGroup.BackendType.GLOO, NCCL: ProcessGroup.BackendType.NCCL,
                        XCCL: ProcessGroup.BackendType.XCCL, UCC: ProcessGroup.BackendType.UCC, MPI: ProcessGroup.BackendType.MPI,
                        FAKE: ProcessGroup.BackendType.CUSTOM}
    _plugins = {}

    class _BackendPlugin:
        def __init__(self, creator_fn, extended_api):
            self.creator_fn, self.extended_api = creator_fn, extended_api

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return str.__new__(cls, name.lower() if value == Backend.UNDEFINED else value)

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Let groups of this name be made by func(store, rank, size, timeout), or, with extended_api, by func(options, backend options)."""
        if name.lower() != cls.FAKE and hasattr(cls, name.upper()):
            raise AssertionError(f"{name.upper()} c10d backend already exist")
        if name.upper() in cls._plugins and name.lower() != cls.FAKE:
            raise AssertionError(f"{name.upper()} c10d backend creator function already exist")
        setattr(cls, name.upper(), name.lower())
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        devices = ["cpu", "cuda"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        for device in devices if len(devices) and name.lower() != cls.FAKE else ():
            if device not in ("cpu", "cuda"):
                cls.default_device_backend_map[device] = name.lower()
        cls.backend_type_map[name.lower()] = ProcessGroup.BackendType.CUSTOM
        cls.backend_capability[name.lower()] = devices
        cls._plugins[name.upper()] = cls._BackendPlugin(func, extended_api)


# Groups whose calls do nothing, as tests of what is made of groups use them.
Backend._plugins["FAKE"] = Backend._BackendPlugin(lambda store, rank, size, timeout: _base.FakeProcessGroup(rank, size), False)


class BackendConfig:
    """A backend's name for each type of device: "cpu:gloo,cuda:nccl", or one for all that it knows."""

    def __init__(self, backend):
        self.device_backend_map = {}
        text = str(backend)
        if text == Backend.UNDEFINED:
            self.device_backend_map = {device: Backend(name) for device, name in Backend.default_device_backend_map.items()}
        elif ":" in text:
            for pair in text.lower().split(","):
                device, colon, name = pair.partition(":")
                if not colon or not device or not name or ":" in name:
                    raise ValueError(f"The custom backend string argument is invalid: {text}.\n Custom backend string is an experimental feature where the "
                                     "backend string must be in the format:\n \"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl'")
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device}                              in backend string: {text}. "
                                     "Each device type should only appear once.")
                self.device_backend_map[device] = Backend(name)
        else:
            devices = Backend.backend_capability.get(text.lower(), ["cpu", "cuda"])
            self.device_backend_map = {device: Backend(text) for device in devices}

    def __repr__(self):
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self):
        return self.device_backend_map


_ENGINES = {"gloo": "mpi", "mpi": "mpi", "nccl": "nccl"}


def is_mpi_available():
    """Whether there is the engine that calls an MPI; the MPI itself is opened when a group is made."""
    return _C._group_engine_there("mpi")


def is_gloo_available():
    """The name stands for the engine of CPUs, which is an MPI's."""
    return is_mpi_available()


def is_nccl_available():
    return _C._group_engine_there("nccl")


def is_ucc_available():
    return False


def is_xccl_available():
    return False


def is_backend_available(backend):
    check = globals().get(f"is_{backend.lower()}_available")
    return check() if check is not None else backend.lower() in Backend.backend_list


def is_torchelastic_launched():
    """Whether `torchrun` or python -m tede.distributed.run has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device):
    name = device if isinstance(device, str) else device.type
    name = name.partition(":")[0]
    backend = Backend.default_device_backend_map.get(name)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


# ---- what there is ---------------------------------------------------------------------------------------------------

class _World:
    """The groups of this process."""

    def __init__(self):
        self.default_pg = None
        self.clear()

    def clear(self):
        self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config = {}, {}, {}, {}
        self.pg_to_tag, self.tags_to_pg, self.pg_coalesce_state, self.group_count = {}, {}, {}, 0

    @property
    def pg_default_device(self):
        return {}

    @property
    def pg_config_info(self):
        return [{"pg_name": self.pg_names[pg], "pg_desc": pg.group_desc, "backend_config": self.pg_backend_config[pg],
                 "ranks": list(ranks), "group_size": len(ranks), "group_count": self.group_count}
                for pg, ranks in self.pg_group_ranks.items()]


_world = _World()
_engine_place = []          # (rank, size) of this process among those of the engine, once it has begun
_servers = []               # what must live as long as the engine


class _WorldMeta(type):
    @property
    def WORLD(cls):
        return GroupMember.WORLD

    @WORLD.setter
    def WORLD(cls, pg):
        GroupMember.WORLD = pg


class group(metaclass=_WorldMeta):
    """The group of all ranks."""


class _MemberMeta(type):
    @property
    def WORLD(cls):
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, pg):
        _world.default_pg = pg


class GroupMember(metaclass=_MemberMeta):
    """NON_GROUP_MEMBER is what ranks get that are in none."""
    NON_GROUP_MEMBER = -100


def is_initialized():
    """Whether there is a default group."""
    return _world.default_pg is not None


def _get_default_group():
    pg = _world.default_pg
    if pg is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return pg


def _get_default_store():
    return _world.pg_map[_get_default_group()][1]


def _update_default_pg(pg):
    _world.default_pg = pg


def _rank_not_in_group(group):
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _warn_not_in_group(name):
    rank = -1 if _world.default_pg is None else _world.default_pg.rank()
    warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.")


def _group_or_default(group):
    return _get_default_group() if group is None else group


def get_rank(group=None):
    """This process's rank in the group; -1 if it isn't in it."""
    if _rank_not_in_group(group):
        return -1
    default = _get_default_group()
    return default.rank() if group is None or group is default else get_group_rank(group, default.rank())


def get_world_size(group=None):
    """How many ranks the group has; -1 if this process isn't in it."""
    return -1 if _rank_not_in_group(group) else _group_or_default(group).size()


_get_group_size = get_world_size


def get_group_rank(group, global_rank):
    """A rank of the default group as one of the group."""
    if group is GroupMember.WORLD:
        return global_rank
    if group not in _world.pg_group_ranks:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    ranks = _world.pg_group_ranks[group]
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group, group_rank):
    """A rank of the group as one of the default group."""
    if group is GroupMember.WORLD:
        return group_rank
    if group not in _world.pg_group_ranks:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    for global_rank, rank in _world.pg_group_ranks[group].items():
        if rank == group_rank:
            return global_rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def get_process_group_ranks(group):
    """Its members' ranks in the default group."""
    return list(_world.pg_group_ranks[_group_or_default(group)])


def get_backend_config(group=None):
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return str(_world.pg_backend_config.get(pg))


def get_backend(group=None):
    """The name of the group's backend."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg) or pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    return Backend(_world.pg_map[pg][0])


def _set_pg_timeout(timeout, group=None):
    """How long calls of the group may take from now on."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    _check_valid_timeout(timeout)
    pg.set_timeout(timeout)


def get_pg_count():
    return _world.group_count


def get_node_local_rank(fallback_rank=None):
    """LOCAL_RANK of the environment, which a launcher sets."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you "
                       "are not running in a multi-device context and want the code to run locally instead.")


def _get_process_group_name(pg):
    return _world.pg_names.get(pg, "None")


def _get_group_tag(pg):
    tag = _world.pg_to_tag[pg]
    return tag[5:] if tag.startswith("user:") else tag


def _get_process_group_store(pg):
    return _world.pg_map[pg][1]


def _get_process_group_uid(pg):
    return -1


def _resolve_process_group(name):
    for pg, known in _world.pg_names.items():
        if known == name:
            return pg
    pg = _registered.groups().get(name)
    if pg is None:
        raise RuntimeError(f"Could not resolve the process group registered under the name {name}")
    return pg


class _Registered(threading.local):
    """Groups by name that no function here has made: of all threads, or, where each thread stands for a process, of each."""
    isolated, shared = False, {}

    def __init__(self):
        self.own = {}

    def groups(self):
        return self.own if _Registered.isolated else self.shared


_registered = _Registered()


def _set_thread_isolation_mode(on):
    _Registered.isolated = bool(on)


def _get_thread_isolation_mode():
    return _Registered.isolated


def _register_process_group(name, pg):
    _registered.groups()[name] = pg


def _unregister_process_group(name):
    _registered.groups().pop(name, None)


def _unregister_all_process_groups():
    _registered.groups().clear()


def _get_group_size_by_name(name):
    return _resolve_process_group(name).size()


def _resolve_group_name_by_ranks_and_tag(ranks, tag):
    pg = _find_pg_by_ranks_and_tag(tag, ranks)
    if pg is None:
        raise ValueError("")
    return pg.group_name


def _find_pg_by_ranks_and_tag(tag, ranks):
    tag = f"user:{tag}" if tag and not tag.startswith(("ptd:", "user:")) else tag
    for pg in _world.tags_to_pg.get(tag, ()):
        if pg != GroupMember.NON_GROUP_MEMBER and get_process_group_ranks(pg) == list(ranks):
            return pg
    return None


def _find_or_create_pg_by_ranks_and_tag(tag, ranks, stride):
    if len(ranks) % stride:
        raise AssertionError(f"Ranks length ({len(ranks)}) must be divisible by stride ({stride})")
    mine, me = [], get_rank()
    for i in range(0, len(ranks), stride):
        some = ranks[i:i + stride]
        mine = some if me in some else mine
    mine = sorted(mine)
    pg = _find_pg_by_ranks_and_tag(tag, mine)
    if pg is not None:
        return pg
    if tag == "":
        raise ValueError("Cannot automatically create PG with empty tag")
    return _new_group_with_tag(mine, pg_tag=tag)


def _canonicalize_group_rank(group, global_rank=None, group_rank=None, return_global=False):
    """The rank that is meant by one of two arguments."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else get_group_rank(group, global_rank)


def _check_not_self_rank(group, rank, kind):
    if group.rank() == rank:
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")


# ---- groups are made -------------------------------------------------------------------------------------------------

def _get_default_timeout(backend):
    return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout


def _check_valid_timeout(timeout):
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


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

    class _Options(_base.BackendOptions):
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
        from types import SimpleNamespace
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
    from tede.distributed._checked import CheckedBackend
    return CheckedBackend(backend, _engine_group("mpi", name, rank, size, store, _seconds(timeout), places)[0])


def _create_process_group_wrapper(wrapped_pg, store_prefix, store, rank, world_size, timeout=default_pg_timeout):
    """A backend whose ranks compare what they are about to do."""
    return _checked(wrapped_pg, f"{store_prefix}/checks", _prefix(store_prefix, store), rank, world_size, timeout)


def _prefix(prefix, store):
    if store is None:
        return None
    from tede.distributed._stores import PrefixStore
    return PrefixStore(prefix, store)


def _new_process_group_helper(size, rank, ranks, backend, store, name, pg_options=None, timeout=None, pg_tag=None, device_id=None, group_desc=None,
                              places=None):
    """A group, registered; NON_GROUP_MEMBER where this process isn't among its ranks (an empty list: all)."""
    if name in _world.pg_names.values():
        raise ValueError("The specified group name has already been created, please use a different group name")
    _check_valid_timeout(timeout)
    if pg_tag not in (None, ""):
        existing = _find_pg_by_ranks_and_tag(pg_tag, ranks)
        if existing is not None:
            return existing
    if ranks and get_rank() not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    prefix = _prefix(f"{name}/", store)
    config = BackendConfig(backend)
    by_name, numbers, made = {}, places, {}
    for device, backend_name in config.get_device_backend_map().items():
        if str(backend) == Backend.UNDEFINED and device != "cpu" and not _C._group_engine_there(_ENGINES.get(backend_name, "")):
            continue
        if device == "cuda" and backend_name in (Backend.GLOO, Backend.MPI):
            by_name["cuda"] = backend_name
            continue
        if backend_name not in made or backend_name.upper() not in Backend._plugins:
            made[backend_name], numbers = _new_backend(name, str(backend_name), device, rank, size, prefix, timeout, pg_options, ranks, numbers)
        if isinstance(made[backend_name], ProcessGroup):     # a class of one's own that is the group itself
            pg = made[backend_name]
            if not hasattr(pg, "_backends"):
                ProcessGroup.__init__(pg, rank, size)
            pg._store = prefix
            break
        by_name[device] = made[backend_name]
    else:
        some = next((b for b in by_name.values() if not isinstance(b, str)), None)
        if some is None:
            raise RuntimeError(f"No backend of {backend} is there")
        pg = ProcessGroup(prefix, some.rank(), some.size())
        for device, one in by_name.items():
            kind = Backend.backend_type_map.get(str(getattr(config.device_backend_map[device], "lower", str)()), ProcessGroup.BackendType.CUSTOM)
            pg._register_backend(device, kind, some if isinstance(one, str) else one)
    pg.bound_device_id = device_id
    pg._set_group_name(name)
    pg._set_group_desc(group_desc or "undefined")
    text = str(backend)
    _world.pg_map[pg] = (Backend(text if ":" not in text and text != Backend.UNDEFINED else text if ":" in text else _title_of(pg)), prefix)
    _world.pg_names[pg], _world.pg_backend_config[pg] = name, str(config)
    tag = f"ptd:{name}" if pg_tag in (None, "") else f"user:{pg_tag}"
    _world.tags_to_pg.setdefault(tag, []).append(pg)
    if pg_tag in (None, ""):
        _world.tags_to_pg.setdefault("", []).append(pg)
    _world.pg_to_tag[pg] = tag
    pg._places = numbers if numbers is not None else list(range(pg.size()))       # of the members, among the engine's processes
    return pg


def _title_of(pg):
    return "gloo" if pg._default is None else pg._default.getBackendName()


def _process_group_name(ranks, use_hashed_name):
    if use_hashed_name:
        return _hash_ranks_to_str(ranks)
    name = str(_world.group_count)
    _world.group_count += 1
    return name


def _hash_ranks_to_str(ranks):
    text = "_".join(map(str, ranks))
    unique = f"{text}_{len(_world.pg_names)}"
    return hashlib.sha1(unique.encode(), usedforsecurity=False).hexdigest()


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None,
                       device_id=None, _ranks=None):
    """Make the default group, of all processes, which find each other by init_method (`env://`, `tcp://host:port`, `file://path`) or through a store.

    Processes that mpiexec has started need neither."""
    if _world.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if not world_size > 0:
            raise AssertionError("world_size must be positive if using store")
        if not rank >= 0:
            raise AssertionError("rank must be non-negative if using store")
    if device_id is not None:
        device_id = tede.device(device_id)
        if device_id.index is None and device_id.type != "cpu":
            raise ValueError("init_process_group device_id parameter must be a device with an index (e.g. torch.device('cuda:0'))")
    backend = Backend(backend) if backend else Backend(Backend.UNDEFINED)
    timeout = _get_default_timeout(backend) if timeout is None else timeout
    _check_valid_timeout(timeout)
    name = _process_group_name([], use_hashed_name=False)
    places = None
    if store is None and launched_by_mpi() and rank < 0 and "RANK" not in os.environ and init_method in (None, "env://"):
        if not _engine_place:
            _begin_launched("mpi", timeout.total_seconds())
        rank, world_size = _engine_place[0]
        places = list(range(world_size))
        store = _store_of_launched(rank, world_size, timeout)
    elif store is None:
        from tede.distributed.rendezvous import rendezvous
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout)))
        store.set_timeout(timeout)
        store = _prefix("default_pg", store)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} isn't one of {world_size}")
    try:
        pg = _new_process_group_helper(world_size, rank, [], backend, store, group_name or name, pg_options=pg_options, timeout=timeout, device_id=device_id,
                                       group_desc="default_pg", places=places)
    except BaseException:
        _world.group_count = 0
        raise
    _update_default_pg(pg)
    _world.pg_group_ranks[pg] = {i: i for i in range(pg.size())}
    _end_with_the_program()


def _store_based_barrier(rank, store, group_name, rendezvous_count, timeout, logging_interval=timedelta(seconds=10)):
    """Wait through the store until so many have come here."""
    key = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    come, until = store.add(key, 1), time.monotonic() + timeout.total_seconds()
    if come == rendezvous_count:
        store.set(f"{key}:last", "1")
    while True:
        left = until - time.monotonic()
        try:
            return store.wait([f"{key}:last"], timedelta(seconds=max(min(left, logging_interval.total_seconds()), 0.001)))
        except RuntimeError as error:
            come = store.add(key, 0)
            text = f"rank={rank}, key={key} (world_size={rendezvous_count}, num_workers_joined={come}, timeout={timeout})"
            if left <= logging_interval.total_seconds():
                raise _C.DistStoreError(f"Timed out initializing process group in store based barrier on {text}") from error
            logger.debug("Waiting in store based barrier to initialize process group for %s", text)


def _store_of_launched(rank, size, timeout):
    """Processes of a launcher have no store."""
    return None


_at_exit = []


def _end_with_the_program():
    if not _at_exit:
        import atexit
        import sys
        _at_exit.append(atexit.register(lambda: _C._group_end(hasattr(sys, "last_type"))))       # what no handler has caught


def destroy_process_group(group=None):
    """Forget a group; without one, all of them."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    pg = _world.default_pg if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    if group is None or group is _world.default_pg:
        for one in reversed(list(_world.pg_names)):
            one.shutdown()
        _update_default_pg(None)
        for table in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config, _world.pg_to_tag, _world.tags_to_pg,
                      _world.pg_coalesce_state):
            table.clear()
        _world.group_count = 0
        return
    pg.shutdown()
    for table in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config, _world.pg_coalesce_state):
        table.pop(pg, None)
    tag = _world.pg_to_tag.pop(pg, None)
    for known in (tag, ""):
        if pg in _world.tags_to_pg.get(known, ()):
            _world.tags_to_pg[known].remove(pg)


def _abort_process_group(group=None):
    """Fail what goes on in a group, and forget it."""
    (_world.default_pg if group is None else group).abort()
    destroy_process_group(group)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None, device_id=None, sort_ranks=True):
    """A group of some ranks of the default one. All ranks call it, also those that aren't among them (unless use_local_synchronization)."""
    return _new_group_with_tag(ranks, timeout, backend, pg_options, None, use_local_synchronization, group_desc, device_id, sort_ranks)


def _new_group_with_tag(ranks=None, timeout=None, backend=None, backend_options=None, pg_tag=None, use_local_synchronization=False, group_desc=None,
                        device_id=None, sort_ranks=True):
    default = _get_default_group()
    device_id = default.bound_device_id if device_id is None else device_id
    default_backend, store = _world.pg_map[default]
    size, rank = default.size(), default.rank()
    backend = Backend(backend or (_world.pg_backend_config[default] if ":" in str(default_backend) else default_backend))
    timeout = _get_default_timeout(backend) if timeout is None else timeout
    _check_valid_timeout(timeout)
    if use_local_synchronization:
        if backend == Backend.MPI:
            raise ValueError("MPI backend doesn't support use_local_synchronization=True")
        if ranks is not None and rank not in ranks:
            return None
    if ranks is not None:
        ranks = sorted(ranks) if sort_ranks else list(ranks)
        if len(ranks) > size:
            raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks of a group are different, not {ranks}")
        for one in ranks:
            if one < 0 or one >= size:
                raise ValueError("The new group's rank should be within the world_size set by init_process_group")
        group_rank = ranks.index(rank) if rank in ranks else None
    else:
        ranks, group_rank = list(range(size)), rank
    name = _process_group_name(ranks, use_hashed_name=use_local_synchronization)
    known = getattr(default, "_places", ())
    places = [known[i] for i in ranks] if len(known) == size else None
    pg = _new_process_group_helper(len(ranks), group_rank, ranks, backend, store, name, pg_options=backend_options, timeout=timeout, pg_tag=pg_tag,
                                   device_id=device_id, group_desc=group_desc, places=places)
    if pg != GroupMember.NON_GROUP_MEMBER:
        _world.pg_group_ranks[pg] = {one: i for i, one in enumerate(ranks)}
    return pg


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of group_size neighbouring ranks: (this rank's, all of them)."""
    if group_size is None:
        if not tede.cuda.is_available():
            raise ValueError("Default group size only takes effect when CUDA is available.If your program runs on CPU, set group_size explicitly")
        group_size = tede.cuda.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    all_ranks = list(range(size)) if group is None else get_process_group_ranks(group)
    lists = [all_ranks[i:i + group_size] for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of disjoint lists of ranks: (this rank's, all of them)."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    groups, mine, seen = [], None, {}
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks=ranks, timeout=timeout, backend=backend, pg_options=pg_options, group_desc=group_desc)
        groups.append(made)
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
            if get_rank() == rank:
                mine = made
    return mine, groups


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """A group of those ranks of the parent that are in the same list as this one; None for a rank that is in no list."""
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = _group_or_default(parent_pg)
    if parent not in _world.pg_map:
        raise RuntimeError(f"Group {parent} is not registered, please create group with torch.distributed.new_group API")
    if any(not ranks for ranks in split_ranks):
        raise ValueError("the split group cannot be empty")
    me, mine = get_rank(parent), None
    for ranks in split_ranks:
        if len(ranks) > parent.size():
            raise ValueError("the split group's size should be less or equal to the world_size set by init_process_group")
        if len(set(ranks)) != len(ranks):
            raise ValueError("the split group cannot have duplicate ranks")
        mine = sorted(ranks) if me in ranks else mine
    name = _process_group_name(mine or [], use_hashed_name=False)
    if mine is None:
        return None
    parent_backend, store = _world.pg_map[parent]
    backend = Backend(backend or parent_backend)
    ranks = [get_global_rank(parent, rank) for rank in mine]
    pg = _new_process_group_helper(len(mine), mine.index(me), ranks, backend, store, f"{name}:split:{ranks[0]}",
                                   pg_options=pg_options, timeout=timeout or _get_default_timeout(backend), group_desc=group_desc or
                                   f"{parent.group_desc}:split:{parent._id()}", places=[parent._places[i] for i in mine])
    _world.pg_group_ranks[pg] = {one: i for i, one in enumerate(ranks)}
    return pg


def shrink_group(ranks_to_exclude, group=None, shrink_flags=0, pg_options=None):
    """A group without some ranks, of those that are left; only they call it."""
    pg = _group_or_default(group)
    excluded = set(ranks_to_exclude)
    if not excluded:
        raise ValueError("ranks_to_exclude cannot be empty")
    if pg.rank() in excluded:
        raise ValueError(f"Current rank {pg.rank()} is in the list of ranks to exclude {sorted(excluded)}")
    left = [rank for i, rank in enumerate(get_process_group_ranks(pg)) if i not in excluded]
    return new_group(left, backend=get_backend(pg), pg_options=pg_options, use_local_synchronization=get_backend(pg) != Backend.MPI)


# ---- operands --------------------------------------------------------------------------------------------------------

def _check_single_tensor(tensor, name):
    if not isinstance(tensor, tede.Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(tensor)} instead.")


def _check_tensor_list(tensors, name):
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(tensors)} instead.")
    if not all(isinstance(tensor, tede.Tensor) for tensor in tensors):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
                        f"             but got {type(tensors)} with elements of type {[type(tensor) for tensor in tensors]}.")


def _ensure_all_tensors_same_dtype(*tensors):
    last = None
    for some in tensors:
        for tensor in itertools.chain([some] if isinstance(some, tede.Tensor) else some):
            dtype = tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype
            last = dtype if last is None else last
            if dtype is not last:
                raise ValueError("Invalid usage of tensors with different dtypes"
                                 f"Found {last} and  {tensor.dtype}")


def supports_complex(reduceOp):
    """Whether a reduction is one of complex numbers."""
    number = _reduction(reduceOp)[0]
    return number in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


def _real(tensor):
    return tede.view_as_real(tensor) if tensor.is_complex() else tensor


def _check_complex(name, tensors, op):
    if any(tensor.is_complex() for tensor in tensors) and not supports_complex(op):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def _device_of_objects(group=None):
    pg = _group_or_default(group)
    devices = pg._device_types
    return devices[0] if devices and tede.device("cpu") not in devices else tede.device("cpu")


_get_object_coll_device = _get_pg_default_device = _device_of_objects


def _options(kind, async_op, op=None):
    opts = kind()
    opts.asyncOp = async_op
    if op is not None:
        opts.reduceOp = op
    return opts


def _finish(work, async_op):
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


# ---- coalescing ------------------------------------------------------------------------------------------------------

class _IllegalWork(Work):
    """What a call within a coalescing manager returns: its work is the manager's."""

    def __getattribute__(self, name):
        if name in ("is_success", "exception", "wait", "source_rank", "_source_rank", "result", "synchronize"):
            raise ValueError(f"Illegal to call {name} on IllegalWork object")
        return super().__getattribute__(name)


class _CollOp:
    """A call that is left to a coalescing manager."""

    def __init__(self, op, tensor, dst_tensor=None, redop=None, root=None):
        self.op, self.tensor, self.dst_tensor, self.redop, self.root = op, tensor, dst_tensor, redop, root


class _CoalescingManager:
    def __init__(self):
        self.works = []

    def append(self, work=None):
        if work:
            self.works.append(work)

    def wait(self):
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Calls of one kind in this block are made as one, at its end."""
    pg = _group_or_default(group)
    calls = _world.pg_coalesce_state.setdefault(pg, [])
    if calls:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _CoalescingManager()
    try:
        yield manager
    finally:
        calls = _world.pg_coalesce_state.pop(pg)
    if calls:
        first = calls[0]
        if any(call.op is not first.op for call in calls):
            raise AssertionError("calls of different kinds can't be coalesced")
        read, written = [call.tensor for call in calls], [call.dst_tensor for call in calls]
        if first.op is all_reduce:
            manager.append(pg.allreduce_coalesced(read, _options(AllreduceCoalescedOptions, async_ops, first.redop)))
        elif first.op is all_gather_into_tensor:
            manager.append(pg.all_gather_single_coalesced(written, read, _options(AllgatherOptions, async_ops)))
        else:
            manager.append(pg.reduce_scatter_single_coalesced(written, read, _options(ReduceScatterOptions, async_ops, first.redop)))
    if not async_ops:
        manager.wait()


def _coalesced(pg, *call):
    """Whether the call is left to a coalescing manager."""
    if pg in _world.pg_coalesce_state:
        _world.pg_coalesce_state[pg].append(_CollOp(*call))
        return True
    return False


# ---- calls that all ranks make ---------------------------------------------------------------------------------------

def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Every rank's tensor becomes the sum (or another reduction) of all of them."""
    _check_single_tensor(tensor, "tensor")
    if group is not None and _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce")
    if tensor.is_complex():
        _check_complex("all_reduce", [tensor], op)
        tensor = tede.view_as_real(tensor)
    pg = _world.default_pg if group is None else group
    if pg is None:
        _get_default_group()
    if _world.pg_coalesce_state and _coalesced(pg, all_reduce, tensor, None, op):
        return _IllegalWork() if async_op else None
    opts = AllreduceOptions()
    opts.asyncOp, opts.reduceOp = async_op, op
    return _finish(pg.allreduce([tensor], opts), async_op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """all_reduce of several tensors at once."""
    tensors = [tensors] if isinstance(tensors, tede.Tensor) else tensors
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_reduce_coalesced")
    _check_complex("all_reduce", tensors, op)
    work = _group_or_default(group).allreduce_coalesced([_real(tensor) for tensor in tensors], _options(AllreduceCoalescedOptions, async_op, op))
    return work.get_future() if async_op else _finish(work, False)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Every rank's tensor becomes the one of rank src."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast")
    root = _canonicalize_group_rank(pg, src, group_src)
    _check_single_tensor(tensor, "tensor")
    opts = _options(BroadcastOptions, async_op)
    opts.rootRank, opts.rootTensor = root, 0
    return _finish(pg.broadcast([_real(tensor)], opts), async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """The tensor of rank dst becomes the sum (or another reduction) of all of them."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("reduce")
    root = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    _check_complex("reduce", [tensor], op)
    opts = _options(ReduceOptions, async_op, op)
    opts.rootRank = root
    return _finish(pg.reduce([_real(tensor)], opts), async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """tensor_list[i] becomes the tensor of rank i."""
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather")
    work = _group_or_default(group).allgather([[_real(t) for t in tensor_list]], [_real(tensor)], _options(AllgatherOptions, async_op))
    return _finish(work, async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """output_tensor becomes the tensors of all ranks, one behind the other."""
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_into_tensor")
    output, input = _real(output_tensor), _real(input_tensor)
    pg = _group_or_default(group)
    if _world.pg_coalesce_state and _coalesced(pg, all_gather_into_tensor, input, output):
        return _IllegalWork() if async_op else None
    return _finish(pg.all_gather_single(output, input, _options(AllgatherOptions, async_op)), async_op)


all_gather_single = all_gather_into_tensor


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    """An older name of all_gather_into_tensor."""
    warnings.warn("torch.distributed._all_gather_base is a private function and will be deprecated. Please use torch.distributed.all_gather_into_tensor instead.",
                  FutureWarning, stacklevel=2)
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """output_tensor_lists[i] becomes the list of rank i."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_coalesced")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for some in output_tensor_lists:
        _check_tensor_list(some, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(some)
    work = _group_or_default(group).allgather_coalesced([[_real(t) for t in some] for some in output_tensor_lists], [_real(t) for t in input_tensor_list],
                                                        _options(AllgatherOptions, async_op))
    return work.get_future() if async_op else _finish(work, False)


def _validate_output_list_for_rank(me, root, outputs):
    if root == me:
        if not outputs:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif outputs:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """On rank dst gather_list[i] becomes the tensor of rank i."""
    _check_single_tensor(tensor, "tensor")
    _check_tensor_list(gather_list or [], "gather_list")
    _ensure_all_tensors_same_dtype(tensor, gather_list or [])
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("gather")
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _validate_output_list_for_rank(pg.rank(), root, gather_list)
    opts = _options(GatherOptions, async_op)
    opts.rootRank = root
    outputs = [[_real(t) for t in gather_list]] if root == pg.rank() else []
    return _finish(pg.gather(outputs, [_real(tensor)], opts), async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Rank i's tensor becomes scatter_list[i] of rank src."""
    _check_single_tensor(tensor, "tensor")
    _check_tensor_list(scatter_list or [], "scatter_list")
    _ensure_all_tensors_same_dtype(tensor, scatter_list or [])
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("scatter")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if pg.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        inputs = [[_real(t) for t in scatter_list]]
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    else:
        inputs = []
    opts = _options(ScatterOptions, async_op)
    opts.rootRank = root
    return _finish(pg.scatter([_real(tensor)], inputs, opts), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Rank i's output becomes the sum (or another reduction) of all input_list[i]."""
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter")
    _check_complex("reduce_scatter", input_list, op)
    work = _group_or_default(group).reduce_scatter([_real(output)], [[_real(t) for t in input_list]], _options(ReduceScatterOptions, async_op, op))
    return _finish(work, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Rank i's output becomes part i of the sum (or another reduction) of all inputs."""
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    if _rank_not_in_group(group):
        return _warn_not_in_group("reduce_scatter_tensor")
    _check_complex("reduce_scatter_tensor", [input], op)
    pg = _group_or_default(group)
    output, input = _real(output), _real(input)
    if _world.pg_coalesce_state and _coalesced(pg, reduce_scatter_tensor, input, output, op):
        return _IllegalWork() if async_op else None
    return _finish(pg.reduce_scatter_single(output, input, _options(ReduceScatterOptions, async_op, op)), async_op)


reduce_scatter_single = reduce_scatter_tensor


def _reduce_scatter_base(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """An older name of reduce_scatter_tensor."""
    warnings.warn("torch.distributed._reduce_scatter_base is a private function and will be deprecated. Please use torch.distributed.reduce_scatter_tensor "
                  "instead.", FutureWarning, stacklevel=2)
    return reduce_scatter_tensor(output, input, op, group, async_op)


def _numbers(sizes):
    """Sizes of parts, which may be a tensor; none: an empty list."""
    return [] if sizes is None else sizes.tolist() if isinstance(sizes, tede.Tensor) else sizes


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Rank i gets part i of every rank's input; parts are equal, or have so many rows each."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all_single")
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    work = _group_or_default(group).all_to_all_single(_real(output), _real(input), _numbers(output_split_sizes), _numbers(input_split_sizes),
                                                      _options(AllToAllOptions, async_op))
    return _finish(work, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Rank i's output_tensor_list[j] becomes rank j's input_tensor_list[i]."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_to_all")
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    work = _group_or_default(group).alltoall([_real(t) for t in output_tensor_list], [_real(t) for t in input_tensor_list],
                                             _options(AllToAllOptions, async_op))
    return _finish(work, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Wait until all ranks have come here."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("barrier")
    pg = _group_or_default(group)
    opts = _options(BarrierOptions, async_op)
    if device_ids is not None:
        if not isinstance(device_ids, list):
            raise TypeError("Invalid function argument: device_ids type should be List[int]")
        opts.device_ids = device_ids
    if timeout is not None:
        opts.timeout = timeout
    return _finish(pg.barrier(opts), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """A barrier whose error on rank 0 says which ranks haven't come in time."""
    if _rank_not_in_group(group):
        _warn_not_in_group("monitored_barrier")
        return None
    pg = _group_or_default(group)
    if str(get_backend(pg)) not in (Backend.GLOO, Backend.MPI) and "cpu" not in pg._backends:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    timeout = _get_default_timeout(get_backend(pg)) if timeout is None else timeout
    if isinstance(timeout, timedelta) and timeout < timedelta(0) or isinstance(timeout, (int, float)) and timeout <= 0:
        raise ValueError(f"a timeout is positive, not {timeout}")
    timeout = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
    _check_valid_timeout(timeout)
    return pg.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


# ---- between two ranks -----------------------------------------------------------------------------------------------

def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begin to send a tensor to rank dst: its work."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("isend")
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    return pg.send([_real(tensor)], to, tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begin to receive a tensor from rank src, or from any: its work."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("irecv")
    _check_single_tensor(tensor, "tensor")
    if src is None and group_src is None:
        return pg.recv_anysource([_real(tensor)], tag)
    return pg.recv([_real(tensor)], _canonicalize_group_rank(pg, src, group_src), tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to rank dst."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("send")
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    work = isend(tensor, group=pg, tag=tag, group_dst=to)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from rank src, or from any; the rank that has sent it."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    pg = _group_or_default(group)
    if src is None and group_src is None:
        source = work._source_rank()
        return get_global_rank(pg, source)
    return src if group_src is None else get_global_rank(pg, group_src)


class P2POp:
    """A send or a receive for batch_isend_irecv."""

    def __new__(cls, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        _check_op(op)
        _check_single_tensor(tensor, "tensor")
        return object.__new__(cls)

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        self.op, self.tensor, self.group, self.tag = op, tensor, _group_or_default(group), tag
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self):
        me, size = get_rank(self.group), self.group.size()
        source, target = (me, self.group_peer) if self.op is isend else (self.group_peer, me)
        return f"P2POp({self.op.__name__} pg={self.group.group_name}, size={size}, s={source}, d={target}, {self.tensor.shape}, {self.tensor.dtype})"


def _check_op(op):
    if op not in (isend, irecv):
        raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")


def _check_p2p_op_list(ops):
    if not isinstance(ops, list) or not all(isinstance(op, P2POp) for op in ops):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not all(op.group is ops[0].group for op in ops):
        raise ValueError("All ops need to use the same group.")


def batch_isend_irecv(p2p_op_list):
    """Begin several sends and receives: their works."""
    _check_p2p_op_list(p2p_op_list)
    works = [op.op(op.tensor, group=op.group, tag=op.tag, **{"group_dst" if op.op is isend else "group_src": op.group_peer}) for op in p2p_op_list]
    return [work for work in works if work is not None]


# ---- objects ---------------------------------------------------------------------------------------------------------

def _object_to_tensor(obj, device=None, group=None):
    """(the bytes of its pickle, how many)"""
    file = io.BytesIO()
    _pickler(file).dump(obj)
    data = tede.frombuffer(bytearray(file.getbuffer()), dtype=tede.uint8)
    size = tede.tensor([data.numel()], dtype=tede.int64)
    return (data, size) if device is None or tede.device(device).type == "cpu" else (data.to(device), size.to(device))


def _tensor_to_object(tensor, size, group=None):
    return _unpickler(io.BytesIO(tensor.cpu().numpy().tobytes()[:int(size)])).load()


def all_gather_object(object_list, obj, group=None):
    """object_list[i] becomes the object of rank i."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_object")
    device = _device_of_objects(group)
    data, size = _object_to_tensor(obj, device, group)
    n = get_world_size(group)
    sizes = tede.zeros(n, dtype=tede.int64, device=device)
    all_gather_into_tensor(sizes, size, group=group)
    most = int(sizes.max())
    padded = tede.zeros(most, dtype=tede.uint8, device=device)
    padded[:data.numel()] = data
    parts = tede.empty(n, most, dtype=tede.uint8, device=device)
    all_gather(list(parts.unbind(0)), padded, group=group)
    for i, count in enumerate(sizes.tolist()):
        object_list[i] = _tensor_to_object(parts[i], count, group)
    return None


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """On rank dst object_gather_list[i] becomes the object of rank i."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("gather_object")
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _validate_output_list_for_rank(pg.rank(), root, object_gather_list)
    device = _device_of_objects(pg)
    data, size = _object_to_tensor(obj, device, pg)
    sizes = tede.zeros(pg.size(), dtype=tede.int64, device=device)
    all_gather_into_tensor(sizes, size, group=pg)
    most = int(sizes.max())
    padded = tede.zeros(most, dtype=tede.uint8, device=device)
    padded[:data.numel()] = data
    parts = tede.empty(pg.size(), most, dtype=tede.uint8, device=device)
    gather(padded, list(parts.unbind(0)) if pg.rank() == root else None, group=pg, group_dst=root)
    if pg.rank() == root:
        for i, count in enumerate(sizes.tolist()):
            object_gather_list[i] = _tensor_to_object(parts[i], count, pg)
    return None


def _pack(objects, device, group):
    parts = [_object_to_tensor(obj, device, group) for obj in objects]
    sizes = tede.cat([size for _, size in parts])
    return sizes, parts[0][0] if len(parts) == 1 else tede.cat([data for data, _ in parts])


def _unpack(objects, sizes, data, group):
    at = 0
    for i, size in enumerate(sizes.tolist()):
        objects[i] = _tensor_to_object(data[at:at + size], size, group)
        at += size


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Send objects to rank dst."""
    pg = _group_or_default(group)
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    if _rank_not_in_group(pg):
        return _warn_not_in_group("send_object_list")
    sizes, data = _pack(object_list, device or _device_of_objects(pg), pg)
    send(sizes, group=pg, group_dst=to)
    return send(data, group=pg, group_dst=to)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receive as many objects as the list has from rank src, or from any; the rank that has sent them."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        _warn_not_in_group("recv_object_list")
        return -1
    device = device or _device_of_objects(pg)
    sizes = tede.empty(len(object_list), dtype=tede.int64, device=device)
    source = recv(sizes, src=src, group=pg, group_src=group_src)
    data = tede.empty(int(sizes.sum()), dtype=tede.uint8, device=device)
    again = recv(data, src=source, group=pg)
    if source != again:
        raise AssertionError("Mismatch in return ranks for object sizes and objects.")
    _unpack(object_list, sizes, data, pg)
    return source


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """The objects in every rank's list become those of rank src."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast_object_list")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    device = device or _device_of_objects(pg)
    if pg.rank() == root:
        sizes, data = _pack(object_list, device, pg)
    else:
        sizes = tede.empty(len(object_list), dtype=tede.int64, device=device)
    broadcast(sizes, group=pg, group_src=root)
    if pg.rank() != root:
        data = tede.empty(int(sizes.sum()), dtype=tede.uint8, device=device)
    broadcast(data, group=pg, group_src=root)
    if pg.rank() != root:
        _unpack(object_list, sizes, data, pg)
    return None


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """The first object of rank i's output list becomes object i of rank src's input list."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("scatter_object_list")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    device = _device_of_objects(pg)
    most = tede.zeros(1, dtype=tede.int64, device=device)
    parts = sizes = None
    if pg.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        pairs = [_object_to_tensor(obj, device, pg) for obj in scatter_object_input_list]
        most.fill_(max(data.numel() for data, _ in pairs))
        sizes = [size for _, size in pairs]
        parts = []
        for data, _ in pairs:
            part = tede.zeros(int(most), dtype=tede.uint8, device=device)
            part[:data.numel()] = data
            parts.append(part)
    broadcast(most, group=pg, group_src=root)
    mine, size = tede.empty(int(most), dtype=tede.uint8, device=device), tede.zeros(1, dtype=tede.int64, device=device)
    scatter(mine, parts, group=pg, group_src=root)
    scatter(size, sizes, group=pg, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(mine, int(size), pg)
    return None


# ---- what programs ask besides ---------------------------------------------------------------------------------------

class DebugLevel(enum.IntEnum):
    OFF, INFO, DETAIL = range(3)


def _level_of_environment():
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ValueError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    return DebugLevel[name]


_debug_level = []


def get_debug_level():
    """What TORCH_DISTRIBUTED_DEBUG says, or set_debug_level has said."""
    if not _debug_level:
        set_debug_level_from_env()
    return _debug_level[0]


def set_debug_level(level):
    _debug_level[:] = [DebugLevel(level)]


def set_debug_level_from_env():
    set_debug_level(_level_of_environment())


@contextlib.contextmanager
def _time_estimator(group=None, device=None):
    raise NotImplementedError("times of collectives are estimated by tede.distributed.simulate")
    yield


class _reduce_op:
    """An older name of ReduceOp."""

    def __init__(self):
        for name in ("SUM", "PRODUCT", "MIN", "MAX"):
            setattr(self, name, getattr(ReduceOp, name))
        self.__members__ = dict(RedOpType.__members__)

    def __getattribute__(self, key):
        if not key.startswith("__"):
            warnings.warn("`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead", FutureWarning, stacklevel=2)
        return object.__getattribute__(self, key)


reduce_op = _reduce_op()

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "P2POp", "all_gather", "all_gather_coalesced", "all_gather_object", "all_reduce", "all_reduce_coalesced",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "send_object_list", "recv_object_list", "broadcast_object_list",
    "destroy_process_group", "gather", "gather_object", "get_backend_config", "get_backend", "get_default_backend_for_device", "get_rank", "get_world_size",
    "get_pg_count", "group", "init_process_group", "irecv", "is_gloo_available", "is_initialized", "is_mpi_available", "is_backend_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "recv", "reduce", "reduce_scatter", "scatter", "scatter_object_list", "send", "supports_complex",
    "AllreduceCoalescedOptions", "AllreduceOptions", "AllToAllOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions", "GroupName", "ProcessGroup",
    "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "DebugLevel", "get_debug_level", "Work", "default_pg_timeout", "get_group_rank",
    "get_global_rank", "get_process_group_ranks", "reduce_op", "all_gather_single", "all_gather_into_tensor", "reduce_scatter_single",
    "reduce_scatter_tensor", "get_node_local_rank", "split_group", "shrink_group", "ProcessGroupGloo"]
