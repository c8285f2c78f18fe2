"""Runs cppcheck over the hand-written C and fails if it has something to say.

The kernels are left out: bodies that are included once per dtype and GCC's vector types, of which cppcheck parses some, takes
minutes over others, and is wrong about the rest. The compiler's warnings, the sanitizers and the tests are for them.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What it said of these was looked at, each case, and never a fault: hexadecimal constants that it reads as 0 (-0x1p63), bytes seen as
# the elements that they are, `(void)a, (void)b;`, arrays that a loop fills as far as they are read (the compiler's own warning knows
# better), arithmetic right shifts (defined by the compilers); and, once each, a division that a test above it guards, arrays of
# pointers, and a pointer that is replaced before what it points to goes.
ALLOWED = ["incorrectLogicOperator", "invalidPointerCast", "constStatement", "uninitvar", "shiftTooManyBitsSigned",
           "zerodiv:src/ops/create/creation.c", "zerodivcond:src/ops/shape/shape.c",
           "invalidLifetime:src/ops/iterate/iterator.c"]
# Macros of Python.h, which isn't read.
PYTHON = ["Py_RETURN_NONE=return 0", "Py_RETURN_TRUE=return 0", "Py_RETURN_FALSE=return 0", "Py_RETURN_NOTIMPLEMENTED=return 0",
          "Py_BEGIN_ALLOW_THREADS={", "Py_END_ALLOW_THREADS=}"]


def main():
    sources = [str(path.relative_to(ROOT)) for folder in ("src", "devices", "engines", "layouts", "operators", "python/csrc", "examples/c", "tools")
               for path in sorted((ROOT / folder).rglob("*.c")) if "kernels" not in path.parts]
    folder = ROOT / "build" / "cppcheck"         # what it found before, for files that are as they were
    folder.mkdir(parents=True, exist_ok=True)
    command = ["cppcheck", "-j2", "--quiet", "--error-exitcode=1", "--std=c11", "--inline-suppr", "--enable=warning,performance",
               "--check-level=normal", f"--cppcheck-build-dir={folder}", "-Iinclude", "-Isrc", "--suppress=missingInclude",
               "--template={file}:{line}: {severity} {id}: {message}",
               *(f"--suppress={name}" for name in ALLOWED), *(f"-D{macro}" for macro in PYTHON), *sources, *sys.argv[1:]]
    command[0] = str(pathlib.Path(sys.executable).parent / command[0])
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
