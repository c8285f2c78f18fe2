"""Names of modules from packages: the package's own parent, ``<torch_package_0>``, is put before them, so that a packaged ``foo.bar`` is
never taken for the program's."""
import itertools
import re

_numbers = itertools.count()


class PackageMangler:
    """The names of one package."""

    def __init__(self):
        self._parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name):
        if not name:
            raise AssertionError("a module has a name")
        return f"{self._parent}.{name}"

    def demangle(self, mangled):
        """A name without this package's parent; names of others stay as they are."""
        return demangle(mangled) if mangled.startswith(self._parent + ".") else mangled

    def parent_name(self):
        return self._parent


def is_mangled(name):
    return re.match(r"<torch_package_\d+>", name) is not None


def demangle(name):
    """A name as it is in its package, whichever that is."""
    return name.partition(".")[2] if is_mangled(name) else name


def get_mangle_prefix(name):
    return name.partition(".")[0] if is_mangled(name) else name
