"""The stubs of the extension, python/tede/_C/*.pyi: what editors and type checkers read of the operators.

Overloads come from the schemas; what isn't an operator (types, factories, properties, numbers' methods) is in
extension.pyi beside this file, copied as it is."""
import keyword
import pathlib

PLACES = {'nn': '_nn', 'linalg': '_linalg', 'fft': '_fft', 'special': '_special'}
PLAIN = {'Tensor': 'Tensor', 'int': '_int', 'float': '_float', 'bool': '_bool', 'Scalar': 'Number', 'str': 'str',
         'ScalarType': '_dtype', 'Device': 'Device', 'MemoryFormat': 'memory_format', 'Generator': 'Generator',
         'Layout': '_layout'}
RESULT = {'int': '_int', 'float': '_float', 'bool': '_bool', 'Scalar': 'Number', 'ScalarType': '_dtype', 'Tensor': 'Tensor'}
HEAD = '''# Generated from ops/ and codegen/extension.pyi: run `make gen` after changing either.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, no-redef, assignment"
'''


def argument_type(a):
    text = PLAIN[a.type]
    if a.list:
        item = f'{text} | None' if a.optional_items else text
        text = 'Sequence[Tensor]' if a.is_tensor and not a.optional_items else f'Sequence[{item}]'
        if a.size and not a.is_tensor:
            text += f' | {PLAIN[a.type]}'
    return text + (' | None' if a.optional else '')


def argument_name(a, method=True):
    if a.name == 'self' and not method:
        return 'input'
    return a.name + '_' if keyword.iskeyword(a.name) else a.name


def result_type(op):
    results = op.schema.results
    if not results:
        return 'None'
    types = [f'tuple[{RESULT[r.type]}, ...]' if r.list else RESULT[r.type] for r in results]
    if len(types) == 1:
        return types[0]
    if all(r.name for r in results) and not op.mutable:
        return f'return_types.{op.schema.name}'
    return f'tuple[{", ".join(types)}]'


def parameters(op, method):
    """The parameters of a `def`, without out=, which several overloads share."""
    parts, star, defaulted = ['self'] if method else [], False, False
    tensors = [a for a in op.schema.arguments if a.is_tensor and not a.list]
    receiver = (op.schema.argument('self') or next(iter(tensors), None)) if method else None
    for a in op.schema.arguments:
        if a is receiver or a.out:
            continue
        if (a.keyword_only or defaulted and a.default is None) and not star:
            parts.append('*')
            star = True
        defaulted |= a.default is not None
        default = ' = ...' if a.default is not None or a.optional and a.keyword_only else ''
        if a.name == 'pin_memory':
            parts.append('requires_grad: _bool = ...')
        name = 'other' if method and op.schema.name == 'copy_' and a.name == 'src' else argument_name(a, method)
        parts.append(f'{name}: {argument_type(a)}{default}')
    return parts, star


def definitions(group, method):
    """The `def` lines of an entry: its functional operator (with out=, where there is one) or its in-place one."""
    functional = group[0]
    out = next((op for op in group if op.variant == 'out'), None)
    wanted = 'method' if method else 'function'
    for op in group:
        if op.variant == 'out' and op is not functional:
            continue
        if op.variant == 'inplace' and op is not functional:
            if not (wanted in op.entry['variants'] if method else op.is_function):
                continue
        elif wanted not in op.entry['variants']:
            continue
        if method and not any(a.is_tensor and not a.list for a in op.schema.arguments):
            continue
        parts, star = parameters(op, method)
        results = result_type(op)
        varargs = [a for a in op.schema.arguments if not a.out and not (method and a.is_tensor)]
        if varargs and varargs[0].type == 'int' and varargs[0].list and not varargs[0].keyword_only and \
                all(a.keyword_only or a.default is not None for a in varargs[1:]) and \
                (method or varargs[0] is op.schema.arguments[0]):
            keywords = [f'{argument_name(a)}: {argument_type(a)} = ...' for a in varargs[1:] if a.keyword_only]
            keywords += ['requires_grad: _bool = ...'] if any(a.name == 'pin_memory' for a in varargs) else []
            yield op.schema.name, ', '.join([*(['self'] if method else []), f'*{argument_name(varargs[0])}: _int',
                                             *keywords]), results
        if out is not None and op is functional and not method:
            single = 'Tensor' if len(op.schema.results) == 1 else 'Sequence[Tensor]'
            parts += ([] if star else ['*']) + [f'out: {single} | None = ...']
        elif op.variant == 'out':      # an entry that is its own out= form
            parts += ([] if star else ['*']) + [f'{argument_name(a)}: Tensor' for a in op.schema.arguments if a.out]
        yield op.schema.name, ', '.join(parts), results


def functions(named, indent=''):
    lines = []
    for name in sorted(named):
        overloads = list(dict.fromkeys(named[name]))
        if keyword.iskeyword(name):
            continue
        for parts, result in overloads:
            if len(overloads) > 1:
                lines.append(f'{indent}@overload')
            lines.append(f'{indent}def {name}({parts}) -> {result}: ...')
    return lines


def stubs(families, template):
    """{path below python/tede/_C: text}"""
    places, methods, records = {place: {} for place in ['', *PLACES]}, {}, {}
    for groups in (g for family, g in families.items() if family != 'deprecated'):
        for group in groups:
            place = group[0].entry.get('python', '').replace('written', '')
            if group[0].is_internal:
                continue
            results = group[0].schema.results
            if len(results) > 1 and all(r.name for r in results):
                records[group[0].schema.name] = results
            for name, parts, result in definitions(group, method=False):
                places[place].setdefault(name, []).append((parts, result))
            if place == '':
                for name, parts, result in definitions(group, method=True):
                    methods.setdefault(name, []).append((parts, result))
    text = template.read_text()
    by_hand = set()
    for line in text.split('\n'):
        words = line.split('(')[0].split()
        if line.startswith(('    def ', 'def ')):
            by_hand.add((line.startswith(' '), words[-1]))
    methods = {n: v for n, v in methods.items() if (True, n) not in by_hand}
    places[''] = {n: v for n, v in places[''].items() if (False, n) not in by_hand}
    main = text.replace('    # (methods)', '\n'.join(functions(methods, '    '))).replace('# (functions)', '\n'.join(functions(places[''])))
    files = {'__init__.pyi': HEAD + main}
    imports = ('from collections.abc import Sequence\nfrom typing import overload\n'
               'from tede._C import Device, Generator, Number, Tensor, memory_format, return_types\n'
               'from tede._C import _bool, _dtype, _float, _int, _layout\n\n')
    for place, module in PLACES.items():
        prefix = '' if place == 'nn' else place + '_'
        short = {n.removeprefix(prefix): v for n, v in places[place].items()}
        # Not Device, Sequence and the like: what a star import may take.
        names = ', '.join(f'"{n}"' for n in sorted(short) if not keyword.iskeyword(n))
        files[module + '.pyi'] = HEAD + imports + f'__all__ = [{names}]\n\n' + '\n'.join(functions(short)) + '\n'
    lines = ['from typing import NamedTuple', 'from tede._C import Tensor', '']
    for name, results in sorted(records.items()):
        lines.append(f'class {name}(NamedTuple):')
        lines += [f'    {r.name}: {"tuple[Tensor, ...]" if r.list else RESULT[r.type]}' for r in results]
    files['return_types.pyi'] = HEAD + '\n'.join(lines) + '\n'
    return files


def committed(root, families):
    """{path: text} of all stubs."""
    folder = root / 'python/tede/_C'
    return {folder / name: text for name, text in stubs(families, pathlib.Path(__file__).parent / 'extension.pyi').items()}
