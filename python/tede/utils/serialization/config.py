"""What `load` and `save` do where a call doesn't say.

    config.load.mmap = True                             # until it is set again
    with config.patch("save.storage_alignment", 4096):  # for a while; also a decorator
        tede.save(state, "model.pt")
"""
import contextlib


class _Options:
    """Options with their defaults; no others can be set."""

    def __init__(self, **defaults):
        self.__dict__.update(defaults)

    def __setattr__(self, name, value):
        if name not in self.__dict__:
            raise AttributeError(f"torch.utils.serialization.config has no option {name!r}, but {', '.join(self.__dict__)}")
        self.__dict__[name] = value


# Offsets of storages are in the archive, where they are read whatever is said here; memory of devices isn't pinned.
load = _Options(mmap=False, endianness=None, mmap_flags=2, calculate_storage_offsets=False)        # mmap_flags: mmap.MAP_PRIVATE
save = _Options(compute_crc32=True, use_pinned_memory_for_d2h=False, storage_alignment=64)


@contextlib.contextmanager
def patch(option=None, value=None, **changes):
    """Set an option, "load.mmap", or those of a dict, for the duration of a `with` or of calls of a function."""
    changes.update(option if isinstance(option, dict) else {} if option is None else {option: value})
    parts = {"load": load, "save": save}
    places = {name: (parts[name.partition(".")[0]], name.partition(".")[2]) for name in changes}
    before = {name: getattr(*place) for name, place in places.items()}
    try:
        for name, place in places.items():
            setattr(*place, changes[name])
        yield
    finally:
        for name, place in places.items():
            setattr(*place, before[name])
