"""How much of what groups do is checked: TORCH_DISTRIBUTED_DEBUG, or what the program says."""
import enum
import os


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
