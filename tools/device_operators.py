"""Which operators run on devices with programs, and which come to the CPU: python tools/device_operators.py [--left].

pointwise: kernels printed from formulas. kernel: src/kernels/device. composite: made of other operators, views, and what reads no
element. Operators of layouts and those that only the library calls are counted, too. --left lists those that come to the CPU, by name."""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/python")]
import formula_kernels as fk  # noqa: E402
from codegen import device_kernels, entries  # noqa: E402

FLAGS = {name: int(value) for name, value in re.findall(r"TD_OP_(\w+) = (\d+)", (ROOT / "include/tede/dispatch.h").read_text())}
NEUTRAL = sum(FLAGS[name] for name in ("COMPOSITE", "VIEW", "INPLACE_VIEW", "ANY_DEVICE"))


def kind(op, have):
    """How a functional operator runs on a device."""
    described = fk._describe(fk._find(op.full_name.encode())).contents
    name = op.implementation_name if op.kind == "kernel" else op.entry.get("body", op.c)
    if described.flags & FLAGS["POINTWISE"]:
        return "pointwise"
    if op.kind in ("kernel", "native", "composite") and (name in have or "device" in op.entry):
        return "kernel"
    return "composite" if described.flags & NEUTRAL else "left to the CPU"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", action="store_true", help="list the operators that come to the CPU")
    options = parser.parse_args()
    have, found = device_kernels.defined(), {}
    for groups in entries.load(ROOT / "ops").values():
        for group in groups:
            found.setdefault(kind(group[0], have), []).append(group[0].full_name.removeprefix("aten::"))
    for name, operators in sorted(found.items()):
        print(f"{name:16} {len(operators):5}")
    if options.left:
        print(*sorted(found.get("left to the CPU", [])), sep="\n")


if __name__ == "__main__":
    main()
