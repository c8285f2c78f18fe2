"""Where C programs, devices, layouts, dtypes and operators find the library and the headers of this package.

    cc -shared -fPIC device.c -o device.so $(python -m tede.config --cflags --libs)
    cmake -S . -B build -Dtede_DIR=$(python -m tede.config --cmakedir)

The options are pkg-config's; the package's folder is a prefix with ``include/`` and ``lib/``."""
import os
import shlex
import sys


def folder(name=""):
    """The path of a folder of the prefix, such as ``lib``; FileNotFoundError where the package was installed without it."""
    prefix = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(prefix, name) if name else prefix
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path} is not there: an editable installation has neither headers nor a folder for the library; "
                                "use `pip install .` instead")
    return path


def get_include():
    """The folder to hand to a C compiler by ``-I``: it holds ``tede/tede.h``.

    >>> tede.get_include().endswith("include")
    True
    """
    return folder("include")


def cflags():
    """The compiler's arguments, as a list."""
    return ["-I" + get_include()]


def libs():
    """The linker's arguments, as a list. What is linked so finds the library in this folder, or that which is loaded already."""
    return ["-L" + folder("lib"), "-ltede", "-Wl,-rpath," + folder("lib")]


def _version():
    import tede
    return tede.__version__


_OPTIONS = {
    "--version": (lambda: [_version()], "the version"),
    "--cflags": (cflags, "arguments for the compiler"),
    "--libs": (libs, "arguments for the linker"),
    "--includedir": (lambda: [get_include()], "the folder of headers"),
    "--libdir": (lambda: [folder("lib")], "the folder of the library"),
    "--prefix": (lambda: [folder()], "the folder of both, for CMAKE_PREFIX_PATH"),
    "--cmakedir": (lambda: [folder("lib/cmake/tede")], "the folder of tedeConfig.cmake, for tede_DIR"),
    "--pkgconfigdir": (lambda: [folder("lib/pkgconfig")], "the folder of tede.pc, for PKG_CONFIG_PATH"),
}


def main(arguments):
    import argparse
    parser = argparse.ArgumentParser(prog="python -m tede.config", description="What a compiler needs to know of tede.")
    for option, (_, text) in _OPTIONS.items():
        parser.add_argument(option, dest="options", action="append_const", const=option, help=text)
    options = parser.parse_args(arguments).options
    if not options:
        parser.error("one of the options is required")
    print(shlex.join(word for option in options for word in _OPTIONS[option][0]()))


if __name__ == "__main__":
    main(sys.argv[1:])
