"""The code of docs/add-a-device.md: both steps, compiled and used."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from test_c_examples import CC, flags

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"(?:<!-- (step \d) -->\n)?```c\n(.*?)```", (ROOT / "docs/add-a-device.md").read_text(), re.S)


def built(folder, step):
    if not CC:
        pytest.skip("no C compiler")
    (folder / "mine.c").write_text("".join(block for of, block in BLOCKS if of in ("", step)))
    options = ["-Wall", "-Wextra", "-Werror", *(["-Wno-unused-function"] if step == "step 1" else [])]
    subprocess.run([CC, "-shared", "-fPIC", *options, str(folder / "mine.c"), "-o", str(folder / "mine.so"), *flags()], check=True)


def run(folder, code):
    environment = {**os.environ, "TEDE_DEVICE_PATH": str(folder), "TEDE_KERNEL_CACHE": ""}
    done = subprocess.run([sys.executable, "-c", "import tede\n" + textwrap.dedent(code)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


USED = """
    tede.load_device("mine")
    before = tede._C._cpu_fallback_count()
    x, y = tede.arange(6.).view(2, 3), tede.randn(3)
    a, b = x.to("mine").requires_grad_(), y.to("mine")
    z = a + b
    fallbacks = tede._C._cpu_fallback_count() - before
    assert z.device == tede.device("mine:0") and tede.equal(z.detach().cpu(), x + y)
    (z * z).sum().backward()
    tede.testing.assert_close(a.grad.cpu(), 2 * (x + y))
    tede.testing.assert_close(a.softmax(1).detach().cpu(), x.softmax(1))
"""


def test_memory_and_copies_are_a_device(tmp_path):
    built(tmp_path, "step 1")
    run(tmp_path, USED + "    assert fallbacks == 1")


def test_with_programs_it_runs_the_cores_kernels(tmp_path):
    built(tmp_path, "step 2")
    run(tmp_path, USED + "    assert fallbacks == 0")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "tests/python/device_kernels/test_softmax_kernels.py")], check=True,
                   env={**os.environ, "TEDE_DEVICE_PATH": str(tmp_path), "TEDE_TEST_DEVICE": "mine", "TEDE_KERNEL_CACHE": ""}, cwd=ROOT)
