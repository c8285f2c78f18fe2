"""replace_pattern: each subgraph that matches a pattern is replaced by another graph."""
import copy
from dataclasses import dataclass
from typing import NamedTuple

from tede.fx.passes.utils.matcher_utils import SubgraphMatcher
from tede.fx._symbolic_trace import symbolic_trace
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.node import Node
from tede.nn import Module

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(NamedTuple):
    """The pattern's node from which a match was found, and the map from the pattern's nodes to the graph's."""

    anchor: Node
    nodes_map: dict


@dataclass
class ReplacedPatterns:
    """A match, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict
    replacements: list


def _graph(program):
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _take_attributes(gm, replacement):
    """What the new nodes name is copied from the replacement's module, unless the graph's module has it."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path, _, name = node.target.rpartition(".")

        def of(module):
            try:
                return getattr(module.get_submodule(path), name, None)      # noqa: B023  used at once
            except AttributeError:
                return None
        if of(gm) is None:
            theirs = of(replacement)
            if theirs is None:
                raise RuntimeError(f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but '
                                   "the referenced attribute does not exist in the replacement GraphModule")
            if isinstance(theirs, Module):
                gm.add_submodule(node.target, copy.deepcopy(theirs))
            else:
                setattr(gm, node.target, copy.deepcopy(theirs))
    gm.graph.lint()


def _place(graph, results):
    """The node before which a replacement goes: the first user of the results, or what follows the last of them."""
    users = {user for node in results for user in node.users}
    place = None
    for node in reversed(graph.nodes):
        if users and node in users:
            place = node
        if not users:
            if node in results:
                return place
            place = node
    return place


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None,
                                 node_name_match=""):
    """`replace_pattern` of the matches for which every ``filter(match, graph, pattern graph)`` says so. The callback, with the
    same arguments, makes a replacement for each match."""
    graph, pattern_graph = gm.graph, _graph(pattern)
    matches = [match for match in SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals).match(graph, node_name_match)
               if all(keep(match, graph, pattern_graph) for keep in match_filters or ())]
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph(replacement)
    changed, done = {}, []                  # changed: what took the place of a result that a later match uses
    for match in matches:
        new = common if replacement_callback is None else replacement_callback(match, graph, pattern_graph)
        inputs = [node for node in new.nodes if node.op == "placeholder"]
        if len(inputs) != len(match.placeholder_nodes):
            raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")
        for p, node in match.nodes_map.items():
            if p.op == "placeholder" and isinstance(node, Node):
                match.nodes_map[p] = changed.get(node, node)
        match.placeholder_nodes = [changed.get(node, node) if isinstance(node, Node) else node for node in match.placeholder_nodes]
        values = dict(zip(inputs, match.placeholder_nodes))
        with graph.inserting_before(_place(graph, match.returning_nodes)):
            results = graph.graph_copy(new, values)
        results = (results,) if isinstance(results, Node) else results
        if len(results) != len(match.returning_nodes):
            raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
        for node, result in zip(match.returning_nodes, results):
            node.replace_all_uses_with(result)
            changed[node] = result
        for node in reversed(pattern_graph.nodes):
            if node.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[node])
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, [node for node in values.values()
                                                                         if not any(node is p for p in match.placeholder_nodes)]))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return done


def replace_pattern(gm, pattern, replacement):
    """Replace every part of a GraphModule's graph that computes what `pattern` does, by what `replacement` does.

    Both are functions or modules with the same number of arguments and results; they are traced. A part matches if it does the
    same to the same literals and nothing outside uses what is computed within. Returns a list of `Match`.
    """
    return [Match(done.anchor, done.nodes_map) for done in replace_pattern_with_filters(gm, pattern, replacement)]
