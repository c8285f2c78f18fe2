"""No operator takes a number that a size can't be: see tools/fuzz_sizes.py, which makes the calls."""
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'fuzz_sizes.py'


def test_huge_integers_and_expanded_operands_give_errors_or_right_geometries():
    made = subprocess.run([sys.executable, str(TOOL)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
