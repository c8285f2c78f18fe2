"""Times what a contributor does: add a pointwise operator with its gradient, build, test it. At most 60 seconds.

It appends an entry to ops/unary.yaml, runs `make build`, checks values, the in-place and out= variants and the gradient in a
new process, and puts everything back as it was.
"""
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 60
ENTRY = """
- func: timed_operator(Tensor self) -> Tensor
  kind: pointwise
  promote: to_float
  value: self * exp(self)
  grad: {self: "grad * (self + 1) * exp(self)"}
  doc: For tools/time_operator.py.
"""
TEST = """
import tede
x = tede.randn(5, dtype=tede.float64, requires_grad=True)
assert tede.allclose(tede.timed_operator(x), x * x.exp())
assert tede.allclose(x.detach().clone().timed_operator_(), x * x.exp())
assert tede.timed_operator(x.detach(), out=tede.empty(5, dtype=tede.float64)).shape == (5,)
assert tede.autograd.gradcheck(tede.timed_operator, x) and tede.autograd.gradgradcheck(tede.timed_operator, x)
"""


def main():
    entries = ROOT / "ops" / "unary.yaml"
    text = entries.read_text()
    steps = []

    def step(name, *command):
        began = time.monotonic()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        steps.append((name, time.monotonic() - began))
    try:
        entries.write_text(text + ENTRY)
        step("build", "make", "build")
        step("test", sys.executable, "-c", TEST)
    finally:
        entries.write_text(text)
        subprocess.run(["make", "build"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    total = sum(seconds for _, seconds in steps)
    print("; ".join(f"{name} {seconds:.1f} s" for name, seconds in steps) + f"; {total:.1f} s of {LIMIT}")
    return total > LIMIT


if __name__ == "__main__":
    sys.exit(main())
