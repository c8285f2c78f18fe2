"""Fusion of partitions: sets of nodes become submodules, each called in one node."""
import operator

from tede.fx.graph import Graph
from tede.fx.passes.tools_common import legalize_graph
from tede.fx.passes.utils.common import lift_subgraph_as_module


def topo_sort(nodes):
    """These nodes, each behind those of them that it uses."""
    chosen, order, done = set(nodes), [], set()
    for first in nodes:
        stack = [(first, iter(first.all_input_nodes))] if first not in done else []
        done.add(first)
        while stack:
            node, inputs = stack[-1]
            following = next((i for i in inputs if i in chosen and i not in done), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                done.add(following)
                stack.append((following, iter(following.all_input_nodes)))
    if len(order) != len(chosen):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def validate_partition(partition):
    """Whether the nodes could be one: no way leads out of them and back."""
    chosen, seen = set(partition), set()
    waiting = [user for node in partition for user in node.users if user not in chosen]
    while waiting:
        node = waiting.pop()
        if node in chosen:
            return False
        if node not in seen:
            seen.add(node)
            waiting.extend(node.users)
    return True


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False):
    """(a module of these nodes, the nodes that it takes, the nodes whose values it gives)"""
    chosen = set(nodes if partition_lookup_table is None else partition_lookup_table)
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {type(gm).__name__}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    subgraph, inputs, copies = Graph(), {}, {}

    def moved(node):
        if node in copies:
            return copies[node]
        if node not in inputs:
            inputs[node] = subgraph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = dict(node.meta)
        return inputs[node]
    for node in nodes:
        copies[node] = subgraph.node_copy(node, moved)
    given = [node for node in nodes if any(user not in chosen for user in node.users)]
    results = tuple(copies[node] for node in given)
    subgraph.output(results if len(results) != 1 or always_return_tuple else results[0])
    subgraph.lint()
    return lift_subgraph_as_module(gm, subgraph, class_name=module_name)[0], tuple(inputs), tuple(given)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs):
    """Call a module in place of the nodes whose values it gives."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    before = next(node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(before):
        call = gm.graph.call_module(name, args=tuple(orig_inputs))
        result = sub_gm.graph.output_node().args[0]
        if not isinstance(result, tuple):
            _hand_over(orig_outputs[0], call)
        else:
            call.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
            for i, node in enumerate(orig_outputs):
                _hand_over(node, gm.graph.call_function(operator.getitem, (call, i)))
    return gm


def _hand_over(old, new):
    new.meta = {**old.meta, **new.meta}
    old.replace_all_uses_with(new)


def erase_nodes(gm, nodes):
    """Remove nodes that are used by one another alone."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """`gm` with each of the partitions (dictionaries whose keys are nodes) as a submodule `prefix`N."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        sub_gm, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple)
        insert_subgm(gm, sub_gm, inputs, outputs)
        erase_nodes(gm, nodes)
    return legalize_graph(gm)
