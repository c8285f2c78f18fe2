"""Load checkpoints that were changed: bits flipped, cut, spliced, numbers replaced by huge ones, records exchanged. tede.load,
tede.safetensors, tede.gguf and tede.npy must return tensors that lie within their storages, or raise what a damaged file raises.

    python tools/fuzz_checkpoints.py --calls 20000
    python tools/fuzz_checkpoints.py --match safetensors --seed 3 --call 17 --here      # one again, in a debugger

`make fuzz-python` runs it on a build with AddressSanitizer and UndefinedBehaviorSanitizer."""
import argparse
import io
import json
import os
import pathlib
import pickle
import pickletools
import random
import re
import struct
import sys
import tempfile
import warnings
import zipfile

import fuzzing

REFUSED = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, AssertionError, TypeError, IndexError, KeyError, OSError, OverflowError)
SECONDS = 10
TOGETHER = 500
HUGE = [-1, 0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 61, 2 ** 62, 2 ** 63 - 1, -2 ** 63, 2 ** 64, 2 ** 100]


def checkpoint(tede):
    """What is saved: layouts, dtypes, views that share a storage, a module's state, numbers and names."""
    base = tede.arange(24.)
    return {'w': base.view(4, 6), 'part': base[3:20:2], 't': base.view(4, 6).t(), 'i': tede.arange(5), 'h': tede.ones(3, dtype=tede.float16),
            'c': tede.ones(2, dtype=tede.complex64).conj(), 'b': tede.tensor([True, False]), 'e': tede.empty(0, 3), 's': tede.tensor(2.),
            'sparse': tede.eye(3).to_sparse(), 'p': tede.nn.Parameter(tede.ones(2)), 'state': tede.nn.Linear(2, 2).state_dict(),
            'numbers': [1, 2.5, None, True, (1, 'a'), {2: 'x'}], 'size': tede.Size([1, 2]), 'dtype': tede.float64, 'device': tede.device('cpu')}


def model(tede):
    """Tensors of a GGUF file: strided, packed, unpacked when it is read, and of a type that stays bytes."""
    weights, other = tede.arange(512.).reshape(2, 256) / 256, tede.gguf.Blocks
    packed = {name: weights.to_packed(name) for name in ('q8_0', 'q4_0', 'q4_k', 'q6_k', 'mxfp4')}
    return {'b': tede.arange(5), 'h': tede.ones(3, dtype=tede.float16), **packed, 'q5_k': other('', 'Q5_K', (), tede.arange(176, dtype=tede.uint8)),
            'iq1_s': other('', 'IQ1_S', (), tede.arange(50, dtype=tede.uint8)), 's': tede.tensor(2.)}


def seeds(tede):
    """{kind: bytes}: files as tede writes them."""
    made, tensors = {}, {}
    for kind, new in ('zip', True), ('legacy', False):
        file = io.BytesIO()
        tede.save(checkpoint(tede), file, _use_new_zipfile_serialization=new)
        made[kind] = file.getvalue()
    # Keys of storages are addresses, which no two runs share.
    keys = {}
    made['legacy'] = re.sub(rb'X(....)(\d{9,20})(?=[q\x94r])', lambda m: b'X\5\0\0\0%05d' % keys.setdefault(m[2], len(keys)), made['legacy'], flags=re.S)
    for name, x in checkpoint(tede).items():
        if isinstance(x, tede.Tensor) and not x.is_sparse and not x.is_conj():
            tensors[name] = x.detach().contiguous().clone()
    made['safetensors'] = tede.safetensors.save(tensors, {'format': 'pt'})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'x')
        tede.gguf.save(path, model(tede), {'general.architecture': 'tiny', 'n': 7, 'x': .5, 'yes': True, 'words': ['a', '', 'bc'], 'ints': [1, 2],
                                           'truths': [True], 'deep': [[1, 2], ['x'], [[.5]]]})
        made['gguf'] = pathlib.Path(path).read_bytes()
    made['npy'] = numpys("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", bytes(24))
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w') as archive:
        archive.writestr('a.npy', made['npy'])
        archive.writestr('b.npy', numpys("{'descr': '>i2', 'fortran_order': False, 'shape': (300,), }", bytes(600)), zipfile.ZIP_DEFLATED)
    made['npz'] = file.getvalue()
    return made


def numpys(header, data):
    """The bytes of a .npy file."""
    return b'\x93NUMPY\1\0' + struct.pack('<H', len(header)) + header.encode() + data


# ---- changes

def changed_bytes(rng, data):
    """Raw: the file's structure isn't known."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        at, how = rng.randrange(len(data) or 1), rng.randrange(8)
        if not data:
            break
        if how < 3:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 3:
            data[at] = rng.choice([0, 1, 0x7f, 0x80, 0xff])
        elif how == 4:
            width = rng.choice([2, 4, 8])
            data[at:at + width] = (rng.choice(HUGE) % (1 << 8 * width)).to_bytes(width, 'little')
        elif how == 5:
            del data[at:at + rng.choice([1, 4, 100])]
        elif how == 6:
            start = rng.randrange(len(data))
            data[at:at] = data[start:start + rng.choice([1, 8, 200])]
        else:
            del data[at:]
    return bytes(data)


def changed_pickle(rng, data):
    """Numbers, words and opcodes of a pickle replaced, so that it still runs for a while."""
    try:
        steps = [(op, arg, at) for op, arg, at in pickletools.genops(data)]
    except Exception:
        return changed_bytes(rng, data)
    ends = [at for _, _, at in steps[1:]] + [steps[-1][2] + 1]
    pieces = [data[at:end] for (_, _, at), end in zip(steps, ends)]
    words = [arg for op, arg, _ in steps if isinstance(arg, str)]
    for _ in range(rng.choice([1, 1, 2, 3])):
        i = rng.randrange(1, len(steps) - 1)
        of_kind = [k for k, (op, arg, _) in enumerate(steps) if type(arg) is (int if rng.random() < 0.7 else str) and 'PUT' not in op.name and 'GET' not in op.name]
        i = rng.choice(of_kind) if of_kind and rng.random() < 0.8 else i
        op, arg, _ = steps[i]
        if type(arg) is int and 'PUT' not in op.name and 'GET' not in op.name and 'BYTES' not in op.name and op.name != 'PROTO':
            number = rng.choice(HUGE + [arg + 1, arg - 1, 2 * arg, -arg])
            coded = pickle.encode_long(number)
            pieces[i] = b'\x8a' + bytes([len(coded)]) + coded
        elif op.name in ('BINUNICODE', 'SHORT_BINUNICODE'):
            text = rng.choice([*words, 'FloatStorage', 'DoubleStorage', 'LongStorage', 'cuda:0', 'meta', '\0', 'x' * 300, '../0']).encode('utf-8', 'replace')
            pieces[i] = b'X' + struct.pack('<I', len(text)) + text
        elif op.name == 'GLOBAL':
            here = [piece for (step, _, _), piece in zip(steps, pieces) if step.name == 'GLOBAL']
            other = rng.choice(here + [b'collections\nOrderedDict\n', b'cos\nsystem\n', b'cbuiltins\nlist\n', b'ctorch\nTensor\n', b'ctorch\nSize\n',
                                       b'ctorch._utils\n_rebuild_tensor_v2\n', b'ctorch._utils\n_rebuild_parameter\n'])
            pieces[i] = other
        else:
            how = rng.randrange(3)
            if how == 0:
                pieces[i] = b''
            elif how == 1:
                pieces[i] = rng.choice([*(b'%c' % c for c in b'N()]}02RQbteus\x85\x86\x87\x81'), b'K\x01'])
            else:
                pieces[i], pieces[i - 1] = pieces[i - 1], pieces[i]
    return b''.join(pieces)


def changed_zip(rng, data):
    """Records changed, dropped, exchanged or repeated, in an archive whose own fields are right."""
    before, file = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    entries = before.infolist()
    with warnings.catch_warnings(), zipfile.ZipFile(file, 'w', rng.choice([zipfile.ZIP_STORED] * 4 + [zipfile.ZIP_DEFLATED])) as after:
        warnings.simplefilter('ignore')
        chosen = rng.randrange(len(entries)) if rng.random() < 0.4 else next(i for i, e in enumerate(entries) if e.filename.endswith('data.pkl'))
        for i, entry in enumerate(entries):
            record, name = before.read(entry), entry.filename
            if i == chosen:
                how = rng.randrange(12)
                if how < 8:
                    record = changed_pickle(rng, record) if name.endswith('.pkl') else changed_bytes(rng, record or b'\0')
                elif how == 8:
                    continue
                elif how == 9:
                    after.writestr(name, record)
                elif how == 10:
                    record = before.read(rng.choice(entries))
                else:
                    name = rng.choice([name + '/', '../' + name, name.replace('/', '//'), name.rpartition('/')[2], name + '\0x', 'x' * 60000])
            after.writestr(name, record)
    return file.getvalue()


def changed_legacy(rng, data):
    return changed_pickle(rng, data) if rng.random() < 0.5 else changed_bytes(rng, data)


def changed_safetensors(rng, data):
    """The header's shapes, offsets and dtypes."""
    length, = struct.unpack('<Q', data[:8])
    header, rest = json.loads(data[8:8 + length]), data[8 + length:]
    names = [name for name in header if name != '__metadata__']
    for _ in range(rng.choice([1, 1, 2])):
        entry, how = header.get(rng.choice(names)), rng.randrange(7)
        if not isinstance(entry, dict) or not all(isinstance(entry.get(k), list) for k in ('shape', 'data_offsets')):
            continue
        if how == 0:
            entry['shape'] = rng.choice([[rng.choice(HUGE) for _ in range(rng.choice([1, 2, 3, 70]))], [], [[1]], 'x', None, [1.5], [True]])
        elif how == 1:
            entry['data_offsets'] = rng.choice([[rng.choice(HUGE), rng.choice(HUGE)], [0], entry['data_offsets'][::-1], 'x', [1, None], [0, len(rest) + 8]])
        elif how == 2:
            entry['dtype'] = rng.choice(['F64', 'I8', 'F8_E5M2', '', 'x' * 300, None, 3, 'BOOL'])
        elif how == 3:
            entry.pop(rng.choice(sorted(entry)))
        elif how == 4:
            entry['data_offsets'] = list(header[rng.choice(names)].get('data_offsets', []))
        elif how == 5:
            header['__metadata__'] = rng.choice([{'a': 1}, [], 'x', {'a': {'b': 'c'}}, {'': ''}])
        else:
            header[rng.choice(['', '\0', 'é' * 100, '__metadata__ '])] = entry
    text = json.dumps(header).encode()
    if rng.random() < 0.2:
        text = rng.choice([text.replace(b'"shape"', b'"shape":[1],"shape"'),
                           b'[' * 100000, text[:-1], text + b' ' * 8, text.replace(b':', b'::', 1),
                           b'{' + text, b'\xff' + text])
    length = rng.choice(HUGE) % 2 ** 64 if rng.random() < 0.15 else len(text)
    return struct.pack('<Q', length) + text + (rest if rng.random() < 0.8 else rest[:rng.randrange(len(rest))])


def gguf_fields(data):
    """(place, bytes) of all lengths, counts, kinds, sizes, types and offsets of a GGUF file."""
    at, fields = 8, []

    def number(width):
        nonlocal at
        fields.append((at, width))
        at += width
        return int.from_bytes(data[at - width:at], 'little')

    def string():
        nonlocal at
        length = number(8)
        at += length

    def value(kind):
        nonlocal at
        if kind == 8:
            string()
        elif kind == 9:
            element, count = number(4), number(8)
            for _ in range(count):
                value(element)
        else:
            at += (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8)[kind]

    tensors, pairs = number(8), number(8)
    for _ in range(pairs):
        string()
        value(number(4))
    for _ in range(tensors):
        string()
        for _ in range(number(4)):
            number(8)
        number(4), number(8)
    return fields


def changed_gguf(rng, data):
    """Some of these numbers."""
    data, fields = bytearray(data), gguf_fields(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at, width = rng.choice(fields)
        now = int.from_bytes(data[at:at + width], 'little')
        near = [now + 1, now - 1, 2 * now, now ^ 32, len(data) - at, len(data), *range(42), *HUGE]
        data[at:at + width] = (rng.choice(near) % (1 << 8 * width)).to_bytes(width, 'little')
    return bytes(data if rng.random() < .8 else data[:rng.randrange(len(data))])


STRUCTURED = {'zip': changed_zip, 'legacy': changed_legacy, 'safetensors': changed_safetensors, 'gguf': changed_gguf, 'npy': changed_bytes, 'npz': changed_bytes}


# ---- loading

def visit(tede, value, depth=0):
    """Read every element of every tensor."""
    if isinstance(value, tede.Tensor):
        if value.layout is tede.strided and not value.is_meta:
            last = value.storage_offset() + sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
            if value.numel() and (last + 1) * value.itemsize > value.untyped_storage().nbytes():
                return fuzzing.Complaint(f'a tensor of {tuple(value.shape)}, {value.stride()} lies outside its storage of {value.untyped_storage().nbytes()} bytes')
        if 0 < value.numel() < 100000:
            try:
                value.detach().abs().sum()
                repr(value)
            except REFUSED:                     # indices of a sparse tensor that nothing checked, a dtype without this operator
                pass
    elif isinstance(value, dict) and depth < 5:
        for item in value.values():
            if complaint := visit(tede, item, depth + 1):
                return complaint
    elif isinstance(value, (list, tuple)) and depth < 5:
        for item in value:
            if complaint := visit(tede, item, depth + 1):
                return complaint


def load(tede, kind, data, how, folder):
    if kind == 'safetensors':
        if how == 0:
            return visit(tede, tede.safetensors.load(data))
        path = os.path.join(folder, 'x.safetensors')
        pathlib.Path(path).write_bytes(data)
        if how == 1:
            return visit(tede, tede.safetensors.load_file(path))
        with tede.safetensors.safe_open(path, 'pt') as file:
            for name in file.keys():
                if complaint := visit(tede, file.get_tensor(name)):
                    return complaint
            return None
    if kind == 'gguf':
        if how == 0:
            return visit(tede, tede.gguf.loads(data))
        path = os.path.join(folder, 'x.gguf')
        pathlib.Path(path).write_bytes(data)
        read = tede.gguf.load(path)
        tede.gguf.save(os.path.join(folder, 'y.gguf'), *read)
        return visit(tede, read)
    if kind in ('npy', 'npz'):
        path = os.path.join(folder, 'x.' + kind)
        pathlib.Path(path).write_bytes(data)
        read = tede.npy.load(path)
        for name, x in read.items() if kind == 'npz' and isinstance(read, dict) else ():         # their check sums are looked at
            if tuple(x.shape) not in ((2, 3), (300,)) or x.count_nonzero():
                return fuzzing.Complaint(f'{name} is {tuple(x.shape)} of other numbers than were saved')
        return visit(tede, read)
    if how == 0:
        return visit(tede, tede.load(io.BytesIO(data)))
    path = os.path.join(folder, 'x.pt')
    pathlib.Path(path).write_bytes(data)
    return visit(tede, tede.load(path, mmap=True) if how == 1 and kind == 'zip' else tede.load(path, map_location='cpu' if how == 2 else None))


def right(error):
    return isinstance(error, REFUSED) or type(error).__name__ in ('SafetensorError', 'BadZipFile')


def calls_of(tede, kind, data, seed, numbers, folder):
    for k in numbers:
        rng = random.Random(f'{kind} {seed} {k}')
        changed = (STRUCTURED[kind] if rng.random() < 0.6 else changed_bytes)(rng, data)
        yield f'{kind} #{k}', lambda: load(tede, kind, changed, rng.randrange(3), folder), False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--calls', type=int, default=3000, help='files of each kind')
    parser.add_argument('--match', type=re.compile)
    parser.add_argument('--call', type=int, help='one file, by number')
    parser.add_argument('--here', action='store_true', help='all in one process')
    options = parser.parse_args()
    warnings.simplefilter('ignore')
    import tede
    import tede.gguf
    import tede.npy
    import tede.safetensors
    fuzzing.limit_memory(3)
    wrong = made = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, data in seeds(tede).items():
            if options.match and not options.match.search(kind):
                continue
            next_one, end = (0, options.calls) if options.call is None else (options.call, options.call + 1)
            while next_one < end:
                numbers = range(next_one, min(next_one + TOGETHER, end))
                count, complaints, last = fuzzing.watched(kind, calls_of(tede, kind, data, options.seed, numbers, folder), right, SECONDS, options.here)
                made, wrong = made + count, wrong + len(complaints)
                for line in complaints:
                    print(line[:400], flush=True)
                next_one = numbers.stop if last is None else int(last.partition('#')[2] or next_one) + 1
    print(f'{made} files, {wrong} wrong')
    return bool(wrong) or not made


if __name__ == '__main__':
    sys.exit(main())
