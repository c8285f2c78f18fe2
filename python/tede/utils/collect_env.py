"""Information about the environment for bug reports: ``python -m tede.utils.collect_env``."""
import os
import platform
import sys


def get_env_info():
    """Name and value of each thing that matters, as a dict."""
    import tede
    try:
        numpy = __import__("numpy").__version__
    except ImportError:
        numpy = "not installed"
    return {
        "tede": tede.__version__, "instruction set": tede._C._cpu_capability(), "threads": tede.get_num_threads(),
        "Python": f"{platform.python_version()} ({64 if sys.maxsize > 2**32 else 32} bits)",
        "system": platform.platform(), "processors": os.cpu_count(), "machine": platform.machine(), "NumPy": numpy,
        "devices": "cpu" + "".join(f", {name}" for name in getattr(sys.modules.get("tede._devices"), "loaded", ()))}


def get_pretty_env_info():
    """The same as text."""
    return "\n".join(f"{name}: {value}" for name, value in get_env_info().items())


def main():
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
