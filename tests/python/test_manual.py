"""Every operator has a manual page, whose examples run, and a signature that binds the calls of its schemas."""
import ast
import doctest
import inspect
import json
import pickle
import pydoc
import subprocess
import sys

import pytest

import tede
from tede import _C, _manual

OPERATORS = {**{name: op for name, op in _C._functions.items()}, **{f'Tensor.{name}': op for name, op in _C._methods.items()},
             **{f'{module}.{name}': op for module in ('linalg', 'fft', 'special', 'nn') for name, op in vars(getattr(_C, '_' + module)).items()
                if not name.startswith('__')}}
PUBLIC = {path: op for path, op in OPERATORS.items() if not op.__name__.startswith('_')}


@pytest.mark.parametrize('name', [name for name, page in _manual._pages().items() if 'example' in page])
def test_examples_give_what_they_show(name):
    text = _manual._pages()[name]['example']
    test = doctest.DocTestParser().get_doctest(text, {'tede': tede}, name, 'operators.json', 0)
    said = []
    tede.manual_seed(0)
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert test.examples and not said, ''.join(said)


def test_every_page_has_more_than_a_line_and_an_example():
    """Parts of backward passes, and what can't be shown without a device, have none."""
    own = {name: page for name, page in _manual._pages().items() if not name.startswith('_') and 'of' not in page}
    assert len(own) > 600
    assert not [name for name, page in own.items() if 'example' not in page and '\n\n' not in page['text']]
    without = {name for name, page in own.items() if 'example' not in page and not name.endswith('_backward')}
    assert without <= {'fused_moving_avg_obs_fake_quant', 'grid_sampler_2d', 'grid_sampler_3d', 'nll_loss2d', 'nll_loss_forward', 'nll_loss_nd', 'pin_memory'}
    assert not [(name, line) for name, page in own.items() for _, line in page['arguments'] if line.endswith(':')]


def calls(form):
    """Calls by schema: the first so many arguments by position, the others by name."""
    _, varargs, _, _, arguments = form
    names = [name for name, only, _, _ in arguments if not only]
    for count in range(len(names) + 1):
        # What takes the rest, and what is a word of Python, can be given by position alone.
        if any(name == varargs or name in ('from', 'lambda') for name in names[count:]):
            continue
        if count or names[:1] != ['self']:
            yield [object()] * count, {name: object() for name, _, _, _ in arguments if name not in names[:count]}
    needed = [name for name, only, has_default, _ in arguments if not has_default and not only]
    if not any(only and not has_default for _, only, has_default, _ in arguments):
        yield [object()] * len(needed), {}


def test_signatures_bind_what_the_schemas_bind():
    failed = []
    for path, op in OPERATORS.items():
        signature = inspect.signature(op)
        ast.parse(f'def f{signature}: pass'.replace('torch.', '').replace('<', '"').replace('>', '"'))
        for form in op._forms:
            for args, kwargs in calls(form):
                try:
                    signature.bind(*args, **kwargs)
                except TypeError as error:
                    failed.append(f'{path}{signature}: {form[0]}: {len(args)} by position: {error}')
    assert not failed, '\n'.join(failed)


def test_what_no_form_takes_does_not_bind():
    for op, args, kwargs in ((tede.add, (1,), {}), (tede.add, (1, 2), {'nothing': 3}), (tede.zeros, (), {'nothing': 1}), (tede.sum, (), {})):
        with pytest.raises(TypeError):
            inspect.signature(op).bind(*args, **kwargs)


def test_bound_methods_have_a_signature_without_self():
    assert str(inspect.signature(tede.ones(2).add)) == '(other, *, alpha=1)'
    assert str(inspect.signature(tede.Tensor.add)) == '(self, other, *, alpha=1)'
    assert str(inspect.signature(tede.Tensor.view)) == '(self, *size, dtype=None)'


def test_pages_are_laid_out_like_a_manual():
    lines = tede.add.__doc__.splitlines()
    assert lines[0] == 'add(input, other, *, alpha=1, out=None) -> Tensor'
    titles = [line for line in lines if line.endswith(':') and not line.startswith(' ')]
    assert titles == ['Arguments:', 'Shape:', 'Dtypes:', 'Gradient:', 'Example:', 'Overloads:']
    assert 'out (Tensor' in tede.add.__doc__ and 'out (Tensor' not in tede.Tensor.add.__doc__
    assert 'The method of ``tede.add``' in tede.Tensor.add.__doc__ and 'Another name of ``tede.mul``' in tede.multiply.__doc__
    assert '    other (Tensor): what is copied' in tede.Tensor.copy_.__doc__ and 'beta (number' in tede.addmm.__doc__
    assert 'Differences from PyTorch:\n    ``alpha=0`` leaves the product' in tede.addmm.__doc__ and '.deprecated' not in tede.add.__doc__
    assert 'in-place form of ``tede.add``' in tede.Tensor.add_.__doc__
    assert not [path for path, op in PUBLIC.items() if 'Overloads:' not in op.__doc__ or not op.__doc__.splitlines()[0].endswith(
        tuple('Tensor Tensors None bool int float number dtype )'.split()))]
    assert 'add(input, other, *, alpha=1, out=None)' in pydoc.render_doc(tede.add, renderer=pydoc.plaintext)


def test_operators_of_one_name_in_two_namespaces_have_pages_of_their_own():
    with tede.library._scoped_library('manual_test', 'DEF') as library:
        library.define('add(Tensor x, int times=2) -> Tensor')
        page = tede.ops.manual_test.add.default._op.__doc__
        assert page.startswith('add(x, times=2) -> Tensor') and 'alpha' not in page


def test_an_operator_that_a_program_defines_has_its_docstring():
    @tede.library.custom_op('manual_test::scaled', mutates_args=())
    def scaled(x: tede.Tensor, factor: float = 2.0) -> tede.Tensor:
        """x times a factor.

        Example: scaled(x, 3.)"""
        return x * factor
    text = """scaled(x, factor=2.0) -> Tensor

x times a factor.

Example: scaled(x, 3.)

Overloads:
    scaled(Tensor x, float factor=2.0) -> Tensor"""
    assert tede.ops.manual_test.scaled.__doc__ == tede.ops.manual_test.scaled.default.__doc__ == text
    assert list(inspect.signature(scaled).parameters) == list(inspect.signature(tede.ops.manual_test.scaled).parameters) == ['x', 'factor']
    assert type(tede.ops.aten.add).__doc__ == 'All overloads of a name.' and tede.ops.aten.add.Tensor.__doc__.startswith('add(input, other')


@pytest.mark.parametrize('name', [name for name, method in vars(tede._C.Tensor).items() if not name.startswith('_') and
                                  not hasattr(method, '_forms') and '>>>' in (getattr(method, '__doc__', None) or '')])
def test_examples_of_what_is_no_operator_give_what_they_show(name):
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(vars(tede._C.Tensor)[name].__doc__), {'tede': tede}, name, 'methods.c', 0)
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert test.examples and not said, ''.join(said)


def test_methods_in_c_have_signatures():
    assert str(inspect.signature(tede.Tensor.size)) == '(self, /, dim=None)'
    assert str(inspect.signature(tede.ones(2).float)) == '(memory_format=None)'
    assert str(inspect.signature(tede.ones(2).is_contiguous)) == '(*, memory_format=None)'
    assert not [name for name, method in vars(tede._C.Tensor).items() if not name.startswith('_') and
                not inspect.isfunction(method) and type(method).__name__ in ('method_descriptor', 'getset_descriptor') and not method.__doc__]


def test_help_is_read_when_it_is_asked_for():
    run = subprocess.run([sys.executable, '-c', '''
import sys, tede
assert "tede._manual" not in sys.modules and "inspect" not in dir(tede._C)
tede.add.__doc__
assert "tede._manual" in sys.modules
'''], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_signatures_and_pages_under_pytorchs_name():
    run = subprocess.run([sys.executable, '-m', 'tede.as_torch', '-c', '''
import inspect, torch
print(inspect.signature(torch.add), inspect.signature(torch.Tensor.add_), torch.linalg.qr.__doc__.splitlines()[0])
'''], capture_output=True, text=True)
    assert run.stdout == "(input, other, *, alpha=1, out=None) (self, other, *, alpha=1) linalg.qr(A, mode='reduced', *, out=None) -> (Q, R)\n", run.stderr


def test_operators_are_still_pickled_by_name():
    assert pickle.loads(pickle.dumps(tede.add)) is tede.add and json.loads(json.dumps(_manual._pages()['add']))
