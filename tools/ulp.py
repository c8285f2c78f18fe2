"""python tools/ulp.py [--stride N] [--only NAMES] [--write]

Measures the functions of src/kernels/cpu/math/maths.h at each instruction-set level: largest error in units in the last
place, and speed.  Prints a table, and with --write makes docs/accuracy.md of it.  The work is done by tools/ulp.c,
which is compiled once per level; what the C side has no reference for is compared with mpmath here.  Needs gcc with
libquadmath, mpmath, and a processor with AVX-512 for the last column."""
import argparse
import ctypes
import functools
import math
import pathlib
import random
import subprocess
import tempfile

import mpmath

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEVELS = ['v2', 'v3', 'v4']
FLAGS = ['-std=gnu17', '-O3', '-fno-math-errno', '-fno-trapping-math', '-fopenmp-simd', '-ffp-contract=off', '-fwrapv',
         '-fno-strict-aliasing', '-fvisibility=hidden', '-D_GNU_SOURCE', '-shared', '-fPIC']


class Worst(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ('error', 'x', 'y', 'got', 'want')]


def build(level, folder):
    target = pathlib.Path(folder) / f'ulp_{level}.so'
    more = ['-mprefer-vector-width=512'] if level == 'v4' else []
    sources = [str(ROOT / name) for name in ('tools/ulp.c', 'src/kernels/cpu/loops/runs_isa.c')]
    subprocess.run(['gcc', *FLAGS, f'-march=x86-64-{level}', f'-DTD_ISA={level}', *more, f'-I{ROOT / "src"}', f'-I{ROOT / "include"}',
                    *sources, '-o', str(target), '-lquadmath', '-lm'], check=True)
    library = ctypes.CDLL(str(target))
    library.ulp_name.restype = ctypes.c_char_p
    for name in ('ulp_measure_f32', 'ulp_measure_half', 'ulp_measure_f64'):
        getattr(library, name).restype = Worst
    for name in ('ulp_speed', 'ulp_low', 'ulp_high'):
        getattr(library, name).restype = ctypes.c_double
    return library


def _erfcinv(y):
    """By Newton's method on log(erfc), from the leading term of the asymptotic expansion or from erfinv's series."""
    z = mpmath.sqrt(-mpmath.log(y)) * mpmath.mpf('0.8')
    for _ in range(80):
        e = mpmath.erfc(z)
        step = (mpmath.log(e) - mpmath.log(y)) * e * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z * z)
        z += step
        if abs(step) < mpmath.mpf(10) ** -30 * abs(z):
            break
    return z


def _erfinv(x):
    if abs(x) < 0.5:
        return mpmath.erfinv(x)
    return mpmath.sign(x) * _erfcinv(1 - abs(x))


def _ndtri(p):
    if abs(p - 0.5) < 0.25:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
    return mpmath.sqrt(2) * (-_erfcinv(2 * p) if p < 0.5 else _erfcinv(2 - 2 * p))


REFERENCES = {
    'erfinv': _erfinv,
    'ndtri': _ndtri,
    'erfcx': lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    'log_ndtr': lambda x: mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2) if x < 0
    else mpmath.log1p(-mpmath.erfc(x / mpmath.sqrt(2)) / 2),
    'digamma': mpmath.digamma,
    'i0': lambda x: mpmath.besseli(0, x),
    'i1': lambda x: mpmath.besseli(1, x),
    'i0e': lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x),
    'i1e': lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x),
}


@functools.cache
def by_mpmath(name, x):
    return REFERENCES[name](mpmath.mpf(x))


def measure_by_mpmath(library, index, name, count):
    """Largest error of the float64 function over random arguments in the function's range, most of them near 0."""
    mpmath.mp.prec = 200
    chance = random.Random(1)
    low, high = library.ulp_low(index), library.ulp_high(index)
    xs = [chance.uniform(low, high) for _ in range(count)]
    xs += [math.ldexp(chance.uniform(max(low, -1), min(high, 1)), -chance.randrange(30)) for _ in range(count // 2)]
    array = (ctypes.c_double * len(xs))(*xs)
    out = (ctypes.c_double * len(xs))()
    library.ulp_apply_f64(index, array, array, out, ctypes.c_long(len(xs)))
    worst = (0.0, 0.0)
    for x, got in zip(xs, out):
        want = by_mpmath(name, x)
        unit = mpmath.ldexp(1, max(int(mpmath.frexp(want)[1]) - 53, -1074))
        worst = max(worst, (float(abs(got - want) / unit), x))
    return worst


def figure(error):
    return 'inf' if math.isinf(error) else f'{error:.2f}' if error < 100 else f'{error:.0f}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--stride', type=int, default=8191, help='of the float32 bit patterns; 1 tries all, for hours')
    parser.add_argument('--only', default='', help='names, separated by commas')
    parser.add_argument('--write', action='store_true', help='write docs/accuracy.md')
    options = parser.parse_args()
    total, count = 100000, 1000
    only = set(filter(None, options.only.split(',')))
    with tempfile.TemporaryDirectory() as folder:
        libraries = [build(level, folder) for level in LEVELS]
        rows, speeds, halves = [], [], []
        for index in range(libraries[0].ulp_count()):
            name = libraries[0].ulp_name(index).decode()
            if only and name not in only:
                continue
            f32 = [library.ulp_measure_f32(index, options.stride) for library in libraries]
            if libraries[0].ulp_has_reference(index):
                f64 = [library.ulp_measure_f64(index, ctypes.c_long(total)) for library in libraries]
                f64 = [(w.error, w.x) for w in f64]
            else:
                f64 = [measure_by_mpmath(library, index, name, count) for library in libraries]
            rows.append((name, [w.error for w in f32], [e for e, _ in f64], f32[-1].x, f64[-1][1]))
            if libraries[0].ulp_arity(index) == 1:
                half = [max(library.ulp_measure_half(index, bf16).error for library in libraries) for bf16 in (0, 1)]
                halves.append((name, *half))
            speeds.append((name, *([library.ulp_speed(index, wide) for library in libraries] for wide in (0, 1))))
            print(name, *map(figure, rows[-1][1] + rows[-1][2]), *(f'{s:.2f}' for s in speeds[-1][1] + speeds[-1][2]),
                  f'{f32[-1].x!r}', f'{f64[-1][1]!r}', flush=True)
    if options.write:
        (ROOT / 'docs' / 'accuracy.md').write_text(page(rows, {h[0]: h[1:] for h in halves}, speeds, options.stride))


def page(rows, halves, speeds, stride):
    lines = [f'''# Accuracy and speed of the functions of mathematics

Written by `tools/ulp.py --write`. The largest error met, in units in the last place of the exact result; 0.5 is a
perfectly rounded one. float32 is tried at every {stride}th bit pattern and on an even spread, two-argument functions on
random pairs; float64 on 100,000 random arguments of several kinds, or on some hundreds where only mpmath has the
function (erfinv, erfcx, digamma, the Bessel functions, ndtri, log_ndtr; their float32 is compared with our float64).
All float16 and bfloat16 numbers are tried through float32; their columns give the error of the rounded result. v2, v3
and v4 are the x86-64 levels: SSE4.2 without fused multiplication and addition, AVX2 with it, AVX-512.

| function | f32 v2 | f32 v3 | f32 v4 | f64 v2 | f64 v3 | f64 v4 | float16 | bfloat16 |
|---|---|---|---|---|---|---|---|---|''']
    for name, f32, f64, _, _ in rows:
        half = [f'{h:.3f}' for h in halves[name]] if name in halves else ['', '']
        lines.append(f'| {name} | ' + ' | '.join([*map(figure, f32), *map(figure, f64), *half]) + ' |')
    lines.append('''
logaddexp and logaddexp2 add a logarithm to the larger argument; where that sum nearly vanishes its rounding shows, as
in every implementation that works in one format. lgamma
and digamma near their zeros on the negative axis are known to a small absolute error only (lgamma in float64 is the C
library's).

## Speed

Elements per nanosecond on one thread, data in the first-level cache, arguments from the range where the function is
mostly used. The figures move with the load of the machine; they are for comparing functions and levels. Scalar there:
lgamma, and fmod, remainder and floor_div in float64 and on v2. `runs.h` has forms for runs of these and of sin, cos
and tan that vectorise and are several times faster than the ones below.

| function | f32 v2 | f32 v3 | f32 v4 | f64 v2 | f64 v3 | f64 v4 |
|---|---|---|---|---|---|---|''')
    for name, f32, f64 in speeds:
        lines.append(f'| {name} | ' + ' | '.join(f'{s:.2f}' for s in [*f32, *f64]) + ' |')
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    main()
