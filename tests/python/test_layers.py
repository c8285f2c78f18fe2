"""The include rule of docs/design.md: each layer includes only itself and what comes before it. Modules of Python don't import in
circles."""
import ast
import pathlib
import re

import pytest
import tede

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEFORE = {
    'base': [],
    'device': ['base'],
    'tensor': ['base', 'device'],
    'dispatch': ['base', 'device', 'tensor'],
    'formula': ['base', 'device', 'tensor', 'dispatch'],
    'autograd': ['base', 'device', 'tensor', 'dispatch'],
    'ops': ['base', 'device', 'tensor', 'dispatch', 'autograd'],
    'region': ['base', 'device', 'tensor', 'dispatch', 'formula', 'ops'],
    'layouts': ['base', 'device', 'tensor', 'dispatch', 'autograd', 'ops'],
    'libs': ['base'],
    'io': [],
    'optim': ['base'],
    'group': ['base', 'device', 'tensor', 'dispatch'],
    'trace': ['base', 'device', 'tensor', 'dispatch'],
    'transforms': ['base', 'device', 'tensor', 'dispatch', 'autograd'],
    'kernels': ['base', 'device', 'tensor', 'libs', 'ops'],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob('*') if p.suffix in ('.c', '.h'))


@pytest.mark.parametrize('layer', BEFORE)
def test_a_layer_includes_only_what_comes_before_it(layer):
    wrong = []
    for path in sources(f'src/{layer}'):
        for kind, name in INCLUDE.findall(path.read_text()):
            first = name.split('/')[0]
            if kind == '<' or first not in BEFORE or first == layer or first in BEFORE[layer]:
                continue
            wrong.append(f'{path.relative_to(ROOT)} includes {name}')
    assert not wrong


def test_public_headers_include_only_each_other_and_libc():
    wrong = [f'{path.name} includes {name}' for path in sources('include/tede')
             for kind, name in INCLUDE.findall(path.read_text())
             if not name.startswith('tede/') and not re.fullmatch(r'(std\w+|string|complex|math)\.h', name)]
    assert not wrong


def test_libraries_beside_the_core_see_only_public_headers():
    folders = ['devices', 'engines', 'layouts', 'operators']
    wrong = [f'{path.relative_to(ROOT)} includes {name}' for folder in folders for path in sources(folder)
             for kind, name in INCLUDE.findall(path.read_text())
             if (ROOT / 'src' / name).exists() or (kind == '"' and not (path.parent / name).exists())]
    assert not wrong


def test_the_binding_sees_only_public_headers():
    wrong = []
    for path in sources('python/csrc'):
        for kind, name in INCLUDE.findall(path.read_text()):
            own = name == f'calls_csrc_{path.stem}.h'        # generated: prototypes of public functions
            if kind == '"' and not own and not (path.parent / name).exists():
                wrong.append(f'{path.name} includes {name}')
    assert not wrong


def test_python_h_is_included_in_the_binding_only():
    assert not [str(p) for p in sources('src') + sources('include') if 'Python.h' in p.read_text()]


def test_nobody_includes_the_kernels():
    wrong = [f'{path.relative_to(ROOT)} includes {name}' for path in sources('src') if 'kernels' not in path.parts
             for kind, name in INCLUDE.findall(path.read_text()) if name.startswith('kernels/')]
    assert not wrong


# ---- Python ----------------------------------------------------------------------------------------------------------

def modules():
    """Name -> file, of the package's modules. Those in _compat/ are of the package itself."""
    root = ROOT / 'python'
    found = {}
    for path in sorted((root / 'tede').rglob('*.py')):
        parts = path.relative_to(root).with_suffix('').parts
        if '_shim' in parts:                # PyTorch's packages' names, for programs under as_torch
            continue
        if parts[1] == '_compat' and parts[2:] != ('__init__',):
            parts = (parts[0], *parts[2:])
        found['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = path
    return found


MODULES = modules()
# What `tede.<name>` loads when it is first named.
LAZY = {**{name: 'tede.functional' for name in (*tede.functional.__all__, 'nonzero') if name not in tede._C._functions},
        **{name: f'tede.{home}' for name, home in tede._WRITTEN.items()}, 'ops': 'tede._ops'}


class Imports(ast.NodeVisitor):
    """The modules that a module names: in imports, those within functions too, as `tede.<name>`, and in import_module("tede...")."""

    def __init__(self, module):
        path = MODULES[module]
        self.module, self.found = module, {}            # module -> line
        self.package = module.split('.') if path.name == '__init__.py' else module.split('.')[:-1]
        self.visit(ast.parse(path.read_text()))

    def add(self, name, node):
        """The root isn't counted: it holds the operators, which are the extension's, and the rest is named by LAZY."""
        if name in MODULES and name not in ('tede', self.module):
            self.found.setdefault(name, node.lineno)

    def add_member(self, package, name, node):
        if f'{package}.{name}' in MODULES:
            self.add(f'{package}.{name}', node)
        else:
            self.add(LAZY.get(name, package) if package == 'tede' else package, node)

    def visit_If(self, node):
        if not (isinstance(node.test, ast.Name) and node.test.id == 'TYPE_CHECKING'):
            self.generic_visit(node)

    def visit_Import(self, node):
        for alias in node.names:
            self.add(alias.name, node)

    def visit_ImportFrom(self, node):
        above = self.package[:len(self.package) - node.level + 1] if node.level else []
        package = '.'.join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            self.add_member(package, alias.name, node)

    def visit_Attribute(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == 'tede':
            self.add_member('tede', node.attr, node)
        self.generic_visit(node)

    def visit_Call(self, node):
        called = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
        if called in ('import_module', '__import__') and isinstance(node.args[0], ast.Constant):
            self.add(node.args[0].value, node)
        self.generic_visit(node)


def circles(graph):
    """The strongly connected components of more than one node (Tarjan)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]
    for node in graph:
        if node not in number:
            visit(node)
    return found


TABLE = re.compile(r'^#define \w+_(?:NUMBERS|FUNCTIONS)\(\w+\)(?:.*\\\n)*.*\n', re.M)
VENDORS = {'cublas.c', 'cudnn.c', 'cudnn.h', 'cudnn_graph.c', 'cudnn_graph.h', 'cudnn_handles.h', 'cufft.c', 'cusolver.c', 'vendor.c', 'vendor.h'}


@pytest.mark.parametrize('device', ['opencl', 'cuda'])
def test_a_device_is_its_table_and_little_else(device):
    """At most 700 lines, the lists of an API's numbers and functions and the files of vendors' libraries aside: kernels are the core's."""
    files = [path for path in sources(f'devices/{device}') if path.name not in VENDORS]
    assert sum(len(TABLE.sub('', path.read_text()).splitlines()) for path in files) <= 700


def test_modules_of_python_dont_import_in_circles():
    graph = {module: Imports(module).found for module in MODULES if module != 'tede'}
    assert not [f'{MODULES[module].relative_to(ROOT)}:{line} names {other}' for circle in circles(graph) for module in circle
                for other, line in graph[module].items() if other in circle]


def test_circles_are_seen():
    assert circles({'a': 'b', 'b': 'c', 'c': 'bd', 'd': ''}) == [['b', 'c']]
