"""The functions of mathematics as text, for kernels that are printed at run time (src/formula/).

The inlines that the built-in loops call are written once, in src/kernels/cpu/maths*.h and special*.c.  This cuts those
files into pieces, one function, table or constant each, with macros that make functions expanded, and says for each
which others it needs; a printed kernel brings along the pieces that its formulas call, and no others.  What is left to
the dialect (C, OpenCL C, CUDA C) is what src/formula/dialect.c defines: TD_MATHS before a function, TD_TABLE before a
table, infinities, the bits of numbers, and the names of the C library's functions.

Complex numbers are a struct in all dialects: what is _Complex in those files becomes that struct, and instead of the C library's functions
are those of src/formula/complex.h."""
import functools
import json
import pathlib
import re
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In the order of their definitions; of the first two only what stands from a line on.
SOURCES = [('base.h', '/* ---- half types'), ('formula.h', 'static inline float td_scalar_f32'), ('maths_f64.h', None), ('maths_f32.h', None),
           ('maths_int.h', None), ('special.c', None), ('special_sample.c', None), ('special_gamma.c', None), ('special.h', None)]
# What dialects define themselves.
DIALECTS = {'TD_MATHS', 'TD_INF', 'TD_NAN', 'TD_INFF', 'TD_NANF', 'TD_FMA', 'TD_FMA_F32', 'TD_FMA_F64', 'td_f32_bits', 'td_bits_f32', 'td_f64_bits',
            'td_bits_f64', 'td_scalar_f64'}
COMPLEX = [{'R': 'float', 'C': 'td_c64', 'N': 'td_{}_c64', 'F': 'td_{}_f32', 'SIZE': '8'},
           {'R': 'double', 'C': 'td_c128', 'N': 'td_{}_c128', 'F': 'td_{}_f64', 'SIZE': '16'}]
ARITHMETIC, LIBRARY = '/* ---- what needs functions of real numbers */', '/* ---- by the C library'
# What not every dialect has: words of src/formula/dialect.c.
NEEDS = {'TD_NEEDS_LONG_DOUBLE': r'long double', 'TD_NEEDS_BESSEL': r'\b[jy][01]\(',
         'TD_NEEDS_DOUBLE': r'\bdouble\b'}
WORD = re.compile(r'[A-Za-z_]\w*')


class MathsError(Exception):
    pass


@dataclass
class Piece:
    names: list     # that it defines
    text: str


def without_comments(text):
    return re.sub(r'/\*.*?\*/', ' ', text, flags=re.S).replace('\\\n', ' ')


def arguments_of(text, start):
    """The arguments of a call whose opening parenthesis is at `start`, and where it ends."""
    depth, begin, found = 0, start + 1, []
    for i in range(start, len(text)):
        if text[i] in '([{':
            depth += 1
        elif text[i] in ')]}':
            depth -= 1
            if not depth:
                return [*found, text[begin:i].strip()], i + 1
        elif text[i] == ',' and depth == 1:
            found.append(text[begin:i].strip())
            begin = i + 1
    raise MathsError(f'no end of the call at {text[start:start + 40]!r}')


class Macros:
    """Macros with arguments, expanded wherever they are called."""

    def __init__(self):
        self.known = {}

    def add(self, name, parameters, body):
        self.known[name] = [p.strip() for p in parameters.split(',')], body

    def expand(self, text):
        at = 0
        while found := re.compile(r'\b(' + '|'.join(map(re.escape, self.known)) + r')\s*\(').search(text, at) if self.known else None:
            name = found[1]
            given, end = arguments_of(text, found.end() - 1)
            parameters, body = self.known[name]
            if parameters[-1] == '...':
                given = [*given[:len(parameters) - 1], ', '.join(given[len(parameters) - 1:])]
                parameters = [*parameters[:-1], '__VA_ARGS__']
            given = [self.expand(g) for g in given]
            values = dict(zip(parameters, given, strict=True))
            body = re.sub(r'\s*##\s*', '##', body)
            body = WORD.sub(lambda m: values.get(m[0], m[0]), body.replace('##', '\0'))
            text = text[:found.start()] + body.replace('\0', '') + text[end:]
            at = found.start()
        return text


def items(text):
    """What stands at the top level: directives (a group from #if to #endif as one), definitions, declarations."""
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        if text[at] == '#':
            end = at
            depth = 0
            while True:
                line_end = text.find('\n', end) + 1 or len(text)
                line = text[end:line_end].strip()
                depth += bool(re.match(r'#\s*if', line)) - bool(re.match(r'#\s*endif', line))
                end = line_end
                if not depth:
                    break
            yield text[at:end].strip()
            at = end
            continue
        depth, end = 0, at
        while True:
            c = text[end]
            depth += (c in '({') - (c in ')}')
            end += 1
            if c == '}' and not depth and not text.startswith('typedef', at):
                rest = re.match(r'\s*;', text[end:])
                end += rest.end() if rest else 0
                break
            # A macro that makes functions has no semicolon behind it, and no line break before its end.
            if not depth and (c == ';' or c == ')' and re.fullmatch(r'[A-Z]\w*\s*\(.*\)', text[at:end], re.S)):
                break
        yield text[at:end].strip()
        at = end


def defined(item):
    """The names that a definition gives, none for a declaration alone."""
    if item.startswith('#if'):
        return [name for part in items('\n'.join(line for line in item.split('\n') if not line.startswith('#'))) for name in defined(part)]
    if found := re.match(r'#\s*define\s+(\w+)', item):
        return [found[1]]
    if found := re.match(r'enum\s*\{(.*)\}', item, re.S):
        return [word.split('=')[0].strip() for word in found[1].split(',')]
    if found := re.fullmatch(r'typedef struct .*\}\s*(\w+);', item, re.S):
        return [found[1]]
    if found := re.match(r'struct\s+(\w+)\s*\{', item):
        return [found[1]]
    if found := re.match(r'[^(={;]*?(\w+)(?:\[[^]]*\])*\s*(?:__attribute__\s*\(\(\w+\)\)\s*)?=', item):
        return [found[1]]
    if found := re.match(r'[^({]*?(\w+)\s*\(', item):
        return [found[1]] if item.endswith('}') else []
    return []


def only(group, name):
    """An #if group with the definitions of one name alone."""
    lines = re.split(r'^(#.*)$', group, flags=re.M)
    return '\n'.join(part if part.startswith('#') else '\n'.join(item for item in items(part) if name in defined(item)) for part in lines).strip()


def qualified(item):
    """TD_MATHS before a function, TD_TABLE before a table, nothing of GNU C."""
    item = re.sub(r'__attribute__\s*\(\(\w+\)\)\s*', '', item)
    lines = [line if line.startswith('#') else re.sub(r'^(?:TD_MATHS|static inline|static(?= \w+ \w+\())', 'TD_MATHS', line) for line in item.split('\n')]
    item = '\n'.join(lines)
    if re.match(r'(double|float|int|bool) \w+\(', item):
        item = 'TD_MATHS ' + item
    item = re.sub(r'^static const ', 'TD_TABLE ', item).replace('static const ', 'TD_LOCAL_TABLE ')
    item = re.sub(r'\b__builtin_expect\((.*?), 1\)', r'(\1)', item)
    item = re.sub(r'\b__builtin_(?!complex\b)(\w+)', r'\1', item)
    return '\n'.join(re.sub(r'[ \t]+', ' ', line) for line in item.split('\n') if line.strip())


def of_complex(text, kind):
    """Of one precision."""
    text = re.sub(r'\bL\(c(\w+)\)', r'N(\1)', text)
    for macro in 'NF':
        text = re.sub(rf'\b{macro}\((\w+)\)', lambda m: kind[macro].format(m[1]), text)
    if kind['R'] == 'float':        # no double in what a device without them compiles
        text = re.sub(r'\(R\)(\d[\w.]*)', lambda m: f'{float(m[1])!r}f', text)
    return re.sub(r'\b(?:[RC]|SIZE)\b', lambda m: kind[m[0]], text)


def parts_of_complex():
    """The struct and how one is made, which everything needs; and all functions of complex numbers."""
    own = (ROOT / 'src/formula/complex.h').read_text()
    head, own = own[own.index('typedef struct'):].split(ARITHMETIC)
    shared = (ROOT / 'src/kernels/cpu/math/maths_complex.h').read_text()
    plain, library = shared[shared.index('#elif defined R'):].removeprefix('#elif defined R').rsplit('#endif', 1)[0].split(LIBRARY)
    plain = re.sub(r'.*N\(make\)\(R re.*', '', plain)
    library = re.sub(r'static inline C N\((\w+)\)\([^)]*\)\s*\{ return L\(c\1\).*', '', '/*' + library)
    return head, '\n'.join([plain, own, library])


def of_struct(text):
    """The struct's parts and its maker instead of what C has for _Complex."""
    text = re.sub(r'__(real|imag)__ (\w+)', r'\2.\1', text)
    text = re.sub(r'(float|double) _Complex( td_\w+(c64|c128)\(.*?return )__builtin_complex\(', r'td_\3\2td_make_\3(', text, flags=re.S)
    return text


def texts():
    head, functions = parts_of_complex()
    for kind in COMPLEX:
        yield without_comments(of_complex(head, kind))
    for name, start in SOURCES:
        path = next(iter(ROOT.glob(f'src/kernels/**/{name}')), ROOT / 'src/base' / name)
        text = path.read_text()
        guard = re.search(r'#ifndef (\w+_H)\n#define \1\n', text)
        if guard:
            text = text[:guard.start()] + text[guard.end():text.rindex('#endif')]
        if start:
            if start not in text:
                raise MathsError(f'{name}: no {start!r}')
            text = text[text.index(start):]
        yield of_struct(without_comments(text))
    for kind in COMPLEX:
        yield of_complex(of_struct(without_comments(functions)), kind)


@functools.cache
def pieces():
    macros, found, seen = Macros(), [], set()

    def take(item):
        if re.match(r'#\s*(include|undef)', item):
            return
        if macro := re.match(r'#\s*define\s+(\w+)\(([^)]*)\)\s*(.*)', item, re.S):
            if macro[1] not in DIALECTS:
                macros.add(*macro.groups())
            return
        if item.startswith('#define'):
            names = defined(item)
            item = macros.expand(item)
        elif re.fullmatch(r'[A-Z]\w*\s*\(.*\)', item, re.S):
            for part in items(macros.expand(item)):
                take(part)
            return
        else:
            item = macros.expand(item)
            names = defined(item)
        names = list(dict.fromkeys(name for name in names if name not in DIALECTS))
        if not names:
            return
        if item.startswith('#if') and len(names) > 1:       # one that is chosen should not bring the others along
            for name in names:
                take(only(item, name))
            return
        if twice := seen & set(names):
            raise MathsError(f'{", ".join(sorted(twice))} is defined twice')
        seen.update(names)
        found.append(Piece(names, qualified(item)))
    for text in texts():
        for item in items(text):
            take(item)
    return found


def source():
    """The C file with the pieces."""
    every = pieces()
    where = {name: i for i, piece in enumerate(every) for name in piece.names}
    lines = ['/* Generated from the functions of mathematics in src/kernels/: edit those instead. */', '#include "formula/maths.h"', '',
             'const char td_maths_text[] =']
    rows, needs, at = [], [], 0
    for i, piece in enumerate(every):
        words = set(WORD.findall(piece.text))
        features = ' | '.join(f for f, pattern in NEEDS.items() if re.search(pattern, piece.text)) or '0'
        rows.append(f'    {{{at}, {len(needs)}, {features}}},')
        needs += sorted({where[w] for w in words if w in where and where[w] < i})
        at += len(piece.text) + 1
        lines += [f'    {json.dumps(line + chr(10))}' for line in piece.text.split('\n')]
    lines[-1] += ';'
    rows.append(f'    {{{at}, {len(needs)}, 0}},')
    names, places, at = sorted(where), [], 0
    for name in names:
        places.append(f'    {{{at}, {where[name]}}},')
        at += len(name) + 1
    return '\n'.join([
        *lines, '', f'const uint16_t td_maths_needs[] = {{{", ".join(map(str, needs))}}};', 'const td_maths_piece td_maths_pieces[] = {', *rows, '};', '',
        'const char td_maths_words[] =', *(f'    "{name}\\0"' for name in names[:-1]), f'    "{names[-1]}";', 'const td_maths_name td_maths_names[] = {',
        *places, '};', f'const int td_maths_piece_count = {len(every)}, td_maths_name_count = {len(names)};', ''])
