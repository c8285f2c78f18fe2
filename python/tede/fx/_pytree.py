"""Containers as arguments of graphs: flattened as a given specification says, whatever order they are in."""
from collections import namedtuple

from tede.utils._pytree import PyTree, TreeSpec, tree_flatten  # noqa: F401

SUPPORTED_NODES, SUPPORTED_NODES_EXACT_MATCH = {}, {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Let ``flatten_fn_spec(container, spec)`` give the children of containers of a class."""
    SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_spec, flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec):
    """The leaves, in the order of the specification."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        children = SUPPORTED_NODES[spec.type](pytree, spec)
        return [leaf for child, inner in zip(children, spec.children()) for leaf in tree_flatten_spec(child, inner)]
    leaves, real = tree_flatten(pytree)
    if real != spec:
        raise RuntimeError(f"Real spec {real} of object {pytree} is different from expected spec {spec}.")
    return leaves


def _dict_flatten_spec(d, spec):
    return [d[key] for key in spec.context]


def _list_flatten_spec(d, spec):
    return [d[i] for i in range(spec.num_children)]


def _same_length(d, spec):
    return len(d) == spec.num_children


_tuple_flatten_spec = _namedtuple_flatten_spec = _list_flatten_spec
register_pytree_flatten_spec(dict, _dict_flatten_spec, _same_length)
for _cls in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_cls, _list_flatten_spec, _same_length)
