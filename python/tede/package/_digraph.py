"""Graphs of what depends on what."""
from collections import deque


class DiGraph:
    """Nodes with attributes, in the order of their coming, and edges between them."""

    def __init__(self):
        self._attributes, self._next, self._previous = {}, {}, {}

    def add_node(self, n, **attributes):
        self._next.setdefault(n, {})
        self._previous.setdefault(n, {})
        self._attributes.setdefault(n, {}).update(attributes)

    def add_edge(self, u, v):
        self.add_node(u)
        self.add_node(v)
        self._next[u][v] = self._previous[v][u] = True

    def _neighbours(self, of, n):
        if n not in self:
            raise ValueError(f"The node {n} is not in the digraph")
        return iter(of[n])

    def successors(self, n):
        return self._neighbours(self._next, n)

    def predecessors(self, n):
        return self._neighbours(self._previous, n)

    @property
    def edges(self):
        for u, others in self._next.items():
            for v in others:
                yield u, v

    @property
    def nodes(self):
        """The attributes of each node."""
        return self._attributes

    def __iter__(self):
        return iter(self._attributes)

    def __contains__(self, n):
        try:
            return n in self._attributes
        except TypeError:
            return False

    def _reached(self, of, src):
        """The nodes that can be reached from one, and which node each was first reached from."""
        self._neighbours(of, src)
        via, waiting = {src: None}, deque([src])
        while waiting:
            at = waiting.popleft()
            for n in of[at]:
                if n not in via:
                    via[n] = at
                    waiting.append(n)
        return via

    def forward_transitive_closure(self, src):
        return set(self._reached(self._next, src))

    def backward_transitive_closure(self, src):
        return set(self._reached(self._previous, src))

    def all_paths(self, src, dst):
        """The part of the graph that lies on paths between two nodes, in Graphviz's language; an empty string if there is no path."""
        between = self.forward_transitive_closure(src) & self.backward_transitive_closure(dst)
        return self._dot((u, v) for u, v in self.edges if u in between and v in between) if between else ""

    def first_path(self, dst):
        """A shortest path to a node from one that nothing leads to (from the farthest one, where all lie in circles)."""
        via = self._reached(self._previous, dst)
        at = next((n for n in via if not self._previous[n]), list(via)[-1])
        path = []
        while at is not None:
            path.append(at)
            at = via[at]
        return path

    def to_dot(self):
        """The graph in Graphviz's language."""
        return self._dot(self.edges)

    @staticmethod
    def _dot(edges):
        lines = "\n".join(f'"{u}" -> "{v}";' for u, v in edges)
        return f"digraph G {{\nrankdir = LR;\nnode [shape=box];\n{lines}\n}}\n"
