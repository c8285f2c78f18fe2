"""The gradient language: an expression over the call's operands, results and `grad` becomes C calls of operators.

    grad:
      self: grad * cos(self)

Whatever the formula uses is saved by the forward call: a tensor as a saved variable, only if a gradient that needs it
is wanted; ``self.shape``, ``self.dtype`` and numbers in the node's state.  The calls go through the dispatcher, so that
with create_graph the backward pass records itself.

Values in a formula, by kind: T tensor, S scalar (td_scalar), i int, d float, b bool, L int list, D dtype, V device,
s string, TL tensor list, M list of bools, and None."""
import ast

from .schema import Argument

OPERATORS = {ast.Add: 'add', ast.Sub: 'sub', ast.Mult: 'mul', ast.Div: 'div', ast.Pow: 'pow', ast.MatMult: 'matmul',
             ast.BitAnd: 'logical_and', ast.BitOr: 'logical_or'}
C_OPERATORS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/', ast.Mod: '%'}
COMPARE = {ast.Lt: ('lt', '<'), ast.LtE: ('le', '<='), ast.Gt: ('gt', '>'), ast.GtE: ('ge', '>='),
           ast.Eq: ('eq', '=='), ast.NotEq: ('ne', '!=')}
ARGUMENT_KIND = {'int': 'i', 'float': 'd', 'bool': 'b', 'Scalar': 'S', 'str': 's', 'ScalarType': 'D', 'Device': 'V',
                 'MemoryFormat': 'F', 'Generator': 'G', 'Layout': 'Y'}


# What a formula may take of a tensor without saving it; of a list of tensors, ranks and shapes.
PARTS = 'shape', 'strides', 'offset', 'dtype', 'device', 'ndim', 'numel', 'shapes', 'ranks'


class GradError(Exception):
    pass


def is_given(node):
    """given(grads[1]): a result's gradient, or None where it has none, for which zeros would be made otherwise."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'given'


def kind_of(argument):
    if argument.is_tensor:
        return 'TL' if argument.list else 'T'
    if argument.list:
        return {'int': 'L', 'bool': 'M', 'float': 'DL'}.get(argument.type)
    return ARGUMENT_KIND[argument.type]


class Uses(ast.NodeVisitor):
    """What a formula takes from the call: whole values, shapes and dtypes."""

    def __init__(self, tree):
        self.whole, self.parts = set(), set()
        self.visit(tree)

    def visit_Attribute(self, node):
        if isinstance(node.value, ast.Name) and node.attr in PARTS:
            self.parts.add((node.value.id, node.attr))
        else:
            self.visit(node.value)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        for child in [*node.args, *(k.value for k in node.keywords)]:
            self.visit(child)

    def visit_Name(self, node):
        self.whole.add(node.id)


class Emitter:
    """Emits C for the formulas of one operator.  `lookup(name)` gives the schemas of that name."""

    def __init__(self, names, lookup, where):
        self.names, self.lookup, self.where = names, lookup, where   # names: {name: (kind, C expression)}
        self.lines, self.count, self.indent = [], 0, '        '

    def fail(self, text):
        raise GradError(f'{self.where}: {text}')

    def line(self, text):
        self.lines.append(self.indent + text)

    def temp(self, code):
        self.count += 1
        self.line(f'TD_AUTO td_tensor *t{self.count} = {code};')
        return 'T', f't{self.count}'

    def formula(self, text):
        try:
            return self.visit(ast.parse(str(text).strip(), mode='eval').body)
        except SyntaxError as error:
            self.fail(f'{error.msg} in {text!r}')

    # ---- conversions
    def as_tensor(self, value):
        kind, code = value
        if kind == 'T':
            return code
        if kind in ('S', 'i', 'd', 'b', 'n'):
            return self.temp(f'td_wrapped_number({self.as_scalar(value)})')[1]
        self.fail(f'a {kind} where a tensor is needed')

    def as_scalar(self, value):
        kind, code = value
        if kind == 'n':
            return f'td_int({code})' if isinstance(code, int) else f'td_float({code})'
        return {'S': code, 'i': f'td_int({code})', 'd': f'td_float({code})', 'b': f'td_bool({code})'}[kind]

    def as_argument(self, value, argument):
        """C arguments for a parameter, or None if the kinds don't go together."""
        kind, code = value
        wanted = kind_of(argument)
        if kind == 'None':
            if not argument.optional:
                return None
            return Argument(**{**argument.__dict__, 'default': 'None'}).default_parameters()
        if wanted == 'T':
            return [self.as_tensor(value)] if kind in 'TSidbn' else None
        if kind == 'S?' and wanted == 'S' and argument.optional:
            return [code]
        if wanted == 'S':
            if kind not in ('S', 'i', 'd', 'b', 'n'):
                return None
            scalar = self.as_scalar(value)
            return [f'(const td_scalar[]){{{scalar}}}'] if argument.optional else [scalar]
        if kind == wanted + '?':
            return [code] if argument.optional else None
        if wanted in ('i', 'd', 'b'):
            if kind == 'S' and wanted == 'd':
                code = f'td_scalar_double({code})'
            elif kind == 'S' and wanted == 'i':
                code = f'td_scalar_int({code})'
            elif kind not in ('i', 'd', 'b', 'n') or wanted == 'i' and (kind == 'd' or isinstance(code, float)):
                return None
            if argument.list:
                return None
            if argument.optional:
                base = {'i': 'int64_t', 'd': 'double', 'b': 'bool'}[wanted]
                return [f'(const {base}[]){{{code}}}']
            return [str(code)]
        if wanted == 'L':
            if kind in ('i', 'n'):
                return ['1', f'(const int64_t[]){{{code}}}']
            return list(code) if kind == 'L' else None
        if wanted == 'M':
            return list(code) if kind == 'M' else None
        if wanted == 'TL':
            return list(code) if kind == 'TL' else None
        return [code] if kind == wanted else None

    def compatible(self, value, argument):
        """A score for choosing overloads: lower is better; None if impossible."""
        kind, code = value
        wanted = kind_of(argument)
        if kind == 'None':
            return 0 if argument.optional else None
        if kind == f'{wanted}?':
            return 0 if argument.optional else None
        if kind == wanted or kind == 'n' and wanted in ('i', 'd', 'S'):
            return 0 if not (wanted == 'i' and isinstance(code, float)) else None
        if wanted == 'T' and kind in ('S', 'i', 'd', 'b', 'n'):
            return 2
        if wanted == 'S' and kind in ('i', 'd', 'b'):
            return 1
        if wanted in ('d', 'i') and kind in ('i', 'S') or wanted == 'L' and kind in ('i', 'n'):
            return 1
        return None

    def call(self, name, arguments, keywords):
        best = None
        for schema in self.lookup(name):
            score, bound, taken = 0, [], set()
            for i, argument in enumerate(schema.arguments):
                if i < len(arguments) and not argument.keyword_only:
                    value = arguments[i]
                elif argument.name in keywords:
                    value = keywords[argument.name]
                    taken.add(argument.name)
                elif argument.default is not None:
                    bound.append((argument, None))
                    continue
                else:
                    break
                cost = self.compatible(value, argument)
                if cost is None:
                    break
                score += cost
                bound.append((argument, value))
            else:
                positional = sum(not a.keyword_only for a in schema.arguments)
                if len(arguments) <= positional and taken == set(keywords) and (best is None or score < best[0]):
                    best = score, schema, bound
        if best is None:
            self.fail(f'no overload of {name} takes ({", ".join(k for k, _ in arguments)})')
        _, schema, bound = best
        codes = []
        for argument, value in bound:
            if argument.in_c:
                codes += argument.default_parameters() if value is None else self.as_argument(value, argument)
        result = schema.results
        cname = schema.c_name
        if len(result) == 1 and result[0].is_tensor and not result[0].list:
            return self.temp(f'{cname}({", ".join(codes)})')
        if len(result) == 1 and result[0].is_tensor:
            self.count += 1
            self.line(f'TD_AUTO_LIST td_tensor_list l{self.count} = {{0}};')
            self.line(f'if ({cname}(&l{self.count}{"".join(", " + c for c in codes)}))')
            self.line('    return -1;')
            return 'TL', (f'l{self.count}.count', f'l{self.count}.items')
        self.count += 1
        n = len(result)
        self.line(f'td_tensor *r{self.count}[{n}] = {{0}};')
        self.line(f'if ({cname}(r{self.count}{"".join(", " + c for c in codes)}))')
        self.line('    return -1;')
        return 'R', (n, f'r{self.count}')

    # ---- expressions
    def visit(self, node):
        method = getattr(self, 'visit_' + type(node).__name__, None)
        if method is None:
            self.fail(f'{type(node).__name__} is not in the gradient language')
        return method(node)

    def visit_Constant(self, node):
        if node.value is None:
            return 'None', None
        if isinstance(node.value, bool):
            return 'b', str(node.value).lower()
        if isinstance(node.value, str):
            return 's', f'"{node.value}"'
        return 'n', node.value

    def visit_Name(self, node):
        if node.id in self.names:
            return self.names[node.id]
        from .value import CONSTANTS
        if node.id in CONSTANTS:
            return 'n', CONSTANTS[node.id]
        if node.id in ('INF', 'NAN'):
            return 'd', {'INF': '(double)__builtin_inff()', 'NAN': '(double)__builtin_nanf("")'}[node.id]
        self.fail(f'unknown name {node.id!r}')

    def visit_Attribute(self, node):
        if isinstance(node.value, ast.Name) and f'{node.value.id}.{node.attr}' in self.names:
            return self.names[f'{node.value.id}.{node.attr}']
        kind, code = self.visit(node.value)
        if kind == 'T':
            return {'shape': ('L', (f'{code}->ndim', f'{code}->sizes')), 'dtype': ('D', f'(td_dtype){code}->dtype'),
                    'device': ('V', f'{code}->device'), 'ndim': ('i', f'{code}->ndim'),
                    'numel': ('i', f'{code}->numel')}[node.attr]
        self.fail(f'no attribute {node.attr} of a {kind}')

    def visit_UnaryOp(self, node):
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return 'b', f'!({value[1]})' if value[0] != 'T' else self.call('logical_not', [value], {})
        if value[0] == 'T':
            return self.call('neg' if isinstance(node.op, ast.USub) else 'logical_not', [value], {})
        if value[0] == 'n':
            return 'n', -value[1]
        return value[0], f'td_scalar_neg({value[1]})' if value[0] == 'S' else f'(-{value[1]})'

    def visit_BinOp(self, node):
        a, b = self.visit(node.left), self.visit(node.right)
        if 'T' in (a[0], b[0]):
            return self.call(OPERATORS[type(node.op)], [a, b], {})
        if 'S' in (a[0], b[0]):
            return 'S', f'td_scalar_{OPERATORS[type(node.op)]}({self.as_scalar(a)}, {self.as_scalar(b)})'
        if a[0] == b[0] == 'n':
            return 'n', eval(f'{a[1]} {C_OPERATORS[type(node.op)]} {b[1]}')
        kind = 'd' if 'd' in (a[0], b[0]) or isinstance(node.op, ast.Div) or isinstance(a[1], float) or \
            isinstance(b[1], float) else 'i'
        cast = '(double)' if isinstance(node.op, ast.Div) else ''
        return kind, f'({cast}{a[1]} {C_OPERATORS[type(node.op)]} {b[1]})'

    def visit_Compare(self, node):
        a, b = self.visit(node.left), self.visit(node.comparators[0])
        function, symbol = COMPARE[type(node.ops[0])]
        if 'T' in (a[0], b[0]):
            return self.call(function, [a, b], {})
        if 's' in (a[0], b[0]):
            return 'b', f'(strcmp({a[1]}, {b[1]}) {symbol} 0)'
        if 'S' in (a[0], b[0]) and symbol in ('==', '!='):
            return 'b', f'{"!" * (symbol == "!=")}td_scalar_equals({self.as_scalar(a)}, {self.as_scalar(b)})'
        if 'S' in (a[0], b[0]):
            return 'b', f'(td_scalar_double({self.as_scalar(a)}) {symbol} td_scalar_double({self.as_scalar(b)}))'
        return 'b', f'({a[1]} {symbol} {b[1]})'

    def visit_BoolOp(self, node):
        symbol = ' && ' if isinstance(node.op, ast.And) else ' || '
        return 'b', '(' + symbol.join(str(self.visit(v)[1]) for v in node.values) + ')'

    def visit_IfExp(self, node):
        """Only one arm is computed."""
        test = self.visit(node.test)
        if test[0] != 'b':
            self.fail('the condition of an if expression must be a number or bool of the call')
        self.count += 1
        name = f't{self.count}'
        self.line(f'TD_AUTO td_tensor *{name} = NULL;')
        for arm, opening in ((node.body, f'if ({test[1]}) {{'), (node.orelse, '} else {')):
            self.line(opening)
            self.indent += '    '
            value = self.visit(arm)
            if value[0] == 'None':
                self.line(f'{name} = td_tensor_retain(TD_NONE);')
            else:
                self.line(f'{name} = td_tensor_retain({self.as_tensor(value)});')
            self.indent = self.indent[:-4]
        self.line('}')
        return 'T', name

    def visit_List(self, node):
        items = [self.visit(x) for x in node.elts]
        if items and all(k == 'b' for k, _ in items):
            return 'M', (str(len(items)), f'(const bool[]){{{", ".join(str(c) for _, c in items)}}}')
        if any(k == 'T' for k, _ in items):
            return 'TL', (str(len(items)), f'(td_tensor *[]){{{", ".join(self.as_tensor(i) for i in items)}}}')
        return 'L', (str(len(items)), f'(const int64_t[]){{{", ".join(str(c) for _, c in items) or "0"}}}')

    def visit_Subscript(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == 'grads':
            return self.names[f'grads.{node.slice.value}']
        kind, code = self.visit(node.value)
        if kind == 'R':     # one of several results: keep it, drop the others
            n, array = code
            self.count += 1
            index = node.slice.value
            self.line(f'TD_AUTO td_tensor *t{self.count} = {array}[{index}];')
            for i in range(n):
                if i != index:
                    self.line(f'td_tensor_release({array}[{i}]);')
            return 'T', f't{self.count}'
        if kind == 'L':
            return 'i', f'({code[1]})[{self.visit(node.slice)[1]}]'
        self.fail(f'a {kind} cannot be subscripted')

    def visit_Call(self, node):
        keywords = {k.arg: self.visit(k.value) for k in node.keywords}
        if is_given(node):
            gradient = f'grads[{node.args[0].slice.value}]'
            return 'T', f'({gradient} ? {gradient} : TD_NONE)'
        if isinstance(node.func, ast.Attribute):
            return self.call(node.func.attr, [self.visit(node.func.value), *map(self.visit, node.args)], keywords)
        arguments = [self.visit(a) for a in node.args]
        if node.func.id == 'conj' and arguments[0][0] in ('S', 'd', 'i', 'n'):
            return 'S', f'td_scalar_conj({self.as_scalar(arguments[0])})'
        if not any(k in ('T', 'TL', 'L') for k, _ in [*arguments, *keywords.values()]) and arguments and \
                node.func.id in ('sqrt', 'log', 'exp', 'pow', 'abs'):
            return 'd', f'{ {"abs": "fabs"}.get(node.func.id, node.func.id)}({", ".join(f"td_scalar_double({self.as_scalar(a)})" for a in arguments)})'
        return self.call(node.func.id, arguments, keywords)
