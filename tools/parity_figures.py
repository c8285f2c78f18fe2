"""Writes docs/parity.tsv, the parity figures that docs/operators.md shows, from the JSON that parity's runs leave.

    python tools/parity_figures.py s_*.json [--note 'PyTorch 2.13, all samples']

A line per entry of PyTorch's operator database: its name, the dtypes whose results were compared, and for each kind of
check how many passed of how many.  Files may hold an entry's dtypes in parts; later ones replace what earlier ones say of
a dtype.  Entries that no file has keep their lines.  The table is committed, as only a machine with PyTorch and an hour
can make it.
"""
import argparse
import json
import pathlib

KINDS = {'forward': 'forward', 'random forward exact': 'random', 'method': 'variants', 'operator': 'variants',
         'alias': 'variants', 'inplace': 'variants', 'out': 'variants', 'random inplace exact': 'variants',
         'backward': 'gradient', 'random backward': 'gradient', 'gradgrad': 'second', 'random gradgrad': 'second',
         'error type': 'errors', 'error message': 'messages', 'strides': 'strides'}
COLUMNS = list(dict.fromkeys(KINDS.values()))
LETTERS = {'float32': 'f4', 'float64': 'f8', 'float16': 'f2', 'bfloat16': 'b2', 'int64': 'i8', 'int32': 'i4', 'uint8': 'u1',
           'bool': '?', 'complex64': 'c8', 'complex128': 'c16'}


def figures(entry):
    sums, dtypes = {column: [0, 0] for column in COLUMNS}, []
    for name, (passed, done) in entry['checks'].items():
        dtype, _, kind = name.partition(' ')
        if kind in ('forward', 'random forward') and dtype in LETTERS and LETTERS[dtype] not in dtypes:
            dtypes.append(LETTERS[dtype])
        if kind in KINDS:
            total = sums[KINDS[kind]]
            total[0], total[1] = total[0] + passed, total[1] + done
    return dtypes, sums


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('reports', nargs='+', type=pathlib.Path)
    parser.add_argument('--note', default='')
    options = parser.parse_args()
    entries = {}
    for path in options.reports:
        for name, entry in json.loads(path.read_text())['entries'].items():
            if entry['suite'] == 'ops':
                entries.setdefault(name, {**entry, 'checks': {}})['checks'].update(entry['checks'])
    page = pathlib.Path(__file__).parent.parent / 'docs' / 'parity.tsv'
    kept = [line.split('\t') for line in page.read_text().splitlines()[2:]] if page.exists() else []
    rows = {row[0]: row for row in kept}
    for name, entry in entries.items():
        dtypes, sums = figures(entry)
        cells = [f'{passed}/{done}' if done else '' for passed, done in sums.values()]
        rows[name] = [name, ' '.join(dtypes) if entry['present'] else 'absent', *cells]
    totals, lines = {column: [0, 0] for column in COLUMNS}, []
    for _, row in sorted(rows.items()):
        lines.append('\t'.join(row))
        for column, cell in zip(COLUMNS, row[2:]):
            passed, _, done = cell.partition('/')
            totals[column][0] += int(passed or 0)
            totals[column][1] += int(done or 0)
    for column, (passed, done) in totals.items():
        print(f'{column:10} {passed:7} of {done:7}  {passed / max(done, 1):.2%}')
    head = f'# {options.note}\n' + '\t'.join(['entry', 'dtypes', *COLUMNS])
    page.write_text(head + '\n' + '\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
