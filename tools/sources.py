"""Prints what the build is made of: `core FILE`, `isa FILE` (compiled once per instruction set), `binding FILE`, and
`input FILE` (what the generator reads)."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONCE_PER_ISA = ('_isa.c', '/convert.c')
CORE = 'base', 'tensor', 'dispatch', 'ops', 'autograd', 'transforms', 'trace', 'libs', 'io', 'kernels/cpu'


def names(pattern):
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


for folder in CORE:
    for name in names(f'src/{folder}/*.c'):
        print('isa' if name.endswith(ONCE_PER_ISA) and 'kernels/cpu' in name else 'core', name)
for name in names('python/csrc/*.c'):
    print('binding', name)
for name in names('ops/*.yaml') + names('codegen/*.py') + ['tools/sources.py']:
    print('input', name)
