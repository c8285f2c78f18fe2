"""The commands of the guides and of the README run, in a folder that holds the files which the page shows.

Blocks of Python run in test_docs, as those of all pages; a block after `<!-- file: NAME -->` is a file of that name here."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'(<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```', re.S)
PAGES = ['data.md', 'moving.md', 'step.md', 'c.md']


@pytest.mark.parametrize('page', PAGES)
def test_commands_of_guides_run(page, tmp_path):
    commands = 0
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ['PATH']])
    for _, name, language, text in BLOCK.findall((ROOT / 'docs' / page).read_text()):
        if name:
            (tmp_path / name).write_text(text)
        if language == 'sh':
            for line in text.strip().splitlines():
                commands += 1
                done = subprocess.run(['bash', '-c', line], cwd=tmp_path, env={**os.environ, 'PATH': path, 'OMP_NUM_THREADS': '1'},
                                      capture_output=True, text=True, timeout=300)
                assert done.returncode == 0 and done.stdout + done.stderr + ' '.join(map(str, tmp_path.iterdir())), f'{line}\n{done.stderr}'
    assert commands


def test_no_page_with_commands_is_left_out():
    with_commands = {page.name for page in (ROOT / 'docs').glob('*.md') if '```sh\n' in page.read_text()}
    guides = {'tensors.md', 'autograd.md', 'data.md', 'saving.md', 'moving.md', 'step.md', 'reproducibility.md', 'c.md', 'extending.md'}
    assert with_commands & guides - {'extending.md'} == set(PAGES)          # its commands run in test_installed
    index = (ROOT / 'docs/index.md').read_text()
    assert not [name for name in guides if f'({name})' not in index]
