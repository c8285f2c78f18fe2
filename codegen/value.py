"""The value language: a Python expression becomes a C loop over contiguous runs, one per compute dtype.

    value: self / (1 + exp(-self))

Literals and scalar parameters have the compute dtype.  where(c, a, b) computes both arms and picks one.  Each step
becomes a named constant, so that the generated loop reads like the formula and steps in a debugger.  Functions are the
inlines of src/kernels/cpu/math/maths*.h, found by name: exp -> td_exp_f32.

Note [Compute dtypes]
A formula is compiled for float32, float64, their complex counterparts, int32, int64 and uint64 as far as the entry
accepts these kinds.  Narrower types travel through them: the iterator converts in blocks that stay in the first
cache.  float16 and bfloat16 are so computed in float32 and rounded once, as in PyTorch; narrow integers wrap as they
would in their own dtype, since conversion keeps the low bits.

Note [Narrow integers]
Where a formula of a few plain steps takes less time than that conversion, integers of 8 and 16 bits have loops of their
own.  What doesn't look at signs is the same for both kinds of 8 bits.  bool has one, too, if 0 and 1 give 0 or 1; whatever isn't 0
counts as 1.

Note [Pairs of bfloat16]
Where a formula of a few plain steps takes less time than that conversion, a separate loop reads bfloat16: as words
of two numbers, since a shift or a mask makes a float32 of each half and no lanes change places.

Note [Blocks of float16]
Formulas of a few steps more read float16 by the processor's conversions, as many numbers as a register holds: they stay in
registers between conversion and formula.

Note [Halves of their own]
What depends on how fine a dtype's numbers lie (`halves: own` in the entry) isn't computed in float32: its loops for float16 and
bfloat16 call td_nextafter_f16 and the like, which take their bits, and always run.

Note [Runs within loops]
A function that has a form for runs cuts the loop: for blocks of elements, one loop computes its arguments, the function
replaces them by its values, and the next loop goes on.  What a later loop needs of an earlier one it computes again,
apart from such values."""
import ast
import re

# suffix: (C type, kind, real counterpart)
COMPUTE = {
    'f32': ('float', 'f', 'f32'), 'f64': ('double', 'f', 'f64'),
    'c64': ('float _Complex', 'c', 'f32'), 'c128': ('double _Complex', 'c', 'f64'),
    'f16': ('td_f16', 'f', 'f16'), 'bf16': ('td_bf16', 'f', 'bf16'),
    'u8': ('uint8_t', 'i', 'u8'), 'i8': ('int8_t', 'i', 'i8'), 'i16': ('int16_t', 'i', 'i16'),
    'i32': ('int32_t', 'i', 'i32'), 'i64': ('int64_t', 'i', 'i64'), 'u64': ('uint64_t', 'i', 'u64'),
}
ORDER = list(COMPUTE)
GROUPS = {'float': ['f32', 'f64'], 'wide': ['f32', 'f64'], 'complex': ['c64', 'c128'], 'int': ['i32', 'i64', 'u64'], 'bool': ['i32']}

CONSTANTS = {'PI': 3.14159265358979323846, 'LN2': 0.69314718055994530942, 'E': 2.71828182845904523536,
             'SQRT_HALF': 0.70710678118654752440, 'SQRT_2_OVER_PI': 0.79788456080286535588,
             'TWO_OVER_SQRT_PI': 1.12837916709551257390, 'INV_SQRT_2PI': 0.39894228040143267794,
             'LN10': 2.30258509299404568402, 'SQRT_PI_OVER_2': 0.88622692545275801365}
# Functions whose result is real for a complex argument, and those whose result is boolean.
REAL_RESULT = {'abs', 'real', 'imag', 'angle'}
PREDICATES = {'isnan', 'isinf', 'isfinite', 'signbit'}
BUILTIN = {('abs', 'f32'): '__builtin_fabsf', ('abs', 'f64'): '__builtin_fabs',
           ('sqrt', 'f32'): '__builtin_sqrtf', ('sqrt', 'f64'): '__builtin_sqrt',
           ('real', 'c64'): '__builtin_crealf', ('real', 'c128'): '__builtin_creal',
           ('imag', 'c64'): '__builtin_cimagf', ('imag', 'c128'): '__builtin_cimag',
           ('conj', 'c64'): '__builtin_conjf', ('conj', 'c128'): '__builtin_conj'}
# Functions that are faster, or only vectorise, for a whole run (loops/runs.h).  Those of ALONE are not worth storing what
# they take and give: they are called so when they are the formula.
_DIVISION, _ANGLE = {'fmod', 'remainder', 'floor_div'}, {'sin', 'cos', 'tan'}
RUNS = {'f32': _DIVISION | _ANGLE | {'erf', 'tanh', 'sigmoid', 'exp', 'sqrt'}, 'f64': _DIVISION | _ANGLE}
ALONE = {'exp', 'sqrt'}
# What a formula may call, and how many steps it may take, to get a loop of pairs.
PLAIN, MOST_STEPS = {'td_maximum_f32', 'td_minimum_f32'}, 2
# The same of blocks of float16.
HALF_PLAIN = {*PLAIN, *(f'td_{f}_f32' for f in ('abs', 'floor', 'ceil', 'trunc', 'copysign', 'fmax', 'fmin')), 'TD_FMA_F32'}
HALF_STEPS = 4
# The same of narrow integers.
NARROW, NARROW_STEPS = ('u8', 'i8', 'i16'), 4
NARROW_PLAIN = {f'td_{function}_{t}' for function in ('maximum', 'minimum', 'abs', 'sign', 'sgn') for t in NARROW}
COMPARE = {ast.Lt: '<', ast.LtE: '<=', ast.Gt: '>', ast.GtE: '>=', ast.Eq: '==', ast.NotEq: '!='}


class FormulaError(Exception):
    pass


class _Steps:
    """A formula in one compute dtype, a named constant for each step: `lines` of (name, type, code), and `cuts` between them. Methods return
    what stands for a value and its kind: 'f'loat, 'i'nteger, 'c'omplex, 'r'eal beside complex, 'b'oolean."""

    def __init__(self, formula, compute):
        self.of, self.compute = formula, compute
        self.ctype, self.kind, self.real = COMPUTE[compute]
        self.boolean = self.ctype if compute in NARROW else 'int'
        self.runs = RUNS.get(compute, set())
        self.lines, self.cuts = [], []

    def type_of(self, k):
        return {'b': self.boolean, 'r': COMPUTE[self.real][0]}.get(k, self.ctype)

    def let(self, code, k):
        name = f't{len(self.lines) + 1}'
        self.lines.append((name, self.type_of(k), code))
        return name, k

    def cut(self, function, arguments):
        """See Note [Runs within loops]."""
        block = f'block{len(self.lines) + 1}'
        self.cuts.append((len(self.lines), block, f'TD_RUN({function}, {self.compute})', arguments))
        return self.let(f'{block}[i - start]', 'f')

    def number(self, value):
        if self.kind == 'i':
            if isinstance(value, float):
                if value != int(value):
                    raise FormulaError(f'{self.of.where}: {value} in a formula for integers')
                value = int(value)
            return f'({self.ctype}){value}', 'i'
        text = repr(float(value)) if value == value and abs(value) != float('inf') else None
        if text is None:
            text = '__builtin_nanf("")' if value != value else ('-' if value < 0 else '') + '__builtin_inff()'
            return f'({COMPUTE[self.real][0]}){text}', 'r' if self.kind == 'c' else 'f'
        return text + ('f' if COMPUTE[self.real][0] == 'float' else ''), 'r' if self.kind == 'c' else 'f'

    def suffix(self, *kinds):
        """Which inline: the complex one if an argument is complex, else the real one."""
        if self.kind == 'c':
            return self.compute if 'c' in kinds else self.real
        return self.compute

    def visit(self, node):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                return str(int(node.value)), 'b'
            return self.number(node.value)
        if isinstance(node, ast.Name):
            if node.id in self.of.masks:
                return f'x_{node.id}', 'b'
            if node.id in self.of.operands or node.id in self.of.parameters:
                return f'x_{node.id}', self.kind
            if node.id in CONSTANTS:
                return self.number(CONSTANTS[node.id])
            if node.id == 'INF':
                return self.number(float('inf'))
            if node.id == 'NAN':
                return self.number(float('nan'))
            raise FormulaError(f'{self.of.where}: unknown name {node.id!r} in {self.of.text!r}')
        if isinstance(node, ast.UnaryOp):
            code, k = self.visit(node.operand)
            if isinstance(node.op, ast.Not):
                return self.let(f'!{code}', 'b')
            if isinstance(node.op, ast.Invert):
                return self.let(f'~{code}', k)
            return self.let(f'-{code}', 'i' if k == 'b' and self.kind == 'i' else k)
        if isinstance(node, ast.BoolOp):
            parts = [self.visit(v)[0] for v in node.values]
            return self.let((' & ' if isinstance(node.op, ast.And) else ' | ').join(f'({p} != 0)' for p in parts), 'b')
        if isinstance(node, ast.Compare):
            if len(node.ops) != 1:
                raise FormulaError(f'{self.of.where}: chained comparison in {self.of.text!r}')
            (a, _), (b, _) = self.visit(node.left), self.visit(node.comparators[0])
            return self.let(f'{a} {COMPARE[type(node.ops[0])]} {b}', 'b')
        if isinstance(node, ast.BinOp):
            (a, ka), (b, kb) = self.visit(node.left), self.visit(node.right)
            return self.binary(type(node.op), a, ka, b, kb)
        if isinstance(node, ast.Call):
            return self.call(node.func.id, [self.visit(a) for a in node.args])
        raise FormulaError(f'{self.of.where}: {ast.dump(node)} is not in the value language')

    def binary(self, op, a, ka, b, kb):
        k = ('c' if 'c' in (ka, kb) else 'r') if self.kind == 'c' else self.kind
        if ka == kb == 'b' and op in (ast.BitAnd, ast.BitOr, ast.BitXor):
            k = 'b'
        plain = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.BitAnd: '&', ast.BitOr: '|', ast.BitXor: '^'}
        if op in plain and not (k == 'c' and op is ast.Mult and ka == kb == 'c'):
            return self.let(f'{a} {plain[op]} {b}', k)
        if op is ast.Div and (k in ('f', 'r') or k == 'c' and kb == 'r'):
            return self.let(f'{a} / {b}', k)
        names = {ast.Mult: 'mul', ast.Div: 'div', ast.FloorDiv: 'floor_div', ast.Mod: 'remainder', ast.Pow: 'pow',
                 ast.LShift: 'shl', ast.RShift: 'shr'}
        if op not in names or op is ast.Div and self.kind == 'i':
            raise FormulaError(f'{self.of.where}: {op.__name__} is not for {self.compute}')
        if names[op] in self.runs - ALONE:
            return self.cut(names[op], [a, b])
        return self.let(f'td_{names[op]}_{self.suffix(ka, kb)}({a}, {b})', k)

    def call(self, function, arguments):
        codes, kinds = [a for a, _ in arguments], [k for _, k in arguments]
        if function == 'where':
            k = next((k for k in ('c', 'f', 'i', 'r') if k in kinds[1:]), 'b')
            return self.let(f'{codes[0]} ? {codes[1]} : {codes[2]}', k)
        if function == 'fma':     # spelled out: one rounding where the processor has the instruction
            return self.let(f'TD_FMA_{self.suffix(*kinds).upper()}({", ".join(codes)})', self.kind)
        if function == 'truth':
            return self.let(f'{codes[0]} != 0', 'b')
        if function == 'number':   # a boolean as a number
            return self.let(f'({self.type_of(self.kind)}){codes[0]}', self.kind)
        if function == 'complex':
            return self.let(f'TD_COMPLEX_{self.compute.upper()}({", ".join(codes)})', 'c')
        which = self.suffix(*kinds)
        k = 'b' if function in PREDICATES else kinds[0]
        if 'c' in kinds:
            k = 'r' if function in REAL_RESULT else 'b' if function in PREDICATES else 'c'
        elif function in ('conj', 'real'):
            return arguments[0]
        if function in self.runs - ALONE:
            return self.cut(function, codes)
        target = BUILTIN.get((function, which), f'td_{function}_{which}')
        return self.let(f'{target}({", ".join(codes)})', k)


class Formula:
    """One expression, to be emitted for several compute dtypes."""

    def __init__(self, text, operands, masks, parameters, where):
        """operands: names in order; masks: those that are conditions; parameters: names of scalars in order."""
        self.text, self.operands, self.masks, self.parameters, self.where = text, operands, masks, parameters, where
        try:
            self.tree = ast.parse(str(text).strip(), mode='eval').body
        except SyntaxError as error:
            raise FormulaError(f'{where}: {error.msg} in {text!r}') from None

    def is_arithmetic_of_two(self):
        """Whether loops for a single element on either side are worth their compilation: memory bounds them, not the formula."""
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        return len(self.operands) == 2 and not self.masks and used >= set(self.operands) and isinstance(self.tree, ast.BinOp) and \
            all(isinstance(node, (ast.Name, ast.Load, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div)) for node in ast.walk(self.tree))

    def emit(self, name, compute, out, single=None, own_halves=False):
        """A loop function.  out: 'same', 'bool' or 'real'.  compute 'bf16', 'f16', 'u8', 'i8', 'i16' and 'b8' give None
        for formulas that aren't plain.  single: an operand of which there is one element for the whole run.
        own_halves: see Note [Halves of their own]."""
        half, booleans = compute if compute in ('bf16', 'f16') and not own_halves else None, compute == 'b8'
        compute = 'f32' if half else 'u8' if booleans else compute
        steps, used = _Steps(self, compute), {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        code, k = steps.visit(self.tree)
        lines, cuts, ctype, real = steps.lines, steps.cuts, steps.ctype, steps.real
        out_type = {'bool': 'uint8_t', 'real': COMPUTE[real][0]}.get(out, ctype)
        if out == 'bool' and k != 'b':
            code = f'{code} != 0'
        if half:
            called = set(re.findall(r'\b(td_\w+|TD_\w+)\(', ' '.join(line for *_, line in lines)))
            most, known, write = (MOST_STEPS, PLAIN, self._pairs) if half == 'bf16' else (HALF_STEPS, HALF_PLAIN, self._halves)
            plain = not cuts and 0 < len(lines) <= most and called <= known
            return write(name, out, used, lines, code) if plain else None
        if compute in NARROW:
            called = set(re.findall(r'\b(td_\w+)\(', ' '.join(line for *_, line in lines)))
            if len(lines) > NARROW_STEPS or not called <= NARROW_PLAIN:
                return None
        body = [f'static void TD_ISA_NAME({name})(int64_t count, char *const *runs, const void *params)', '{',
                f'    {out_type} *out = ({out_type} *)runs[0];']
        for i, operand in enumerate(self.operands):
            if operand == single:
                body.append(f'    const {ctype} x_{operand} = *(const {ctype} *)runs[{i + 1}];')
            elif operand in used:
                t = 'uint8_t' if operand in self.masks else ctype
                body.append(f'    const {t} *{operand} = (const {t} *)runs[{i + 1}];')
        for i, parameter in enumerate(self.parameters):
            if parameter in used:
                body.append(f'    const {ctype} x_{parameter} = td_scalar_{compute}((const td_scalar *)params + {i});')
        if not used & set(self.parameters):
            body.append('    (void)params;')
        inputs = [(f'x_{o}', steps.boolean if o in self.masks else ctype, f'{o}[i] != 0' if booleans else f'{o}[i]') for o in self.operands
                  if o in used and o != single]
        whole = self._whole(steps.runs) if out == 'same' else None
        if whole:
            return '\n'.join([*body, f'    TD_RUN({whole[0]}, {compute})({", ".join(whole[1])}, out, count);', '}', ''])

        def loop(first, last, until, wanted, stores):
            """Of the first lines (until counts them) those that the wanted code needs."""
            needed, kept = set(re.findall(r'\w+', ' '.join(wanted))), []
            for variable, t, code in reversed(inputs + lines[:until]):
                if variable in needed:
                    needed |= set(re.findall(r'\w+', code))
                    kept.append(f'    const {t} {variable} = {code};')
            return ['#pragma omp simd', f'for (int64_t i = {first}; i < {last}; i++) {{', *reversed(kept),
                    *(f'    {line}' for line in stores), '}']
        last = f'out[i] = ({out_type})({code});'
        if not cuts:
            inner = loop(0, 'count', len(lines), [code], [last])
            return '\n'.join([*body, *self._indent(inner, 4), '}', ''])
        inner = ['const int64_t end = count - start < TD_RUN_BLOCK ? count : start + TD_RUN_BLOCK;']
        for until, block, function, arguments in cuts:
            blocks = [block, f'{block}_more'][:len(arguments)]
            body.append(f'    _Alignas(64) {ctype} {", ".join(f"{b}[TD_RUN_BLOCK]" for b in blocks)};')
            inner += loop('start', 'end', until, arguments, [f'{b}[i - start] = {a};' for b, a in zip(blocks, arguments)])
            inner.append(f'{function}({", ".join(blocks)}, {block}, end - start);')
        inner += loop('start', 'end', len(lines), [code], [last])
        return '\n'.join([*body, '    for (int64_t start = 0; start < count; start += TD_RUN_BLOCK) {',
                          *self._indent(inner, 8), '    }', '}', ''])

    def ignores_signs(self):
        """Whether the same bits come out for signed and unsigned integers."""
        return self._made_of(ast.Add, ast.Sub, ast.Invert, ast.USub, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Constant,
                             ast.UnaryOp, ast.BoolOp, ast.Compare, calls={'where', 'truth', 'number'})

    def keeps_bools(self):
        """Whether 0 and 1 give 0 or 1, for any numbers."""
        closed = isinstance(self.tree, (ast.Compare, ast.BoolOp)) or self._made_of(
            calls={'where', 'truth', 'number', 'maximum', 'minimum', 'abs', 'sign', 'sgn'})
        return closed and not self.parameters

    def _made_of(self, *nodes, calls):
        allowed = (ast.Name, ast.Load, ast.BinOp, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Mult, ast.Call, *nodes)
        return all(isinstance(node, allowed) and (not isinstance(node, ast.Call) or node.func.id in calls)
                   for node in ast.walk(self.tree))

    def _as_function(self, name, out, used, lines, code):
        """The operands and parameters that are used, with their numbers, and the formula as an inline function of them."""
        operands = [(i, o, o in self.masks) for i, o in enumerate(self.operands) if o in used]
        parameters = [(i, p) for i, p in enumerate(self.parameters) if p in used]
        wants = [f'{"int" if is_mask else "float"} x_{o}' for _, o, is_mask in operands] + [f'float x_{p}' for _, p in parameters]
        return operands, parameters, [
            f'static inline {"int" if out == "bool" else "float"} TD_ISA_NAME({name}_value)({", ".join(wants)})', '{',
            *(f'    const {t} {variable} = {line};' for variable, t, line in lines), f'    return {code};', '}',
            f'static void TD_ISA_NAME({name})(int64_t count, char *const *runs, const void *params)', '{',
            *(f'    const float x_{p} = td_scalar_f32((const td_scalar *)params + {i});' for i, p in parameters),
            *([] if parameters else ['    (void)params;'])]

    def _halves(self, name, out, used, lines, code):
        """See Note [Blocks of float16]."""
        operands, parameters, head = self._as_function(name, out, used, lines, code)
        numbers = [f'x_{p}' for _, p in parameters]

        def value(mask, number):
            given = [(mask if is_mask else number).format(o) for _, o, is_mask in operands]
            return f'TD_ISA_NAME({name}_value)({", ".join(given + numbers)})'
        one, bits = value('{0}[i] != 0', 'td_f16_to_f32({0}[i])'), value('{0}[i + k] != 0', 'wide_{0}[k]')
        t = 'uint8_t' if out == 'bool' else 'td_f16'
        return '\n'.join([
            '#ifdef TD_HALVES', *head, f'    {t} *out = ({t} *)runs[0];',
            *(f'    const {"uint8_t" if is_mask else "td_f16"} *{o} = (const {"uint8_t" if is_mask else "td_f16"} *)runs[{i + 1}];'
              for i, o, is_mask in operands),
            '    int64_t i = 0;',
            '    for (; i + TD_HALVES <= count; i += TD_HALVES) {',
            *(f'        td_block_of_floats wide_{o};' for _, o, is_mask in operands if not is_mask),
            *(f'        td_widen(wide_{o}, {o} + i);' for _, o, is_mask in operands if not is_mask),
            *([] if out == 'bool' else ['        td_block_of_floats wide;']),
            '#pragma omp simd',
            '        for (int k = 0; k < TD_HALVES; k++)',
            f'            {"out[i + k]" if out == "bool" else "wide[k]"} = {f"({bits}) != 0" if out == "bool" else bits};',
            *([] if out == 'bool' else ['        td_narrow(out + i, wide);']),
            '    }',
            '    for (; i < count; i++) {',
            '        __asm__ volatile("");      /* a few numbers: vectors of the portable conversions would take longest to compile */',
            f'        out[i] = {f"({one}) != 0" if out == "bool" else f"td_f32_to_f16({one})"};',
            '    }',
            '}', '#endif', ''])

    def _pairs(self, name, out, used, lines, code):
        """See Note [Pairs of bfloat16]: a loop that calls the formula for both halves of a word."""
        operands, parameters, head = self._as_function(name, out, used, lines, code)
        result, word = ('int', 'td_pair8') if out == 'bool' else ('float', 'td_pair16')

        def value(half, at):
            given = [f'td_{half}{8 if is_mask else 16}({o}[{at}])' for _, o, is_mask in operands] + [f'x_{p}' for _, p in parameters]
            return f'TD_ISA_NAME({name}_value)({", ".join(given)})'
        return '\n'.join([
            '#ifdef TD_PAIRS', *head, f'    {word} *out = ({word} *)runs[0];',
            *(f'    const td_pair{8 if is_mask else 16} *{o} = (const td_pair{8 if is_mask else 16} *)runs[{i + 1}];'
              for i, o, is_mask in operands),
            '#pragma omp simd',
            '    for (int64_t i = 0; i < count / 2; i++)',
            f'        out[i] = td_of_{"bools" if out == "bool" else "floats"}({value("low", "i")}, {value("high", "i")});',
            '    if (count & 1)',
            f'        td_last_{result}(out + count / 2, {value("last", "count / 2")});',
            '}', '#endif', ''])

    def _whole(self, runs):
        """The function and its operands, if that is all the formula says and the function has a form for runs."""
        tree, names = self.tree, {ast.FloorDiv: 'floor_div', ast.Mod: 'remainder'}
        if isinstance(tree, ast.Call):
            function, arguments = tree.func.id, tree.args
        elif isinstance(tree, ast.BinOp):
            function, arguments = names.get(type(tree.op)), [tree.left, tree.right]
        else:
            return None
        plain = all(isinstance(a, ast.Name) and a.id in self.operands and a.id not in self.masks for a in arguments)
        return (function, [a.id for a in arguments]) if function in runs and plain else None

    @staticmethod
    def _indent(lines, by):
        return [line if line.startswith('#') else ' ' * by + line for line in lines]

    def compiles_for(self, compute, out='same'):
        try:
            self.emit('x', compute, out)
            return True
        except (FormulaError, KeyError, AttributeError):
            return False
