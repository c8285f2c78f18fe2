"""The tests of a device: `make opencl-test`, `make cuda-test`, or python tools/device_test.py opencl|cuda [TEST ...].

opencl: on what OpenCL device there is. PoCL, which makes the CPU one, is installed with apt-get by root where APT=1 says so. Where there
is no device the reason is printed, the tests are counted as skipped, and nothing fails.
cuda: on the fake driver of tests/python/fake_cuda, which runs kernels on the CPU; NVRTC, which needs no GPU, compiles each of them for
two architectures."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "ocl-icd-libopencl1", "pocl-opencl-icd", "opencl-headers"
PROBE = "import tede; print(tede.load_device('opencl').device_count())"


def probe():
    """(how many devices there are, why there are none)."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, cwd="/")
    return (int(done.stdout), "") if done.returncode == 0 else (0, done.stderr.strip().rpartition("\n")[2])


def find_opencl():
    count, reason = probe()
    if not count and os.environ.get("APT") == "1" and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", *command], check=True)
        count, reason = probe()
    if count:
        print(f"{count} OpenCL device{'s' * (count > 1)}", flush=True)
    else:
        print(f"no OpenCL device, what needs one is skipped: {reason}\nDebian's packages: {' '.join(PACKAGES)}", flush=True)


def pytest(*arguments, **environment):
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-n", "auto", "-p", "no:cacheprovider", *arguments], cwd=ROOT,
                          env={**os.environ, **environment})
    return done.returncode


def main():
    device, *tests = sys.argv[1:]
    if device == "opencl":
        find_opencl()
        raise SystemExit(pytest(*tests) if tests else pytest("tests/python/test_opencl.py", "tests/python/device_kernels")
                         or pytest("tests/python/test_formula.py", "-k", "OpenCL or device_gives"))
    sys.path.insert(0, str(ROOT / "tests/python"))
    import cuda_environment
    import nvrtc
    print(f"NVRTC: {nvrtc.find() or 'none, so that nothing is compiled for a GPU'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**cuda_environment.build(folder), "TEDE_TEST_DEVICE": "cuda", "TEDE_KERNEL_CACHE": folder + "/kernels"}
        raise SystemExit((not tests and pytest("tests/python/test_cuda.py")) or pytest(*tests or ["tests/python/device_kernels"], **environment))


if __name__ == "__main__":
    main()
