"""Call every public Python function, method and class with arguments that it isn't made for: none at all, too many, unknown
keywords, and objects of all kinds, some of them hostile. Each call must return or raise; a crash, a hang, a SystemError, a
MemoryError for small arguments, a name that isn't defined, or memory that failed calls keep is wrong.

    python tools/fuzz_python.py                     # all functions, a table of calls and 20 drawn ones each
    python tools/fuzz_python.py --sample 20         # every 20th function, another choice for each --seed
    python tools/fuzz_python.py --match 'nn.functional' --calls 500
    python tools/fuzz_python.py --only 'tede.sum' --call 17 --here      # one call again, in a debugger

`make fuzz-python` runs it on a build with AddressSanitizer and UndefinedBehaviorSanitizer."""
import argparse
import gc
import importlib
import inspect
import os
import pkgutil
import random
import re
import sys
import tempfile
import types
import warnings

import fuzzing

# Not called: what starts processes, compilers or threads by the number, copies of a module by the number, reads the network, ends the
# process, or takes its input.
LEFT_OUT = re.compile(r'''
    hub\. | cpp_extension | multiprocessing | DataLoader | \bdataloader | spawn | start_processes | set_num_(interop_)?threads | __main__ | testing\._internal
    | \.func\._interpreters | Transformer(De|En)coder$ | _get_clones | _reverse_repeat_tuple | proxy_tensor\._names | as_torch\.
    | _library_load | _device_load | \bload_library | collect_env | \bexplain\b | \.show$ | breakpoint | \bbackend_registration
    | tede\.utils\._pytree\.(?!tree) | \._set_package$ | _weights_only_unpickler\.main | sleep | \bprofiler\.itt
    # Internal: they trust the modules that call them, and what they change is the process's.
    | overrides\._push_mode | _explain\.\w+\.listen | register_package
    | tede\._C\._(register|define|undefine|set_promotion|replace|tensor_over|set_module_hooks|transform|push|pop|
                  end_dual|set_below|vmap_fallback|watch|node_class|apply_function|set_version|set_python|batch|Set)''', re.X)
SECONDS = 10            # of the processor, for one call
TOGETHER = 40           # functions that share a process
LARGE = 1 << 20         # arguments with a number beyond this aren't small


# ---- what is called

def modules():
    """All modules of the package, imported."""
    import tede
    for found in pkgutil.walk_packages(tede.__path__, 'tede.', onerror=lambda name: None):
        if LEFT_OUT.search(found.name) or found.name == 'tede.libtede':
            continue
        try:
            importlib.import_module(found.name)
        except ImportError:             # of something that isn't installed
            continue
    return sorted(name for name in sys.modules if name == 'tede' or name.startswith('tede.'))


def targets():
    """{name: callable}: what modules define or lend, each once, and the methods of tensors and of the extension's types."""
    import tede
    found, seen = {}, set()

    def add(name, value):
        if callable(value) and id(value) not in seen and not isinstance(value, types.ModuleType) and not LEFT_OUT.search(name):
            seen.add(id(value))
            found[name] = value
    for module in modules():
        members = vars(sys.modules[module])
        for name in sorted(members):
            own = getattr(members[name], '__module__', None)
            if module.startswith('tede._C') or (isinstance(own, str) and own.startswith('tede')):
                add(f'{module}.{name}', members[name])
    for cls in (tede.Tensor, tede.Size, tede.Generator, tede.device, tede.dtype, tede.UntypedStorage, tede.TypedStorage,
                tede.nn.Module, tede._C._ModuleBase, tede.optim.Optimizer, tede.finfo, tede.iinfo):
        for name in sorted(dir(cls)):
            if name not in ('__class__', '__init_subclass__', '__subclasshook__', '__new__', '__getattribute__', '__dir__'):
                add(f'{cls.__module__}.{cls.__name__}.{name}', getattr(cls, name, None))
    return found


# ---- objects

class Raises:
    """Each protocol raises, or what `how` says."""

    def __init__(self, how):
        self.how = how

    def answer(self, *args, **kwargs):
        if args and type(args[0]) is int and args[0] > 5:       # an item: the sequence ends
            raise IndexError
        if isinstance(self.how, BaseException):
            raise type(self.how)(*self.how.args)         # one that is raised again keeps the tracebacks that it had
        if self.how == 'clear':
            for items in self.lists:
                items.clear()
            return 0
        return self.how

    lists = ()


def hostile(name, protocols, answers):
    return [type(name, (Raises,), {protocol: Raises.answer for protocol in protocols})(answer) for answer in answers]


def hostile_objects():
    failures = [ValueError('hostile'), RecursionError('hostile'), 'clear']
    made = []
    for protocol, answers in {
            '__index__': [2 ** 62, -1, 2 ** 100, 'x', None], '__int__': [2 ** 62], '__float__': [float('nan'), 'x'], '__complex__': [1j, 'x'],
            '__bool__': [2], '__len__': [2 ** 62, -1, 3, 'x'], '__getitem__': [1], '__iter__': [1, iter([1, 2])], '__hash__': ['x'], '__eq__': [None],
            '__repr__': [3], '__str__': [3], '__array__': [1, None, 'x'], '__array_interface__': [{}], '__dlpack__': [1, None], '__call__': [None],
            '__torch_function__': [NotImplemented, 1], '__dlpack_device__': [(1, 0), 1], '__enter__': [None], '__buffer__': [1],
            '__fspath__': ['x', 3], '__contains__': [True], '__getattr__': [1], '__instancecheck__': [True], '__reduce_ex__': [1]}.items():
        made += hostile('Hostile' + protocol.strip('_'), [protocol], failures + answers)
    made += hostile('HostileSequence', ['__getitem__', '__len__'], failures + [3])
    return made


def values(tede, rng):
    """A function that draws an argument."""
    import contextlib
    np = None
    with contextlib.suppress(ImportError):
        import numpy as np
    wicked = hostile_objects()
    lists = []

    def shape():
        return rng.choice([(), (0,), (1,), (3,), (4,), (2, 3), (3, 3), (2, 0), (1, 2, 3), (2, 3, 4), (1, 2, 4, 4), (1,) * 9])

    def tensor():
        dtype = getattr(tede, rng.choice(['float32'] * 6 + ['int64'] * 3 + ['float64', 'bool', 'uint8', 'int32', 'complex64', 'float16', 'bfloat16',
                                                                      'uint64']))
        x = tede.ones(shape()).mul(rng.choice([0, 1, 2, -1, 90])).to(dtype)
        how = rng.randrange(14)
        if how == 0 and x.dim():
            x = x.transpose(0, -1)
        elif how == 1:
            x = tede.ones((), dtype=dtype).expand(x.shape)
        elif how == 2 and x.dim():
            x = x[::-1]
        elif how == 3 and (dtype.is_floating_point or dtype.is_complex):
            x.requires_grad_()
        elif how == 4:
            x = x.to('meta')
        elif how == 5 and x.dim() == 2:
            x = x.to_sparse()
        elif how == 6 and dtype.is_complex:
            x = x.conj()
        elif how == 7:
            x = tede.nn.Parameter(x, requires_grad=False)
        elif how == 8 and x.dim() and x.shape[0] > 1:
            x = x[1:]
        return x

    def number():
        return rng.choice([0, 1, 1, 2, 2, 3, -1, 5, 100, True, 0.5, 1., -1., float('nan'), float('inf'), 1e308, 2 ** 31, 2 ** 62, 2 ** 63 - 1, -2 ** 63,
                           2 ** 63, 2 ** 64, 10 ** 30, 1j, complex('nan')])

    def word():
        return rng.choice(['', 'sum', 'mean', 'none', 'constant', 'reflect', 'bilinear', 'cpu', 'meta', 'cuda:99', 'cpu:-1', 'ij,jk->ik', '...', 'float32',
                           'a' * 300, '\udc80', '\0', '%s%n', '{}', 'é', b'', b'\x80abc', bytearray(3)])

    def array():
        if np is None:
            return memoryview(bytearray(8))
        x = rng.choice([lambda: np.ones((2, 3)), lambda: np.arange(6)[::-2], lambda: np.array('x'), lambda: np.array([None, 1]), lambda: np.zeros(2, 'M8[s]'),
                        lambda: np.zeros(2, 'i4,f4'), lambda: np.float32(1), lambda: np.bool_(1), lambda: np.array(3), lambda: np.ones(3, '>f4'),
                        lambda: np.zeros((0, 3)), lambda: np.frombuffer(b'12345678', 'f4'), lambda: np.lib.stride_tricks.as_strided(np.ones(1), (4,), (0,)),
                        lambda: np.ones(3, 'f2'), lambda: np.int64(2), lambda: np.longdouble(1)])
        return x()

    def sequence(depth):
        if rng.random() < 0.08:
            around = [1]
            around.append(around)
            return around
        kind = rng.choice([tensor, number, number, lambda: anything(depth + 1), lambda: rng.choice(wicked)])
        items = [kind() for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]
        lists.append(items)
        Raises.lists = lists[-4:]
        how = rng.randrange(8)
        return items if how < 4 else tuple(items) if how < 6 else (x for x in items) if how == 6 else dict(enumerate(items))

    def other():
        return rng.choice([lambda: None, lambda: None, lambda: getattr(tede, rng.choice(['float32', 'int64', 'complex64', 'bool'])), lambda: tede.device('cpu'),
                           lambda: tede.strided, lambda: tede.channels_last, lambda: tede.Generator(), lambda: tede.Size([2]), lambda: slice(1, None, -1),
                           lambda: ..., lambda: set(), object, lambda: lambda *a, **k: a[0], lambda: int, lambda: tede.nn.Linear(3, 3), lambda: tede.Tensor,
                           lambda: types, lambda: memoryview(b'123'), lambda: range(3), lambda: tede.ones(2).untyped_storage(), lambda: tede.sum,
                           lambda: tede.nn.Parameter, lambda: types.SimpleNamespace(), lambda: tede.optim.SGD([tede.ones(2)], 0.1)])()

    def anything(depth=0):
        try:
            return made(depth)
        except Exception:               # a call before registered a hook, say
            return None

    def made(depth):
        draw = rng.random()
        if draw < 0.4:
            return tensor()
        if draw < 0.6:
            return number()
        if draw < 0.7 and depth < 3:
            return sequence(depth)
        if draw < 0.78:
            return word()
        if draw < 0.83:
            return array()
        return rng.choice(wicked) if draw < 0.91 else other()
    return anything


# ---- calls

def parameters(fn):
    """Names that keywords may have."""
    try:
        return [p.name for p in inspect.signature(fn).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    except (ValueError, TypeError):
        doc = fn.__doc__ if isinstance(getattr(fn, '__doc__', None), str) else ''
        return re.findall(r'[\w\]\[?!)] (\w+)(?=[=,)])', doc.partition('\n')[0]) or ['input', 'dim', 'out', 'dtype', 'size']


def table(tede):
    """[(args, kwargs)]: what every function is called with."""
    x = tede.ones(2, 3)
    positional = [(), (None,), (None, None), (object(),), ('x',), (x,), (x, None), (x, x), (x, 2), (x, [1]), ([x],), ([],), (2 ** 70,), (-1,),
                  (x, 2 ** 63), (x,) * 30, (None,) * 50, (x, 'x'), (1.5,), (x, object())]
    by_name = [((), {'x': 1}), ((), {'no_such_keyword': x}), ((x,), {'no_such_keyword': 1}), ((x,), {'out': 3}), ((x,), {'dtype': 'x'}),
               ((), {'input': x, 'self': x})]
    return [(args, {}) for args in positional] + by_name


def flat(value, depth=0):
    if depth < 3 and isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        yield from flat(list(value.values()), depth + 1)
    else:
        yield value


def is_small(args, kwargs):
    return not any((type(v) in (int, float) and not abs(v) < LARGE) or isinstance(v, Raises) for v in flat([args, kwargs]))


def right(error):
    """CheckpointException is a BaseException, as in PyTorch: the errors of some ranks."""
    raised = Exception, SystemExit, KeyboardInterrupt, importlib.import_module("tede.distributed.checkpoint").CheckpointException
    return isinstance(error, raised) and not isinstance(error, (SystemError, MemoryError, NameError))


class Call:
    """One call. One that fails is made again, several times, now and then: what it keeps shows in counts."""

    def __init__(self, tede, fn, args, kwargs, again):
        self.tede, self.fn, self.args, self.kwargs, self.again = tede, fn, args, kwargs, again

    def __call__(self):
        try:
            self.once()
        except MemoryError:
            if is_small(self.args, self.kwargs):
                raise
            return None
        except Exception as error:
            if not self.again or not right(error):
                raise
            if 'argument after *' in str(error):        # CPython 3.11 itself leaks the keywords of f(*None, x=x)
                return None
            del error
            return self.leaks()

    def once(self):
        result = self.fn(*self.args, **self.kwargs)
        if inspect.iscoroutine(result):
            result.close()

    def leaks(self, times=16):
        def state():
            gc.collect()
            return self.tede._C.memory_stats()['live_blocks'], *(sys.getrefcount(a) for a in self.args)

        def repeat(n):
            for _ in range(n):
                try:
                    self.once()
                except Exception:
                    pass
        repeat(4)
        before = state()
        repeat(times)
        after = state()
        kept = [b - a for a, b in zip(before, after)]
        if max(kept) >= times:
            repeat(times)
            if max(b - a for a, b in zip(after, state())) >= times:
                return fuzzing.Complaint(f'{times} calls that failed kept {kept} memory blocks and references to the arguments')


def brief(value, depth=0):
    kind = type(value)
    if value is None or kind in (int, float, str, bytes, complex, bool):
        return ascii(value)[:40]
    if kind in (list, tuple) and depth < 2:
        return f'{"[" if kind is list else "("}{", ".join(brief(v, depth + 1) for v in value[:5])}{"]" if kind is list else ")"}'
    if hasattr(kind, 'untyped_storage'):
        return f'tensor({str(value.dtype).partition(".")[2]}, {tuple(value.shape)}{", grad" if value.requires_grad else ""}{", meta" if value.is_meta else ""})'
    if isinstance(value, Raises):
        return f'{kind.__name__}({ascii(value.how)[:30]})'
    return kind.__name__


def calls_of(tede, name, fn, seed, drawn, only):
    """[(title, call, False)] of one function: the table, then drawn ones."""
    rng = random.Random(f'{name} {seed}')
    anything, words = values(tede, rng), parameters(fn)
    is_method = name.startswith('tede.Tensor.')
    for k in range(-len(table(tede)), drawn):
        tede.set_default_device(None)           # one that isn't there, which a call before has set, would be what arguments are made on
        if k < 0:
            args, kwargs = table(tede)[k]
        else:
            args = [anything() for _ in range(rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 7]))]
            if is_method and rng.random() < 0.8 or rng.random() < 0.3:
                args[0] = tede.ones(rng.choice([(3,), (2, 3), (3, 3)]))
            kwargs = {word: anything() for word in words if rng.random() < 0.15} if words else {}
        if only is None or only == k:
            title = f'{name} #{k}({", ".join([brief(a) for a in args[:8]] + [f"{w}={brief(v)}" for w, v in kwargs.items()])})'
            # x.method() of a class, some ten times over, may end CPython itself: 3.11 to 3.13 crash after str.split() without arguments.
            again = k % 10 == 0 and not any(isinstance(value, type) for value in flat([args, kwargs]))
            yield title.encode('ascii', 'replace').decode(), Call(tede, fn, args, kwargs, again), False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sample', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--calls', type=int, default=20, help='drawn calls of each function')
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--only', help='one function')
    parser.add_argument('--call', type=int, help='one of its calls, by number')
    parser.add_argument('--here', action='store_true', help='all in one process')
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    sys.unraisablehook = lambda unraisable: None
    import tede
    fuzzing.limit_memory(3)
    found = targets()
    names = [options.only] if options.only else sorted(found)[options.seed % options.sample::options.sample]
    names = [name for name in names if not options.match or options.match.search(name)]
    wrong, made, todo = [], 0, list(names)
    gc.freeze()                                 # what is collected later is what calls made
    report = os.fdopen(os.dup(1), 'w', buffering=1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)                        # some write files
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(0, 2) if not options.here else None
        while todo:
            group, todo = todo[:TOGETHER], todo[TOGETHER:]
            count, complaints, last = fuzzing.watched(group[0], (call for name in group for call in calls_of(
                tede, name, found[name], options.seed, options.calls, options.call)), right, SECONDS, options.here)
            made += count
            wrong += complaints
            for line in complaints:
                print(line[:400], file=report)
            if last is not None:                # go on behind the function that ended the process
                name = last.partition(' #')[0]
                todo = group[group.index(name) + 1:] + todo if name in group else todo
        os.chdir('/')
    print(f'{len(names)} functions of {len(found)}, {made} calls, {len(wrong)} wrong', file=report)
    return bool(wrong) or not names


if __name__ == '__main__':
    sys.exit(main())
