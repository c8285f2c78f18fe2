"""OpenCL as a device: the library that comes with tede, on whatever OpenCL device there is (PoCL will do; `make opencl-test` sets it up)."""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from test_c_examples import CC, flags

tede = pytest.importorskip("tede")
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "devices/opencl"


def why_not():
    """Why there is no OpenCL device, or None."""
    try:
        tede.load_device("opencl")
    except RuntimeError as error:
        if "there is no OpenCL device" not in str(error) and "there is no OpenCL loader" not in str(error):
            raise
        return str(error)


@pytest.fixture(scope="module")
def opencl():
    if why_not():
        pytest.skip(why_not())
    return tede.opencl


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env={**os.environ, **environment})


CALLS = [
    lambda x, y: x + y, lambda x, y: x * 2 - y.exp(), lambda x, y: (x > 0) & (y < 1), lambda x, y: x.double().sin(), lambda x, y: 3 - x,
    lambda x, y: x.clone().conj_physical_(),
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
    z.to(tede.complex64) * 2j
    assert tede._C._cpu_fallback_count() == before
    tede.special.airy_ai(z)             # which the dialect can't say
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


def test_programs_are_kept_on_disk(opencl, tmp_path):
    def run():
        return python("import tede; print((tede.ones(3, device='opencl') + 41).tolist())", TEDE_KERNEL_CACHE=str(tmp_path / "a/b"))
    first = run()
    files = list((tmp_path / "a/b").iterdir())
    assert first.stdout == "[42.0, 42.0, 42.0]\n" and files, first.stderr
    for file in files:
        file.write_bytes(file.read_bytes()[:-7])            # one that doesn't fit is built anew
    assert run().stdout == "[42.0, 42.0, 42.0]\n" and len(list((tmp_path / "a/b").iterdir())) == len(files)


def test_a_program_may_end_while_kernels_are_compiled(opencl, tmp_path):
    """PoCL's threads did that while its compiler was taken apart: a cold cache, and work that nobody waits for."""
    done = python("""
        import tede
        tede.load_device("opencl")
        x = tede.rand(4, 4, device="opencl")
        y = [x.sort(), x.exp(), x.median(), x.softmax(0), x.cumsum(0), tede.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic")]
    """, POCL_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_synchronize_waits_for_all_streams(opencl):
    x = tede.rand(600, 600, device="opencl")
    streams = [opencl.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(opencl.current_stream())
        with opencl.stream(stream):
            y = x
            for _ in range(5):
                y = y @ x
    events = [stream.record_event() for stream in streams]
    opencl.synchronize()
    assert all(event.query() for event in events)


def test_the_first_use_loads_it(opencl):
    done = python("""
        import tede
        assert not hasattr(tede, "opencl") and not hasattr(tede.Tensor, "is_opencl")
        x = tede.ones(3, device="opencl")
        assert x.is_opencl and tede.ones(2).opencl().device == tede.device("opencl:0")
        assert tede.load_device("opencl") is tede.opencl and tede.accelerator.current_accelerator().type == "opencl"
    """)
    assert done.returncode == 0, done.stderr


def test_it_is_built_as_a_user_would(opencl, tmp_path):
    if not CC:
        pytest.skip("no C compiler")
    built = tmp_path / "mine.so"
    subprocess.run([CC, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *map(str, FOLDER.glob("*.c")), "-o", str(built), *flags(), "-pthread"],
                   check=True)
    done = python(f"""
        import tede
        tede.load_device({str(built)!r})
        print((tede.ones(3, device="opencl") + 1).tolist(), {str(built)!r} in open("/proc/self/maps").read())
    """)
    assert done.stdout == "[2.0, 2.0, 2.0] True\n", done.stderr


def test_c_programs_load_it_by_name(opencl, tmp_path):
    if not CC:
        pytest.skip("no C compiler")
    (tmp_path / "one.c").write_text(r"""
        #include <stdio.h>
        #include <tede/tede.h>
        #include <tede/device.h>
        int main(void)
        {
            int type = td_device_load("opencl"), again = td_device_load("opencl"), none = td_device_load("nothing");
            printf("%s\n", td_error_message());
            td_error_clear();
            td_tensor *x = td_ones(1, (int64_t[]){3}, TD_F32, (td_device){TD_OPENCL, -1});
            td_tensor *y = td_add_tensor(x, x, td_int(2));
            td_tensor *sum = td_sum(y);
            td_scalar total = {0};
            int good = type == TD_OPENCL && again == type && none == -1 && sum && td_tensor_item(sum, &total) == 0 && total.d == 9;
            td_tensor_release(x), td_tensor_release(y), td_tensor_release(sum);
            return !good;
        }
    """)
    subprocess.run([CC, str(tmp_path / "one.c"), "-o", str(tmp_path / "one"), *flags()], check=True)
    done = subprocess.run([tmp_path / "one"], capture_output=True, text=True)
    assert done.returncode == 0 and "there is no device 'nothing': no file nothing.so in a folder of TEDE_DEVICE_PATH" in done.stdout, done


def test_the_tables_functions(opencl):
    import ctypes

    import device_table
    from tede import config
    table = device_table.of(config.folder("lib") + "/tede/opencl.so")
    here, cpu, n = device_table.Device(3, 0), device_table.Device(0, -1), 1 << 16
    a, b, host = table.alloc(here, n), table.alloc(here, n), table.host_alloc(n)
    s, t = table.stream_new(here, 0), table.stream_new(here, 0)
    event, first, last = table.event_new(here, False), table.event_new(here, True), table.event_new(here, True)
    ctypes.memset(host, 1, n)
    assert table.event_query(here, event) == 1 and table.event_synchronize(here, event) == 0                # never recorded
    assert table.event_record(here, first, s) == 0 and table.fill(here, s, a, 7, n) == 0 and table.event_record(here, event, s) == 0
    assert table.event_wait(here, event, t) == 0 and table.transfer(here, t, here, b, here, a, n, True) == 0
    assert table.transfer(here, t, cpu, host, here, b, n, True) == 0 and table.event_record(here, last, t) == 0
    assert table.event_synchronize(here, last) == 0 and table.event_query(here, event) == 1
    assert ctypes.string_at(host, n) == bytes([7]) * n
    milliseconds, unused, total = ctypes.c_double(-1), ctypes.c_size_t(), ctypes.c_size_t()
    assert table.event_time(here, first, last, ctypes.byref(milliseconds)) == 0 and milliseconds.value >= 0
    assert table.memory_info(0, ctypes.byref(unused), ctypes.byref(total)) == 0 and total.value - unused.value >= 2 * n
    table.free(here, b, n)
    assert table.fill(here, s, b, 0, n) == -1 and "no address of the device's" in device_table.error()
    for e in (event, first, last):
        table.event_free(here, e)
    for x in (s, t):
        table.stream_free(here, x)
    table.free(here, a, n), table.host_free(host, n)


def test_what_the_device_cant_run_is_refused_by_what_it_lacks(opencl):
    import ctypes

    import device_table
    from tede import config
    table, here = device_table.of(config.folder("lib") + "/tede/opencl.so"), device_table.Device(3, 0)
    text = b"__kernel void big(__global int *x) { __local int room[1 << 28]; room[get_local_id(0)] = x[0]; x[1] = room[get_local_id(0) ^ 1]; }"
    program = table.build(here, text, b"-cl-std=CL1.2", ctypes.byref(device_table.Binary()))
    if program:                                 # a compiler may refuse it itself
        assert table.kernel(here, program, b"big") is None
        table.program_free(here, program)
    assert re.search("kernel big needs 1073741824 bytes of local memory, the device has|doesn't compile", device_table.error())
    program = table.build(here, b"__kernel void f(__global int *x) { x[0] = 1; }", b"-cl-std=CL1.2", ctypes.byref(device_table.Binary()))
    assert table.kernel(here, program, b"g") is None and "g failed: CL_INVALID_KERNEL_NAME (-46)" in device_table.error()
    assert table.build(here, b"int f() { return nothing; }", b"", ctypes.byref(device_table.Binary())) is None
    assert "a program doesn't compile" in device_table.error()


def test_what_is_declared_is_what_the_header_says(tmp_path):
    if not CC or not pathlib.Path("/usr/include/CL/cl.h").exists():
        pytest.skip("no compiler, or no CL/cl.h, which is in opencl-headers")
    source = tmp_path / "compare.c"
    source.write_text(f"""
        #define CL_TARGET_OPENCL_VERSION 120
        #include <CL/cl.h>
        #define TEDE_OPENCL_COMPARE
        #include "{FOLDER}/api.h"
        #define NUMBER(name, number) _Static_assert(name == number, #name);
        OPENCL_NUMBERS(NUMBER)
        #define FUNCTION(result, name, arguments) _Static_assert(__builtin_types_compatible_p(__typeof__(name), result arguments), #name);
        OPENCL_FUNCTIONS(FUNCTION)
    """)
    done = subprocess.run([CC, "-fsyntax-only", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_loader_the_error_says_so(tmp_path):
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / name).write_text("no library")
    done = python("""
        import tede
        for use in (lambda: tede.load_device("opencl"), lambda: tede.ones(3, device="opencl")):
            try:
                use()
            except RuntimeError as error:
                print(error)
    """, LD_LIBRARY_PATH=str(tmp_path))
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all("there is no OpenCL loader" in line and "ocl-icd-libopencl1" in line for line in lines), done.stdout + done.stderr


def test_without_a_device_the_error_says_so(opencl, tmp_path):
    done = python("import tede; tede.ones(3, device='opencl')", OCL_ICD_VENDORS=str(tmp_path))
    assert done.returncode == 1 and "RuntimeError: opencl: there is no OpenCL device; on Debian, pocl-opencl-icd is one" in done.stderr


def test_a_device_in_parts_is_several(opencl):
    done = python("""
        import tede
        n = tede.load_device("opencl").device_count()
        if n < 2:
            print("one part")
            raise SystemExit
        x = tede.arange(100000.)
        a, b = x.to("opencl:0"), x.to("opencl:1")
        for _ in range(20):                             # copies between two contexts come after what made their source
            b = (a + 1).to("opencl:1") + 1
            a = b.to("opencl:0")
        assert tede.equal(a.cpu(), x + 40) and tede.equal(b.cpu(), x + 40) and b.device.index == 1
        try:
            a + b
        except RuntimeError as error:
            assert "opencl:0" in str(error) and "opencl:1" in str(error) and "same device" in str(error), error
        else:
            raise AssertionError("two devices in one call")
        x = tede.ones(3, device="opencl:1", requires_grad=True)
        (x.to("opencl:0") * 3).sum().backward()
        assert x.grad.device == x.device and x.grad.tolist() == [3, 3, 3]
    """, TEDE_OPENCL_PARTS="2")
    if done.stdout == "one part\n":
        pytest.skip("the device has one compute unit")
    assert done.returncode == 0, done.stderr
