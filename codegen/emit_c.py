"""C files from operators: stubs, kernels' glue, autograd nodes, argument tables and rows; and the loops of formulas.

A chunk is a part of a family's entries.  It gives two texts: one with everything but loops, compiled once, and one
with the loops, compiled once per instruction set.  Both stand alone, so that a new entry recompiles little."""
import ast
import json
import re
from dataclasses import replace

from . import grad as gradients
from . import nodes
from .emit_rows import Rows
from .grad import Emitter, GradError, Uses
from .value import GROUPS, Formula

DTYPES = {'float': ['F16', 'BF16', 'F32', 'F64'], 'wide': ['F32', 'F64'], 'complex': ['C64', 'C128'], 'bool': ['BOOL'],
          'int': ['U8', 'I8', 'I16', 'I32', 'I64', 'U16', 'U32', 'U64']}
REFUSABLE = {**DTYPES, 'half': ['F16', 'BF16'], 'unsigned': ['U16', 'U32', 'U64'],
             **{d.lower(): [d] for ds in DTYPES.values() for d in ds}}
PROMOTE = {'default': 'TD_PROMOTE_DEFAULT', 'to_float': 'TD_PROMOTE_FLOAT', 'first': 'TD_PROMOTE_FIRST',
           'number': 'TD_PROMOTE_NUMBER'}
COLUMN = {'f32': 'TD_LOOP_F32', 'f64': 'TD_LOOP_F64', 'c64': 'TD_LOOP_C64', 'c128': 'TD_LOOP_C128',
          'i32': 'TD_LOOP_I32', 'i64': 'TD_LOOP_I64', 'u64': 'TD_LOOP_U64', 'bool': 'TD_LOOP_BOOL'}
FAILED = {'tensor': 'NULL'}
# Operators whose operands may be on several devices.
ANY_DEVICES = {'copy_', '_to_copy', 'to', 'set_', 'set_data', 'resize_as_', 'type_as', 'expand_as', 'view_as', 'reshape_as'}


class Chunk(Rows):
    def __init__(self, name, groups, lookup):
        self.name, self.groups, self.lookup = name, groups, lookup
        self.rows, self.loops, self.code, self.declared = [], [], [], {}
        self.loop_rows = []       # (name, {column: function})
        self.loops_of = {}        # of fused formulas: (operator, formula) -> (name, operands, numbers)

    # ---------------------------------------------------------------------------------------------- pointwise
    def pointwise_row(self, name, formulas, operands, truths, parameters, groups, out, where):
        """Emit loops for the dtype groups and remember a row; returns the row's number."""
        columns = {}
        for group in groups:
            text = formulas.get(group, formulas['default'])
            formula = Formula(text, operands, truths, parameters, where)
            for compute in GROUPS[group]:
                column = 'bool' if group == 'bool' else compute
                if group == 'bool' and 'int' in groups and 'bool' not in formulas:
                    columns['bool'] = columns['i32']
                    continue
                real_out = 'real' if out == 'real' and compute in ('c64', 'c128') else 'bool' if out == 'bool' else 'same'
                function = f'{name}_{column}'
                self.loops.append(formula.emit(function, compute, real_out))
                columns[column] = function
        self.loop_rows.append((name, columns))
        return len(self.loop_rows) - 1

    def pointwise(self, op, suffix, value):
        """The td_pointwise of an operator (one per choice of a string parameter); returns its C name."""
        e, where = op.entry, f'{op.family}: {op.schema.full_name}'
        tensors = [a.c for a in op.schema.arguments if a.is_tensor]
        parameters = [a.c for a in op.schema.arguments if not a.is_tensor and a.type in ('Scalar', 'float', 'int', 'bool')]
        formulas = {'default': value, **{g: e[f'value_{g}'] for g in ('int', 'complex', 'bool') if f'value_{g}' in e}}
        groups = e.get('dtypes', ['float', 'int', 'bool'])
        if e.get('promote') == 'to_float':
            groups = [g for g in groups if g in ('float', 'wide', 'complex')]
        groups = [g for g in ('float', 'wide', 'complex', 'int', 'bool') if g in groups]
        truths = e.get('truths', [])
        name = op.c + suffix
        row = self.pointwise_row(name, formulas, tensors, truths, parameters, groups, e.get('out', 'same'), where)
        self.emit_pointwise(name, e.get('error_name', op.schema.name), len(tensors), e.get('cost', self.cost(value)),
                            PROMOTE[e.get('promote', 'default')], e.get('out', 'same'),
                            sum(1 << i for i, t in enumerate(tensors) if t in truths), groups, row,
                            e.get('out_dtype') == 'same')
        return name

    @staticmethod
    def cost(text):
        calls = sum(isinstance(n, (ast.Call, ast.Pow)) for n in ast.walk(ast.parse(str(text).strip(), mode='eval')))
        return 1 + 8 * calls

    def emit_pointwise(self, name, title, n_in, cost, promote, out, truths, groups, row, same_out=False):
        mask = ' | '.join(f'1u << TD_{d}' for g in groups for d in DTYPES[g]) + (' | 1u << 31' if same_out else '')
        rows = ', '.join(f'&td_loops_{self.name}_{isa}[{row}]' for isa in ('v2', 'v3', 'v4'))
        self.code.append(f'''static const td_pointwise pw_{name} = {{
    .name = "{title}", .n_in = {n_in}, .cost = {min(cost, 250)}, .promote = {promote}, .out = TD_OUT_{out.upper()},
    .truths = {truths}, .dtypes = {mask},
    .rows = {{{rows}}},
}};
''')

    # ------------------------------------------------------------------------------------------------- an entry
    def entry(self, group):
        functional = group[0]
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

    def operator(self, op):
        s = op.schema
        keys = 'td_keyset keys'
        args = ''.join(f', {n}' for n in op.names())
        self.code.append(f'/* ---- {s.text} */\n\nstatic td_op row_{op.c};')
        self.code.append(f'typedef {op.returns}(*fn_{op.c})({", ".join(op.parameters([keys]))});')
        bump = ''.join(f'        td_wrote({a.c}, "{s.name}");\n' for a in op.mutable if not a.list)
        bump += ''.join(f'        for (int64_t i = 0; i < n_{a.c}; i++)\n            td_wrote({a.c}[i], "{s.name}");\n'
                        for a in op.mutable if a.list)
        fail = 'NULL' if op.result == 'tensor' else '-1'
        call = f'kernel(keys{args})'
        if op.mutable:
            body = '' if 'inplace_view' in op.entry.get('flags', []) else ''.join(
                f'    for (int64_t i = 0; i < n_{a.c}; i++)\n        if (TD_UNLIKELY(td_readonly({a.c}[i])))\n'
                f'            return td_fail_readonly("{op.schema.name}", "{a.name}[i]", {a.c}[i]);\n' if a.list else
                f'    if (TD_UNLIKELY(td_readonly({a.c})))\n'
                f'        return td_fail_readonly("{op.schema.name}", "{a.name}", {a.c});\n' for a in op.mutable)
            body += f'    int status = {call};\n    if (status == 0 && td_is_backend(keys)) {{\n{bump}    }}\n    return status;'
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
        autograd = self.autograd(op, fail)
        forward = self.forward(op)
        self.boxes(op)
        self.row(op, backend, autograd, forward)

    def key_expression(self, op):
        parts = []
        for a in op.schema.arguments:
            if a.is_tensor:
                parts.append(f'td_keys_of_list(n_{a.c}, {a.c})' if a.list else f'td_keys_of({a.c})')
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
        says of a bool one, and of nothing but bool ones; numbers that self's dtype must be able to hold."""
        lines, texts = [], op.entry.get('bool_errors')
        for name in op.entry.get('same_dtype', []):
            lines += ['    int td_check_same_dtype(const char *name, const td_tensor *self, const td_tensor *operand);',
                      f'    if (td_check_same_dtype("{name}", self, {name}))', f'        return {fail};']
        first = next((a for a in op.schema.arguments if a.is_tensor), None)
        for text, groups in op.entry.get('refuses', {}).items():
            mask = ' | '.join(f'1u << TD_{d}' for g in groups for d in REFUSABLE[g])
            if first.list:
                operands = [(f'{first.c}[0]', f'n_{first.c} && ')]
            else:       # elementwise it is the common dtype, so any operand's
                operands = [(a.c, '') for a in op.schema.arguments
                            if a is first or (op.kind == 'pointwise' and a.is_tensor and not a.list and not a.optional)]
            for x, test in operands:
                lines += [f'    if (TD_UNLIKELY({test}({mask}) >> {x}->dtype & 1))',
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
        for name in op.entry.get('fitting', []):
            lines += [f'    if (td_scalar_check({name}, (td_dtype)self->dtype))', f'        return {fail};']
        return lines

    @staticmethod
    def one_device(op, fail):
        """The refusal of operands on the CPU and on meta in one call; asked only where the call's keys have both."""
        base = op.parent or op
        tensors = [a for a in op.schema.arguments if a.is_tensor and a.name != 'indices']
        if base.schema.name in ANY_DEVICES or len(tensors) + sum(a.list for a in tensors) < 2:
            return ''
        lists = ', '.join(f'{{n_{a.c}, {a.c}}}' if a.list else f'{{1, &{a.c}}}' for a in tensors)
        return f'''    if (TD_UNLIKELY((keys & TD_KEYSET(TD_CPU)) && (keys & TD_KEYSET(TD_META))) &&
        td_check_devices({len(tensors)}, (td_spec_inputs[]){{{lists}}}, {str(op.kind == 'kernel').lower()}))
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
        self.code.append(f'''static {op.declaration("cpu_" + op.c, ["td_keyset keys"])}
{{
    (void)keys;
{chr(10).join(lines)}
    return td_pointwise_{function}(which, {self.inputs(op)}, {params}{out});
}}
''')
        return f'cpu_{op.c}', f'cpu_{op.c}', None

    @staticmethod
    def out_check(op):
        """What an entry has to say of its out= form before anything is computed."""
        base = op.parent or op
        if op.variant != 'out' or not base.entry.get('out_check'):
            return ''
        args = [n for a in base.schema.arguments if a.in_c for n in a.names()] + [a.c for a in op.mutable]
        return f'    if (td_out_check_{base.c}({", ".join(args)}))\n        return -1;\n'

    @staticmethod
    def given_dtype(op):
        """``out_dtype: given``: what is computed has the out's dtype, unless the call names one (given_float: of floats only)."""
        given = (op.parent or op).entry.get('out_dtype', '')
        if not given.startswith('given'):
            return ''
        test = ' && (td_dtype_is_floating((td_dtype)self->dtype) || td_dtype_is_complex((td_dtype)self->dtype))' if given == 'given_float' else ''
        return f'    if (dtype == TD_DTYPE_NONE{test})\n        dtype = (td_dtype){op.mutable[0].c}->dtype;\n'

    def backend_kernel(self, op):
        """From td_meta_X and td_cpu_X."""
        base = op.parent or op
        n = len(base.schema.results)
        args = [n_ for a in base.schema.arguments if a.in_c for n_ in a.names()]
        params = [p for a in base.schema.arguments if a.in_c for p in a.parameters()]
        body = base.entry.get('body', base.c)
        if op.variant == 'functional':
            outs = ''.join(f', td_tensor *out{i}' for i in range(n))
            self.code.append(f'int td_meta_{body}(td_spec *specs, {", ".join(params)});\n'
                             f'int td_cpu_{body}({", ".join(params)}{outs});\n')
        results = [f'results[{i}]' for i in range(n)]
        call = ', '.join([*args, *results])
        fail = 'NULL' if op.result == 'tensor' else '-1'
        refusals = ''.join(line + '\n' for line in self.refusals(base, fail))
        meta = f'''    td_spec specs[{n}];
{refusals}    if (td_meta_{body}(specs, {", ".join(args)}))
        return {"NULL" if op.result == "tensor" else "-1"};
'''
        if op.variant == 'functional':
            declare = '    td_tensor *results[1];\n' if n == 1 else ''
            fail = 'NULL' if n == 1 else '-1'
            self.code.append(f'''static {op.declaration("cpu_" + op.c, ["td_keyset keys"])}
{{
{self.one_device(op, fail)}{declare}{meta}    if (td_specs_new(specs, {n}, results))
        return {fail};
    if (td_top_slot(keys) != TD_SLOT_META && td_cpu_{body}({call})) {{
        td_results_drop({n}, results);
        return {fail};
    }}
    return {"results[0]" if n == 1 else "0"};
}}
''')
        elif op.variant == 'out':
            outs = ', '.join(a.c for a in op.mutable)
            inputs = [a for a in base.schema.arguments if a.is_tensor]
            one = ', '.join(f'{{n_{a.c}, {a.c}}}' if a.list else f'{{1, &{a.c}}}' for a in inputs)
            pack = f'''    td_spec_inputs inputs[] = {{{one or "{0, NULL}"}}};
    td_tensor *outs[] = {{{outs}}}, *results[{n}];
'''
            exact = f'''    if (td_specs_exact(specs, {n}, outs))
        return -1;
''' if base.entry.get('out_dtype') == 'exact' else ''
            self.code.append(f'''static {op.declaration("cpu_" + op.c, ["td_keyset keys"])}
{{
{self.out_check(op)}{self.given_dtype(op)}{meta}{pack}{exact}    if (td_specs_target("{op.schema.name}", specs, {n}, outs, {len(inputs)}, inputs, results))
        return -1;
    if (td_top_slot(keys) != TD_SLOT_META && td_cpu_{body}({call}))
        return td_results_drop({n}, results);
    return td_specs_finish({n}, outs, results);
}}
''')
        else:
            inner = ', '.join(['keys', *args])
            self.code.append(f'''static {op.declaration("cpu_" + op.c, ["td_keyset keys"])}
{{
    return td_finish_inplace("{op.schema.name}", self, cpu_{base.c}({inner}));
}}
''')
        return f'cpu_{op.c}', f'cpu_{op.c}', None

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
            return None, None, f'comp_{op.c}'
        if op is base:
            if 'copy_of' in base.entry:
                self.body_of_copy(op, base.entry['copy_of'])
            else:
                self.code.append(f'{op.declaration("td_op_" + body)};\n')
            # What reads memory by itself but has no autograd kernel is called above the keys that see to bits.
            lazy = f'''    if (TD_UNLIKELY(keys & TD_KEYS_LAZY))
        return invoke_{op.c}({", ".join(["keys & TD_KEYS_TO_LAZY", *op.names()])});
''' if op.kind == 'native' and op.entry.get('grad') is None and op.tensors else '    (void)keys;\n'
            if op.kind == 'native':
                lazy += self.one_device(op, 'NULL' if op.result == 'tensor' else '-1')
            self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
{lazy}{refusals}    return td_op_{body}({", ".join(op.names())});
}}
''')
        elif op.variant == 'inplace':
            # Above the backends its pieces record themselves: on a copy of self, which they may save.
            original = [f'original_{n}' if n == 'self' else n for n in args]
            self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
{refusals}    if (!td_is_backend(keys)) {{
        TD_AUTO td_tensor *original_self = td_original(self);
        return original_self ? td_record_inplace("{op.schema.name}", self, td_op_{body}({", ".join(original)})) : -1;
    }}
    return td_finish_inplace("{op.schema.name}", self, td_op_{body}({", ".join(args)}));
}}
''')
        else:
            n = len(base.schema.results)
            if base.result == 'list':
                out = op.mutable[0].c
                call = f'''    td_tensor_list results;
    if (td_op_{body}({", ".join(["&results", *args])}))
        return -1;
    int status = td_finish_out_list("{op.schema.name}", n_{out}, {out}, &results);'''
            elif n == 1:
                call = f'    int status = td_finish_out("{op.schema.name}", {op.mutable[0].c}, td_op_{body}({", ".join(args)}));'
            else:
                outs = ', '.join(a.c for a in op.mutable)
                call = f'''    td_tensor *results[{n}];
    if (td_op_{body}({", ".join(["results", *args])}))
        return -1;
    int status = td_finish_outs("{op.schema.name}", {n}, (td_tensor *[]){{{outs}}}, results);'''
            tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})'
                                for a in op.schema.arguments if a.is_tensor)
            bump = ''.join(f'        for (int64_t i = 0; i < n_{a.c}; i++)\n            td_wrote({a.c}[i], "{op.schema.name}");\n' if a.list else
                           f'        td_wrote({a.c}, "{op.schema.name}");\n' for a in op.mutable)
            self.code.append(f'''static {op.declaration("comp_" + op.c, ["td_keyset keys"])}
{{
    if (!td_is_backend(keys) && ({tests}))
        return td_fail_out_grad("{op.schema.name}");
{refusals}{self.out_check(op)}{self.given_dtype(op)}{call}
    if (status == 0 && !td_is_backend(keys)) {{
{bump}    }}
    return status;
}}
''')
        return None, None, f'comp_{op.c}'

    def body_of_copy(self, op, view):
        """A view's elements in memory of their own."""
        call = f'td_{view.c}({", ".join(op.names())})'
        if op.result == 'list':
            body = f'    return {call} ? -1 : td_copy_list(results);'
        else:
            body = f'    TD_AUTO td_tensor *view = {call};\n    return td_clone_format(view, TD_CONTIGUOUS_FORMAT);'
        self.code.append(f'static {op.declaration("td_op_" + op.c)}\n{{\n{body}\n}}\n')

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

    # ------------------------------------------------------------------------------------------------- autograd
    def autograd(self, op, fail):
        """Emit the autograd kernel; returns its name, or None for operators whose pieces record themselves, or
        which have no gradient (the Autograd key then falls through)."""
        e = op.entry
        spec = e.get('grad')
        if op.variant == 'out' and (op.kind in ('pointwise', 'kernel') or spec not in (None, 'none')):
            return self.autograd_out(op)
        if op.target:
            return None
        if spec is None or spec == 'none':
            if spec is None and op.kind in ('pointwise', 'kernel') :
                raise GradError(f'{op.family}: {op.schema.full_name}: say `grad: none` if there is no gradient')
            return None
        base = op.parent or op
        if op.variant == 'inplace' and op.kind in ('native', 'composite', 'view') and op is not base:
            pass
        return self.autograd_node(op, base, spec, fail)

    def autograd_out(self, op):
        tensors = [a for a in op.schema.arguments if a.is_tensor]
        tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})' for a in tensors)
        self.code.append(f'''static {op.declaration("autograd_" + op.c, ["td_keyset keys"])}
{{
    if ({tests})
        return td_fail_out_grad("{op.schema.name}");
    return invoke_{op.c}({", ".join(["keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)", *op.names()])});
}}
''')
        return f'autograd_{op.c}'

    def autograd_node(self, op, base, spec, fail):
        s, where = base.schema, f'{op.family}: {base.schema.full_name}'
        inplace = op.variant == 'inplace'
        spec = {tuple(k.strip() for k in key.split(',')): text for key, text in spec.items()}
        operands = [a for a in s.arguments if any(a.name in key for key in spec)]
        unknown = {k for key in spec for k in key} - {a.name for a in operands}
        if unknown:
            raise GradError(f'{where}: grad names {sorted(unknown)}, which are no operands')
        edge = {}
        for a in operands:
            edge[a.name] = ' + '.join([str(sum(not x.list for x in operands[:operands.index(a)])),
                                       *(f's->n_{x.c}' for x in operands[:operands.index(a)] if x.list)])
            edge[a.name] = edge[a.name].removeprefix('0 + ') if ' + ' in edge[a.name] else edge[a.name]
        result_names = {}
        if base.result == 'tensor' or base.result == 'void':
            result_names['result'] = 0
        else:
            for i, r in enumerate(s.results):
                result_names[r.name or f'result{i}'] = i
        trees = {key: ast.parse(str(text).strip(), mode='eval').body for key, text in spec.items()}
        uses = {key: Uses(tree) for key, tree in trees.items()}
        for use in uses.values():
            if 'wants' in use.whole:
                use.whole.discard('wants')
        # what is saved
        saved, members, saves_before, saves_after, releases, names = [], [], [], [], [], {}
        wants_any = lambda keys: ' || '.join(f'td_node_wants(node, {edge[k]})' if not s.argument(k).list else
                                             '1' for key in keys for k in key) or '0'
        needs = {}
        for key, use in uses.items():
            for name in use.whole - {'grad'}:      # always the incoming gradient, whatever the operands are called
                needs.setdefault(name, []).append(key)
        list_saved = None
        for a in s.arguments:
            if a.is_tensor and a.list and (a.name in needs or a in operands):
                members.append(f'int64_t n_{a.c};')
                saves_before.append(f'    s->n_{a.c} = n_{a.c};')
        for a in s.arguments:
            if a.is_tensor and not a.list and a.name in needs:
                index = len(saved)
                saved.append(a.name)
                source = 'original' if inplace and a.name == 'self' else a.c
                saves_before.append(f'    if (({wants_any(needs[a.name])}) && td_node_save(node, {index}, {source}))\n        goto fail;')
                names[a.name] = 'T', a.c
            elif a.is_tensor and a.list and a.name in needs:
                list_saved = a
            elif not a.is_tensor and a.name in needs and a.in_c:
                names[a.name] = self.save_plain(a, members, saves_before, releases)
        for name, i in result_names.items():
            if name in needs:
                index = len(saved)
                saved.append(name)
                value = 'self' if inplace else {'tensor': 'result', 'void': 'self'}.get(base.result, f'results[{i}]')
                saves_after.append(f'    if (({wants_any(needs[name])}) && td_node_save_result(node, {index}, {value}, {i}))\n        goto fail_result;')
                names[name] = 'T', name
        if list_saved:
            a = list_saved
            saves_before.append(f'    for (int64_t i = 0; i < n_{a.c}; i++)\n'
                                f'        if (td_node_save(node, (int)({len(saved)} + i), {a.c}[i]))\n            goto fail;')
            names[a.name] = 'TL', (f's->n_{a.c}', a.c)
        for use in uses.values():
            for name, part in sorted(use.parts):
                if name in ('grad',) or f'{name}.{part}' in names or name in needs and name in names and part not in ('shapes', 'ranks'):
                    continue
                self.save_part(s, name, part, names, members, saves_before, saves_after, releases, inplace, base, result_names)
        pointwise = op.kind == 'pointwise'
        if pointwise:
            for a in operands:
                members.append(f'td_fit *fit_{a.c};')
                value = 'self' if inplace else 'result'
                if not (inplace and a.name == 'self'):
                    saves_after.append(f'    if (td_fit_save(&s->fit_{a.c}, {a.c}, {value}))\n        goto fail_result;')
                releases.append(f'    td_fit_free(s->fit_{a.c});\n    s->fit_{a.c} = NULL;')
        n_edges = ' + '.join([str(sum(not a.list for a in operands)), *(f'n_{a.c}' for a in operands if a.list)])
        n_inputs = {'tensor': '1', 'void': '1', 'list': 'results->count'}.get(op.result, str(len(s.results)))
        n_saved = str(len(saved)) + (f' + n_{list_saved.c}' if list_saved else '')
        title = nodes.title(base.schema)
        has_state = bool(members)
        shared = inplace and op is not base     # the functional form's node serves the in-place form too
        if not shared:
            if has_state:
                self.code.append(f'struct state_{op.c} {{\n' + ''.join(f'    {m}\n' for m in members) + '};\n')
            self.apply(op, base, spec, names, edge, saved, list_saved, result_names, uses, pointwise, where, has_state, operands)
            if releases:
                self.code.append(f'static void release_{op.c}(td_node *node)\n{{\n    struct state_{op.c} *s = node->state;\n'
                                 + '\n'.join(releases) + '\n}\n')
            release = f', .release = release_{op.c}' if releases else ''
            titles = f', .saved_names = "{" ".join(saved)}"' if saved else ''
            self.code.append(f'static const td_node_type node_{op.c} = {{.name = "{title}", .apply = apply_{op.c}{release}{titles}}};\n')
        node_c = base.c if shared else op.c
        self.record(op, base, operands, edge, node_c, n_edges, n_inputs, n_saved, has_state, saves_before, saves_after,
                    inplace and 'self' in needs, fail)
        return f'autograd_{op.c}'

    def save_plain(self, a, members, saves, releases):
        c = a.c
        if a.list and a.type == 'int':
            members.append(f'td_ints {c};')
            saves.append(f'    if (td_ints_save(&s->{c}, n_{c}, {c}))\n        goto fail;')
            releases.append(f'    td_ints_free(&s->{c});')
            return 'L', (f's->{c}.n', f's->{c}.items')
        if a.list and a.type == 'bool':
            members.append(f'int64_t n_{c}; bool {c}[8];')
            saves.append(f'    s->n_{c} = n_{c};\n    memcpy(s->{c}, {c}, (size_t)n_{c});')
            return 'M', (f's->n_{c}', f's->{c}')
        if a.type == 'str':
            members.append(f'char {c}[24];')
            saves.append(f'    snprintf(s->{c}, sizeof s->{c}, "%s", {c} ? {c} : "");')
            return 's', f's->{c}'
        ctype = {'int': 'int64_t', 'float': 'double', 'bool': 'bool', 'Scalar': 'td_scalar', 'ScalarType': 'td_dtype',
                 'Device': 'td_device', 'MemoryFormat': 'td_memory_format'}[a.type]
        kind = gradients.ARGUMENT_KIND[a.type]
        if a.optional and a.type in ('int', 'float', 'bool', 'Scalar'):
            members.append(f'bool has_{c}; {ctype} {c};')
            saves.append(f'    s->has_{c} = {c} != NULL;\n    if ({c})\n        s->{c} = *{c};')
            return kind + '?', f'(s->has_{c} ? &s->{c} : NULL)'
        members.append(f'{ctype} {c};')
        saves.append(f'    s->{c} = {c};')
        return kind, f's->{c}'

    def save_part(self, s, name, part, names, members, before, after, releases, inplace, base, result_names):
        a = s.argument(name)
        saves, label = before, 'fail'
        if a is not None:
            value = a.c
        elif name in result_names:
            value = 'self' if inplace else {'tensor': 'result', 'void': 'self'}.get(base.result, f'results[{result_names[name]}]')
            saves, label = after, 'fail_result'
        else:
            raise GradError(f'{s.full_name}: unknown name {name!r}')
        if part in ('shapes', 'ranks'):
            if f'{name}.shapes' not in names:
                members.append(f'td_ints ranks_{name}, shapes_{name};')
                saves.append(f'    if (td_ints_save_shapes(&s->ranks_{name}, &s->shapes_{name}, n_{value}, {value}))\n        goto {label};')
                releases.append(f'    td_ints_free(&s->ranks_{name});\n    td_ints_free(&s->shapes_{name});')
                names[f'{name}.ranks'] = 'L', (f's->ranks_{name}.n', f's->ranks_{name}.items')
                names[f'{name}.shapes'] = 'L', (f's->shapes_{name}.n', f's->shapes_{name}.items')
        elif part in ('shape', 'strides'):
            field = 'sizes' if part == 'shape' else 'strides'
            members.append(f'td_ints {part}_{name};')
            saves.append(f'    if (td_ints_save(&s->{part}_{name}, {value}->ndim, {value}->{field}))\n        goto {label};')
            releases.append(f'    td_ints_free(&s->{part}_{name});')
            names[f'{name}.{part}'] = 'L', (f's->{part}_{name}.n', f's->{part}_{name}.items')
        elif part == 'offset':
            members.append(f'int64_t offset_{name};')
            saves.append(f'    s->offset_{name} = td_tensor_offset({value});')
            names[f'{name}.offset'] = 'i', f's->offset_{name}'
        else:
            ctype, kind = {'dtype': ('td_dtype', 'D'), 'device': ('td_device', 'V'), 'ndim': ('int64_t', 'i'),
                           'numel': ('int64_t', 'i')}[part]
            members.append(f'{ctype} {part}_{name};')
            saves.append(f'    s->{part}_{name} = ({ctype}){value}->{part};' if part != 'device' else
                         f'    s->device_{name} = {value}->device;')
            names[f'{name}.{part}'] = kind, f's->{part}_{name}'

    def apply(self, op, base, spec, names, edge, saved, list_saved, result_names, uses, pointwise, where, has_state, operands):
        grads_used, maybe = set(), set()      # maybe: those that a formula takes as they are, present or not
        for key, use in uses.items():
            for name in use.whole:
                if name == 'grad':
                    grads_used.add(0)
            tree = ast.parse(str(spec[key]).strip(), mode='eval')
            given = {id(node.args[0]) for node in ast.walk(tree) if gradients.is_given(node)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == 'grads':
                    (maybe if id(node) in given else grads_used).add(node.slice.value)
            for name, _ in use.parts:
                if name == 'grad':
                    grads_used.add(0)
        out = [f'static int apply_{op.c}(td_node *node, td_tensor *const *grads, td_tensor **results)', '{']
        if has_state:
            out += [f'    struct state_{op.c} *s = node->state;', '    (void)s;']
        every = 'grads' in {n for u in uses.values() for n in u.whole} and base.result == 'list'
        local = dict(names)
        if every:
            out += ['    TD_AUTO_LIST td_tensor_list all = {0};',
                    '    if (td_node_all_grads(node, grads, &all))', '        return -1;']
            local['grads'] = 'TL', ('all.count', 'all.items')
        elif len(base.schema.results) <= 1:
            out += ['    td_tensor *grad = grads[0];', '    if (!grad)', '        return 0;']
            local['grad'] = 'T', 'grad'
        else:
            test = ' && '.join(f'!grads[{i}]' for i in sorted(grads_used | maybe)) or '0'
            out += [f'    if ({test})', '        return 0;']
            for i in sorted(grads_used):
                out += [f'    TD_AUTO td_tensor *grad_{i} = grads[{i}] ? td_tensor_retain(grads[{i}]) : td_node_zeros(node, {i});']
                local[f'grads.{i}'] = 'T', f'grad_{i}'
            local['grad'] = local.get('grads.0')
        for i, name in enumerate(saved):
            users = [key for key, use in uses.items() if name in use.whole]
            test = ' || '.join(f'td_node_wants(node, {edge[k]})' for key in users for k in key if not base.schema.argument(k).list) or '1'
            variable = names[name][1]
            out += [f'    TD_AUTO td_tensor *{variable} = NULL;',
                    f'    if (({test}) && !({variable} = td_node_saved(node, {i})))', '        return -1;']
        if list_saved:
            c = list_saved.c
            out += [f'    TD_AUTO_LIST td_tensor_list list_{c} = {{0}};',
                    f'    if (td_node_saved_list(node, {len(saved)}, s->n_{c}, &list_{c}))', '        return -1;']
            local[list_saved.name] = 'TL', (f's->n_{c}', f'list_{c}.items')
        local['wants'] = 'M', (str(len(operands)), f'(const bool[]){{{", ".join(f"td_node_wants(node, {edge[a.name]})" for a in operands if not a.list)}}}')
        for key, text in spec.items():
            emitter = Emitter(local, self.lookup, where)
            emitter.used = self.declared
            list_operand = base.schema.argument(key[0]).list
            test = ' || '.join(f'td_node_wants(node, {edge[k]})' for k in key) if not list_operand else '1'
            emitter.indent = '        '
            value = emitter.formula(text)
            out.append(f'    if ({test}) {{')
            if len(key) == 1 and pointwise:
                fused = self.fuse(op, base, key[0], text, local, where)
                fit = f's->fit_{base.schema.argument(key[0]).c}'
                if fused:
                    out += fused
                    out += [f'            if (!(results[{edge[key[0]]}] = td_fit_apply(fused, {fit})))', '                return -1;',
                            '        } else {', *('    ' + l for l in emitter.lines),
                            f'            if (!(results[{edge[key[0]]}] = td_fit_apply({emitter.as_tensor(value)}, {fit})))',
                            '                return -1;', '        }']
                else:
                    tensor = emitter.as_tensor(value)
                    out += emitter.lines
                    out += [f'        if (!(results[{edge[key[0]]}] = td_fit_apply({tensor}, {fit})))', '            return -1;']
            elif len(key) == 1 and not list_operand:
                tensor = emitter.as_tensor(value)
                out += emitter.lines
                out += [f'        if (td_give(&results[{edge[key[0]]}], {tensor}))', '            return -1;']
            elif list_operand:
                if value[0] != 'TL':
                    raise GradError(f'{where}: the gradient of a list is a list')
                out += emitter.lines
                out += [f'        for (int64_t i = 0; i < s->n_{base.schema.argument(key[0]).c}; i++)',
                        f'            if (td_node_wants(node, {edge[key[0]]} + i) && td_give(&results[{edge[key[0]]} + i], {value[1][1]}[i]))',
                        '                return -1;']
            else:
                if value[0] != 'R' or value[1][0] != len(key):
                    raise GradError(f'{where}: a joint formula must give {len(key)} results')
                out += emitter.lines
                for i, k in enumerate(key):
                    out += [f'        if (td_node_wants(node, {edge[k]}) && {value[1][1]}[{i}] != TD_NONE)',
                            f'            results[{edge[k]}] = {value[1][1]}[{i}];',
                            '        else', f'            td_tensor_release({value[1][1]}[{i}]);']
            out.append('    }')
        out += ['    return 0;', '}', '']
        self.code.append('\n'.join(out))

    def fuse(self, op, base, operand, text, local, where):
        """One pass for a gradient that is itself pointwise: the lines of an if without its end, or None."""
        fused = self.fused(op.c, 'grad', base, operand, text, local, where, 'grad')
        if not fused:
            return None
        loops, n, operands, params = fused
        return [f'        td_tensor *operands[] = {{{operands}}};',
                f'        if (td_fusable({n}, operands)) {{',
                f'            TD_AUTO td_tensor *fused = td_pointwise_run(&pw_{loops}, operands, {params});']

    def fused(self, name, what, base, operand, text, local, where, factor):
        """Loops for a formula that is linear in `factor`: their name, how many operands, the C lists of these and of the
        numbers; None for what is no single pass.  A formula that was seen before has its loops."""
        tree = ast.parse(str(text).strip(), mode='eval').body
        if sum(isinstance(n, (ast.BinOp, ast.Call, ast.UnaryOp, ast.Compare)) for n in ast.walk(tree)) < 2:
            return None
        used = Uses(tree)
        if used.parts:
            return None
        tensors = [n for n in (factor, *local) if n in used.whole and local.get(n) and local[n][0] == 'T' and n != 'grads.0']
        tensors = list(dict.fromkeys(tensors))
        scalars = [n for n in local if n in used.whole and local[n] and local[n][0] in ('S', 'd')]
        if used.whole - set(tensors) - set(scalars) - {'PI', 'E', 'LN2', 'INF', 'NAN', 'SQRT_HALF', 'TWO_OVER_SQRT_PI',
                                                      'INV_SQRT_2PI', 'SQRT_2_OVER_PI', 'LN10', 'SQRT_PI_OVER_2'} - {
                n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}:
            return None
        listed = lambda tensors, scalars: (
            ', '.join(local[t or factor][1] for t in tensors),
            f'(const td_scalar[]){{{", ".join({"S": "{}", "d": "td_float({})"}[local[n][0]].format(local[n][1]) for n in scalars)}}}'
            if scalars else 'NULL')
        plain = re.sub(rf'\b{factor}\b', '@', str(text).strip())
        if (base.c, plain) in self.loops_of:
            loops, in_order, scalars = self.loops_of[base.c, plain]
            return loops, len(tensors), *listed(in_order, scalars)
        truths = base.entry.get('truths', [])
        formula = Formula(text, tensors, [t for t in tensors if t in truths], scalars, where)
        if not all(formula.compiles_for(c) for c in GROUPS['float']) or not formula_functions_known(tree):
            return None
        loops = f'{name}_{what}_{operand}'
        row = self.pointwise_row(loops, {'default': text}, tensors, [t for t in tensors if t in truths], scalars,
                                 ['float'], 'same', where)
        self.emit_pointwise(loops, f'{base.schema.name}_backward' if what == 'grad' else f'{base.schema.name}_tangent', len(tensors),
                            self.cost(text), 'TD_PROMOTE_DEFAULT', 'same',
                            sum(1 << i for i, t in enumerate(tensors) if t in truths), ['float'], row)
        self.loops_of[base.c, plain] = loops, ['' if t == factor else t for t in tensors], scalars
        return loops, len(tensors), *listed(tensors, scalars)

    def record(self, op, base, operands, edge, node_c, n_edges, n_inputs, n_saved, has_state, before, after, clone, fail):
        tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})' for a in operands)
        if op.mutable and not any(a.name == 'self' for a in operands):
            tests += ' || td_wants_grad(self)'
        names = ', '.join(['keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)', *op.names()])
        lines = [f'static {op.declaration("autograd_" + op.c, ["td_keyset keys"])}', '{']
        if op.mutable:
            lines += [f'    if (TD_UNLIKELY({op.mutable[0].c}->flags & TD_FLAG_INFERENCE) && td_check_inplace({op.mutable[0].c}, "{op.schema.name}"))',
                      '        return -1;']
        lines += [f'    if (!({tests}))', f'        return invoke_{op.c}({names});']
        if op.mutable:
            lines += [f'    if (td_check_inplace({op.mutable[0].c}, "{op.schema.name}"))', '        return -1;']
        listy = op.result == 'list'
        if listy:   # how many results there are is known afterwards
            lines += ['    td_keyset excluded = td_below_autograd();', f'    int status = invoke_{op.c}({names});',
                      '    td_end_below(excluded);', '    if (status)', '        return -1;']
        state_size = f'sizeof(struct state_{node_c})' if has_state else '0'
        if clone:
            lines += ['    TD_AUTO td_tensor *original = td_clone_detached(self);', '    if (!original)', f'        return {fail};']
        lines += [f'    td_node *node = td_node_new(&node_{node_c}, (int)({n_edges}), (int)({n_inputs}), (int)({n_saved}), {state_size});',
                  '    if (!node)', f'        {"goto fail_early;" if listy else f"return {fail};"}']
        if has_state:
            lines += [f'    struct state_{node_c} *s = node->state;', '    (void)s;']
        for a in operands:
            start = sum(not x.list for x in operands[:operands.index(a)])
            if a.list:
                lines += [f'    for (int64_t i = 0; i < n_{a.c}; i++)', f'        if (td_node_connect(node, (int)({start} + i), {a.c}[i]))',
                          '            goto fail;']
            else:
                lines += [f'    if (td_node_connect(node, {edge[a.name]}, {a.c}))', '        goto fail;']
        lines += before
        if listy:
            lines += after
            lines += ['    for (int64_t i = 0; i < results->count; i++)',
                      '        if (td_dtype_is_floating((td_dtype)results->items[i]->dtype) || td_dtype_is_complex((td_dtype)results->items[i]->dtype))',
                      '            if (td_set_history(results->items[i], node, (int)i))', '                goto fail;',
                      '    td_node_release(node);', '    return 0;', 'fail:', '    td_node_release(node);', 'fail_early:',
                      '    td_tensor_list_release(results);', '    return -1;', '}', '']
            text = '\n'.join(lines).replace('goto fail_result;', 'goto fail;')
            self.code.append(text)
            return
        lines += ['    td_keyset excluded = td_below_autograd();']
        if op.result == 'tensor':
            lines += [f'    td_tensor *result = invoke_{op.c}({names});', '    td_end_below(excluded);', '    if (!result)', '        goto fail;']
            lines += after
            lines += ['    if (td_set_history(result, node, 0))', '        goto fail_result;', '    td_node_release(node);', '    return result;',
                      'fail_result:', '    td_tensor_release(result);', 'fail:', '    td_node_release(node);', '    return NULL;', '}', '']
        elif op.result == 'void':
            lines += [f'    int status = invoke_{op.c}({names});', '    td_end_below(excluded);', '    if (status)', '        goto fail;']
            lines += after
            lines += ['    if (td_rebase_history(self, node, 0))', '        goto fail_result;', '    td_node_release(node);', '    return 0;',
                      'fail_result:', 'fail:', '    td_node_release(node);', '    return -1;', '}', '']
        else:
            n = len(base.schema.results)
            lines += [f'    int status = invoke_{op.c}({names});', '    td_end_below(excluded);', '    if (status)', '        goto fail;']
            lines += after
            lines += [f'    for (int i = 0; i < {base.entry.get("differentiable", n)}; i++)',
                      '        if (results[i] != TD_NONE && (td_dtype_is_floating((td_dtype)results[i]->dtype) || '
                      'td_dtype_is_complex((td_dtype)results[i]->dtype)) &&',
                      '            td_set_history(results[i], node, i))', '            goto fail_result;',
                      '    td_node_release(node);', '    return 0;',
                      'fail_result:', f'    td_results_drop({n}, results);', 'fail:', '    td_node_release(node);', '    return -1;', '}', '']
        text = '\n'.join(lines)
        if 'goto fail_result' not in text:
            text = text.replace('fail_result:\n    td_tensor_release(result);\n', '').replace('fail_result:\n', '')
        if 'goto fail;' not in text:
            text = text.replace('fail:\n', '')
        self.code.append(text)

    # ----------------------------------------------------------------------------------------- forward mode
    def forward(self, op):
        """Emit the kernel on the ForwardAD key: the results' tangents are sums, over the operands with one, of their
        formulas.  A pointwise gradient is linear in `grad` and elementwise, so that it is the tangent's formula too (up to
        conjugation); `jvp:` has those that differ, with `t` for the tangent.  None: src/transforms/forward.c knows."""
        base = op.parent or op
        spec, own = base.entry.get('grad'), base.entry.get('jvp')
        if op.variant != 'functional' or op.result not in ('tensor', 'tuple') or op.target or not isinstance(spec, dict):
            return None
        if isinstance(own, dict):
            formulas, conjugates = own, False
        elif own == 'reduce':      # every element belongs to one result: the gradient's factors, times the tangent, summed
            (name, text), = spec.items()
            dims = ', dim, keepdim' if op.schema.argument('dim') else ''
            factor = re.sub(r'\bgrad\b', 'ones_like(result)', str(text).strip())
            formulas, conjugates = {name: f'sum(conj({factor}) * t{dims})'}, False
        elif own is None and op.kind == 'pointwise':
            formulas = {k: re.sub(r'\bgrad\b', 't', str(v)) for k, v in spec.items()}
            conjugates = 'complex' in op.entry.get('dtypes', [])
        else:
            return None
        s, where = op.schema, f'{op.family}: {op.schema.full_name}'
        several = op.result == 'tuple'
        n = base.entry.get('differentiable', len(s.results)) if several else 1
        names = {r.name or f'result{i}': ('T', f'results[{i}]') for i, r in enumerate(s.results)} if several else {}
        names |= {'t': ('T', 't'), 'result': ('T', 'results[0]' if several else 'result')}
        for a in s.arguments:
            if not a.in_c:
                continue
            kind = gradients.kind_of(a)
            if a.is_tensor:
                names[a.name] = (kind, (f'n_{a.c}', a.c)) if a.list else (kind, a.c)
            elif a.list:
                names[a.name] = kind, (f'n_{a.c}', a.c)
            else:
                names[a.name] = (kind + '?' if a.optional and a.type in ('int', 'float', 'bool', 'Scalar') else kind), a.c
        c, parameters = op.c, op.parameters()
        lines = [f'static int tangent_{c}({", ".join([*([] if several else ["td_tensor *result"]), *parameters, "td_tensor **sums"])})', '{']
        for name, text in formulas.items():
            joint = [s.argument(k.strip()).c for k in name.split(',')]
            operand = joint[0]
            own_names = names | {f't_{x}': ('T', f't_{x}') for x in joint}
            fused = not several and op.kind == 'pointwise' and len(joint) == 1 and self.fuse_tangent(op, base, name, text, names, where)
            if len(joint) == 1:
                lines += [f'    if (td_tangent({operand})) {{',
                          f'        TD_AUTO td_tensor *t = td_forward_operand({operand}, {str(bool(conjugates)).lower()});',
                          '        if (!t)', '            return -1;']
            else:       # t_name for each, absent where there is none
                lines.append(f'    if ({" || ".join(f"td_tangent({x})" for x in joint)}) {{')
                lines += [f'        td_tensor *t_{x} = td_tangent({x}) ? td_tangent({x}) : TD_NONE;' for x in joint]
            emitter = Emitter(own_names, self.lookup, where)
            emitter.indent += '    ' if fused else ''
            for i, part in enumerate(text if isinstance(text, list) else [text]):
                value = emitter.formula(part)
                if value[0] == 'R':
                    if value[1][0] != n:
                        raise GradError(f'{where}: {value[1][0]} tangents for {n} results')
                    emitter.line(f'if (td_forward_take(sums, {n}, {value[1][1]}))')
                else:
                    emitter.line(f'if (td_forward_add(&sums[{i}], {emitter.as_tensor(value)}))')
                emitter.line('    return -1;')
            lines += [*fused, '        } else {', *emitter.lines, '        }'] if fused else emitter.lines
            lines.append('    }')
        for argument in [*([] if several else ['result']), *op.names()]:
            lines.append(f'    (void){argument};')
        lines += ['    return 0;', '}', '']
        test = ' || '.join(f'td_tangent({s.argument(a.strip()).c})' for key in formulas for a in key.split(','))
        call = ', '.join(['keys & ~TD_KEYSET(TD_KEY_FORWARD_AD)', *op.names()])
        lines += [f'static {op.declaration("forward_" + c, ["td_keyset keys"])}', '{']
        if several:
            lines += [f'    int status = invoke_{c}({call});', f'    if (status || !({test}))', '        return status;',
                      '    td_keyset before = td_forward_begin();', f'    td_tensor *sums[{n}] = {{0}};',
                      f'    status = tangent_{c}({", ".join([*op.names(), "sums"])});',
                      f'    return td_forward_end_all(before, status, {len(s.results)}, results, {n}, sums);', '}', '']
        else:
            lines += [f'    td_tensor *result = invoke_{c}({call});', f'    if (!result || !({test}))', '        return result;',
                      '    td_keyset before = td_forward_begin();', '    td_tensor *sum = NULL;',
                      f'    int status = tangent_{c}({", ".join(["result", *op.names(), "&sum"])});',
                      f'    return td_forward_end(before, status, result, sum, {str(bool(conjugates)).lower()});', '}', '']
        self.code.append('\n'.join(lines))
        return f'forward_{c}'

    def fuse_tangent(self, op, base, operand, text, names, where):
        """The lines of an if without its end that compute a tangent in one pass, or None; the gradient's loops where its
        formula is the same one."""
        fused = self.fused(op.c, 'tangent', base, operand, text, names, where, 't')
        if not fused:
            return None
        loops, n, operands, params = fused
        return [f'        td_tensor *operands[] = {{{operands}}};', f'        if (td_forward_fusable({n}, operands)) {{',
                f'            TD_AUTO td_tensor *fused = td_pointwise_run(&pw_{loops}, operands, {params});',
                '            if (td_forward_add(sums, fused))', '                return -1;']

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
#include "dispatch/glue.h"

/* src/ops/spec.c: an error if tensors are on the CPU and on meta; those without dimensions may be elsewhere, if so told. */
int td_check_devices(int n, const td_spec_inputs *operands, bool numbers_anywhere);

'''
        extern = f'extern const td_loop_row td_loops_{self.name}_v2[], td_loops_{self.name}_v3[], td_loops_{self.name}_v4[];\n\n' if self.loop_rows else ''
        rows = ',\n    '.join('&row_' + r for r in self.rows)
        tail = f'''td_op *const td_rows_{self.name}[] = {{
    {rows},
}};
const int td_row_count_{self.name} = {len(self.rows)};
'''
        code = '\n'.join(self.code)
        return head + '\n'.join(prototypes.of(code)) + '\n\n' + extern + code + '\n' + tail

    def emit_loops(self):
        if not self.loop_rows:
            return None
        head = '''/* Generated loops: edit the formulas in ops/ instead.  Compiled once per instruction set. */
#include "kernels/cpu/formula.h"

'''
        rows = []
        for _, columns in self.loop_rows:
            cells = ', '.join(f'[{COLUMN[c]}] = TD_ISA_NAME({f})' for c, f in columns.items())
            rows.append(f'    {{{{{cells}}}}},\n')
        return (head + '\n'.join(self.loops) + f'\nextern const td_loop_row TD_ISA_NAME(td_loops_{self.name})[];\n'
                f'const td_loop_row TD_ISA_NAME(td_loops_{self.name})[] = {{\n{"".join(rows)}}};\n')


def formula_functions_known(tree):
    """Whether every function of a fused formula has an inline."""
    known = {'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'sin', 'cos', 'tan', 'sinh', 'cosh', 'tanh', 'erf',
             'sqrt', 'rsqrt', 'sigmoid', 'where', 'abs', 'conj', 'sign', 'sgn', 'pow', 'maximum', 'minimum', 'square',
             'digamma', 'reciprocal', 'real'}
    return all(isinstance(n.func, ast.Name) and n.func.id in known for n in ast.walk(tree) if isinstance(n, ast.Call))
