"""Prints what the build is made of: `core FILE`, `plan FILE` (no loop over elements: compiled with fewer passes), `isa FILE`
(compiled once per instruction-set level), `loop FILE` (those of them that generated loops call), `binding FILE`, and `input FILE`
(what the generator reads); with --tests, the C tests: `plain FILE` and `white FILE` (which include src/)."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONCE_PER_ISA = ('_isa.c', '/convert.c')
# Of the files that check and compose, those that loop over elements themselves or run in every call.
FULL = {f'src/ops/{name}.c' for name in ('reduce/count', 'create/creation', 'reduce/histogram', 'index/advanced', 'iterate/iterator', 'shape/join',
                                         'pointwise/pointwise', 'random/random', 'index/search', 'index/unique')} | {
    'src/layouts/sparse/loops.c', 'src/layouts/quantized/loops.c'}
CORE = 'base', 'device', 'tensor', 'dispatch', 'formula', 'ops', 'region', 'layouts', 'autograd', 'transforms', 'trace', 'libs', 'io', 'optim', 'group', 'kernels'


def names(pattern):
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def kind(name):
    if name.startswith('src/kernels/cpu/'):
        return 'loop' if name.endswith('/runs_isa.c') else 'isa' if name.endswith(ONCE_PER_ISA) else 'core'
    return 'plan' if name.startswith(('src/ops/', 'src/layouts/', 'src/transforms/', 'src/formula/')) and name not in FULL else 'core'


def core():
    return [name for folder in CORE for name in names(f'src/{folder}/**/*.c')]


def hand_written():
    """The files that are compiled once and call operators."""
    return [name for name in core() if kind(name) not in ('isa', 'loop')] + names('python/csrc/*.c')


def main():
    if '--tests' in sys.argv:
        for name in names('tests/c/test_*.c'):
            white = 'kernels/cpu/' in (ROOT / name).read_text()
            print('white' if white else 'plain', name)
        for name in names('tests/c/white/test_*.c'):
            print('white', name)
        return
    for name in core():
        print(kind(name), name)
    for name in names('python/csrc/*.c'):
        print('binding', name)
    for name in names('ops/*.yaml') + names('src/kernels/device/*.ck') + names('codegen/*.py') + ['tools/sources.py']:
        print('input', name)
    for name in [n for folder in CORE for n in names(f'src/{folder}/**/*.h')] + names('python/csrc/*.h'):
        print('header', name)


if __name__ == '__main__':
    main()
