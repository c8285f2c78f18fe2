"""tede.memory: what memory is allocated, the tensors that live, by size, operator and line of Python.

    with tede.memory.track() as t:
        train(...)
    print(t)                      # what lives now, the largest first
    print(t.at_peak())            # what lived when most was taken

`stats()` is what the allocator counts, `check_leaks()` a context for tests in which nothing may be left over.
"""
import collections

from tede import _C
from tede._explain.listen import listen, unlisten
from tede._explain.record import _site
from tede._explain.text import size

_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END = 0, 1, 5, 6, 9, 10

Block = collections.namedtuple("Block", "nbytes operator site number device")
Block.__doc__ = """A block that lives: its bytes, the operator that took it ("" outside of operators), the line of Python as
(file, line, text) or None, the how-manieth block it was, and its device."""


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


class Report:
    """Blocks with their bytes, the largest first."""

    def __init__(self, blocks, title):
        self.blocks = sorted(blocks, key=lambda block: -block.nbytes)
        self.title = title

    @property
    def nbytes(self):
        return sum(block.nbytes for block in self.blocks)

    def by(self, key):
        """{operator, line or device: (bytes, blocks)}, the largest first; key: "operator", "site" or "device"."""
        sums = {}
        for block in self.blocks:
            site = f"{block.site[0]}:{block.site[1]}" if block.site else "?"
            name = site if key == "site" else getattr(block, key)
            nbytes, count = sums.get(name, (0, 0))
            sums[name] = nbytes + block.nbytes, count + 1
        return dict(sorted(sums.items(), key=lambda item: -item[1][0]))

    def __str__(self):
        lines = [f"{self.title}: {size(self.nbytes)} in {len(self.blocks)} block{'s' * (len(self.blocks) != 1)}"]
        for block in self.blocks[:20]:
            where = (f"{block.site[0]}:{block.site[1]}  {block.site[2]}" if block.site else "") + f"  on {block.device}" * (block.device != "cpu")
            lines.append(f"  {size(block.nbytes):>10}  {block.operator or '(no operator)':<24} {where}")
        if len(self.blocks) > 20:
            rest = sum(block.nbytes for block in self.blocks[20:])
            lines.append(f"  {size(rest):>10}  in {len(self.blocks) - 20} more")
        return "\n".join(lines)


class track:
    """Follow the memory that this thread takes, as a context manager. Blocks of before are not seen; those that other threads
    free are taken for living."""

    def __init__(self):
        self._live, self._open = {}, []
        self._now = self._most = self._count = 0
        self._peak = None

    def __enter__(self):
        kinds = sum(1 << kind for kind in (_CALL, _RETURN, _ALLOCATE, _FREE, _NODE, _NODE_END))
        listen(self._hear, kinds, False)
        return self

    def __exit__(self, *error):
        unlisten(self._hear)

    def _hear(self, kind, when, name, keys, pointer, numbers, more):
        if kind == _ALLOCATE:
            operator, site = self._open[-1] if self._open else ("", None)
            self._count += 1
            self._live[pointer] = Block(numbers[0], operator, site or _site(), self._count, name or "cpu")
            self._now += numbers[0]
            if self._now > self._most:
                self._most, self._peak = self._now, None      # gathered when memory is first freed
        elif kind == _FREE:
            if pointer not in self._live:
                return
            if self._peak is None and self._now == self._most:
                self._peak = list(self._live.values())
            self._now -= self._live.pop(pointer).nbytes
        elif kind in (_CALL, _NODE):
            self._open.append((name, self._open[-1][1] if self._open and kind == _CALL else _site()))
        elif self._open:
            self._open.pop()

    def live(self):
        """A Report of what was taken inside and lives."""
        return Report(self._live.values(), "alive")

    def at_peak(self):
        """A Report of what lived when most did."""
        return Report(self._live.values() if self._peak is None else self._peak, "at the peak")

    def __str__(self):
        return str(self.live())


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
        import gc
        gc.collect()
        self._track.__exit__(kind, error, trace)
        report = self._track.live()
        if kind is None and report.nbytes > self.allowed:
            raise AssertionError(f"{size(report.nbytes)} live on\n{report}")
