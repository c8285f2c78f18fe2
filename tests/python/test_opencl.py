"""OpenCL as a device: devices/opencl, compiled as a user would, on whatever OpenCL device there is (PoCL will do)."""
import ctypes.util
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

tede = pytest.importorskip("tede")
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "devices/opencl/opencl.c"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    if not ctypes.util.find_library("OpenCL") or not pathlib.Path("/usr/include/CL/cl.h").exists() or not shutil.which("cc"):
        pytest.skip("no OpenCL: its headers, loader and a device are Debian's opencl-headers, ocl-icd-opencl-dev and pocl-opencl-icd")
    built = tmp_path_factory.mktemp("opencl") / "opencl_device.so"
    flags = subprocess.run([sys.executable, "-m", "tede.config", "--cflags", "--libs"], capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", str(SOURCE), "-o", str(built), *flags, "-lOpenCL", "-pthread"],
                   check=True)
    return str(built)


@pytest.fixture(scope="module")
def opencl(path):
    if not hasattr(tede, "opencl"):
        try:
            tede.load_device(path)
        except RuntimeError as error:
            if "there is no OpenCL device" not in str(error):
                raise
            pytest.skip(str(error))
    return tede.opencl


CALLS = [
    lambda x, y: x + y, lambda x, y: x * 2 - y.exp(), lambda x, y: (x > 0) & (y < 1), lambda x, y: x.double().sin(), lambda x, y: 3 - x,
    lambda x, y: tede.where(x > 0, x, -x), lambda x, y: x.half() * y.half(), lambda x, y: (x * 10).int() // 3, lambda x, y: x[::2].clone().sub_(1),
    lambda x, y: tede.nn.functional.gelu(x, approximate="tanh"), lambda x, y: tede.addcmul(x, x, y, value=3), lambda x, y: x.t() + x.t(),
    lambda x, y: tede.add(x, y, alpha=2, out=tede.empty(0, device=x.device)), lambda x, y: x.unsqueeze(0) * y.view(-1, 1, 1),
    lambda x, y: (x > 0) + True, lambda x, y: x.to(tede.uint8).bitwise_not(), lambda x, y: x[:, 1:].mul_(y[1:]), lambda x, y: x.flip(0) * 1,
    lambda x, y: x.sum() * x, lambda x, y: x[0, 0] * y, lambda x, y: tede.tensor(2., device="cpu") * y, lambda x, y: x[:0] + y,
    lambda x, y: x.expand(3, 5, 7).contiguous(), lambda x, y: x.t().to(tede.bfloat16), lambda x, y: (x.long() << 40).bitwise_xor(-1),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_elementwise_operators_and_copies_are_the_cpus(opencl, number):
    tede.manual_seed(0)
    x, y = tede.randn(5, 7), tede.randn(7)
    here, there = CALLS[number](x.clone(), y.clone()), CALLS[number](x.to("opencl"), y.to("opencl"))
    assert there.device.type == "opencl" and (there.dtype, there.shape, there.stride()) == (here.dtype, here.shape, here.stride())
    tede.testing.assert_close(there.cpu(), here, rtol=2e-6, atol=1e-6)


def test_they_run_there(opencl):
    x, y = tede.randn(5, 7).to("opencl"), tede.randn(7).to("opencl")
    before = tede._C._cpu_fallback_count()
    z = (x + y).exp().t().contiguous().half().float() * 2
    z[1:, ::2].sub_(y[:1])
    opencl.synchronize()
    assert tede._C._cpu_fallback_count() == before
    z.complex64() if hasattr(z, "complex64") else z.to(tede.complex64) * 2j           # which the dialect can't say
    assert tede._C._cpu_fallback_count() > before


def test_what_has_no_kernel_there_comes_to_the_cpu(opencl):
    x = tede.randn(4, 4)
    tede.testing.assert_close(x.to("opencl").softmax(0).cpu(), x.softmax(0))
    model, twin = tede.nn.Linear(4, 2), tede.nn.Linear(4, 2)
    twin.load_state_dict(model.state_dict())
    model.to("opencl")
    for net, given in ((model, x.to("opencl")), (twin, x)):
        (net(given).tanh() ** 2).sum().backward()
    tede.testing.assert_close(model.weight.grad.cpu(), twin.weight.grad)


def test_programs_are_kept_on_disk(path, tmp_path):
    code = f"""
        import tede
        tede.load_device({path!r})
        print((tede.ones(3, device="opencl") + 41).tolist())
    """
    environment = {**os.environ, "TEDE_KERNEL_CACHE": str(tmp_path / "a/b")}
    run = lambda: subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=environment)     # noqa: E731
    first = run()
    if "there is no OpenCL device" in first.stderr:
        pytest.skip("there is no OpenCL device")
    files = list((tmp_path / "a/b").iterdir())
    assert first.stdout == "[42.0, 42.0, 42.0]\n" and files, first.stderr
    for file in files:
        file.write_bytes(file.read_bytes()[:-7])            # one that doesn't fit is built anew
    assert run().stdout == "[42.0, 42.0, 42.0]\n" and len(list((tmp_path / "a/b").iterdir())) == len(files)
