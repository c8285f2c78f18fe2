"""tede.graph(loss): the autograd graph as a drawing.

Nodes stand in layers, the one farther from the loss below; within a layer they are ordered by where their users stand (the
barycenter heuristic of Sugiyama, Tagawa and Toda, 1981), which keeps most edges from crossing. An edge that passes layers has a
narrow column of its own in each of them, so none runs through a box."""
import html
import itertools

_ROWS = 200               # lines of a graph as text


class Graph:
    """The nodes behind one or more tensors. `nodes` are the autograd nodes, from the loss on; `edges` are (from, to, which
    of the target's results)."""

    def __init__(self, *tensors, params=None, most=1000):
        self._names = {id(p): name for name, p in (params.items() if hasattr(params, "items") else params or ())}
        self.nodes, self.edges = [], []
        self._number = {}
        waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
        if not waiting:
            raise RuntimeError("graph: none of the tensors was computed from tensors that require a gradient")
        roots = list(waiting)
        for node in waiting:
            if node in self._number:
                continue
            if len(self.nodes) == most:
                raise RuntimeError(f"graph: more than {most} nodes; give a larger `most`")
            self._number[node] = len(self.nodes)
            self.nodes.append(node)
            waiting += [to for to, _ in node.next_functions if to is not None]
        for node in self.nodes:
            self.edges += [(self._number[node], self._number[to], which) for to, which in node.next_functions if to is not None]
        self.roots = [self._number[node] for node in dict.fromkeys(roots)]

    def saved(self, i):
        """The tensors that node i keeps; those that are freed or overwritten are left out."""
        try:
            return [t for t in self.nodes[i]._saved_tensors if t is not None]
        except RuntimeError:
            return []

    def label(self, i):
        """What is written on node i: its name, then a line per saved tensor, or the leaf's name and shape; hooks are counted."""
        lines, hooks = self._about(i), self.hooks(i)
        return lines + [f"{hooks} hook{'s' * (hooks != 1)}"] * (hooks > 0)

    def hooks(self, i):
        """How many hooks wait at node i."""
        count = getattr(self.nodes[i], "_hook_count", None)     # a node of an autograd.Function has none
        return count() if count else 0

    def _about(self, i):
        node = self.nodes[i]
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            name = self._names.get(id(leaf), "")
            return [name or "leaf", f"{str(leaf.dtype).rpartition('.')[2]}{list(leaf.shape)}, {leaf.numel() * leaf.element_size()} bytes"]
        return [node.name(), *(f"keeps {str(t.dtype).rpartition('.')[2]}{list(t.shape)}, {t.numel() * t.element_size()} bytes"
                               for t in self.saved(i))]

    def _layers(self):
        """(layers, chains): lists of node numbers, each node below all that lead to it, and for each edge the numbers that it passes from
        its node to the other; those from len(nodes) on are places between boxes."""
        depth = [0] * len(self.nodes)
        order, into = [], [0] * len(self.nodes)
        for _, to, _ in self.edges:
            into[to] += 1
        out = [[] for _ in self.nodes]
        for a, b, _ in self.edges:
            out[a].append(b)
        ready = [i for i, n in enumerate(into) if n == 0]
        for i in ready:
            order.append(i)
            for to in out[i]:
                depth[to] = max(depth[to], depth[i] + 1)
                into[to] -= 1
                if into[to] == 0:
                    ready.append(to)
        layers = [[] for _ in range(max(depth) + 1)]
        for i in order:
            layers[depth[i]].append(i)
        count, chains = len(self.nodes), []
        users = [[] for _ in self.nodes]
        for a, b, _ in self.edges:
            chain = [a]
            for layer in layers[depth[a] + 1:depth[b]]:
                layer.append(count)
                users.append([chain[-1]])
                chain.append(count)
                count += 1
            users[b].append(chain[-1])
            chains.append([*chain, b])
        place = {i: k for k, i in enumerate(layers[0])}
        for layer in layers[1:]:
            layer.sort(key=lambda i: sum(place[u] for u in users[i]) / len(users[i]))
            place.update((i, k) for k, i in enumerate(layer))
        return layers, chains

    def svg(self, path=None):
        """The drawing as a string, written to `path` if there is one."""
        labels = [self.label(i) for i in range(len(self.nodes))]
        wide = [max(7.2 * max(map(len, label)) + 18, 70) for label in labels]
        high = [18 + 15 * (len(label) - 1) + 8 for label in labels]
        layers, chains = self._layers()
        passing = max(map(max, layers)) + 1 - len(self.nodes)
        wide, high = wide + [8] * passing, high + [0] * passing
        total = max(sum(wide[i] + 20 for i in layer) for layer in layers)
        at, below, y = {}, {}, 20               # where a box begins, and where its layer ends
        for layer in layers:
            x, tallest = 20 + (total - sum(wide[i] + 20 for i in layer)) / 2, max(high[i] for i in layer)
            for i in layer:
                at[i], below[i] = (x, y), y + tallest
                x += wide[i] + 20
            y += tallest + 34
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total + 40:.0f}" height="{y:.0f}" '
               'font-family="ui-monospace, monospace" font-size="12">',
               '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
               '<path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>']
        for chain in chains:                    # down to the end of the layer, then within the gap to the next one
            x, bottom = at[chain[0]][0] + wide[chain[0]] / 2, at[chain[0]][1] + high[chain[0]]
            route = f"M{x:.0f} {bottom:.0f}"
            for here, there in itertools.pairwise(chain):
                from_y, to_x, to_y = below[here], at[there][0] + wide[there] / 2, at[there][1]
                bend = (to_y - from_y) / 2
                route += f"V{from_y:.0f}C{x:.0f} {from_y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f} {to_y:.0f}"
                x = to_x
            out.append(f'<path d="{route}" fill="none" stroke="#888" marker-end="url(#tip)"/>')
        for i, label in enumerate(labels):
            x, top = at[i]
            leaf = getattr(self.nodes[i], "variable", None) is not None
            fill = "#e8a33d44" if leaf else "#4a90d944" if i not in self.roots else "#5cb85c66"
            out.append(f'<rect x="{x:.0f}" y="{top:.0f}" width="{wide[i]:.0f}" height="{high[i]}" rx="5" fill="{fill}" stroke="#888"/>')
            out += [f'<text x="{x + wide[i] / 2:.0f}" y="{top + 17 + 15 * k:.0f}" text-anchor="middle" '
                    f'fill="{"currentColor" if k == 0 else "#888"}">{html.escape(line)}</text>' for k, line in enumerate(label)]
        return _written("\n".join([*out, "</svg>"]), path)

    _repr_svg_ = svg

    def dot(self, path=None):
        """The graph in DOT, Graphviz's language, as a string; written to `path` if there is one."""
        def quoted(lines):
            return '"' + "\\n".join(lines).replace('"', '\\"') + '"'
        rows = [f"  n{i} [label={quoted(self.label(i))}{', style=filled, fillcolor=orange' if getattr(n, 'variable', None) is not None else ''}];"
                for i, n in enumerate(self.nodes)]
        rows += [f"  n{a} -> n{b};" for a, b, _ in self.edges]
        return _written("digraph autograd {\n  node [shape=box];\n" + "\n".join(rows) + "\n}\n", path)

    def __str__(self):
        kept = {t.data_ptr(): t.numel() * t.element_size() for i in range(len(self.nodes)) for t in self.saved(i)}
        lines = [", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in
                           ((len(self.nodes), "node"), (len(self.edges), "edge"), (len(kept), "saved tensor"))) + f" of {sum(kept.values())} bytes"]
        out = [[] for _ in self.nodes]
        for a, b, _ in self.edges:
            out[a].append(b)
        shown, waiting = set(), [(i, 0) for i in reversed(self.roots)]
        while waiting and len(lines) <= _ROWS:               # from the loss on, what a node leads to below it
            i, depth = waiting.pop()
            again = i in shown
            shown.add(i)
            margin = f"{depth:>3} " + "  " * min(depth, 20)
            lines.append(f"{margin}{self._about(i)[0]} (above)" if again else margin + "; ".join(self.label(i)))
            waiting += [] if again else [(to, depth + 1) for to in reversed(out[i])]
        return "\n".join(lines + ["  ..."] * bool(waiting))

    __repr__ = __str__


def _written(text, path):
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def graph(*tensors, params=None, most=1000):
    """The autograd graph behind `tensors`, as a picture: `svg()` and `dot()` draw it, notebooks show it.

        params: named_parameters() of a module, for the names of leaves.
        most: how many nodes are drawn.

    >>> x = tede.ones(1, requires_grad=True)
    >>> "MulBackward0" in tede.graph(x * 2).dot()
    True
    """
    return Graph(*tensors, params=params, most=most)
