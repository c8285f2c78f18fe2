"""What exists only so that other people's programs import.

The other modules in this folder are those of `tede.<name>` that have some behaviour of their own; the package's path ends here. The
rest is data: names.txt says what modules there are, and what each name does. A module that is nothing else is made of its section
when it is imported (`find_spec`, the last of sys.meta_path); one that has code calls `fill` for the rest of its names."""
import builtins
import os
import re
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from itertools import product
from types import ModuleType

__path__ = []       # the files beside this one are modules of tede; found here as well, they would be loaded twice


class Section:
    """One module's part of names.txt."""

    def __init__(self, path):
        self.path, self.doc, self.names, self.words, self.tree = path, None, {}, None, False     # names: name -> (kind, words)
        self.modules, self.missing = frozenset(), frozenset()

    def add(self, kind, names, words):
        if kind in ("rest", "tree"):
            self.words, self.tree = words, kind == "tree"
        elif kind in ("modules", "missing"):
            setattr(self, kind, frozenset(names))
        elif kind == "of":
            CLASSES.update({(f"tede.{self.path}", name): f"torch.{words}" for name in names})
        else:
            words = words.replace("{PATH}", self.path.upper()).replace("{absent}", f"NotImplementedError: torch.{self.path}.{{name}}")
            self.names.update((name, (kind, words)) for name in names)


SECTIONS = {}       # path -> Section
MODULES = {}        # PyTorch's module -> ours, without "torch." and "tede."
CLASSES = {}        # (our module, class) -> PyTorch's module


def _words(text):
    """The words of a text, one for each choice of what is in braces, as the shell has it: a{b,c}d is abd acd."""
    words = text.split()
    while "{" in text:
        parts = [(word.partition("{"), word.partition("}")[2]) for word in words]
        words = [front + choice + behind for (front, _, rest), behind in parts for choice in rest.partition("}")[0].split(",")]
        text = "".join(words)
    return words


def _lines():
    """The lines that say something; one that is indented is part of the one before."""
    with open(os.path.join(os.path.dirname(__file__), "names.txt"), encoding="utf-8") as file:
        return [line for line in file.read().replace("\n    ", " ").split("\n") if line and line[0] != "#"]


def _place(ours, theirs, inner):
    """PyTorch's module, or class of one, that is in ours; `inner` stands for * in both."""
    ours = ours.replace("*", inner)
    if inner[:1].isupper():
        inner = re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", inner).lower() + "." + inner
    theirs = theirs.replace("*", inner)
    module, _, last = theirs.rpartition(".")
    if last.lstrip("_")[0].isupper():
        CLASSES[f"tede.{ours}", last] = f"torch.{module}"
        theirs = module
    MODULES[theirs] = ours


def _read():
    for line in _lines():
        for statement in line.split(" | "):
            if statement[0] == "[":
                paths, _, doc = statement[1:].partition("]")
                sections = [SECTIONS.setdefault(path, Section(path)) for path in _words(paths)]
                for section in sections:
                    section.doc = doc.strip().replace("{PATH}", section.path.upper()) or section.doc
                continue
            front, _, words = statement.partition(" : ")
            kind, *names = _words(front)
            if names and names[0] == "=":
                for theirs, inner in product(names[1:], _words(words) or [""]):
                    _place(kind, theirs, inner)
            else:
                for section in sections:
                    section.add(kind, names, words)


_read()


# ---- what the kinds of names are -------------------------------------------------------------------------------------

def _refuse(words):
    """A function that raises "Error: text"."""
    kind, _, text = words.partition(": ")

    def refuse(*args, **kwargs):
        raise getattr(builtins, kind)(text)
    return refuse


def _each(words):
    def refuse(members):
        for _ in members:
            _refuse(words)()
    return refuse


def _context(words):
    def refuse(*args, **kwargs):
        yield _refuse(words)()
    return contextmanager(refuse)


_KINDS = {  # words -> what the name is
    "false": lambda words: lambda *args, **kwargs: False,
    "none": lambda words: lambda *args, **kwargs: None,
    "gives": lambda words: lambda *args, **kwargs: eval(words),     # a new one each time, should it be a list
    "is": eval,
    "same": lambda words: lambda fn, *args, **kwargs: fn,
    "decorator": lambda words: lambda fn=None, *args, **kwargs: fn if callable(fn) else lambda fn: fn,
    "refuse": _refuse, "each": _each, "context": _context,
    "class": lambda words: type("", (), {"__new__": _refuse(words), "__doc__": f"Raises {words}"}),
}
_DOCS = {"false": "False.", "none": "Accepted for compatibility.", "same": "The argument, unchanged.",
         "decorator": "A decorator without an effect."}


@cache
def _made(path, name, kind, words):
    if kind == "from":
        return getattr(import_module("tede." + words), name)
    words = words.replace("{name}", name)
    made = _KINDS[kind](words)
    if kind != "is":
        made.__module__, made.__name__, made.__qualname__ = "tede." + path, name, name
        made.__doc__ = _DOCS.get(kind) or ("Always " if kind == "gives" else "Raises ") + words
    return made


def stand_in(path, name):
    """What a section says of a name; None where it says nothing."""
    said = SECTIONS[path].names.get(name)
    return None if said is None else _made(path, name, *said)


# ---- modules ---------------------------------------------------------------------------------------------------------

def section_of(path):
    """A module's section; for one below a tree, the tree's. None where there is neither."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        section = SECTIONS.get(".".join(parts[:n]))
        if section is not None and (n == len(parts) or section.tree):
            return section
    return None


def fill(namespace):
    """Give a module the names that its section has, and its code doesn't. Returns what finds those that are made when they are asked
    for; that is the module's __getattr__, if it has none."""
    path = namespace["__name__"].removeprefix("tede.")
    section = section_of(path)
    for name, said in section.names.items() if section.path == path else ():
        if name not in namespace:
            namespace[name] = _made(path, name, *said)

    def find(name):
        inner = f"{path}.{name}"
        if not name.startswith("__") and inner.removeprefix(section.path + ".") not in section.missing:
            if name in section.modules or section.words is not None and (inner in SECTIONS or PathFinder.find_spec(name, namespace.get("__path__", []))):
                return import_module("tede." + inner)
            if section.words is not None:
                if name in ("is_available", "is_initialized"):
                    return _made(path, name, "false", "")
                kind = "class" if name[0].isupper() and not name.isupper() else "refuse"
                return _made(path, name, kind, f"NotImplementedError: torch.{inner}: {section.words}")
        raise AttributeError(f"module '{sys.modules['tede'].__name__}.{path}' has no attribute '{name}'")
    namespace.setdefault("__getattr__", find)
    if has_modules(path):
        namespace.setdefault("__path__", [])
    return find


def has_modules(path, written=False):
    """Whether there are modules below a path; a tree has none below one that is written in a file."""
    section = section_of(path)
    return section is not None and section.tree and not written or any(other.startswith(path + ".") for other in (*SECTIONS, *MODULES))


class Maker:
    """Makes a module of its section."""

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__doc__ = section_of(module.__name__.removeprefix("tede.")).doc
        fill(vars(module))


class Known:
    """Gives a module that is there under another name."""

    def __init__(self, module):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec):
        return self._module

    def get_code(self, name):
        """For `python -m` with that name."""
        return self._spec.loader.get_code(self._spec.name)

    def exec_module(self, module):
        name, module.__spec__ = module.__spec__.name.partition(".")[2], self._spec       # the machinery has put its own there
        for inner, ours in MODULES.items():     # before the machinery finds the files of modules within, and loads them again
            if inner.startswith(name + ".") and f"tede.{ours}" in sys.modules:
                sys.modules.setdefault(f"tede.{inner}", sys.modules[f"tede.{ours}"])


def find_spec(name):
    """What finds tede.<path> where there is no file for it."""
    path = name.removeprefix("tede.")
    if path in MODULES:
        return ModuleSpec(name, Known(import_module("tede." + MODULES[path])))
    section = section_of(path)
    parent, _, last = name.rpartition(".")
    there = vars(sys.modules[parent]).get(last) if parent in sys.modules else None
    if section is None or there is not None and not isinstance(there, ModuleType):      # a class, say: a module would take its place
        return None
    return ModuleSpec(name, Maker(), is_package=has_modules(path))
