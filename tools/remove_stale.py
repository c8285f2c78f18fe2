"""Take away what an earlier build installed and the tree no longer has: a module that was moved would be found at both places, and
a folder without modules would be taken for a package."""
import pathlib
import shutil
import sysconfig

there = pathlib.Path(__file__).resolve().parents[1] / "python" / "tede"
installed = pathlib.Path(sysconfig.get_path("platlib")) / "tede"
if installed.resolve() != there:
    for path in [*installed.rglob("*.py")]:
        if not (there / path.relative_to(installed)).exists():
            path.unlink()
    for path in sorted(installed.rglob("__pycache__"), reverse=True):         # the inner ones first
        if not any(path.parent.glob("*.*")):
            shutil.rmtree(path.parent)
