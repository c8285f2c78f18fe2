"""What is written in Python is documented: each public function and class has a docstring with an example, and the examples run."""
import doctest
import importlib
import inspect
import re
import warnings

import pytest

import tede

MODULES = """
    tede tede.amp tede.autograd tede.autograd.forward_ad tede.autograd.functional tede.autograd.graph tede.distributions
    tede.distributions.constraints tede.func tede.gguf tede.memory tede.nn tede.nn.attention tede.nn.functional
    tede.nn.init tede.nn.parameter tede.nn.utils tede.nn.utils.parametrizations tede.nn.utils.parametrize tede.nn.utils.prune
    tede.nn.utils.rnn tede.npy tede.optim tede.optim.lr_scheduler tede.optim.swa_utils tede.random tede.safetensors
    tede.serialization tede.signal.windows tede.utils tede.utils.checkpoint tede.utils.data tede.utils.hooks""".split()
# How many names of a module still lack something; what isn't here lacks nothing. These numbers only fall.
LACKING = {'tede': 15, 'tede.memory': 7, 'tede.serialization': 1}


EXEMPT = re.compile(r'by its old(er)? name|^Removed:|^Raises NotImplementedError|can\'t be made\.|are its only instances\.')
# Types that are written in C.
IN_C = {'Size', 'Tensor', 'UntypedStorage', 'device', 'dtype', 'finfo', 'iinfo', 'layout', 'memory_format', 'FileStore', 'HashStore',
        'PrefixStore', 'Store', 'TCPStore'}


def ours(thing):
    """Whether it is written here, in Python. Operators have their text from their entries."""
    module = getattr(thing, '__module__', None) or ''
    return (module.startswith('tede') and module != 'tede._C' and type(thing).__name__ != 'builtin_operator'
            and not (inspect.isclass(thing) and thing.__name__ in IN_C))


def public(module):
    """{name: function or class} of what the module documents: what others have, too, counts where it comes first."""
    names = getattr(module, '__all__', None) or [n for n in vars(module) if not n.startswith('_')]
    found = {name: getattr(module, name, None) for name in names}
    return {name: thing for name, thing in found.items() if callable(thing) and ours(thing)
            and (inspect.isclass(thing) or inspect.isfunction(thing) or type(thing).__name__ == 'overridable')}


def members(kind):
    """{name: text} of the public methods and properties that a class has itself."""
    found = {}
    for name, value in vars(kind).items():
        function = getattr(value, '__func__', getattr(value, 'fget', value))
        if not name.startswith('_') and inspect.isfunction(function) and ours(function):
            found[name] = value.__doc__ or inspect.getdoc(getattr(kind, name))
    return found


def text_of(thing):
    doc = thing.__dict__.get('__doc__') if inspect.isclass(thing) else thing.__doc__
    return doc if isinstance(doc, str) else ''


def lacking(name, thing):
    """What isn't documented of a function or class. Exceptions, deprecated forms and what only refuses need no example."""
    doc = text_of(thing)
    if not doc:
        yield name
    elif '>>>' not in doc and not EXEMPT.search(doc) and not (inspect.isclass(thing) and issubclass(thing, Exception)):
        yield f'{name} (example)'
    if inspect.isclass(thing):
        yield from (f'{name}.{part}' for part, text in members(thing).items() if not text)


@pytest.mark.parametrize('module', MODULES)
def test_everything_public_is_documented_with_an_example(module):
    missing = [text for name, thing in sorted(public(importlib.import_module(module)).items()) for text in lacking(name, thing)]
    assert len(missing) <= LACKING.get(module, 0), missing


@pytest.mark.parametrize('module', MODULES)
def test_the_examples_of_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser, said = doctest.DocTestParser(), []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name, thing in public(importlib.import_module(module)).items():
        texts = {name: text_of(thing)}
        if inspect.isclass(thing):
            texts.update((f'{name}.{part}', text or '') for part, text in members(thing).items())
        for title, text in texts.items():
            if '>>>' in text:
                names = {'tede': tede, 'nn': tede.nn, 'F': tede.nn.functional}
                test = parser.get_doctest(inspect.cleandoc(text), names, title, module, 0)
                with tede.random.fork_rng(), warnings.catch_warnings():
                    warnings.simplefilter('ignore')             # some examples show what is deprecated
                    tede.manual_seed(0)
                    runner.run(test, out=said.append)
    assert not said, ''.join(said)
