"""The package as a place to build against, and the one libtede of a process."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest
from test_c_examples import CC, ROOT

tede = pytest.importorskip("tede")
from tede import config  # noqa: E402

try:
    LIBRARY = pathlib.Path(config.folder("lib")) / "libtede.so.0"
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)
PLUGIN = """
#include <tede/dispatch.h>
static int twice(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    *results = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_add(arguments[0].tensor, arguments[0].tensor)};
    return results->tensor ? 0 : -1;
}
__attribute__((constructor)) static void loaded(void)
{
    if (!td_op_define("of_a_test::twice(Tensor x) -> Tensor") || td_register_default("of_a_test::twice", twice, NULL))
        return;
}
"""
DEVICE = """
#include <tede/device.h>
static int count(void) { return td_device_count(TD_CPU); }
static void *take(td_device device, size_t n) { (void)device, (void)n; return NULL; }
static void give(td_device device, void *p, size_t n) { (void)device, (void)p, (void)n; }
static int copy(td_device a, void *to, td_device b, const void *from, size_t n)
{
    (void)a, (void)to, (void)b, (void)from, (void)n;
    return -1;
}
TD_EXPORT_DEVICE = {.abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "of_a_test", .count = count, .alloc = take,
                    .free = give, .copy = copy};
"""
pytestmark = pytest.mark.skipif(not CC, reason="no C compiler")


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


def build(folder, source, library, *options):
    """A library of one source text, linked with a file."""
    (folder / "plugin.c").write_text('#include <tede/tede.h>\n' + source)
    subprocess.run([CC, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *config.cflags(), *options, folder / "plugin.c", "-o", folder / "plugin.so",
                    library, f"-Wl,-rpath,{library.parent}"], check=True)
    return folder / "plugin.so"


@pytest.fixture
def another(tmp_path):
    """another(**changes): a copy of the library elsewhere, some texts in it replaced by others as long."""
    def copy(*changes, name="libtede.so.0"):
        data = LIBRARY.read_bytes()
        for old, new in changes:
            assert len(old) == len(new) and old in data
            data = data.replace(old, new)
        path = tmp_path / "elsewhere" / name
        path.parent.mkdir()
        path.write_bytes(data)
        return path
    return copy


def test_the_package_has_the_headers_and_says_where():
    assert tede.get_include() == config.get_include()
    there = {path.name: path.read_bytes() for path in pathlib.Path(tede.get_include(), "tede").glob("*.h*")}
    assert there == {path.name: path.read_bytes() for path in (ROOT / "include/tede").glob("*.h*")}

    def said(*options):
        return subprocess.run([sys.executable, "-m", "tede.config", *options], capture_output=True, text=True, check=True).stdout.split()
    assert said("--cflags") == ["-I" + tede.get_include()] and said("--version") == [tede.__version__]
    assert said("--cflags", "--libs") == config.cflags() + config.libs()
    assert (pathlib.Path(*said("--cmakedir")) / "tedeConfig.cmake").exists() and (pathlib.Path(*said("--pkgconfigdir")) / "tede.pc").exists()
    assert pathlib.Path(*said("--libdir")).parent == pathlib.Path(*said("--includedir")).parent == pathlib.Path(*said("--prefix"))
    assert subprocess.run([sys.executable, "-m", "tede.config"], capture_output=True).returncode == 2


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config_says_the_same():
    asked = subprocess.run(["pkg-config", "--cflags", "--libs", "tede"], capture_output=True, text=True, check=True,
                           env={**os.environ, "PKG_CONFIG_PATH": config.folder("lib/pkgconfig")}).stdout.split()
    assert [re.sub(r"/lib/pkgconfig/\.\./\.\.", "", word) for word in asked] == config.cflags() + config.libs()


def test_the_version_is_the_same_everywhere():
    found = {re.search(pattern, (ROOT / name).read_text())[1] for name, pattern in (
        ("meson.build", r"version: '([\d.]+)'"), ("include/tede/library.h", r'TD_VERSION "([\d.]+)"'),
        ("python/tede/__init__.py", r'__version__ = "([\d.]+)"'))}
    assert found == {tede.__version__}
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()


def test_what_is_linked_with_another_installation_finds_the_library_that_is_loaded(tmp_path, another):
    plugin = build(tmp_path, PLUGIN, another())
    done = python(f"""if True:
        import tede
        tede.ops.load_library({str(plugin)!r})
        assert tede.ops.of_a_test.twice(tede.ones(2)).tolist() == [2, 2]
        files = {{line.split()[-1] for line in open('/proc/self/maps') if 'libtede' in line}}
        assert files == {{{str(LIBRARY.resolve())!r}}}, files""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("load, source", [("ops.load_library", PLUGIN), ("load_device", DEVICE)])
def test_what_is_linked_with_a_library_of_another_name_is_refused(tmp_path, another, load, source):
    """Of another ABI version, say: what it registers would go to a second library."""
    other = another((b"\0libtede.so.0\0", b"\0libtede.so.9\0"), name="libtede.so.9")
    plugin = build(tmp_path, source, other)
    done = python(f"import tede; tede.{load}({str(plugin)!r})")
    assert f"RuntimeError: {plugin} is linked with another libtede, {other}, than the one in use, {LIBRARY.resolve()}" in done.stderr
    assert done.returncode == 1 and "python -m tede.config" in done.stderr


EXTENSION = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <tede/dispatch.h>
#include <tede/library.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plugin", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_plugin(void)
{
    if (!td_op_define("of_a_test::twice(Tensor x) -> Tensor"))
        return PyErr_SetString(PyExc_ImportError, td_error_message()), NULL;
    return PyModule_Create(&definition);
}
"""


@pytest.mark.parametrize("order", ["tede, plugin", "plugin, tede"])
def test_an_extension_with_a_library_of_another_name_is_an_error_naming_both(tmp_path, another, order):
    """Nobody loads it through ours: the second library finds the first one."""
    other = another((b"\0libtede.so.0\0", b"\0libtede.so.9\0"), name="libtede.so.9")
    plugin = build(tmp_path, EXTENSION, other, "-I" + sysconfig.get_path("include"))
    done = python(f"import sys; sys.path.insert(0, {str(plugin.parent)!r}); import {order}")
    first, second = (LIBRARY.resolve(), other) if order.startswith("tede") else (other, LIBRARY.resolve())
    assert done.returncode == 1 and f"ImportError: {second} is a second libtede in this process, which has {first}" in done.stderr
    assert f"tede: warning: {second} is a second libtede" in done.stderr


def test_an_extension_with_the_library_that_is_loaded_is_none(tmp_path, another):
    plugin = build(tmp_path, EXTENSION, another(), "-I" + sysconfig.get_path("include"))
    done = python(f"import sys; sys.path.insert(0, {str(plugin.parent)!r}); import tede, plugin; print(tede.ops.of_a_test.twice)")
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_extension_takes_the_library_of_its_own_package(another):
    other = another((b"td_error_message", b"td_error_massage"))
    done = python("import tede; print(tede.ones(2).sum().item())", LD_LIBRARY_PATH=str(other.parent))
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stderr


def test_a_library_of_another_version_that_was_loaded_before_is_an_import_error(another):
    version = tede.__version__.encode()
    other = another((b"\0" + version + b"\0", b"\0" + version[:-1] + b"9\0"))
    done = python("import tede", LD_PRELOAD=str(other))
    assert done.returncode == 1
    assert re.search(rf"ImportError: tede\._C was compiled for libtede {tede.__version__}, .* has loaded libtede .*9 \({other}\)", done.stderr), done.stderr


@pytest.mark.skipif(not shutil.which("make"), reason="no make")
def test_the_plugins_of_the_examples_work_as_the_page_about_extending_says(tmp_path):
    shutil.copytree(ROOT / "examples/c", tmp_path / "c")
    page = (ROOT / "docs/extending.md").read_text()
    command, code = (re.search(pattern, page, re.S)[1] for pattern in (r"\n(make CONFIG=.*?) +#", r"<!-- plug-ins -->\n```python\n(.*?)```"))
    (tmp_path / "c/page.py").write_text(code)
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(f"set -e; {command}; python page.py", shell=True, cwd=tmp_path / "c", capture_output=True, text=True,
                          env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr


def test_errors_of_constructors_are_errors_of_load_library(tmp_path):
    plugin = build(tmp_path, """
        __attribute__((constructor)) static void loaded(void) { (void)!td_op_define("of_a_test::nonsense("); }
    """, LIBRARY)
    done = python(f"import tede; tede.ops.load_library({str(plugin)!r})")
    assert done.returncode == 1 and re.search(r"Error: .*of_a_test::nonsense", done.stderr), done.stderr
    done = python("import tede; tede.ops.load_library('/no/such.so')")
    assert done.returncode == 1 and re.search(r"OSError: .*/no/such\.so", done.stderr), done.stderr
