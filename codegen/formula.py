"""Formulas as data: an expression of the value language becomes the postfix code that src/formula/ reads at run time.

The steps are those of td_formula_code in include/tede/formula.h.  Bytes: a code, and behind it an operand's, parameter's or
number's index, or of a call how many arguments it has, what its result is, and the function's name, ended by 0."""
import ast
from dataclasses import dataclass, field

from .value import CONSTANTS, REAL_RESULT, PREDICATES, Formula, FormulaError

BINARY = {ast.Add: 'ADD', ast.Sub: 'SUB', ast.Mult: 'MUL', ast.Div: 'DIV', ast.FloorDiv: 'FLOOR_DIV', ast.Mod: 'REMAINDER', ast.Pow: 'POW',
          ast.BitAnd: 'BIT_AND', ast.BitOr: 'BIT_OR', ast.BitXor: 'BIT_XOR', ast.LShift: 'SHIFT_LEFT', ast.RShift: 'SHIFT_RIGHT'}
COMPARE = {ast.Lt: 'LT', ast.LtE: 'LE', ast.Gt: 'GT', ast.GtE: 'GE', ast.Eq: 'EQ', ast.NotEq: 'NE'}
UNARY = {ast.Not: 'NOT', ast.Invert: 'INVERT', ast.USub: 'NEGATE'}
OWN_STEPS = {'where': 'WHERE', 'truth': 'TRUTH', 'number': 'CAST'}
KINDS = {'default': 'TD_FORMULA_DEFAULT', 'int': 'TD_FORMULA_INT', 'complex': 'TD_FORMULA_COMPLEX', 'bool': 'TD_FORMULA_BOOL'}
PROMOTION = {'default': 'COMMON', 'to_float': 'TO_FLOAT', 'first': 'TO_FIRST', 'number': 'TO_NUMBER'}
RESULT = {'same': 'SAME', 'bool': 'TRUTH', 'real': 'REAL'}
DTYPES = {'float': ['F16', 'BF16', 'F32', 'F64'], 'wide': ['F32', 'F64'], 'complex': ['C64', 'C128'], 'bool': ['BOOL'],
          'int': ['U8', 'I8', 'I16', 'I32', 'I64', 'U16', 'U32', 'U64']}
MOST_STEPS = 240          # the size of the arrays in src/formula/formula.h


@dataclass
class Data:
    """A td_formula: expressions by kind over the same operands and parameters."""
    operands: list
    masks: list
    parameters: list
    where: str
    promote: str = 'default'
    out: str = 'same'
    dtypes: list = field(default_factory=list)      # names without TD_
    own_halves: bool = False
    numbers: list = field(default_factory=list)
    codes: dict = field(default_factory=dict)

    def add(self, kind, text):
        tree = Formula(text, self.operands, self.masks, self.parameters, self.where).tree
        steps = self.encode(tree)
        if len(steps) > MOST_STEPS:
            raise FormulaError(f'{self.where}: {len(steps)} steps in {text!r}')
        self.codes[kind] = ', '.join([*steps, 'TD_STEP_END'])

    def number(self, value):
        text = 'NAN' if value != value else ('-' if value < 0 else '') + 'INFINITY' if abs(value) == float('inf') else repr(float(value))
        if text not in self.numbers:
            self.numbers.append(text)
        return f'TD_STEP_NUMBER, {self.numbers.index(text)}'

    def encode(self, node):
        if isinstance(node, ast.Constant):
            return ['TD_STEP_TRUE' if node.value else 'TD_STEP_FALSE'] if isinstance(node.value, bool) else [self.number(node.value)]
        if isinstance(node, ast.Name):
            if node.id in self.operands:
                return [f'TD_STEP_OPERAND, {self.operands.index(node.id)}']
            if node.id in self.parameters:
                return [f'TD_STEP_PARAMETER, {self.parameters.index(node.id)}']
            known = {**CONSTANTS, 'INF': float('inf'), 'NAN': float('nan')}
            if node.id not in known:
                raise FormulaError(f'{self.where}: unknown name {node.id!r}')
            return [self.number(known[node.id])]
        if isinstance(node, ast.UnaryOp):
            return [*self.encode(node.operand), f'TD_STEP_{UNARY[type(node.op)]}']
        if isinstance(node, ast.BoolOp):
            steps = self.encode(node.values[0])
            for value in node.values[1:]:
                steps += [*self.encode(value), 'TD_STEP_AND' if isinstance(node.op, ast.And) else 'TD_STEP_OR']
            return steps
        if isinstance(node, ast.Compare):
            return [*self.encode(node.left), *self.encode(node.comparators[0]), f'TD_STEP_{COMPARE[type(node.ops[0])]}']
        if isinstance(node, ast.BinOp):
            return [*self.encode(node.left), *self.encode(node.right), f'TD_STEP_{BINARY[type(node.op)]}']
        if isinstance(node, ast.Call):
            steps = [step for a in node.args for step in self.encode(a)]
            if node.func.id in OWN_STEPS:
                return [*steps, f'TD_STEP_{OWN_STEPS[node.func.id]}']
            letters = ', '.join(f"'{c}'" for c in node.func.id)
            result = 'TRUTH' if node.func.id in PREDICATES else 'REAL' if node.func.id in REAL_RESULT else 'SAME'
            return [*steps, f'TD_STEP_CALL, {len(node.args)}, TD_FORMULA_{result}, {letters}, 0']
        raise FormulaError(f'{self.where}: {ast.dump(node)} is not in the value language')

    def member(self):
        """A td_formula with what follows it, as the type of a struct's member and its initializer."""
        starts, at = [], 0
        for kind, code in self.codes.items():
            starts += [f'[{KINDS[kind]}] = {at}'] if at else []
            at += code.count(',') + 1
        mask = ' | '.join(f'1u << TD_{d}' for d in self.dtypes)
        masks = sum(1 << i for i, o in enumerate(self.operands) if o in self.masks)
        names = ' '.join([*self.operands, *self.parameters])
        head = [f'.dtypes = {mask}, .starts = {{{", ".join(starts) or 0}}}, .masks = {masks}',
                f'.n_operands = {len(self.operands)}, .n_parameters = {len(self.parameters)}, .n_numbers = {len(self.numbers)}',
                f'.promotion = TD_FORMULA_{PROMOTION[self.promote]}, .result = TD_FORMULA_{RESULT[self.out]}, .own_halves = {int(self.own_halves)}']
        return (f'struct {{ td_formula head; double numbers[{len(self.numbers)}]; char names[{len(names) + 1}]; uint8_t code[{at}]; }}',
                f'{{{{sizeof(td_formula), {", ".join(head)}}}, {{{", ".join(self.numbers)}}}, "{names}", {{{", ".join(self.codes.values())}}}}}')


WHAT = {'value': 'TD_FORMULA_OF_VALUE', 'grad': 'TD_FORMULA_OF_GRADIENT', 'tangent': 'TD_FORMULA_OF_TANGENT'}


def source(operators, rows_of=()):
    """The C file with all formulas: [(names of an operator's variants, {what: {of: Data}})]; and what reductions make of a row, [(name, word)].
    All of it is numbers and text, places instead of pointers, so that loading the library takes nothing more."""
    words, members, types, entries, rows = {}, [], {}, [], []

    def word(text):
        return words.setdefault(text, sum(len(w) + 1 for w in words))
    for names, formulas in operators:
        first = len(entries)
        for what, by_name in formulas.items():
            for of, data in by_name.items():
                text = data.member()
                key = names[0], text         # equal ones of an operator are one
                if key not in types:
                    types[key] = f'f{len(types)}'
                    members.append((types[key], text))
                entries.append(f'    {{offsetof(struct formulas, {types[key]}), {word(of)}, {WHAT[what]}}},')
        choices = ' '.join(formulas['value'])
        if choices:
            entries.append(f'    {{0, {word(choices)}, TD_FORMULA_CHOICES}},')
        rows += [(name, first, len(entries) - first) for name in names]
    table = [f'    {{{word(name)}, {first}, {count}}},' for name, first, count in sorted(rows)]
    return '\n'.join([
        '/* Generated from the entries: the formulas of pointwise operators. */', '#include <math.h>', '#include <stddef.h>', '#include "formula/data.h"', '',
        'static const struct formulas {', *(f'    {type} {name};' for name, (type, _) in members), '} formulas = {',
        *(f'    .{name} = {value},' for name, (_, value) in members), '};', '',
        'const td_formula *td_formula_at(uint32_t place) { return (const td_formula *)((const char *)&formulas + place); }', '',
        'const td_formula_entry td_formula_entries[] = {', *entries, '};', 'const td_formula_operator td_formula_operators[] = {', *table, '};',
        f'const int td_formula_operator_count = {len(table)};',
        'const char td_formula_rows[] =', *(f'    "{name}\\0{word}\\0"' for name, word in rows_of), '    "";',
        'const char td_formula_words[] =', *(f'    "{w}\\0"' for w in words), '    "";', ''])
