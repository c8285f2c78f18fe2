"""Types of what is read from a typed container, for nodes: traces know those of parameters only."""
import operator
import typing


def annotate_getitem_nodes(graph):
    """Give getitem nodes the type of the element that they read from a node whose type is a tuple, list, dict or named tuple."""
    for node in graph.nodes:
        if node.target is not operator.getitem or node.type is not None:
            continue
        container, index = node.args
        kind = container.type
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is list:
            node.type = inner[0]
        elif origin is dict:
            node.type = inner[1]
        elif origin is tuple and len(inner) == 2 and inner[1] is ...:
            node.type = inner[0]
        elif origin is tuple and isinstance(index, int) and index < len(inner):
            node.type = inner[index]
    for node in graph.nodes:        # named tuples are read by name
        if node.target is getattr and node.type is None and hasattr(node.args[0], "type"):
            node.type = getattr(node.args[0].type, "__annotations__", {}).get(node.args[1])
