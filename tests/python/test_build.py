"""What a change makes the build do, by ninja's own record of includes."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
NINJA = shutil.which("ninja") or str(pathlib.Path(sys.executable).parent / "ninja")
ENTRY = """
- func: an_operator_of_a_test(Tensor self) -> Tensor
  kind: pointwise
  promote: to_float
  value: self * exp(self)
  grad: {self: "grad * (self + 1) * exp(self)"}
  doc: For a test.
"""


def generated(folder, entry=""):
    """What the generator writes for the tree's entries, and one more: {name: text}."""
    for path in ROOT.iterdir():         # copies where a resolved link would lead back to the tree
        if path.name in ("codegen", "ops", "tools"):
            shutil.copytree(path, folder / path.name)
        elif not path.name.startswith((".", "build")):
            (folder / path.name).symlink_to(path)
    with open(folder / "ops" / "unary.yaml", "a") as file:
        file.write(entry)
    subprocess.run([sys.executable, "-m", "codegen", "--out", folder / "out"], cwd=folder, check=True)
    subprocess.run([sys.executable, "-m", "codegen", "--header", folder / "out" / "ops.h"], cwd=folder, check=True)
    return {path.name: path.read_text() for path in (folder / "out").iterdir()}


@pytest.mark.skipif(not (BUILD / ".ninja_deps").exists(), reason="the tree isn't built")
def test_a_new_pointwise_entry_recompiles_five_files_of_the_library(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before, after = generated(tmp_path / "a"), generated(tmp_path / "b", ENTRY)
    changed = {name for name in after if after[name] != before.get(name)}
    said = subprocess.run([NINJA, "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    steps = set()
    for block in said.split("\n\n"):
        target = block.partition(":")[0].strip()
        names = {pathlib.PurePath(line.strip()).name for line in block.split("\n")[1:] if ".." not in line}
        if names & changed:
            steps.add(target)
    # Plug-ins take the header of operators as users do, and its committed copy where they were compiled before the generated one was there.
    compiled = sorted(step for step in steps if step.endswith(".o") and not step.startswith(("tests/", "lib/tede/")))
    assert 1 <= len(compiled) <= 5, f"changed: {sorted(changed)}; compiled again: {compiled}"


@pytest.mark.skipif(not (BUILD / "build.ninja").exists() or not shutil.which("ccache"), reason="not built, or there is no ccache")
def test_ccache_is_used_where_it_is_installed():
    assert re.search(r"^ command = .*ccache", (BUILD / "build.ninja").read_text(), re.M)
