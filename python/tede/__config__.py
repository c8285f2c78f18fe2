"""How the library was built, as far as programs ask."""
from tede import _C


def show():
    """A description for people."""
    return f"tede {_library_version()}\n  - C17 core, OpenBLAS for products and LAPACK\n  - CPU capability in use: {_C._cpu_capability()}"


def parallel_info():
    """How many threads there are."""
    return f"tede threads:\n\tget_num_threads() : {_C.get_num_threads()}\nA pool of its own; no OpenMP, no MKL"


def _library_version():
    import tede
    return tede.__version__


def _cxx_flags():
    """The flags of the C++ compiler: none, the core is C."""
    return ""
