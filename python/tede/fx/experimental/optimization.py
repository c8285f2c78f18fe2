"""Transformations for inference: batch normalisation folded into the layers before it, dropout left out."""
import copy

from tede import nn
from tede.fx._symbolic_trace import symbolic_trace
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.interpreter import Transformer
from tede.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["matches_module_pattern", "replace_node_module", "fuse", "remove_dropout", "extract_subgraph"]
_FOLDS = {(nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn_eval, (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
          (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn_eval, (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval}


def matches_module_pattern(pattern, node, modules):
    """Whether a node calls a module of the last type on the result of one of the type before, and so on."""
    for kind in reversed(list(pattern)):
        if not hasattr(node, "op") or node.op != "call_module" or type(modules.get(node.target)) is not kind:
            return False
        before, node = node, node.args[0] if node.args else None
    return before is not None


def replace_node_module(node, modules, new_module):
    """Let the node call another module, under the same path."""
    parent, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """The model with convolutions and linear layers that do the batch normalisation behind them, where that normalises by running
    statistics and nobody else reads the layer's result. inplace: modules of `model` are replaced; no_trace: `model` is a GraphModule already."""
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules, graph = dict(traced.named_modules()), copy.deepcopy(traced.graph)
    for pattern, fold in _FOLDS.items():
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fold(modules[node.args[0].target], norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model):
    """The model without its dropout layers."""
    class Without(Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)
    return Without(symbolic_trace(model)).transform()


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """A module of some nodes of a module's graph, that takes the values of `inputs` and gives those of `outputs`."""
    graph, copies = Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
