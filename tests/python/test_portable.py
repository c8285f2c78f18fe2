"""What only one compiler or processor has stands in src/base/simd.h, and levels of instruction sets in src/base/levels.h."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KNOW = {'src/base/simd.h', 'src/base/levels.h', 'src/base/cpu.c'}
HEADER = re.compile(r'#\s*include\s*<(?:\w*intrin|arm_neon|arm_sve|cpuid)\.h>')
CONDITION = re.compile(r'^\s*#\s*(?:el)?if\w*.*\b__(?:AVX|SSE|SSSE|FMA__|F16C__|BMI|ARM_|x86_64__|aarch64__|clang__)', re.M)


def test_one_header_knows_the_processor_and_the_compiler():
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / 'src').rglob('*.[ch]')}
    assert KNOW <= set(files)
    assert HEADER.search(files['src/base/simd.h']) and CONDITION.search(files['src/base/simd.h'])
    found = [name for name, text in files.items() if name not in KNOW and (HEADER.search(text) or CONDITION.search(text))]
    assert not found, found


@pytest.mark.parametrize(('compiler', 'first', 'last'), [
    ('gcc', 'v2 ALL LIGHT -march=x86-64-v2', 'v4 ALL FULL -march=x86-64-v4 -mprefer-vector-width=512'),
    ('aarch64-linux-gnu-gcc', 'neon ALL FULL -march=armv8-a', 'sve LOOPS FULL -march=armv8.2-a+sve')])
def test_a_compiler_finds_the_levels_of_its_machine(compiler, first, last):
    if not shutil.which(compiler):
        pytest.skip(f'{compiler} is not installed')
    found = subprocess.run([sys.executable, ROOT / 'tools/levels.py', compiler], capture_output=True, text=True, check=True).stdout.split('\n')
    assert (found[0], found[-2]) == (first, last)


def test_an_architecture_without_a_block_has_one_level():
    found = subprocess.run([sys.executable, ROOT / 'tools/levels.py', 'gcc', '-U__x86_64__', '-U__aarch64__'], capture_output=True, text=True, check=True)
    assert found.stdout == 'base ALL FULL\n'
