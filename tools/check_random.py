"""Compare tede's random generator and fills with PyTorch's, bit for bit.

    python tools/check_random.py [--isa v2|v3|v4|all] [--quick] [--speed]

Builds src/base and the random kernels into a shared library in a temporary folder (--build keeps it elsewhere), loads
it by ctypes and fills arrays of many sizes, dtypes, seeds and parameters beside PyTorch.  After each fill the
generators' states must be equal too.  Exits with 1 when anything differs.
"""
import argparse
import ctypes
import glob
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings

FLAGS = ("-std=gnu17 -O2 -march=x86-64-v2 -D_GNU_SOURCE -fno-math-errno -fno-trapping-math -fopenmp-simd "
         "-ffp-contract=off -fwrapv -fno-strict-aliasing -fPIC -shared -pthread -Wall -Wextra").split()
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
I64, F64, PTR, INT, BOOL = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p, ctypes.c_int, ctypes.c_bool

SIZES = [*range(71), 255, 256, 511, 512, 513, 623, 624, 625, 1000, 1023, 1024, 1025, 1040, 4097, 100003]
QUICK = [0, 1, 2, 15, 16, 17, 31, 33, 48, 70, 625, 1025, 20011]
SEEDS = [0, 1, 42, 2**32 - 1, 2**63 + 12345]


def build(folder):
    path = os.path.join(folder, "check_random.so")
    sources = glob.glob(f"{ROOT}/src/base/*.c") + glob.glob(f"{ROOT}/src/kernels/cpu/random/*.c")
    subprocess.run([os.environ.get("CC", "cc"), *FLAGS, f"-I{ROOT}/include", f"-I{ROOT}/src", "-o", path, *sources,
                    "-lm"], check=True)
    return path


def load(path):
    lib = ctypes.CDLL(path)
    head = [PTR, INT, PTR, I64]
    signatures = {
        "td_fill_uniform": [*head, F64, F64], "td_fill_normal": [*head, F64, F64],
        "td_fill_normal_elementwise": [*head, F64, F64], "td_fill_log_normal": [*head, F64, F64],
        "td_fill_cauchy": [*head, F64, F64], "td_fill_exponential": [*head, F64], "td_fill_geometric": [*head, F64],
        "td_fill_bernoulli": [*head, F64], "td_fill_bernoulli_each": [*head, INT, PTR], "td_fill_dropout": [*head, F64],
        "td_fill_random": head, "td_fill_random_from_to": [*head, I64, I64], "td_fill_random_from": [*head, I64],
        "td_fill_randperm": head, "td_sample_poisson": [*head, PTR], "td_sample_gamma": [*head, PTR],
        "td_sample_binomial": [*head, PTR, PTR], "td_sample_dirichlet": [PTR, INT, PTR, I64, I64, PTR],
        "td_sample_multinomial": [PTR, INT, PTR, I64, I64, PTR, I64, BOOL, BOOL],
        "td_generator_seed": [PTR, ctypes.c_uint64], "td_generator_get_state": [PTR, PTR],
        "td_generator_set_state": [PTR, PTR, ctypes.c_size_t],
    }
    for name, arguments in signatures.items():
        getattr(lib, name).argtypes = arguments
    lib.td_generator_new.restype = PTR
    lib.td_generator_next64.restype = lib.td_generator_initial_seed.restype = ctypes.c_uint64
    lib.td_generator_next32.restype = ctypes.c_uint32
    for name in ("next32", "next64", "initial_seed", "release"):
        getattr(lib, "td_generator_" + name).argtypes = [PTR]
    lib.td_error_message.restype = ctypes.c_char_p
    return lib


class Check:
    def __init__(self, lib, torch):
        self.lib, self.torch, self.bad, self.count = lib, torch, {}, {}
        t = torch
        names = ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 "
                 "complex128").split()
        self.code = {getattr(t, name): i for i, name in enumerate(names)}
        self.g = lib.td_generator_new()
        self.floats = [t.float16, t.bfloat16, t.float32, t.float64]

    def state(self):
        state = self.torch.empty(5056, dtype=self.torch.uint8)
        self.lib.td_generator_get_state(self.g, state.data_ptr())
        return state

    def note(self, name, good, what):
        self.count[name] = self.count.get(name, 0) + 1
        if not good:
            self.bad.setdefault(name, []).append(what)

    def compare(self, name, what, seed, expected, ours, dtype, n):
        """expected(generator) -> tensor; ours(pointer) -> status"""
        t = self.torch
        generator = t.Generator().manual_seed(seed)
        self.lib.td_generator_seed(self.g, seed)
        want = expected(generator)
        out = t.full((n + 4,), 77, dtype=t.uint8).new_full(((n + 4) * want.element_size(),), 77) if n >= 0 else None
        status = ours(out.data_ptr())
        if status:
            return self.note(name, False, f"{what}: {self.lib.td_error_message().decode()}")
        size = n * want.element_size()
        raw = t.empty(0, dtype=t.uint8)
        if n:
            raw = want.reshape(-1).clone(memory_format=t.contiguous_format).view(t.uint8)
        different = (raw != out[:size])
        good = not bool(different.any())
        if not good:
            first = int(different.nonzero()[0]) // want.element_size()
            mine = out[:size].view(dtype)
            count = int((mine.view(t.uint8).reshape(n, -1) != raw.reshape(n, -1)).any(1).sum())
            theirs = want.reshape(-1)[first].item()
            what += f": {count} of {n} differ, first at {first}: {mine[first].item()!r}, PyTorch {theirs!r}"
        elif not bool((out[size:] == 77).all()):
            good, what = False, what + ": wrote past the end"
        elif not t.equal(generator.get_state(), self.state()):
            good, what = False, what + ": another generator state"
        self.note(name, good, what)

    def fill(self, name, method, dtypes, sizes, parameters, seeds, empty=None, elementwise=False):
        t = self.torch
        function = getattr(self.lib, "td_fill_" + name)
        for dtype in dtypes:
            for arguments in parameters:
                for seed in seeds:
                    for n in sizes:
                        def expected(generator):
                            x = t.empty(n, dtype=dtype)
                            if elementwise:      # not contiguous, but its memory order is the order of its elements
                                x = t.empty(2 * n, dtype=dtype)[::2]
                            return getattr(x, method)(*arguments, generator=generator)
                        numbers = [a for a in arguments if a is not None]
                        self.compare(name, f"{method}{arguments} {dtype} n={n} seed={seed}", seed, expected,
                                     lambda p: function(self.g, self.code[dtype], p, n, *numbers), dtype, n)

    def run(self, quick):
        t, lib = self.torch, self.lib
        sizes, seeds = (QUICK, SEEDS[:2]) if quick else (SIZES, SEEDS)
        some = QUICK
        complexes = [t.complex64, t.complex128]
        ints = [t.bool, t.uint8, t.int8, t.int16, t.int32, t.int64]
        inf = math.inf
        self.generator(seeds)
        self.fill("uniform", "uniform_", self.floats, sizes, [(0., 1.), (-2.5, 3.7)], seeds)
        self.fill("uniform", "uniform_", self.floats, some, [(5., 5.), (0., 1e-30), (-65504., 0.), (1000., 1001.),
                                                             (-1e-7, 0.), (-0., 0.), (0.1, 0.3), (-0.05, 0.05)], seeds)
        self.fill("uniform", "uniform_", complexes, some, [(0., 1.), (-2., 3.)], seeds)
        self.fill("normal", "normal_", self.floats, sizes, [(0., 1.), (2.5, 0.02)], seeds)
        self.fill("normal", "normal_", self.floats, some, [(1., 0.), (-1e30, 1e20), (0.1, 3.), (1e-3, 1e-20),
                                                           (0., 1e-40), (0., inf), (inf, 1.)], seeds[:2])
        self.fill("normal", "normal_", complexes, sizes if not quick else some, [(0., 1.), (2., .7)], seeds[:2])
        self.fill("normal_elementwise", "normal_", self.floats, some, [(0., 1.), (2.5, .02)], seeds, elementwise=True)
        self.fill("log_normal", "log_normal_", self.floats, some, [(1., 2.), (-1., .1)], seeds)
        self.fill("cauchy", "cauchy_", self.floats, some, [(0., 1.), (3., .3)], seeds)
        self.fill("exponential", "exponential_", self.floats, some, [(1.,), (3.3,), (1e-3,), (inf,)], seeds)
        self.fill("geometric", "geometric_", [*ints[1:], *self.floats], some, [(.5,), (.01,), (1e-9,), (.9,)], seeds)
        self.fill("bernoulli", "bernoulli_", [*ints, *self.floats], some, [(.5,), (.1,), (1 / 3,), (0.,), (1.,)], seeds)
        self.fill("bernoulli", "bernoulli_", [t.float32], sizes, [(.3,)], seeds)
        self.fill("random", "random_", [*ints, *self.floats], some, [()], seeds)
        everything = [*ints, t.uint16, t.uint32, t.uint64, *self.floats]
        self.fill("random_from_to", "random_", everything, some, [(0, 1), (0, 2), (1, 2)], seeds)
        self.fill("random_from_to", "random_", everything[1:], some, [(0, 100), (3, 127)], seeds)
        self.fill("random_from_to", "random_", [t.int64, t.float64, t.float32, t.bfloat16], some,
                  [(-5, 2**28 - 6), (-5, 2**28 - 5), (-5, 2**28 - 4), (0, 2**31), (0, 2**32), (-2**40, 2**41),
                   (0, 2**63 - 1), (-2**63, 2**63 - 1), (-2**63 + 1, 7), (2**24 + 1, 2**25 + 3), (3, 1000003)], seeds)
        self.fill("random_from_to", "random_", [t.float16], some, [(0, 65504), (2049, 4099), (-4097, 5000)], seeds)
        self.fill("random_from", "random_", [t.int64, t.float64, t.float32, t.bfloat16], some, [(-2**63, None)], seeds)
        self.fill("random_from", "random_", [x for x in everything if x != t.uint64], some,
                  [(0, None), (1, None)], seeds)
        for dtype in [t.uint8, t.int8, t.int16, t.int32, t.int64, *self.floats]:
            for n in sizes:
                if n - 1 > {1: 127, 2: 2048}.get(dtype.itemsize, n):
                    continue
                for seed in seeds[:3]:
                    self.compare("randperm", f"{dtype} n={n} seed={seed}", seed,
                                 lambda g: t.randperm(n, dtype=dtype, generator=g),
                                 lambda p: lib.td_fill_randperm(self.g, self.code[dtype], p, n), dtype, n)
        self.with_operands(some, seeds)
        self.mixed(seeds)

    def generator(self, seeds):
        """States travel both ways; words, seeds and clones agree; sequences of mixed calls stay together."""
        t, lib = self.torch, self.lib
        for seed in seeds:
            generator = t.Generator().manual_seed(seed)
            lib.td_generator_seed(self.g, seed)
            self.note("state", t.equal(generator.get_state(), self.state()), f"fresh, seed {seed}")
            self.note("state", lib.td_generator_initial_seed(self.g) == generator.initial_seed(), "initial seed")
            for count in (1, 3, 622, 623, 624, 625, 1300):
                for _ in range(count):
                    ours = lib.td_generator_next64(self.g)
                theirs = t.empty(count, dtype=t.int64).random_(-2**63, None, generator=generator)[-1].item()
                self.note("words", ours == theirs % 2**64, f"seed {seed} after {count}")
                self.note("state", t.equal(generator.get_state(), self.state()), f"seed {seed} after {count}")
            t.empty(3).normal_(generator=generator)      # leaves a normal number in the cache
            theirs = generator.get_state()
            status = lib.td_generator_set_state(self.g, theirs.data_ptr(), 5056)
            self.note("state", status == 0 and t.equal(theirs, self.state()), f"taken over, seed {seed}")
            back = t.Generator()
            back.set_state(self.state())
            self.note("state", t.equal(t.rand(50, generator=back), t.rand(50, generator=generator)), "handed back")
        zeros = t.zeros(5056, dtype=t.uint8)
        self.note("state", lib.td_generator_set_state(self.g, zeros.data_ptr(), 5056) == -1, "zeros refused")
        self.note("state", lib.td_generator_set_state(self.g, zeros.data_ptr(), 5055) == -1, "short one refused")

    def mixed(self, seeds):
        """One generator through a sequence of calls, odd sizes, caches left over."""
        t, lib = self.torch, self.lib
        for seed in seeds:
            generator = t.Generator().manual_seed(seed)
            lib.td_generator_seed(self.g, seed)
            for step in range(60):
                n = (step * 37 + seed) % 61 + 1
                kind = (step * 7 + seed) % 5
                dtype = [t.float32, t.float64, t.bfloat16][step % 3]
                x, y = t.empty(n, dtype=dtype), t.empty(n, dtype=dtype)
                code, p = self.code[dtype], y.data_ptr()
                if kind == 0:
                    x.normal_(generator=generator)
                    lib.td_fill_normal(self.g, code, p, n, 0, 1)
                elif kind == 1:
                    x.uniform_(generator=generator)
                    lib.td_fill_uniform(self.g, code, p, n, 0, 1)
                elif kind == 2:
                    x.bernoulli_(.25, generator=generator)
                    lib.td_fill_bernoulli(self.g, code, p, n, .25)
                elif kind == 3:
                    x.random_(0, 10, generator=generator)
                    lib.td_fill_random_from_to(self.g, code, p, n, 0, 10)
                else:
                    x.log_normal_(generator=generator)
                    lib.td_fill_log_normal(self.g, code, p, n, 1, 2)
                good = t.equal(x, y) and t.equal(generator.get_state(), self.state())
                self.note("mixed", good, f"seed {seed} step {step} kind {kind}")

    def with_operands(self, sizes, seeds):
        t, lib = self.torch, self.lib
        source = t.Generator().manual_seed(99)
        ints = [t.bool, t.uint8, t.int64]
        for seed in seeds:
            for n in sizes:
                for dtype in self.floats:
                    code = self.code[dtype]
                    p = t.rand(n, dtype=dtype, generator=source)
                    for kind in [*ints, *self.floats]:
                        self.compare("bernoulli_each", f"{kind} from {dtype} n={n} seed={seed}", seed,
                                     lambda g: t.empty(n, dtype=kind).bernoulli_(p, generator=g),
                                     lambda out: lib.td_fill_bernoulli_each(self.g, self.code[kind], out, n, code,
                                                                            p.data_ptr()), kind, n)
                    for scale in (1, 5, 40, 3000):
                        rate = p * scale
                        self.compare("poisson", f"{dtype} n={n} seed={seed} scale={scale}", seed,
                                     lambda g: t.poisson(rate, generator=g),
                                     lambda out: lib.td_sample_poisson(self.g, code, out, n, rate.data_ptr()), dtype, n)
                        if dtype in (t.float32, t.float64):
                            self.compare("gamma", f"{dtype} n={n} seed={seed} scale={scale}", seed,
                                         lambda g: t._standard_gamma(rate, generator=g),
                                         lambda out: lib.td_sample_gamma(self.g, code, out, n, rate.data_ptr()),
                                         dtype, n)
                            count = (rate * 3).floor()
                            self.compare("binomial", f"{dtype} n={n} seed={seed} scale={scale}", seed,
                                         lambda g: t.binomial(count, p, generator=g),
                                         lambda out: lib.td_sample_binomial(self.g, code, out, n, count.data_ptr(),
                                                                            p.data_ptr()), dtype, n)
                    for q in (.1, .5, .2, 1 / 3, .9):
                        def dropped(generator):
                            t.default_generator.set_state(generator.get_state())
                            x = t.nn.functional.dropout(t.ones(n, dtype=dtype), q)
                            generator.set_state(t.default_generator.get_state())
                            return x
                        self.compare("dropout", f"{dtype} n={n} seed={seed} p={q}", seed, dropped,
                                     lambda out: lib.td_fill_dropout(self.g, code, out, n, q), dtype, n)
                    if n == 0:
                        continue
                    if n < 2000:
                        for rows in (1, 7):
                            w = t.rand(rows, n, dtype=dtype, generator=source) + .01
                            w[:, 1::3] = 0
                            for samples, again in ((1, False), (1, True), (n, False), ((n + 1) // 2, False),
                                                   (50, True)):
                                self.compare("multinomial" + (" with replacement" if again else ""),
                                             f"{dtype} {rows}x{n} samples={samples} seed={seed}", seed,
                                             lambda g: t.multinomial(w, samples, again, generator=g),
                                             lambda out: lib.td_sample_multinomial(self.g, code, out, rows, n,
                                                                                   w.data_ptr(), samples, again, False),
                                             t.int64, rows * samples)
                    if dtype in (t.float32, t.float64) and n < 100:
                        w = t.rand(5, n, dtype=dtype, generator=source) * 3 + .01
                        self.compare(f"dirichlet {dtype}", f"5x{n} seed={seed}", seed,
                                     lambda g: t._sample_dirichlet(w, generator=g),
                                     lambda out: lib.td_sample_dirichlet(self.g, code, out, 5, n, w.data_ptr()), dtype,
                                     5 * n)

    def report(self):
        for name, count in self.count.items():
            bad = self.bad.get(name, [])
            print(f"  {name:32} {count - len(bad):6} of {count} equal")
            for what in bad[:5]:
                print("      ", what)
        return not self.bad


def best(function, repeat=15):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def speed(lib, torch, check):
    t, n = torch, 1_000_000
    t.set_num_threads(1)
    unit, half = (0., 1.), (.5,)
    rows = [("rand float32", "uniform", t.float32, "uniform_", unit),
            ("rand float64", "uniform", t.float64, "uniform_", unit),
            ("rand bfloat16", "uniform", t.bfloat16, "uniform_", unit),
            ("randn float32", "normal", t.float32, "normal_", unit),
            ("randn float64", "normal", t.float64, "normal_", unit),
            ("randn bfloat16", "normal", t.bfloat16, "normal_", unit),
            ("bernoulli float32", "bernoulli", t.float32, "bernoulli_", half),
            ("bernoulli bool", "bernoulli", t.bool, "bernoulli_", half),
            ("exponential float32", "exponential", t.float32, "exponential_", (1.,)),
            ("randint(0, 50257) int64", "random_from_to", t.int64, "random_", (0, 50257)),
            ("randint(0, 2**40) int64", "random_from_to", t.int64, "random_", (0, 2**40))]
    print("milliseconds for a million elements, one thread: tede, PyTorch")
    for title, name, dtype, method, arguments in rows:
        x = t.empty(n, dtype=dtype)
        function = getattr(lib, "td_fill_" + name)
        ours = best(lambda: function(check.g, check.code[dtype], x.data_ptr(), n, *arguments))
        theirs = best(lambda: getattr(x, method)(*arguments), 5)
        print(f"  {title:28} {ours:8.3f} {theirs:8.3f}")
    x = t.empty(n, dtype=t.int64)
    ours = best(lambda: lib.td_fill_randperm(check.g, check.code[t.int64], x.data_ptr(), n))
    print(f"  {'randperm int64':28} {ours:8.3f} {best(lambda: t.randperm(n), 5):8.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--isa", default="all", choices=["v2", "v3", "v4", "all"])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and seeds")
    parser.add_argument("--speed", action="store_true", help="time the fills instead")
    parser.add_argument("--build", help="folder for the shared library")
    options = parser.parse_args()
    folder = options.build or tempfile.mkdtemp()
    if options.isa == "all":
        path = build(folder)
        levels = ["v3"] if options.speed else ["v2", "v3"]
        extra = [word for word, wanted in (("--quick", options.quick), ("--speed", options.speed)) if wanted]
        sys.exit(max(subprocess.run([sys.executable, __file__, "--isa", level, "--build", folder, *extra],
                                    env={**os.environ, "CHECK_RANDOM_LIBRARY": path}).returncode for level in levels))
    os.environ["TEDE_CPU"] = options.isa
    lib = load(os.environ.get("CHECK_RANDOM_LIBRARY") or build(folder))
    import torch
    warnings.simplefilter("ignore")      # PyTorch's, about bounds that floating dtypes can't tell apart
    check = Check(lib, torch)
    if options.speed:
        return speed(lib, torch, check)
    print(f"level {options.isa}, PyTorch {torch.__version__}, its level {torch.backends.cpu.get_cpu_capability()}")
    check.run(options.quick)
    sys.exit(0 if check.report() else 1)


if __name__ == "__main__":
    main()
