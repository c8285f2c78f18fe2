"""Runs tests/tsan/stress.c against a build of the library with ThreadSanitizer: `make tsan`.

    python tools/tsan.py build-tsan [seconds]

There must be no report; and with a race that the program itself plants there must be one, or nothing was looked at. What
tests/tsan/suppressions names lies in libraries of others."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    build, seconds = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "20"
    common = ["cc", "-fsanitize=thread", "-g", "-O1", "-D_GNU_SOURCE", f"-I{build}/include", f"-I{ROOT}/include"]
    link = [f"-L{build}/lib", "-ltede", f"-Wl,-rpath,{build}/lib", "-lm", "-pthread"]
    with tempfile.TemporaryDirectory() as folder:
        program, device = f"{folder}/stress", f"{folder}/toy_device.so"
        subprocess.run([*common, str(ROOT / "tests/tsan/stress.c"), "-o", program, *link], check=True)
        subprocess.run([*common, "-shared", "-fPIC", str(ROOT / "examples/c/toy_device.c"), "-o", device, *link], check=True)
        options = f"suppressions={ROOT / 'tests/tsan/suppressions'} halt_on_error=0 second_deadlock_stack=1 exitcode=66"
        environment = {**os.environ, "TSAN_OPTIONS": options}
        planted = subprocess.run([program, "3", "-", "plant"], capture_output=True, text=True, env=environment)
        if planted.returncode != 66 or "planted" not in planted.stderr:
            sys.exit(f"the planted race was not found\n{planted.stdout}{planted.stderr[-3000:]}")
        done = subprocess.run([program, seconds, device], capture_output=True, text=True, env=environment)
        reports = done.stderr.count("WARNING: ThreadSanitizer")
        print(f"the planted race was found; {done.stdout.strip()}, {reports} reports")
        if done.returncode or reports:
            sys.exit(done.stderr[:20000])


if __name__ == "__main__":
    main()
