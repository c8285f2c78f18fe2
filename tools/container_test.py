"""Runs CI in a fresh container: `make container-test`, or python tools/container_test.py [--image IMAGE] [command ...].

What is committed is cloned into a container of Debian with a compiler, make, Python and git, and .ci/run (or another command) runs there, with
podman or docker, whichever is found and works. Without either it says so, and the exit status is 77, as of a test that is skipped.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "git make gcc g++ libc6-dev python3 python3-dev python3-venv ccache luajit gdb"
SKIPPED = 77


def engine():
    """podman or docker, if one answers; else None, and why."""
    reasons = []
    for name in "podman", "docker":
        path = shutil.which(name)
        if not path:
            reasons.append(f"{name} isn't installed")
            continue
        done = subprocess.run([path, "info"], capture_output=True, text=True)
        if done.returncode == 0:
            return path, ""
        reasons.append(f"{name} doesn't answer ({(done.stderr.strip().splitlines() or ['no reason given'])[-1]})")
    return None, "; ".join(reasons)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--image", default="debian:bookworm")
    parser.add_argument("command", nargs="*", default=[])
    options = parser.parse_args()
    path, why = engine()
    if not path:
        print(f"container-test: {why}; not run")
        sys.exit(SKIPPED)
    command = " ".join(options.command) or ".ci/run"
    script = (f"apt-get update -q && apt-get install -qy --no-install-recommends {PACKAGES} ca-certificates && "
              f"git config --global --add safe.directory '*' && git clone -q /source /work && cd /work && {command}")
    sys.exit(subprocess.run([path, "run", "--rm", "--volume", f"{ROOT}:/source:ro", options.image, "bash", "-c", script]).returncode)


if __name__ == "__main__":
    main()
