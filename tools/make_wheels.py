"""Makes wheels and tries them: `make wheels`, or python tools/make_wheels.py [--out FOLDER] [INTERPRETER ...].

One wheel for each CPython from 3.11 that is found on PATH or among pyenv's (the extension uses more than the limited API, so no
wheel serves several). Each is built from the source distribution, in pip's isolated environment; auditwheel
checks which system libraries it needs and names the oldest manylinux that has them (OpenBLAS is a package of its own, opened when it is first
needed: nothing is copied into the wheel); then it is installed in an empty environment, where a program without a compiler runs."""
import argparse
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OLDEST, MOST = (3, 11), 8_000_000
BIN = pathlib.Path(sys.executable).parent
# What a user's shell has: nothing of the environment in which this runs.
USER = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "MAKE", "MFLAGS"))}
USER["PATH"] = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if pathlib.Path(part) != BIN)

TRIAL = """
import sys, tempfile, tede, tede.safetensors
assert not any(name in sys.modules for name in ("numpy", "torch"))
tede.manual_seed(0)
model = tede.nn.Sequential(tede.nn.Linear(2, 16), tede.nn.Tanh(), tede.nn.Linear(16, 1))
optimizer = tede.optim.Adam(model.parameters(), lr=0.05)
x = tede.rand(256, 2)
y = (x[:, :1] > x[:, 1:]).float()
for _ in range(200):
    optimizer.zero_grad()
    loss = tede.nn.functional.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()
    optimizer.step()
assert loss < 0.1, loss
assert tede.ops.torchvision.nms(tede.rand(3, 4), tede.rand(3), 1.).numel() == 3 and tede.ops._torchaudio.is_align_available()
a = tede.rand(64, 64, dtype=tede.float64)
assert tede.allclose(tede.linalg.inv(a) @ a, tede.eye(64, dtype=tede.float64), atol=1e-6)
with tempfile.NamedTemporaryFile() as file:
    tede.save(model.state_dict(), file.name)
    model.load_state_dict(tede.load(file.name))
for name in "opencl", "cuda":
    try:
        module = tede.load_device(name)
    except RuntimeError as error:           # what it opens isn't there, and it says so
        assert str(error).startswith(name + ":"), error
    else:
        assert module.device_count() > 0
with tede.explain(show=False) as e:
    x + 1
assert e.steps[0].kernel
files = {line.split(None, 5)[-1] for line in open("/proc/self/maps") if "libtede" in line}
assert len(files) == 1, files
print("tede", tede.__version__, "works in", tede.__file__)
"""


def run(*command, **options):
    print("$", *("..." if "\n" in str(part) else part for part in command), flush=True)
    return subprocess.run([str(part) for part in command], check=True, **options)


def environment(folder, python=None):
    """An empty environment; its Python."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        run(python, "-m", "venv", folder, env=USER)
    return folder / "bin/python"


def pip(python, *arguments):
    run(python, "-m", "pip", "--disable-pip-version-check", *arguments, env=USER)


def source_distribution(folder):
    """Made from what is committed; holds just that, less what .gitattributes leaves out."""
    run(sys.executable, "-c", f"import mesonpy; mesonpy.build_sdist({str(folder)!r})", cwd=ROOT, stdout=subprocess.DEVNULL)
    archive, = folder.glob("tede-*.tar.gz")
    with tarfile.open(archive) as file:
        there = {name.partition("/")[2] for name in file.getnames() if file.getmember(name).isfile()}
    listed = run("git", "ls-tree", "-r", "--name-only", "HEAD", cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    wanted = {"PKG-INFO", *listed} - {".gitattributes", ".gitignore", ".ci/run"}
    assert there == wanted, f"missing: {sorted(wanted - there)}, unneeded: {sorted(there - wanted)}"
    print(f"{archive.name}: {len(there)} files, {archive.stat().st_size / 1e6:.2f} MB")
    return archive


def make_wheel(source, folder, python=None):
    """The wheel of a source distribution or folder, repaired and tagged by auditwheel."""
    python = environment(folder / "builder", python)
    began = time.time()
    pip(python, "wheel", "-q", "--no-deps", "-w", folder / "made", source)
    made, = (folder / "made").glob("tede-*.whl")
    took = time.time() - began
    run(BIN / "auditwheel", "repair", "-w", folder, made, env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True)
    wheel, = folder.glob("tede-*.whl")
    assert "-manylinux_" in wheel.name, wheel.name
    check_contents(wheel)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, built in {took:.0f} s")
    return wheel


def check_contents(wheel):
    assert wheel.stat().st_size <= MOST, f"{wheel.name} has {wheel.stat().st_size} bytes"
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    libraries = [name for name in names if ".so" in name and "/_C." not in name]
    folders = [*sorted((ROOT / "devices").iterdir()), ROOT / "layouts/onednn", *sorted((ROOT / "engines").iterdir()), *sorted((ROOT / "operators").glob("*/"))]
    plugins = [f"tede/lib/tede/{path.name}.so" for path in folders]
    assert sorted(libraries) == ["tede/lib/libtede.so", "tede/lib/libtede.so.0", *sorted(plugins)], libraries
    headers = {pathlib.PurePath(name).name for name in names if name.startswith("tede/include/tede/") and not name.endswith("/")}
    assert headers == {path.name for path in (ROOT / "include/tede").glob("*.h*")}
    for needed in ("LICENSE", "tedeConfig.cmake", "tede.pc", "py.typed"):
        assert any(name.endswith("/" + needed) for name in names), f"the wheel has no {needed}"


def try_wheel(wheel, folder, python=None):
    """Installs it in an empty environment, and runs a program where no compiler is; the environment's Python."""
    python = environment(folder / "clean", python)
    pip(python, "install", "-q", wheel)
    bare = {"PATH": str(python.parent), "HOME": str(folder), "LANG": "C.UTF-8"}
    assert not any(shutil.which(name, path=bare["PATH"]) for name in ("cc", "gcc", "clang"))
    run(python, "-c", TRIAL, cwd=folder, env=bare)
    return python


def interpreters():
    """{version: path} of the CPythons that are found, the first of each minor version, with their headers."""
    candidates = [shutil.which(f"python3.{minor}", path=USER["PATH"]) for minor in range(OLDEST[1], 30)]
    candidates += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")))
    found = {}
    for path in filter(None, candidates):
        asked = subprocess.run([path, "-c", "import json, os, platform, sys, sysconfig, venv, ensurepip; print(json.dumps([*sys.version_info[:2], "
                                "platform.python_implementation(), os.path.exists(sysconfig.get_path('include') + '/Python.h')]))"],
                               capture_output=True, text=True, env=USER)
        if asked.returncode:
            continue            # a shim of a version that isn't chosen, or a Python without venv
        major, minor, kind, headers = json.loads(asked.stdout)
        if kind == "CPython" and headers and (major, minor) >= OLDEST:
            found.setdefault((major, minor), path)
    return dict(sorted(found.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="where wheels and the source distribution go (dist/)")
    parser.add_argument("interpreter", nargs="*", help="instead of those that are found")
    options = parser.parse_args()
    chosen = options.interpreter or list(interpreters().values())
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tede-") as folder:
        folder = pathlib.Path(folder).resolve()
        source = source_distribution(folder)
        shutil.copy(source, options.out)
        for number, python in enumerate(chosen):
            place = folder / str(number)
            place.mkdir()
            wheel = make_wheel(source, place, python)
            try_wheel(wheel, place, python)
            shutil.copy(wheel, options.out)
    print(*sorted(path.name for path in options.out.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
