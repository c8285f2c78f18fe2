"""Makes a release: `make release VERSION=0.2.0`, or python tools/release.py VERSION [--check].

The version in its three files (a test compares them), the changelog's "Unreleased" under the version and the date,
one commit and a tag on this machine; then the source distribution and a wheel for each Python into dist/, tried as `make packages` does. Nothing
leaves the machine: pushing and uploading are somebody's decision. --check says what it would do and whether that is possible.
"""
import argparse
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where the version is written, and how.
FILES = {"meson.build": r"(project\('tede', 'c', version: ')([\d.]+)(')", "include/tede/library.h": r'(^#define TD_VERSION ")([\d.]+)(")',
         "python/tede/__init__.py": r'(^__version__ = ")([\d.]+)(")'}


def written():
    """{file: version}."""
    return {name: re.search(pattern, (ROOT / name).read_text(), re.M)[2] for name, pattern in FILES.items()}


def changelog(text, version, date):
    """The changelog with what is unreleased under its version, and nothing unreleased; an error if there is nothing or it is there already."""
    head, found, rest = text.partition("\n## Unreleased\n")
    entries = re.split(r"^## ", rest, maxsplit=1, flags=re.M)
    if not found or not entries[0].strip():
        raise ValueError("CHANGELOG.md: nothing is unreleased")
    if re.search(rf"^## {re.escape(version)}\b", text, re.M):
        raise ValueError(f"CHANGELOG.md: {version} is there already")
    return f"{head}\n## Unreleased\n\n## {version}, {date}\n{rest}"


def problems(version):
    """What stands against it, as texts."""
    def number(text):
        return tuple(map(int, text.split(".")))

    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"'{version}' is no version: three numbers with dots between"
        return
    found = written()
    if len(set(found.values())) != 1:
        yield f"the versions differ: {found}"
    if number(version) <= max(map(number, found.values())):
        yield f"{version} isn't after {max(found.values(), key=number)}"
    try:
        changelog((ROOT / "CHANGELOG.md").read_text(), version, "")
    except ValueError as error:
        yield str(error)
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout:
        yield "the tree has changes that aren't committed"
    if subprocess.run(["git", "tag", "--list", f"v{version}"], cwd=ROOT, capture_output=True, text=True).stdout:
        yield f"there is a tag v{version} already"


def run(*command):
    print("+", *command, flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    found = list(problems(options.version))
    if found:
        sys.exit("\n".join(f"release: {problem}" for problem in found))
    if options.check:
        print(f"{options.version} can be released: {', '.join(FILES)} and CHANGELOG.md would change")
        return
    for name, pattern in FILES.items():
        path = ROOT / name
        path.write_text(re.sub(pattern, rf"\g<1>{options.version}\g<3>", path.read_text(), count=1, flags=re.M))
    path = ROOT / "CHANGELOG.md"
    path.write_text(changelog(path.read_text(), options.version, datetime.date.today().isoformat()))
    run("make", "lint", "test")
    run("git", "commit", "-qam", f"Version {options.version}")
    run("git", "tag", "-a", f"v{options.version}", "-m", f"Version {options.version}")
    run("make", "packages", "wheels")
    print(f"v{options.version} is committed and tagged here, its packages are in dist/")


if __name__ == "__main__":
    main()
