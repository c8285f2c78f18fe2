"""What passes share: names of targets, the order of nodes."""
import collections
import re

import tede
from tede.fx._qualified import qualified_name
from tede.fx.graph import Graph

__all__ = ["get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort"]

Tensors, TensorOrTensors, NodeList, NodeSet, Names = tuple, object, list, set, list       # for annotations
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k):
    """The name of a function of a library of lowered operators: without its modules."""
    if isinstance(k, str):
        return k
    if "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return re.sub(r"^tede\b", "torch", k.__module__) + "." + k.__name__


def get_node_target(submodules, node):
    """What a node calls, as a name: the class of a module, the qualified name of a function, a method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_function":
        return get_acc_ops_name(node.target) if "acc_ops" in (getattr(node.target, "__module__", None) or "") else qualified_name(node.target)
    return node.target


def is_node_output_tensor(node):
    """Whether the value, by the node's notes (meta["type"]), is one tensor."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, tede.Tensor)


def _in_order(graph):
    """The graph's nodes, each behind those that it uses, otherwise as they come."""
    missing = {node: len(node.all_input_nodes) for node in graph.nodes}
    ready = collections.deque(node for node in graph.nodes if missing[node] == 0)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for user in node.users:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    if len(order) != len(missing):
        raise RuntimeError(f"Input graph has cycles, unable to add {[node for node in missing if missing[node]]}")
    return order


def _reordered(gm, order):
    graph, copies = Graph(tracer_cls=gm.graph._tracer_cls), {}
    graph.set_codegen(gm.graph._codegen)
    for node in order:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    gm.graph = graph
    return gm


def legalize_graph(gm):
    """Bring the nodes of `gm` into an order in which they can run."""
    order = _in_order(gm.graph)
    order.sort(key=lambda node: 2 if node.op == "output" else 1 if node.op != "placeholder" else 0)
    return _reordered(gm, order)


def stable_topological_sort(gm):
    """As legalize_graph, but nodes that can stay where they are do."""
    done, waiting, order = set(), {}, []
    pending = list(reversed(list(gm.graph.nodes)))
    while pending:
        node = pending.pop()
        missing = next((used for used in node.all_input_nodes if used not in done), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(node)
            continue
        done.add(node)
        order.append(node)
        pending.extend(reversed(waiting.pop(node, ())))
    if waiting:
        raise AssertionError(f"Input graph has cycles, unable to add {waiting}")
    return _reordered(gm, order)
