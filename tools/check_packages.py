"""Tries the packages as their users do, out of the tree: `check_packages.py install` and `check_packages.py wheel`.

install: `make install` into a folder; the C and C++ examples built against it by pkg-config and by CMake, the latter once
more after the folder has moved; `make uninstall` leaves nothing.
wheel: a source distribution builds the wheel, which takes at most 8 MB and works in an environment that has no compiler.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 8_000_000
PROGRAMS = ["train_mlp", "operator", "toy", "diagonal", "scaled8", "trace"]

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
a = tede.rand(64, 64, dtype=tede.float64)
assert tede.allclose(tede.linalg.inv(a) @ a, tede.eye(64, dtype=tede.float64), atol=1e-6)
with tempfile.NamedTemporaryFile() as file:
    tede.save(model.state_dict(), file.name)
    model.load_state_dict(tede.load(file.name))
with tede.explain(show=False) as e:
    x + 1
assert e.steps[0].kernel
print("the wheel works:", tede.__version__, "in", tede.__file__)
"""


def run(*command, **options):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def installed(folder):
    prefix, sources = folder / "prefix", folder / "sources"
    run("make", "--no-print-directory", "install", f"PREFIX={prefix}", cwd=ROOT)
    shutil.copytree(ROOT / "examples/c", sources)
    quiet = {"stdout": subprocess.DEVNULL}

    run("make", "-C", sources, f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig", **quiet)
    for name in PROGRAMS:
        run(sources / name, cwd=sources, **quiet)

    def with_cmake(where, build):
        run("cmake", "-S", sources, "-B", build, f"-DCMAKE_PREFIX_PATH={where}", **quiet)
        run("cmake", "--build", build, **quiet)
        for name in ("operator", "gradient"):
            run(build / name, **quiet)

    with_cmake(prefix, folder / "built")
    moved = prefix.rename(folder / "moved")
    with_cmake(moved, folder / "built again")
    moved.rename(prefix)

    run("make", "--no-print-directory", "uninstall", cwd=ROOT)
    left = [str(path) for path in prefix.rglob("*")]
    assert not left, f"uninstall left {left}"


def wheel(folder):
    run(sys.executable, "-c", f"import mesonpy; mesonpy.build_sdist({str(folder)!r})", cwd=ROOT, stdout=subprocess.DEVNULL)
    archive, = folder.glob("tede-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    source, = (folder / "unpacked").iterdir()
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    made, = folder.glob("tede-*.whl")
    print(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB")
    assert made.stat().st_size <= MOST

    venv.create(folder / "clean", with_pip=True)
    python = folder / "clean/bin/python"
    run(python, "-m", "pip", "install", "-q", made)
    bare = {"PATH": str(folder / "clean/bin"), "HOME": str(folder), "LANG": "C.UTF-8"}
    assert not any(shutil.which(name, path=bare["PATH"]) for name in ("cc", "gcc", "clang"))
    run(python, "-c", TRIAL, cwd=folder, env=bare)
    run(python, "-m", "pip", "install", "-q", "--dry-run", f"{made}[all]")
    run(python, "-m", "pip", "uninstall", "-q", "-y", "tede")
    left = list((folder / "clean").glob("lib/python*/site-packages/tede*"))
    assert not left, f"pip uninstall left {left}"


def main():
    kinds = {"install": installed, "wheel": wheel}
    for name in sys.argv[1:] or kinds:
        with tempfile.TemporaryDirectory(prefix="tede-") as folder:
            kinds[name](pathlib.Path(folder).resolve())


if __name__ == "__main__":
    os.environ["PATH"] = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    main()
