"""Reading packages: modules are made of the sources in a package, and pickles are read with them.

A package's modules are not in sys.modules; the importer has them, under their names in the package, and an `__import__` of its own, which sources
find among their builtins. A module's `__name__` is mangled (`_mangling`), so that what is pickled later, or printed, says where it is from."""
import builtins
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import linecache
import os
import pickle
import sys
import types
import weakref

from tede import _C
from tede._checkpoint import checked, dtype_of, text_of, unpickler
from tede._storage import TypedStorage, UntypedStorage
from tede.package._directory_reader import DirectoryReader
from tede.package._mangling import PackageMangler
from tede.package.file_structure_representation import _tree_of
from tede.package.find_file_dependencies import _resolved
from tede.package.importer import Importer, _attribute, sys_importer
from tede.serialization import _restorer

__all__ = ["PackageImporter"]

# What pickles and NumPy import without its being a dependency of a source.
_ALWAYS_OUTSIDE = {"builtins", "numpy", "numpy.core", "numpy.core._multiarray_umath", "numpy._core", "numpy._core._multiarray_umath"}

_modules = weakref.WeakValueDictionary()        # mangled name -> module, of all packages
_getfile = inspect.getfile


def _getfile_of_packaged(object):
    """inspect finds a class's file by its module in sys.modules, where those of packages are not."""
    module = _modules.get(object.__module__) if inspect.isclass(object) else None
    return _getfile(object) if module is None else module.__file__


class _Node:
    """A place in the tree of a package's modules. `file`: its source in the package. `outside`: the module is Python's own."""

    def __init__(self, file=None, is_package=False, outside=False):
        self.file, self.is_package, self.outside, self.children = file, is_package, outside, {}


class PackageImporter(Importer):
    """The modules, pickles and resources of a package, an archive (a path or a file object) or the folder that it was unpacked into. Importing runs
    the package's code, and so does reading its pickles: read only packages that you trust."""

    def __init__(self, file_or_buffer, module_allowed=lambda module_name: True):
        is_path = isinstance(file_or_buffer, (str, os.PathLike))
        self.filename = os.fspath(file_or_buffer) if is_path else "<binary>"
        self.zip_reader = DirectoryReader(file_or_buffer) if is_path and os.path.isdir(file_or_buffer) else _C.PyTorchFileReader(file_or_buffer)
        self._mangler = PackageMangler()
        self._tree = _Node(is_package=True)
        self.modules = {"torch_package_importer": self}         # packaged code may ask for its importer
        self.extern_modules = self._lines(".data/extern_modules")
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(f"package '{self.filename}' needs the external module '{name}' but that module has been disallowed")
            self._node(name.split("."), outside=True)
        for path in self.zip_reader.get_all_records():
            self._add_file(path)
        self.patched_builtins = dict(vars(builtins), __import__=self.__import__)
        self.last_map_location = None
        inspect.getfile = _getfile_of_packaged

    def _lines(self, record):
        return self.zip_reader.get_record(record).decode().split() if self.zip_reader.has_record(record) else []

    def _node(self, path, outside=False):
        """The node at a path, made if it isn't there; where a module outside is met on the way, that."""
        at = self._tree
        for name in path:
            if at.outside:
                break
            at.is_package = True
            at = at.children.setdefault(name, _Node())
        at.outside = at.outside or outside
        return at

    def _add_file(self, path):
        *folders, last = path.split("/")
        if folders[:1] == [".data"]:
            return
        is_source = last.endswith(".py")
        parts = folders if last == "__init__.py" or not is_source else [*folders, last.removesuffix(".py")]
        node = self._node(parts)
        if node.outside and is_source:
            raise ImportError(f"inconsistent module structure. package contains a module file {path} that is a subpackage of a module marked external.")
        if is_source and (node.file is None or last == "__init__.py"):
            node.file = path
        if folders is parts and not node.outside:
            node.is_package = True

    # ---- modules

    def import_module(self, name, package=None):
        """A module of the package, or one of Python's that the package depends on. A name may be mangled by this importer, as `__module__` is."""
        name = self._mangler.demangle(name)
        dots = len(name) - len(name.lstrip("."))
        return self._import(_resolved(name[dots:], package, dots))

    def _import(self, name):
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if parent:
            self._import(parent)
            if name in self.modules:        # the parent has imported it
                return self.modules[name]
        node = self._find(name)
        if node.outside:
            module = self.modules[name] = sys_importer.import_module(name)
        else:
            module = self._make(name, node)
        above = self.modules.get(parent)
        if getattr(above, "__torch_package__", False):
            setattr(above, last, module)
        return module

    def _find(self, name):
        node = self._tree
        for part in name.split("."):
            if node.outside:
                return node
            if part not in node.children:
                if name in _ALWAYS_OUTSIDE:
                    return _Node(outside=True)
                raise ModuleNotFoundError(f'No module named "{name}" in self-contained archive "{self.filename}" and the module is also not in the list '
                                          f"of allowed external modules: {self.extern_modules}", name=name)
            node = node.children[part]
        return node

    def _make(self, name, node):
        spec = importlib.machinery.ModuleSpec(name, self, is_package=node.is_package)
        module = importlib.util.module_from_spec(spec)
        file = self._mangler.mangle(node.file) if node.file else None
        vars(module).update(__name__=self._mangler.mangle(name), __file__=file, __cached__=None, __builtins__=self.patched_builtins, __torch_package__=True)
        self.modules[name] = _modules[module.__name__] = module
        parent, _, last = name.rpartition(".")
        if parent:                          # before its code runs: "from parent import this" looks there
            setattr(self.modules[parent], last, module)
        if file:
            try:
                linecache.lazycache(file, vars(module))         # for tracebacks and inspect
                exec(compile(self.get_source(name), file, "exec", dont_inherit=True), vars(module))
            except BaseException:
                self.modules.pop(name, None)
                raise
        return module

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        raise ImportError("modules of a package are made by its importer", name=module.__name__)

    def __import__(self, name, globals=None, locals=None, fromlist=(), level=0):
        """What an import statement in a packaged source calls."""
        if level:
            inside = globals.get("__package__") or globals["__spec__"].parent
            name = _resolved(name, inside, level)
        module = self._import(name)
        if not fromlist:
            # "import a.b" binds a; "from . import" always has a list
            return self._import(name.partition(".")[0])
        if getattr(module, "__torch_package__", False) and hasattr(module, "__path__"):
            for wanted in self._wanted(module, fromlist):
                if not hasattr(module, wanted):
                    try:
                        self._import(f"{name}.{wanted}")
                    except ModuleNotFoundError as error:
                        if error.name != f"{name}.{wanted}":
                            raise
        elif not getattr(module, "__torch_package__", False) and module is not self:
            return builtins.__import__(module.__name__, globals, locals, fromlist, 0) if sys.modules.get(module.__name__) is module else module
        return module

    @staticmethod
    def _wanted(module, fromlist):
        for wanted in fromlist:
            if wanted == "*":
                yield from getattr(module, "__all__", ())
            else:
                yield wanted

    def get_source(self, module_name):
        """The source of a module of the package."""
        node = self._find(self._mangler.demangle(module_name))
        if node.outside or not node.file:
            raise ImportError(f"{module_name} has no source in the package", name=module_name)
        return importlib.util.decode_source(self.zip_reader.get_record(node.file))

    def whichmodule(self, obj, name):
        found = getattr(obj, "__module__", None)
        if found is not None:
            return found
        for module_name, module in list(self.modules.items()):
            try:
                if _attribute(module, name) is obj:
                    return module_name
            except AttributeError:
                pass
        return "__main__"

    # ---- resources

    def _record_of(self, package, resource=None):
        folder = self._mangler.demangle(package).replace(".", "/")
        return folder if resource is None else f"{folder}/{_checked_resource(resource)}"

    def load_binary(self, package, resource):
        """The bytes of a resource."""
        return self.zip_reader.get_record(self._record_of(package, resource))

    def load_text(self, package, resource, encoding="utf-8", errors="strict"):
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package, resource, map_location=None):
        """The object that was saved as a pickle; see torch.load for `map_location`."""
        restore, storages, made = _restorer(map_location), {}, {}
        order = self._lines("byteorder")[:1] or ["little"]

        def storage_of(storage_type, key, location, numel):
            dtype, nbytes = dtype_of(storage_type), checked(numel, dtype_of(storage_type))
            if key not in storages:
                bytes_ = self.zip_reader.get_record(f".data/{text_of(key)}.storage")
                if len(bytes_) < nbytes:
                    raise RuntimeError(f"the storage {key} has {len(bytes_)} bytes, and {nbytes} are needed")
                storage = UntypedStorage(bytes_)
                if order[0] != sys.byteorder:
                    storage.byteswap(dtype)
                storages[key] = TypedStorage(wrap_storage=restore(storage, text_of(location)), dtype=dtype, _internal=True)
            return storages[key]

        def persistent_load(saved):
            if not isinstance(saved, tuple) or not saved:
                raise AssertionError(f"a persistent name in a package is a tuple, not {saved!r}")
            kind, *rest = saved
            if text_of(kind) == "storage":
                return storage_of(*rest[:4])
            if text_of(kind) == "reduce_package":
                key, function, args = rest
                if key not in made:
                    made[key] = function(self, *args)
                return made[key]
            raise AssertionError(f"Unknown typename for persistent_load, expected 'storage' or 'reduce_package' but got '{kind}'")

        importer = self

        class FromPackage(pickle.Unpickler):
            def find_class(self, module, name):
                return _attribute(importer.import_module(module), name)
        before, self.last_map_location = self.last_map_location, map_location
        try:
            return unpickler(types.SimpleNamespace(Unpickler=FromPackage), persistent_load, io.BytesIO(self.load_binary(package, resource)), {}).load()
        finally:
            self.last_map_location = before

    def id(self):
        """What is unique to this importer, as "<torch_package_0>"."""
        return self._mangler.parent_name()

    def file_structure(self, *, include="**", exclude=()):
        """The files of the package as a Directory: those whose paths match the patterns."""
        return _tree_of(self.filename, self.zip_reader.get_all_records(), include, exclude)

    def python_version(self):
        """The version of Python that wrote the package; None if it doesn't say."""
        return next(iter(self._lines(".data/python_version")), None)

    def get_resource_reader(self, fullname):
        """What importlib.resources asks a loader for; None where there is no such package."""
        try:
            node = self._find(self._mangler.demangle(fullname))
        except ModuleNotFoundError:
            return None
        return _Resources(self, fullname) if node.is_package and not node.outside else None

    def __repr__(self):
        return f'PackageImporter("{self.filename}")'


def _checked_resource(resource):
    """A resource's name; it lies in its package's folder."""
    if os.path.basename(resource) != resource or not resource:
        raise ValueError(f"{resource!r} must be only a file name")
    return resource


class _Resources:
    """importlib.abc.ResourceReader for a package in a package."""

    def __init__(self, importer, fullname):
        self._importer, self._fullname = importer, fullname

    def open_resource(self, resource):
        return io.BytesIO(self._importer.load_binary(self._fullname, resource))

    def resource_path(self, resource):
        reader = self._importer.zip_reader
        if isinstance(reader, DirectoryReader) and self.is_resource(resource):
            return os.path.join(reader.directory, *self._importer._record_of(self._fullname, resource).split("/"))
        raise FileNotFoundError(f"{resource} has no path, it lies in an archive")

    def is_resource(self, name):
        return self._importer.zip_reader.has_record(self._importer._record_of(self._fullname, name))

    def contents(self):
        folder = self._importer._record_of(self._fullname) + "/"
        inside = (path.removeprefix(folder) for path in self._importer.zip_reader.get_all_records() if path.startswith(folder))
        return iter(dict.fromkeys(path.partition("/")[0] for path in inside))
