"""Values in nested state dicts by their paths: those of {"model": {"w": x}} are ("model", "w").

Dicts are always gone into, tuples never; lists where a dict is in them, or a tensor. Which paths there are is what a checkpoint's names are made of, so
they are PyTorch's, and each loads what the other has saved."""
from collections.abc import Mapping

from tede import Tensor

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict", "traverse_state_dict_v_2_3"]


def _keep_visiting_tensors(value):
    return isinstance(value, Tensor)


def traverse_state_dict(state_dict, visitor, keep_traversing=_keep_visiting_tensors):
    """visitor(path, value) of each value; a list counts as one if no dict is in it and nothing for which keep_traversing(element) is true."""
    def is_one(value):
        if isinstance(value, Mapping):
            return False
        return not isinstance(value, list) or all(is_one(v) and not keep_traversing(v) for v in value)
    _traverse(state_dict, visitor, is_one)


def traverse_state_dict_v_2_3(state_dict, visitor, keep_traversing=_keep_visiting_tensors):
    """The paths that PyTorch's checkpoints had up to 2.3: a dict or a list without tensors counts as one."""
    def is_one(value):
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        return all(is_one(v) and not keep_traversing(v) for v in inner)
    _traverse(state_dict, visitor, is_one)


def _traverse(state_dict, visitor, is_one):
    def visit(path, value):
        if is_one(value):
            visitor(path, value)
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                visit((*path, str(key)), inner)
        else:
            for i, inner in enumerate(value):
                visit((*path, i), inner)
    for key, value in state_dict.items():
        visit((str(key),), value)


def set_element(root_dict, path, value):
    """root_dict[path[0]][path[1]]... = value; dicts and lists on the way are made."""
    at = root_dict
    for i, key in enumerate(path):
        if isinstance(at, list):
            at.extend([None] * (key + 1 - len(at)))
        elif isinstance(at, dict) and key not in at:
            key = next((k for k in at if str(k) == key), key)
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


def get_element(root_dict, path, default_value=None):
    """root_dict[path[0]][path[1]]..., or the default where there is nothing."""
    at = root_dict
    for key in path:
        there = isinstance(at, list) and isinstance(key, int) and key < len(at) or isinstance(at, Mapping) and key in at
        if not there:
            return default_value
        at = at[key]
    return at


def print_tensor(path, value, print_fun=print):
    """A visitor that prints what it is passed: of tensors the shape."""
    print_fun(f"{'.'.join(map(str, path))}: {f'{type(value).__name__} {tuple(value.shape)}' if isinstance(value, Tensor) else value}")
