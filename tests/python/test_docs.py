"""The documentation shows code that is there, and its examples run."""
import doctest
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import tede
from tede import config

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / 'docs').glob('*.md'), ROOT / 'README.md', ROOT / 'CONTRIBUTING.md'])
# `commented:` is generated code, too, with comments that the page adds.
SHOWN = re.compile(r'<!-- (generated: |commented: )?([\w./]+) -->\n```\w*\n(.*?)```', re.S)
LINK = re.compile(r'\]\(([^)#\s]+)(?:#[^)]*)?\)')
NAMED = re.compile(r'`((?:src|docs|ops|python|include|codegen|tests|tools|examples|bench)/[\w./*]*)`')      # files, folders, patterns


@pytest.fixture(scope='session')
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp('generated')
    subprocess.run([sys.executable, '-m', 'codegen', '--out', out], cwd=ROOT, check=True)
    return out


def squeezed(text):
    return ' '.join(text.split())


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.name)
def test_code_that_is_shown_is_there(page, generated):
    for made, name, code in SHOWN.findall(page.read_text()):
        source = (generated if made else ROOT) / name
        if made == 'commented: ':
            code = re.sub(r'/\*.*?\*/', '', code, flags=re.S)
        assert squeezed(code) in squeezed(source.read_text()), f'{page.name} shows code that {name} no longer holds:\n{code}'


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.name)
def test_files_that_are_named_exist(page):
    text = page.read_text()
    missing = [name for name in LINK.findall(text) if '://' not in name and not (page.parent / name).exists()]
    missing += [name for name in NAMED.findall(text) if not any(ROOT.glob(name.rstrip('/')))]
    assert not missing


def test_design_and_contributing_list_the_folders_that_there_are():
    design, contributing = (ROOT / 'docs/design.md').read_text(), (ROOT / 'CONTRIBUTING.md').read_text()

    def folders(path):
        return {p.name for p in (ROOT / path).iterdir() if p.is_dir() and any(p.rglob('*.[ch]'))}

    layers = {name.rstrip('/').removeprefix('src/') for name in re.findall(r'^\| `(src/[\w/]+)` \|', design, re.M)}
    assert layers == folders('src') - {'kernels'} | {'kernels/cpu', 'kernels/device'}
    assert set(re.findall(r'`([\w/]+)`', re.search(r'^\| `src/` \|(.*)$', contributing, re.M)[1])) == layers
    for path in 'src/ops', 'src/kernels/cpu':
        table = re.search(rf'^\| `{path}/` \| \|.*?\n\n', design, re.M | re.S)[0]
        assert {name for row in table.splitlines()[2:] if row for name in re.findall(r'`(\w+)`', row.split('|')[1])} == folders(path)


@pytest.mark.parametrize('page', [p for p in PAGES if '```python' in p.read_text()], ids=lambda p: p.name)
def test_python_examples_run(page):
    space = {}
    for comment, block in re.findall(r'(<!-- .*? -->\n)?```python\n(.*?)```', page.read_text(), re.S):
        if not re.match('<!-- (plug-ins|file)', comment):       # test_installed and test_guides run those
            exec(compile(block, str(page), 'exec'), space)


@pytest.mark.parametrize('page', [p for p in PAGES if '```pycon' in p.read_text()], ids=lambda p: p.name)
def test_examples_print_what_the_page_says(page):
    text = '\n'.join(re.findall(r'```pycon\n(.*?)```', page.read_text(), re.S))
    test = doctest.DocTestParser().get_doctest(text, {'tede': tede}, page.name, str(page), 0)
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert test.examples and not said, ''.join(said)


def test_the_page_about_entries_names_every_field_and_its_examples_are_entries():
    import yaml
    from codegen import entries
    page = (ROOT / 'docs/add-an-operator.md').read_text()
    table = page[page.index('| field |'):]
    assert entries.FIELDS <= set(re.findall(r'`(\w+)`', table))
    blocks = [yaml.safe_load(block) for block in re.findall(r'```yaml\n(- func.*?)```', page, re.S)]
    made = {op.schema.name: op for block in blocks for entry in block for op in entries.expand(entry, 'page') if op.variant == 'functional'}
    assert set(made) == {'softsign', 'moving_sum'}
    kernel = made['moving_sum']
    assert kernel.declaration('td_meta_moving_sum', ['td_spec *specs']).removeprefix('td_tensor *').removeprefix('int ') in page
    assert f'int td_cpu_moving_sum({", ".join(kernel.parameters())}, td_tensor *out0)' in page


def test_the_manual_names_every_public_header():
    text = (ROOT / 'docs/c-api.md').read_text()
    assert not [h.name for h in (ROOT / 'include/tede').glob('*.h*') if f'`tede/{h.name}`' not in text and h.name != 'tede.h']


def c_programs():
    for page in PAGES:
        for number, (language, block) in enumerate(re.findall(r'```(c|cpp)\n(.*?)```', page.read_text(), re.S)):
            if 'int main(' in block:
                yield pytest.param(language, block, id=f'{page.name}-{number}')


@pytest.mark.skipif(not shutil.which('cc'), reason='there is no C compiler')
@pytest.mark.parametrize('language, program', list(c_programs()))
def test_c_examples_compile_and_run(language, program, tmp_path, generated):
    compiler = ['cc', '-std=gnu17'] if language == 'c' else ['c++', '-std=c++17', '-pedantic']
    if not shutil.which(compiler[0]):
        pytest.skip('there is no C++ compiler')
    source = tmp_path / f'program.{language}'
    source.write_text(program)
    subprocess.run([*compiler, '-Wall', '-Wextra', '-Werror', source, '-o', tmp_path / 'program', *config.cflags(), *config.libs(), '-lm'],
                   check=True)
    run = subprocess.run([tmp_path / 'program'], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout, run.stderr
