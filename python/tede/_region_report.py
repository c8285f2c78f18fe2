"""What ends regions early: tede.compiler.explain, and the words of fullgraph=True.

A mode looks at the count of early flushes after each call that Python makes: the call that raised it needed a value, or is of an operator that
isn't recorded. Without explain and fullgraph there is no mode, and calls cost what they do."""
from tede import _C
from tede._program_line import ended_by, name_of, user_line
from tede.overrides import TorchFunctionMode


class Part:
    """What a region computed at a time.

    recorded, dropped, fused: calls; of these, that nobody needed, that were done slab by slab together with others.
    ended_by: the function that needed a value, as PyTorch's documentation names it; None: the function returned.
    file, line, text: where the program called that. graph: the torch.fx.Graph that a backend was passed; None of regions.
    plans: of each kind of joined calls a `Plan`."""

    def __init__(self, recorded, dropped, fused, ended_by=None, where=("", 0, ""), graph=None, plans=()):
        self.plans = list(plans)
        self.recorded, self.dropped, self.fused, self.ended_by, self.graph = recorded, dropped, fused, ended_by, graph
        self.file, self.line, self.text = where

    def __str__(self):
        plan = f", {self.fused} of them fused, {self.dropped} dropped" if self.graph is None else ""
        end = "the function returned" if self.ended_by is None else f"{self.ended_by} at {self.file}:{self.line}: {self.text}"
        return "\n   ".join([f"{self.recorded} calls{plan}; ended by: {end}", *map(str, self.plans)])


class Plan:
    """Joined calls. tier: 1, the loops that are there, slab by slab; 2, a loop that a C compiler made. state: "cold", "building", "built", "compiled" or
    "discarded". source: the loop's file, or "". why: it is discarded."""

    def __init__(self, tier, state, source, why):
        self.tier, self.state, self.source, self.why = tier, state, source, why

    def __str__(self):
        return f"tier {self.tier}, {self.state}" + "".join(f": {text}" for text in (self.source, self.why) if text)


class Explanation:
    """What tede.compiler.explain(f)(*args) gives. parts: a `Part` for each time that elements were computed; result: the function's.
    The other attributes are those of PyTorch's torch._dynamo.explain."""

    def __init__(self, parts, result):
        self.parts, self.result = parts, result

    @property
    def graph_count(self):
        return len(self.parts)

    @property
    def graph_break_count(self):
        return len(self.break_reasons)

    @property
    def break_reasons(self):
        return [str(part) for part in self.parts if part.ended_by is not None]

    @property
    def op_count(self):
        return sum(part.recorded for part in self.parts)

    @property
    def graphs(self):
        return [part.graph for part in self.parts if part.graph is not None]

    @property
    def ops_per_graph(self):
        return [[node.target for node in graph.nodes if node.op.startswith("call_")] for graph in self.graphs]

    def __str__(self):
        lines = [f"parts: {len(self.parts)}, calls: {self.op_count}, ended early: {self.graph_break_count}"]
        return "\n".join(lines + [f"{i}: {part}" for i, part in enumerate(self.parts, 1)])


class Watch(TorchFunctionMode):
    """Notes which calls end what a region has recorded; with `refuse` they are errors."""

    def __init__(self, refuse=False):
        super().__init__()
        self.refuse, self.parts, self.before, self.plans = refuse, [], _C._region_counts(), _C._region_plans()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        flushes = _C._region_counts()["early_flushes"]
        result = func(*args, **(kwargs or {}))
        if _C._region_counts()["early_flushes"] != flushes:
            name, where = name_of(func), user_line()
            if self.refuse:
                raise RuntimeError("fullgraph=True: " + ended_by(name, where))
            self.note(name, where)
        return result

    def note(self, name=None, where=("", 0, "")):
        now = _C._region_counts()
        counts = [now[name] - self.before[name] for name in ("recorded_calls", "dropped_calls", "fused_calls")]
        self.before = now
        plans, earlier = _C._region_plans(), dict(enumerate(self.plans))
        self.plans = plans
        ran = []
        for i, (state, source, why, runs, compiled) in enumerate(plans):
            *_, runs_before, compiled_before = earlier.get(i, (0, 0))
            if runs != runs_before:
                ran.append(Plan(2 if compiled != compiled_before else 1, state, source, why))
        if counts[0] or name:
            self.parts.append(Part(*counts, name, where, plans=ran))


def explain(function, backend=None):
    """A function of the arguments that calls `function` in a region, or by graphs for a backend, and gives an `Explanation`."""
    tier, compiler = getattr(getattr(function, "forward", function), "_tede_tier", (0, None))
    function = getattr(function, "_torchdynamo_orig_callable", None) or getattr(function, "_orig_mod", function)

    def explained(*args, **kwargs):
        if backend is not None:
            return _by_graphs(function, backend, args, kwargs)
        watch = Watch()
        with watch:
            result = _C.Compiled(function, tier, compiler, True)(*args, **kwargs)
        watch.note()
        return Explanation(watch.parts, result)
    return explained


def _by_graphs(function, backend, args, kwargs):
    from tede._graphs import Graphs
    parts = []

    def report(graph, name, where):
        parts.append(Part(sum(node.op.startswith("call_") for node in graph.nodes), 0, 0, name, where or ("", 0, ""), graph))
    result = Graphs(backend).call(function, args, kwargs, report)
    return Explanation(parts, result)
