"""Call every operator with integers that sizes can't be: each integer argument, and each element of each list of integers, at
-2**63, -2**63 + 1, -1, 0, 2**31, 2**32, 2**62 and 2**63 - 1, and each tensor expanded to 2**62 elements, with the other
arguments as they should be.  What comes back is an exception or a tensor whose elements lie in its storage: never a crash, a wrapped
number or an endless loop.

    python tools/fuzz_sizes.py                    # all operators
    python tools/fuzz_sizes.py --sample 20        # every 20th, another choice for each --seed
    python tools/fuzz_sizes.py --match '^conv'
    python tools/fuzz_sizes.py --compare          # and beside PyTorch: what it refuses, and by which type of error

Calls run in a process with a limit on memory and on the time of the processor, which an allocation or a loop of 2**62 steps hits
at once; `make fuzz-sizes` runs them on a build with the sanitizers."""
import argparse
import collections
import json
import math
import os
import pathlib
import re
import resource
import signal
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests' / 'sweep'), str(ROOT / 'tools'), str(ROOT)]
VALUES = -2 ** 63, -2 ** 63 + 1, -1, 0, 2 ** 31, 2 ** 32, 2 ** 62, 2 ** 63 - 1
RIGHT = 'RuntimeError', 'IndexError', 'ValueError', 'TypeError', 'NotImplementedError', 'OverflowError', 'OutOfMemoryError', 'MemoryError', \
    'LinAlgError', 'TypedStorageError'
# 2**31 steps (the trace of a square of that size) end within the seconds even where nothing is optimised; 2**62 never do.
SECONDS, BYTES = 40, 768 << 20
SANITIZED = 'LD_PRELOAD' in os.environ
# Lists that a schema leaves open, by their name and where the operator is known.
LENGTHS = {'size': 2, 'dim': 1, 'dims': 1, 'stride': 2}
CREATIONS = '''
empty.memory_format([2, 3])
empty_strided([2, 3], [3, 1])
empty_permuted([2, 3], [0, 1])
new_empty(r(2), [2, 3])
new_empty_strided(r(2), [2, 3], [3, 1])
zeros([2, 3])
ones([2, 3])
full([2, 3], 1)
arange(5)
arange.start(1, 5)
arange.start_step(1, 5, 2)
range(1, 5)
range.step(1, 5, 2)
linspace(0, 1, 5)
logspace(0, 1, 5)
eye(3)
eye.m(3, 4)
rand([2, 3])
randn([2, 3])
randint(5, [2, 3])
randint.low(1, 5, [2, 3])
randperm(5)
normal.float_float(0., 1., [2, 3])
tril_indices(3, 4, 0)
triu_indices(3, 4, 0)
fft_fftfreq(5)
fft_rfftfreq(5)
hann_window(5)
hann_window.periodic(5, True)
hamming_window(5)
hamming_window.periodic(5, True)
hamming_window.periodic_alpha(5, True, 0.5)
hamming_window.periodic_alpha_beta(5, True, 0.5, 0.4)
blackman_window(5)
blackman_window.periodic(5, True)
bartlett_window(5)
bartlett_window.periodic(5, True)
kaiser_window(5)
kaiser_window.periodic(5, True)
kaiser_window.beta(5, True, 2.)
sparse_coo_tensor.size([2, 3])
sparse_coo_tensor.indices(n(2, 4), r(4))
sparse_coo_tensor.indices_size(n(2, 4), r(4), [2, 3])
_sparse_coo_tensor_unsafe(n(2, 4), r(4), [2, 3])
_sparse_coo_tensor_with_dims(2, 0, [2, 3])
_sparse_coo_tensor_with_dims_and_tensors(2, 0, [2, 3], n(2, 4), r(4))
_validate_sparse_coo_tensor_args(n(2, 4), r(4), [2, 3])
_coo_keys(n(2, 4), [2, 3])
_coo_unkeys(n(4), [2, 3])
sparse_compressed_tensor.comp_plain_value_size(tensor([0, 1, 2]), tensor([0, 1]), r(2), [2, 3], layout=sparse_csr)
sparse_compressed_tensor.comp_plain_value(tensor([0, 1, 2]), tensor([0, 1]), r(2), layout=sparse_csr)
_validate_sparse_compressed_tensor_args(tensor([0, 1, 2]), tensor([0, 1]), r(2), [2, 3], sparse_csr)
to_sparse.sparse_dim(r(2, 3), 1)
to_sparse_csr(r(2, 3))
to_sparse_csc(r(2, 3))
to_sparse_bsr(r(2, 4), [2, 2])
to_sparse_bsc(r(2, 4), [2, 2])
to_sparse(r(2, 4))
_sparse_sum.dim(s(2, 3), [1])
_sparse_softmax.int(s(2, 3), 1)
_sparse_log_softmax.int(s(2, 3), 1)
_sparse_broadcast_to(s(2, 3), [4, 2, 3])
_spdiags(r(2, 3), tensor([0, 1]), [3, 3])
_convert_indices_from_coo_to_csr(tensor([0, 1, 1]), 3)
sparse_resize_(s(2, 3), [4, 5], 2, 0)
sparse_resize_and_clear_(s(2, 3), [4, 5], 2, 0)
resize_(r(2, 3), [3, 4])
set_.source_Storage_storage_offset(r(2), st(6), 0, [2, 3], [3, 1])
set_.source_Tensor_storage_offset(r(2), r(6), 0, [2, 3], [3, 1])
as_strided_(r(3, 4), [2, 3], [4, 1], 2)
_reshape_alias(r(3, 4), [2, 6], [6, 1])
embedding_sparse_backward(r(6, 3), n(6), 5, -1, False)
'''


def creations():
    """[(name, args, kwargs)] of operators that valid_calls has none of, in the same words."""
    import tede
    names = {name: getattr(tede, name) for name in ('tensor', 'sparse_csr')}
    names.update(r=tede.rand, n=lambda *shape: tede.zeros(shape, dtype=tede.int64), s=lambda *shape: tede.rand(shape).to_sparse(),
                 st=lambda n: tede.rand(n).untyped_storage(), call=lambda *args, **kwargs: (list(args), kwargs))
    for line in CREATIONS.split('\n'):
        if line:
            name, _, rest = line.partition('(')
            yield name, *eval(f'call({rest}', names)


def operators():
    """{schema name: (operator of codegen, callable)}"""
    import samples
    return {op.schema.full_name: (op, fn) for _, group in samples.groups() for op in group if (fn := samples.callable_of(op))}


def calls_of(chosen, most=3):
    """{name: [(operator, args, kwargs)]} that are right, for the functional forms and those in place and with out= beside them."""
    import fuzz_ops
    import samples
    known, found = operators(), collections.defaultdict(list)
    functional = chosen & {op.schema.full_name for op, _ in samples.entries()}
    for call in fuzz_ops.valid_calls(functional):
        found[call.title.partition('[')[0]].append((call.args, call.kwargs))
    for call, op in fuzz_ops.forms(functional):
        found[op.schema.full_name].append((call.args, call.kwargs))
    for name, args, kwargs in creations():
        if name in chosen and name in known:
            found[name].append((args, kwargs))
    return {name: [(known[name][0], *call) for call in calls[:most]] for name, calls in found.items()}


def changes(op, args, kwargs):
    """[(title, args, kwargs)]: one argument changed each."""
    import tede
    positional = [a.name for a in op.schema.arguments if not a.keyword_only]
    given = {**dict(zip(positional, args)), **kwargs}
    count = len(args)

    def put(name, value):
        now, named = list(args), dict(kwargs)
        if name in positional[:count]:
            now[positional.index(name)] = value
        else:
            named[name] = value
        return now, named
    ndim = max([x.dim() for x in given.values() if isinstance(x, tede.Tensor) and x.layout == tede.strided], default=1)
    for a in op.schema.arguments:
        value = given.get(a.name)
        if a.out:
            continue
        if a.type in ('int', 'SymInt', 'Scalar') and a.list:
            whole = value if isinstance(value, (list, tuple)) else [1] * (a.size or LENGTHS.get(a.name) or max(1, ndim - 2))
            for huge in VALUES:
                for k in range(len(whole)):
                    yield f'{a.name}[{k}]={huge}', *put(a.name, [*whole[:k], huge, *whole[k + 1:]])
                if len(whole) > 1:
                    yield f'{a.name}={huge}', *put(a.name, [huge] * len(whole))
        elif a.type in ('int', 'SymInt', 'Scalar'):
            for huge in VALUES:
                yield f'{a.name}={huge}', *put(a.name, huge)
        elif a.is_tensor and not a.list and isinstance(value, tede.Tensor) and value.layout == tede.strided:
            for shape in (2 ** 62,), (2 ** 31, 2 ** 31), (0, 2 ** 62), (3, 2 ** 61):
                yield f'{a.name} is {shape}', *put(a.name, tede.ones((), dtype=value.dtype).expand(shape))
            for d in range(value.dim()):
                if value.size(d):
                    for size in (2 ** 62 // max(1, value.numel() // value.size(d)),):
                        shape = [*value.shape[:d], size, *value.shape[d + 1:]]
                        yield f'{a.name} is {shape}', *put(a.name, value.narrow(d, 0, 1).expand(shape))
            if not value.is_floating_point() and value.dtype in (tede.int64,):
                for huge in VALUES:
                    yield f'{a.name} holds {huge}', *put(a.name, tede.full_like(value, huge))
        elif a.is_tensor and a.list and value:
            for shape in (2 ** 62,), (2 ** 31, 2 ** 31), (0, 2 ** 62), (2 ** 61, 2):
                yield f'{a.name} are {shape}', *put(a.name, [tede.ones(()).expand(shape) for _ in value])
    tensors = [a.name for a in op.schema.arguments if a.is_tensor and isinstance(given.get(a.name), tede.Tensor) and
               given[a.name].layout == tede.strided and not a.out]
    if len(tensors) > 1:
        for shape in (2 ** 62,), (2 ** 31, 2 ** 31), (0, 2 ** 62):
            named, now = dict(kwargs), list(args)
            for name in tensors:
                huge = tede.ones((), dtype=given[name].dtype).expand(shape)
                if name in positional[:count]:
                    now[positional.index(name)] = huge
                else:
                    named[name] = huge
            yield f'all tensors are {shape}', now, named


def fault(x):
    """What is wrong with a tensor's geometry, or None."""
    shape, strides = tuple(x.shape), None
    if math.prod(shape) != x.numel() or min(shape, default=0) < 0:
        return f'a tensor of shape {shape} says that it has {x.numel()} elements'
    try:
        strides, offset, size = x.stride(), x.storage_offset(), x.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):         # sparse
        return None
    if x.device.type != 'cpu' or not x.numel():
        return None
    low = offset + sum(min(0, (n - 1) * s) for n, s in zip(shape, strides))
    high = offset + sum(max(0, (n - 1) * s) for n, s in zip(shape, strides))
    if low < 0 or (high + 1) * x.element_size() > size:
        return f'shape {shape}, strides {strides}, offset {offset} reach beyond a storage of {size} bytes'
    return None


def described(result, Tensor, found):
    """The result in JSON: shape, dtype and elements where there are few; faults go to `found`."""
    if isinstance(result, Tensor):
        wrong = fault(result)
        if wrong:
            found.append(wrong)
            return wrong
        layout = str(result.layout).rpartition('.')[2]
        if layout != 'strided':
            return [layout, list(result.shape)]
        few = result.numel() <= 64
        if not few and result.numel() < 2 ** 20:
            result.clone()
        return [str(result.dtype).rpartition('.')[2], list(result.shape), repr(result.tolist()) if few else None]
    if isinstance(result, (list, tuple)):
        return [described(item, Tensor, found) for item in result[:100]]
    return repr(result)[:200]


def run(cases, library, out, first):
    """The cases from the first one on: a line for each call when it is made, and one for what came of it."""
    lib = __import__(library)
    for k, (title, fn, args, kwargs) in enumerate(cases):
        if k < first:
            continue
        print(json.dumps([k, title]), file=out, flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        found = []
        try:
            result = ['result', described(fn(*args, **kwargs), lib.Tensor, found)]
            if found:
                result = ['fault', *found]
        except Exception as error:
            result = ['error', type(error).__name__, str(error).partition('\n')[0][:200]]
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([k, result]), file=out, flush=True)


def outcomes(cases, library):
    """{title: outcome}; a case that ends its process is ('end', signal), and the next one gets another process."""
    found, titles, first = {}, {}, 0
    while first is not None:
        come, go = os.pipe()
        child = os.fork()
        if not child:
            os.close(come)
            os.dup2(os.open(os.environ.get('FUZZ_LOG', os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            if not SANITIZED:       # AddressSanitizer reserves terabytes; it has a limit of its own
                pages = int(pathlib.Path('/proc/self/statm').read_text().split()[0])
                resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with os.fdopen(go, 'w') as out:
                run(cases(), library, out, first)
                out.flush()
                os._exit(0)
        os.close(go)
        with os.fdopen(come) as lines:
            last = None
            for line in lines:
                k, what = json.loads(line)
                if isinstance(what, str):
                    last, titles[k] = k, what
                else:
                    found[titles[k]], last = what, None
        status = os.waitpid(child, 0)[1]
        first = None
        if status and last is not None:
            found[titles[last]] = ['end', f'status {status >> 8}' if status >> 8 else signal.Signals(status & 127).name]
            first = last + 1
        elif status:
            found[f'at its end {len(found)}'] = ['end', str(status)]
    return found


def foreign(value, torch):
    """tede's value as PyTorch's, with the same strides."""
    import tede
    if isinstance(value, tede.Tensor):
        if value.layout != tede.strided:
            return foreign(value.to_dense(), torch).to_sparse()
        base = tede.empty(0, dtype=value.dtype).set_(value.untyped_storage())
        whole = torch.tensor(base.tolist(), dtype=foreign(value.dtype, torch))
        return whole.as_strided(tuple(value.shape), value.stride(), value.storage_offset())
    if isinstance(value, tede.UntypedStorage):
        return torch.rand(value.nbytes() // 4).untyped_storage()
    if isinstance(value, (list, tuple)):
        return [foreign(item, torch) for item in value]
    if isinstance(value, dict):
        return {key: foreign(item, torch) for key, item in value.items()}
    return getattr(torch, str(value).rpartition('.')[2]) if isinstance(value, (tede.dtype, tede.layout)) else value


def same(a, b):
    """Whether two descriptions agree, numbers as exactly as two libraries do."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, str) and isinstance(b, str) and a != b:
        numbers = re.compile(r'-?(?:nan|inf|\d+(?:\.\d*)?(?:e[-+]?\d+)?)j?')
        x, y = numbers.findall(a), numbers.findall(b)
        x, y = ([complex(n) for n in found] for found in (x, y))
        return len(x) == len(y) and all(p == q or p != p or abs(p - q) <= 1e-4 * (abs(p) + abs(q)) + 1e-5 for p, q in zip(x, y))
    return a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sample', type=int, default=1)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--compare', action='store_true', help='beside PyTorch')
    parser.add_argument('--verbose', action='store_true', help='all that differs, not the counts alone')
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    if options.compare:
        import torch
        torch.set_num_threads(1)
    known = operators()
    chosen = set(sorted(known)[options.seed % options.sample::options.sample])
    if options.match:
        chosen = {name for name in chosen if options.match.search(name)}
    wrong, counts, made, tried = [], collections.Counter(), 0, 0
    differ = collections.defaultdict(list)
    for name, calls in sorted(calls_of(chosen).items()):
        fn = known[name][1]

        def cases(calls=calls, fn=fn):
            for op, args, kwargs in calls:
                for title, now, named in changes(op, args, kwargs):
                    yield title, fn, samples_copy(now), samples_copy(named)

        def beside(calls=calls, name=name):
            packet = getattr(torch.ops.aten, calls[0][0].schema.name, None)
            there = packet and getattr(packet, calls[0][0].schema.overload or 'default', None)
            for title, _, now, named in cases(calls):
                yield title, there, foreign(now, torch), foreign(named, torch)
        tried += 1
        got = outcomes(cases, 'tede')
        made += len(got)
        for title, (kind, *what) in got.items():
            counts[kind] += 1
            if kind in ('end', 'fault') or kind == 'error' and what[0] not in RIGHT:
                wrong.append(f'{name} with {title}: {kind} {" ".join(map(str, what))}')
                print(wrong[-1][:300], flush=True)
        if options.compare and hasattr(torch.ops.aten, calls[0][0].schema.name) and \
                hasattr(getattr(torch.ops.aten, calls[0][0].schema.name), calls[0][0].schema.overload or 'default'):
            for title, (kind, *what) in outcomes(beside, 'torch').items():
                mine, *ours = got.get(title, ('missing',))
                if kind == 'end':
                    case = 'PyTorch crashes or hangs'
                elif kind == 'error' and mine == 'error':
                    case = 'both refuse, same type' if {what[0], ours[0]} <= {'RuntimeError', 'OutOfMemoryError'} or what[0] == ours[0] else \
                        'both refuse, other types'
                elif kind == 'error':
                    case = 'PyTorch alone refuses'
                elif mine == 'error':
                    case = 'tede alone refuses'
                else:
                    case = 'same result' if same(what, ours) else 'other result'
                differ[case].append(f'{name} with {title}: PyTorch {kind} {what}, tede {mine} {ours}')
    for case, lines in sorted(differ.items()):
        print(f'{case}: {len(lines)}')
        for line in lines if options.verbose and not case.startswith(('same', 'both refuse, same')) else ():
            print('   ', line[:500])
    print(f'{tried} operators of {len(chosen)}, {made} calls, {dict(counts)}, {len(wrong)} wrong')
    return bool(wrong) or not tried


def samples_copy(x):
    """A copy, for calls that write; what is expanded is shared."""
    import samples
    import tede
    return samples.mapped(x, lambda t: t.clone() if t.layout != tede.strided or 0 not in t.stride() else t)


if __name__ == '__main__':
    sys.exit(main())
