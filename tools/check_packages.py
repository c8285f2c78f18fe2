"""Tries the packages as their users do, out of the tree: `check_packages.py install source wheel`, or some of these.

install: `make install` into a folder; the C and C++ examples built against it by pkg-config and by CMake, once more after the
folder has moved; plug-ins built against it are loaded in Python, whose library is another file; `make uninstall` leaves nothing.
source: `pip install .` in an empty environment, from a checkout.
wheel: a source distribution builds the wheel, which auditwheel repairs and which works in an empty environment where no compiler
is; plug-ins built against it by its own tede.config and by CMake are loaded, as docs/extending.md says.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from make_wheels import BIN, ROOT, TRIAL, USER, environment, make_wheel, pip, run, source_distribution, try_wheel

PROGRAMS = ["train_mlp", "operator", "toy", "diagonal", "scaled8", "trace"]
QUIET = {"stdout": subprocess.DEVNULL}


def try_plugins(python, folder):
    """What the page about extending does with the examples' libraries, in the folder where they lie."""
    page = (ROOT / "docs/extending.md").read_text()
    code = re.search(r"<!-- plug-ins -->\n```python\n(.*?)```", page, re.S)[1]
    one = "assert len({line.split(None, 5)[-1] for line in open('/proc/self/maps') if 'libtede' in line}) == 1"
    run(python, "-c", f"{code}\n{one}\nprint('plug-ins work in', tede.__file__)", cwd=folder, env=USER)


def with_cmake(sources, build, place):
    cmake = BIN / "cmake"
    run(cmake, "-S", sources, "-B", build, place, **QUIET)
    run(cmake, "--build", build, **QUIET)
    for name in ("operator", "gradient"):
        run(build / name, **QUIET)


def install(folder):
    prefix, sources = folder / "prefix", folder / "sources"
    run("make", "--no-print-directory", "install", f"PREFIX={prefix}", cwd=ROOT)
    shutil.copytree(ROOT / "examples/c", sources)

    def with_make(where):
        run("make", "-B", "-C", sources, f"PKG_CONFIG_PATH={where}/lib/pkgconfig", **QUIET)
        for name in PROGRAMS:
            run(sources / name, *([sources / "toy_device.so"] if name == "toy" else []), cwd=sources, **QUIET)
        try_plugins(sys.executable, sources)

    with_make(prefix)
    with_cmake(sources, folder / "built", f"-DCMAKE_PREFIX_PATH={prefix}")
    moved = prefix.rename(folder / "moved")
    with_make(moved)
    with_cmake(sources, folder / "built again", f"-DCMAKE_PREFIX_PATH={moved}")
    moved.rename(prefix)

    run("make", "--no-print-directory", "uninstall", cwd=ROOT)
    left = [str(path) for path in prefix.rglob("*")]
    assert not left, f"uninstall left {left}"


def source(folder):
    run("git", "clone", "-q", "--depth", "1", f"file://{ROOT}", folder / "tede")
    python = environment(folder / "clean")
    pip(python, "install", "-q", folder / "tede")
    run(python, "-c", TRIAL, cwd=folder, env=USER)
    left = run("git", "status", "--short", cwd=folder / "tede", capture_output=True, text=True).stdout
    assert not left, f"pip left in the checkout:\n{left}"


def wheel(folder):
    made = make_wheel(source_distribution(folder), folder)
    python = try_wheel(made, folder)

    def says(*options):
        return run(python, "-m", "tede.config", *options, capture_output=True, text=True, env=USER).stdout.strip()

    sources = folder / "sources"
    shutil.copytree(ROOT / "examples/c", sources)
    run("make", "-C", sources, f"CONFIG={python} -m tede.config", env=USER, **QUIET)
    try_plugins(python, sources)
    with_cmake(sources, folder / "built", f"-Dtede_DIR={says('--cmakedir')}")
    try_plugins(python, folder / "built")
    with_cmake(sources, folder / "built again", f"-DCMAKE_PREFIX_PATH={says('--prefix')}")
    run("make", "-B", "-C", sources, f"PKG_CONFIG_PATH={says('--pkgconfigdir')}", "libraries", env=USER, **QUIET)
    try_plugins(python, sources)

    pip(python, "install", "-q", "--dry-run", f"{made}[all]")
    pip(python, "uninstall", "-q", "-y", "tede")
    left = list((folder / "clean").glob("lib/python*/site-packages/tede*"))
    assert not left, f"pip uninstall left {left}"


def main():
    kinds = {"install": install, "source": source, "wheel": wheel}
    for name in sys.argv[1:] or kinds:
        with tempfile.TemporaryDirectory(prefix="tede-") as folder:
            kinds[name](pathlib.Path(folder).resolve())


if __name__ == "__main__":
    os.environ["PATH"] = os.pathsep.join([str(BIN), os.environ["PATH"]])
    main()
