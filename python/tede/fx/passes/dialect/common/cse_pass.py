"""CSEPass: elimination of common subexpressions: of calls with the same target and arguments the first stays, and the others' users take its result."""
import tede
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.node import map_aggregate, Node
from tede.fx.passes.infra.pass_base import PassBase, PassResult


def get_CSE_banned_ops():
    """The operators whose calls aren't the same although their arguments are: those that draw numbers, or return memory as it is."""
    return _banned


def _draws(target):
    return tede.Tag.nondeterministic_seeded in getattr(target, "tags", ())


_banned = {tede.ops.aten.empty, tede.ops.aten.empty_like, tede.ops.aten.new_empty, tede.ops.aten.empty_strided}


def _key(node, known):
    """What two calls must have in common; None if something in it can't be compared."""
    def part(a):
        return ("node", known[a]) if isinstance(a, Node) else a

    def frozen(a):
        if isinstance(a, (list, tuple)):
            return type(a).__name__, *map(frozen, a)
        if isinstance(a, dict):
            return "dict", *((key, frozen(value)) for key, value in a.items())
        return type(a), a
    args, kwargs = list(node.args), dict(node.kwargs)
    schema = getattr(node.target, "_schema", None)
    if schema is not None:              # by name, with what is left to its default
        given = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        given.update({a.name: value for a, value in zip(schema.arguments, args)})
        args, kwargs = [], {**given, **kwargs}
    key = node.target, frozen(map_aggregate(args, part)), frozen(map_aggregate(kwargs, part))
    try:
        hash(key)
    except TypeError:
        return None
    return key


class CSEPass(PassBase):
    """Leaves calls of `banned_ops` alone, of operators that draw numbers, and of those that write to an operand."""

    def __init__(self, banned_ops=None):
        self.banned_ops = set(_banned if banned_ops is None else banned_ops)

    def _keeps(self, node, written):
        target = node.target
        if node.op != "call_function" or target in self.banned_ops or getattr(target, "_overloadpacket", None) in self.banned_ops:
            return True
        schema = getattr(target, "_schema", None)
        return _draws(target) or (schema is not None and schema.is_mutable) or any(x in written for x in (node, *node.all_input_nodes))

    def call(self, graph_module):
        graph, known, seen, written = Graph(), {}, {}, _written(graph_module.graph)
        graph.set_codegen(graph_module.graph._codegen)
        for node in graph_module.graph.nodes:
            key = None if self._keeps(node, written) else _key(node, known)
            first = seen.get(key) if key is not None else None
            if first is not None:
                known[node] = first
                continue
            known[node] = graph.node_copy(node, lambda n: known[n])
            if key is not None:
                seen[key] = known[node]
        modified = len(graph.nodes) < len(graph_module.graph.nodes)
        return PassResult(GraphModule(graph_module, graph), modified)


def _written(graph):
    """The nodes whose results a write may change, by sharing memory: all of them, if the graph writes at all."""
    def writes(node):
        schema = getattr(node.target, "_schema", None)
        method = node.op == "call_method" and node.target.endswith("_") and not node.target.startswith("__")
        return method or (schema is not None and schema.is_mutable)
    return set(graph.nodes) if any(map(writes, graph.nodes)) else set()
