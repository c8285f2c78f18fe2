"""Nested state dicts as flat ones: {"model": {"w": x}} is {"model.w": x}, with the path of each name."""
from tede import Tensor

__all__ = ["flatten_state_dict", "unflatten_state_dict", "set_element"]


def _keeps(value):
    """Whether a list is one object: no tensor is in it."""
    if isinstance(value, dict):
        return all(_keeps(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(_keeps(v) for v in value)
    return not isinstance(value, Tensor)


def flatten_state_dict(state_dict):
    """(flat dict, name -> path)."""
    flat, paths = {}, {}

    def visit(path, value):
        if isinstance(value, dict) and value:
            children = [(str(k), v) for k, v in value.items()]
        elif isinstance(value, (list, tuple)) and not _keeps(value):
            children = list(enumerate(value))
        else:
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = value, path
            return
        for key, inner in children:
            visit((*path, key), inner)
    for key, value in state_dict.items():
        visit((str(key),), value)
    return flat, paths


def set_element(root, path, value):
    """root[path[0]][path[1]]... = value; dicts and lists on the way are made."""
    at = root
    for i, key in enumerate(path):
        if isinstance(at, list):
            at.extend([None] * (key + 1 - len(at)))
        elif isinstance(at, dict) and key not in at:
            match = next((k for k in at if str(k) == key), key)
            key = match
        if i == len(path) - 1:
            at[key] = value
            return
        inner = at[key] if isinstance(at, list) else at.get(key)
        if inner is None:
            inner = [] if isinstance(path[i + 1], int) else {}
            at[key] = inner
        elif isinstance(inner, tuple):
            at[key] = inner = list(inner)
        at = inner


def unflatten_state_dict(state_dict, mapping):
    nested = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
