"""python bench/bench.py [--match REGEX] [--rounds N] [--threads N] [--svg FILE] [--json FILE]

How fast tede is beside PyTorch, and beside what the machine can do.  The two run in processes of their own and take
turns, case by case and round by round, so that other work on the machine slows both; the least time of all rounds
counts, in processor time if there is one thread.  A case's limit is the time in which its inputs can be read once and
its results written once, or its multiplications and additions be done; limits.c measures how fast that is here.
Without PyTorch only times and percentages are printed."""
import argparse
import importlib
import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

# group, name, inputs, expression, bytes that must move, floating-point operations
M, K = 10 ** 6, 10 ** 3
CASES = [
    ('calls', 'add of one', 'x = T.ones(1)', 'x + x', 0, 0),
    ('calls', 'x[0]', 'x = T.ones(10)', 'x[0]', 0, 0),
    ('calls', 'Linear(4, 4)', 'f, x = T.nn.Linear(4, 4), T.ones(4, 4)', 'f(x)', 0, 0),
    ('calls', 'ten adds and backward', 'x = T.ones(3, requires_grad=True)', 'ten(x)', 0, 0),
    ('pointwise', 'add 1e5', 'x, y = T.rand(100000), T.rand(100000)', 'x + y', 1.2 * M, 0),
    ('pointwise', 'exp 1e5', 'x = T.randn(100000)', 'x.exp()', 0.8 * M, 0),
    ('pointwise', 'gelu 1e5', 'x = T.randn(100000)', 'F.gelu(x)', 0.8 * M, 0),
    ('pointwise', 'sin 1e5', 'x = T.randn(100000)', 'x.sin()', 0.8 * M, 0),
    ('pointwise', 'where 1e6', 'x = T.randn(1000000); c = x > 0', 'T.where(c, x, 0.5)', 9 * M, 0),
    ('pointwise', 'add 1e7', 'x, y = T.rand(10**7), T.rand(10**7)', 'x + y', 120 * M, 0),
    ('reduce', 'sum', 'x = T.rand(2048, 1500)', 'x.sum()', 12.3 * M, 0),
    ('reduce', 'var of rows', 'x = T.rand(2048, 1500)', 'x.var(1)', 12.3 * M, 0),
    ('reduce', 'argmax of rows', 'x = T.rand(2048, 1500)', 'x.argmax(1)', 12.3 * M, 0),
    ('reduce', 'softmax', 'x = T.rand(2048, 1500)', 'x.softmax(1)', 24.6 * M, 0),
    ('reduce', 'layer_norm', 'x = T.rand(2048, 1500)', 'F.layer_norm(x, (1500,))', 24.6 * M, 0),
    ('products', '96 cubed', 'a, b = T.rand(96, 96), T.rand(96, 96)', 'a @ b', 0, 2 * 96 ** 3),
    ('products', '900 cubed', 'a, b = T.rand(900, 900), T.rand(900, 900)', 'a @ b', 0, 2 * 900 ** 3),
    ('products', '900 cubed, bfloat16', 'a, b = T.rand(900, 900).bfloat16(), T.rand(900, 900).bfloat16()', 'a @ b', 0,
     2 * 900 ** 3),
    ('products', 'cholesky 400', 'a = T.rand(400, 400); a = a @ a.T + 400 * T.eye(400)', 'T.linalg.cholesky(a)', 0,
     400 ** 3 / 3),
    ('convolution', '3 x 3', 'x, w = T.rand(4, 48, 40, 40), T.rand(48, 48, 3, 3)', 'F.conv2d(x, w, padding=1)', 0,
     2 * 4 * 1600 * 48 * 48 * 9),
    ('convolution', 'depthwise', 'x, w = T.rand(4, 48, 40, 40), T.rand(48, 1, 3, 3)', 'F.conv2d(x, w, padding=1, groups=48)',
     2.46 * M, 0),
    ('convolution', 'max_pool2d', 'x = T.rand(4, 48, 40, 40)', 'F.max_pool2d(x, 2)', 1.54 * M, 0),
    ('layers', 'attention', 'q = T.rand(2, 8, 400, 64)', 'F.scaled_dot_product_attention(q, q, q)', 0,
     4 * 16 * 400 * 400 * 64),
    ('layers', 'cross entropy', 'x, t = T.randn(1000, 6000), T.randint(0, 6000, (1000,))', 'F.cross_entropy(x, t)', 24 * M,
     0),
    ('layers', 'LSTM', 'f, x = T.nn.LSTM(200, 200), T.rand(40, 24, 200)', 'f(x)', 0, 2 * 40 * 24 * 400 * 800),
    ('indices', 'rows', 'x, i = T.rand(50000, 96), T.randint(0, 50000, (30000,))', 'x[i]', 30000 * 776, 0),
    ('indices', 'scatter_add', 'x, i = T.zeros(1000, 96), T.randint(0, 1000, (30000, 1)); i = i.expand(-1, 96); '
     's = T.rand(30000, 96)', 'x.scatter_add(0, i, s)', 11.8 * M, 0),
    ('indices', 'masked_select', 'x = T.randn(1000000); c = x > 0', 'x[c]', 7 * M, 0),
    ('order', 'sort', 'x = T.randn(500000)', 'x.sort()', 8 * M, 0),
    ('order', 'topk', 'x = T.randn(500000)', 'x.topk(50)', 2 * M, 0),
    ('order', 'unique', 'x = T.randint(0, 5000, (500000,))', 'x.unique()', 4 * M, 0),
    ('random', 'randn', '', 'T.randn(1000000)', 4 * M, 0),
    ('random', 'dropout', 'x = T.rand(1000000)', 'F.dropout(x, 0.3)', 8 * M, 0),
    ('training', 'MLP, SGD', 'step = train(T, T.nn.Linear(300, 200), T.nn.ReLU(), T.nn.Linear(200, 20), x=T.rand(50, 300))',
     'step()', 0, 6 * 50 * (300 * 200 + 200 * 20)),
    ('training', 'CNN, SGD', 'step = train(T, T.nn.Conv2d(3, 24, 3), T.nn.ReLU(), T.nn.MaxPool2d(2), T.nn.Flatten(), '
     'T.nn.Linear(24 * 15 * 15, 20), x=T.rand(32, 3, 32, 32))', 'step()', 0,
     6 * 32 * (900 * 24 * 27 + 24 * 225 * 20)),
]


# ---- one library, in a process of its own: a case's number in, the least time of a call out


def ten(x):
    y = x
    for _ in range(10):
        y = y + x
    y.sum().backward()


def train(T, *layers, x):
    model, target = T.nn.Sequential(*layers), T.zeros(len(x), dtype=T.int64)
    optimizer = T.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        T.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
    return step


def serve(library, threads):
    T = importlib.import_module(library)
    T.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    prepared = {}
    for line in sys.stdin:
        number = int(line)
        if number not in prepared:
            names = {'T': T, 'F': T.nn.functional, 'ten': ten, 'train': train}
            exec(CASES[number][2], names)
            names = {**names, 'clock': clock}
            exec(f'def calls(n):\n    start = clock()\n    for _ in range(n):\n        {CASES[number][3]}\n'
                 '    return (clock() - start) / n', names)
            n, spent = 1, 0.0
            names['calls'](1)
            while (spent := names['calls'](n) * n) < 0.005:
                n *= 4
            prepared[number] = names['calls'], max(1, round(n * 0.03 / spent))
        calls, n = prepared[number]
        print(min(calls(n) for _ in range(3)), flush=True)


# ---- both, and the machine


def machine():
    """Bytes per second by the bytes that are in use, and operations per second."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / 'limits'
        subprocess.run(['cc', '-O3', '-march=native', '-ffast-math', '-o', program, HERE / 'limits.c'], check=True)
        rows = [line.split() for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()]
    return [(int(size), float(rate)) for name, size, rate in rows if name == 'triad'], float(rows[-1][2])


def limit(case, limits):
    bandwidth, operations = limits
    rate = next((rate for size, rate in bandwidth if size >= case[4]), bandwidth[-1][1])
    return max(case[4] / rate, case[5] / operations)


def short(seconds):
    unit, factor = next(u for u in (('ns', 1e9), ('µs', 1e6), ('ms', 1e3)) if seconds * u[1] < 1000 or u[0] == 'ms')
    return f'{seconds * factor:.3g} {unit}'


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def measure(libraries, chosen, rounds, threads):
    processes = {name: subprocess.Popen([sys.executable, __file__, '--serve', name, '--threads', str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in libraries}
    times = {}
    for number in chosen:
        for _ in range(rounds):
            for name, process in processes.items():
                print(number, file=process.stdin, flush=True)
                answer = process.stdout.readline()
                if not answer:
                    sys.exit(f'{name} ended in {CASES[number][1]}')
                times[number, name] = min(times.get((number, name), math.inf), float(answer))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    return times


def table(chosen, times, limits, both):
    print('| case | tede |' + (' PyTorch | ratio |' if both else '') + ' of the limit |')
    print('|---|---|' + ('---|---|' if both else '') + '---|')
    for number in chosen:
        case, mine = CASES[number], times[number, 'tede']
        row = f'| {case[0]}: {case[1]} | {short(mine)} |'
        if both:
            row += f' {short(times[number, "torch"])} | {times[number, "torch"] / mine:.2f} |'
        bound = limit(case, limits)
        print(row + (f' {min(100.0, 100 * bound / mine):.0f} % |' if bound else ' |'))
    if both:
        for group in dict.fromkeys(CASES[n][0] for n in chosen):
            of = [times[n, 'torch'] / times[n, 'tede'] for n in chosen if CASES[n][0] == group]
            print(f'{group}: {mean(of):.2f} times as fast as PyTorch, the slowest case {min(of):.2f}')


# ---- the picture


def picture(chosen, times, title):
    """Horizontal bars from 1 (PyTorch's speed) to the ratio, on a logarithmic scale."""
    ratios = [(CASES[n][0], CASES[n][1], times[n, 'torch'] / times[n, 'tede']) for n in chosen]
    most = max(2.0, *(r for _, _, r in ratios)) * 1.3
    least = min(0.7, *(r for _, _, r in ratios)) / 1.05
    left, width, row = 190, 470, 17
    height = row * (len(ratios) + len({g for g, _, _ in ratios})) + 56

    def at(ratio):
        return left + width * math.log(ratio / least) / math.log(most / least)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 20}" height="{height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="#fff"/><text x="10" y="18" fill="#222" font-size="13">{title}</text>']
    for tick in (0.5, 1, 2, 4, 8, 16, 32, 64):
        if least < tick < most:
            out.append(f'<path d="M{at(tick):.1f} 30V{height - 18}" stroke="{"#444" if tick == 1 else "#ddd"}"/>'
                       f'<text x="{at(tick):.1f}" y="{height - 5}" text-anchor="middle" fill="#555">{tick}x</text>')
    y, group = 30, None
    for g, name, ratio in ratios:
        if g != group:
            y, group = y + row, g
            out.append(f'<text x="10" y="{y}" fill="#222" font-weight="bold">{g}</text>')
        y += row
        start, end = sorted((at(1), at(ratio)))
        out.append(f'<text x="{left - 8}" y="{y}" text-anchor="end" fill="#444">{name}</text>'
                   f'<rect x="{start:.1f}" y="{y - 10}" width="{end - start:.1f}" height="11" '
                   f'fill="{"#2a7" if ratio >= 1 else "#c63"}"/>'
                   f'<text x="{max(end, at(1)) + 4:.1f}" y="{y}" fill="#222">{ratio:.{2 if ratio < 2 else 1}f}</text>')
    return '\n'.join([*out, '</svg>\n'])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--match', default='', help='only cases whose group and name match this expression')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--svg', type=pathlib.Path, help='draw the ratios to this file')
    parser.add_argument('--json', type=pathlib.Path, help='write the times to this file')
    parser.add_argument('--serve', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.threads)
    both = importlib.util.find_spec('torch') is not None
    chosen = [n for n, case in enumerate(CASES) if re.search(options.match, f'{case[0]} {case[1]}')]
    before = machine()
    times = measure(['tede', *(['torch'] if both else [])], chosen, options.rounds, options.threads)
    after = machine()       # other work may have been in the way of one of them
    limits = [(size, max(a, b)) for (size, a), (_, b) in zip(before[0], after[0])], max(before[1], after[1])
    print(f'limits of one thread: {limits[1] / 1e9:.0f} GFLOP/s, {limits[0][0][1] / 1e9:.0f} GB/s in the first cache, '
          f'{limits[0][-1][1] / 1e9:.0f} GB/s from memory\n')
    table(chosen, times, limits, both)
    if options.json:
        options.json.write_text(json.dumps([{'group': CASES[n][0], 'case': CASES[n][1], 'library': name, 'seconds': t}
                                            for (n, name), t in times.items()], indent=1))
    if options.svg and both:
        threads = 'one thread' if options.threads == 1 else f'{options.threads} threads'
        options.svg.write_text(picture(chosen, times, f'tede beside PyTorch, {threads}: how many times as fast'))
    return None


if __name__ == '__main__':
    sys.exit(main())
