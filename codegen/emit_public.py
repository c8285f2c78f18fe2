"""The committed outputs: include/tede/ops.h for C programs, and the documentation's table of operators."""
import json
import re

from .manual import summary


def short_forms(op):
    """static inline functions with defaults filled in, which an entry names: ``c: add(self, other)``."""
    texts = op.entry.get('c') or []
    for text in [texts] if isinstance(texts, str) else texts:
        name, _, rest = text.partition('(')
        given = [x.strip() for x in rest.rstrip(')').split(',') if x.strip()]
        declared, passed = [], []
        lead = {'tuple': ['td_tensor **results'], 'list': ['td_tensor_list *results']}.get(op.result, [])
        for a in op.schema.arguments:
            if not a.in_c:
                continue
            if a.name in given:
                declared += a.parameters()
                passed += a.names()
            else:
                passed += a.default_parameters()
        passed = [n.split()[-1].lstrip('*') for n in lead] + passed
        yield f'static inline {op.returns}td_{name.strip()}({", ".join(lead + declared) or "void"})\n{{\n    return td_{op.c}({", ".join(passed)});\n}}'


def wrap(text, width=112, indent='        '):
    if len(text) <= width:
        return text
    out, line = [], ''
    for i, part in enumerate(text.split(', ')):
        piece = part if i == 0 else ', ' + part
        if len(line) + len(piece) > width and line:
            out.append(line + ',')
            line = indent + part
        else:
            line += piece
    return '\n'.join([*out, line])


def ops_header(families):
    parts = ['''/* tede/ops.h: every operator.  Generated from ops/: run `make gen` after changing an entry.
 *
 * Arguments are in the order of the schema.  Lists are a count and a pointer (a count of -1: absent); optional numbers
 * are pointers, NULL if absent; an optional tensor that is absent is TD_NONE, an optional dtype TD_DTYPE_NONE, an
 * optional device TD_DEVICE_NONE.  One result is a new reference, or NULL with an error recorded.  Several come in an
 * array, all or none.  In-place operators (td_add_...) and those with `out` return 0 or -1.
 *
 * Handed NULL for a tensor, an operator returns NULL (or -1) and leaves the thread's error as it was, so that a chain of
 * calls is checked once. */
#ifndef TEDE_OPS_H
#define TEDE_OPS_H
#include <tede/dispatch.h>
#include <tede/list.h>
#ifdef __cplusplus
extern "C" {
#endif
''']
    shorts = []
    for family, groups in families.items():
        if family == 'deprecated':
            continue
        parts.append(f'\n/* ==== {family} {"=" * max(4, 100 - len(family))} */\n')
        for group in groups:
            for op in group:
                doc = summary(op.entry)
                if op.variant == 'functional' and doc:
                    parts.append(f'/* {doc.replace("*/", "* /")} */')
                must = ' TD_MUST_USE' if op.returns == 'int ' else ''
                parts.append(wrap(f'TD_API {op.declaration("td_" + op.c)}{must};'))
                if op is group[0]:
                    shorts += short_forms(op)
    parts.append('\n/* ==== short forms, with defaults filled in ==== */\n')
    parts.append('\n'.join(shorts) + '\n')
    parts.append('''
#ifdef __cplusplus
}
#endif
#endif
''')
    return '\n'.join(parts)


def parity_figures(root):
    """{entry of PyTorch's database: (dtypes, forward, variants, gradients)} of docs/parity.tsv, and what it says of itself."""
    lines = (root / 'docs' / 'parity.tsv').read_text().splitlines()
    names, table = lines[1].split('\t'), {}
    for line in lines[2:]:
        row = dict(zip(names, line.split('\t'), strict=True))
        base = row['entry'].removeprefix('nn.functional.')
        if row['dtypes'] == 'absent' or base in table:
            continue
        both = [row[k].split('/') for k in ('gradient', 'second') if row[k]]
        grads = '/'.join(str(sum(int(part[i]) for part in both)) for i in (0, 1)) if both else ''
        table[base] = row['dtypes'], row['forward'] or row['random'], row['variants'], grads
    return lines[0].lstrip('# '), table


def left_out(root):
    """The list of docs/missing-operators.md, which this page repeats."""
    return (root / 'docs' / 'missing-operators.md').read_text().partition('## Left out')[2].partition('\n## ')[0].strip()


def with_formula(doc, value):
    """A pointwise operator's text, with the formula where that says more: what td_formula_text gives."""
    if isinstance(value, str) and re.fullmatch(r'\w+\([\w, ]*\)', value):
        return doc
    formula = '; '.join(f'{word}: `{text}`' for word, text in value.items()) if isinstance(value, dict) else f'`{value}`'
    return doc if value is None or '``' in doc and not isinstance(value, dict) else f'{doc} {formula}'


def operators_page(families, root):
    note, figures = parity_figures(root)
    lines = ['# Operators', '', 'Generated from the entries in `ops/`. `I`: has an in-place variant, `O`: takes `out=`, '
             '`M`: is also a method, `G`: has a gradient.', '',
             'The dtypes are those in which PyTorch has the operator and results were compared (`f2` float16, `b2` bfloat16, '
             '`c8` complex64, ...); then how many of the comparisons came out equal: results, variants (method, operator, '
             f'in place, `out=`), first and second gradients. {note}. An operator without figures is not in the database '
             'that they come from. `tools/parity_figures.py` makes the table.', '',
             '## Left out', '', left_out(root), '', 'More in [missing-operators.md](missing-operators.md).', '']
    for family, groups in families.items():
        if family == 'deprecated':
            continue
        lines += [f'## {family}', '', '| operator | | what it gives | dtypes | results | variants | gradients |',
                  '|---|---|---|---|---|---|---|']
        for group in groups:
            op = group[0]
            if op.is_internal:
                continue
            variants = op.entry['variants']
            marks = ''.join(m for m, on in (('I', any(o.variant == 'inplace' for o in group)), ('O', any(o.variant == 'out' for o in group)),
                                            ('M', 'method' in variants), ('G', op.entry.get('grad') not in (None, 'none') or
                                                                           op.kind == 'composite')) if on)
            doc = with_formula(summary(op.entry), op.entry.get('value')).replace('|', '\\|')
            name = op.schema.name.rstrip('_') if op.variant == 'inplace' else op.schema.name
            module, _, rest = name.partition('_')
            found = figures.get(f'{module}.{rest}' if module in ('linalg', 'fft', 'special') else name, ('',) * 4)
            cells = ' | '.join(found).replace('|  |', '| |')
            lines.append(f'| `{op.schema.text}` | {marks} | {doc} | {cells} |'.replace('||', '| |') if '|' not in op.schema.text else '')
        lines.append('')
    return '\n'.join(lines)


def splits(families):
    """How calls on DTensors are split among processes: `splits` of the entries that have it, and `each` of operators on lists, as a Python module."""
    said = table(families, 'splits', "how an operator's calls are split among processes")
    return said + table(families, 'each', '').partition('\n')[2]


def onnx(families):
    """What operators are in ONNX: `onnx` of the entries that have it, as a Python module."""
    return table(families, 'onnx', 'what an operator is in ONNX, see Note [onnx] in _rules.py')


def table(families, field, doc):
    said = {op.full_name: op.entry[field] for groups in families.values() for group in groups for op in group
            if op.entry.get(field) and op.parent is None and op.target is None}
    lines = [f'"""Generated from `{field}` of the entries in ops/: {doc}."""', '', f'{field.upper()} = {{']
    lines += [f'    {json.dumps(name)}: {json.dumps(text)},' for name, text in sorted(said.items())]
    return '\n'.join([*lines, '}', ''])
