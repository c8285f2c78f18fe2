"""The tests that need an OpenCL device: `make opencl-test`, or python tools/opencl_test.py [TEST ...].

PoCL, which makes the CPU one, is installed with apt-get by root where APT=1 says so. Where there is no device the reason is printed,
the tests are counted as skipped, and nothing fails."""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "ocl-icd-libopencl1", "pocl-opencl-icd", "opencl-headers"
TESTS = "tests/python/test_opencl.py", "tests/python/test_formula.py"
PROBE = "import tede; print(tede.load_device('opencl').device_count())"


def probe():
    """(how many devices there are, why there are none)."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, cwd="/")
    return (int(done.stdout), "") if done.returncode == 0 else (0, done.stderr.strip().rpartition("\n")[2])


def main():
    count, reason = probe()
    if not count and os.environ.get("APT") == "1" and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", *command], check=True)
        count, reason = probe()
    if count:
        print(f"{count} OpenCL device{'s' * (count > 1)}")
    else:
        print(f"no OpenCL device, what needs one is skipped: {reason}\nDebian's packages: {' '.join(PACKAGES)}")
    tests = sys.argv[1:] or [*TESTS, "-k", "opencl or OpenCL"]
    raise SystemExit(subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
