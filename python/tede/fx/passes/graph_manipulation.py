"""Other targets for nodes, and the sizes of what they make."""
from collections import namedtuple

import tede
from tede.fx.graph import Graph
from tede.fx.node import map_arg
from tede.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]

size_bytes = namedtuple("size_bytes", ["output_size", "total_size"])


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Let the nodes with one op and target have others."""
    graph, copies = Graph(), {}
    for node in fx_module.graph.nodes:
        if (node.op, node.target) == (old_op, old_target):
            copies[node] = graph.create_node(new_op, new_target, map_arg(node.args, lambda n: copies[n]),
                                             map_arg(node.kwargs, lambda n: copies[n]), node.name)
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    fx_module.graph = graph


def get_tensor_meta(node):
    """What shape_prop noted of a node's tensor."""
    note = node.meta.get("tensor_meta")
    if not note:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return note


def _notes(found):
    """The notes of tensors in a structure; a note is a tuple itself."""
    if isinstance(found, TensorMetadata):
        yield found
    elif isinstance(found, (list, tuple, dict)):
        for inner in found.values() if isinstance(found, dict) else found:
            yield from _notes(inner)


def _bytes(note):
    return note.shape.numel() * tede.empty((), dtype=note.dtype).element_size()


def get_size_of_node(fx_module, node):
    """(bytes of the result, bytes of result, parameters and buffers) of a call."""
    made, held = sum(map(_bytes, _notes(get_tensor_meta(node)))), 0
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        held = sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
    return size_bytes(made, made + held)


def get_size_of_all_nodes(fx_module, args=None):
    """Note node.size_bytes at every node; with `args` the graph is run on them first."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)
