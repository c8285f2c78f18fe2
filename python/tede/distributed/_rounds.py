"""Collectives as rounds of messages: who sends how many bytes to whom, algorithm by algorithm, and which one is chosen.

A round ends when its last message has arrived. Members of a group are numbered from 0; `m` is the size of the whole tensor: what is reduced or
broadcast, the result of all_gather, the operand of reduce_scatter and scatter, what a member sends in all_to_all. The algorithms and the sizes
that they change at are those of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH" (2005); rings as
in Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009); Bruck et al., "Efficient algorithms for all-to-all communications"
(1997); the barrier is the dissemination barrier of Hensgen, Finkel and Manber (1988). An exchange is what tede's MPI engine does among few ranks
of one machine: each sends to each other at once (`engines/mpi/exchange.c`).
"""
from typing import Any, NamedTuple

KIB = 1024


class Round(NamedTuple):
    """Messages sent at once, `times` times in a row: by `source[i]` to `target[i]`, of `nbytes` (one number, or one for each). `summed` bytes are
    added up by each receiver afterwards."""
    source: Any
    target: Any
    nbytes: Any
    times: int = 1
    summed: float = 0.0


def _all(n):
    from tede import arange
    return arange(n)


def _shift(n, by, nbytes, times=1, summed=0.0):
    i = _all(n)
    return Round(i, (i + by) % n, nbytes, times, summed)


def _power(n):
    """(the largest power of two up to n, its logarithm)."""
    log = n.bit_length() - 1
    return 1 << log, log


def _steps(n):
    return (n - 1).bit_length()


def _pairs(n, distance, nbytes, summed=0.0):
    """Exchanges between members whose numbers differ in one bit, of the power of two that is left after folding: the first `2 * (n - power)`
    members are in pairs, of which the even one takes part."""
    power, _ = _power(n)
    i = _all(power)
    names = i + i.clamp(max=n - power)      # member i of those that are left is 2 i up to there, then i + rest
    return Round(names, names[i ^ distance], nbytes, 1, summed)


def _fold(n, nbytes, summed=0.0, back=False):
    """Where n is no power of two: odd members of the first pairs hand all they have to even ones, or get it back."""
    rest = n - _power(n)[0]
    if not rest:
        return []
    even = 2 * _all(rest)
    return [Round(even, even + 1, nbytes)] if back else [Round(even + 1, even, nbytes, 1, summed)]


def _tree(n, nbytes, up=False, summed=0.0, blocks=False):
    """A binomial tree with its root at 0: down, or up. Of `blocks` a message has those of all members below the receiver."""
    rounds = []
    for k in reversed(range(_steps(n))):
        parent = _all(n)[::2 << k]
        child = parent + (1 << k)
        parent, child = parent[child < n], child[child < n]
        size = (n - child).clamp(max=1 << k) * (nbytes / n) if blocks else nbytes
        rounds.append(Round(child, parent, size, 1, summed) if up else Round(parent, child, size))
    return rounds[::-1] if up else rounds


def _halving(n, m):
    power, log = _power(n)
    return _fold(n, m, m) + [_pairs(n, power >> k, m / 2 ** k, m / 2 ** k) for k in range(1, log + 1)]


def _doubling(n, m):
    """Of a power of two, or of what is left after folding."""
    power, log = _power(n)
    return [_pairs(n, 1 << k, m * 2 ** k / power) for k in range(log)]


def _ring(n, m, summed=False):
    return [_shift(n, 1, m / n, n - 1, m / n if summed else 0.0)] if n > 1 else []


def _pairwise(n, m, summed=False):
    return [_shift(n, k, m / n, 1, m / n if summed else 0.0) for k in range(1, n)]


def _bruck_gather(n, m):
    return [_shift(n, n - (1 << k), min(1 << k, n - (1 << k)) * m / n) for k in range(_steps(n))]


def _bruck_exchange(n, m):
    return [_shift(n, 1 << k, sum(j >> k & 1 for j in range(n)) * m / n) for k in range(_steps(n))]


ALGORITHMS = {
    "all_reduce": {
        "recursive doubling": lambda n, m: (_fold(n, m, m) + [_pairs(n, 1 << k, m, m) for k in range(_power(n)[1])] + _fold(n, m, back=True)),
        "rabenseifner": lambda n, m: _halving(n, m) + _doubling(n, m) + _fold(n, m, back=True),
        "ring": lambda n, m: _ring(n, m, True) + _ring(n, m),
        "tree": lambda n, m: _tree(n, m, True, m) + _tree(n, m),
    },
    "reduce_scatter": {
        "recursive halving": lambda n, m: _halving(n, m) + _fold(n, m / n, back=True),
        "pairwise": lambda n, m: _pairwise(n, m, True),
        "ring": lambda n, m: _ring(n, m, True),
    },
    "all_gather": {
        "recursive doubling": lambda n, m: _doubling(n, m),     # of powers of two only
        "bruck": _bruck_gather,
        "ring": lambda n, m: _ring(n, m),
    },
    "broadcast": {
        "binomial": lambda n, m: _tree(n, m),
        "scatter and recursive doubling": lambda n, m: _tree(n, m, blocks=True) + _doubling(n, m),      # likewise
        "scatter and ring": lambda n, m: _tree(n, m, blocks=True) + _ring(n, m),
    },
    "reduce": {
        "binomial": lambda n, m: _tree(n, m, True, m),
        "rabenseifner": lambda n, m: _halving(n, m) + _tree(_power(n)[0], m, True, blocks=True),
    },
    "gather": {"binomial": lambda n, m: _tree(n, m, True, blocks=True)},
    "scatter": {"binomial": lambda n, m: _tree(n, m, blocks=True)},
    "all_to_all": {"bruck": _bruck_exchange, "pairwise": lambda n, m: _pairwise(n, m)},
    "barrier": {"dissemination": lambda n, m: [_shift(n, 1 << k, 0) for k in range(_steps(n))]},
}
_POWERS = {("all_gather", "recursive doubling"), ("broadcast", "scatter and recursive doubling")}


def names(op, n):
    """The algorithms that there are for so many members."""
    if op not in ALGORITHMS:
        raise ValueError(f"simulate: there is no model of {op!r}; there are {', '.join(sorted(ALGORITHMS))}, send, recv")
    return [name for name in ALGORITHMS[op] if n & (n - 1) == 0 or (op, name) not in _POWERS]


def choose(op, n, m):
    """The algorithm that MPICH takes by size and number of members."""
    power = n & (n - 1) == 0
    if op == "all_reduce":
        return "recursive doubling" if m <= 2 * KIB or m < n else "rabenseifner"
    if op == "reduce":
        return "binomial" if m <= 2 * KIB or m < n else "rabenseifner"
    if op == "reduce_scatter":
        return "recursive halving" if m < 512 * KIB else "pairwise"
    if op == "all_gather":
        return "ring" if m >= 512 * KIB or (m >= 80 * KIB and not power) else "recursive doubling" if power else "bruck"
    if op == "broadcast":
        if m < 12 * KIB or n < 8:
            return "binomial"
        return "scatter and recursive doubling" if m < 512 * KIB and power else "scatter and ring"
    if op == "all_to_all":
        return "bruck" if m / n <= 256 and n >= 8 else "pairwise"
    return names(op, n)[0]


def _each_to_each(n, nbytes, summed=0.0):
    from tede import cat
    i = _all(n)
    return Round(i.repeat(n - 1), cat([(i + k) % n for k in range(1, n)]), nbytes, 1, summed)


def _exchanged_sums(n, m):
    return [_each_to_each(n, m, n * m)] if m <= 4 * KIB else [_each_to_each(n, m / n, m), _each_to_each(n, m / n)]


EXCHANGES = {
    "all_reduce": _exchanged_sums,
    "reduce_scatter": lambda n, m: [_each_to_each(n, m / n, m)],
    "all_gather": lambda n, m: [_each_to_each(n, m / n)],
    "all_to_all": lambda n, m: [_each_to_each(n, m / n)],
    "barrier": lambda n, m: [_each_to_each(n, 1)],
}


def exchanges(op, n, m, crowded):
    """Whether the engine makes the call an exchange, on one machine; `crowded`: where ranks share cores."""
    if n > 16:
        return False
    part = m / n
    return {"all_reduce": crowded and m <= 128 * KIB, "reduce_scatter": crowded or part >= 64 * KIB, "barrier": crowded, "all_to_all": True,
            "all_gather": part <= 128 * KIB and (crowded or part > 4 * KIB)}.get(op, False)


def rounds(op, algorithm, n, m):
    if algorithm == "exchange" and op in EXCHANGES:
        return EXCHANGES[op](n, m) if n > 1 else []
    if algorithm not in names(op, n):
        raise ValueError(f"simulate: {op} of {n} ranks has no algorithm {algorithm!r}; it has {', '.join(names(op, n))}")
    return ALGORITHMS[op][algorithm](n, m) if n > 1 else []


def formula(op, algorithm, n, m, alpha, beta, gamma=0.0):
    """Seconds by the closed form of Hockney's model, a message taking alpha + beta * bytes, a sum gamma * bytes, on a network in which all members
    send and receive at once. Only powers of two have one where an algorithm halves or doubles."""
    log, share = _steps(n), (n - 1) / n
    if n & (n - 1) and algorithm in ("recursive doubling", "rabenseifner", "recursive halving"):
        raise ValueError(f"simulate: {algorithm} has a closed form for powers of two only")
    ring = (n - 1) * alpha + share * m * beta
    halves = log * alpha + share * m * beta
    return {
        ("all_reduce", "recursive doubling"): log * (alpha + m * beta + m * gamma),
        ("all_reduce", "rabenseifner"): 2 * halves + share * m * gamma,
        ("all_reduce", "ring"): 2 * ring + share * m * gamma,
        ("all_reduce", "tree"): log * (2 * alpha + 2 * m * beta + m * gamma),
        ("reduce_scatter", "recursive halving"): halves + share * m * gamma,
        ("reduce_scatter", "pairwise"): ring + share * m * gamma,
        ("reduce_scatter", "ring"): ring + share * m * gamma,
        ("all_gather", "recursive doubling"): halves,
        ("all_gather", "bruck"): halves,
        ("all_gather", "ring"): ring,
        ("broadcast", "binomial"): log * (alpha + m * beta),
        ("broadcast", "scatter and recursive doubling"): 2 * halves,
        ("broadcast", "scatter and ring"): halves + ring,
        ("reduce", "binomial"): log * (alpha + m * beta + m * gamma),
        ("reduce", "rabenseifner"): 2 * halves + share * m * gamma,
        ("gather", "binomial"): halves,
        ("scatter", "binomial"): halves,
        ("all_to_all", "bruck"): log * (alpha + m / 2 * beta),
        ("all_to_all", "pairwise"): ring,
        ("barrier", "dissemination"): log * alpha,
    }[op, algorithm]
