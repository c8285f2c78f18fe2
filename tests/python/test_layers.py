"""The include rule of docs/design.md: each layer includes only itself and what comes before it."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEFORE = {
    'base': [],
    'tensor': ['base'],
    'dispatch': ['base', 'tensor'],
    'formula': ['base', 'tensor', 'dispatch'],
    'ops': ['base', 'tensor', 'dispatch'],
    'autograd': ['base', 'tensor', 'dispatch'],
    'libs': ['base'],
    'io': [],
    'optim': ['base'],
    'trace': ['base', 'tensor', 'dispatch'],
    'transforms': ['base', 'tensor', 'dispatch', 'autograd'],
    'kernels': ['base', 'tensor', 'libs', 'ops'],
}
# What stands between layers on purpose: file -> the headers that it may include besides.
BESIDES = {
    'tensor': {'dispatch/masks.h'},                      # the thread's masks are read where views are made
    'dispatch': {'autograd/node.h', 'ops/pointwise.h', 'ops/spec.h'},   # glue.h: what generated operators lean on
    'ops': {'autograd/node.h'},
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
            if kind == '<' or first not in BEFORE or first == layer or first in BEFORE[layer] or name in BESIDES.get(layer, ()):
                continue
            wrong.append(f'{path.relative_to(ROOT)} includes {name}')
    assert not wrong


def test_public_headers_include_only_each_other_and_libc():
    wrong = [f'{path.name} includes {name}' for path in sources('include/tede')
             for kind, name in INCLUDE.findall(path.read_text())
             if not name.startswith('tede/') and not re.fullmatch(r'(std\w+|string|complex|math)\.h', name)]
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
