"""The generated stubs name what is there, and a type checker reads a program by them."""
import ast
import importlib.util
import pathlib
import subprocess
import sys

import pytest

import tede

STUBS = pathlib.Path(tede.__file__).parent / '_C'

PROGRAM = '''
import tede
import tede as torch
x = tede.zeros(2, 3, requires_grad=True)
reveal_type(x.sum(0, keepdim=True) + 1)
reveal_type(x.max(dim=1).indices)
reveal_type(tede.linalg.inv(x))
reveal_type(x.shape)
reveal_type(x.tolist)
torch.optim.AdamW(torch.nn.Linear(2, 3).parameters(), lr=1e-3)
x.sum(dmi=0)
tede.zeros(2, dtype="float32")
'''


def definitions(path):
    """{class name or '': names of its functions}"""
    found = {'': set()}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[''].add(node.name)
        elif isinstance(node, ast.ClassDef):
            found[node.name] = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


def test_the_stubs_name_what_is_there():
    main = definitions(STUBS / '__init__.pyi')
    assert not [n for n in main[''] - {'__getattr__'} if not hasattr(tede, n)]
    assert not [n for n in main['Tensor'] if not hasattr(tede.Tensor, n)]
    assert not [n for n in tede._C._functions if n not in main['']]
    assert not [n for n in tede._C._methods if n not in main['Tensor']]


@pytest.mark.parametrize('name', ['linalg', 'fft', 'special', 'nn'])
def test_the_stubs_of_a_family_name_what_is_there(name):
    there = {n for n in vars(getattr(tede._C, '_' + name)) if not n.startswith('__')}
    prefix = '' if name == 'nn' else name + '_'
    assert definitions(STUBS / f'_{name}.pyi')[''] == {n.removeprefix(prefix) for n in there}


def test_the_examples_pass_a_type_checker(tmp_path):
    root = pathlib.Path(__file__).parents[2]
    run = subprocess.run([sys.executable, '-m', 'mypy', '--cache-dir', str(tmp_path), 'examples'], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_type_checker_reads_a_program_by_them(tmp_path):
    program = tmp_path / 'program.py'
    program.write_text(PROGRAM)
    run = subprocess.run([sys.executable, '-m', 'mypy', '--follow-imports=silent', '--cache-dir', str(tmp_path), str(program)],
                         capture_output=True, text=True)
    lines = [line.partition(': ')[2] for line in run.stdout.strip().split('\n')]
    seen = [line.rpartition('type is ')[2].strip('"') for line in lines if 'Revealed' in line]
    assert seen[:4] == ['tede._C.Tensor', 'tede._C.Tensor', 'tede._C.Tensor', 'tede._C.Size']
    errors = [line for line in lines if line.startswith('error')]
    assert len(errors) >= 2 and all('dmi' in e or 'overload' in e or 'zeros' in e for e in errors)


TYPED = pathlib.Path(__file__).with_name('programs') / 'typed.py'


def test_a_typed_program_is_clean_under_strict_rules(tmp_path):
    run = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', str(tmp_path), str(TYPED)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_typed_program_runs(tmp_path):
    run = subprocess.run([sys.executable, str(TYPED), '--folder', str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith('accuracy'), run.stdout + run.stderr


# What PyTorch's stubs name of a tensor and tede's don't: Python 2's methods, and a constructor, which is __init__ here.
NOT_HERE = {'__div__', '__idiv__', '__long__', '__nonzero__', '__new__'}


def test_the_stubs_name_what_those_of_pytorch_name_of_tensors():
    torch = importlib.util.find_spec('torch')
    if torch is None:
        pytest.skip('there is no PyTorch')
    theirs = pathlib.Path(torch.origin).parent / '_C' / '__init__.pyi'
    found = {name for name in definitions(theirs)['TensorBase'] if not name.startswith('_') or name.startswith('__')}
    attributes = {node.target.id for kind in ast.parse((STUBS / '__init__.pyi').read_text()).body if getattr(kind, 'name', '') == 'Tensor'
                  for node in kind.body if isinstance(node, ast.AnnAssign)}
    assert len(found) > 500 and found - definitions(STUBS / '__init__.pyi')['Tensor'] - attributes == NOT_HERE
