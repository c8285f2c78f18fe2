"""Whether other packages are there, found without importing them."""
import importlib.util
from functools import cache


def _check_module_exists(name):
    """Whether `import name` would find something: what importing it does is spared."""
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:         # the package in which the module would be isn't there
        return False


@cache
def dill_available():
    return _check_module_exists("dill")


@cache
def import_dill():
    """The module dill, which leaves the standard library's pickle as it is; None without it."""
    if not dill_available():
        return None
    import dill
    dill.extend(use_dill=False)
    return dill
