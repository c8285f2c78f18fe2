"""Which rule an operator has at vmap levels: `batch:` of its entry, or what its kind and schema make of it.

`batch: dims(absent_is_all, keeps_0d)` names the C function td_rule_dims and its modes, TD_DIMS_ABSENT_IS_ALL and so on of
src/dispatch/batching.h; `batch: flat(prod.dim_int)` the form with a dimension that the rule calls; `batch: product(self, mat2, matrices)` operands whose
names differ from operator to operator."""
import re

DIMS = {'dim', 'dims', 'dim0', 'dim1', 'dim2', 'dimension', 'axis', 'axis0', 'axis1', 'start_dim', 'end_dim'}
FORMS = {'flat', 'maybe_flat'}      # rules whose argument is another operator
OPERANDS = {'product': 2, 'add_product': 2, 'exchanged_solve': 1, 'tolerance': 1, 'view_backward': 1}      # rules whose first arguments are so many operands


class BatchError(ValueError):
    pass


def has_dims(schema):
    """One tensor, first, and at least one argument that names dimensions."""
    tensors = [i for i, a in enumerate(schema.arguments) if a.is_tensor]
    first = schema.arguments[0] if schema.arguments else None
    return tensors == [0] and not first.list and any(a.name in DIMS and a.type == 'int' for a in schema.arguments)


def is_random(op):
    """Whether it draws numbers itself; a composite of such in place goes through its parts."""
    takes = op.schema.name.startswith('rand') or any(a.type == 'Generator' for a in op.schema.arguments)
    return takes and not (op.kind == 'composite' and op.variant == 'inplace')


def functional_of(op, operators):
    """The operator that gives a new tensor, of one that writes to its operand."""
    name = op.schema.name
    if op.variant != 'inplace' or not name.endswith('_') or name.endswith('__'):
        return None
    return operators.get('aten::' + name[:-1] + ('.' + op.schema.overload if op.schema.overload else ''))


def rows_of(op, operators):
    """(index of the argument, whether it names dimensions) by which it is known how many leading dimensions a structured operator leaves
    alone: `rows:` of the entry, or what the pattern `dims` reads; None where it leaves none."""
    if op.kind != 'kernel' or op.parent or op.target:
        return None
    said, names = op.entry.get('rows'), [a.name for a in op.schema.arguments]
    if said is None and read(text_of(op, False, operators), op.schema, operators)[0] == 'td_rule_dims':
        said = next((name for name in ('dim', 'dims') if name in names), None)
    return (names.index(said), said in DIMS) if said in names else None


def rows_table(families, operators):
    """The table of these operators, for regions."""
    found = [(op.full_name, rows_of(op, operators)) for groups in families.values() for group in groups for op in group]
    lines = [f'    {{.op = "{name}", .argument = {rows[0]}, .names_dims = {str(rows[1]).lower()}}},' for name, rows in found if rows]
    return '\n'.join(['/* Generated: the leading dimensions that structured operators leave alone. */', '#include "region/plan.h"', '',
                      'td_rows td_rows_of_ops[] = {', *lines, '    {0},', '};', ''])


def read(text, schema, operators):
    """(rule or None, C modes, form or None) of the text that the entry of this schema has."""
    match = re.fullmatch(r'(\w+)(?:\(([\w., ]+)\))?', str(text))
    if not match:
        raise BatchError(f'batch: {text!r} is not rule or rule(mode, ...)')
    rule, words = match[1], [w.strip() for w in (match[2] or '').split(',') if w.strip()]
    form = None
    if rule in FORMS:
        form = 'aten::' + words.pop(0) if words else None
        if form not in operators:
            raise BatchError(f'batch: {rule} needs the name of the operator that it calls, not {form}')
    if rule in OPERANDS:
        named, words = words[:OPERANDS[rule]], words[OPERANDS[rule]:]
        if len(named) < OPERANDS[rule] or not {a.name for a in schema.arguments if a.is_tensor}.issuperset(named):
            raise BatchError(f'batch: {rule} needs {OPERANDS[rule]} of the tensors that {schema.name} takes, not {named}')
        form = '\0'.join(named)
    modes = ' | '.join(f'TD_{rule}_{word}'.upper() for word in words)
    return None if rule == 'parts' else f'td_rule_{rule}', modes or '0', form


def text_of(op, composite, operators):
    """What the entry says, or the default in the same words."""
    if 'batch' in op.entry and op.parent is None and op.target is None:
        return op.entry['batch']
    if is_random(op):
        return 'random'
    if op.kind == 'pointwise':
        return 'pointwise'
    if op.kind == 'composite' and composite:
        return 'parts'
    if functional_of(op, operators):
        return 'inplace'
    return 'dims' if has_dims(op.schema) else 'loop'
