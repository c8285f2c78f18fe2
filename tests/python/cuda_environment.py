"""The fake CUDA of tests/python/fake_cuda, compiled: as a program, the environment that uses it, for `make cuda-test`."""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def build(folder, *flags):
    """Compiles it into a folder; the environment's variables that make tede use it, and a real NVRTC beside it where there is one."""
    sys.path.insert(0, str(HERE))
    import nvrtc
    library = pathlib.Path(folder) / "libcuda.so.1"
    subprocess.run([CC, "-O1", "-g", "-Wall", "-Wextra", "-Werror", *flags, "-shared", "-fPIC", *map(str, sorted((HERE / "fake_cuda").glob("*.c"))),
                    "-o", str(library), "-ldl", "-lm", "-pthread"], check=True)
    for name in "libnvrtc.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcudnn.so.9", "libcufft.so.11", "libcusolver.so.11", "libnccl.so.2":
        (library.parent / name).symlink_to(library.name)
    return {"TEDE_CUDA_PATH": str(folder), "TEDE_KERNEL_CACHE": "", "FAKE_CUDA_NVRTC": str(nvrtc.find() or "")}
