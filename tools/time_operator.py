"""Times what a contributor does: add a pointwise operator with its gradient, build, test it. At most 60 seconds.

It appends an entry to ops/unary.yaml, runs `make build`, checks values, the in-place and out= variants and the gradient in a
new process, and puts everything back as it was. What counts is the processors' time: on a machine that does nothing else, the clock shows
no more.
"""
import pathlib
import resource
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

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def step(name, *command):
        began, before = time.monotonic(), spent()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        steps.append((name, time.monotonic() - began, spent() - before))
    try:
        entries.write_text(text + ENTRY)
        step("build", "make", "build")
        step("test", sys.executable, "-c", TEST)
    finally:
        entries.write_text(text)
        subprocess.run(["make", "build"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    total = sum(busy for _, _, busy in steps)
    for name, seconds, busy in steps:
        print(f"{name}: {seconds:.1f} s, of which the processors worked {busy:.1f}")
    print(f"together {total:.1f} of {LIMIT} s")
    return total > LIMIT


if __name__ == "__main__":
    sys.exit(main())
