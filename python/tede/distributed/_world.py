"""The groups of this process: the default one, all by name, tag and ranks, and who is in them.

Ranks are those of the default group unless a name says otherwise: `group_src` and `group_rank` are those of the group."""
import os
import threading
import warnings

from tede.distributed._backends import Backend, _check_valid_timeout

GroupName = str


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
