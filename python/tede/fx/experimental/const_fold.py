"""Constant folding: what depends on no input of a graph is computed once, by a separate module, and read as an attribute."""
import re

import tede
from tede.fx._symbolic_trace import symbolic_trace
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.nn import Module, Parameter, ParameterList

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

_ATTRIBUTE = "_FX_CONST_FOLDED_ATTRS"


class FoldedGraphModule(GraphModule):
    """A module whose constants are computed before its first call, by `const_subgraph_module` (None: there are none)."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None, device_for_folded_attrs="cpu"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run, self.fx_const_folded_attrs_name = False, fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self):
        """Compute the constants; of a module that is called this happens once."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        values = self.const_subgraph_module()

        def kept(value):
            if not isinstance(value, tede.Tensor):
                return Parameter(tede.tensor([value], device=self.device_for_folded_attrs), requires_grad=False)
            return Parameter(value.detach().clone(), requires_grad=value.requires_grad)
        setattr(self, self.fx_const_folded_attrs_name, ParameterList(map(kept, values)) if isinstance(values, tuple) else kept(values))


def get_unique_attr_name_in_module(mod_traced, name):
    """A name like this one that the module doesn't have yet."""
    name = re.sub(r"[^0-9a-zA-Z_]+", "_", name)
    name = "_" + name if name[:1].isdigit() else name
    while hasattr(mod_traced, name):
        stem, number = re.fullmatch(r"(.*?)(?:_(\d+))?", name).groups()
        name = f"{stem}_{int(number or 0) + 1}"
    return name


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A FoldedGraphModule of a module: calls that neither depend on an input nor have effects are folded.

    skip_folding_node_fn: says of a node whether it shall stay as it is."""
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = set()
    for node in traced.graph.nodes:
        if (node.op not in ("placeholder", "output") and constant.issuperset(node.all_input_nodes)
                and not (skip_folding_node_fn and skip_folding_node_fn(node)) and not node.is_impure()):
            constant.add(node)
    if all(node.op == "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)
    folded = [node for node in traced.graph.nodes if node in constant and node.op != "get_attr"
              and any(user not in constant for user in node.users)]
    const_graph, copies = Graph(), {}
    for node in traced.graph.nodes:
        if node in constant:
            copies[node] = const_graph.node_copy(node, lambda n: copies[n])
    results = tuple(copies[node] for node in folded)
    const_graph.output(results[0] if len(results) == 1 else results)
    for node in reversed(list(const_graph.nodes)):      # what only inputs' calls had read
        if node.op != "output" and not node.users:
            const_graph.erase_node(node)
    root = Module()
    root.__dict__.update(traced.__dict__)
    name = get_unique_attr_name_in_module(traced, _ATTRIBUTE)
    graph = _reading(traced.graph, constant, folded, name)
    # The attribute is there before it is computed: for the graph to be checked, and for state_dict.
    made = tede.nn.Parameter(tede.randn(1))
    setattr(root, name, made if len(results) == 1 else ParameterList([Parameter(tede.randn(1)) for _ in results]))
    return FoldedGraphModule(root, graph, const_graph, name, device_for_folded_attrs)


def _reading(old, constant, folded, name):
    """The graph with attributes instead of calls that are folded."""
    import operator
    graph, values, attributes = Graph(), {}, None
    graph.set_codegen(old._codegen)
    for node in old.nodes:
        if node in folded:
            if len(folded) == 1:
                values[node] = graph.create_node("get_attr", name, (), {})
            else:
                if attributes is None:
                    attributes = graph.create_node("get_attr", name, (), {})
                values[node] = graph.call_function(operator.getitem, (attributes, folded.index(node)))
            values[node].meta = dict(node.meta)
        elif node not in constant or (node.op == "get_attr" and any(user not in constant for user in node.users)):
            values[node] = graph.node_copy(node, lambda n: values[n])
    return graph
