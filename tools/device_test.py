"""The tests of a device: `make opencl-test`, `make cuda-test`, `make sanitize-devices`, `make onednn-test`, or
python tools/device_test.py opencl|cuda|toyc|onednn [TEST ...].

opencl: on what OpenCL device there is. PoCL, which makes the CPU one, is installed with apt-get by root where APT=1 says so. Where there
is no device the reason is printed, the tests are counted as skipped, and nothing fails.
cuda: on the fake driver of tests/python/fake_cuda, which runs kernels on the CPU; NVRTC, which needs no GPU, compiles each of them for
two architectures.
toyc: on the device of examples/c/toy_device.c whose kernels are plain C. They, the device and its memory are under AddressSanitizer and
UndefinedBehaviorSanitizer, tede isn't; the first error of a kernel ends its process.
onednn: the mkldnn layout, whose library is compiled under the same sanitizers in a copy of the package. Where oneDNN isn't installed, and pip
doesn't get it (PIP=1), the tests are counted as skipped."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = "ocl-icd-libopencl1", "pocl-opencl-icd", "opencl-headers"
PACKAGE_OF_ONEDNN = "onednn-cpu-gomp"
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


def sanitized(folder):
    """The environment in which toyc is under the sanitizers; what they say goes to files of the folder."""
    def say(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    flags = say(sys.executable, "-m", "tede.config", "--cflags", "--libs").split()
    say("cc", "-g", "-O1", "-fsanitize=address,undefined", "-DTOY_PROGRAMS", "-shared", "-fPIC", str(ROOT / "examples/c/toy_device.c"),
        "-o", f"{folder}/toyc.so", *flags)
    return {"TEDE_DEVICE_PATH": folder, "TEDE_TEST_DEVICE": "toyc", "TEDE_KERNEL_CACHE": f"{folder}/kernels", "TEDE_NO_CACHE": "1",
            "LD_PRELOAD": say("cc", "-print-file-name=libasan.so"), "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:log_path={folder}/report",
            "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:log_path={folder}/report"}


def pytest(*arguments, **environment):
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-n", "auto", "-p", "no:cacheprovider", *arguments], cwd=ROOT,
                          env={**os.environ, **environment})
    return done.returncode


def find_onednn():
    probe = "import tede; tede.ones(1).to_mkldnn(); print(tede.ops.mkldnn._version())"
    for attempt in range(2):
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd="/")
        if done.returncode == 0:
            print(f"oneDNN {int(done.stdout) // 1000000}.{int(done.stdout) // 1000 % 1000}", flush=True)
            return
        if attempt or os.environ.get("PIP") != "1" or subprocess.run([sys.executable, "-m", "pip", "install", "-q", PACKAGE_OF_ONEDNN]).returncode:
            print(f"no oneDNN, what needs it is skipped: {done.stderr.strip().rpartition(chr(10))[2]}", flush=True)
            return


def sanitized_layout(folder):
    """The environment in which the package is a copy whose onednn.so is under the sanitizers."""
    def say(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    package = say(sys.executable, "-c", "import tede, os; print(os.path.dirname(tede.__file__))")
    shutil.copytree(package, f"{folder}/tede", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    sources = map(str, sorted((ROOT / "layouts/onednn").glob("*.c")))
    say("cc", "-g", "-O1", "-fsanitize=address,undefined", "-shared", "-fPIC", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}/include", *sources,
        "-o", f"{folder}/tede/lib/tede/onednn.so", f"-L{folder}/tede/lib", "-l:libtede.so.0", "-Wl,-rpath,$ORIGIN/..", "-ldl", "-lm", "-lpthread")
    return {"PYTHONPATH": folder, "LD_PRELOAD": say("cc", "-print-file-name=libasan.so"), "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "TEDE_NO_CACHE": "1", "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}


def main():
    device, *tests = sys.argv[1:]
    if device == "onednn":
        find_onednn()
        with tempfile.TemporaryDirectory() as folder:
            raise SystemExit(pytest(*tests or ["tests/python/test_mkldnn.py"]) or pytest(*tests or ["tests/python/test_mkldnn.py"], **sanitized_layout(folder)))
    if device == "opencl":
        find_opencl()
        raise SystemExit(pytest(*tests) if tests else pytest("tests/python/test_opencl.py", "tests/python/device_kernels")
                         or pytest("tests/python/test_formula.py", "-k", "OpenCL or device_gives"))
    if device == "toyc":
        with tempfile.TemporaryDirectory() as folder:
            status = pytest(*tests or ["tests/python/device_kernels", "-k", "not example"], **sanitized(folder))
            for report in sorted(pathlib.Path(folder).glob("report*")):
                print(report.read_text())
            raise SystemExit(status)
    sys.path.insert(0, str(ROOT / "tests/python"))
    import cuda_environment
    import nvrtc
    print(f"NVRTC: {nvrtc.find() or 'none, so that nothing is compiled for a GPU'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**cuda_environment.build(folder), "TEDE_TEST_DEVICE": "cuda", "TEDE_KERNEL_CACHE": folder + "/kernels"}
        raise SystemExit((not tests and pytest("tests/python/test_cuda.py")) or pytest(*tests or ["tests/python/device_kernels"], **environment))


if __name__ == "__main__":
    main()
