"""Products with the same matrix on the right become one, of their left operands joined."""
import collections
import operator

import tede
from tede.fx._symbolic_trace import is_fx_symbolic_tracing, symbolic_trace
from tede.fx.passes.tools_common import legalize_graph


def split_result_tensors(result, inputs):
    """The rows of a joint product that belong to each of the operands."""
    if is_fx_symbolic_tracing():        # sizes aren't known, and any will do
        return tede.split(result, [0] * len(inputs))
    return tede.split(result, [1 if x.dim() == 1 else x.shape[0] for x in inputs])


def may_depend_on(a, b, search_depth=6):
    """Whether node `a` may need node `b`: a search over so many steps at most, and yes where it isn't enough."""
    if a is b:
        return True
    if not a.all_input_nodes:
        return False
    return search_depth == 0 or any(may_depend_on(used, b, search_depth - 1) for used in a.all_input_nodes)


def are_nodes_independent(nodes):
    """Whether no node may need another of them."""
    return not any(may_depend_on(a, b) for a in nodes for b in nodes if a is not b)


def merge_matmul(in_mod):
    """A GraphModule with fewer calls of matmul."""
    gm = symbolic_trace(in_mod)
    by_right, left = collections.defaultdict(list), {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is tede.matmul:
            a, b = node.args
            by_right[b.target if b.op == "get_attr" else b].append(node)       # each reading of an attribute is a node
            left[node] = a
    for products in by_right.values():
        if len(products) < 2 or not are_nodes_independent([left[node] for node in products]):
            continue
        operands = [left[node] for node in products]
        with gm.graph.inserting_before(products[0]):
            joined = gm.graph.call_function(tede.cat, (operands,), {})
            product = gm.graph.call_function(tede.matmul, (joined, products[0].args[1]), {})
            parts = gm.graph.call_function(split_result_tensors, (product, operands), {})
            values = [gm.graph.call_function(operator.getitem, (parts, i), {}) for i in range(len(products))]
        for node, value in zip(products, values):
            node.replace_all_uses_with(value)
            gm.graph.erase_node(node)
    legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm
