"""Where modules come from: Python's own, a package's, or several of these in an order."""
import importlib
import pickle
from abc import ABC, abstractmethod
from functools import reduce

from tede import _compat
from tede.package._mangling import demangle, is_mangled
from tede.serialization import _foreign

__all__ = ["ObjNotFoundError", "ObjMismatchError", "Importer", "OrderedImporter"]


class ObjNotFoundError(Exception):
    """An importer doesn't find an object under its name."""


class ObjMismatchError(pickle.PicklingError):
    """What an importer finds under an object's name is another object."""


def _attribute(module, name):
    return reduce(getattr, name.split("."), module)


class Importer(ABC):
    """An environment to import modules from."""

    modules = {}

    @abstractmethod
    def import_module(self, module_name):
        """The module of that name; ModuleNotFoundError if there is none."""

    def get_name(self, obj, name=None):
        """The module and the name under which this importer has an object."""
        if name is None:
            name = self._own_name(obj)
        place = self.whichmodule(obj, name)
        module_name = demangle(place)
        try:
            found = _attribute(self.import_module(module_name), name)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is obj:
            return module_name, name
        ours = _foreign(getattr(found, "__module__", None) or module_name, name)
        raise ObjMismatchError(
            f"the object {obj} is {name} of {_origin(place)}, and what the importer finds under this name is that of {_origin(ours)}. "
            "Name the PackageImporter that the object comes from among the exporter's importers, before others that have the name, as in "
            "PackageExporter(..., importer=(my_importer, sys_importer))")

    def _own_name(self, obj):
        if not isinstance(obj, type):
            try:
                reduced = obj.__reduce__()
            except Exception:               # it isn't made to be pickled, and may have a name all the same
                reduced = None
            if isinstance(reduced, str):
                return reduced
        return getattr(obj, "__qualname__", None) or obj.__name__

    def whichmodule(self, obj, name):
        """The name of the module that an object is from; "__main__" if it isn't found."""
        return pickle.whichmodule(obj, name)


def _origin(module_name):
    return f"'{demangle(module_name)}' in the package {module_name.partition('.')[0]}" if is_mangled(module_name) else f"'{module_name}' outside of packages"


class _SysImporter(Importer):
    """Python's own modules. PyTorch's names are this library's, whether or not programs find it as torch."""

    def import_module(self, module_name):
        top, _, rest = module_name.partition(".")
        if top == "torch":
            return importlib.import_module(f"tede.{_compat.MODULES.get(rest, rest)}" if rest else "tede")
        return importlib.import_module(module_name)

    def whichmodule(self, obj, name):
        return _foreign(super().whichmodule(obj, name), name)


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several importers: the first that has a module gives it."""

    def __init__(self, *importers):
        self._importers = list(importers)

    @staticmethod
    def _is_empty(module):
        """Whether a module is only there since a package has others below it."""
        return getattr(module, "__torch_package__", False) and hasattr(module, "__path__") and getattr(module, "__file__", None) is None

    def import_module(self, module_name):
        last = None
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(f"{importer} is not an Importer")
            try:
                module = importer.import_module(module_name)
            except ModuleNotFoundError as error:
                last = error
                continue
            if not self._is_empty(module):
                return module
        raise last or ModuleNotFoundError(f"No module named '{module_name}'", name=module_name)

    def whichmodule(self, obj, name):
        return next((found for found in (importer.whichmodule(obj, name) for importer in self._importers) if found != "__main__"), "__main__")
