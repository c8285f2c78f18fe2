"""docs/add-a-device.md as a newcomer follows it: each listing and each command as it stands, in an empty folder."""
import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_c_examples import CC, flags

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"(?:<!-- (step \d) -->\n)?```(\w*)\n(.*?)```", (ROOT / "docs/add-a-device.md").read_text(), re.S)
TYPED = """
import doctest, sys
test = doctest.DocTestParser().get_doctest(sys.argv[1], {}, "add-a-device", "add-a-device.md", 0)
sys.exit(doctest.DocTestRunner().run(test).failed)
"""


def of(language, begins=""):
    return [text for _, kind, text in BLOCKS if kind == language and text.startswith(begins)]


@pytest.fixture
def newcomer(tmp_path):
    """newcomer(command, *arguments): run it in the folder, with this Python's programs first; what it prints."""
    if not CC:
        pytest.skip("no C compiler")
    flags()
    given = {name: value for name, value in os.environ.items() if name not in ("TEDE_DEVICE_PATH", "TEDE_TEST_DEVICE")}
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**given, "PATH": path, "TEDE": str(ROOT), "TEDE_KERNEL_CACHE": ""})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run


def follow(newcomer, folder, step):
    """The file as it is after this step, the command that compiles it, and what is typed into Python then."""
    (folder / "mine.c").write_text("".join(text for at, kind, text in BLOCKS if kind == "c" and at in ("", f"step {step}")))
    options = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", *(["-Wno-unused-function"] if step == 1 else [])]
    newcomer(CC, *options, "mine.c", *flags()[:1])
    command, = of("sh", "cc ")
    assert newcomer("sh", "-ec", command) == ""
    newcomer(sys.executable, "-c", TYPED, of("", ">>>")[step - 1])


def test_memory_and_copies_are_a_device(newcomer, tmp_path):
    follow(newcomer, tmp_path, 1)


def test_with_programs_it_runs_the_cores_kernels(newcomer, tmp_path):
    follow(newcomer, tmp_path, 2)
    command, = of("sh", "export ")
    assert re.search(r"\d+ passed", newcomer("sh", "-ec", command))


def test_nothing_on_the_page_is_left_out():
    assert len(of("sh")) == len(of("", ">>>")) == 2 and {kind for _, kind, _ in BLOCKS} == {"c", "sh", ""}
    assert {at for at, kind, _ in BLOCKS if kind == "c"} == {"", "step 1", "step 2"}
