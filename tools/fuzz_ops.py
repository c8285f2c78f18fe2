"""Call every operator with arguments that it should refuse: each rule of codegen/requires.py broken, and operands of every
dtype, rank and device, empty ones too.  Whatever it does must be a result or an exception of the right type.

    python tools/fuzz_ops.py                 # all operators
    python tools/fuzz_ops.py --sample 20     # every 20th, another choice for each --seed
    python tools/fuzz_ops.py --match '^conv'

`make fuzz-ops` runs it on a build with AddressSanitizer, which ends an
operator's process at the first byte out of bounds."""
import argparse
import os
import pathlib
import re
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests' / 'sweep'), str(ROOT)]
RIGHT = RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, OverflowError
BAD = {'dim': (99, -99), 'count': (-1, -2 ** 40), 'positive': (0, -1), 'size': (-2, -2 ** 62), 'word': ('no such word',),
       'any': (0, -1, 3, 1000, -2 ** 62, 2 ** 62)}
# Rules that an operator may not let pass.  (Others may accept a value where it doesn't matter: an empty operand, a default.)
STRICT = {'dim', 'word'}


def broken(op, call, tede):
    """[(title, args, strict)]: the call with one argument changed each."""
    from codegen.requires import requires
    rules = requires(op)
    names = [a for a in op.schema.arguments if a.default is None and not a.keyword_only]
    for i, a in enumerate(names):
        value = call.args[i]
        rule = rules.get(a.name)
        for bad in BAD.get(rule, ()):
            changed = [bad] * max(1, len(value)) if isinstance(value, list) else bad
            yield f'{a.name}={changed}', i, changed, rule in STRICT
        if isinstance(value, tede.Tensor):
            if rule == 'index' and not value.is_floating_point():
                for bad in 99, -99, 2 ** 62:
                    yield f'{a.name} has {bad}', i, tede.full_like(value, bad), False
            for dtype in 'bool', 'uint8', 'int64', 'uint64', 'float16', 'bfloat16', 'float64', 'complex64':
                yield f'{a.name} is {dtype}', i, value.to(getattr(tede, dtype)), False
            for shape in (), (0,), (5,), (0, 3), (2, 0), (1, 2, 1, 2, 1, 2), (7, 5, 3):
                yield f'{a.name} is {list(shape)}', i, tede.ones(shape, dtype=value.dtype), False
            yield f'{a.name} is on meta', i, value.to('meta'), False
            yield f'{a.name} is expanded', i, tede.ones((), dtype=value.dtype).expand(value.shape), False
        elif isinstance(value, list) and value and isinstance(value[0], tede.Tensor):
            yield f'{a.name} is empty', i, [], False
            yield f'{a.name} differ', i, [value[0], tede.ones(7, 5, 3)], False
        elif isinstance(value, list):
            yield f'{a.name} is empty', i, [], False
            yield f'{a.name} is long', i, value * 70, False
        yield f'{a.name} is an object', i, object(), True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sample', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--internal', action='store_true', help='also the helpers of gradient formulas')
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    import samples
    import tede
    tede.memory.set_limit(1 << 30) if hasattr(tede.memory, 'set_limit') else None
    by_name = {op.schema.full_name: op for op, _ in samples.entries() if options.internal or not is_internal(op)}
    chosen = set(sorted(by_name)[options.seed % options.sample::options.sample])
    plain = {name.partition('.')[0] for name in chosen}
    wrong, operators, calls = [], 0, 0
    for call in samples.made_up('float32', 1, lambda name: name in plain and (not options.match or options.match.search(name))):
        name = call.title.partition('[')[0]
        if name in chosen:
            operators += 1
            made, found = tried(by_name[name], call, tede)
            calls += made
            wrong += found
    for line in wrong:
        print(line[:300])
    print(f'{operators} operators, {calls} calls, {len(wrong)} wrong')
    return bool(wrong) or not operators


def is_internal(op):
    return 'internal' in (op.entry.get('python'), *op.entry.get('flags', []))


def tried(op, call, tede):
    """(number of calls, what went wrong), in a process of its own: a crash ends that one."""
    come, go = os.pipe()
    child = os.fork()
    if not child:
        os.close(come)
        with os.fdopen(go, 'w') as out:
            for title, i, changed, strict in broken(op, call, tede):
                args = [samples_copy(x) for x in call.args]
                args[i] = changed
                print(f'{call.title} with {title}', file=out, flush=True)
                try:
                    call.fn(*args)
                except (*RIGHT, MemoryError):
                    continue
                except BaseException as error:
                    print(f'!{type(error).__name__}: {error}'.replace('\n', ' '), file=out)
                else:
                    if strict:
                        print('!it is not refused', file=out)
        os._exit(0)
    os.close(go)
    with os.fdopen(come) as told:
        lines = told.read().splitlines()
    status = os.waitpid(child, 0)[1]
    wrong = [f'{lines[k - 1]}: {line[1:]}' for k, line in enumerate(lines) if line.startswith('!')]
    if status:
        wrong.append(f'{lines[-1] if lines else call.title}: the process ended with {status}')
    return sum(not line.startswith('!') for line in lines), wrong


def samples_copy(x):
    import samples
    return samples.mapped(x, lambda t: t.clone())


if __name__ == '__main__':
    sys.exit(main())
