"""An operator's row in the table: its signature, argument tables, flags.

What the dispatcher and the bindings read of an operator at run time; emit_c.py writes what runs."""
import ast
import json
import re

from . import batching, traits
from .boxing import Signature
from .entries import PLACES
from .grad import Uses
from .manual import summary
from .schema import shown


def quote(text):
    return json.dumps(' '.join((text or '').split()))


LINEAR = 'linear', 'linear_laid_out', 'linear_resolved'      # words of `jvp:` for operators that are


def is_linear(op):
    """Whether an operator's tangent is what it gives of the operands' tangents: its gradient needs no operand's or result's
    values.  (Not so for formulas, which may add constants.)"""
    spec, own = op.entry.get('grad'), op.entry.get('jvp')
    if op.variant != 'functional' or op.kind == 'pointwise' or not isinstance(spec, dict) or op.target:
        return False
    if own is not None:
        return own in LINEAR
    values = {k.strip() for key in spec for k in key.split(',')} | {r.name or f'result{i}' for i, r in enumerate(op.schema.results)}
    values = (values | {'result'}) - {'grad', 'grads'}
    random = any(a.type == 'Generator' for a in op.schema.arguments)
    return not random and not any(Uses(ast.parse(str(t).strip(), mode='eval').body).whole & values for t in spec.values())


class Rows:
    """The part of a chunk that emits rows: `self.code` takes the text, `self.rows` the names."""

    def boxes(self, op):
        """What boxes an operator's arguments; returns its signature."""
        signature = Signature(op)
        self.signatures[signature.name] = signature
        given = ', '.join([f'&row_{op.c}', 'keys', *op.names()])
        self.code.append(f'''static {op.declaration("boxed_" + op.c, ["td_keyset keys"])}
{{
    return td_box_{signature.name}({given});
}}
''')
        return signature

    def flags(self, op):
        e, flags = op.entry, []
        variants = e['variants']
        own = e.get('flags', [])
        if e.get('python') == 'internal' or 'internal' in own:
            flags.append('TD_OP_INTERNAL')
        elif op.variant == 'inplace' and op.parent is None and 'function' not in variants:
            flags.append('TD_OP_METHOD')
        else:
            if 'method' in variants and op.variant != 'out':
                flags.append('TD_OP_METHOD')
            if op.variant != 'inplace' or op.is_function:
                place = e.get('python')
                flags += [PLACES[place]] if place in PLACES else ['TD_OP_FUNCTION'] if op.is_function else []
        flags += {'inplace': ['TD_OP_INPLACE'], 'out': ['TD_OP_OUT']}.get(op.variant, [])
        flags += {'view': ['TD_OP_VIEW']}.get(op.kind, []) if op.variant == 'functional' else []
        flags += [f'TD_OP_{f.upper()}' for f in own if f in (
            'factory', 'data_dependent', 'any_device', 'inplace_view', 'counts_writes', 'detaches', 'knows_bits', 'makes_zeros', 'takes_numbers',
            'heavy', 'copies', 'uninitialized', 'checks_elements')]
        flags += {'pointwise': ['TD_OP_POINTWISE'], 'composite': ['TD_OP_COMPOSITE']}.get(op.kind, [])
        flags += ['TD_OP_PROMOTES'] if op.promotes else []
        flags += ['TD_OP_LINEAR'] if is_linear(op) else []
        flags += ['TD_OP_DEPRECATED'] if op.deprecated else []
        return ' | '.join(flags) or '0'

    def row(self, op, signature, backend, autograd, forward):
        s, aliases = op.schema, op.aliases

        def table(kind, arguments):
            if not arguments:
                return 'NULL'
            rows = []
            for a in arguments:
                parts = [f'.name = "{a.name}"' if a.name else '.name = NULL', f'.kind = TD_VALUE_{a.kind}']
                parts += [f'.{f} = true' for f, on in (('optional', a.optional), ('optional_items', a.optional_items), ('keyword_only', a.keyword_only),
                                                       ('is_out', a.out), ('is_mutable', a.mutable), ('has_default', a.default is not None),
                                                       ('word_default', a.word),
                                                       ('is_updated', a.name in op.entry.get('writes', [])),
                                                       ('from_cpu', a.name in op.entry.get('from_cpu', []))) if on]
                parts += [f'.list_size = {a.size}'] if a.size else []
                parts += [f".alias = '{aliases[id(a)]}'"] if id(a) in aliases else []
                default = a.default_value()
                parts += [f'.default_value = {default}'] if default and default != '{0}' else []
                rows.append('    {' + ', '.join(parts) + '},\n')
            self.code.append(f'static const td_arg {kind}_{op.c}[] = {{\n{"".join(rows)}}};\n')
            return f'{kind}_{op.c}'
        arguments, results = table('arguments', s.arguments), table('results', s.results)
        cpu, meta, composite = backend
        data_dependent = 'data_dependent' in op.entry.get('flags', [])
        no_meta = data_dependent and 'sized_by' not in op.entry
        alias = f' .alias_of = "{op.target.full_name}",' if op.alias else ''
        kernels = []
        if cpu:
            kernels.append(f'[TD_SLOT_CPU] = (td_kernel){cpu}')
        if meta and not no_meta:
            kernels.append(f'[TD_SLOT_META] = (td_kernel){meta}')
        if autograd:
            kernels.append(f'[TD_SLOT_AUTOGRAD] = (td_kernel){autograd}')
        elif composite and op.entry.get('grad') is None and (op.kind == 'composite' or not data_dependent):
            kernels.append(f'[TD_SLOT_AUTOGRAD] = (td_kernel){composite}')
        if forward:
            kernels.append(f'[TD_SLOT_FORWARD] = (td_kernel){forward}')
        elif composite and op.entry.get('grad') is None and op.kind == 'composite':
            kernels.append(f'[TD_SLOT_FORWARD] = (td_kernel){composite}')
        if composite:
            kernels += [f'[TD_SLOT_CPU] = (td_kernel){composite}'] + ([f'[TD_SLOT_META] = (td_kernel){composite}'] if not no_meta else [])
        rows = ', '.join(f'{{{key}, {pattern}, (td_kernel){kernel}, {f"&row_{op.parent.c}" if op.parent and kernel == "NULL" else "NULL"}, {word}}}'
                         for key, pattern, kernel, word in op.of_layouts)
        of_layouts = f'\n    .of_layouts = (const td_layout_kernel[]){{{rows}, {{0}}}},' if rows else ''
        anywhere = composite and (not data_dependent or 'any_device' in op.entry.get('flags', []))
        by_operators = f'(td_kernel){composite}' if anywhere else 'NULL'
        batch_text = batching.text_of(op, bool(composite) and not data_dependent, self.operators)
        batch = self.batch_table(batch_text, s)
        functional = batching.functional_of(op, self.operators)
        base = op.parent or op
        structured = f'\n    .structured = &structured_{base.c}, .on_strided = (td_kernel)strided_{op.c},' \
            if op.kind in ('pointwise', 'kernel') and not op.target else ''
        word = op.entry.get('jvp')
        tangents = f' .tangents = TD_TANGENTS_{word.upper()},' if isinstance(word, str) and op.parent is None and not op.target else ''
        late = f' .late = {{{text}}},' if (text := self.late(op)) else ''
        functional = f' .functional = "{functional.full_name}",' if functional else ''
        self.code.append(f'''static td_op row_{op.c} = {{
    .info = {{
        .name = "{s.name}", .overload = "{s.overload}",
        .schema = {quote(shown(s, op.gives_views, op.variant == 'out'))},
        .doc = {json.dumps(summary(op.entry))},
        .arguments = {arguments}, .results = {results}, .n_arguments = {len(s.arguments)}, .n_results = {len(s.results)},
        .flags = {self.flags(op)},{alias} .traits = &{self.traits_table(op, batch_text)},
    }},
    .unbox = td_unbox_{signature.name}, .from_boxed = (td_kernel)boxed_{op.c}, .composite = {by_operators},
    .batching = &{batch},{functional}{tangents}{late}{structured}
    .kernels = {{{", ".join(kernels)}}},{of_layouts}
}};
''')
        self.rows.append(op.c)

    def late(self, op):
        """`late:` as the initializer of a td_late_rule."""
        rule = op.entry.get('late')
        if rule is None or op.target or op.variant == 'out':
            return ''
        if rule in ('leaves_work', 'joins'):
            return f'.{rule} = true'
        numbers = {a.name: i for i, a in enumerate(op.schema.arguments)}
        size = re.fullmatch(r'(\w+)\.shape\[(-?\d+)\]', rule['below'])
        fields = {'index': numbers[rule['index']], 'below': numbers[size[1] if size else rule['below']], 'dim': int(size[2]) if size else 0,
                  'but': numbers[rule['but']] if 'but' in rule else 0}
        return ', '.join(['.checks = true'] + [f'.{name} = {number}' for name, number in fields.items()])

    def traits_table(self, op, batch):
        """The name of the table of what an operator does besides computing."""
        words = {'batch': json.dumps(batch), 'tags': json.dumps(' '.join(traits.tags(op)))}
        words |= {field: json.dumps(text) for field in ('names', 'flops', 'undo') if (text := traits.own(op, field))}
        words |= {field: json.dumps('{}={}'.format(*pair)) for field in ('shown', 'spelled') for pair in traits.pairs(op, field)}
        words |= {'decompose': json.dumps(word)} if (word := traits.decompose(op)) else {}
        words |= traits.autocast(op) | traits.formats(op)
        text = ', '.join(f'.{field} = {value}' for field, value in words.items())
        if text not in self.traits:
            self.traits[text] = f'traits_{len(self.traits)}'
            self.code.append(f'static const td_op_traits {self.traits[text]} = {{sizeof(td_op_traits), {text}}};\n')
        return self.traits[text]

    def batch_table(self, text, schema):
        """The name of the table that says this of batches."""
        rule, modes, form = key = batching.read(text, schema, self.operators)
        if key not in self.batchings:
            self.batchings[key] = f'batching_{len(self.batchings)}'
            name = '"' + form.replace('\0', r'\0') + '"' if form else 'NULL'
            self.code.append(f'static const td_batching {self.batchings[key]} = {{{rule or "NULL"}, {modes}, {name}}};\n')
        return self.batchings[key]

    # --------------------------------------------------------------------------------------------------- texts
