"""What a call's results are assigned to, read from the caller's bytecode: the names in `i, j = dims()`."""
import dis
import functools

_STORES = {"STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_FAST_MAYBE_NULL"}


def _stored(instructions):
    """The names in the order in which they are assigned, up to a target that has none (y.x, y[0])."""
    for one in instructions:
        if one.opname in _STORES:
            yield one.argval
        elif one.opname == "STORE_FAST_STORE_FAST":
            yield from one.argval
        elif one.opname == "STORE_FAST_LOAD_FAST":
            yield one.argval[0]
            return
        else:
            return


@functools.lru_cache(maxsize=1024)
def _targets(code, at):
    after = (one for one in dis.get_instructions(code) if one.offset > at and one.opname != "CACHE")
    first = next(after, None)
    if first is not None and first.opname == "UNPACK_SEQUENCE":
        return first.argval, tuple(_stored(after))[:first.argval]
    names = tuple(_stored([first])) if first is not None else ()
    return None, names[:1]


def targets(frame):
    """(how many targets the running call's result is unpacked to, None if it isn't; the names of the first of them)."""
    return _targets(frame.f_code, frame.f_lasti)
