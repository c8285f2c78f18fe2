"""python -m codegen [--out FOLDER] [--list] [--header FILE] [--public | --check]

Writes the generated C files to a folder; --header writes ops.h alone;
--list prints the C files' names, a line each: `main NAME`, `loops NAME` (compiled once
per instruction set), `header NAME`.  --manual FILE writes
the operators' manual pages.  With --public it writes the outputs that are committed; with --check it fails if
those are stale.  A file is touched only when its bytes change."""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
if __package__ in (None, ''):      # run as a file, by the build
    sys.path.insert(0, str(ROOT))
    __package__ = 'codegen'

from codegen import batching, boxing, device_kernels, emit_calls, emit_public, emit_pyi, formula, manual, maths  # noqa: E402
from codegen.emit_c import Chunk  # noqa: E402
from codegen.entries import EntryError, load  # noqa: E402
from tools import sources  # noqa: E402

FORMULAS_PER_CHUNK, OPERATORS_PER_CHUNK = 8, 24


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def formulas(group):
    value = group[0].entry.get('value')
    return len(value) if isinstance(value, dict) else value is not None


def chunks(families, lookup, by_full_name):
    for family, groups in families.items():
        part, count, operators, number = [], 0, 0, 0
        for group in groups:
            if part and (count + formulas(group) > FORMULAS_PER_CHUNK or operators + len(group) > OPERATORS_PER_CHUNK):
                yield Chunk(f'{family}_{number}', part, lookup, by_full_name)
                part, count, operators, number = [], 0, 0, number + 1
            part.append(group)
            count += formulas(group)
            operators += len(group)
        if part:
            yield Chunk(f'{family}_{number}', part, lookup, by_full_name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=pathlib.Path)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--header', type=pathlib.Path)
    parser.add_argument('--public', action='store_true')
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--manual', type=pathlib.Path)
    options = parser.parse_args()
    try:
        families = load(ROOT / 'ops')
    except EntryError as error:
        sys.exit(f'ops/{error}')
    by_name = {}
    for groups in families.values():
        for group in groups:
            for op in group:
                if op.variant == 'functional':
                    by_name.setdefault(op.schema.name, []).append(op.schema)
    lookup = lambda name: by_name.get(name, [])
    operators = {op.full_name: op for groups in families.values() for group in groups for op in group}
    public = {}
    if options.check or options.public:
        public = {ROOT / 'include/tede/ops.h': emit_public.ops_header(families),
                  ROOT / 'docs/operators.md': emit_public.operators_page(families, ROOT),
                  ROOT / 'python/tede/distributed/tensor/_splits.py': emit_public.splits(families),
                  ROOT / 'python/tede/onnx/_entries.py': emit_public.onnx(families),
                  **emit_pyi.committed(ROOT, families)}
    if options.header:
        write(options.header, emit_public.ops_header(families))
        return
    if options.manual:
        write(options.manual, manual.Manual(families, ROOT).json())
        return
    if options.check:
        stale = [str(p.relative_to(ROOT)) for p, text in public.items() if not p.exists() or p.read_text() != text]
        if stale:
            sys.exit(f'stale: {", ".join(stale)}; run make gen')
    if options.public:
        for path, text in public.items():
            write(path, text)
    prototypes = emit_calls.Prototypes(families)
    texts = [('header', *header) for header in emit_calls.headers(ROOT, sources.hand_written(), prototypes)]
    names, found = [], []
    for chunk in chunks(families, lookup, operators):
        names.append(chunk.name)
        if options.list and not options.out:     # names alone: which chunks have loops is known from the entries
            texts.append(('main', f'{chunk.name}.c', ''))
            if any(formulas(group) for group in chunk.groups):
                texts.append(('loops', f'{chunk.name}_loops.c', ''))
            continue
        texts.append(('main', f'{chunk.name}.c', chunk.emit(prototypes)))
        loops = chunk.emit_loops()
        found += [([op.full_name for op in group], chunk.formulas[group[0].c]) for group in chunk.groups if group[0].c in chunk.formulas]
        if loops:
            texts.append(('loops', f'{chunk.name}_loops.c', loops))
    rows = [(op.full_name, op.entry['fold']) for op in operators.values() if 'fold' in op.entry and op.variant == 'functional']
    boxes = boxing.files(families) if options.out else [(f'boxing_{i}.c', '') for i in range(boxing.FILES)]
    texts += [('main', *each) for each in boxes]
    texts.append(('main', 'formulas.c', formula.source(found, rows) if options.out else ''))
    texts.append(('main', 'maths_pieces.c', maths.source() if options.out else ''))
    texts.append(('main', 'device_sources.c', device_kernels.sources() if options.out else ''))
    texts.append(('main', 'device_kernels.c', device_kernels.table(families) if options.out else ''))
    texts.append(('main', 'region_rows.c', batching.rows_table(families, operators) if options.out else ''))
    table = ['/* Generated: where the rows are. */', '#include "dispatch/op.h"', '']
    table += [f'extern td_op *const td_rows_{n}[];\nextern const int td_row_count_{n};' for n in names]
    table += ['', 'const td_op_rows td_op_chunks[] = {', *(f'    {{td_rows_{n}, &td_row_count_{n}}},' for n in names), '};',
              f'const int td_op_chunk_count = {len(names)};', '']
    texts.append(('main', 'table.c', '\n'.join(table)))
    for kind, name, text in texts:
        if options.out:
            write(options.out / name, text)
        if options.list:
            print(kind, name)


if __name__ == '__main__':
    main()
