"""Run a PyTorch program on tede, without changing it:  python -m tede.as_torch script.py args...   (also -m module, -c code, torchrun ...)

Every `import torch...` of the program gives tede's module of that name: one finder on sys.meta_path does that. A folder
with a package `torch` that installs the finder is put first on the path, and in PYTHONPATH, so that the interpreters that
the program starts (spawned workers, subprocesses) do the same. Nothing is copied: torch.nn *is* tede.nn. What differs
from `import tede as torch` is what a program sees: torch.__version__ and the names in reprs are PyTorch's.
"""
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import types

from tede import _compat
from tede._compat import CLASSES, MODULES

VERSION = "2.13.0"          # the version of PyTorch whose behaviour tede follows
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_compat", "_shim")


def _with_path(module, rest):
    """The module; with a path if PyTorch's is a package, so that the modules within are looked for by the finder."""
    written = getattr(module, "__file__", None) is not None
    if not hasattr(module, "__path__") and (_compat.has_modules(rest, written) or rest in {path.partition(".")[0] for path in MODULES}):
        module.__path__ = []
    return module


class _Loader(_compat.Known):
    def exec_module(self, module):
        super().exec_module(module)
        # What is loaded already has its other names from now on: a later `import torch.autograd.gradcheck` or
        # `torch._functorch.vmap` mustn't put the module where the package has the function of that name.
        for name in [name for name in sys.modules if name.startswith("tede.") and name[5:] not in MODULES]:
            sys.modules.setdefault("torch." + name[5:], _with_path(sys.modules[name], name[5:]))
        for name, ours in MODULES.items():
            loaded = sys.modules.get("tede." + ours)
            if loaded is not None and "torch." + name not in sys.modules:
                sys.modules["torch." + name] = loaded
                parent = sys.modules.get("torch." + name.rpartition(".")[0])
                if parent is not None and not hasattr(parent, name.rpartition(".")[2]):
                    setattr(parent, name.rpartition(".")[2], loaded)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torch.a.b as tede.a.b."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" and not name.startswith("torch."):
            return None
        rest = name[6:]
        ours = "tede." + MODULES.get(rest, rest) if rest else "tede"
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not (ours == error.name or ours.startswith(error.name + ".")):
                raise
            return None
        _with_path(module, rest)
        if target is None:          # no reload
            sys.modules.pop(name, None)     # _rename may have put it there: the machinery would load it a second time
        return importlib.machinery.ModuleSpec(name, _Loader(module), is_package=hasattr(module, "__path__"))


def _rename(module):
    """Let a module's classes and functions say where PyTorch has them: pickles, messages and programs ask that."""
    place = module.__name__.partition(".")[2]
    if place and place not in MODULES:
        sys.modules.setdefault("torch." + place, _with_path(module, place))
        module.__name__ = "torch." + place          # what "module has no attribute" says
    for name, ours in MODULES.items():
        parent, _, last = name.rpartition(".")
        if place in (parent, ours):                 # PyTorch's package has the module without its being imported
            held, loaded = (sys.modules.get("tede." + path) for path in (MODULES.get(parent, parent), ours))
            if held is not None and loaded is not None and not hasattr(held, last):
                setattr(held, last, loaded)
    for value in list(vars(module).values()):
        if isinstance(value, (type, types.FunctionType)) and value.__module__ and value.__module__.startswith("tede."):
            ours, rest = value.__module__, value.__module__[5:]
            if rest not in MODULES and ours in sys.modules:
                sys.modules.setdefault("torch." + rest, sys.modules[ours])
                with contextlib.suppress(AttributeError, TypeError):        # a class of C's
                    value.__module__ = CLASSES.get((ours, value.__qualname__), "torch." + rest)


class _Renamer(importlib.abc.MetaPathFinder):
    """Finds tede's own modules as ever, and renames what is in them once they are there."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith("tede."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        spec = spec or _compat.find_spec(name)
        if spec is not None and isinstance(spec.loader, (importlib.machinery.SourceFileLoader, _compat.Maker)):
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _rename(module)
            spec.loader.exec_module = exec_module
        return spec


def install():
    """Let `import torch` give tede, here and in the interpreters that this one starts."""
    import tede
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path[:0] = [_Finder(), _Renamer()]
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        del sys.modules[name]
    sys.modules["torch"] = tede
    tede._C._set_package("torch")
    from tede.torch_version import TorchVersion
    tede.__version__ = TorchVersion(VERSION)
    tede.__name__ = "torch"
    logging.getLogger("tede").parent = logging.getLogger("torch")        # whose level and handlers programs set
    for name in [name for name in sys.modules if name.startswith("tede.")]:
        _rename(sys.modules[name])
    if _FOLDER not in sys.path:
        sys.path.insert(0, _FOLDER)
    paths = os.environ.get("PYTHONPATH", "")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    wanted = [p for p in (_FOLDER, package) if p not in paths.split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(wanted + ([paths] if paths else []))
    commands, path = os.path.join(_FOLDER, "bin"), os.environ.get("PATH", os.defpath)       # torchrun
    if commands not in path.split(os.pathsep):
        os.environ["PATH"] = commands + os.pathsep + path
    os.environ["TEDE_AS_TORCH"] = sys.executable


def _command(name):
    """The function of a command by this name: torchrun, or one that a package has installed (accelerate)."""
    if os.path.exists(name) or os.sep in name:
        return None
    if name == "torchrun":
        from tede.distributed.run import _main
        return _main
    from importlib import metadata
    return next((entry.load() for entry in metadata.entry_points(group="console_scripts", name=name)), None)


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.split("\n\n")[0])
        return 0 if arguments else 2
    import runpy
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        sys.path.insert(0, _FOLDER)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c"] + arguments[2:]
        _run_main(compile(arguments[1], "<string>", "exec"))
    elif (command := _command(arguments[0])) is not None:
        sys.argv = arguments
        return command()
    else:
        sys.argv = arguments
        sys.path.remove(_FOLDER)
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        sys.path.insert(1, _FOLDER)
        path = arguments[0]
        if os.path.isdir(path) or path.endswith((".pyz", ".zip")):
            runpy.run_path(path, run_name="__main__")
        else:
            with open(path, "rb") as file:
                _run_main(compile(file.read(), path, "exec"), path)
    return 0


def _run_main(code, path=None):
    """Run code as a new module __main__, which stays after the end, for threads and exit handlers."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__cached__=None, __builtins__=builtins)
    if path is not None:
        main.__file__ = path
    exec(code, main.__dict__)


if __name__ == "__main__":
    from tede import as_torch           # the module of that name, not this copy called __main__
    sys.exit(as_torch.main(sys.argv[1:]))
