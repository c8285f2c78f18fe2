"""The entries of ops/*.yaml, expanded into operators: each entry is a functional operator and the variants that
follow from it."""
import pathlib
import re
from dataclasses import dataclass

import yaml

from . import schema as schemas
from .requires import requires

KINDS = 'pointwise', 'kernel', 'native', 'composite', 'view'
FIELDS = {'func', 'kind', 'variants', 'promote', 'value', 'value_int', 'value_complex', 'value_bool', 'dtypes', 'masks', 'in_order',
          'out', 'cost', 'grad', 'grad_inplace', 'python', 'doc', 'example', 'c', 'out_overload', 'alias', 'flags', 'c_name',
          'deprecated', 'error_name', 'choices_error', 'body', 'numbers', 'copy', 'copy_of', 'for', 'each',
          'differentiable', 'jvp', 'out_check', 'out_dtype', 'inplace_dtype', 'bool_errors', 'fitting', 'refuses', 'dtype_error',
          'same_dtype', 'check', 'old_masks', 'halves', 'divisor', 'in_turn', 'requires', 'layouts', 'sparse_into', 'takes_layout',
          'format', 'batch', 'autocast', 'tags', 'names', 'flops', 'decompose', 'undo', 'splits', 'shown', 'spelled', 'geometry', 'implementation', 'reduces',
          'fold', 'onnx', 'device', 'rows', 'sized_by', 'writes', 'from_cpu', 'node', 'formats', 'late',
          'fills', 'args', 'shape', 'returns', 'raises'}
PLACES = {'nn': 'TD_OP_NN', 'linalg': 'TD_OP_LINALG', 'fft': 'TD_OP_FFT', 'special': 'TD_OP_SPECIAL'}
FLAGS = {'any_device', 'casts', 'checks_elements', 'contiguous_out', 'copies', 'counts_writes', 'data_dependent', 'detaches', 'draws_out', 'factory', 'fills_out',
         'heavy', 'inplace_alias_method', 'inplace_function', 'inplace_method', 'inplace_view', 'internal', 'knows_bits', 'makes_zeros', 'may_view',
         'one_call', 'promotes', 'real_gradient', 'records_out', 'several_devices', 'takes_numbers', 'uninitialized'}
REDUCES = {'sum', 'count', 'bool', 'float', 'extreme', 'extreme_at'}     # td_reduced in src/ops/reduce/reduced.h
FOLDS = {'sum', 'mean', 'max', 'min'}      # td_row_rule in src/region/native.h
# C names that base.h and tensor.h use for something else.
TAKEN = {'complex', 'grad', 'bool', 'int', 'float', 'tensor', 'fail', 'error'}


class EntryError(Exception):
    pass


@dataclass
class Operator:
    """One row: a schema, how it came about, and the entry that it belongs to."""
    schema: schemas.Schema
    entry: dict
    variant: str               # functional, inplace, out
    family: str
    parent: object = None      # of a variant: the functional operator
    c: str = ''
    index: int = 0
    target: object = None      # of an operator that only calls another one: that other
    wrapped: tuple = ()        # the numbers that become tensors on the way
    deprecated: bool = False   # PyTorch's older order of arguments, for Python only
    alias: bool = False        # whether the other is the same but for its name
    of_layouts: tuple = ()     # (key, pattern, kernel, word) for layouts other than strided, once they are emitted

    @property
    def kind(self):
        return self.entry['kind']

    @property
    def full_name(self):
        return 'aten::' + self.schema.full_name

    @property
    def gives_views(self):
        return self.variant == 'functional' and (self.kind == 'view' or 'may_view' in self.entry.get('flags', []))

    @property
    def aliases(self):
        """{id of an argument or result: the letter of those that may share memory}."""
        s = self.schema
        if self.gives_views:
            return {id(a): 'a' for a in [s.arguments[0], *s.results]}
        return {id(a): chr(ord('a') + i) for some in ([a for a in s.arguments if a.mutable], [r for r in s.results if r.mutable])
                for i, a in enumerate(some)}

    @property
    def is_function(self):
        """Whether Python has it as a function, not as a method alone, nor as one that is written in Python."""
        if 'function' not in self.entry['variants'] or self.entry.get('python') == 'written':
            return False
        name, several, flags = self.schema.name, len(self.schema.arguments) > 1, self.entry.get('flags', [])
        return self.variant != 'inplace' or self.parent is None or self.entry.get('python') in PLACES or \
            name.startswith('_') or ('inplace_function' in flags if several else
                                     ('inplace_alias_method' if self.alias else 'inplace_method') not in flags)

    @property
    def promotes(self):
        """Whether operands are brought to one dtype."""
        return self.kind == 'pointwise' or 'promotes' in self.entry.get('flags', []) or bool(self.target and self.target.promotes)

    @property
    def tensors(self):
        return [a for a in self.schema.arguments if a.is_tensor]

    @property
    def is_internal(self):
        """A part of other operators, which say what it is given."""
        return 'internal' in (self.entry.get('python'), *self.entry.get('flags', []))

    @property
    def undifferentiated(self):
        """The operands that have no formula beside those that have one: they must not need a gradient. `none` says that they may."""
        named = {name for key in self.entry['grad'] for name in self.names_in(key)}
        return [] if self.is_internal else [a for a in self.tensors if a.name not in named and not a.list]

    @staticmethod
    def names_in(key):
        return [name.strip() for name in key.split(',')]

    @property
    def mutable(self):
        return [a for a in self.schema.arguments if a.mutable]

    @property
    def result(self):
        """tensor, tuple, list, plain or void: how a C function gives its result."""
        if self.mutable:
            return 'void'
        r = self.schema.results
        if not r:
            return 'void'
        if len(r) > 1:
            return 'tuple'
        return ('list' if r[0].list else 'tensor') if r[0].is_tensor else 'plain'

    @property
    def returns(self):
        return 'td_tensor *' if self.result == 'tensor' else 'int '

    def parameters(self, leading=()):
        out = {'tuple': ['td_tensor **results'], 'list': ['td_tensor_list *results']}.get(self.result, [])
        if self.result == 'plain':
            r = self.schema.results[0]
            out = [{'bool': 'bool *', 'int': 'int64_t *', 'float': 'double *', 'Scalar': 'td_scalar *',
                    'ScalarType': 'td_dtype *'}[r.type] + 'results']
        return [*leading, *out, *(p for a in self.schema.arguments if a.in_c for p in a.parameters())] or ['void']

    def names(self, leading=()):
        out = ['results'] if self.result in ('tuple', 'list', 'plain') else []
        return [*leading, *out, *(n for a in self.schema.arguments if a.in_c for n in a.names())]

    def declaration(self, name, leading=()):
        return f'{self.returns}{name}({", ".join(self.parameters(leading))})'

    @property
    def geometry(self):
        """The struct that the meta function of a `kind: kernel` fills, and its implementations get in place of all numbers; or None."""
        return f'td_{self.entry["geometry"]}_geometry' if 'geometry' in self.entry else None

    @property
    def meta(self):
        """The declaration of its meta function."""
        numbers = [p for a in self.schema.arguments if a.in_c for p in a.parameters()]
        filled = [f'{self.geometry} *geometry'] if self.geometry else []
        return f'int td_meta_{self.entry.get("body", self.c)}({", ".join(["td_spec *specs", *filled, *numbers])})'

    @property
    def reduces(self):
        """Of an entry with ``reduces``, as C: what each result holds, n_dim, dim, keepdim, dtype, for td_meta_reduced()."""
        rules = self.entry['reduces']
        rules = [f'TD_REDUCED_{rule.upper()}' for rule in (rules if isinstance(rules, list) else [rules])]
        given = {a.name: a.names() for a in self.schema.arguments}
        dim = given.get('dim', ['-1', 'NULL'])
        if len(dim) == 1:
            optional = next(a.optional for a in self.schema.arguments if a.name == 'dim')
            dim = [f'{dim[0]} ? 1 : -1', dim[0]] if optional else ['1', f'&{dim[0]}']
        return rules, *dim, given.get('keepdim', ['false'])[0], given.get('dtype', ['TD_DTYPE_NONE'])[0]

    @property
    def implementation(self):
        """The parameters of an implementation by (type and name, name): operands, geometry, results."""
        operands = [(p, n) for a in self.schema.arguments if a.in_c and (a.is_tensor or not self.geometry)
                    for p, n in zip(a.parameters(), a.names())]
        read = [(f'const {self.geometry} *geometry', 'geometry')] if self.geometry else []
        return [*operands, *read, *((f'td_tensor *out{i}', f'out{i}') for i in range(len(self.schema.results)))]

    @property
    def cpu(self):
        """The declaration of the CPU's implementation, which several entries may share."""
        return f'int td_cpu_{self.implementation_name}({", ".join(p for p, _ in self.implementation)})'

    @property
    def implementation_name(self):
        return self.entry.get('implementation', self.entry.get('body', self.c))

    @property
    def on_device(self):
        """The declaration of what devices with programs run: an implementation, or a body of another kind, in src/kernels/device/ or, of
        ``device: same``, the CPU's."""
        if self.entry.get('device') == 'same':
            return self.cpu if self.kind == 'kernel' else self.declaration(f'td_op_{self.entry.get("body", self.c)}')
        if self.kind == 'kernel':
            return f'int td_on_device_{self.implementation_name}({", ".join(p for p, _ in self.implementation)})'
        return self.declaration(f'td_on_device_{self.entry.get("body", self.c)}')


def fill_of(op):
    """Of an entry with ``fills``: the declaration of what fills contiguous elements on the CPU."""
    floats = [p for a in op.schema.arguments if a.type == 'float' for p in a.parameters()]
    return f'int td_fill_{op.entry["fills"]}({", ".join(["td_generator *g", "td_dtype dtype", "void *out", "int64_t n", *floats])})'


def c_name(schema):
    name = schema.name + ('op' if schema.name in TAKEN and schema.name.endswith('_') else '_op' if schema.name in TAKEN else '')
    inplace = name.endswith('_') and not name.endswith('__')
    base = name.rstrip('_') if inplace else name
    return base + ('_' + schema.overload.lower() if schema.overload else '') + ('_' if inplace else '')


# Of `layouts:` in an entry: the keys that a name stands for, and what may be said of them.
LAYOUT_KEYS = {'sparse': ('TD_KEY_SPARSE', 'TD_KEY_COMPRESSED'), 'sparse_coo': ('TD_KEY_SPARSE',), 'sparse_compressed': ('TD_KEY_COMPRESSED',),
               'nested': ('TD_KEY_PARTS',), 'quantized': ('TD_KEY_QUANTIZED',),
               'packed': ('TD_KEY_PACKED',), 'any': ('TD_KEY_DENSE',)}
LAYOUT_PATTERNS = {'values': 'TD_LAYOUT_VALUES', 'elements': 'TD_LAYOUT_ELEMENTS', 'parts': 'TD_LAYOUT_EACH_PART',
                   'rows': 'TD_LAYOUT_ROWS', 'dims': 'TD_LAYOUT_DIMS', 'reduced': 'TD_LAYOUT_REDUCED'}
OF_NESTED = 'rows', 'dims', 'reduced'
# Words that the layout itself knows (its `call`), and the start of the names of its kernels.
LAYOUT_WORDS = {'quantized': ('integers', 'moved', 'numbers', 'computed', 'fused', 'unit', 'symmetric')}
LAYOUT_KERNELS = {'quantized': 'quantized', 'packed': 'packed'}         # else sparse


def of_layouts(op):
    """What the operator does for layouts other than strided: {layout: word}.  A word alone is a pattern that holds for any."""
    said = (op.parent or op).entry.get('layouts') or {}
    said = {'any': said} if isinstance(said, str) else said
    for layout, word in said.items():
        patterns = ('values', *OF_NESTED, 'below') if layout == 'nested' else [word for word in LAYOUT_PATTERNS if word not in OF_NESTED]
        if layout not in LAYOUT_KEYS or word not in (*patterns, 'same', *LAYOUT_WORDS.get(layout, ()), *(('kernel',) if layout != 'any' else ())):
            raise EntryError(f'{op.family}: {op.schema.full_name}: layouts: no {word!r} for {layout!r}')
    return said


def expand(entry, family):
    """The operators of an entry, functional first."""
    where = f'{family}: {entry.get("func")}'
    unknown = entry.keys() - FIELDS
    if unknown:
        raise EntryError(f'{where}: unknown fields {sorted(unknown)}')
    if entry.get('kind') not in KINDS:
        raise EntryError(f'{where}: kind is {entry.get("kind")!r}; it is one of {", ".join(KINDS)}')
    if entry.get('device', 'same') != 'same':
        raise EntryError(f'{where}: device is {entry["device"]!r}; it is `same`, or a function td_on_device_... in src/kernels/device')
    schema = schemas.parse(entry['func'])
    for field in ('writes', 'from_cpu'):
        if stray := set(entry.get(field, [])) - {a.name for a in schema.arguments}:
            raise EntryError(f'{where}: {field}: no argument {", ".join(sorted(stray))}')
    for a in schema.arguments if entry.get('takes_layout') is True else []:
        a.wanted = a.type == 'Layout'
    default = {'pointwise': ['function', 'method', 'inplace', 'out'], 'kernel': ['function', 'method', 'out']}
    variants = entry.setdefault('variants', default.get(entry['kind'], ['function', 'method']))
    if entry['kind'] == 'pointwise' and 'value' not in entry:
        raise EntryError(f'{where}: a pointwise operator needs a value')
    if unknown := set(entry.get('flags', [])) - FLAGS:
        raise EntryError(f'{where}: unknown flags {sorted(unknown)}')
    rules = entry.get('reduces', [])
    rules = rules if isinstance(rules, list) else [rules]
    if rules and (entry['kind'] != 'kernel' or len(rules) != len(schema.results) or not REDUCES.issuperset(rules)):
        raise EntryError(f'{where}: reduces: a kernel has one of {", ".join(sorted(REDUCES))} for each result')
    if 'rows' in entry and (entry['kind'] != 'kernel' or entry['rows'] not in {'none'} | {a.name for a in schema.arguments if a.type == 'int'}):
        raise EntryError(f'{where}: rows: a kernel has an argument that is dimensions or sizes, not {entry["rows"]!r}')
    types = [a.type for a in schema.arguments]
    if 'fills' in entry and (entry['kind'] != 'native' or types not in (['Tensor', *['float'] * n, 'Generator'] for n in range(3))):
        raise EntryError(f'{where}: fills: a native operator of self, at most two floats and a generator')
    if entry.get('fold', 'sum') not in FOLDS:
        raise EntryError(f'{where}: fold: what a row becomes is one of {", ".join(sorted(FOLDS))}')
    variant = 'functional'
    if any(a.mutable and not a.out for a in schema.arguments) and schema.name.endswith('_'):
        variant = 'inplace'
    elif any(a.out for a in schema.arguments):
        variant = 'out'
    base = Operator(schema, entry, variant, family, c=entry.get('c_name') or c_name(schema))
    result = [base]
    if 'inplace' in variants and variant == 'functional':
        s = schemas.inplace_of(schema)
        result.append(Operator(s, entry, 'inplace', family, base, c_name(s)))
    if 'out' in variants and variant == 'functional':
        s = schemas.out_of(schema, entry.get('out_overload'))
        result.append(Operator(s, entry, 'out', family, base, c_name(s)))
    for op in result:
        op.schema.c_name = 'td_' + op.c
    try:
        requires(base)
    except ValueError as error:
        raise EntryError(f'{where}: {error}') from None
    return result


def forwards(group, family):
    """Operators that only call those of a group: its overloads for Python numbers, ``numbers: {Scalar: other}``, and
    all of these under other names, ``alias: [multiply]``."""
    functional, entry = group[0], group[0].entry
    result, sources = [], [group]
    for overload, names in entry.get('numbers', {}).items():
        names = [names] if isinstance(names, str) else names
        text = functional.schema.text
        for name in names:
            text = re.sub(rf'Tensor {name}\b', f'Scalar {name}', text)
        if names == ['other']:              # beside a number, PyTorch takes alpha by its position, too
            text = text.replace('*, Scalar alpha', 'Scalar alpha')
        text = f'{functional.schema.name}.{overload}{text[text.index("("):]}'
        drop = {'method', 'inplace'} if 'self' in names else set()
        result.append(forward(group, family, text, [v for v in entry['variants'] if v not in drop], entry.get('python'),
                              overload + '_out', tuple(names), entry.get('doc', '')))
        sources.append(result[-1])
    for alias in entry.get('alias', []):
        for source in sources:
            schema, variants, place = source[0].schema, source[0].entry['variants'], source[0].entry.get('python')
            prefix = alias.partition('_')[0]
            if prefix in PLACES:      # torch.special.expit: a function only
                variants, place = [v for v in variants if v in ('function', 'out')] + ['function'] * ('function' not in variants), prefix
            elif place in PLACES:
                variants, place = [*variants, 'method'], None
            out = next((o.schema.overload for o in source if o.variant == 'out'), None)
            text = alias + schema.text[len(schema.name):]
            if 'method' in variants and schema.arguments[0].name != 'self':     # of what it is a method
                text = re.sub(rf'\b{schema.arguments[0].name}\b', 'self', text, count=1)
            new = forward(source, family, text, variants, place, out, (),
                          f'Alias of {schema.name}.')
            for op in new:
                op.alias = True
                if source[0].wrapped:               # torch.subtract(x, 1, 2), but not torch.sub(x, 1, 2)
                    op.entry['flags'] = [f for f in op.entry['flags'] if f != 'takes_numbers']
            result.append(new)
    return result


def forward(group, family, text, variants, place, out_overload, wrapped, doc):
    entry = {'func': text, 'kind': 'composite', 'variants': variants, 'doc': doc}
    entry.update({k: v for k, v in (('python', place), ('out_overload', out_overload)) if v})
    entry['flags'] = [f for f in group[0].entry.get('flags', [])]
    by_variant = {op.variant: op for op in group}
    result = [op for op in expand(entry, family)]
    for op in result:
        op.target, op.wrapped = by_variant[op.variant], wrapped
    return result


def deprecated_of(group):
    """``deprecated: [add(Tensor self, Scalar alpha, Tensor other)]``: older orders of an operator's arguments, which Python
    still takes, with a warning; what isn't given has its default."""
    functional, result = group[0], []
    for i, text in enumerate(functional.entry.get('deprecated', [])):
        name, _, rest = text.partition('(')
        overload = 'deprecated' + (str(i + 1) if i else '')
        new = forward(group, 'deprecated', f'{name}.{overload}({rest} -> Tensor{"(a!)" if name.endswith("_") else ""}', functional.entry['variants'],
                      functional.entry.get('python'), overload + '_out', (), '')
        for op in new:
            op.deprecated = True
        result.append(new)
    return result


def copy_of(group, family):
    """``copy: true`` at a view: an operator of the name with _copy, which gives new memory; ``copy: filled``: whose out= is filled as
    copy_ fills a tensor, not resized; ``copy: reshaped``: of strides that no view has, too."""
    view = group[0]
    text = f'{view.schema.name}_copy{view.schema.text[len(view.schema.name):]}'
    filled = view.entry['copy'] == 'filled'
    return expand({'func': text, 'kind': 'composite', 'variants': ['function', 'out'], 'copy_of': view,
                   **({'flags': ['fills_out']} if filled else {'flags': ['records_out'], 'out_dtype': 'exact'}),
                   'doc': f'What {view.schema.name} gives, in new memory.'}, family)


def each_name(entry):
    """``for: [sin, cos]``: an entry per name, which stands for {op} in its texts; of ``for: {maximum: clamp_min}`` the
    second word for {by}."""
    names = entry.get('for', [None])
    for name in names:
        def fill(text):
            return text.replace('{op}', name).replace('{by}', names[name] if isinstance(names, dict) else name)
        one = {k: fill(v) if name and isinstance(v, str) else v for k, v in entry.items() if k != 'for'}
        if name and 'refuses' in one:
            one['refuses'] = {fill(text): groups for text, groups in one['refuses'].items()}
        for field in ('doc', 'example'):
            if isinstance(entry.get(field), dict):          # one for each name
                one[field] = fill(entry[field][name])
        for field in ('args', 'raises') if name else ():
            if field in one:
                one[field] = {key: fill(text) for key, text in one[field].items()}
        yield one


def load(folder):
    """{family: [[operators of an entry], ...]} in file order."""
    families = {}
    for path in sorted(pathlib.Path(folder).glob('*.yaml')):
        loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
        entries = yaml.load(path.read_text(), loader) or []
        families[path.stem] = [expand(one, path.stem) for entry in entries for one in each_name(entry)]
    families['copy'] = [copy_of(group, 'copy') for groups in list(families.values()) for group in groups if group[0].entry.get('copy')]
    families['alias'] = [more for groups in list(families.values()) for group in groups for more in forwards(group, 'alias')]
    families['deprecated'] = [old for groups in list(families.values()) for group in groups for old in deprecated_of(group)]
    seen = {}
    for groups in families.values():
        for op in (op for group in groups for op in group):
            for key in (op.full_name, op.c):
                if key in seen:
                    raise EntryError(f'{op.family}: {key} is declared twice, also in {seen[key]}')
                seen[key] = op.family
    return families
