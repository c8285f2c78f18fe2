"""PyTorch's schema syntax, parsed: ``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor``.

A schema knows its arguments' types and how each looks in C: as parameters of a function, as a boxed value, as a
row of the argument table.  Nothing here knows of kernels or gradients."""
import re
from dataclasses import dataclass, replace

# C types of plain arguments: (required, optional).  Lists and tensors are handled by Argument.
PLAIN = {
    'int': ('int64_t ', 'const int64_t *'), 'float': ('double ', 'const double *'), 'bool': ('bool ', 'const bool *'),
    'Scalar': ('td_scalar ', 'const td_scalar *'), 'str': ('const char *', 'const char *'),
    'ScalarType': ('td_dtype ', 'td_dtype '), 'Device': ('td_device ', 'td_device '),
    'MemoryFormat': ('td_memory_format ', 'td_memory_format '), 'Generator': ('td_generator *', 'td_generator *'),
    'Layout': ('td_layout ', 'td_layout '),
}
ELEMENT = {'int': 'const int64_t *', 'float': 'const double *', 'bool': 'const bool *', 'Scalar': 'const td_scalar *'}
KIND = {'Tensor': 'TENSOR', 'int': 'INT', 'float': 'FLOAT', 'bool': 'BOOL', 'Scalar': 'SCALAR', 'str': 'STRING',
        'ScalarType': 'DTYPE', 'Device': 'DEVICE', 'MemoryFormat': 'MEMORY_FORMAT', 'Generator': 'GENERATOR',
        'Layout': 'LAYOUT'}
LIST_KIND = {'Tensor': 'TENSORS', 'int': 'INTS', 'float': 'FLOATS', 'bool': 'BOOLS', 'Scalar': 'SCALARS'}
WORDS = {'Mean': '1'}         # defaults that are words
MEMORY_FORMATS = {'contiguous_format': 'TD_CONTIGUOUS_FORMAT', 'preserve_format': 'TD_PRESERVE_FORMAT'}


@dataclass
class Argument:
    type: str                 # 'Tensor', 'int', ...
    name: str
    list: bool = False
    size: int = 0             # of int[2]
    optional: bool = False    # Tensor?, int[]?
    optional_items: bool = False   # Tensor?[]
    mutable: bool = False
    default: str = None
    keyword_only: bool = False
    out: bool = False
    wanted: bool = False      # of an optional layout: C takes it, -1 for none
    word: bool = False        # reduction=Mean: the default is a word, see td_arg

    @property
    def is_tensor(self):
        return self.type == 'Tensor'

    @property
    def in_c(self):
        """Whether C functions take it: the only layout that factories make is strided, and memory isn't pinned."""
        return not (self.type == 'Layout' and self.optional and not self.wanted or self.name == 'pin_memory')

    def parameters(self):
        """As declared in C: one or two parameters."""
        if self.is_tensor:
            return [f'int64_t n_{self.c}', f'td_tensor *const *{self.c}'] if self.list else [f'td_tensor *{self.c}']
        if self.list:
            return [f'int64_t n_{self.c}', f'{ELEMENT[self.type]}{self.c}']
        return [f'{PLAIN[self.type][self.optional]}{self.c}']

    def keys(self):
        """The key set of a tensor or a list of them, in C."""
        return f'td_keys_of_list(n_{self.c}, {self.c})' if self.list else f'td_keys_of({self.c})'

    def names(self):
        return [f'n_{self.c}', self.c] if self.list else [self.c]

    @property
    def c(self):
        return self.name + '_' if self.name in ('default', 'double', 'float', 'int', 'long', 'short', 'auto', 'a', 'r') else self.name

    @property
    def kind(self):
        return (LIST_KIND if self.list else KIND)[self.type]

    def unbox(self, value):
        """C expressions of the parameters, from a td_value."""
        if self.is_tensor:
            if self.optional:
                return [f'({value}.kind ? {value}.tensor : TD_NONE)']
            return [f'{value}.count', f'{value}.tensors'] if self.list else [f'{value}.tensor']
        member = {'int': 'integer', 'float': 'number', 'bool': 'integer', 'Scalar': 'scalar', 'str': 'string',
                  'ScalarType': 'integer', 'Device': 'device', 'MemoryFormat': 'integer', 'Generator': 'generator',
                  'Layout': 'integer'}
        lists = {'int': 'ints', 'float': 'numbers', 'bool': 'bools', 'Scalar': 'scalars'}
        if self.list:
            count = f'({value}.kind ? {value}.count : -1)' if self.optional else f'{value}.count'
            return [count, f'{value}.{lists[self.type]}']
        plain = f'{value}.{member[self.type]}'
        if self.type in ('ScalarType', 'MemoryFormat', 'Device'):
            none = {'ScalarType': 'TD_DTYPE_NONE', 'MemoryFormat': 'TD_MEMORY_FORMAT_NONE', 'Device': 'TD_DEVICE_NONE'}
            cast = {'ScalarType': '(td_dtype)', 'MemoryFormat': '(td_memory_format)', 'Device': ''}[self.type]
            return [f'({value}.kind ? {cast}{plain} : {none[self.type]})']
        if self.optional and self.type == 'bool':
            return [f'({value}.kind ? &(const bool){{{plain} != 0}} : NULL)']
        if self.optional and self.type in ('int', 'float', 'Scalar'):
            return [f'({value}.kind ? &{plain} : NULL)']
        if self.type in ('str', 'Generator'):
            return [f'({value}.kind ? {plain} : NULL)']
        if self.type == 'Layout':
            return [f'({value}.kind ? (td_layout){plain} : (td_layout)-1)']
        return [plain]

    def box(self):
        """A td_value initializer, from the parameters."""
        kind = f'.kind = TD_VALUE_{self.kind}'
        if self.list:
            lists = {'Tensor': 'tensors', 'int': 'ints', 'float': 'numbers', 'bool': 'bools', 'Scalar': 'scalars'}
            absent = f'n_{self.c} < 0 ? TD_VALUE_NONE : ' if self.optional else ''
            return f'{{.kind = {absent}TD_VALUE_{self.kind}, .count = (int32_t)n_{self.c}, .{lists[self.type]} = {self.c}}}'
        if self.is_tensor:
            return f'{{{kind}, .tensor = {self.c}}}'
        if self.type in ('ScalarType', 'MemoryFormat', 'Layout'):
            return f'{{.kind = (int){self.c} < 0 ? TD_VALUE_NONE : TD_VALUE_{self.kind}, .integer = {self.c}}}'
        if self.type == 'Device':
            return f'{{.kind = {self.c}.type < 0 ? TD_VALUE_NONE : TD_VALUE_DEVICE, .device = {self.c}}}'
        member = {'int': 'integer', 'float': 'number', 'bool': 'integer', 'Scalar': 'scalar', 'str': 'string',
                  'Generator': 'generator', 'Layout': 'integer'}[self.type]
        if self.type in ('str', 'Generator'):
            return f'{{.kind = {self.c} ? TD_VALUE_{self.kind} : TD_VALUE_NONE, .{member} = {self.c}}}'
        if self.optional:
            zero = 'td_int(0)' if self.type == 'Scalar' else '0'
            return (f'{{.kind = {self.c} ? TD_VALUE_{self.kind} : TD_VALUE_NONE, '
                    f'.{member} = {self.c} ? *{self.c} : {zero}}}')
        return f'{{{kind}, .{member} = {self.c}}}'

    def default_value(self):
        """The default as a td_value initializer, or None."""
        text = self.default
        if text is None:
            return None
        if text == 'None':
            return '{0}'
        if self.list:
            items = [x.strip() for x in text.strip('[]').split(',') if x.strip()]
            if self.size and not text.startswith('['):
                items = [text] * self.size
            lists = {'int': ('ints', 'int64_t'), 'float': ('numbers', 'double'), 'bool': ('bools', 'bool')}
            member, ctype = lists[self.type]
            items = [{'True': 'true', 'False': 'false'}.get(x, x) for x in items]
            return (f'{{.kind = TD_VALUE_{self.kind}, .count = {len(items)}, '
                    f'.{member} = (const {ctype}[]){{{", ".join(items) or "0"}}}}}')
        if self.type == 'Scalar':
            number = {'True': '{TD_SCALAR_BOOL, {.i = 1}, 0}', 'False': '{TD_SCALAR_BOOL, {.i = 0}, 0}'}.get(text)
            is_int = re.fullmatch(r'-?\d+', text)
            number = number or (f'{{TD_SCALAR_INT, {{.i = {text}}}, 0}}' if is_int else
                                f'{{TD_SCALAR_FLOAT, {{.d = {text}}}, 0}}')
            return f'{{.kind = TD_VALUE_SCALAR, .scalar = {number}}}'
        return f'{{.kind = TD_VALUE_{self.kind}, .{self.member()} = {self.default_c()}}}'

    def member(self):
        return {'int': 'integer', 'float': 'number', 'bool': 'integer', 'str': 'string', 'MemoryFormat': 'integer',
                'ScalarType': 'integer'}[self.type]

    def default_c(self):
        """The default of a plain argument as a C expression."""
        text = self.default
        if self.type == 'str':
            return '"' + text.strip('"\'') + '"'
        if self.type == 'MemoryFormat':
            return MEMORY_FORMATS[text]
        return {'True': 'true', 'False': 'false'}.get(text, text)

    def default_parameters(self):
        """The default as C arguments."""
        text = self.default
        if text is None:
            raise ValueError(f'{self.name} has no default')
        if text == 'None':
            if self.is_tensor:
                return ['TD_NONE']
            if self.list:
                return ['-1', 'NULL']
            return [{'ScalarType': 'TD_DTYPE_NONE', 'Device': 'TD_DEVICE_NONE',
                     'MemoryFormat': 'TD_MEMORY_FORMAT_NONE'}.get(self.type, 'NULL')]
        if self.list:
            items = [x.strip() for x in text.strip('[]').split(',') if x.strip()]
            if self.size and not text.startswith('['):
                items = [text] * self.size
            items = [{'True': 'true', 'False': 'false'}.get(x, x) for x in items]
            base = {'int': 'int64_t', 'float': 'double', 'bool': 'bool'}[self.type]
            return [str(len(items)), f'(const {base}[]){{{", ".join(items) or "0"}}}']
        if self.type == 'Scalar':
            call = 'td_bool' if text in ('True', 'False') else 'td_int' if re.fullmatch(r'-?\d+', text) else 'td_float'
            value = f'{call}({text.lower() if text in ("True", "False") else text})'
            return [f'(const td_scalar[]){{{value}}}'] if self.optional else [value]
        value = self.default_c()
        if self.optional and self.type in ('int', 'float', 'bool'):
            base = {'int': 'int64_t', 'float': 'double', 'bool': 'bool'}[self.type]
            return [f'&(const {base}){{{value}}}']
        return [value]


@dataclass
class Schema:
    name: str
    overload: str
    arguments: list
    results: list
    text: str = ''

    @property
    def full_name(self):
        return self.name + ('.' + self.overload if self.overload else '')

    def argument(self, name):
        return next((a for a in self.arguments if a.name == name), None)


TYPE = re.compile(r'(?P<type>[A-Za-z]+)(?P<alias>\([a-z](?P<bang>!?)[^)]*\))?(?P<rest>[\[\]?\d]*)')


def types_of(parameters):
    """The types of C parameters that are written with their names, as a cast to a function's type has them."""
    return ', '.join(p.rsplit('*', 1)[0] + '*' if '*' in p else p.rsplit(' ', 1)[0] for p in parameters)


def parse_type(text):
    match = TYPE.fullmatch(text)
    if not match or match['type'] not in KIND:
        raise ValueError(f'unknown type {text!r}')
    rest = match['rest']
    is_list, size = '[' in rest, re.search(r'\[(\d+)\]', rest)
    head, _, tail = rest.partition('[') if is_list else ('', '', rest)
    return dict(type=match['type'], list=is_list, size=int(size[1]) if size else 0, optional='?' in tail,
                optional_items='?' in head, mutable=match['bang'] == '!')


def split_commas(text):
    parts, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += ch in '([{'
        depth -= ch in ')]}'
        if ch == ',' and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts


def parse(text):
    head, arrow, tail = text.rpartition('->')
    match = re.fullmatch(r'\s*(\w+)(?:\.(\w+))?\((.*)\)\s*', head, re.S)
    if not arrow or not match:
        raise ValueError(f'not a schema: {text!r}')
    arguments, keyword_only = [], False
    for part in split_commas(match[3]):
        if part == '*':
            keyword_only = True
            continue
        declared, equals, default = part.partition('=')
        type_text, name = declared.strip().rsplit(None, 1)
        default = default.strip() if equals else None
        arguments.append(Argument(name=name, default=WORDS.get(default, default), keyword_only=keyword_only, word=default in WORDS,
                                  **parse_type(type_text)))
    tail = tail.strip()
    inner = tail[1:-1] if tail.startswith('(') else tail
    results = []
    for part in split_commas(inner):
        words = part.split()
        results.append(Argument(name=words[1] if len(words) > 1 else '', **parse_type(words[0])))
    for a in arguments:
        a.out = a.mutable and a.keyword_only
    text = re.sub(r'(?<==)\w+(?=[,)])', lambda m: WORDS.get(m[0], m[0]), ' '.join(text.split()))
    return Schema(match[1], match[2] or '', arguments, results, text)


def inplace_of(schema):
    """add.Tensor -> add_.Tensor"""
    arguments = [replace(a) for a in schema.arguments]
    written = next((a for a in arguments if a.name == 'self'), arguments[0])
    written.mutable = True
    text = schema.text.replace(schema.name, schema.name + '_', 1)
    text = re.sub(r'\bTensor (?=self\b)', 'Tensor(a!) ', text, count=1) if written.name == 'self' and not written.list else \
        text.replace('(Tensor', '(Tensor(a!)', 1)
    if arguments[0].list:
        return Schema(schema.name + '_', schema.overload, arguments, [], text.rpartition('->')[0] + '-> ()')
    return Schema(schema.name + '_', schema.overload, arguments, [Argument('Tensor', '', mutable=True)],
                  text.rpartition('->')[0] + '-> Tensor(a!)')


def out_of(schema, overload=None):
    """add.Tensor -> add.out(..., *, Tensor(a!) out)"""
    overload = overload or ('out' if schema.overload in ('', 'Tensor') else schema.overload + '_out')
    count = len(schema.results)
    names = ['out'] if count == 1 else [r.name or f'out{i}' for i, r in enumerate(schema.results)]
    many = count == 1 and schema.results[0].list
    outs = [Argument('Tensor', name, list=many, mutable=True, keyword_only=True, out=True) for name in names]
    arguments = [replace(a) for a in schema.arguments] + outs
    body = schema.text[schema.text.index('(') + 1:schema.text.rindex('->')].strip()[:-1]
    star = '' if '*,' in body or '*, ' in body else '*, '
    letters = 'abcdefg'
    more = ', '.join(f'Tensor({letters[i]}!){"[]" * many} {n}' for i, n in enumerate(names))
    returns = ', '.join(f'Tensor({letters[i]}!)' + (f' {r.name}' if r.name else '') for i, r in enumerate(schema.results))
    text = f'{schema.name}.{overload}({body}{", " if body else ""}{star}{more}) -> ' + (
        '()' if many else returns if count == 1 else f'({returns})')
    if many:
        return Schema(schema.name, overload, arguments, [], text)
    return Schema(schema.name, overload, arguments, [Argument('Tensor', r.name, mutable=True) for r in schema.results], text)


FACTORY = 'ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None'
LITERALS = [(re.compile(pattern), replacement) for pattern, replacement in (
    (r"'([^']*)'", r'"\1"'), (r'(=-?\d+)\.0\b', r'\1.'), (r'(\[-?\d+),(?=-?\d)', r'\1, '), (r'(?<=int\[1\] )(\w+)=(-?\d+)', r'\1=[\2]'))]
OF_CONV = [(re.compile(rf'(?<=int\[{n}\] )(\w+)=(-?\d+)'), r'\1=[' + ', '.join([r'\2'] * n) + ']') for n in (2, 3)]


def shown(schema, is_view, is_out):
    """The text that programs see, as PyTorch prints it: defaults in full, no options of factories beside out=, and where a
    view is given, whose memory that is."""
    text = schema.text
    for pattern, replacement in LITERALS + (OF_CONV if text.startswith('conv') else []):
        text = pattern.sub(replacement, text)
    if is_out and FACTORY in text:
        text = text.replace('*, ' + FACTORY + ', ', '*, ').replace(FACTORY + ', ', '')
    if is_view:
        many = text.endswith('[]')
        text = text.replace('(Tensor ', '(Tensor(a -> *) ' if many else '(Tensor(a) ', 1)
        text = text.removesuffix('Tensor[]') + 'Tensor(a)[]' if many else text.removesuffix('Tensor') + 'Tensor(a)'
    return text
