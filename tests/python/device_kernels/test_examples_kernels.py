"""The examples train on a device: the GPT with the CPU's losses and no call that comes to the CPU, the digits to their accuracy."""
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
COUNTED = "import runpy, sys, tede; runpy.run_path(sys.argv[0], run_name='__main__'); print('fallbacks', tede._C._cpu_fallback_count())"


def run(folder, name, *arguments):
    """(what it prints, how many calls came to the CPU)."""
    code = f"import sys; sys.argv = {[str(EXAMPLES / name), *arguments]!r}; sys.path.insert(0, {str(EXAMPLES)!r}); " + COUNTED
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text, _, count = done.stdout.rpartition("fallbacks ")
    return text, int(count)


def losses(path):
    return [float(line.split()[1]) for line in path.read_text().splitlines()]


def test_the_gpt_has_the_cpus_losses(device, tmp_path):
    small = ["--steps", "12", "--warmup", "4", "--eval-every", "6", "--eval-windows", "8", "--batch", "4", "--context", "32", "--width", "64",
             "--layers", "2", "--text-limit", "200000", "--bytes", "5"]
    run(tmp_path, "gpt.py", *small, "--log", "cpu.log")
    _, fallbacks = run(tmp_path, "gpt.py", *small, "--log", "device.log", "--device", device)
    assert losses(tmp_path / "device.log") == pytest.approx(losses(tmp_path / "cpu.log"), rel=1e-4)
    assert fallbacks == 0


def test_the_digits_are_learned(device, tmp_path):
    pytest.importorskip("sklearn")
    text, fallbacks = run(tmp_path, "digits.py", "--seeds", "0", "--epochs", "2", "--device", device)
    assert float(text.rpartition("mean accuracy ")[2].split("%")[0]) > 70
    assert fallbacks == 0
