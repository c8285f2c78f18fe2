"""Sobol' sequences: points that fill a cube evenly, drawn in Gray code's order, scrambled if wanted.

A sequence is `dimension` lists of direction numbers; point n is the XOR of those whose bit is set in n's Gray code, so that a
point differs from the one before it by one of them. The lists follow from Joe and Kuo's table (new-joe-kuo-6) of a polynomial and
first numbers per dimension. Its first 65 dimensions are here; the others are read from SciPy's copy of the table.
"""
import importlib.util
import os

import tede

__all__ = ["SobolEngine"]

# Per dimension from the second on: the polynomial's coefficients as bits, then as many first numbers as its degree.
_TABLE = (
    "3 1; 7 1 3; 11 1 3 1; 13 1 1 1; 19 1 1 3 3; 25 1 3 5 13; 37 1 1 5 5 17; 41 1 1 5 5 5; 47 1 1 7 11 19; 55 1 1 5 1 1; "
    "59 1 1 1 3 11; 61 1 3 5 5 31; 67 1 3 3 9 7 49; 91 1 1 1 15 21 21; 97 1 3 1 13 27 49; 103 1 1 1 15 7 5; 109 1 3 1 15 "
    "13 25; 115 1 1 5 5 19 61; 131 1 3 7 11 23 15 103; 137 1 3 7 13 13 15 69; 143 1 1 3 13 7 35 63; 145 1 3 5 9 1 25 53; "
    "157 1 3 1 13 9 35 107; 167 1 3 1 5 27 61 31; 171 1 1 5 11 19 41 61; 185 1 3 5 3 3 13 69; 191 1 1 7 13 1 19 1; 193 1 "
    "3 7 5 13 19 59; 203 1 1 3 9 25 29 41; 211 1 3 5 13 23 1 55; 213 1 3 7 3 13 59 17; 229 1 3 1 3 5 53 69; 239 1 1 5 5 "
    "23 33 13; 241 1 1 7 7 1 61 123; 247 1 1 7 9 13 61 49; 253 1 3 3 5 3 55 33; 285 1 3 1 15 31 13 49 245; 299 1 3 5 15 "
    "31 59 63 97; 301 1 3 1 11 11 11 77 249; 333 1 3 1 11 27 43 71 9; 351 1 1 7 15 21 11 81 45; 355 1 3 7 3 25 31 65 79; "
    "357 1 3 1 1 19 11 3 205; 361 1 1 5 9 19 21 29 157; 369 1 3 7 11 1 33 89 185; 391 1 3 3 3 15 9 79 71; 397 1 3 7 11 15 "
    "39 119 27; 425 1 1 3 1 11 31 97 225; 451 1 1 1 3 23 43 57 177; 463 1 3 7 7 17 17 37 71; 487 1 3 1 5 27 63 123 213; "
    "501 1 1 3 5 11 43 53 133; 529 1 3 5 5 29 17 47 173 479; 539 1 3 3 11 3 1 109 9 69; 545 1 1 1 5 17 39 23 5 343; 557 1 "
    "3 1 5 25 15 31 103 499; 563 1 1 1 11 11 17 63 105 183; 601 1 1 5 11 9 29 97 231 363; 607 1 1 5 15 19 45 41 7 383; "
    "617 1 3 7 7 31 19 83 137 221; 623 1 1 1 3 23 15 111 223 83; 631 1 1 5 13 31 15 55 25 161; 637 1 1 3 13 25 47 39 87 "
    "257; 647 1 1 1 11 21 53 125 249 293 "
)


def _table(dimension):
    """[(polynomial, first numbers)] of dimensions 2 to `dimension`."""
    rows = [[int(number) for number in row.split()] for row in _TABLE.split(";")]
    if dimension <= len(rows) + 1:
        return [(row[0], row[1:]) for row in rows[:dimension - 1]]
    spec = importlib.util.find_spec("scipy")
    if spec is None:
        raise NotImplementedError(f"SobolEngine: more than {len(rows) + 1} dimensions need SciPy's table of direction numbers")
    import numpy
    with numpy.load(os.path.join(os.path.dirname(spec.origin), "stats", "_sobol_direction_numbers.npz")) as found:
        return list(zip(found["poly"][1:dimension].tolist(), found["vinit"][1:dimension].tolist()))


def _directions(dimension, bits):
    """The direction numbers, (dimension, bits); all dimensions whose polynomials have one degree at a time."""
    numbers = tede.ones(dimension, bits, dtype=tede.int64)
    by_degree = {}
    for row, (polynomial, first) in enumerate(_table(dimension), 1):
        by_degree.setdefault(polynomial.bit_length() - 1, []).append((row, polynomial, first))
    for degree, found in by_degree.items():
        rows, polynomials = (tede.tensor([entry[i] for entry in found]) for i in (0, 1))
        known = [column.clone() for column in tede.tensor([entry[2][:degree] for entry in found]).unbind(1)]
        for j in range(degree, bits):
            number = known[j - degree].clone()
            for k in range(degree):
                number ^= (polynomials >> (degree - 1 - k) & 1) * (known[j - k - 1] << (k + 1))
            known.append(number)
        numbers[rows] = tede.stack(known, 1)
    return numbers << tede.arange(bits - 1, -1, -1)


def _scrambled(numbers, triangles, bits):
    """The numbers, bits from the highest on as vectors, multiplied by each dimension's lower triangle modulo 2."""
    places = tede.arange(bits - 1, -1, -1)
    triangles.diagonal(dim1=-2, dim2=-1).fill_(1)
    vectors = numbers.unsqueeze(-1) >> places & 1
    return ((vectors @ triangles.transpose(-2, -1)) % 2 << places).sum(-1)


def _gray(n):
    return n ^ n >> 1


class SobolEngine:
    """draw(n) gives the next n points, (n, dimension), between 0 and 1; the first is the origin, or a random one if scrambled."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = _directions(dimension, self.MAXBIT)
        self.shift = tede.zeros(dimension, dtype=tede.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2 ** self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = tede.Generator()
            generator.manual_seed(self.seed)
        digits = tede.randint(2, (self.dimension, self.MAXBIT), generator=generator)
        self.shift = digits @ 2 ** tede.arange(self.MAXBIT)
        triangles = tede.randint(2, (self.dimension, self.MAXBIT, self.MAXBIT), generator=generator).tril()
        self.sobolstate = _scrambled(self.sobolstate, triangles, self.MAXBIT)

    def draw(self, n=1, out=None, dtype=None):
        """The next n points."""
        dtype = tede.get_default_dtype() if dtype is None else dtype
        first = self._first_point.to(dtype) if self.num_generated == 0 else None
        points = self._after(n if first is None else n - 1, dtype)
        result = points if first is None else tede.cat([first, points])
        self.num_generated += n
        return result if out is None else out.resize_as_(result).copy_(result)

    def _after(self, n, dtype):
        """The n points that follow the one that `quasi` is."""
        begin = max(self.num_generated - 1, 0)
        changed = [(~number & number + 1).bit_length() - 1 for number in range(begin, begin + n)]
        points = self.sobolstate.t()[changed] if n else self.sobolstate.new_empty(0, self.dimension)
        if n:
            points[0] ^= self.quasi
        step = 1
        while step < n:             # XOR of all before: each pass doubles how many are counted in
            points[step:] = points[step:] ^ points[:-step]
            step *= 2
        if n:
            self.quasi = points[-1].clone()
        return points.to(dtype) * 2. ** -self.MAXBIT

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2**m points; as many as make all points drawn a power of 2."""
        n = 2 ** m
        total = self.num_generated + n
        if total & total - 1:
            raise ValueError(f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                             f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to "
                             "do this, please use 'SobolEngine.draw()' instead.")
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self):
        """Begin again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Leave out n points."""
        begin, end = max(self.num_generated - 1, 0), max(self.num_generated + n - 1, 0)
        changed = _gray(begin) ^ _gray(end)
        for place in range(self.MAXBIT):
            if changed >> place & 1:
                self.quasi ^= self.sobolstate[:, place]
        self.num_generated += n
        return self

    def __repr__(self):
        more = (", scramble=True" if self.scramble else "") + (f", seed={self.seed}" if self.seed is not None else "")
        return f"SobolEngine(dimension={self.dimension}{more})"
