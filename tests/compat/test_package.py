"""torch.package: what a package has, what its patterns decide, and that either library reads the other's."""
import importlib.resources
import inspect
import io
import pickle
import subprocess
import sys
import textwrap
import zipfile

import pytest

import tede
from tede.package import (
    EmptyMatchError, GlobGroup, ObjMismatchError, OrderedImporter, PackageExporter, PackageImporter, PackagingError, analyze, is_from_package, sys_importer)

SOURCES = {
    "grove/__init__.py": "from grove import leaves\nresult = 'grove'\n",
    "grove/leaves.py": """
        import math
        from . import roots
        from tede import nn

        class Leaf(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(nn.functional.pad(nn.Linear(2, 1).weight.detach(), (0, 1)))
            def forward(self, x):
                return (x * self.weight).sum() * math.sqrt(4) + roots.depth()
        def twice(x):
            return 2 * x
    """,
    "grove/roots.py": "def depth():\n    return 1\nclass Root:\n    pass\n",
    "grove/paths.py": "import os.path\nfrom xml.sax import xmlreader\n__import__('roots', globals(), fromlist=[''], level=1)\nseparator = os.path.sep\n",
}


@pytest.fixture(autouse=True)
def grove(tmp_path, monkeypatch):
    """A package of Python, on the path for as long as a test runs."""
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "grove"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "grove"]:
        del sys.modules[name]


def packed(fill, **options):
    """An importer of what `fill` puts into a package."""
    file = io.BytesIO()
    with PackageExporter(file, **options) as exporter:
        fill(exporter)
    file.seek(0)
    return PackageImporter(file)


def leaf(exporter):
    from grove.leaves import Leaf
    exporter.intern("grove.**")
    exporter.save_pickle("model", "model.pkl", Leaf())


def test_a_model_comes_with_its_sources():
    package = packed(leaf)
    model = package.load_pickle("model", "model.pkl")
    import grove.leaves
    assert type(model) is package.import_module("grove.leaves").Leaf is not grove.leaves.Leaf
    x = tede.ones(1, 3)
    assert model(x).item() == pytest.approx(2 * model.weight.sum().item() + 1)
    assert type(model).__module__ == f"{package.id()}.grove.leaves" and is_from_package(model) and not is_from_package(grove.leaves)
    assert inspect.getsource(type(model)) == inspect.getsource(grove.leaves.Leaf)
    assert package.import_module(type(model).__module__) is package.import_module("grove.leaves")
    with pytest.raises(ModuleNotFoundError, match="self-contained archive"):
        package.import_module("grove.paths")


def test_two_packages_do_not_share_modules():
    one, two = packed(leaf), packed(leaf)
    assert one.import_module("grove.roots") is not two.import_module("grove.roots")
    with pytest.raises(ObjMismatchError):
        packed(lambda e: e.save_pickle("m", "m.pkl", two.import_module("grove.roots").Root()), importer=(one, sys_importer))

    def again(exporter):
        exporter.intern("**")
        exporter.save_pickle("m", "m.pkl", one.load_pickle("model", "model.pkl"))
    assert packed(again, importer=(one, sys_importer)).load_pickle("m", "m.pkl").weight.equal(one.load_pickle("model", "model.pkl").weight)
    assert OrderedImporter(sys_importer, one).import_module("grove.roots") is sys.modules["grove.roots"]


def test_storages_are_written_once_and_shared():
    x = tede.arange(6.0)

    def fill(exporter):
        exporter.save_pickle("t", "a.pkl", [x, x[2:4]])
        exporter.save_pickle("t", "b.pkl", {"x": x, "kind": tede.float16, "device": tede.device("cpu")})
    package = packed(fill)
    whole, part = package.load_pickle("t", "a.pkl")
    whole.zero_()
    assert part.tolist() == [0, 0] and package.load_pickle("t", "b.pkl")["x"].equal(x) and package.load_pickle("t", "b.pkl")["kind"] is tede.float16
    assert [name for name in package.zip_reader.get_all_records() if name.endswith(".storage")] == [".data/0.storage"]
    assert package.load_pickle("t", "b.pkl", map_location="meta")["x"].is_meta


def test_imports_within_a_package():
    def fill(exporter):
        exporter.intern("grove.**")
        exporter.save_module("grove.paths")
        exporter.save_source_string("main.inner", "import grove.roots as r, grove.paths\nfrom grove.paths import *\nfrom . import other\n"
                                                  "value = r.depth(), separator")
        exporter.save_source_string("main.other", "", is_package=True)
    package = packed(fill)
    import os.path
    main = package.import_module("main.inner")
    assert main.value == (1, os.path.sep) and main.other is package.import_module("main.other") is package.import_module(".other", "main")
    assert package.import_module("grove.paths").xmlreader.__name__ == "xml.sax.xmlreader"
    assert package.import_module("os.path") is os.path
    with pytest.raises(ValueError, match="beyond top-level package"):
        package.import_module("...x", "main")


def test_patterns_decide_what_is_done_with_modules():
    needs = lambda exporter: exporter.save_source_string("main", "import grove.leaves\nfrom grove.roots import depth")     # noqa: E731
    with pytest.raises(PackagingError, match=r"did not match against any action pattern.*\n    grove.leaves\n    grove.roots"):
        packed(needs)
    with pytest.raises(PackagingError, match="denied"):
        packed(lambda e: (e.deny("grove.r*"), e.extern("**"), needs(e)))
    with pytest.raises(EmptyMatchError, match="did not match any modules"):
        packed(lambda e: (e.extern("**"), e.mock("heath.**", allow_empty=False), needs(e)))
    with pytest.raises(PackagingError, match="beyond top-level package"):
        packed(lambda e: e.save_source_string("main", "from ... import x"))
    with pytest.raises(PackagingError, match=r"gives access to the whole system"):
        packed(lambda e: e.save_source_string("main", "import sys"))
    noted = []

    def fill(exporter):
        exporter.register_extern_hook(lambda exporter, name: noted.append(("extern", name)))
        exporter.register_mock_hook(lambda exporter, name: noted.append(("mock", name)))
        exporter.register_intern_hook(lambda exporter, name: noted.append(("intern", name))).remove()
        exporter.extern("grove.leaves")
        exporter.mock(["grove.*"], exclude=["grove.paths"])
        needs(exporter)
        assert exporter.externed_modules() == ["grove.leaves"] and exporter.mocked_modules() == ["grove.roots"]
        assert exporter.interned_modules() == ["main"] and exporter.get_rdeps("grove.roots") == ["main"]
        assert '"main" -> "grove.roots"' in exporter.dependency_graph_string()
    package = packed(fill)
    main = package.import_module("main")
    assert noted == [("extern", "grove.leaves"), ("mock", "grove.roots")]
    import grove.leaves
    assert main.grove.leaves is grove.leaves
    with pytest.raises(NotImplementedError, match="'.*grove.roots.depth' was mocked out"):
        main.depth()
    for use in (lambda x: x + 1, lambda x: 1 - x, lambda x: x[0], bool, len, next, iter, lambda x: x.inner()):
        with pytest.raises(NotImplementedError, match="was mocked out"):
            use(main.depth)
    with pytest.raises(ImportError, match="disallowed"):
        PackageImporter(io.BytesIO(_bytes_of(fill)), module_allowed=lambda name: name != "grove.leaves")


def _bytes_of(fill):
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        fill(exporter)
    return file.getvalue()


def test_objects_of_mocked_modules_are_refused():
    from grove.roots import Root
    with pytest.raises(PackagingError, match="mocked out, but is still being used"):
        packed(lambda e: (e.mock("grove.**"), e.save_pickle("m", "m.pkl", Root())))


def test_what_is_raised_while_a_package_is_made_is_not_hidden():
    with pytest.raises(ModuleNotFoundError, match="heath"):
        packed(lambda e: (e.extern("foo", allow_empty=False), e.save_module("heath")))
    with pytest.raises(AssertionError, match="already exists"):
        packed(lambda e: [e.save_text("a", "b.txt", "") for _ in range(2)])
    for name in ("", "../b", "a/b"):
        with pytest.raises(ValueError, match="only a file name"):
            packed(lambda e, name=name: e.save_text("a", name, ""))


@pytest.mark.parametrize("unpacked", [False, True])
def test_resources_are_found_by_packaged_code(tmp_path, unpacked):
    def fill(exporter):
        exporter.save_text("data", "words.txt", "some words")
        exporter.save_binary("data.inner", "bytes", b"\0\1")
        exporter.save_source_string("main", "import importlib.resources, data, torch_package_importer\n"
                                            "words = importlib.resources.read_text(data, 'words.txt')\n"
                                            "raw = torch_package_importer.load_binary('data.inner', 'bytes')\n")
    path = tmp_path / "p.pt"
    path.write_bytes(_bytes_of(fill))
    if unpacked:
        zipfile.ZipFile(path).extractall(tmp_path / "folder")
        path = tmp_path / "folder" / "archive"
    package = PackageImporter(path)
    main = package.import_module("main")
    assert (main.words, main.raw) == ("some words", b"\0\1") and package.load_text("data", "words.txt") == "some words"
    reader = package.get_resource_reader("data")
    assert sorted(reader.contents()) == ["inner", "words.txt"] and reader.is_resource("words.txt") and not reader.is_resource("inner")
    assert package.get_resource_reader("heath") is None and importlib.resources.files(main.data).joinpath("words.txt").is_file()
    if unpacked:
        assert reader.resource_path("words.txt") == str(path / "data" / "words.txt")
    else:
        with pytest.raises(FileNotFoundError):
            reader.resource_path("words.txt")
    tree = package.file_structure(include="data/**")
    assert tree.has_file("data/inner/bytes") and not tree.has_file("data/inner") and not tree.has_file("main.py")
    assert str(tree).splitlines()[1:] == ["    └── data", "        ├── inner", "        │   └── bytes", "        └── words.txt"]


def test_glob_groups():
    assert [GlobGroup("a.**.z").matches(name) for name in ("a.z", "a.b.c.z", "az", "a.z.b")] == [True, True, False, False]
    assert [GlobGroup("a*.b", exclude="ab.*").matches(name) for name in ("a.b", "aa.b", "ab.b", "a.c.b", "")] == [True, True, False, False, False]
    with pytest.raises(ValueError, match="entire path segment"):
        GlobGroup("a.**b")


def test_graph_modules_bring_their_code():
    import grove.leaves
    graph = tede.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(tede.sin, (graph.call_function(grove.leaves.twice, (x,)),)))
    module = tede.fx.GraphModule(tede.nn.Module(), graph)
    module.note = "kept"
    package = packed(lambda e: (e.intern("grove.**"), e.save_pickle("m", "m.pkl", module)))
    loaded = package.load_pickle("m", "m.pkl")
    x = tede.arange(3.0)
    assert loaded(x).equal(module(x)) and loaded.note == "kept" and [node.op for node in loaded.graph.nodes] == [node.op for node in graph.nodes]
    assert "from grove.leaves import twice as" in package.get_source("fx-generated._0")
    assert pickle.loads(pickle.dumps(module)).note == "kept"


def test_what_is_used_can_be_found_out():
    from grove.leaves import Leaf
    used = analyze.trace_dependencies(Leaf(), [(tede.ones(3),)])
    assert "grove.leaves" in used and "grove.roots" in used and "grove.paths" not in used
    with pytest.raises(PackagingError) as caught:
        packed(lambda e: (e.intern("grove.leaves"), e.save_source_string("main", "import grove.leaves")))
    assert analyze.find_first_use_of_broken_modules(caught.value) == {"grove.roots": ["main", "grove.leaves", "grove.roots"]}


SHARED = """
import torch
from torch import nn
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(3.) + 1)
    def forward(self, x):
        return nn.functional.relu(self.w - x)
def plain(x):
    return torch.neg(x)
"""
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import {library} as torch
from {library}.package import PackageExporter, PackageImporter
if {path!r}:
    package = PackageImporter({path!r})
    print(package.load_pickle("m", "m.pkl")(torch.arange(3.)).tolist(), package.load_pickle("m", "g.pkl")(torch.ones(2)).tolist())
else:
    from shared import Shared, plain
    with PackageExporter({out!r}) as exporter:
        exporter.intern("shared")
        exporter.save_pickle("m", "m.pkl", Shared())
        exporter.save_pickle("m", "g.pkl", torch.fx.symbolic_trace(plain))
"""


@pytest.mark.parametrize("writer", ["tede", "torch"])
def test_either_library_reads_the_others_packages(tmp_path, writer):
    pytest.importorskip("torch")
    (tmp_path / "shared.py").write_text(SHARED)

    def run(library, path="", out="", as_torch=False):
        text = PROGRAM.format(folder=str(tmp_path), library=library, path=path, out=out)
        command = [sys.executable, "-W", "ignore", *(["-m", "tede.as_torch"] if as_torch else []), "-c", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path = str(tmp_path / "p.pt")
    run("torch", out=path, as_torch=writer == "tede")
    (tmp_path / "shared.py").unlink()
    assert run("tede", path) == run("torch", path) == run("torch", path, as_torch=True) == "[1.0, 1.0, 1.0] [-1.0, -1.0]\n"
