"""Nested state dicts as flat ones: {"model": {"w": x}} is {"model.w": x}, with the path of each name."""
from tede.distributed.checkpoint._traverse import set_element, traverse_state_dict

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def flatten_state_dict(state_dict, traverse=traverse_state_dict):
    """(flat dict, name -> path)."""
    flat, paths = {}, {}

    def add(path, value):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    traverse(state_dict, add)
    return flat, paths


def unflatten_state_dict(state_dict, mapping):
    nested = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
