"""SubgraphMatcher: finds where a pattern occurs in a graph.

A match maps the pattern's nodes to the graph's. It is grown from the anchors, the nodes whose values only the pattern's output
uses, against the flow of data: a value has many users but one producer, so that each step is decided by the arguments alone.
"""
import functools
from dataclasses import dataclass, field

from tede.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """`nodes_map` maps the pattern's nodes; what its placeholders stand for and what its results are is listed beside."""

    anchors: list
    nodes_map: dict = field(default_factory=dict)
    placeholder_nodes: list = field(default_factory=list)
    returning_nodes: list = field(default_factory=list)
    name_node_map: dict = field(default_factory=dict)


def _flat(node, schema=None):
    """A node's arguments in order; of an operator, where calls are written differently, as its schema names them."""
    if schema is None:
        return [*node.args, *node.kwargs.values()]
    return [node.kwargs[argument.name] if argument.name in node.kwargs else
            node.args[i] if i < len(node.args) and not argument.kwarg_only else argument.default_value
            for i, argument in enumerate(schema.arguments)]


def _attribute(node):
    """What a node that reads an attribute reads."""
    return functools.reduce(getattr, node.target.split("."), node.graph.owning_module)


class SubgraphMatcher:
    """Finds a pattern, a graph, in other graphs.

    A placeholder stands for any value unless `match_placeholder`; the output takes part if `match_output`; numbers and the like
    are equal, or anything if `ignore_literals`. Of matches that share nodes the first is kept, if `remove_overlapping_matches`.
    """

    def __init__(self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True, ignore_literals=False):
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [node for node in output.all_input_nodes if len(node.users) == 1]

    def _alike(self, p, g, name=""):
        """Whether two nodes do the same, their arguments aside."""
        if (p.op == "placeholder" and not self.match_placeholder) or (name and name in g.name):
            return True
        if p.op != g.op:
            return False
        if p.op == "get_attr":          # values of parameters and buffers don't count, what they are does
            return type(_attribute(p)) is type(_attribute(g))
        return p.op in ("placeholder", "output") or p.target == g.target

    def _unify(self, p, g, found, name=""):
        """Whether pattern value p may stand for g, after what `found` holds already; extends that."""
        if isinstance(p, Node):
            if p in found:
                return found[p] is g or (not isinstance(g, Node) and found[p] == g)
            if not isinstance(g, Node):
                if p.op == "placeholder":
                    found[p] = g
                return p.op == "placeholder" or self.ignore_literals
            if any(g is other for other in found.values()) or not self._alike(p, g, name):
                return False
            found[p] = g
            if p.op == "placeholder":
                return True
            schema = None
            if len(p.args) != len(g.args) or list(p.kwargs) != list(g.kwargs):
                schema = getattr(p.target, "_schema", None) if p.op == "call_function" else None
                if schema is None:
                    return False
            return self._unify(_flat(p, schema), _flat(g, schema), found)
        if isinstance(p, (list, tuple)) and isinstance(g, (list, tuple)):
            return len(p) == len(g) and all(self._unify(a, b, found) for a, b in zip(p, g))
        if isinstance(p, dict) and isinstance(g, dict):
            return p.keys() == g.keys() and all(self._unify(value, g[key], found) for key, value in p.items())
        if isinstance(p, slice) and isinstance(g, slice):
            return self._unify((p.start, p.stop, p.step), (g.start, g.stop, g.step), found)
        return (not isinstance(g, Node) and type(p) is type(g) and p == g) or self.ignore_literals

    def _contained(self, found):
        """Whether the values within are used within: those of the pattern's results may be used elsewhere."""
        inside = {g for p, g in found.items() if p.op != "placeholder"}
        return all(user in inside for p, g in found.items() if p.op != "placeholder" and p not in self.pattern_returning_nodes
                   for user in g.users)

    @staticmethod
    def _one_step(found):
        """Whether the nodes can be computed together: none needs a value that is made from another's outside of them."""
        inside = {g for p, g in found.items() if p.op != "placeholder"}
        seen, waiting = set(), [user for g in inside for user in g.users if user not in inside]
        while waiting:
            node = waiting.pop()
            if node in inside:
                return False
            if node not in seen:
                seen.add(node)
                waiting.extend(node.users)
        return True

    def _grow(self, anchors, candidates, found, name):
        """All maps that extend `found` by matches of the anchors."""
        if not anchors:
            yield found
            return
        for node in candidates[anchors[0]]:
            grown = dict(found)
            if self._unify(anchors[0], node, grown, name):
                yield from self._grow(anchors[1:], candidates, grown, name)

    def match(self, graph, node_name_match=""):
        """The matches, in the graph's order."""
        candidates = {p: [g for g in graph.nodes if self._alike(p, g, node_name_match)] for p in self.pattern_anchors}
        anchors = [p for p in self.pattern_anchors if candidates[p]]
        matches, taken = [], set()
        for found in self._grow(anchors, candidates, {}, node_name_match) if anchors else ():
            if not all(p in found for p in (*self.pattern_placeholder_nodes, *self.pattern_returning_nodes)):
                continue
            if not self._contained(found) or not self._one_step(found):
                continue
            inside = {g for p, g in found.items() if p.op not in ("placeholder", "output")}
            if self.remove_overlapping_matches and inside & taken:
                continue
            taken |= inside
            matches.append(InternalMatch(self.pattern_anchors, found, [found[p] for p in self.pattern_placeholder_nodes],
                                         [found[p] for p in self.pattern_returning_nodes]))
        return matches
