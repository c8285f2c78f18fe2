"""Timer and Compare: times of statements, as PyTorch's benchmark tools take and show them."""
import statistics
import timeit

from tede import _C

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def select_unit(t):
    """(unit's name, its length): the one in which a time reads well."""
    for length, name in _UNITS:
        if t >= length:
            return name, length
    return "ns", 1e-9


def timer():
    return timeit.default_timer()


class Measurement:
    """Times of several runs of a statement."""

    def __init__(self, number_per_run, raw_times, task_spec, metadata=None):
        self.number_per_run, self.raw_times, self.task_spec, self.metadata = number_per_run, list(raw_times), task_spec, metadata

    @property
    def times(self):
        return [t / self.number_per_run for t in self.raw_times]

    median = property(lambda self: statistics.median(self.times))
    mean = property(lambda self: statistics.fmean(self.times))

    @property
    def iqr(self):
        if len(self.times) < 2:
            return 0.0
        quarters = statistics.quantiles(self.times, n=4, method="inclusive")
        return quarters[2] - quarters[0]

    has_warnings = property(lambda self: self.iqr / self.median > 0.1)
    num_threads = property(lambda self: self.task_spec["num_threads"])
    label = property(lambda self: self.task_spec["label"])
    sub_label = property(lambda self: self.task_spec["sub_label"])
    description = property(lambda self: self.task_spec["description"])
    stmt = property(lambda self: self.task_spec["stmt"])
    env = property(lambda self: self.task_spec["env"])

    @property
    def title(self):
        title = self.label or self.stmt
        return title + (f": {self.sub_label}" if self.sub_label else "")

    def as_row_name(self):
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self):
        name, unit = select_unit(self.median)
        lines = [f"<{type(self).__module__.replace('tede', 'torch')}.{type(self).__name__} object>", self.title]
        if self.description:
            lines.append(self.description)
        if self.task_spec["setup"] and self.task_spec["setup"] != "pass":
            lines.append("setup: " + self.task_spec["setup"])
        runs = f"{len(self.times)} measurement{'s' if len(self.times) > 1 else ''}, {self.number_per_run} runs"
        if len(self.times) > 1:
            lines += [f"  Median: {self.median / unit:.2f} {name}", f"  IQR:    {self.iqr / unit:.2f} {name}"]
        else:
            lines.append(f"  {self.median / unit:.2f} {name}")
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        return "\n".join(lines + [f"  {runs} {'per measurement' if len(self.times) > 1 else ''}, {threads}".replace(" ,", ",")])


class Timer:
    """Timer(stmt, setup, globals): runs a statement on num_threads threads, after a warm-up."""

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None, sub_label=None,
                 description=None, env=None, num_threads=1, language="python"):
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError("Timer: C++ statements aren't there")
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        scope = dict(globals or {})
        import tede
        scope.setdefault("torch", tede)
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=scope)
        self._task_spec = dict(stmt=stmt, setup=setup, label=label, sub_label=sub_label, description=description, env=env,
                               num_threads=num_threads)

    def _time(self, number):
        before = _C.get_num_threads()
        _C.set_num_threads(self._task_spec["num_threads"])
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            _C.set_num_threads(before)

    def timeit(self, number=1000000):
        """One measurement of `number` runs."""
        self._time(max(number // 100, 2))
        return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time):
        """How many runs make the clock's own time small."""
        overhead = statistics.median(self._time(0) for _ in range(5))
        number = 1
        while True:
            taken = self._time(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000 or taken > min_run_time:
                return number
            number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Blocks of runs until min_run_time is used up."""
        number, times, total = self._block(min_run_time), [], 0.0
        while total < min_run_time or len(times) < 1:
            times.append(self._time(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Blocks of runs until the spread is below a share of the median."""
        number, times, total = self._block(0.05), [], 0.0
        while total < max_run_time:
            times.append(self._time(number))
            total += times[-1]
            result = Measurement(number, times, self._task_spec)
            if len(times) > 3 and total > min_run_time and result.iqr / result.median < threshold:
                break
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, *args, **kwargs):
        raise NotImplementedError("Timer.collect_callgrind isn't there")


class Compare:
    """A table of measurements: rows by sub_label and threads, columns by description."""

    def __init__(self, results):
        self._results, self._trim = list(results), False

    def extend_results(self, results):
        self._results.extend(results)

    def trim_significant_figures(self):
        self._trim = True

    def colorize(self, rowwise=False):
        """Accepted for compatibility."""

    def highlight_warnings(self):
        """Accepted for compatibility."""

    def __str__(self):
        tables = {}
        for m in self._results:
            tables.setdefault(m.label or m.stmt, []).append(m)
        return "\n".join(self._table(label, group) for label, group in tables.items())

    def _table(self, label, group):
        unit_name, unit = select_unit(min(m.median for m in group))
        columns = list(dict.fromkeys(m.description or "" for m in group))
        cells = {}
        for m in group:
            cells.setdefault((m.num_threads, m.as_row_name()), {}).setdefault(m.description or "", []).append(m.median)
        names = max(len(name) for _, name in cells) + 6
        width = max([len(c) for c in columns] + [8])
        lines = [f"[{label:-^{names + (width + 5) * len(columns)}}]",
                 " " * names + "".join(f"  |  {c:^{width}}" for c in columns)]
        threads = None
        for (n, name), row in cells.items():
            if n != threads:
                threads = n
                lines.append(f"{n} threads: ".ljust(names + (width + 5) * len(columns), "-"))
            shown = [f"{statistics.median(row[c]) / unit:.{0 if self._trim else 1}f}" if c in row else "" for c in columns]
            lines.append(f"      {name}".ljust(names) + "".join(f"  |  {s:>{width}}" for s in shown))
        return "\n".join(lines + ["", f"Times are in {dict(s='seconds', ms='milliseconds', us='microseconds', ns='nanoseconds')[unit_name]} ({unit_name}).", ""])

    def print(self):
        print(str(self))
