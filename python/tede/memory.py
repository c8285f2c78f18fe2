"""tede.memory: what memory is allocated, the tensors that live, by size, operator and line of Python.

    with tede.memory.track() as t:
        train(...)
    print(t)                      # what lives now: elements by operator and line, the largest first, and what stands around them
    print(t.at_peak())            # what lived when most was taken

`stats()` is what the allocator counts, `check_leaks()` a context for tests in which nothing may be left over.
"""
import collections
import gc
import os

from tede import _C
from tede._explain.listen import listen, unlisten
from tede._explain.record import _site
from tede._explain.text import size

_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END, _SAVE = 0, 1, 5, 6, 9, 10, 11

Block = collections.namedtuple("Block", "nbytes operator site number device kind kept", defaults=("head", ""))
Block.__doc__ = """A block that lives: its bytes, the operator that took it ("" outside of operators), the line of Python as
(file, line, text) or None, the how-manieth block it was, its device, its kind: "data" where elements lie, "head" for
what describes tensors and graphs, and the graph node that keeps the elements for the backward pass ("": none)."""


def stats():
    """The allocator's counters, all in bytes but for the last four: allocated, peak, reserved (from the system), kept
    (free, for the next ones), live_blocks, allocations, failures, limit (bytes; 0: none).

    >>> before = tede.memory.stats()["allocated"]
    >>> x = tede.zeros(1000)
    >>> tede.memory.stats()["allocated"] - before >= 4000
    True
    """
    return _C.memory_stats()


def reset_peak():
    """Let ``stats()["peak"]`` begin anew from what is allocated now.

    >>> tede.memory.reset_peak()
    """
    _C.reset_peak_memory_stats()


_ROWS, _SMALL = 20, 0.01          # rows of a report; groups with a smaller part of its bytes are one row
_HEAD = 1024                      # bytes that no head exceeds: larger blocks hold elements, those that a kernel works with among them


class Report:
    """Blocks with their bytes, the largest first."""

    def __init__(self, blocks, title):
        self.blocks = sorted(blocks, key=lambda block: -block.nbytes)
        self.title = title

    @property
    def nbytes(self):
        return sum(block.nbytes for block in self.blocks)

    def by(self, key):
        """{operator, line, device, kind or node that keeps it: (bytes, blocks)}, the largest first; key: "operator", "site", "device",
        "kind" or "kept"."""
        sums = {}
        for block in self.blocks:
            site = f"{block.site[0]}:{block.site[1]}" if block.site else "?"
            name = site if key == "site" else getattr(block, key)
            nbytes, count = sums.get(name, (0, 0))
            sums[name] = nbytes + block.nbytes, count + 1
        return dict(sorted(sums.items(), key=lambda item: -item[1][0]))

    def _head(self):
        kinds = self.by("kind")
        parts = [f"{size(nbytes)} in {count} {what}" for kind, what in (("data", "of elements"), ("head", "of heads, graph nodes and the like"))
                 for nbytes, count in [kinds.get(kind, (0, 0))] if count]
        kept = sum(block.nbytes for block in self.blocks if block.kept)
        return (f"{self.title}: {size(self.nbytes)} in {len(self.blocks)} block{'s' * (len(self.blocks) != 1)}"
                + f": {'; '.join(parts)}" * bool(parts) + f"; {size(kept)} kept for the backward pass" * bool(kept))

    def _rows(self):
        """(bytes, blocks, operator, line, notes) of elements by where they are from, then of the small ones and the heads together."""
        groups, other = {}, {}
        for block in self.blocks:
            if block.kind == "data":
                groups.setdefault((block.operator, block.site, block.device, block.kept), []).append(block.nbytes)
            else:
                other.setdefault(block.device, []).append(block.nbytes)
        rows = sorted(((sum(found), len(found), *key) for key, found in groups.items()), key=lambda row: -row[0])
        shown = [row for row in rows if row[0] >= _SMALL * self.nbytes][:_ROWS]
        for nbytes, count, operator, site, device, kept in shown:
            where = f"{os.path.basename(site[0])}:{site[1]}  {site[2]}" if site else ""
            notes = [f"kept by {kept}"] * bool(kept) + [f"on {device}"] * (device != "cpu")
            yield size(nbytes), str(count), operator or "(no operator)", where, ", ".join(notes)
        small = rows[len(shown):]
        if small:
            yield size(sum(row[0] for row in small)), str(sum(row[1] for row in small)), "(smaller ones)", "", ""
        for device, found in other.items():
            yield size(sum(found)), str(len(found)), "(heads, nodes)", "", f"on {device}" * (device != "cpu")

    def __str__(self):
        lines = [self._head()]
        for nbytes, count, operator, where, notes in self._rows():
            lines.append(f"  {nbytes:>10}  {count:>5}x  {operator:<24} {where}{f'  [{notes}]' if notes else ''}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        import html
        from tede._explain.page import STYLE, table
        rows = [(nbytes, f"{count}x", operator, notes, where) for nbytes, count, operator, where, notes in self._rows()]
        return (f'<div class="tede"><style>{STYLE}</style><p>{html.escape(self._head())}</p>'
                f'{table(("bytes", "blocks", "operator", "", "line"), rows)}</div>')


class track:
    """Follow the memory that this thread takes, as a context manager. Blocks of before are not seen; those that other threads
    free are taken for living."""

    def __init__(self):
        self._live, self._open = {}, []        # address -> Block; of each call that runs: operator, line, addresses that it took
        self._now = self._most = self._count = 0
        self._peak = None

    def __enter__(self):
        kinds = sum(1 << kind for kind in (_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END, _SAVE))
        listen(self._hear, kinds, True)
        return self

    def __exit__(self, *error):
        unlisten(self._hear)

    def _hear(self, kind, when, name, keys, pointer, numbers, more):
        if kind == _ALLOCATE:
            operator, site, taken = self._open[-1] if self._open else ("", None, None)
            self._count += 1
            what = "data" if name or numbers[0] > _HEAD else "head"
            self._live[pointer] = Block(numbers[0], operator, site or _site(), self._count, name or "cpu", what)
            if taken is not None:
                taken.append(pointer)
            self._now += numbers[0]
            if self._now > self._most:
                self._most, self._peak = self._now, None      # gathered when memory is first freed
        elif kind == _FREE:
            if pointer not in self._live:
                return
            if self._peak is None and self._now == self._most:
                self._peak = dict(self._live)
            self._now -= self._live.pop(pointer).nbytes
        elif kind in (_CALL, _NODE):
            self._open.append((name, self._open[-1][1] if self._open and kind == _CALL else _site(), []))
        elif kind == _SAVE:
            self._mark(more, self._open[-1][2] if self._open else (), kept=name)
        elif self._open:
            _, _, taken = self._open.pop()
            if kind == _RETURN:
                for value in more[1] or ():
                    for item in value if isinstance(value, list) else [value]:
                        self._mark(item, taken)
            if self._open:
                self._open[-1][2].extend(taken)               # a result may be told by an outer call

    def _mark(self, tensor, taken=(), **more):
        """The block where the elements of a described tensor lie is data. Those of a small tensor lie behind its head, in one block."""
        if not isinstance(tensor, tuple) or not tensor[2]:
            return
        address = tensor[1]
        for pointer in (address, *taken):
            block = self._live.get(pointer)
            if block and pointer <= address < pointer + block.nbytes:
                self._live[pointer] = block._replace(kind="data", **more)
                return

    def live(self):
        """A Report of what was taken inside and lives."""
        return Report(self._live.values(), "alive")

    def at_peak(self):
        """A Report of what lived when most did."""
        return Report((self._live if self._peak is None else self._peak).values(), "at the peak")

    def __str__(self):
        return str(self.live())

    __repr__ = __str__

    def _repr_html_(self):
        return self.live()._repr_html_()


class check_leaks:
    """A context for tests: an AssertionError at its end if more than `allowed` bytes taken inside live on, with what
    and where it is from.

    >>> with tede.memory.check_leaks():
    ...     _ = tede.zeros(100).sum().item()
    """

    def __init__(self, allowed=0):
        self.allowed, self._track = allowed, track()

    def __enter__(self):
        self._track.__enter__()
        return self._track

    def __exit__(self, kind, error, trace):
        gc.collect()
        self._track.__exit__(kind, error, trace)
        report = self._track.live()
        if kind is None and report.nbytes > self.allowed:
            raise AssertionError(f"{size(report.nbytes)} live on\n{report}")
