"""Nodes of a graph that is being made for symbolic numbers: sym_size of an input, and the arithmetic between such."""
import math
import operator

import tede
from tede._sym import is_symbolic

_NAMED = {"size": "sym_size", "stride": "sym_stride", "offset": "sym_storage_offset"}


def _call_of(function):
    """What a graph calls for an operator of Python's."""
    return {max: tede.sym_max, min: tede.sym_min, float: tede.sym_float, int: tede.sym_int, math.sqrt: tede.sym_sqrt,
            operator.not_: tede.sym_not}.get(function, function)


class Symbols:
    """Numbers that have a node, or will have one when they are used."""

    def __init__(self, recorder):
        self._recorder, self.env, self._sizes = recorder, None, None
        self._sources, self._nodes, self._version = {}, {}, 0

    def _follow_env(self, sizes):
        self.env, self._sizes = sizes.env, sizes

    def follow(self, x, node):
        """A tensor of the graph: its sizes can be taken from it."""
        sizes = getattr(getattr(x, "fake_mode", None), "sizes", None)
        if sizes is None:
            return
        if self.env is None:
            self._follow_env(sizes)
        shape, strides, offset = sizes.geometry(x)
        for kind, numbers in ("size", shape), ("stride", strides), ("offset", [offset]):
            for i, n in enumerate(numbers):
                expr = self.env.expr_of(n)
                if not isinstance(expr, int) and expr.free_symbols:
                    self._sources.setdefault((kind != "size", expr), (node, kind, i))

    def follow_number(self, x, node):
        """A number that is an input of the graph, or a result."""
        if is_symbolic(x):
            self.env = self.env or x.node.shape_env
            expr = x.node.expr
        elif self.env is not None and type(x) in (int, float):
            expr = self.env.expr_of(x)
            x = self.env.shown(x)
        else:
            return
        if is_symbolic(x):
            if self._nodes.setdefault(expr, node) is not node and node.op == "call_function":
                self._recorder.graph.erase_node(node)           # it is read again
            node.meta["val"] = x

    def decode(self, args, kwargs):
        if self._sizes is not None:
            self._sizes.decode(args, kwargs)

    def node_of(self, x):
        """The node of a number, or the number."""
        if is_symbolic(x):
            self.env = self.env or x.node.shape_env
            expr, kind = x.node.expr, x.node.pytype
        elif self.env is not None and type(x) in (int, float):
            expr, kind = self.env.expr_of(x), type(x)
            if expr is x or isinstance(expr, (int, float)):
                return x
        else:
            return x
        return self._node(expr, kind)

    def _node(self, expr, kind=int):
        env = self.env
        if env.version != self._version:
            self._sources = {(rest, env.replace(e)): where for (rest, e), where in reversed(list(self._sources.items()))}
            self._nodes = {env.replace(e): node for e, node in reversed(list(self._nodes.items()))}
            self._version = env.version
        expr = env.replace(expr)
        if not expr.free_symbols:
            return env.shown(0) if expr == 0 and kind is int else kind(expr)
        if expr not in self._nodes:
            node = self._nodes[expr] = self._make(expr, kind)
            made = _wrap(env, expr, kind)
            node.meta["val"] = made
        return self._nodes[expr]

    def _make(self, expr, kind):
        graph, aten = self._recorder.graph, tede.ops.aten
        for rest in False, True:
            if (rest, expr) in self._sources:
                node, what, i = self._sources[rest, expr]
                if what == "offset":
                    return graph.call_function(aten.sym_storage_offset.default, (node,), name="sym_storage_offset_default")
                function = getattr(aten, _NAMED[what]).int
                return graph.call_function(function, (node, i), name=f"{_NAMED[what]}_int")
        recipe = self.env.recipes.get(expr) or next((r for e, r in self.env.recipes.items() if self.env.replace(e) == expr), None)
        if recipe is not None:
            function, operands = recipe
            return graph.call_function(_call_of(function), tuple(self.node_of(x) for x in operands))
        return self._composed(expr, kind)

    def _composed(self, expr, kind):
        """A number that operators made: its expression, written out."""
        from tede.fx.experimental.composed import call_for
        function, parts = call_for(expr)
        return self._recorder.graph.call_function(function, tuple(self._node(e) for e in parts))


def _wrap(env, expr, kind):
    from tede.fx.experimental.sym_node import SymNode, _KINDS
    return _KINDS[kind](SymNode(expr, env, kind))
