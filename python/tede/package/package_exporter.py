"""Writing packages: objects, the sources of the modules that they need, and other files, in one archive.

Modules and what they import are nodes and edges of a graph. A module that nothing has been decided for is looked up among the patterns that `intern`,
`extern`, `mock` and `deny` were called with, in this order; sources are written when the package is closed, when no decision can change any more."""
import importlib.machinery
import io
import linecache
import os
import pathlib
import pickle
import platform
import sys
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from enum import Enum
from itertools import count

from tede import _C
from tede.package._digraph import DiGraph
from tede.package._mangling import demangle, is_mangled
from tede.package.find_file_dependencies import find_files_source_depends_on
from tede.package.glob_group import GlobGroup
from tede.package.importer import Importer, OrderedImporter, sys_importer
from tede.serialization import _pickler, _Storages
from tede.utils.hooks import RemovableHandle

__all__ = ["PackagingErrorReason", "EmptyMatchError", "PackagingError", "PackageExporter"]

_gate_torchscript_serialization = True      # PyTorch's name; there is no TorchScript to be kept out of packages

# Modules of Python's library that a package doesn't take from where it is loaded unless it says so.
_POWERFUL = ("sys", "io")
_MOCK_SOURCE = '''from _mock import MockedObject


def __getattr__(name):
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return MockedObject(__name__ + "." + name, _mocked=True)
'''


class _ModuleProviderAction(Enum):
    """What is done with a module."""

    INTERN, EXTERN, MOCK, DENY, REPACKAGED_MOCK_MODULE, SKIP = range(1, 7)


class PackagingErrorReason(Enum):
    """Why a module can't be packaged."""

    IS_EXTENSION_MODULE = "Module is a C extension module. torch.package supports Python modules only."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = ("Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
                             "objects are supposed to be in the package.")

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}>"


class EmptyMatchError(Exception):
    """A pattern with allow_empty=False has matched no module."""


class PackagingError(Exception):
    """Modules that can't be packaged, by reason; `dependency_graph` has more."""

    def __init__(self, dependency_graph, debug=False):
        self.dependency_graph = dependency_graph
        broken = defaultdict(list)
        for name, attributes in dependency_graph.nodes.items():
            if attributes.get("error") is not None:
                broken[attributes["error"]].append(name)
        lines = [""]
        for reason, names in broken.items():
            lines.append(f"* {reason.value}")
            for name in names:
                lines.append(f"    {name}")
                context = dependency_graph.nodes[name].get("error_context")
                if context is not None:
                    lines.append(f"      Context: {context}")
                if name in _POWERFUL:
                    lines.append(f"      Note: `{name}` gives access to the whole system, so it isn't taken from Python's library unasked. Do without it, or "
                                 f'call PackageExporter.extern("{name}").')
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(map(str, dependency_graph.first_path(name)))}")
        if not debug:
            lines += ["", "Set debug=True when invoking PackageExporter for a visualization of where broken modules are coming from!"]
        super().__init__("\n".join(lines) + "\n")


class _Pattern:
    """What is done with the modules that match, and whether one has."""

    def __init__(self, glob, action, allow_empty):
        self.glob, self.action, self.allow_empty, self.was_matched = glob, action, allow_empty, False


class PackageExporter:
    """A package that is being written, to a path or a file object. Leaving the `with` statement, or `close()`, completes it; PyTorch reads it, too."""

    def __init__(self, f, importer=sys_importer, debug=False):
        self.debug = debug
        is_path = isinstance(f, (str, os.PathLike))
        self.buffer = None if is_path else f
        self.zip_file = _C.PyTorchFileWriter(f)
        self.importer = importer if isinstance(importer, Importer) else None
        if self.importer is None:
            if not isinstance(importer, Sequence):
                raise TypeError(f"importer arg should be an Importer or a sequence of Importers, got {type(importer)} instead.")
            self.importer = OrderedImporter(*importer)
        self.dependency_graph, self.patterns = DiGraph(), []
        self._written, self._storages, self._ids = set(), _Storages(legacy=False), count()
        self._hooks = {action: OrderedDict() for action in _ModuleProviderAction}
        self._sums = 0, 0               # of names and of bytes: a number for the package
        self._reduced = {}              # id of an object -> the object, and what stands for it

    def get_unique_id(self):
        """A number that this package hasn't used yet, as a string."""
        return str(next(self._ids))

    # ---- sources

    def save_source_file(self, module_name, file_or_directory, dependencies=True):
        """A file as a module, or a folder as a package with all that is below it."""
        path = pathlib.Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(module_name, path.read_text(encoding="utf-8"), False, dependencies)
            return
        saved = []
        for file in sorted(path.glob("**/*.py")):
            *folders, last = file.relative_to(path).with_suffix("").parts
            name = ".".join([module_name, *folders, *([last] if last != "__init__" else [])])
            saved.append((name, file.read_text(encoding="utf-8"), last == "__init__"))
        for name, source, is_package in saved:          # known before their dependencies are looked for
            self._provide(name, _ModuleProviderAction.INTERN, source=source, is_package=is_package)
        for name, source, is_package in saved:
            self.save_source_string(name, source, is_package, dependencies)

    def save_source_string(self, module_name, src, is_package=False, dependencies=True):
        """Text as a module."""
        self._provide(module_name, _ModuleProviderAction.INTERN, source=src, is_package=is_package)
        if dependencies:
            self._add_dependencies_of(module_name, src, is_package)

    def save_module(self, module_name, dependencies=True):
        """A module that the importer finds."""
        if not isinstance(module_name, str):
            raise TypeError("save_module() expects a string input, did you perhaps mean to pass `__name__`?")
        self._intern(module_name, dependencies)

    def _provide(self, name, action, **attributes):
        self.dependency_graph.add_node(name, action=action, provided=True, **attributes)

    def _import_module(self, name):
        try:
            return self.importer.import_module(name)
        except ModuleNotFoundError as error:
            if not is_mangled(name):
                raise
            raise ModuleNotFoundError(f"Module not found: '{name}'. Make sure the PackageImporter that created this module is present in `self.importer`",
                                      name=error.name) from None

    def _exists(self, name):
        try:
            self._import_module(name)
        except Exception:           # whatever its code raises: it can't be had
            return False
        return True

    @staticmethod
    def _source_of(module):
        file, loader = getattr(module, "__file__", None), getattr(getattr(module, "__spec__", None), "loader", None)
        if isinstance(loader, importlib.machinery.SourceFileLoader):
            try:
                file = loader.get_filename(module.__name__)         # a loader may take it from elsewhere
            except ImportError:
                pass
        if not isinstance(file, str) or not file.endswith(".py"):
            return None
        if is_mangled(file):
            return loader.get_source(module.__name__)
        lines = linecache.getlines(file, vars(module))
        return "".join(lines) if lines or os.path.exists(file) else None

    def _intern(self, name, dependencies):
        module, inner = self._import_module(name), demangle(name)
        source, is_package = self._source_of(module), hasattr(module, "__path__")
        if source is None:
            file = getattr(module, "__file__", None)
            reason = (PackagingErrorReason.NO_DUNDER_FILE if file is None else
                      PackagingErrorReason.IS_EXTENSION_MODULE if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)) else
                      PackagingErrorReason.SOURCE_FILE_NOT_FOUND)
            context = f"filename: {file}" if reason is PackagingErrorReason.SOURCE_FILE_NOT_FOUND else None
            self._provide(inner, _ModuleProviderAction.INTERN, is_package=is_package, error=reason, error_context=context)
            return
        self._provide(inner, _ModuleProviderAction.INTERN, source=source, is_package=is_package)
        if dependencies:
            self._add_dependencies_of(inner, source, is_package)

    def _add_dependencies_of(self, name, source, is_package):
        for other in self._dependencies(name, source, is_package):
            self.dependency_graph.add_edge(name, other)
            self.add_dependency(other)

    def _dependencies(self, name, source, is_package):
        package = name if is_package else name.rpartition(".")[0]
        try:
            pairs = find_files_source_depends_on(source, package)
        except (SyntaxError, ValueError, RecursionError) as error:
            self.dependency_graph.add_node(name, error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED, error_context=str(error))
            return []
        found = {}
        for module, inner in pairs:
            # "from package import module" needs that module; "from module import function" needs the module that it names.
            if inner is not None and self._exists(f"{module}.{inner}"):
                found[f"{module}.{inner}"] = True
            elif self._exists(module):
                found[module] = True
        return list(found)

    # ---- what is done with modules

    def intern(self, include, *, exclude=(), allow_empty=True):
        """Put matching modules into the package."""
        self._add_pattern(_ModuleProviderAction.INTERN, include, exclude, allow_empty)

    def extern(self, include, *, exclude=(), allow_empty=True):
        """Leave matching modules to where the package is loaded."""
        self._add_pattern(_ModuleProviderAction.EXTERN, include, exclude, allow_empty)

    def mock(self, include, *, exclude=(), allow_empty=True):
        """Put modules into the package in place of matching ones whose names can be imported and not be used."""
        self._add_pattern(_ModuleProviderAction.MOCK, include, exclude, allow_empty)

    def deny(self, include, *, exclude=()):
        """Needing matching modules is an error."""
        self._add_pattern(_ModuleProviderAction.DENY, include, exclude, True)

    def _add_pattern(self, action, include, exclude, allow_empty):
        self.patterns.append(_Pattern(GlobGroup(include, exclude=exclude), action, allow_empty))

    def _pattern_for(self, name):
        return next((pattern for pattern in self.patterns if pattern.glob.matches(name)), None)

    def add_dependency(self, module_name, dependencies=True):
        """Let the package need a module; the patterns say what is done with it."""
        graph, action = self.dependency_graph, _ModuleProviderAction
        if graph.nodes.get(module_name, {}).get("provided"):
            return
        top = module_name.partition(".")[0]
        pattern = None
        if module_name == "torch_package_importer":
            self._provide(module_name, action.SKIP)
        elif module_name == "_mock":
            self._provide(module_name, action.REPACKAGED_MOCK_MODULE)
        elif top in ("torch", "tede") or top in sys.stdlib_module_names and top not in _POWERFUL:
            self._provide(module_name, action.EXTERN)
        elif (pattern := self._pattern_for(module_name)) is None:
            graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
        else:
            pattern.was_matched = True
            self._provide(module_name, pattern.action)
            if pattern.action is action.DENY:
                graph.add_node(module_name, error=PackagingErrorReason.DENIED)
            elif pattern.action is action.INTERN:
                self._intern(module_name, dependencies)

    def _register(self, action, hook):
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def register_extern_hook(self, hook):
        """Call ``hook(exporter, module_name)`` for each module that is left outside, when the package is completed."""
        return self._register(_ModuleProviderAction.EXTERN, hook)

    def register_mock_hook(self, hook):
        return self._register(_ModuleProviderAction.MOCK, hook)

    def register_intern_hook(self, hook):
        return self._register(_ModuleProviderAction.INTERN, hook)

    # ---- pickles and other files

    def save_text(self, package, resource, text):
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package, resource, binary):
        self._write(_path_of(package, resource), binary)

    def save_pickle(self, package, resource, obj, dependencies=True, pickle_protocol=3):
        """An object as a pickle; the modules of its classes and functions are what it depends on."""
        exporter, needed = self, {}

        class ToPackage(_pickler(pickle, self._persistent_id)):
            def place(self, obj, name):
                found = super().place(obj, name) or exporter.importer.get_name(obj, name)
                needed.setdefault(found[0], []).append(found[1])
                return found

        data = io.BytesIO()
        ToPackage(data, protocol=pickle_protocol).dump(obj)
        if dependencies:
            node = f"<{package}.{resource}>"
            self._provide(node, _ModuleProviderAction.INTERN, is_pickle=True)
            for module, names in needed.items():
                self.dependency_graph.add_edge(node, module)
                pattern = self._pattern_for(module)
                if pattern and pattern.action is _ModuleProviderAction.MOCK and not self.dependency_graph.nodes[module].get("provided"):
                    pattern.was_matched = True
                    self._provide(module, pattern.action, error=PackagingErrorReason.MOCKED_BUT_STILL_USED,
                                  error_context=f"Object(s) '{names}' from module `{module}` was mocked out during packaging but is being used in "
                                                f"resource - `{resource}` in package `{package}`.")
                else:
                    self.add_dependency(module)
        self._write(_path_of(package, resource), data.getvalue())
        for key, (storage, _) in self._storages.found.items():
            if (record := f".data/{key}.storage") not in self._written:
                self._write(record, storage)

    def _persistent_id(self, obj):
        if not isinstance(obj, type) and hasattr(obj, "__reduce_package__"):
            if id(obj) not in self._reduced:
                self._reduced[id(obj)] = obj, ("reduce_package", id(obj), *obj.__reduce_package__(self))
            return self._reduced[id(obj)][1]
        return self._storages.persistent_id(obj)

    def _write(self, path, data):
        if path in self._written:
            raise AssertionError(f"Tried to write file '{path}', but it already exists in this archive. Please file a bug.")
        if is_mangled(path):
            raise AssertionError(f"Tried to save a torch.package'd module as '{path}'. Directly saving torch.package'd modules is not allowed.")
        self._written.add(path)
        data = data.encode() if isinstance(data, str) else data
        self._sums = zlib.crc32(path.encode(), self._sums[0]), zlib.crc32(data, self._sums[1])
        self.zip_file.write_record(path, data)

    # ---- completing it

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:            # what was raised says more than what is missing by now
            self._finish()
        else:
            self.close()

    def close(self):
        """Write what the package needs, and complete the archive."""
        self._check()
        self._write_modules()
        self._write(".data/python_version", platform.python_version())
        self._write("byteorder", sys.byteorder)
        self._write(".data/version", "6\n")
        self._write(".data/serialization_id", f"{self._sums[0]:020}{self._sums[1]:020}")
        self._finish()

    def _finish(self):
        self.zip_file.write_end_of_file()
        if hasattr(self.buffer, "flush"):
            self.buffer.flush()

    def _check(self):
        if any(attributes.get("error") is not None for attributes in self.dependency_graph.nodes.values()):
            raise PackagingError(self.dependency_graph, debug=self.debug)
        for pattern in self.patterns:
            if not (pattern.allow_empty or pattern.was_matched):
                raise EmptyMatchError(f"Exporter did not match any modules to {pattern.glob}, which was marked as allow_empty=False")

    def _write_modules(self):
        outside, action = [], _ModuleProviderAction
        for name, attributes in list(self.dependency_graph.nodes.items()):
            what = attributes["action"]
            if attributes.get("is_pickle"):
                continue
            for hook in self._hooks[what].values():
                hook(self, name)
            if what is action.EXTERN:
                outside.append(name)
            elif what is action.INTERN:
                self._write_source(name, attributes["source"], attributes["is_package"])
            elif what is action.MOCK:
                self._write_mock()
                self._write_source(name, _MOCK_SOURCE, hasattr(self._import_module(name), "__path__"))
            elif what is action.REPACKAGED_MOCK_MODULE:
                self._write_mock()
        self._write(".data/extern_modules", "".join(name + "\n" for name in outside))

    def _write_source(self, name, source, is_package):
        self._write(name.replace(".", "/") + ("/__init__.py" if is_package else ".py"), source)

    def _write_mock(self):
        if "_mock.py" not in self._written:
            self._write("_mock.py", (pathlib.Path(__file__).parent / "_mock.py").read_text(encoding="utf-8"))

    # ---- what is in it

    def _with(self, action):
        return [name for name, attributes in self.dependency_graph.nodes.items() if attributes.get("action") is action and not attributes.get("is_pickle")]

    def interned_modules(self):
        """The modules that are in the package."""
        return self._with(_ModuleProviderAction.INTERN)

    def externed_modules(self):
        return self._with(_ModuleProviderAction.EXTERN)

    def mocked_modules(self):
        return self._with(_ModuleProviderAction.MOCK)

    def denied_modules(self):
        return self._with(_ModuleProviderAction.DENY)

    def get_rdeps(self, module_name):
        """What depends on a module."""
        return list(self.dependency_graph.predecessors(module_name))

    def all_paths(self, src, dst):
        """How one module depends on another, in Graphviz's language."""
        return self.dependency_graph.all_paths(src, dst)

    def dependency_graph_string(self):
        """What depends on what, in Graphviz's language."""
        return self.dependency_graph.to_dot()


def _path_of(package, resource):
    if os.path.basename(resource) != resource or not resource:
        raise ValueError(f"{resource!r} must be only a file name")
    return f"{package.replace('.', '/')}/{resource}"
