"""Prints the instruction-set levels of src/base/levels.h for the machine that a compiler makes code for, lowest first:
`NAME SCOPE EFFORT FLAGS...`.  Called with the compiler's command."""
import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).resolve().parent.parent / 'src/base/levels.h'


def levels(compiler):
    text = LIST.read_text() + '\n#define LEVEL(name, constant, test, scope, effort, flags, ...) <name scope effort flags>\nTD_ISA_LEVELS(LEVEL)\n'
    made = subprocess.run([*compiler, '-E', '-P', '-DTD_ISA_LEVELS_ONLY', '-x', 'c', '-'], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name, scope, effort, flags in re.findall(r'<(\w+) (\w+) (\w+) "([^"]*)">', made):
        yield f'{name} {scope} {effort} {flags}'.strip()


if __name__ == '__main__':
    print('\n'.join(levels(sys.argv[1:])))
