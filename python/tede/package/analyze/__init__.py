"""What a package needs, and why."""
import sys
import types

from tede.package._mangling import is_mangled

__all__ = ["find_first_use_of_broken_modules", "is_from_package", "trace_dependencies"]


def is_from_package(obj):
    """Whether an object, or a module, comes from a package."""
    return is_mangled(obj.__name__ if isinstance(obj, types.ModuleType) else type(obj).__module__)


def find_first_use_of_broken_modules(exc):
    """A path of dependencies to each module that a PackagingError names."""
    graph = exc.dependency_graph
    return {name: graph.first_path(name) for name, attributes in graph.nodes.items() if attributes.get("error") is not None}


def trace_dependencies(callable, inputs):
    """The names of the modules whose Python functions are called when `callable` is called with each of `inputs`, tuples of arguments."""
    used = set()

    def note(frame, event, argument):
        if event == "call":
            used.add(frame.f_globals.get("__name__"))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for given in inputs:
            callable(*given)
    finally:
        sys.setprofile(before)
    return sorted(name for name in used if name)
