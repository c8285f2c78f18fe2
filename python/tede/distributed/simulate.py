"""What a step would take on machines that aren't here: its collectives, recorded on this process, played over a cluster that is described.

    from tede.distributed import simulate

    with simulate.record() as trace:                    # of one rank, in a process group of any size, 1 too
        step()
    cluster = simulate.Cluster(nodes=128, ranks_per_node=8, intra=simulate.Link(3e-6, 200e9), inter=simulate.Link(8e-6, 25e9))
    print(trace.replay(cluster))                        # time by kind, what of it is hidden behind computing
    for report in trace.sweep(cluster, (8, 64, 512, 1024)):
        print(report.ranks, report.seconds, report.efficiency)

A collective is an algorithm's rounds of messages (`_rounds.py` says whose). A message takes its link's latency and its bytes divided by its
link's bandwidth (Hockney's model, "The communication challenge for MPP", 1994); what crosses one link in one round shares it, and a round takes
the longest way and the fullest link. Ranks lie on nodes in their order. Each rank does what the recorded one did, at the same time: nothing here
waits for a slow rank, and no switch is out of order. A rank has two threads of time, one computes and one communicates, collective after
collective; it waits where the recorded one did.

What a link gives is measured: `fit(measure())` in a process group makes a cluster of this machine's processes.
"""
import contextlib
import dataclasses
import functools
import itertools
import json
import math
import time
from typing import Any

from tede.distributed import _rounds

__all__ = ["Cluster", "Collective", "Link", "Measurement", "Report", "Trace", "errors", "fit", "measure", "record"]


@dataclasses.dataclass(frozen=True)
class Link:
    """Seconds that the smallest message takes, and bytes per second in each direction. A message of more than `eager` bytes takes `rendezvous` seconds
    more, since its sender waits for its receiver first."""
    latency: float
    bandwidth: float
    rendezvous: float = 0.0
    eager: float = 4096

    def __post_init__(self):
        if not (self.latency >= 0 and self.bandwidth > 0 and self.rendezvous >= 0):
            raise ValueError(f"simulate: a link has a latency and a rendezvous of at least 0 and a bandwidth above 0, not {self.latency}, "
                             f"{self.rendezvous} and {self.bandwidth}")


# --------------------------------------------------------------------------------------------------------- the cluster


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Nodes with ranks, and the links between ranks of one node and between nodes.

    `topology` is how nodes are connected: "switch", one hop between any two; "tree", switches of `radix` ports downwards whose links upwards are as
    wide as those below them together, divided by `oversubscription` at each level; "torus" of the sizes `dims` (as near to a cube as the number of
    nodes allows); "ring". `cores`: a node has so many, which move what is sent within it, at both ends, so that a rank sends and receives by turns, as do
    more ranks than cores; None: hardware does that. `summing`: bytes per second
    that a rank adds up. `progress`: how fast a collective goes on while its rank computes, 1 where hardware of its own moves the bytes, 0 where
    nothing moves until a rank waits. `overhead`: seconds that a call takes besides its messages. `algorithms`: {"all_reduce": "ring"}; the others are
    chosen by size as MPICH does, "best" chooses the quickest; on nodes with several ranks each level has its own ("hierarchical"), where the operation
    allows it.
    """
    nodes: int
    ranks_per_node: int = 1
    intra: Link = Link(1e-6, 10e9)
    inter: Link = Link(5e-6, 10e9)
    topology: str = "switch"
    radix: int = 16
    oversubscription: float = 1.0
    dims: tuple | None = None
    cores: float | None = None
    summing: float = math.inf
    progress: float = 1.0
    overhead: float = 0.0
    algorithms: Any = dataclasses.field(default=None, hash=False)

    def __post_init__(self):
        if self.topology not in ("switch", "tree", "torus", "ring"):
            raise ValueError(f"simulate: a topology is switch, tree, torus or ring, not {self.topology!r}")
        if self.nodes < 1 or self.ranks_per_node < 1 or self.radix < 2 or not 0 <= self.progress <= 1 or self.summing <= 0:
            raise ValueError(f"simulate: {self} has no ranks, or a radix below 2, or a progress that isn't between 0 and 1, or sums nothing")
        if self.ranks > 4096:
            raise ValueError(f"simulate: {self.ranks} ranks are more than 4096")
        if self.dims is not None and math.prod(self.dims) != self.nodes:
            raise ValueError(f"simulate: a torus of {self.dims} has {math.prod(self.dims)} nodes, not {self.nodes}")

    @property
    def ranks(self):
        return self.nodes * self.ranks_per_node

    def sized(self, ranks):
        """The same machine with so many ranks: whole nodes, or a part of one."""
        if ranks < self.ranks_per_node:
            return dataclasses.replace(self, nodes=1, ranks_per_node=ranks, dims=None)
        if ranks % self.ranks_per_node:
            raise ValueError(f"simulate: {ranks} ranks don't fill nodes of {self.ranks_per_node}")
        return dataclasses.replace(self, nodes=ranks // self.ranks_per_node, dims=None)

    def time(self, op, nbytes, group=None, algorithm=None):
        """Seconds of one collective of `nbytes` (see `Collective`) among the ranks `group`: all, or a list of groups of one size that do it at once."""
        groups = [list(range(self.ranks))] if group is None else [group] if isinstance(group[0], int) else group
        return self._plan(op, float(nbytes), tuple(map(tuple, groups)), algorithm)[0]

    def algorithm(self, op, nbytes, group=None):
        """The one that `time` takes."""
        groups = [list(range(self.ranks))] if group is None else [group] if isinstance(group[0], int) else group
        return self._plan(op, float(nbytes), tuple(map(tuple, groups)), None)[1]

    @functools.lru_cache(maxsize=4096)      # noqa: B019  a cluster is a value: equal ones share what was counted
    def _plan(self, op, nbytes, groups, algorithm):
        n = len(groups[0])
        if max(map(max, groups)) >= self.ranks or any(len(g) != n for g in groups):
            raise ValueError(f"simulate: groups have one size, and ranks below {self.ranks}")
        if n == 1:          # one that nothing else moves copies what isn't where it has to go
            copied = nbytes if self.cores and op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter") else 0.0
            return self.overhead + copied / self.intra.bandwidth, "none"
        if op in ("send", "recv"):
            return self.overhead + self._message(nbytes, groups), "message"
        wanted = algorithm or (self.algorithms or {}).get(op)
        levels = self._levels(op, groups)
        if wanted == "best":
            names = _rounds.names(op, n) + ["hierarchical"] * bool(levels)
            return min((self.overhead + self._seconds(op, name, nbytes, groups, levels), name) for name in names)
        name = wanted or ("hierarchical" if levels else "exchange" if self._exchanges(op, nbytes, groups) else _rounds.choose(op, n, nbytes))
        return self.overhead + self._seconds(op, name, nbytes, groups, levels), name

    def _exchanges(self, op, nbytes, groups):
        together = all(len({rank // self.ranks_per_node for rank in group}) == 1 for group in groups)
        return bool(self.cores) and together and _rounds.exchanges(op, len(groups[0]), nbytes, self.ranks_per_node > self.cores)

    def _seconds(self, op, name, nbytes, groups, levels):
        if name != "hierarchical":
            return self._flat(_rounds.rounds(op, name, len(groups[0]), nbytes), groups)
        if not levels:
            raise ValueError(f"simulate: {op} of these ranks isn't hierarchical: that takes several nodes with the same number of several ranks")
        inside, across = levels
        part = nbytes / len(inside[0])
        plan = {
            "all_reduce": [("reduce_scatter", nbytes, inside), ("all_reduce", part, across), ("all_gather", nbytes, inside)],
            "reduce_scatter": [("reduce_scatter", nbytes, inside), ("reduce_scatter", part, across)],
            "all_gather": [("all_gather", part, across), ("all_gather", nbytes, inside)],
            "broadcast": [("broadcast", nbytes, across[:1]), ("broadcast", nbytes, inside)],
            "barrier": [("barrier", 0, inside), ("barrier", 0, across[:1]), ("barrier", 0, inside)],
        }[op]
        wanted = self.algorithms or {}
        return sum(self._plan(o, float(b), g, wanted.get(o) or _rounds.choose(o, len(g[0]), b))[0] - self.overhead for o, b, g in plan)

    def _levels(self, op, groups):
        """(groups within nodes, groups of a rank from each node), or None where the groups don't have that form."""
        if op not in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"):
            return None
        inside, across = [], []
        for group in groups:
            nodes = {}
            for rank in group:
                nodes.setdefault(rank // self.ranks_per_node, []).append(rank)
            parts = list(nodes.values())
            if len(parts) == 1 or len(parts[0]) == 1 or any(len(p) != len(parts[0]) for p in parts):
                return None
            inside += map(tuple, parts)
            across += zip(*parts, strict=True)
        return tuple(inside), tuple(across)

    # ---- the cost of rounds

    def _flat(self, rounds, groups):
        from tede import no_grad, tensor
        with no_grad():
            members = tensor(groups)
            return sum(r.times * self._round(members, r) for r in rounds)

    def _message(self, nbytes, groups):
        from tede import tensor
        return self._round(tensor(groups), _rounds.Round(tensor([0]), tensor([1]), nbytes))

    def _round(self, members, r):
        """Seconds until messages between members of each group that are sent at once have arrived and are added."""
        from tede import as_tensor, bincount, cat, float64
        a, b = members[:, r.source].flatten(), members[:, r.target].flatten()
        size = as_tensor(r.nbytes, dtype=float64).broadcast_to(r.source.shape).repeat(len(members))
        here, there = a // self.ranks_per_node, b // self.ranks_per_node
        near, far = here == there, here != there
        seconds, turns = 0.0, 1.0
        if near.any():
            sent, received = bincount(a[near], size[near], minlength=self.ranks), bincount(b[near], size[near], minlength=self.ranks)
            load = (sent + received if self.cores else sent.maximum(received)).max().item()
            count = max(bincount(a[near]).max().item(), bincount(b[near]).max().item())
            if self.cores:
                active = bincount(cat((a[near], b[near])).unique() // self.ranks_per_node).max().item()
                turns = max(1.0, active / self.cores)
            wait = self.intra.rendezvous if size[near].max().item() > self.intra.eager else 0.0
            seconds = turns * (count * self.intra.latency + wait + load / self.intra.bandwidth)
        if far.any():
            hops, load = self._way(here[far], there[far], size[far])
            wait = self.inter.rendezvous if size[far].max().item() > self.inter.eager else 0.0
            seconds = max(seconds, hops * self.inter.latency + wait + load / self.inter.bandwidth)
        return seconds + turns * r.summed / self.summing

    def _way(self, a, b, size):
        """(links on the longest way, bytes on the fullest link) of messages between nodes; a node has one link in each direction at least."""
        from tede import bincount
        ports = max(bincount(a, size).max().item(), bincount(b, size).max().item())
        if self.topology == "switch":
            return 1, ports
        if self.topology == "tree":
            hops, load, width = 1, ports, 1.0
            while (a != b).any():           # up a level: the messages that leave a switch share its links upwards
                crossing = a // self.radix != b // self.radix
                a, b, size = a[crossing] // self.radix, b[crossing] // self.radix, size[crossing]
                width *= self.radix / self.oversubscription
                if len(a):
                    hops += 2
                    load = max(load, bincount(a, size).max().item() / width, bincount(b, size).max().item() / width)
            return hops, load
        dims = self.dims or (_near_cube(self.nodes) if self.topology == "torus" else (self.nodes,))
        return _torus(a, b, size, dims, ports)


def _near_cube(n):
    """Three factors of n, as equal as can be; two or one where there are no three."""
    if not 0 < n < 1 << 31:
        raise ValueError(f"a torus of {n} nodes: expected 1 to {2**31 - 1}")
    best = min(((x, y, n // x // y) for x in range(1, round(n ** (1 / 3)) + 1) if n % x == 0
                for y in range(x, math.isqrt(n // x) + 1) if n // x % y == 0), key=lambda d: d[2] - d[0])
    return tuple(d for d in best if d > 1) or (1,)


def _torus(a, b, size, dims, ports):
    """Routes go dimension by dimension, the shorter way round. A link's load is the sum, along its ring, of what begins there less what ends."""
    from tede import float64, minimum, zeros
    hops, load, stride = 0, ports, 1
    position = a
    for n in dims:
        x, y = position // stride % n, b // stride % n
        up, down = (y - x) % n, (x - y) % n
        hops = hops + minimum(up, down)
        ring = position - x * stride                     # the number of the ring's node 0
        total = int(ring.max().item()) + 1
        for steps, first in ((up, x), (down, y)):       # a link downwards has the number of its lower end
            chosen = (up <= down) if steps is up else (up > down)
            chosen = chosen & (steps > 0)
            if not chosen.any():
                continue
            r, s, k, w = ring[chosen], first[chosen], steps[chosen], size[chosen]
            change = zeros(total * (2 * n + 1), dtype=float64)
            change.index_add_(0, r * (2 * n + 1) + s, w)
            change.index_add_(0, r * (2 * n + 1) + s + k, -w)
            along = change.reshape(total, 2 * n + 1).cumsum(1)
            load = max(load, (along[:, :n] + along[:, n:2 * n]).max().item())
        position = position + (y - x) * stride
        stride *= n
    return hops.max().item(), load


# ----------------------------------------------------------------------------------------------------------- the trace


@dataclasses.dataclass
class Collective:
    """A call: `nbytes` of the whole tensor (what is reduced or broadcast, the result of all_gather, the operand of reduce_scatter and scatter, what
    a rank sends in all_to_all), `start` and `wait` in seconds of computing, not of communicating, since the step began. `wait` is None for a call
    that isn't asynchronous, and infinite for one that nobody waits for. `group`: the ranks, None for all."""
    op: str
    nbytes: float
    start: float
    wait: float | None = None
    group: tuple | None = None

    def __post_init__(self):
        if self.op not in _rounds.ALGORITHMS and self.op not in ("send", "recv"):
            _rounds.names(self.op, 2)
        if self.nbytes < 0 or self.start < 0 or (self.wait is not None and self.wait < self.start):
            raise ValueError(f"simulate: {self} has fewer than no bytes, or a wait before its start")


@dataclasses.dataclass
class Trace:
    """A step of one rank among `ranks`: seconds of computing, and collectives.

    A group that isn't all ranks is one of several alike that do the same at once: ranks (0, 2) of 4 stand for every second rank, those of tensor
    parallelism (0, 1) for every pair of neighbours. The group whose ranks are farthest apart reaches, on more ranks, over all of them; the others
    keep their size."""
    compute: float
    collectives: list
    ranks: int = 1

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=1)

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        calls = [Collective(**{**c, "group": c["group"] and tuple(c["group"])}) for c in given.pop("collectives")]
        return cls(collectives=calls, **given)

    def groups(self, group, ranks):
        """The groups that `group` of the recorded ranks stands for among so many."""
        if group is None or len(group) == self.ranks:
            return (tuple(range(ranks)),)
        stride = group[1] - group[0] if len(group) > 1 else 1
        if any(y - x != stride for x, y in zip(group, group[1:], strict=False)) or stride < 1:
            return (tuple(group),)
        size = ranks // stride if stride * len(group) >= self.ranks else len(group)
        span = stride * size
        if ranks % span:
            raise ValueError(f"simulate: {ranks} ranks don't divide into groups like {group} of {self.ranks}")
        return tuple(tuple(range(block + first, block + first + span, stride)) for block in range(0, ranks, span) for first in range(stride))

    def replay(self, cluster, scaling="weak"):
        """A `Report`. Under "weak" scaling a rank computes as long as the recorded one, under "strong" its share of what all recorded ranks did."""
        if scaling not in ("weak", "strong"):
            raise ValueError(f"simulate: scaling is weak or strong, not {scaling!r}")
        return _play(self, cluster, 1.0 if scaling == "weak" else self.ranks / cluster.ranks)

    def sweep(self, cluster, ranks, scaling="weak"):
        """Reports for so many ranks of machines like the cluster."""
        return [self.replay(cluster.sized(n), scaling) for n in ranks]


_KINDS = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "send", "recv", "barrier")


def _bytes_of(op, read, written, size):
    """Of the whole tensor, from the operands that one rank of `size` passes."""
    def total(tensors):
        return sum(x.numel() * x.element_size() for x in tensors)
    if op == "gather":
        return total(read) * size
    if op == "scatter":
        return total(written) * size
    return total(written if op in ("broadcast", "all_gather", "recv") else read)


@contextlib.contextmanager
def record():
    """Within it the calls of process groups' engines, whoever makes them, are written to the `Trace` that it gives. The time within calls and waits isn't
    computing; work that is polled counts as work that nobody waits for. One recording at a time."""
    from tede.distributed import _group, distributed_c10d
    start, wait = _group.EngineBackend._start, _group.EngineWork.wait
    began = time.perf_counter()
    away = 0.0
    depth = 0
    trace = Trace(0.0, [], distributed_c10d.get_world_size() if distributed_c10d.is_initialized() else 1)

    def computed():
        return time.perf_counter() - began - away

    @contextlib.contextmanager
    def elsewhere():
        nonlocal away, depth
        since = time.perf_counter()
        depth += 1
        try:
            yield
        finally:
            depth -= 1
            away += 0.0 if depth else time.perf_counter() - since

    def recorded_start(self, kind, read, written, *args, **kwargs):
        names = ("opts", "results", "finish", "reduction", "root", "tag")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        root, waits_at_once = given.get("root") or 0, given.get("opts") is not None and not given["opts"].asyncOp
        op = _KINDS[kind]
        ranks = tuple(self._options.global_ranks_in_group) or tuple(range(self.size()))
        group = tuple(sorted((ranks[self.rank()], ranks[root]))) if op in ("send", "recv") else None if len(ranks) == trace.ranks else ranks
        call = Collective(op, _bytes_of(op, read, written, self.size()), computed(), None if waits_at_once else math.inf, group)
        with elsewhere():
            work = start(self, kind, read, written, *args, **kwargs)
        trace.collectives.append(call)
        work._recorded = call
        return work

    def recorded_wait(self, *args, **kwargs):
        call = getattr(self, "_recorded", None)
        if call is not None and call.wait == math.inf:
            call.wait = max(call.start, computed())
        with elsewhere():
            return wait(self, *args, **kwargs)
    _group.EngineBackend._start, _group.EngineWork.wait = recorded_start, recorded_wait
    try:
        yield trace
    finally:
        _group.EngineBackend._start, _group.EngineWork.wait = start, wait
        trace.compute = computed()


@dataclasses.dataclass
class Kind:
    """What the calls of one operation come to: how many, bytes, seconds of communication, and those of them that a rank waits."""
    count: int = 0
    nbytes: float = 0.0
    seconds: float = 0.0
    exposed: float = 0.0


@dataclasses.dataclass
class Report:
    """What a step takes: `seconds` are those of computing and those that communication is `exposed`; the rest of communication is `overlapped`."""
    ranks: int
    compute: float
    kinds: dict
    timeline: list          # (operation, algorithm, begin, end, seconds that a rank waited for it), in wall time

    @property
    def communication(self):
        return sum(kind.seconds for kind in self.kinds.values())

    @property
    def exposed(self):
        return sum(kind.exposed for kind in self.kinds.values())

    @property
    def overlapped(self):
        return self.communication - self.exposed

    @property
    def seconds(self):
        return self.compute + self.exposed

    @property
    def efficiency(self):
        """The share of the time in which ranks compute."""
        return self.compute / self.seconds if self.seconds else 1.0

    def __str__(self):
        lines = [f"{self.ranks} ranks: a step takes {1e3 * self.seconds:.3f} ms; computing {1e3 * self.compute:.3f} ms, communication "
                 f"{1e3 * self.communication:.3f} ms, {1e3 * self.overlapped:.3f} ms of it overlapped; efficiency {100 * self.efficiency:.1f} %",
                 f"{'operation':16} {'calls':>6} {'MiB':>10} {'ms':>10} {'exposed ms':>11}"]
        lines += [f"{name:16} {k.count:6} {k.nbytes / 2**20:10.3f} {1e3 * k.seconds:10.3f} {1e3 * k.exposed:11.3f}"
                  for name, k in sorted(self.kinds.items(), key=lambda pair: -pair[1].seconds)]
        return "\n".join(lines)


def _play(trace, cluster, factor):
    """Two threads of time. `queue` has what was begun and isn't over; it goes on at `progress` of its speed while the rank computes."""
    points = []
    for i, call in enumerate(trace.collectives):
        points += [(call.start, i, 0)] + [(call.start if call.wait is None else min(call.wait, trace.compute), i, 1)] * (call.wait != math.inf)
    points.sort()
    kinds, timeline, queue = {}, [], []
    wall = computed = 0.0

    def go_on(seconds, speed, computing):
        """The queue's work for so long."""
        nonlocal wall
        while queue and speed and (seconds > 0 or queue[0][1] <= 0):
            entry = queue[0]
            over = entry[1] <= seconds * speed
            used = entry[1] / speed if over else seconds
            entry[1] = 0.0 if over else entry[1] - used * speed
            entry[2] = wall if entry[2] is None else entry[2]
            wall, seconds = wall + used, seconds - used
            entry[4] += 0.0 if computing else used
            if over:
                queue.pop(0)
                timeline.append((entry[0].op, entry[3], entry[2], wall, entry[4]))
                kinds[entry[0].op].exposed += entry[4]
        wall += max(0.0, seconds)

    def wait_for(entry):
        while entry in queue:
            go_on(queue[0][1], 1.0, False)

    begun = {}
    for at, i, is_wait in points:
        go_on((at - computed) * factor, cluster.progress, True)
        computed = at
        call = trace.collectives[i]
        if is_wait:
            wait_for(begun[i])
            continue
        groups = trace.groups(call.group, cluster.ranks)
        seconds, algorithm = cluster._plan(call.op, float(call.nbytes), groups, None)
        begun[i] = [call, seconds, None, algorithm, 0.0]
        kind = kinds.setdefault(call.op, Kind())
        kind.count += 1
        kind.nbytes += call.nbytes
        kind.seconds += seconds
        queue.append(begun[i])
    go_on((trace.compute - computed) * factor, cluster.progress, True)
    while queue:                                # a step isn't over before what it began
        wait_for(queue[0])
    return Report(cluster.ranks, trace.compute * factor, kinds, timeline)


# --------------------------------------------------------------------------------------------------------- measurements


@dataclasses.dataclass
class Measurement:
    """What a collective of `nbytes` took the slowest of so many ranks of one node."""
    op: str
    nbytes: float
    ranks: int
    seconds: float


def _calls(D, op, nbytes, group, ranks, tensor):
    """A call of the operation with operands of `nbytes` in all, of float32."""
    n = max(1, int(nbytes) // 4)
    part = max(1, n // ranks)
    if op == "all_reduce":
        x = tensor(n)
        return lambda: D.all_reduce(x, group=group)
    if op == "broadcast":
        x = tensor(n)
        roots = itertools.cycle(range(ranks))       # in turn: one that always sends needn't wait for the others
        return lambda: D.broadcast(x, next(roots), group=group)
    if op == "all_gather":
        x, out = tensor(part), tensor(part * ranks)
        return lambda: D.all_gather_into_tensor(out, x, group=group)
    if op == "reduce_scatter":
        x, out = tensor(part * ranks), tensor(part)
        return lambda: D.reduce_scatter_tensor(out, x, group=group)
    if op == "all_to_all":
        x, out = tensor(part * ranks), tensor(part * ranks)
        return lambda: D.all_to_all_single(out, x, group=group)
    if op == "barrier":
        return lambda: D.barrier(group=group)
    raise ValueError(f"simulate: {op!r} isn't measured")


def measure(operations=("all_reduce", "broadcast", "all_gather", "reduce_scatter"), sizes=(4, 1 << 12, 1 << 16, 1 << 20, 1 << 24), ranks=None,
            seconds=0.1):
    """Times collectives of the first 1, 2, 4, 8, ... ranks of the process group (or of as many as `ranks` lists), the others waiting. All ranks call it;
    each gets all measurements: of the slowest rank, the mean of a block of calls, of blocks that last `seconds` together the quickest, since what else
    runs on the machine only adds."""
    import tede
    import tede.distributed as D
    world, rank = D.get_world_size(), D.get_rank()
    numbers = [n for n in (ranks or [1 << k for k in range(world.bit_length())]) if n <= world]
    found = []
    for n in numbers:
        group = D.new_group(list(range(n))) if n < world else None
        for op in operations:
            for size in sizes if op != "barrier" else (0,):
                took = tede.zeros(1, dtype=tede.float64)
                if rank < n:
                    call = _calls(D, op, size, group, n, tede.ones)
                    took += _quickest(D, call, seconds, group)
                D.all_reduce(took, op=D.ReduceOp.MAX)
                found.append(Measurement(op, size, n, took.item()))
    return found


def _quickest(D, call, seconds, group, blocks=10):
    import tede
    call()
    D.barrier(group=group)
    start = time.perf_counter()
    for _ in range(3):
        call()
    calls = tede.tensor([(time.perf_counter() - start) / 3])
    D.broadcast(calls, 0, group=group)          # the same number on each rank
    count = int(min(1000.0, max(1.0, seconds / blocks / max(1e-9, calls.item()))))
    times = []
    for _ in range(blocks):
        D.barrier(group=group)
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = tede.tensor([(time.perf_counter() - start) / count], dtype=tede.float64)
        D.all_reduce(took, op=D.ReduceOp.MAX, group=group)
        times.append(took.item())
    return min(times)


def fit(measurements, cores=None, algorithms=None):
    """The one node that explains measurements best: a `Cluster` of as many ranks as the largest. Its overhead, latency, rendezvous, time per byte and time
    per byte summed, none below 0, are those for which the ratios of what the model says to what was measured are nearest to 1 (the least squares of their
    logarithms, nearly)."""
    from tede import float64, linalg, tensor
    shape = Cluster(1, max((m.ranks for m in measurements), default=1), cores=cores, algorithms=algorithms)
    free = Link(0.0, math.inf)
    units = [dict(intra=free, overhead=1.0), dict(intra=Link(1.0, math.inf)), dict(intra=Link(0.0, math.inf, 1.0)), dict(intra=Link(0.0, 1.0)),
             dict(intra=free, summing=1.0)]
    models = [dataclasses.replace(shape, **unit) for unit in units]
    # The algorithm is chosen by size, so a time is linear in the five.
    rows = [[_said(model, m) for model in models] for m in measurements]
    known = [i for i, row in enumerate(rows) if any(row)]       # of others the model says that nothing takes no time
    if not known:
        return shape
    rows, want = tensor([rows[i] for i in known], dtype=float64), tensor([measurements[i].seconds for i in known], dtype=float64)
    best = None
    for chosen in (sorted(c) for k in range(1, 6) for c in itertools.combinations(range(5), k)):
        part, said = rows[:, chosen], want
        for _ in range(50):         # (said - want)² / (said * want) is the square of 2 sinh of half the logarithm of their ratio
            scale = (said * want).rsqrt()
            found = linalg.lstsq(part * scale[:, None], (want * scale)[:, None]).solution[:, 0]
            said = part @ found
            if not (said > 0).all():
                break
        error = ((said - want).square() / (said * want)).sum().item()
        if (found >= 0).all() and (said > 0).all() and (best is None or error < best[0]):
            best = error, dict(zip(chosen, found.tolist(), strict=True))
    if best is None:
        raise ValueError("simulate: no link explains these measurements")
    overhead, latency, rendezvous, per_byte, per_sum = (best[1].get(i, 0.0) for i in range(5))
    return dataclasses.replace(shape, overhead=overhead, intra=Link(latency, 1 / per_byte if per_byte else math.inf, rendezvous),
                               summing=1 / per_sum if per_sum else math.inf)


def _said(cluster, m):
    """Of the first ranks of the node: the others wait meanwhile, but how calls are made depends on all of them."""
    return cluster.time(m.op, m.nbytes, list(range(m.ranks)))


def errors(cluster, measurements):
    """[(measurement, what the cluster's model says, its relative error)]."""
    said = [_said(cluster, m) for m in measurements]
    return [(m, t, t / m.seconds - 1) for m, t in zip(measurements, said, strict=True)]


def _main():
    """Measures a process group's collectives, fits a cluster, and prints how far off it is: mpiexec -n 4 python -m tede.distributed.simulate."""
    import os

    import tede.distributed as D
    D.init_process_group("mpi")
    found = measure()
    if D.get_rank() == 0:
        cluster = fit(found, cores=len(os.sched_getaffinity(0)))
        if cluster.ranks > 1:
            link = cluster.intra
            print(f"a call {1e6 * cluster.overhead:.2f} us, a message {1e6 * link.latency:.2f} us, above {link.eager} B {1e6 * link.rendezvous:.2f} us more, "
                  f"and {link.bandwidth / 1e9:.2f} GB/s, sums {cluster.summing / 1e9:.2f} GB/s")
        for m, said, error in errors(cluster, found):
            print(f"{m.ranks} ranks, {m.op:15} {int(m.nbytes):9} B {1e6 * m.seconds:12.1f} us measured {1e6 * said:12.1f} us by the model {100 * error:+7.0f} %")
    D.destroy_process_group()


if __name__ == "__main__":
    _main()
