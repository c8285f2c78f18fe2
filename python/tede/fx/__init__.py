"""Programs as graphs: a module is called with proxies, what is done to them becomes a graph, and a graph becomes code.

    class Double(fx.Transformer): ...
    traced = fx.symbolic_trace(model); print(traced.code)

`node` and `graph` are the data, `proxy` and `_symbolic_trace` record, `graph_module` runs, `interpreter` goes node by node,
`subgraph_rewriter` replaces what a pattern matches.
"""
from tede.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap  # noqa: F401
from tede.fx.graph import CodeGen, Graph  # noqa: F401
from tede.fx.graph_module import GraphModule  # noqa: F401
from tede.fx.interpreter import Interpreter, Transformer  # noqa: F401
from tede.fx.node import Node, has_side_effect, map_arg  # noqa: F401
from tede.fx.proxy import Proxy  # noqa: F401
from tede.fx.subgraph_rewriter import replace_pattern  # noqa: F401

__all__ = ["symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "Proxy", "ProxyableClassMeta",
           "replace_pattern", "has_side_effect", "map_arg", "PH"]
