"""Call every operator with arguments that it should refuse: each rule of codegen/requires.py broken, and operands of every
dtype, rank, device, layout and number format, too short, too long and empty; in place and with out= as well, where the result doesn't fit either.
An operator without a call that is known to be right (a helper of gradients) gets arguments drawn at random.
Whatever it does must be a result or an exception of the right type.

    python tools/fuzz_ops.py                 # all operators
    python tools/fuzz_ops.py --sample 20     # every 20th, another choice for each --seed
    python tools/fuzz_ops.py --match '^conv'
    python tools/fuzz_ops.py --drawn --draws 300    # drawn arguments for all, and more of them

`make fuzz-ops` runs it on a build with AddressSanitizer and UndefinedBehaviorSanitizer, which end an
operator's process at the first byte out of bounds."""
import argparse
import pathlib
import random
import re
import sys
import warnings

import fuzzing

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests' / 'sweep'), str(ROOT)]
RIGHT = RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, OverflowError
BAD = {'dim': (99, -99), 'count': (-1, -2 ** 40), 'positive': (0, -1), 'size': (-2, -2 ** 62), 'word': ('no such word',),
       'any': (0, -1, 3, 300, -2 ** 62, 2 ** 62)}
# Rules that an operator may not let pass.  (Others may accept a value where it doesn't matter: an empty operand, a default.)
STRICT = {'dim', 'word'}
SECONDS = 20        # of the processor; a call that takes longer found a number too large to be refused late
USUAL = 0, 1, 1, 2, 2, 3, -1, -2
EXTREME = 5, 7, 100, -3, -7, -100, 2 ** 31 - 1, -2 ** 31, 2 ** 32, 2 ** 62, -2 ** 62, 2 ** 63 - 1, -2 ** 63
LENGTHS = [0, 1, 2, 3, 4] * 6 + [65, 140]       # tensors have at most 64 dimensions
HERE = False        # whether all runs in one process


def of_other_layouts(x, tede):
    """[(title, tensor)]: what stands for x in other layouts and number formats, as far as these have such a shape."""
    x = x.detach()
    numbers = x.to(tede.float32)
    ways = {
        'jagged': lambda: tede.nested.nested_tensor(list(tede.atleast_2d(numbers).unbind()) + [tede.ones(0, *numbers.shape[2:])], layout=tede.jagged),
        'nested': lambda: tede.nested.nested_tensor(list(tede.atleast_1d(numbers).unbind())), 'no components': lambda: tede.nested.nested_tensor([]),
        'quantized': lambda: tede.quantize_per_tensor(numbers, 0.5, 3, tede.quint8), 'qint32': lambda: tede.quantize_per_tensor(numbers, 0.5, 0, tede.qint32),
        'quantized by channel': lambda: tede.quantize_per_channel(numbers, tede.ones(x.size(0)), tede.zeros(x.size(0)), 0, tede.qint8),
        'COO': lambda: x.to_sparse(), 'hybrid': lambda: x.to_sparse(1), 'CSR': lambda: x.to_sparse_csr(), 'BSC': lambda: x.to_sparse_bsc((1, 1)),
        'packed': lambda: tede.ones(64, 64).to_packed('q8_0'), 'conjugated': lambda: x.to(tede.complex64).conj(),
        **{name: lambda name=name: numbers.to(getattr(tede, name)) for name in ('float8_e4m3fn', 'float8_e8m0fnu', 'complex32')},
        **{name: lambda name=name: x.to(tede.uint8).view(getattr(tede, name)) for name in ('bits8', 'float4_e2m1fn_x2')},
    }
    for title, make in ways.items():
        try:
            yield title, make()
        except RIGHT:       # no such shape
            pass


def broken(op, call, tede):
    """[(title, argument, value, strict)]: what one argument is changed to, each; those left to their defaults too."""
    from codegen.requires import requires
    rules = requires(op)
    positional = [a.name for a in op.schema.arguments if not a.keyword_only]
    given = {**dict(zip(positional, call.args)), **call.kwargs}
    for a in op.schema.arguments:
        value, rule = given.get(a.name), rules.get(a.name)
        for bad in BAD.get(rule, ()):
            changed = [bad] * max(1, len(value or '1')) if a.list else bad
            yield f'{a.name}={changed}', a.name, changed, rule in STRICT
        if a.is_tensor and not a.list:
            if value is None:
                value = tede.ones(3)
            if not value.is_floating_point():
                for bad in 99, -99, 2 ** 62:
                    if rule == 'index' or value.dtype in (tede.int32, tede.int64):
                        yield f'{a.name} has {bad}', a.name, tede.full_like(value, bad if value.dtype == tede.int64 else bad % 2 ** 31), False
            for dtype in 'bool', 'uint8', 'int32', 'int64', 'uint64', 'float16', 'bfloat16', 'float64', 'complex64':
                yield f'{a.name} is {dtype}', a.name, value.to(getattr(tede, dtype)), False
            for shape in (), (0,), (1,), (5,), (0, 3), (2, 0), (1, 2, 1, 2, 1, 2), (7, 5, 3):
                yield f'{a.name} is {list(shape)}', a.name, tede.ones(shape, dtype=value.dtype), False
            for k in range(value.dim()):
                yield f'{a.name} is short in {k}', a.name, value.narrow(k, 0, max(value.size(k) - 1, 0)), False
                yield f'{a.name} is long in {k}', a.name, tede.cat([value, value], k), False
                yield f'{a.name} is empty in {k}', a.name, value.narrow(k, 0, 0), False
                yield f'{a.name} lacks {k}', a.name, value.sum(k).to(value.dtype), False
            yield f'{a.name} is transposed', a.name, value.permute(list(range(value.dim()))[::-1]), False
            yield f'{a.name} is on meta', a.name, value.to('meta'), False
            yield f'{a.name} is expanded', a.name, tede.ones((), dtype=value.dtype).expand(value.shape), False
            yield f'{a.name} is None', a.name, None, False
            for title, other in of_other_layouts(value, tede):
                yield f'{a.name} is {title}', a.name, other, False
        elif a.is_tensor:
            yield f'{a.name} is empty', a.name, [], False
            if value:
                yield f'{a.name} differ', a.name, [value[0], tede.ones(7, 5, 3)], False
                yield f'{a.name} is one', a.name, value[:1], False
                yield f'{a.name} are numbers', a.name, [tede.ones(()) for _ in value], False
        elif a.list:
            yield f'{a.name} is empty', a.name, [], False
            if value:
                yield f'{a.name} is long', a.name, value * 70, False
                yield f'{a.name} is short', a.name, value[1:], False
                yield f'{a.name} is longer', a.name, [*value, value[0]], False
        if a.type in ('int', 'Scalar') and not a.list and isinstance(value, int):
            for near in value - 1, value + 1, value + 5:
                yield f'{a.name}={near}', a.name, near, False
        yield f'{a.name} is an object', a.name, object(), True


def out_broken(op, call, tede):
    """The same for out=: results that have another dtype, shape, device or layout, that overlap, or are the operands."""
    outs = [a.name for a in op.schema.arguments if a.out]
    right = call.kwargs[outs[0]]
    if not isinstance(right, tede.Tensor):
        return
    others = [a for a in call.args if isinstance(a, tede.Tensor)]
    for dtype in 'bool', 'uint8', 'int64', 'uint64', 'float16', 'float64', 'complex64':
        yield f'{outs[0]} is {dtype}', outs[0], right.to(getattr(tede, dtype)), False
    for shape in (), (0,), (1,), (5,), (0, 3), (1, 2, 1, 2, 1, 2), (7, 5, 3):
        yield f'{outs[0]} is {list(shape)}', outs[0], tede.ones(shape, dtype=right.dtype), False
    yield f'{outs[0]} is on meta', outs[0], right.to('meta'), False
    yield f'{outs[0]} is expanded', outs[0], tede.ones((), dtype=right.dtype).expand(2, *right.shape), False
    yield f'{outs[0]} is transposed', outs[0], right.permute(list(range(right.dim()))[::-1]), False
    yield f'{outs[0]} is flipped', outs[0], right[::-1] if right.dim() else right, False
    for other in others:
        yield f'{outs[0]} is an operand', outs[0], other, False
        if other.numel() > 1:
            yield f'{outs[0]} is part of an operand', outs[0], other.flatten()[1:], False
    yield f'{outs[0]} is an object', outs[0], object(), True


def drawn(op, tede, draws, count):
    """(args, kwargs) that the schema allows and nothing else speaks for."""
    def tensor():
        shape = draws.choice([(), (0,), (1,), (3,), (4,), (3, 4), (4, 3), (3, 3), (2, 0), (2, 3, 3), (2, 3, 4), (1, 2, 3, 4), (2, 3, 4, 4)])
        dtype = getattr(tede, draws.choice(['float32'] * 6 + ['int64'] * 2 + ['int32', 'bool', 'float64', 'complex64', 'float16']))
        x = tede.ones(shape, dtype=dtype) * draws.choice([0, 1, 2, 90]) if dtype != tede.bool else tede.ones(shape, dtype=dtype)
        if x.is_floating_point() and draws.random() < 0.15:         # so that derivatives are recorded
            x.requires_grad_()
        how = draws.random()
        return x if not x.dim() or how > 0.25 else x.transpose(0, -1) if how > 0.07 else x[::-1] if how > 0.03 else x[:1].expand(x.shape)

    def one(a):
        if a.is_tensor:
            return tensor()
        return {'int': lambda: draws.choice(USUAL if draws.random() < 0.8 else EXTREME), 'bool': lambda: draws.random() < 0.5,
                'float': lambda: draws.choice([0., 0.5, 1., -1.] * 3 + [float('inf'), float('nan'), -1e300]),
                'Scalar': lambda: draws.choice([0, 1, 2.5, -3] * 3 + [2 ** 62, -2 ** 63, float('nan'), 1j]),
                'ScalarType': lambda: draws.choice([tede.float32, tede.int64, tede.complex64]),
                'str': lambda: draws.choice(['sum', 'mean', 'none', 'constant', '', 'L', 'ij'])}.get(a.type, lambda: None)()
    for _ in range(count):
        values = {}
        shared = tensor() if draws.random() < 0.6 else None      # most helpers want operands of one shape
        for a in op.schema.arguments:
            if a.out or (a.default is not None and draws.random() < 0.5):
                continue
            if a.list:
                values[a.name] = [one(a) for _ in range(a.size or draws.choice(LENGTHS))]
            elif a.is_tensor and shared is not None and draws.random() < 0.7:
                values[a.name] = shared.detach().clone().requires_grad_(shared.requires_grad)
            else:
                values[a.name] = None if a.optional and draws.random() < 0.4 else one(a)
        yield values


def tried_drawn(op, fn, tede, seed, count):
    """As tried(), with drawn arguments."""
    import samples
    name, draws = op.schema.full_name, random.Random(f'{op.schema.full_name} {seed}')
    return watched(name, ((f'{name} = {brief(values)}', samples.Call(name, fn, [], values), False) for values in drawn(op, tede, draws, count)))


def brief(values):
    return {name: list(v.shape) if hasattr(v, 'shape') else v for name, v in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sample', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--draws', type=int, default=60, help='calls of an operator whose arguments are drawn')
    parser.add_argument('--drawn', action='store_true', help='draw arguments for operators that have a call that is known to be right, too, and do nothing else')
    parser.add_argument('--here', action='store_true', help='all in one process, for a debugger or to count lines')
    options = parser.parse_args()
    global HERE
    HERE = options.here
    warnings.simplefilter('ignore')
    import samples
    import tede
    fuzzing.limit_memory(2)
    by_name = {op.schema.full_name: op for op, _ in samples.entries()}
    chosen = set(sorted(by_name)[options.seed % options.sample::options.sample])
    if options.match:
        chosen = {name for name in chosen if options.match.search(name)}
    wrong, operators, calls = [], set(), 0
    with_calls = set() if options.drawn else chosen
    for call in valid_calls(with_calls):
        name = call.title.partition('[')[0]
        operators.add(name)
        made, found = tried(by_name[name], call, tede)
        calls += made
        wrong += found
    for call, op in forms(with_calls):
        made, found = tried(op, call, tede)
        calls += made
        wrong += found
    callables = {op.schema.full_name: fn for op, fn in samples.entries()}
    for name in sorted(chosen - operators):
        made, found = tried_drawn(by_name[name], callables[name], tede, options.seed, options.draws)
        calls += made
        wrong += found
        operators.add(name)
    for line in wrong:
        print(line[:300])
    print(f'{len(operators)} operators of {len(chosen)}, {calls} calls, {len(wrong)} wrong')
    return bool(wrong) or not operators


def valid_calls(chosen):
    """[Call] of those operators: made up from their schemas, and those of tests/sweep/valid_calls.py."""
    import samples
    import valid_calls
    callables = {op.schema.full_name: fn for op, fn in samples.entries()}
    plain = {name.partition('.')[0] for name in chosen}
    for call in samples.made_up('float32', 1, plain.__contains__):
        if call.title.partition('[')[0] in chosen:
            yield call
    for name, args, kwargs in valid_calls.valid_calls():
        if name in chosen:
            yield samples.Call(f'{name}[]', callables[name], args, kwargs)


def forms(chosen):
    """[(Call, operator)] of the in-place and out= forms of what valid_calls gives, each with a result of the right kind."""
    import samples
    found = {}
    for _, group in samples.groups():
        if group[0].schema.full_name in chosen:
            found[group[0].schema.full_name] = [op for op in group[1:] if op.variant in ('inplace', 'out')]
    seen = set()
    for call in valid_calls(chosen):
        name = call.title.partition('[')[0]
        if name in seen:
            continue
        seen.add(name)
        for op in found.get(name, ()):
            fn = samples.callable_of(op)
            if fn is None:
                continue
            kwargs = dict(call.kwargs)
            if op.variant == 'out':
                results = call()
                results = list(results) if isinstance(results, (tuple, list)) else [results]
                outs = [a.name for a in op.schema.arguments if a.out]
                kwargs.update(zip(outs, results))
            yield samples.Call(op.schema.full_name + '[]', fn, call.args, kwargs), op


def tried(op, call, tede):
    """(number of calls, what went wrong) of a call with one argument changed at a time."""
    import samples
    positional = [a.name for a in op.schema.arguments if not a.keyword_only][:len(call.args)]

    def changed():
        changes = list(broken(op, call, tede)) if op.variant != 'out' else list(out_broken(op, call, tede))
        for title, name, value, strict in changes:
            shared = any(value is a for a in call.args)
            args, kwargs = (list(call.args), dict(call.kwargs)) if shared else (samples_copy(call.args), samples_copy(call.kwargs))
            if name in positional:
                args[positional.index(name)] = value
            else:
                kwargs[name] = value
            yield f'{call.title} with {title}', samples.Call(title, call.fn, args, kwargs), strict
    return watched(call.title, changed())


def right(error):
    return isinstance(error, (*RIGHT, MemoryError))


def watched(title, calls):
    """(Number of calls, what is wrong) of calls in a separate process, where not HERE."""
    return fuzzing.watched(title, calls, right, SECONDS, HERE)[:2]


def samples_copy(x):
    import samples
    return samples.mapped(x, lambda t: t.clone())


if __name__ == '__main__':
    sys.exit(main())
