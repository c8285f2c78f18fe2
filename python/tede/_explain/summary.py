"""What stands first in tede.explain's output: where the time and the memory went, by operator and by line of Python, and what is worth a
look, hidden copies and calls that fell back to the CPU."""
import collections
import os

from tede._explain.record import why_copied
from tede._explain.text import duration, size

ROWS = 10

Operator = collections.namedtuple("Operator", "name calls nanoseconds nbytes")
Operator.__doc__ = "Calls of an overload, or nodes of a name: their own time and what they allocated themselves, without calls inside."
Line = collections.namedtuple("Line", "site calls forward backward nbytes")
Line.__doc__ = "A line of Python: its calls, their time, that of the backward nodes that they recorded, bytes allocated. site: None if unknown."
Finding = collections.namedtuple("Finding", "site what count nbytes")
Finding.__doc__ = "Hidden copies, or fallbacks, of one line and one reason."


class Summary:
    """Sums over a tree. nanoseconds: of the calls; outside: what passed between them, in Python and elsewhere."""

    def __init__(self, steps, elapsed):
        self.nanoseconds = sum(step.duration for step in steps)
        self.outside = max(elapsed - self.nanoseconds, 0)
        self.backward = sum(step.duration for step in steps if step.kind == "node")
        self.calls = self.inner = self.nodes = self.failed = 0
        self.nbytes, self.blocks = sum(step.allocated for step in steps), sum(step.allocations for step in steps)
        operators, lines, copies, fallbacks = {}, {}, {}, {}
        for outer in steps:
            self._add_line(lines, outer)
            for step in outer.traverse():
                name = step.overload if step.kind == "call" else step.name
                calls, time, nbytes = operators.get(name, (0, 0, 0))
                operators[name] = calls + 1, time + step.own, nbytes + step.allocated - sum(inside.allocated for inside in step.steps)
                self.failed += step.failed
                for _, why, count in step.copies:
                    reason = {"contiguous": "a kernel needed a contiguous operand", "device": "the CPU reads it"}.get(why, "a kernel needed another dtype")
                    _add(copies, (outer.site, f"{step.name}: {reason}"), count)
                for why, count in step.fallbacks:
                    _add(fallbacks, (outer.site, f"{step.name}: {why}"), count)
            for call in outermost([outer]):
                for asked, copy in call.copying():
                    _add(copies, (outer.site, f"{call.name}: {why_copied(asked, copy)}"), copy.results[0].nbytes)
            calls = sum(step.kind == "call" for step in outer.traverse())
            self.nodes += sum(step.kind == "node" for step in outer.traverse())
            self.calls += outer.kind == "call"
            self.inner += calls - (outer.kind == "call")
        self.operators = sorted((Operator(name, *sums) for name, sums in operators.items()), key=lambda row: -row.nanoseconds)
        self.lines = sorted((Line(site, *sums) for site, sums in lines.items()), key=lambda row: -row.forward - row.backward)
        self.copies = sorted((Finding(*key, *sums) for key, sums in copies.items()), key=lambda row: -row.nbytes)
        self.fallbacks = sorted((Finding(*key, *sums) for key, sums in fallbacks.items()), key=lambda row: -row.nbytes)

    @staticmethod
    def _add_line(lines, step):
        calls, forward, backward, nbytes = lines.get(step.site, (0, 0, 0, 0))
        node = step.kind == "node"
        lines[step.site] = (calls + (not node), forward + (0 if node else step.duration), backward + (step.duration if node else 0),
                            nbytes + step.allocated)

    def head(self):
        """Lines of text: what ran, how long, and how much memory."""
        calls = f"{_many(self.calls, 'call')} of operators from Python"
        more = [_many(self.inner, "call") + " inside"] * bool(self.inner) + [_many(self.nodes, "backward node")] * bool(self.nodes)
        yield calls + (f", {' and '.join(more)}" if more else "") + f"; {size(self.nbytes)} allocated in {_many(self.blocks, 'block')}"
        back = f", {duration(self.backward)} of them in backward nodes" if self.backward else ""
        yield f"{duration(self.nanoseconds)} in operators{back}; {duration(self.outside)} outside of them (Python, and what isn't ours)"
        found = [f"{_many(sum(row.count for row in rows), *words)}, {size(sum(row.nbytes for row in rows))}"
                 for rows, words in ((self.copies, ("hidden copy", "hidden copies")), (self.fallbacks, ("fallback to the CPU", "fallbacks to the CPU")))
                 if rows]
        found += [f"{_many(self.failed, 'call')} ended with an error"] * bool(self.failed)
        yield "; ".join(found) if found else "no hidden copies, no fallbacks"

    def tables(self, rows=ROWS):
        """(title, headings, rows of text, how many are left out) of what there is to show, at most `rows` of each."""
        def share(nanoseconds):
            return f"{100 * nanoseconds / self.nanoseconds:.1f}%" if self.nanoseconds else "-"

        def table(title, headings, found, show):
            if found:
                yield title, headings, [show(row) for row in found[:rows]], max(len(found) - rows, 0)

        def finding(row):
            return f"{row.count}x", size(row.nbytes), where(row.site), row.what
        for title, found in ("Hidden copies", self.copies), ("Fallbacks to the CPU", self.fallbacks):
            yield from table(title, ("", "bytes", "line", "why"), found, finding)
        yield from table("By operator (its own time, without calls inside)", ("time", "", "calls", "allocates", "operator"), self.operators,
                         lambda row: (duration(row.nanoseconds), share(row.nanoseconds), str(row.calls), size(row.nbytes), row.name))
        yield from table("By line (of Python; backward: of the nodes that the line's calls recorded)",
                         ("time", "", "forward", "backward", "calls", "allocates", "line"), self.lines,
                         lambda row: (duration(row.forward + row.backward), share(row.forward + row.backward),
                                      duration(row.forward) if row.forward else "-", duration(row.backward) if row.backward else "-",
                                      str(row.calls), size(row.nbytes), where(row.site) + (f"  {row.site[2]}" if row.site else "")))


def outermost(steps):
    """The calls that no call made: Python's, and those of a backward pass."""
    for step in steps:
        yield from outermost(step.steps) if step.kind == "node" else [step]


def where(site):
    """The file and line of a site, in short."""
    return f"{os.path.basename(site[0])}:{site[1]}" if site else "(backward: sums of gradients, and nodes made elsewhere)"


def text(summary, rows=ROWS, colours=False):
    """The summary for a terminal."""
    bold, dim, mark, end = ("\033[1m", "\033[2m", "\033[33m", "\033[0m") if colours else ("",) * 4
    out = list(summary.head())
    if summary.copies or summary.fallbacks or summary.failed:
        out[-1] = f"{mark}{out[-1]}{end}"
    for title, headings, lines, left in summary.tables(rows):
        out += ["", f"{bold}{title}{end}"]
        widths = [max(len(line[i]) for line in [headings, *lines]) for i in range(len(headings) - 1)]
        right = [not any(len(line[i]) and line[i][0].isalpha() for line in lines) for i in range(len(widths))]
        for k, line in enumerate([headings, *lines]):
            cells = [cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(line, widths, right)]
            row = "  " + "  ".join([*cells, _clip(line[-1])])
            out.append(f"{dim}{row}{end}" if k == 0 else row)
        if left:
            out.append(f"  {dim}and {left} more{end}")
    return "\n".join(out)


def _clip(line, most=100):
    return line if len(line) <= most else line[:most - 3] + "..."


def _many(count, one, many=None):
    return f"{count} {one if count == 1 else many or one + 's'}"


def _add(sums, key, nbytes):
    count, before = sums.get(key, (0, 0))
    sums[key] = count + 1, before + nbytes
