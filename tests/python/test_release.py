"""tools/release.py and tools/container_test.py: what they would do, and what they refuse."""
import pathlib
import re
import subprocess
import sys

import pytest

import tede

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tools'))
import container_test  # noqa: E402
import release  # noqa: E402


def test_the_version_is_found_in_its_files():
    assert set(release.written().values()) == {tede.__version__} and len(release.written()) == 3


def test_a_changelog_gets_its_version_once():
    text = (ROOT / 'CHANGELOG.md').read_text()
    made = release.changelog(text, '9.0.0', '2030-01-02')
    assert re.search(r'^## Unreleased\n\n## 9.0.0, 2030-01-02\n', made, re.M) and len(made) == len(text) + len('\n## 9.0.0, 2030-01-02\n')
    with pytest.raises(ValueError, match='nothing is unreleased'):
        release.changelog(made, '9.0.1', '2030-01-02')
    with pytest.raises(ValueError, match='is there already'):
        release.changelog(made.replace('## Unreleased\n', '## Unreleased\n\n- A word.\n'), '9.0.0', '')


@pytest.mark.parametrize('version, says', [('1.2', 'is no version'), ('0.0.1', "0.0.1 isn't after"), (tede.__version__, "isn't after")])
def test_what_is_no_later_version_is_refused(version, says):
    done = subprocess.run([sys.executable, ROOT / 'tools/release.py', version, '--check'], capture_output=True, text=True)
    assert done.returncode and says in done.stderr


def test_without_a_container_engine_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(container_test.shutil, 'which', lambda name: None)
    monkeypatch.setattr(sys, 'argv', ['container_test.py'])
    with pytest.raises(SystemExit) as end:
        container_test.main()
    assert end.value.code == 77 and "podman isn't installed; docker isn't installed; not run" in capsys.readouterr().out
