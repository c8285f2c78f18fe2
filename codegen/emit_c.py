"""C files from operators: stubs, kernels' glue, autograd nodes, argument tables and rows; and the loops of formulas.

A chunk is a part of a family's entries.  It gives two texts: one with everything but loops, compiled once, and one
with the loops, compiled once per instruction set.  Both stand alone, so that a new entry recompiles little."""
import ast
import json
import textwrap
from dataclasses import replace

from . import grad as gradients
from .emit_autograd import Nodes, has_autograd_out
from .entries import LAYOUT_KERNELS, LAYOUT_KEYS, LAYOUT_PATTERNS, LAYOUT_WORDS, fill_of, of_layouts
from .formula import DTYPES, Data
from .traits import FORMATS
from .grad import Emitter, GradError
from .schema import types_of
from .value import GROUPS, NARROW, Formula

REFUSABLE = {**DTYPES, 'half': ['F16', 'BF16'], 'unsigned': ['U16', 'U32', 'U64'],
             **{d.lower(): [d] for ds in DTYPES.values() for d in ds}}
PROMOTE = {'default': 'TD_PROMOTE_DEFAULT', 'to_float': 'TD_PROMOTE_FLOAT', 'first': 'TD_PROMOTE_FIRST',
           'number': 'TD_PROMOTE_NUMBER'}
COLUMN = {'f32': 'TD_LOOP_F32', 'f64': 'TD_LOOP_F64', 'c64': 'TD_LOOP_C64', 'c128': 'TD_LOOP_C128',
          'f32_first': 'TD_LOOP_F32_FIRST', 'f32_second': 'TD_LOOP_F32_SECOND',
          'i32': 'TD_LOOP_I32', 'i64': 'TD_LOOP_I64', 'u64': 'TD_LOOP_U64', 'bool': 'TD_LOOP_BOOL',
          'bf16': 'TD_LOOP_BF16', 'f16': 'TD_LOOP_F16', 'u8': 'TD_LOOP_U8', 'i8': 'TD_LOOP_I8', 'i16': 'TD_LOOP_I16', 'b8': 'TD_LOOP_B8'}
OF = {'bf16': 'TD_OF_PAIRS', 'f16': 'TD_OF_HALVES'}      # loops that not every instruction set has
FAILED = {'tensor': 'NULL'}


class Chunk(Nodes):
    def __init__(self, name, groups, lookup, operators):
        self.name, self.groups, self.lookup, self.operators = name, groups, lookup, operators
        self.rows, self.loops, self.code, self.declared = [], [], [], {}
        self.loop_rows = []       # (name, {column: function}, whether all instruction sets have loops of halves)
        self.loops_of = {}        # of fused formulas: (operator, formula) -> (name, operands, numbers)
        self.formulas = {}        # operator -> what ('value', 'grad', 'tangent') -> {choice or operand: Data}
        self.signatures = {}      # of its operators, by name (boxing.py)
        self.batchings, self.traits = {}, {}      # (rule, modes, form), members of td_op_traits -> the table's name

    # ---------------------------------------------------------------------------------------------- pointwise
    def pointwise_row(self, name, formulas, operands, masks, parameters, groups, out, where, bools_stay=True, own_halves=False):
        """Emit loops for the dtype groups and remember a row; returns the row's number."""
        columns = {}
        for group in groups:
            text = formulas.get(group, formulas['default'])
            formula = Formula(text, operands, masks, parameters, where)
            for compute in GROUPS[group]:
                column = 'bool' if group == 'bool' else compute
                if group == 'bool' and 'int' in groups and 'bool' not in formulas:
                    columns['bool'] = columns['i32']
                    continue
                real_out = 'real' if out == 'real' and compute in ('c64', 'c128') else 'bool' if out == 'bool' else 'same'
                function = f'{name}_{column}'
                self.loops.append(formula.emit(function, compute, real_out))
                columns[column] = function
                if compute == 'f32' and real_out == 'same' and formula.is_arithmetic_of_two():
                    for side, operand in zip(('f32_first', 'f32_second'), operands):
                        self.loops.append(formula.emit(f'{name}_{side}', compute, real_out, operand))
                        columns[side] = f'{name}_{side}'
            of_bool = 'bool' in groups and group == ('bool' if 'bool' in formulas or 'int' not in groups else 'int')
            columns.update(self.narrow(name, formula, group, 'bool' if out == 'bool' else 'same', of_bool and bools_stay))
            for half in ('bf16', 'f16') if group in ('float', 'wide') else ():
                loop = formula.emit(f'{name}_{half}', half, 'bool' if out == 'bool' else 'same', own_halves=own_halves)
                if loop:
                    self.loops.append(loop)
                    columns[half] = f'{name}_{half}'
        self.loop_rows.append((name, columns, own_halves))
        return len(self.loop_rows) - 1

    def narrow(self, name, formula, group, out, of_bool):
        """See Note [Narrow integers].  of_bool: the formula is also that of bool."""
        columns = {}

        for compute in [*(NARROW if group == 'int' else []), *(['b8'] if of_bool and (out == 'bool' or formula.keeps_bools()) else [])]:
            if compute == 'i8' and 'u8' in columns and formula.ignores_signs():
                columns['i8'] = columns['u8']
                continue
            text = formula.emit(f'{name}_{compute}', compute, out)
            if text:
                self.loops.append(text)
                columns[compute] = f'{name}_{compute}'
        return columns

    def pointwise(self, op, suffix, value):
        """The td_pointwise of an operator (one per choice of a string parameter); returns its C name."""
        e, where = op.entry, f'{op.family}: {op.schema.full_name}'
        tensors = [a.c for a in op.schema.arguments if a.is_tensor]
        parameters = [a.c for a in op.schema.arguments if not a.is_tensor and a.type in ('Scalar', 'float', 'int', 'bool')]
        formulas = {'default': value, **{g: e[f'value_{g}'] for g in ('int', 'complex', 'bool') if f'value_{g}' in e}}
        groups = e.get('dtypes', ['float', 'int', 'bool'])
        if e.get('promote') == 'to_float':
            groups = [g for g in groups if g in ('float', 'wide', 'complex')]
        formats = [g for g in FORMATS if g in e.get('dtypes', [])]
        groups = [g for g in ('float', 'wide', 'complex', 'int', 'bool') if g in groups]
        masks = e.get('masks', [])
        name = op.c + suffix
        row = self.pointwise_row(name, formulas, tensors, masks, parameters, groups, e.get('out', 'same'), where,
                                 e.get('promote') != 'number', e.get('halves') == 'own')
        self.keep_formula(op, 'value', suffix[1:], Data(
            tensors, masks, parameters, where, e.get('promote', 'default'), e.get('out', 'same'), [d for g in groups for d in DTYPES[g]],
            e.get('halves') == 'own'), value, {g: e[f'value_{g}'] for g in ('int', 'complex', 'bool') if f'value_{g}' in e})
        self.emit_pointwise(name, e.get('error_name', op.schema.name), len(tensors), e.get('cost', self.cost(value)),
                            PROMOTE[e.get('promote', 'default')], e.get('out', 'same'),
                            sum(1 << i for i, t in enumerate(tensors) if t in masks), groups + formats, row, self.exact_out(op),
                            'Scalar alpha=1)' in op.schema.text and parameters == ['alpha'], self.fitting(e, tensors, parameters) +
                            f' .op = &row_{op.c},' + (f' .choice = "{suffix[1:]}",' if suffix else ''), len(parameters))
        return name

    def keep_formula(self, op, what, of, data, text, others=None):
        """Remember a formula of an operator, for codegen/formula.py to write down."""
        data.add('default', text)
        for kind, other in (others or {}).items():
            data.add(kind, other)
        self.formulas.setdefault(op.c, {}).setdefault(what, {})[of] = data

    @staticmethod
    def fitting(entry, tensors, parameters):
        """The members about values and layout: which numbers must fit, whether masks may be bytes, what is divided by: see docs/add-an-operator.md."""
        rules = entry.get('fitting', {})
        mask, computed, numbers, full = (sum(1 << names.index(name) for name, rule in rules.items() if rule in kinds)
                                   for names, kinds in ((parameters, ('self', 'computed')), (parameters, ('computed',)),
                                                        (tensors, ('number',)), (tensors, ('full',))))
        return (f' .fits = {mask}, .computed = {computed},' if mask else '') + (f' .numbers = {numbers},' if numbers else '') + \
            (f' .full_numbers = {full},' if full else '') + \
            (' .old_masks = true,' if entry.get('old_masks') else '') + \
            (' .own_halves = true,' if entry.get('halves') == 'own' else '') + \
            (f' .divisor = {tensors.index(entry["divisor"])},' if 'divisor' in entry else '') + \
            (f' .in_turn = "{entry["in_turn"]}",' if 'in_turn' in entry else '') + \
            (' .contiguous_out = true,' if 'contiguous_out' in entry.get('flags', []) else '') + \
            (' .contiguous = UINT64_MAX,' if (rule := entry.get('format')) == 'contiguous' else
             f' .contiguous = {Chunk.dtypes_of(rule["contiguous"])},' if isinstance(rule, dict) and 'contiguous' in rule else '')

    @staticmethod
    def dtypes_of(groups):
        return ' | '.join(f'1u << TD_{d}' for g in groups for d in REFUSABLE[g])

    @staticmethod
    def cost(text):
        calls = sum(isinstance(n, (ast.Call, ast.Pow)) for n in ast.walk(ast.parse(str(text).strip(), mode='eval')))
        return 1 + 8 * calls

    def emit_pointwise(self, name, title, n_in, cost, promote, out, masks, groups, row, exact=None, alpha=False, members='', n_params=0):
        """`members`: those that not every one has."""
        mask = ' | '.join(f'1u << TD_{d}' for g in groups for d in {**DTYPES, **FORMATS}[g])
        exact = f'\n    .exact = {exact},' if exact else ''
        alpha = ' .alpha = true,' if alpha else ''
        self.code.append(f'''static const td_pointwise pw_{name} = {{
    .name = "{title}", .n_in = {n_in}, .n_params = {n_params}, .cost = {min(cost, 250)}, .promote = {promote}, .out = TD_OUT_{out.upper()},
    .masks = {masks},{alpha}{members} .dtypes = {mask},
    .rows = TD_LOOPS_AT({self.name}, {row}),{exact}
}};
''')

    # ------------------------------------------------------------------------------------------------- an entry
    def entry(self, group):
        functional = group[0]
        if functional.kind in ('pointwise', 'kernel'):
            self.structured(group)
        if functional.kind == 'pointwise':
            value = functional.entry['value']
            self.choices = {}
            if isinstance(value, dict):
                for choice, text in value.items():
                    self.choices[choice] = self.pointwise(functional, f'_{choice}', text)
            else:
                self.choices[None] = self.pointwise(functional, '', value)
        for op in group:
            self.operator(op)

    def structured(self, group):
        """The table of an operator's implementations, and of the forms that call them."""
        forms = [op for op in group if op.kind in ('pointwise', 'kernel') and not op.target]
        base = forms[0]
        implementation = ''
        if base.kind == 'kernel':
            self.code.append(f'''{'' if 'reduces' in base.entry else base.meta + ';'}
{base.cpu};
static const td_impl cpu_{base.c} = {{.typed = (td_kernel){base.cpu[4:base.cpu.index("(")]}}};
''')
            implementation = f'.impls = {{[TD_CPU] = &cpu_{base.c}}}, '
        self.code.append('\n'.join(f'static td_op row_{op.c};' for op in forms) + f'''
static td_structured structured_{base.c} = {{{implementation}.forms = {{{", ".join(f"&row_{op.c}" for op in forms)}}}}};
''')
        if base.kind == 'kernel':
            results = [f'out{i}' for i in range(len(base.schema.results))]
            numbers = [(p, n) for a in base.schema.arguments if a.in_c for p, n in zip(a.parameters(), a.names())]
            params = [p for p, _ in dict.fromkeys([*numbers, *base.implementation])]
            values = ', '.join([a.box() if a.in_c else '{0}' for a in base.schema.arguments] + ['{.geometry = (void *)geometry}'] * bool(base.geometry))
            types, given = types_of(p for p, _ in base.implementation), ', '.join(n for _, n in base.implementation)
            self.code.append(f'''static int run_{base.c}(td_keyset keys, {", ".join(params)})
{{
    const td_impl *impl = td_impl_of(&structured_{base.c}, keys);
    if (TD_LIKELY(impl && impl->typed && !((int (*)({types}))impl->typed)({given})))
        return 0;
    return td_run_other_impl(impl, &row_{base.c}, keys, (td_value[]){{{values}}}, (td_tensor *[]){{{", ".join(results)}}});
}}
''')

    def operator(self, op):
        s = op.schema
        keys = 'td_keyset keys'
        args = ''.join(f', {n}' for n in op.names())
        self.code.append(f'/* ---- {s.text} */\n\nstatic td_op row_{op.c};')
        self.code.append(f'typedef {op.returns}(*fn_{op.c})({", ".join(op.parameters([keys]))});')
        counted = [] if 'counts_writes' in op.entry.get('flags', []) else op.mutable
        listed = {a.c: f'n_{a.c}, {a.c}' if a.list else f'1, &{a.c}' for a in counted}
        if op.kind in ('pointwise', 'kernel') and not op.target:        # their bodies call no operators that count
            mark = ''
            bump = ''.join(f'        for (int64_t i = 0; i < n_{a.c}; i++)\n            td_wrote({a.c}[i], "{s.name}");\n' if a.list else
                           f'        td_wrote({a.c}, "{s.name}");\n' for a in counted)
        else:
            mark = ''.join(f'    const td_write_mark before_{c} = td_before_write({where});\n' for c, where in listed.items())
            bump = ''.join(f'        td_wrote_since(before_{c}, {where}, "{s.name}");\n' for c, where in listed.items())
        fail = 'NULL' if op.result == 'tensor' else '-1'
        call = f'kernel(keys{args})'
        if op.mutable:
            flags = set(op.entry.get('flags', []))
            # An out= form is refused for operands' gradients first, by its kernel on the Autograd key, which calls this again.
            above = ' && !(keys & TD_KEYSET(TD_KEY_AUTOGRAD))' if has_autograd_out(op) else ''
            body = '' if flags >= {'inplace_view', 'counts_writes'} else ''.join(
                f'    if (TD_UNLIKELY({a.c}->flags & TD_FLAG_INFERENCE) && td_check_sealed({a.c}))\n        return -1;\n' for a in op.mutable
            ) if 'inplace_view' in flags else ''.join(          # a body that counts its writes may write nothing: its parts check
                f'    if (TD_UNLIKELY(td_readonly({a.c})))\n        return td_fail_readonly("{op.schema.name}", "{a.name}", {a.c});\n'
                for a in op.mutable) if 'counts_writes' in flags else ''.join(
                f'    for (int64_t i = 0; i < n_{a.c}; i++)\n        if (TD_UNLIKELY(td_guarded({a.c}[i])) && '
                f'td_check_guarded("{op.schema.name}", "{a.name}[i]", {a.c}[i]))\n            return -1;\n' if a.list else
                f'    if (TD_UNLIKELY(td_guarded({a.c})){above} && td_check_guarded("{op.schema.name}", "{a.name}", {a.c}))\n'
                f'        return -1;\n' for a in op.mutable)
            count = f'    if (status == 0 && td_is_backend(keys)) {{\n{bump}    }}\n' if bump else ''
            body += f'{mark}    int status = {call};\n{count}    return status;'
        else:
            body = f'    return {call};'
        self.code.append(f'''static inline {op.declaration("invoke_" + op.c, [keys])}
{{
    fn_{op.c} kernel = (fn_{op.c})td_pick(&row_{op.c}, &keys);
    if (TD_UNLIKELY(!kernel))
        return {fail};
{body}
}}
''')
        if not op.deprecated:
            self.stub(op, fail)
        backend = self.backend(op)
        op.of_layouts = self.layouts(op)
        autograd = self.autograd(op, fail)
        forward = self.forward(op)
        self.row(op, self.boxes(op), backend, autograd, forward)

    def key_expression(self, op):
        parts = []
        for a in op.schema.arguments:
            if a.is_tensor:
                parts.append(a.keys())
        device = next((a for a in op.schema.arguments if a.type == 'Device'), None)
        if not op.tensors or 'factory' in op.entry.get('flags', []):
            parts = [f'td_device_keys({device.c})'] if device else parts or ['TD_KEYS_CPU']
            if device and op.tensors:
                first = op.tensors[0].c
                parts = [f'({device.c}.type >= 0 ? td_device_keys({device.c}) | (td_keys_of({first}) & ~(td_keyset)0xffffff) '
                         f': td_keys_of({first}))']
        return ' | '.join(parts)

    def stub(self, op, fail):
        checks = []
        for a in op.tensors:
            test = f'td_list_has_null(n_{a.c}, {a.c})' if a.list else f'!{a.c}'
            null = f'td_null_argument("{op.schema.name}", "{a.name}")'
            ret = f'return {null};' if op.result == 'tensor' else f'return {null}, -1;'
            checks.append(f'    if (TD_UNLIKELY({test}))\n        {ret}\n')
        names = ', '.join([f'td_mask({self.key_expression(op)})', *op.names()])
        self.code.append(f'''{op.declaration("td_" + op.c)}
{{
{"".join(checks)}    return invoke_{op.c}({names});
}}
''')

    # ---------------------------------------------------------------------------------------- kernels' glue
    def backend(self, op):
        """Emit what runs on the CPU and meta devices; returns (cpu, meta, composite): names or NULL."""
        return getattr(self, 'backend_' + op.kind)(op)

    def inputs(self, op):
        names = [a.c for a in op.schema.arguments if a.is_tensor and not a.out]
        return f'(td_tensor *[]){{{", ".join(names)}}}'

    @staticmethod
    def refusals(op, fail):
        """Checks of operands for which an entry has an error of its own: dtypes that the first one can't have; what it
        says of a bool one, and of nothing but bool ones; a function that looks at all; numbers that self's dtype must
        be able to hold."""
        lines, texts = [], op.entry.get('bool_errors')
        for name in op.entry.get('same_dtype', []):
            lines += ['    int td_check_same_dtype(const char *name, const td_tensor *self, const td_tensor *operand);',
                      f'    if (td_check_same_dtype("{name}", self, {name}))', f'        return {fail};']
        first = next((a for a in op.schema.arguments if a.is_tensor), None)
        for text, groups in op.entry.get('refuses', {}).items():
            mask = Chunk.dtypes_of(g for g in groups if g not in ('filled', 'rows'))
            but = ''.join(test for word, test in (('filled', ' && {0}->numel'), ('rows', ' && {0}->ndim')) if word in groups)
            if first.list:
                operands = [(f'{first.c}[0]', f'n_{first.c} && ')]
            else:       # elementwise it is the common dtype, so any operand's
                operands = [(a.c, '') for a in op.schema.arguments
                            if a is first or (op.kind == 'pointwise' and a.is_tensor and not a.list and not a.optional)]
            for x, test in operands:
                lines += [f'    if (TD_UNLIKELY({test}({mask}) >> {x}->dtype & 1{but.format(x)}))',
                          f'        return td_refuse({x}, {json.dumps(text)}){", NULL" if fail == "NULL" else ""};']
        if texts:
            tests = [f'{a.c}->dtype == TD_BOOL' for a in op.schema.arguments if a.is_tensor]
            text = json.dumps(texts[0])
            if len(texts) > 1:
                text = f'{" && ".join(tests)} ? {json.dumps(texts[1])} : {text}'
            error = f'td_error(TD_E_RUNTIME, "%s", {text})'
            lines += [f'    if (TD_UNLIKELY({" || ".join(tests)}))', f'        return {error}{", NULL" if fail == "NULL" else ""};']
        tensors = [a.c for a in op.schema.arguments if a.is_tensor and not a.out]
        if 'dtype_error' in op.entry:
            test = ' || '.join(f'{c}->dtype != self->dtype' for c in tensors[1:])
            error = f'td_error(TD_E_RUNTIME, {json.dumps(op.entry["dtype_error"])})'
            lines += [f'    if (TD_UNLIKELY({test}))', f'        return {error}{", NULL" if fail == "NULL" else ""};']
        if 'check' in op.entry:
            arguments = [a for a in op.schema.arguments if a.in_c]
            lines += [f'    int {op.entry["check"]}({", ".join(p for a in arguments for p in a.parameters())});',
                      f'    if ({op.entry["check"]}({", ".join(n for a in arguments for n in a.names())}))', f'        return {fail};']
        for name, rule in op.entry.get('fitting', {}).items() if op.kind != 'pointwise' else ():
            check = {'self': 'td_scalar_check', 'computed': 'td_scalar_check_computed', 'indexed': 'index->numel && td_scalar_check'}[rule]
            lines += [f'    if ({check}({name}, (td_dtype)self->dtype))', f'        return {fail};']
        return lines

    @staticmethod
    def one_device(op, fail):
        """The refusal of operands on several devices in one call; asked only where the call's keys have another device than the CPU.  Indices, and
        where parts of them begin, on the CPU go with what is on meta, and an out= is refused later."""
        indices = ('indices', 'offsets')
        base = op.parent or op
        tensors = sorted((a for a in op.schema.arguments if a.is_tensor and not (a.list and a.optional_items)), key=lambda a: a.name in indices)
        strict = 0 if op.variant == 'out' else sum(a.name not in indices for a in tensors)
        if 'several_devices' in base.entry.get('flags', []) or len(tensors) + sum(a.list for a in tensors) < 2:
            return ''
        lists = ', '.join(f'{{n_{a.c}, {a.c}}}' if a.list else f'{{1, &{a.c}}}' for a in tensors)
        return f'''    if (TD_UNLIKELY(keys & TD_KEYS_DEVICES & ~TD_KEYSET(TD_CPU)) &&
        td_check_devices(&row_{op.c}, {len(tensors)}, {strict}, (td_spec_inputs[]){{{lists}}}, {str(op.kind == 'kernel').lower()}))
        return {fail};
'''

    def backend_pointwise(self, op):
        base = op.parent or op
        scalars = []
        for a in base.schema.arguments:
            if not a.is_tensor and a.type in ('Scalar', 'float', 'int', 'bool'):
                wrap = {'Scalar': '{}', 'float': 'td_float({})', 'int': 'td_int({})', 'bool': 'td_bool({})'}[a.type]
                scalars.append(wrap.format(a.c))
        params = f'(const td_scalar[]){{{", ".join(scalars)}}}' if scalars else 'NULL'
        function = {'functional': 'run', 'inplace': 'inplace', 'out': 'out'}[op.variant]
        fail = 'NULL' if op.result == 'tensor' else '-1'
        out = ', out' if op.variant == 'out' else ''
        run = f'    return td_pointwise_{function}(which, {self.inputs(op)}, {params}{out});'
        kept = self.follow_format(op) if op.variant == 'functional' else ''
        if kept:
            run = f'    td_tensor *results[1] = {{td_pointwise_run(which, {self.inputs(op)}, {params})}};\n' \
                  f'    if (!results[0])\n        return NULL;\n{kept}    return results[0];'
        lines = self.refusals(base, fail)
        if None in self.choices:
            lines.append(f'    const td_pointwise *which = &pw_{self.choices[None]};')
        else:
            word = next(a for a in base.schema.arguments if a.type == 'str')
            lines.append('    const td_pointwise *which;')
            keyword = 'if'
            absent = base.entry.get('choices_error') or \
                f'{base.schema.name}: {word.name} must be {" or ".join(repr(c) for c in self.choices)}, not %s'
            for choice, name in self.choices.items():
                test = f'!{word.c}' if choice == 'None' else f'{word.c} && !strcmp({word.c}, "{choice}")'
                lines.append(f'    {keyword} ({test})\n        which = &pw_{name};')
                keyword = 'else if'
            found = f', {word.c} ? {word.c} : "None"' if '%s' in absent else ''
            failure = f'td_fail(TD_E_RUNTIME, {json.dumps(absent)}{found})'
            lines.append(f'    else\n        return {failure}{", -1" if op.result != "tensor" else ""};')
        self.code.append(f'''static {op.declaration("strided_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
{chr(10).join(lines)}
{run}
}}
''')
        return f'strided_{op.c}', f'strided_{op.c}', None

    @staticmethod
    def out_check(op):
        """What an entry has to say of its out= form before anything is computed."""
        base = op.parent or op
        if op.variant != 'out' or not base.entry.get('out_check'):
            return ''
        args = [n for a in base.schema.arguments if a.in_c for n in a.names()] + [a.c for a in op.mutable]
        if 'reduces' in base.entry:
            return f'    if (td_out_check_reduced("{base.schema.name}", {base.reduces[0][0]}, self, {op.mutable[0].c}))\n        return -1;\n'
        return f'    if (td_out_check_{base.c}({", ".join(args)}))\n        return -1;\n'

    @staticmethod
    def exact_out(op):
        """The words about an out= of another dtype than the result's (``castable: name``: that can't hold it), as a C string; None where it
        only has to hold it, in common words."""
        rule = (op.parent or op).entry.get('out_dtype', '')
        if isinstance(rule, dict):
            called = rule.get('called', 'result')
            return f'TD_CASTABLE "{rule["castable"]}: Expected {called} to be safely castable from {{want}} dtype, but got {called} with dtype {{got}}"'
        words = {'exact': 'TD_EXACT_OUT', 'same': '"Found dtype {got} but expected {want}"'}
        return words.get(rule) or (json.dumps(rule) if ' ' in rule else None)

    @staticmethod
    def given_dtype(op):
        """``out_dtype: given``: what is computed has the out's dtype (given_float: of floats only); a call that names another is refused."""
        given = (op.parent or op).entry.get('out_dtype', '')
        if not str(given).startswith('given'):
            return ''
        test = ' && (td_dtype_is_floating((td_dtype)self->dtype) || td_dtype_is_complex((td_dtype)self->dtype))' if given == 'given_float' else ''
        out = f'(td_dtype){op.mutable[0].c}->dtype'
        return (f'    if (dtype == TD_DTYPE_NONE{test})\n        dtype = {out};\n'
                f'    else if (dtype != TD_DTYPE_NONE && td_check_exact(TD_EXACT_OUT, dtype, {out}))\n        return -1;\n')

    def backend_kernel(self, op):
        """From td_meta_X and the device's implementation."""
        base = op.parent or op
        n = len(base.schema.results)
        args = [n_ for a in base.schema.arguments if a.in_c for n_ in a.names()]
        body = base.entry.get('body', base.c)
        results = [f'results[{i}]' for i in range(n)]
        call = ', '.join([*args, *(['&geometry'] if base.geometry else []), *results])
        fail = 'NULL' if op.result == 'tensor' else '-1'
        refusals = ''.join(line + '\n' for line in self.refusals(base, fail))
        geometry = f'    {base.geometry} geometry;\n' if base.geometry else ''
        if 'reduces' in base.entry:
            rules, *given = base.reduces
            described = (f'td_meta_reduced(specs, "{base.schema.name}", {n}, (const td_reduced[]){{{", ".join(rules)}}}, self, '
                         f'{", ".join(given)})')
        else:
            described = f'td_meta_{body}({", ".join(["specs", *(["&geometry"] if geometry else []), *args])})'
        meta = f'''    td_spec specs[{n}];
{geometry}{refusals}    if ({described})
        return {"NULL" if op.result == "tensor" else "-1"};
'''
        if op.variant == 'functional':
            declare = '    td_tensor *results[1];\n' if n == 1 else ''
            fail = 'NULL' if n == 1 else '-1'
            self.code.append(f'''static {op.declaration("strided_" + op.c, ["td_keyset keys"])}
{{
{self.one_device(op, fail)}{declare}{meta}{self.lay_results(base)}    if (td_specs_new(specs, {n}, results))
        return {fail};
    if (run_{base.c}(keys, {call})) {{
        td_results_drop({n}, results);
        return {fail};
    }}
{self.follow_format(base)}    return {"results[0]" if n == 1 else "0"};
}}
''')
        elif op.variant == 'out':
            outs = ', '.join(a.c for a in op.mutable)
            inputs = [a for a in base.schema.arguments if a.is_tensor]
            one = ', '.join(f'{{n_{a.c}, {a.c}}}' if a.list else f'{{1, &{a.c}}}' for a in inputs)
            pack = f'''    td_spec_inputs inputs[] = {{{one or "{0, NULL}"}}};
    td_tensor *outs[] = {{{outs}}}, *results[{n}];
'''
            exact = f'''    if (td_specs_exact({self.exact_out(op)}, specs, {n}, outs))
        return -1;
''' if self.exact_out(op) else ''
            checks = self.one_device(op, '-1') + self.out_check(op) + self.given_dtype(op)
            call_functional = f'strided_{base.c}({", ".join(["keys", *(["results"] if n > 1 else []), *args])})'
            laid = f'''    if (td_specs_differ(specs, {n}, outs)) {{      /* an out of another shape lies in memory as a new result */
        {f"results[0] = {call_functional};" if n == 1 else f"""if ({call_functional})
            return -1;"""}
        return td_finish_outs("{op.schema.name}", {n}, outs, results);
    }}
''' if self.follow_format(base) else ''
            self.code.append(f'''static {op.declaration("strided_" + op.c, ["td_keyset keys"])}
{{
{checks}{meta}{pack}{exact}{laid}    if (td_specs_target("{op.schema.name}", specs, {n}, outs, {len(inputs)}, inputs, results))
        return -1;
    if (run_{base.c}(keys, {call}))
        return td_results_drop({n}, results);
    return td_specs_finish({n}, outs, results);
}}
''')
        else:
            inner = ', '.join(['keys', *args])
            own = '    if (td_check_own_dtype(self, dtype))\n        return -1;\n' if 'dtype' in op.names() else ''
            self.code.append(f'''static {op.declaration("strided_" + op.c, ["td_keyset keys"])}
{{
{own}    return td_finish_inplace("{op.schema.name}", self, strided_{base.c}({inner}));
}}
''')
        return f'strided_{op.c}', f'strided_{op.c}', None

    def follow_format(self, op, results='results', fail=None):
        """``format: [input, weight]``: results have their channels innermost where those of one of these lie so (of a list: of all);
        ``format: preserve``: they lie as empty_like of the first operand would; ``{preserve: [complex]}``: of such dtypes;
        ``{written: [input, weight]}``: as the first, but they are made so: lay_results; ``{dense: input}``: td_follow_dense."""
        rule, n = op.entry.get('format'), len(op.schema.results)
        test = ''
        if isinstance(rule, dict) and 'written' in rule:
            return ''
        if isinstance(rule, dict) and 'dense' in rule:
            prototype = 'int td_follow_dense(int n_results, td_tensor **results, const td_tensor *x);'
            if prototype not in self.code:
                self.code.insert(0, prototype)
            return f'''    if (td_follow_dense({n}, {results}, {rule['dense']}))
        return {fail or ("NULL" if n == 1 else "-1")};
'''
        if isinstance(rule, dict):
            (rule, groups), = rule.items()
            test = f'({self.dtypes_of(groups)}) >> {op.tensors[0].c}->dtype & 1 && '
        if not rule or rule == 'contiguous':        # td_pointwise makes it so: fitting()
            return ''
        of = {a.name: a for a in op.tensors}
        keep = rule == 'preserve'
        one = op.tensors[0] if keep else of[rule[0]]
        if one.list:
            given = f'n_{one.c}, {one.c}, true'
        else:
            given = f'{len(rule)}, (td_tensor *[]){{{", ".join(of[name].c for name in rule)}}}, false' if not keep else one.c
        name = 'td_keep_order' if keep else 'td_follow_format'
        prototype = f'int {name}(int n_results, td_tensor **results, {"const td_tensor *like" if keep else "int64_t n, td_tensor *const *of, bool all"});'
        if prototype not in self.code:
            self.code.insert(0, prototype)
        return f'''    if ({test}{name}({n}, {results}, {given}))
        return {fail or ("NULL" if n == 1 else "-1")};
'''

    def lay_results(self, op):
        """``format: {written: [input, weight]}``: results are made with their channels innermost."""
        rule, n = op.entry.get('format'), len(op.schema.results)
        if not isinstance(rule, dict) or 'written' not in rule:
            return ''
        prototype = 'void td_lay_results(int n_results, td_spec *specs, int64_t n, td_tensor *const *of);'
        if prototype not in self.code:
            self.code.insert(0, prototype)
        of = {a.name: a.c for a in op.tensors}
        return f'    td_lay_results({n}, specs, {len(rule["written"])}, (td_tensor *[]){{{", ".join(of[name] for name in rule["written"])}}});\n'

    def backend_native(self, op):
        return self.with_body(op)

    backend_composite = backend_view = backend_native

    def with_body(self, op):
        if op.target:
            return self.with_target(op)
        base = op.parent or op
        body = base.entry.get('body', base.c)
        args = [n_ for a in base.schema.arguments if a.in_c for n_ in a.names()]
        refusals = ''.join(line + '\n' for line in self.refusals(base, 'NULL' if op.result == 'tensor' else '-1'))
        if 'each' in base.entry:
            self.body_of_each(op, base)
        elif op is base:
            self.body_itself(op, body, refusals)
        elif op.variant == 'inplace':
            self.body_in_place(op, base, body, args, refusals)
        else:
            self.body_of_out(op, base, body, args, refusals)
        return None, None, f'comp_{op.c}'

    def body_itself(self, op, body, refusals):
        """The form that the body computes."""
        if 'copy_of' in op.entry:
            self.body_of_copy(op, op.entry['copy_of'])
        elif 'fills' in op.entry:
            self.body_of_fill(op)
        else:
            self.code.append(f'{op.declaration("td_op_" + body)};\n')
        # What reads memory by itself but has no autograd kernel is called above the keys that see to bits.
        lazy = f'''    if (TD_UNLIKELY(keys & TD_KEYS_LAZY))
        return invoke_{op.c}({", ".join(["keys & TD_KEYS_TO_LAZY", *op.names()])});
''' if op.kind == 'native' and op.entry.get('grad') is None and op.tensors else '    (void)keys;\n'
        if op.kind == 'native':
            lazy += self.one_device(op, 'NULL' if op.result == 'tensor' else '-1')
        call = f'    return td_op_{body}({", ".join(op.names())});'
        if 'one_call' in op.entry.get('flags', []):
            call = f'''    td_keyset watched = td_parts_begin({len(op.tensors)}, {self.inputs(op)});
    {op.returns}made = td_op_{body}({", ".join(op.names())});
    td_parts_end(watched);
    return made;'''
        if 'format' in op.entry:
            call = f'''    td_tensor *result = td_op_{body}({", ".join(op.names())});
    if (!result)
        return NULL;
{self.follow_format(op, '&result')}    return result;'''
        self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
{lazy}{refusals}{call}
}}
''')

    def body_in_place(self, op, base, body, args, refusals):
        """The body's result, written to self."""
        # Above the backends its pieces record themselves: on a copy of self, which they may save, if only for another operand's gradient.
        wants = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})'
                            for a in base.schema.arguments if a.is_tensor)
        original = [f'original_{n}' if n == 'self' else n for n in args]
        words = json.dumps(base.entry['inplace_dtype']) if 'inplace_dtype' in base.entry else None
        computed, recorded = (f'td_exact({words}, self, {r})' if words else r for r in (
            f'td_op_{body}({", ".join(args)})', f'td_op_{body}({", ".join(original)})'))
        self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
{refusals}    if (!td_is_backend(keys)) {{
        TD_AUTO td_tensor *original_self = {wants} ? td_clone_detached(self) : td_tensor_retain(self);
        return original_self ? td_record_inplace("{op.schema.name}", self, {recorded}) : -1;
    }}
    return td_finish_inplace("{op.schema.name}", self, {computed});
}}
''')

    def body_of_out(self, op, base, body, args, refusals):
        """The body's results, written to what the call gave for them."""
        n, exact = len(base.schema.results), self.exact_out(op)
        if base.result == 'list':
            call = self.out_of_list(op, base, body, args, exact)
        elif 'draws_out' in base.entry.get('flags', []):
            call = self.out_drawn(op, args)
        elif 'factory' in base.entry.get('flags', []) and 'dtype' in args:
            call = self.out_of_factory(op, base, body, args)
        elif n == 1:
            call = self.out_of_one(op, base, body, args, exact)
        else:
            call = self.out_of_several(op, body, args, exact, n)
        tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})'
                            for a in op.schema.arguments if a.is_tensor)
        refused = '' if 'records_out' in base.entry.get('flags', []) or op.entry.get('grad') == 'none' else f'''    if (!td_is_backend(keys) && ({tests}))
        return td_fail_out_grad("{op.schema.name}");
'''
        bump = ''.join(f'        for (int64_t i = 0; i < n_{a.c}; i++)\n            td_wrote({a.c}[i], "{op.schema.name}");\n' if a.list else
                       f'        td_wrote({a.c}, "{op.schema.name}");\n' for a in op.mutable)
        count = '' if 'fills_out' in base.entry.get('flags', []) else f'    if (status == 0 && !td_is_backend(keys)) {{\n{bump}    }}\n'
        self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
{refused}{refusals}{self.out_check(op)}{self.given_dtype(op)}{call}
{count}    return status;
}}
''')

    def out_of_list(self, op, base, body, args, exact):
        out, finish = op.mutable[0].c, 'td_fill_out_list' if 'fills_out' in base.entry.get('flags', []) else 'td_finish_out_list'
        if exact:
            exact = f'''    if (td_list_exact({exact}, n_{out}, {out}, &results))
        return -1;
'''
        return f'''    td_tensor_list results;
    if (td_op_{body}({", ".join(["&results", *args])}))
        return -1;
{exact or ""}    int status = {finish}("{op.schema.name}", n_{out}, {out}, &results);'''

    def out_drawn(self, op, args):
        """The body writes to `out`, so that the numbers of its dtype are drawn."""
        out = op.mutable[0].c
        self.code.append(f'{op.declaration("td_op_" + op.c)};\n')
        given = (f'''    if (td_factory_out(&dtype, &device, {out}))
        return -1;
''' if 'dtype' in args else '')
        return f'''{given}    const td_keyset exclude = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_AUTOGRAD);
    int status = td_op_{op.c}({", ".join(op.names())});
    td_masks_now.exclude = exclude;'''

    def out_of_factory(self, op, base, body, args):
        out, order = op.mutable[0].c, base.entry.get('in_order')
        name = f'"{base.schema.name}"' if order == 'warned' else 'NULL'
        finish = f'td_fill_in_order({name}, ' if order else 'td_finish_factory('
        return f'''    if (td_factory_out(&dtype, {"&device" if "device" in args else "NULL"}, {out}))
        return -1;
    int status = {finish}{out}, td_op_{body}({", ".join(args)}));'''

    def out_of_one(self, op, base, body, args, exact):
        result = f'td_op_{body}({", ".join(args)})'
        if exact:
            result = f'td_exact({exact}, {op.mutable[0].c}, {result})'
        finish = 'td_finish_contiguous_out' if 'contiguous_out' in base.entry.get('flags', []) else 'td_finish_out'
        call = f'    int status = {finish}("{op.schema.name}", {op.mutable[0].c}, {result});'
        kept = self.follow_format(base, '&result', '-1')
        if kept:                    # an out of another shape lies in memory as a new result
            out = op.mutable[0].c
            call = f'''    td_tensor *result = {result};
    if (result && ({out}->ndim != result->ndim || memcmp({out}->sizes, result->sizes, sizeof *{out}->sizes * {out}->ndim))) {{
{textwrap.indent(kept, "    ")}    }}
    int status = {finish}("{op.schema.name}", {op.mutable[0].c}, result);'''
        if 'records_out' in base.entry.get('flags', []):
            call = f'''    td_tensor *result = {result};
    if (!td_is_backend(keys) && result && (td_wants_grad(result) || td_wants_grad({op.mutable[0].c}) || td_loses_tangent({op.mutable[0].c}, result)))
        return td_record_out("{op.schema.name}", {op.mutable[0].c}, result);
    int status = {finish}("{op.schema.name}", {op.mutable[0].c}, result);'''
        return call

    def out_of_several(self, op, body, args, exact, n):
        outs = ', '.join(a.c for a in op.mutable)
        exact = f' || td_results_exact({exact}, {n}, outs, results)' if exact else ''
        return f'''    td_tensor *results[{n}], *outs[{n}] = {{{outs}}};
    if (td_op_{body}({", ".join(["results", *args])}){exact})
        return -1;
    int status = td_finish_outs("{op.schema.name}", {n}, outs, results);'''

    def body_of_copy(self, op, view):
        """A view's elements in new memory."""
        call = f'td_{view.c}({", ".join(op.names())})'
        if op.result == 'list':
            body = f'    return {call} ? -1 : td_copy_list(results);'
        elif view.entry['copy'] == 'reshaped':
            body = (f'    TD_AUTO td_tensor *view = td_reshape({", ".join(op.names())});\n'
                    '    return view && view->storage != self->storage ? td_tensor_retain(view) : td_clone_format(view, TD_CONTIGUOUS_FORMAT);')
        else:
            form = 'TD_CONTIGUOUS_FORMAT'
            if view.entry.get('layouts'):        # whose copies know no order of dimensions
                form = 'view && (view->keys & TD_KEYS_LAYOUTS) ? TD_MEMORY_FORMAT_NONE : TD_CONTIGUOUS_FORMAT'
            body = f'    TD_AUTO td_tensor *view = {call};\n    return td_clone_format(view, {form});'
        self.code.append(f'static {op.declaration("td_op_" + op.c)}\n{{\n{body}\n}}\n')

    def body_of_fill(self, op):
        """Random numbers of one distribution, by what fills contiguous elements on the CPU (src/ops/random/fill.h)."""
        name, numbers = op.entry['fills'], [a.c for a in op.schema.arguments if a.type == 'float']
        kind = f'TD_FILL_{name.upper()}' if op.entry.get('device') == 'same' else 'TD_FILL_ON_CPU'
        given = ''.join(f'.{field} = {number}, ' for field, number in zip('ab', numbers))
        if '#include "ops/random/fill.h"' not in self.code:
            self.code.insert(0, '#include "ops/random/fill.h"')
        self.code.append(f'''{fill_of(op)};
static int draw_{name}(const td_draw *d, td_dtype dtype, void *out, int64_t n)
{{
    return td_fill_{name}({", ".join(["d->g", "dtype", "out", "n", *(f"d->{field}" for field in "ab"[:len(numbers)])])});
}}
{op.declaration("td_op_" + op.c)}
{{
    return td_fill_drawn("{op.schema.name}", self, {kind}, &(td_draw){{.g = generator, {given}.here = draw_{name}}});
}}
''')

    def body_of_each(self, op, base):
        """The operator of the entry's `each`, on one tensor of every list after the other."""
        names, lists, numbers, single = {}, [], [], []
        for a in base.schema.arguments:
            if not a.in_c:
                continue
            kind = gradients.ARGUMENT_KIND['Scalar'] if a.type == 'Scalar' else gradients.kind_of(replace(a, list=False))
            names[a.name] = kind, f'{a.c}[i]' if a.list else a.c
            (lists if a.is_tensor and a.list else numbers if a.list else single if a.is_tensor else []).append(a.c)
        emitter = Emitter(names, self.lookup, f'{op.family}: {op.schema.full_name}')
        result = emitter.formula(base.entry['each'])[1]
        checks = [f'td_check_lists({len(lists)}, (const int64_t[]){{{", ".join("n_" + c for c in lists)}}})']
        checks += [f'td_check_numbers(n_{lists[0]}, n_{c})' for c in numbers] + [f'td_check_number({c})' for c in single]
        if op.variant == 'inplace':      # the last line calls the operator itself
            call = emitter.lines.pop().partition(' = ')[2].rstrip(';')
            name, _, rest = call.partition('(')
            step, made = f'        if ({name}_({rest})\n            return -1;', ''
        else:
            made = f'    if (td_tensor_list_new(results, n_{lists[0]}))\n        return -1;\n'
            step = (f'        if (!(results->items[i] = td_tensor_retain({result}))) {{\n            td_tensor_list_release(results);\n'
                    f'            return -1;\n        }}')
        self.code.append(f'''static {op.declaration("td_op_" + op.c)}
{{
    if ({" || ".join(checks)})
        return -1;
{made}    for (int64_t i = 0; i < n_{lists[0]}; i++) {{
{chr(10).join([*emitter.lines, step])}
    }}
    return 0;
}}

static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
    return td_op_{op.c}({", ".join(op.names())});
}}
''')

    def with_target(self, op):
        """An operator that calls another one, with numbers as tensors."""
        wrap = ''.join(f'    TD_AUTO td_tensor *number_{n} = td_wrapped_number({n});\n' for n in op.wrapped)
        args = [f'number_{n}' if n in op.wrapped else n for n in op.names()]
        if op.deprecated:
            given = {a.name for a in op.schema.arguments}
            args = [n for a in op.target.schema.arguments if a.in_c
                    for n in (a.names() if a.name in given else a.default_parameters())]
        self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
{wrap}    return td_{op.target.c}({", ".join(args)});
}}
''')
        return None, None, f'comp_{op.c}'

    # -------------------------------------------------------------------------------------------- other layouts
    def layouts(self, op):
        """(key, pattern, kernel, word) for layouts other than strided, from ``layouts:``.  ``kernel``: there is a td_sparse_X, td_quantized_X or td_packed_X,
        from which the in-place and out= forms are made; ``same``: the operator's own body; other words are patterns of
        src/dispatch/layouts.c, or the layout's own."""
        if op.target:
            return []
        rows = []
        for layout, word in of_layouts(op).items():
            if layout == 'nested':
                rows += self.nested(op, word)
                continue
            own = word in LAYOUT_WORDS.get(layout, ())
            kernel = f'comp_{op.c}' if word == 'same' else self.layout_kernel(op, LAYOUT_KERNELS.get(layout, 'sparse')) if word == 'kernel' else 'NULL'
            pattern = 'TD_LAYOUT_OWN' if own else LAYOUT_PATTERNS.get(word, 'TD_LAYOUT_KERNEL')
            rows += [(key, pattern, kernel, f'"{word}"' if own else 'NULL') for key in LAYOUT_KEYS[layout]]
        return rows

    def nested(self, op, word):
        """``kernel``: there is a td_nested_X, which is called before gradients are recorded and makes them by what it calls; ``below``: one
        that is called after that; ``same``: the operator's own body, there; other words are patterns of src/layouts/nested/call.c, which makes
        the in-place forms, too."""
        if word == 'same':
            return [('TD_KEY_NESTED', 'TD_LAYOUT_KERNEL_ANYWHERE', f'comp_{op.c}', 'NULL')]
        if op.parent:
            return []
        if word not in ('kernel', 'below'):
            return [('TD_KEY_PARTS', LAYOUT_PATTERNS[word], 'NULL', 'NULL')]
        body = op.entry.get('body', op.c)
        args = [*(['results'] if op.result in ('list', 'tuple', 'plain') else []), *(n for a in op.schema.arguments if a.in_c for n in a.names())]
        self.code.append(f'''{op.declaration("td_nested_" + body)};
static {op.declaration("nested_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
    return td_nested_{body}({", ".join(args)});
}}
''')
        return [('TD_KEY_PARTS', 'TD_LAYOUT_KERNEL', f'nested_{op.c}', 'NULL') if word == 'kernel' else
                ('TD_KEY_NESTED', 'TD_LAYOUT_KERNEL_ANYWHERE', f'nested_{op.c}', 'NULL')]

    def layout_kernel(self, op, prefix):
        base = op.parent or op
        body = base.entry.get('body', base.c)
        args = [n for a in base.schema.arguments if a.in_c for n in a.names()]
        call = f'td_{prefix}_{body}({", ".join([*(["results"] if base.result in ("list", "tuple", "plain") else []), *args])})'
        if op is base:
            self.code.append(f'{op.declaration(f"td_{prefix}_" + body)};\n')
            lines = f'    return {call};'
        else:
            check = ''
            to = 'self' if op.variant == 'inplace' else op.mutable[0].c
            if op.variant == 'out':     # it may be all that has the layout
                tests = ' && '.join(f'!({a.keys()} & TD_KEYS_LAYOUTS)' for a in base.schema.arguments if a.is_tensor)
                check = tests and f'    if ({tests})\n        return td_layout_refuse("{op.schema.full_name}", {to}), -1;\n'
            if 'sparse_into' in base.entry and prefix == 'sparse':
                self.code.append(f'int td_{prefix}_{body}_into({", ".join(["td_tensor *out", *base.parameters()])});\n')
                lines = check + f'    return td_{prefix}_{body}_into({", ".join([to, *args])});'
            else:
                lines = check + f'    return td_finish_{op.variant}("{op.schema.name}", {to}, {call});'
        self.code.append(f'''static {op.declaration(f"{prefix}_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
{lines}
}}
''')
        return f'{prefix}_{op.c}'

    # ------------------------------------------------------------------------------------------------- autograd
    def emit(self, prototypes):
        for group in self.groups:
            try:
                self.entry(group)
            except Exception as error:
                if isinstance(error, (GradError,)) or 'Formula' in type(error).__name__:
                    raise
                raise type(error)(f'{self.name}: {group[0].schema.full_name}: {error}') from error
        head = '''/* Generated from the entries of a family: edit those instead. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tede/dispatch.h>
#include <tede/list.h>
#include "autograd/record.h"
#include "autograd/tangent.h"
#include "base/scalar.h"
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include "ops/pointwise/pointwise.h"
#include "ops/reduce/reduced.h"

/* src/dispatch/spec.c: an error if tensors are on several devices; of the first `strict` ones also if these are the CPU and meta, where those without
 * dimensions may be elsewhere if that is allowed. */
int td_check_devices(const td_op *op, int n, int strict, const td_spec_inputs *operands, bool numbers_anywhere);

'''
        extern = f'TD_LOOP_ROWS({self.name});\n\n' if self.loop_rows else ''
        rows = ',\n    '.join('&row_' + r for r in self.rows)
        tail = f'''td_op *const td_rows_{self.name}[] = {{
    {rows},
}};
const int td_row_count_{self.name} = {len(self.rows)};
'''
        code = '\n'.join(self.code)
        boxing = '\n'.join(s.declaration() for _, s in sorted(self.signatures.items()))
        return head + '\n'.join(prototypes.of([code])) + f'\n\n{boxing}\n\n' + extern + code + '\n' + tail

    def emit_loops(self):
        if not self.loop_rows:
            return None
        head = '''/* Generated loops: edit the formulas in ops/ instead.  Compiled once per instruction set. */
#include "kernels/cpu/loops/formula.h"

'''
        rows = []
        for _, columns, own_halves in self.loop_rows:
            of = {} if own_halves else OF
            cells = ', '.join(f'[{COLUMN[c]}] = {of.get(c, "TD_ISA_NAME")}({f})' for c, f in columns.items())
            rows.append(f'    {{{{{cells}}}}},\n')
        return (head + '\n'.join(self.loops) + f'\nextern const td_loop_row TD_ISA_NAME(td_loops_{self.name})[];\n'
                f'const td_loop_row TD_ISA_NAME(td_loops_{self.name})[] = {{\n{"".join(rows)}}};\n')
