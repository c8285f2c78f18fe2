"""HolderModule, and modules made of a part of another's graph."""
from tede.fx.graph_module import GraphModule, _copy_attr
from tede.nn import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module of the modules in a dictionary."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """(a GraphModule of `subgraph` with what it names in `gm`, paths in gm -> paths in a module that has the part as `comp_name`)"""
    root, paths = HolderModule({}), {}
    root.training = gm.training
    for node in subgraph.nodes:
        if node.op in ("call_module", "get_attr"):
            _copy_attr(gm, root, node.target)
            paths[node.target] = f"{comp_name}.{node.target}" if comp_name else node.target
    return GraphModule(root, subgraph, class_name), paths


def compare_graphs(left, right):
    """Whether two graphs are the same, node by node, apart from names."""
    from tede.fx.passes.utils.matcher_utils import SubgraphMatcher
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
