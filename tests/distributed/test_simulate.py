"""tede.distributed.simulate: the model against closed forms, against a replay message by message, and what must hold of any model."""
import heapq
import itertools
import math
import time

import pytest
import ranks

tede = pytest.importorskip("tede")
from tede.distributed import _rounds, simulate  # noqa: E402
from tede.distributed.simulate import Cluster, Collective, Link, Trace  # noqa: E402



@pytest.fixture(autouse=True)
def one_thread():
    """What is computed is small, and threads that wait for each other take turns with whatever else runs."""
    before = tede.get_num_threads()
    tede.set_num_threads(1)
    yield
    tede.set_num_threads(before)


ALPHA, BANDWIDTH, SUMMING = 3e-6, 2e9, 5e9
SIZES = 1, 3000, 1 << 20
CASES = [(op, name) for op in _rounds.ALGORITHMS for name in _rounds.ALGORITHMS[op]]


def one_node(n, **more):
    return Cluster(1, n, intra=Link(ALPHA, BANDWIDTH), summing=SUMMING, **more)


def messages(op, name, n, m):
    """(round, source, target, bytes) of each message, (round, bytes summed) by round."""
    out, summed, step = [], [], itertools.count()
    for r in _rounds.rounds(op, name, n, m):
        sizes = tede.as_tensor(r.nbytes, dtype=tede.float64).broadcast_to(r.source.shape).tolist()
        for _ in range(r.times):
            k = next(step)
            summed.append(r.summed)
            out += [(k, a, b, s) for a, b, s in zip(r.source.tolist(), r.target.tolist(), sizes, strict=True)]
    return out, summed


def event_by_event(op, name, n, m):
    """No rounds in common: a message leaves when its sender has the messages of earlier rounds, and its port is free; a rank sums before it sends on."""
    sent, summed = messages(op, name, n, m)
    ready, port, gate = [0.0] * n, [0.0] * n, [0.0] * n
    order = [(k, a, b, s) for k, a, b, s in sent]
    heapq.heapify(order)
    arrivals, last = [], -1
    while order:
        k, a, b, s = heapq.heappop(order)
        if k != last:                       # what arrived in the round before may now be sent on
            for at, rank in arrivals:
                ready[rank] = max(ready[rank], at)
            arrivals, last = [], k
        begin = max(ready[a], port[a], gate[b])
        end = begin + ALPHA + s / BANDWIDTH
        port[a] = end
        arrivals.append((end + summed[k] / SUMMING, b))
        gate[b] = end + summed[k] / SUMMING
    return max([at for at, _ in arrivals] + ready)


@pytest.mark.parametrize("op, name", CASES)
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_the_rounds_take_what_the_closed_form_says(op, name, n):
    for m in SIZES:
        want = _rounds.formula(op, name, n, m, ALPHA, 1 / BANDWIDTH, 1 / SUMMING)
        assert math.isclose(one_node(n).time(op, m, algorithm=name), want, rel_tol=1e-9), (op, name, n, m)


@pytest.mark.parametrize("op, name", [c for c in CASES if c[1] in ("ring", "pairwise", "dissemination")])
@pytest.mark.parametrize("n", [3, 5, 7, 12])
def test_closed_forms_of_numbers_that_are_no_powers_of_two(op, name, n):
    want = _rounds.formula(op, name, n, 9000, ALPHA, 1 / BANDWIDTH, 1 / SUMMING)
    assert math.isclose(one_node(n).time(op, 9000, algorithm=name), want, rel_tol=1e-9)


@pytest.mark.parametrize("op, name", CASES)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13])
def test_a_replay_message_by_message_agrees(op, name, n):
    if name not in _rounds.names(op, n):
        with pytest.raises(ValueError, match="has no algorithm"):
            one_node(n).time(op, 1, algorithm=name)
        return
    rounds, events = one_node(n).time(op, 1 << 16, algorithm=name), event_by_event(op, name, n, 1 << 16)
    assert events <= rounds * (1 + 1e-9)    # a rank needn't wait for the others' messages
    if n & (n - 1) == 0:
        assert math.isclose(events, rounds, rel_tol=1e-9)
    else:
        assert events > 0.6 * rounds


# What has to cross the network, whichever way: the bytes that all members receive, in tensors.
LEAST = {"all_gather": lambda n: n - 1, "broadcast": lambda n: n - 1, "reduce_scatter": lambda n: n - 1, "all_reduce": lambda n: 2 * (n - 1),
         "reduce": lambda n: n - 1, "scatter": lambda n: (n - 1) / n, "gather": lambda n: (n - 1) / n, "all_to_all": lambda n: n - 1, "barrier": lambda n: 0}
EXACT = {("all_gather", name) for name in ("recursive doubling", "bruck", "ring")} | {("all_reduce", "ring"), ("all_reduce", "tree"), ("broadcast", "binomial"),
         ("reduce", "binomial"), ("reduce_scatter", "ring"), ("reduce_scatter", "pairwise"), ("all_to_all", "pairwise")}


@pytest.mark.parametrize("op, name", CASES)
@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 13])
def test_bytes_are_conserved(op, name, n):
    if name not in _rounds.names(op, n):
        return
    sent, _ = messages(op, name, n, 960.0)
    moved = sum(s for *_, s in sent) / 960
    assert moved >= LEAST[op](n) - 1e-9
    if (op, name) in EXACT:
        assert math.isclose(moved, LEAST[op](n))
    assert all(a != b and 0 <= a < n and 0 <= b < n for _, a, b, _ in sent)
    for k, group in itertools.groupby(sent, key=lambda x: x[0]):     # single port: a member sends and receives one message in a round
        part = list(group)
        assert len({a for _, a, *_ in part}) == len(part) == len({b for _, _, b, _ in part}), k


@pytest.mark.parametrize("op, name", CASES)
@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 13])
def test_what_a_member_needs_reaches_it(op, name, n):
    if name not in _rounds.names(op, n):
        return
    known = [{i} for i in range(n)]
    for _, group in itertools.groupby(messages(op, name, n, 1.0)[0], key=lambda x: x[0]):
        part = [(b, set(known[a])) for _, a, b, _ in group]
        for b, news in part:
            known[b] |= news
    everyone = set(range(n))
    if op in ("reduce", "gather"):
        assert known[0] == everyone
    elif op in ("broadcast", "scatter"):
        assert all(0 in k for k in known)
    else:
        assert all(k == everyone for k in known)


@pytest.mark.parametrize("topology", ["switch", "tree", "torus", "ring"])
def test_more_bytes_and_more_ranks_take_no_less(topology):
    for op in _rounds.ALGORITHMS:
        for algorithms in (None, {op: "best"}):
            before = 0.0
            for nodes in (2, 4, 16, 64):
                cluster = Cluster(nodes, 4, intra=Link(1e-6, 50e9), inter=Link(5e-6, 10e9), topology=topology, algorithms=algorithms)
                times = [cluster.time(op, m) for m in (64, 1 << 24, 1 << 28)]
                assert times == sorted(times)
                if algorithms:
                    assert times[1] >= before * (1 - 1e-9), (op, nodes)
                    before = times[1]


def test_the_algorithm_changes_with_the_size():
    cluster = one_node(16)
    assert [cluster.algorithm("all_reduce", m) for m in (4, 2048, 4096)] == ["recursive doubling", "recursive doubling", "rabenseifner"]
    assert [cluster.algorithm("broadcast", m) for m in (4, 20000, 1 << 20)] == ["binomial", "scatter and recursive doubling", "scatter and ring"]
    assert [one_node(12).algorithm("all_gather", m) for m in (4, 1 << 20)] == ["bruck", "ring"]
    assert Cluster(4, 4).algorithm("all_reduce", 1 << 20) == "hierarchical"
    assert Cluster(4, 4, algorithms={"all_reduce": "ring"}).algorithm("all_reduce", 1 << 20) == "ring"
    for op in _rounds.ALGORITHMS:
        best = Cluster(4, 4, algorithms={op: "best"})
        assert all(best.time(op, 5000) <= Cluster(4, 4).time(op, 5000, algorithm=name) for name in _rounds.names(op, 16))


def test_links_are_shared():
    flat = Cluster(4, 8, intra=Link(0, 1e12), inter=Link(0, 1e9))
    exchange = flat.time("all_to_all", 32e6, algorithm="pairwise")      # 24 of 32 parts of 1 MB leave a node, of 8 ranks, by one link
    assert math.isclose(exchange, 8 * 24e6 / 1e9, rel_tol=0.35)
    assert exchange > 8 * 24e6 / 1e9
    ring = Cluster(8, 1, inter=Link(1e-6, 1e9), topology="ring")        # half way round: four links for each message
    assert math.isclose(ring.time("send", 1e6, [[i, (i + 4) % 8] for i in range(8)]), 4e-6 + 4e6 / 1e9)
    assert math.isclose(ring.time("send", 1e6, [[i, (i + 1) % 8] for i in range(8)]), 1e-6 + 1e6 / 1e9)
    assert math.isclose(ring.time("send", 1e6, [[(i + 3) % 8, i] for i in range(8)]), 3e-6 + 3e6 / 1e9)
    torus = Cluster(16, 1, inter=Link(1e-6, 1e9), topology="torus", dims=(4, 4))
    assert math.isclose(torus.time("send", 1e6, [0, 10]), 4e-6 + 1e6 / 1e9)
    assert math.isclose(torus.time("send", 1e6, [[i, (i + 10) % 16] for i in range(16)]), 4e-6 + 2e6 / 1e9)
    tree = Cluster(64, 1, inter=Link(1e-6, 1e9), topology="tree", radix=8)
    thin = Cluster(64, 1, inter=Link(1e-6, 1e9), topology="tree", radix=8, oversubscription=4)
    far = [[i, (i + 32) % 64] for i in range(64)]
    assert math.isclose(tree.time("send", 1e6, far), 3e-6 + 1e-3) and math.isclose(thin.time("send", 1e6, far), 3e-6 + 4e-3)
    assert math.isclose(thin.time("send", 1e6, [0, 1]), 1e-6 + 1e-3)


def test_cores_move_messages_at_both_ends():
    link = Link(1e-6, 1e9, rendezvous=3e-6, eager=1000)
    for cores, ranks, turns in (4, 4, 1), (2, 4, 2), (1, 4, 4), (2, 2, 1):
        cluster, parts = Cluster(1, ranks, intra=link, cores=cores, summing=2e9, overhead=1e-5), ranks - 1
        small, large = (cluster.time("all_to_all", m * ranks) for m in (500, 2000))
        assert math.isclose(small, 1e-5 + turns * parts * (1e-6 + 2 * 500 / 1e9))         # sent and received
        assert math.isclose(large, 1e-5 + turns * (3e-6 + parts * (1e-6 + 2 * 2000 / 1e9)))
        assert math.isclose(cluster.time("reduce_scatter", 1e6 * ranks) - cluster.time("all_to_all", 1e6 * ranks), turns * 1e6 * ranks / 2e9)
    crowded = Cluster(1, 4, intra=link, cores=2)
    assert math.isclose(crowded.time("broadcast", 500), (1e-6 + 500 / 1e9) * (1 + 2))     # one message, then two that share two cores
    assert math.isclose(crowded.time("broadcast", 500, [0, 1]), 1e-6 + 500 / 1e9)
    assert crowded.time("all_gather", 1e6, [3]) == 1e6 / 1e9 and crowded.time("all_reduce", 1e6, [3]) == 0


def test_few_ranks_of_one_machine_exchange():
    crowded, alone = Cluster(1, 4, cores=2), Cluster(1, 4, cores=4)
    assert [crowded.algorithm("all_reduce", m) for m in (4, 128 << 10, 1 << 20)] == ["exchange", "exchange", "rabenseifner"]
    assert [crowded.algorithm("all_reduce", 4, pair) for pair in ([0, 1], [0, 3])] == ["exchange"] * 2
    assert [alone.algorithm("all_gather", m) for m in (4, 64 << 10, 1 << 20)] == ["recursive doubling", "exchange", "ring"]
    assert [alone.algorithm(op, 4) for op in ("barrier", "all_to_all", "reduce_scatter")] == ["dissemination", "exchange", "recursive halving"]
    assert Cluster(1, 32, cores=2).algorithm("all_reduce", 4) == "recursive doubling" and one_node(4).algorithm("all_to_all", 4) == "pairwise"
    two = Cluster(2, 4, cores=2)
    assert two.algorithm("all_reduce", 4) == "hierarchical" and two.algorithm("all_to_all", 4) == "bruck"
    assert two.algorithm("all_reduce", 4, [[0, 1], [4, 5]]) == "exchange" and two.algorithm("all_reduce", 4, [1, 4]) == "recursive doubling"
    for op in _rounds.EXCHANGES:
        for m in (8.0, 9000.0):
            known, pieces = [{i} for i in range(4)], _rounds.rounds(op, "exchange", 4, m)
            for r in pieces:
                pairs = set(zip(r.source.tolist(), r.target.tolist(), strict=True))
                assert pairs == {(a, b) for a in range(4) for b in range(4) if a != b}
                before = [set(k) for k in known]
                for a, b in pairs:
                    known[b] |= before[a]
            assert known == [{0, 1, 2, 3}] * 4
            moved = sum(3 * r.nbytes for r in pieces)       # by each rank
            assert moved == {"barrier": 3, "all_reduce": 3 * m if m <= 4096 else 6 * m / 4}.get(op, 3 * m / 4)


def test_4096_ranks():
    cluster = Cluster(512, 8, intra=Link(3e-6, 200e9), inter=Link(8e-6, 25e9), topology="tree")
    small, large = cluster.time("all_reduce", 4), cluster.time("all_reduce", 1 << 30)
    assert 9 * 8e-6 < small < 9 * 8e-6 + 12 * 3e-6 + 1e-6 + 2 * 9 * 2 * 8e-6
    assert 2 * (1 << 30) / 25e9 / 8 < large / 8 < 1.2 * 2 * (1 << 30) / 25e9 / 8 + 2 * (1 << 30) / 200e9
    with pytest.raises(ValueError, match="more than 4096"):
        Cluster(513, 8)


# ------------------------------------------------------------------------------------------------------------- replays


def test_an_asynchronous_collective_hides_behind_computing():
    cluster = one_node(4)
    t = cluster.time("all_reduce", 1 << 22)
    after = Trace(1.0, [Collective("all_reduce", 1 << 22, 0.5)]).replay(cluster)
    assert math.isclose(after.seconds, 1 + t) and math.isclose(after.exposed, t) and after.overlapped == 0
    hidden = Trace(1.0, [Collective("all_reduce", 1 << 22, 0.5, wait=1.0)]).replay(cluster)
    assert math.isclose(hidden.seconds, 1) and math.isclose(hidden.overlapped, t)
    half = Trace(0.5 + t / 2, [Collective("all_reduce", 1 << 22, 0.5, wait=math.inf)]).replay(cluster)
    assert math.isclose(half.exposed, t / 2) and math.isclose(half.efficiency, (0.5 + t / 2) / (0.5 + t))
    slow = Trace(0.5 + t, [Collective("all_reduce", 1 << 22, 0.5, wait=0.5 + t)]).replay(Cluster(1, 4, Link(ALPHA, BANDWIDTH), summing=SUMMING, progress=0.25))
    assert math.isclose(slow.exposed, 0.75 * t)
    both = Trace(0.5, [Collective("all_reduce", 1 << 22, 0.5, wait=0.5), Collective("broadcast", 1 << 22, 0.5, wait=math.inf)]).replay(cluster)
    assert math.isclose(both.exposed, both.communication) and set(both.kinds) == {"all_reduce", "broadcast"}
    assert [line[0] for line in both.timeline] == ["all_reduce", "broadcast"] and math.isclose(both.timeline[0][3], both.timeline[1][2])


def test_time_is_conserved_and_longer_for_less():
    calls = [Collective("all_reduce", 1e6 * (i + 1), i / 10, None if i % 3 == 0 else (i + 2) / 10 if i % 3 == 1 else math.inf) for i in range(9)]
    trace = Trace(1.0, calls, 4)
    before = math.inf
    for bandwidth in (1e7, 1e8, 1e9, 1e10):
        report = trace.replay(Cluster(4, 2, inter=Link(1e-5, bandwidth)))
        assert math.isclose(sum(end - begin for *_, begin, end, _ in report.timeline), report.communication)
        assert 0 <= report.exposed <= report.communication and len(report.timeline) == 9
        assert math.isclose(report.timeline[-1][3], report.seconds) or report.timeline[-1][3] < report.seconds
        assert report.seconds <= before
        before = report.seconds
    assert "all_reduce" in str(report) and "efficiency" in str(report)


def test_sweeps_and_groups(tmp_path):
    trace = Trace(0.01, [Collective("all_gather", 1 << 20, 0.001, None, (0, 1)), Collective("all_reduce", 1 << 24, 0.005, math.inf, (0, 2)),
                         Collective("send", 4096, 0.009, None, (0, 1))], 4)
    assert trace.groups((0, 1), 8) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert trace.groups((1, 3), 8) == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert trace.groups(None, 3) == ((0, 1, 2),)
    reports = trace.sweep(Cluster(1, 8, inter=Link(1e-5, 1e9)), (8, 64, 4096))
    assert [r.ranks for r in reports] == [8, 64, 4096]
    assert reports[0].efficiency > reports[1].efficiency > reports[2].efficiency
    strong = trace.sweep(Cluster(1, 8), (4, 8), "strong")
    assert strong[1].compute == strong[0].compute / 2 == 0.005
    trace.save(tmp_path / "trace.json")
    again = Trace.load(tmp_path / "trace.json")
    assert again == trace


@pytest.mark.parametrize("make", [lambda: Link(-1, 1), lambda: Link(0, 0), lambda: Cluster(2, topology="star"), lambda: Cluster(0), lambda: Cluster(6, dims=(4, 2)),
                                  lambda: Collective("sum", 1, 0), lambda: Collective("reduce", -1, 0), lambda: Collective("reduce", 1, 2, 1),
                                  lambda: Cluster(2, 3).sized(7), lambda: Trace(1, [], 1).replay(Cluster(1), "other"), lambda: Cluster(2).time("reduce", 1, [0, 5]),
                                  lambda: Cluster(2).time("all_reduce", 1, algorithm="hierarchical"),
                                  lambda: _rounds.formula("all_reduce", "rabenseifner", 3, 1, 1, 1)])
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError, match="simulate: "):
        make()


def test_a_fit_finds_the_link_that_measurements_come_from():
    true = Cluster(1, 4, Link(5e-6, 3e9, 4e-5), summing=7e9, cores=2, overhead=2e-5)
    found = [simulate.Measurement(op, m, n, true.time(op, m, list(range(n)))) for op in ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
             for m in (4, 1 << 12, 1 << 16, 1 << 20, 1 << 24) for n in (1, 2, 4)]
    cluster = simulate.fit(found, cores=2)
    assert math.isclose(cluster.intra.latency, 5e-6, rel_tol=1e-6) and math.isclose(cluster.intra.bandwidth, 3e9, rel_tol=1e-6)
    assert math.isclose(cluster.intra.rendezvous, 4e-5, rel_tol=1e-6)
    assert math.isclose(cluster.summing, 7e9, rel_tol=1e-6) and math.isclose(cluster.overhead, 2e-5, rel_tol=1e-6)
    assert all(abs(error) < 1e-6 for *_, error in simulate.errors(cluster, found))
    for m in found:                         # times that no such link gives are met as well as can be
        m.seconds *= 1.2 if m.op == "broadcast" else 0.9
    assert 0.01 < max(abs(error) for *_, error in simulate.errors(simulate.fit(found, cores=2), found)) < 0.5


def recorded_step(lib, rank, size):
    """A step with calls of each kind, and what was recorded of it."""
    from tede.distributed import simulate
    dist, x = lib.distributed, lib.ones(1000)
    pair = dist.new_group([0, 1])
    with simulate.record() as trace:
        time.sleep(0.02)
        dist.all_reduce(x)
        work = dist.all_reduce(lib.ones(500, dtype=lib.float64), async_op=True, group=pair)
        time.sleep(0.03)
        if work is not None:
            work.wait()
        dist.broadcast(x, 0)
        dist.all_gather_into_tensor(lib.zeros(size * 7), lib.ones(7))
        dist.reduce_scatter_tensor(lib.zeros(7), lib.ones(size * 7))
        dist.all_to_all_single(lib.zeros(size * 3), lib.ones(size * 3))
        dist.gather(x, [lib.zeros(1000) for _ in range(size)] if rank == 0 else None, 0)
        if rank < 2:
            dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        dist.barrier()
    dist.all_reduce(x)
    return trace.compute, trace.ranks, [(c.op, c.nbytes, c.start, c.wait, c.group) for c in trace.collectives]


@pytest.mark.parametrize("size", [2, 3])
def test_a_step_is_recorded(size):
    for rank, (compute, n, calls) in enumerate(ranks.run(recorded_step, size)):
        assert n == size and compute >= 0.05
        few = size == 3 and rank == 2           # not a member of the pair
        wanted = [("all_reduce", 4000), ("all_reduce", 4000), ("broadcast", 4000), ("all_gather", 28 * size), ("reduce_scatter", 28 * size),
                  ("all_to_all", 12 * size), ("gather", 4000 * size), ("send" if rank == 0 else "recv", 4000), ("barrier", 0)]
        assert [c[:2] for c in calls] == [w for i, w in enumerate(wanted) if not few or i not in (1, 7)]
        assert calls[0][2] >= 0.02 and all(c[3] is None or c[2] <= c[3] <= compute for c in calls) and [c[2] for c in calls] == sorted(c[2] for c in calls)
        assert [c[0] for c in calls if c[3] is not None] == ([] if few else ["all_reduce", "send" if rank == 0 else "recv"])
        if not few:
            assert calls[1][3] - calls[1][2] >= 0.03 and calls[1][4] == (None if size == 2 else (0, 1)) and calls[7][4] == (0, 1)
        trace = Trace(compute, [Collective(*c) for c in calls], n)
        report = trace.replay(Cluster(1, 2 * size) if not few else Cluster(1, size))
        assert report.seconds > compute and sum(k.count for k in report.kinds.values()) == len(calls)


def measured(lib, rank, size):
    from tede.distributed import simulate
    found = simulate.measure(operations=("all_reduce", "all_gather", "barrier"), sizes=(4, 1 << 16, 1 << 20), seconds=0.03)
    return [(m.op, m.nbytes, m.ranks, m.seconds) for m in found]


def test_measurements_fit_within_their_kind():
    every = ranks.run(measured, 3)
    assert every[0] == every[1] == every[2]         # all ranks have all
    found = [simulate.Measurement(*m) for m in every[0]]
    asked = [(op, m) for op in ("all_reduce", "all_gather") for m in (4, 1 << 16, 1 << 20)] + [("barrier", 0)]
    assert [(m.ranks, m.op, m.nbytes) for m in found] == [(n, *one) for n in (1, 2) for one in asked] and all(m.seconds > 0 for m in found)
    cluster = simulate.fit(found)
    assert cluster.ranks == 2 and all(math.isfinite(error) for *_, error in simulate.errors(cluster, found))
    alone = simulate.fit(found[:7], cores=1)        # one rank sends nothing, but copies
    assert alone.ranks == 1 and alone.overhead > 0 and alone.intra.latency == 0
    assert simulate.fit([simulate.Measurement("send", 4, 1, 1.0)]).overhead == 1
