"""Groups are made, divided and forgotten: init_process_group, new_group and what is made of it, destroy_process_group."""
import hashlib
import logging
import os
import time
from datetime import timedelta

import tede
from tede import _C
from tede.distributed._backends import _ENGINES, Backend, BackendConfig, _check_valid_timeout, _get_default_timeout
from tede.distributed._engines import _begin_launched, _end_with_the_program, _engine_place, _new_backend, _prefix
from tede.distributed._group import ProcessGroup, launched_by_mpi
from tede.distributed._world import (
    GroupMember, _find_pg_by_ranks_and_tag, _get_default_group, _group_or_default, _update_default_pg, _world, get_backend, get_global_rank,
    get_process_group_ranks, get_rank, get_world_size)
from tede.distributed.rendezvous import rendezvous

logger = logging.getLogger("tede.distributed.distributed_c10d")
STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"      # the key in the store that ranks count themselves in


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
