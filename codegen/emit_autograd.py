"""Autograd nodes and tangents from the `grad:` and `jvp:` of entries: what is saved, and how gradients are made of it.

emit_c.py writes the kernels that these are recorded around, grad.py turns the formulas into calls of operators."""
import ast
import re

from . import grad as gradients
from . import nodes
from .emit_rows import Rows
from .formula import DTYPES, Data
from .grad import Emitter, GradError, Uses
from .value import GROUPS, Formula


def underived(text):
    """The name in underived('igamma: input'): a gradient that nobody has worked out, so that asking for it is an error."""
    found = re.fullmatch(r"underived\('([^']*)'\)", str(text).strip())
    return found and found.group(1)


def refuses_backward(spec):
    """Whether there is a history, but no gradient of any operand."""
    return isinstance(spec, dict) and all(underived(text) for text in spec.values())


def has_gradients(x):
    """The test for a dtype that has gradients."""
    return f'(td_dtype_is_floating((td_dtype){x}->dtype) || td_dtype_is_complex((td_dtype){x}->dtype))'


def makes_only(op):
    """Whether an out= form reads no tensor."""
    return all(a.out for a in op.schema.arguments if a.is_tensor)


def has_autograd_out(op):
    """Whether an out= form has a kernel on the Autograd key: it refuses operands that need a gradient, or has none to hand on."""
    spec = op.entry.get('grad')
    return op.variant == 'out' and 'records_out' not in op.entry.get('flags', []) and (
        op.kind in ('pointwise', 'kernel') or spec not in (None, 'none') or makes_only(op))


class Node:
    """A node's type while its code is made: of which operator it is, and what it keeps for its formulas."""

    def __init__(self, op, base, spec, operands, where):
        self.op, self.base, self.spec, self.operands, self.where = op, base, spec, operands, where
        self.pointwise = op.kind == 'pointwise' and not refuses_backward(spec)
        self.edge = {}                          # operand -> the index of its edge, in C
        for i, a in enumerate(operands):
            before = operands[:i]
            edge = ' + '.join([str(sum(not x.list for x in before)), *(f's->n_{x.c}' for x in before if x.list)])
            self.edge[a.name] = edge.removeprefix('0 + ')
        results = base.schema.results
        self.result_names = {'result': 0} if base.result in ('tensor', 'void') else {r.name or f'result{i}': i for i, r in enumerate(results)}
        self.uses = {key: Uses(ast.parse('0' if underived(text) else str(text).strip(), mode='eval').body) for key, text in spec.items()}
        for use in self.uses.values():
            use.whole.discard('wants')
        self.needs = {}                         # name -> the keys of the formulas that mention it
        for key, use in self.uses.items():
            for name in use.whole - {'grad'}:   # always the incoming gradient, whatever the operands are called
                self.needs.setdefault(name, []).append(key)
        self.saved, self.list_saved = [], None  # names of saved tensors; the argument that is a list of them
        self.members, self.values = [], []      # of the node's state; those that programs read
        self.before, self.after, self.releases = [], [], []     # C that saves before and after the call, and that releases
        self.names = {}                         # what a formula's name is in C

    def wants_any(self, keys):
        """Whether one of these formulas is wanted, in C."""
        return ' || '.join(f'td_node_wants(node, {self.edge[k]})' if not self.base.schema.argument(k).list else '1' for key in keys for k in key) or '0'


class Nodes(Rows):
    def autograd(self, op, fail):
        """Emit the autograd kernel; returns its name, or None for operators whose pieces record themselves, or
        which have no gradient (the Autograd key then falls through)."""
        e = op.entry
        own = op.variant == 'inplace' and 'grad_inplace' in e
        spec = e['grad_inplace'] if own else e.get('grad')
        if has_autograd_out(op):
            return self.autograd_out(op)
        if op.variant == 'out' and 'records_out' in e.get('flags', []):
            return None
        if op.target:
            return None
        if spec is None or spec == 'none':
            # A native body that writes by itself counts no writes to a view or a leaf, as its parts would.
            if spec is None and (op.kind in ('pointwise', 'kernel') or op.kind == 'native' and 'each' not in e and any(not a.out for a in op.mutable)):
                raise GradError(f'{op.family}: {op.schema.full_name}: say `grad: none` if there is no gradient')
            return None
        base = op.parent or op
        return self.autograd_node(op, base, spec, fail)

    def autograd_out(self, op):
        # What has no gradient at all may write to whatever needs one, as a comparison does; but a factory may not.
        has = op.entry.get('grad') not in (None, 'none') or makes_only(op)
        tensors = [a for a in op.schema.arguments if a.is_tensor and has]
        tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})' for a in tensors)
        refused = f'    if ({tests})\n        return td_fail_out_grad("{op.schema.name}");\n' if tests else ''
        out = op.mutable[0].c
        if makes_only(op) and len(op.mutable) == 1 and not op.mutable[0].list:      # as an in-place operator would, it ends out's history
            names = ', '.join(['keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)', *('made' if name == out else name for name in op.names())])
            refused = f'''    if (td_wants_grad({out})) {{
        if ({out}->flags & TD_FLAG_REQUIRES_GRAD)
            return td_fail_out_grad("{op.schema.name}");
        if (TD_UNLIKELY(td_guarded({out})) && td_check_guarded("{op.schema.name}", "{op.mutable[0].name}", {out}))
            return -1;
        td_tensor *made = td_tensor_new({out}->ndim, {out}->sizes, (td_dtype){out}->dtype, {out}->device);
        if (made && invoke_{op.c}({names}))
            return td_results_drop(1, &made);
        return td_record_out("{op.schema.name}", {out}, made);
    }}
'''
        sealed = ' || '.join(f'td_is_sealed({a.c})' for a in op.mutable if not a.list) or 'false'
        spec = op.entry.get('grad')     # '::' in a name: one without a node of its own in PyTorch
        if refuses_backward(spec) and all('::' in underived(text) for text in spec.values()) and not any(a.list for a in tensors):
            return self.autograd_out_node(op)
        self.code.append(f'''static {op.declaration("autograd_" + op.c, ["td_keyset keys"])}
{{
{refused}    if ({sealed})
        return td_fail_sealed();
    return invoke_{op.c}({", ".join(["keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)", *op.names()])});
}}
''')
        return f'autograd_{op.c}'

    def autograd_out_node(self, op):
        """An out= form whose results have a history that backward refuses: there is no gradient that a write could spoil."""
        def wanted(arguments):
            return ' || '.join(f'td_wants_grad({a.c})' for a in arguments)
        operands = [a for a in op.schema.arguments if a.is_tensor and not a.out and any(a.name in op.names_in(key) for key in op.entry['grad'])]
        call = f'invoke_{op.c}({", ".join(["keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)", *op.names()])})'
        leaves = ' || '.join(f'{a.c}->flags & TD_FLAG_REQUIRES_GRAD' for a in op.mutable)
        checks = ' || '.join(f'td_check_inplace({a.c}, "{op.schema.name}")' for a in op.mutable)
        connects = ' ||\n        '.join(f'td_node_connect(node, {i}, {a.c})' for i, a in enumerate(operands))
        histories = ' || '.join(f'td_rebase_history({a.c}, node, {i})' for i, a in enumerate(op.mutable))
        self.code.append(f'''static {op.declaration("autograd_" + op.c, ["td_keyset keys"])}
{{
    if (td_grad_enabled() && ({leaves}))
        return td_fail_out_grad("{op.schema.name}");
    if ({checks})
        return -1;
    if (!({wanted(operands + op.mutable)}))
        return {call};
    td_node *node = td_node_new(&node_{op.parent.c}, {len(operands)}, {len(op.mutable)}, 0, 0);
    if (!node)
        return -1;
    int status = {connects} ? -1 : 0;
    if (status == 0) {{
        td_keyset excluded = td_below_autograd();
        status = {call};
        td_end_below(excluded);
    }}
    if (status == 0 && ({histories}))
        status = -1;
    td_node_release(node);
    return status;
}}
''')
        return f'autograd_{op.c}'

    def autograd_node(self, op, base, spec, fail):
        s, where = base.schema, f'{op.family}: {base.schema.full_name}'
        inplace = op.variant == 'inplace'
        spec = {tuple(op.names_in(key)): text for key, text in spec.items() if text != 'none'}
        operands = [a for a in s.arguments if any(a.name in key for key in spec)]
        unknown = {k for key in spec for k in key} - {a.name for a in operands}
        if unknown:
            raise GradError(f'{where}: grad names {sorted(unknown)}, which are no operands')
        node = Node(op, base, spec, operands, where)
        self.saves(node)
        if node.pointwise:
            self.keep_fits(node)
        n_edges = ' + '.join([str(sum(not a.list for a in operands)), *(f'n_{a.c}' for a in operands if a.list)])
        n_inputs = {'tensor': '1', 'void': '1', 'list': 'results->count'}.get(op.result, str(len(s.results)))
        n_saved = str(len(node.saved)) + (f' + n_{node.list_saved.c}' if node.list_saved else '')
        # The functional form's node serves the in-place form too.
        shared = inplace and op is not base and 'grad_inplace' not in base.entry
        if not shared:
            self.node_type(node)
        self.record(op, base, operands, node.edge, base.c if shared else op.c, n_edges, n_inputs, n_saved, bool(node.members), node.before, node.after,
                    inplace and 'self' in node.needs, fail)
        return f'autograd_{op.c}'

    def saves(self, node):
        """What the formulas of a node mention is kept in it."""
        op, base, names, needs = node.op, node.base, node.names, node.needs
        inplace, arguments = op.variant == 'inplace', base.schema.arguments
        for a in arguments:
            if a.is_tensor and a.list and (a.name in needs or a in node.operands):
                node.members.append(f'int64_t n_{a.c};')
                node.before.append(f'    s->n_{a.c} = n_{a.c};')
        for a in arguments:
            if a.is_tensor and not a.list and a.name in needs:
                source = 'original' if inplace and a.name == 'self' else a.c
                node.before.append(f'    if (({node.wants_any(needs[a.name])}) && td_node_save(node, {len(node.saved)}, {source}))\n        goto fail;')
                node.saved.append(a.name)
                names[a.name] = 'T', a.c
            elif a.is_tensor and a.list and a.name in needs:
                node.list_saved = a
            elif not a.is_tensor and a.name in needs and a.in_c:
                names[a.name] = self.save_plain(a, node.members, node.before, node.releases, node.values)
        for name, i in node.result_names.items():
            if name in needs:
                value = 'self' if inplace else {'tensor': 'result', 'void': 'self'}.get(base.result, f'results[{i}]')
                node.after.append(f'    if (({node.wants_any(needs[name])}) && td_node_save_result(node, {len(node.saved)}, {value}, {i}))\n'
                                  '        goto fail_result;')
                node.saved.append(name)
                names[name] = 'T', name
        if node.list_saved:
            a = node.list_saved
            node.before.append(f'    for (int64_t i = 0; i < n_{a.c}; i++)\n'
                               f'        if (td_node_save(node, (int)({len(node.saved)} + i), {a.c}[i]))\n            goto fail;')
            names[a.name] = 'TL', (f's->n_{a.c}', a.c)
        for use in node.uses.values():
            for name, part in sorted(use.parts):
                if name in ('grad',) or f'{name}.{part}' in names or name in needs and name in names and part not in ('shapes', 'ranks'):
                    continue
                self.save_part(base.schema, name, part, names, node.members, node.before, node.after, node.releases, node.values, inplace, base,
                               node.result_names)

    def keep_fits(self, node):
        """How the gradient of each operand of a pointwise operator is summed to the operand's shape."""
        inplace = node.op.variant == 'inplace'
        for a in node.operands:
            node.members.append(f'td_fit *fit_{a.c};')
            value = 'self' if inplace else 'result'
            if not (inplace and a.name == 'self'):
                node.after.append(f'    if (td_fit_save(&s->fit_{a.c}, {a.c}, {value}))\n        goto fail_result;')
            node.releases.append(f'    td_fit_free(s->fit_{a.c});\n    s->fit_{a.c} = NULL;')

    def node_type(self, node):
        """A node's state, its functions and the table of them."""
        op = node.op
        if node.members:
            self.code.append(f'struct state_{op.c} {{\n' + ''.join(f'    {m}\n' for m in node.members) + '};\n')
        self.apply(node)
        if node.releases:
            self.code.append(f'static void release_{op.c}(td_node *node)\n{{\n    struct state_{op.c} *s = node->state;\n'
                             + '\n'.join(node.releases) + '\n}\n')
        release = f', .release = release_{op.c}' if node.releases else ''
        listed = node.saved + [f'{a.name}*' for a in [node.list_saved] if a]
        titles = f', .saved_names = "{" ".join(listed)}"' if listed else ''
        if node.values:
            rows = ''.join(f'    {{"{name}", TD_VALUE_{kind}, offsetof(struct state_{op.c}, {member}), '
                           f'{f"offsetof(struct state_{op.c}, {given})" if given else -1}}},\n' for name, kind, member, given in node.values)
            self.code.append(f'static const td_saved_value values_{op.c}[] = {{\n{rows}    {{NULL}},\n}};\n')
            titles += f', .values = values_{op.c}'
        self.code.append(f'static const td_node_type node_{op.c} = {{.name = "{nodes.title(node.base)}", .apply = apply_{op.c}{release}{titles}}};\n')

    def save_plain(self, a, members, saves, releases, values):
        """`values`: what programs read as node._saved_NAME: name, kind, member, the member that says whether it was given."""
        c = a.c
        values.append((a.name, {'str': 'STRING', 'ScalarType': 'DTYPE', 'MemoryFormat': 'MEMORY_FORMAT'}.get(a.type, a.type.upper())
                       + ('S' if a.list else ''), c,
                       f'n_{c}' if a.list and a.type == 'bool' else f'has_{c}' if not a.list and a.optional and
                       a.type in ('int', 'float', 'bool', 'Scalar') else None))
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

    def save_part(self, s, name, part, names, members, before, after, releases, values, inplace, base, result_names):
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
            values.append((f'{name}_sym_{field}', 'INTS', f'{part}_{name}', None))
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
            values.append((f'{name}_' + {'dtype': 'scalar_type', 'ndim': 'dim', 'numel': 'sym_numel'}.get(part, part),
                           {'dtype': 'DTYPE', 'device': 'DEVICE'}.get(part, 'INT'), f'{part}_{name}', None))
            names[f'{name}.{part}'] = kind, f's->{part}_{name}'

    def apply(self, node):
        """The function that gives the gradients: takes what is incoming and what was saved, and computes what is wanted."""
        op, spec, edge, has_state = node.op, node.spec, node.edge, bool(node.members)
        local, out = dict(node.names), [f'static int apply_{op.c}(td_node *node, td_tensor *const *grads, td_tensor **results)', '{']
        if has_state:
            out += [f'    struct state_{op.c} *s = node->state;', '    (void)s;']
        out += self.take_incoming(node, local)
        out += self.take_saved(node, local)
        wanted = ', '.join(f'td_node_wants(node, {edge[a.name]})' for a in node.operands if not a.list)
        local['wants'] = 'M', (str(len(node.operands)), f'(const bool[]){{{wanted}}}')
        for key, text in spec.items():
            test = ' || '.join(f'td_node_wants(node, {edge[k]})' for k in key) if not node.base.schema.argument(key[0]).list else '1'
            out += [f'    if ({test}) {{', *self.gradient(node, key, text, local), '    }']
        out += ['    return 0;', '}', '']
        self.code.append('\n'.join(out))

    def take_incoming(self, node, local):
        """The incoming gradients that formulas mention, which `local` then names."""
        used, maybe = set(), set()      # maybe: those that a formula takes as they are, present or not
        for key, use in node.uses.items():
            if 'grad' in use.whole or any(name == 'grad' for name, _ in use.parts):
                used.add(0)
            tree = ast.parse(str(node.spec[key]).strip(), mode='eval')
            given = {id(x.args[0]) for x in ast.walk(tree) if gradients.is_given(x)}
            for x in ast.walk(tree):
                if isinstance(x, ast.Subscript) and isinstance(x.value, ast.Name) and x.value.id == 'grads':
                    (maybe if id(x) in given else used).add(x.slice.value)
        refuses = refuses_backward(node.spec)
        out = ['    (void)grads, (void)results;'] if refuses else []
        if node.base.result == 'list' and any('grads' in use.whole for use in node.uses.values()):
            out += ['    TD_AUTO_LIST td_tensor_list all = {0};',
                    '    if (td_node_all_grads(node, grads, &all))', '        return -1;']
            local['grads'] = 'TL', ('all.count', 'all.items')
        elif refuses:
            pass
        elif len(node.base.schema.results) <= 1:
            out += ['    td_tensor *grad = grads[0];', '    if (!grad)', '        return 0;']
            local['grad'] = 'T', 'grad'
        else:
            test = ' && '.join(f'!grads[{i}]' for i in sorted(used | maybe)) or '0'
            out += [f'    if ({test})', '        return 0;']
            for i in sorted(used):
                out += [f'    TD_AUTO td_tensor *grad_{i} = grads[{i}] ? td_tensor_retain(grads[{i}]) : td_node_zeros(node, {i});']
                local[f'grads.{i}'] = 'T', f'grad_{i}'
            local['grad'] = local.get('grads.0')
        return out

    def take_saved(self, node, local):
        """The saved tensors, each where a gradient is wanted that needs it."""
        out, argument = [], node.base.schema.argument
        for i, name in enumerate(node.saved):
            users = [key for key, use in node.uses.items() if name in use.whole]
            test = ' || '.join(f'td_node_wants(node, {node.edge[k]})' for key in users for k in key if not argument(k).list) or '1'
            variable = node.names[name][1]
            out += [f'    TD_AUTO td_tensor *{variable} = NULL;',
                    f'    if (({test}) && !({variable} = td_node_saved(node, {i})))', '        return -1;']
        if node.list_saved:
            c = node.list_saved.c
            out += [f'    TD_AUTO_LIST td_tensor_list list_{c} = {{0}};',
                    f'    if (td_node_saved_list(node, {len(node.saved)}, s->n_{c}, &list_{c}))', '        return -1;']
            local[node.list_saved.name] = 'TL', (f's->n_{c}', f'list_{c}.items')
        return out

    def gradient(self, node, key, text, local):
        """A formula's statements, which end with the results in their places."""
        emitter = Emitter(local, self.lookup, node.where)
        emitter.used = self.declared
        emitter.indent = '        '
        value = emitter.formula('0' if underived(text) else text)
        edge, first = node.edge, node.base.schema.argument(key[0])
        place = edge[key[0]]
        if underived(text):
            name = underived(text)      # PyTorch has two ways to say so, one of them with the namespace
            return [f'        return td_error(TD_E_RUNTIME, "derivative for {name} is not implemented");' if '::' in name else
                    f'        return td_error(TD_E_NOT_IMPLEMENTED, "the derivative for \'{name}\' is not implemented.");']
        if len(key) == 1 and node.pointwise:
            fused = self.fuse(node.op, node.base, key[0], text, local, node.where)
            tensor = emitter.as_tensor(value)
            give = [f'        if (!(results[{place}] = td_fit_apply({tensor}, s->fit_{first.c})))', '            return -1;']
            if not fused:
                return emitter.lines + give
            return [*fused, f'            if (!(results[{place}] = td_fit_apply(fused, s->fit_{first.c})))', '                return -1;',
                    '        } else {', *('    ' + line for line in emitter.lines + give), '        }']
        if first.list:
            if value[0] != 'TL':
                raise GradError(f'{node.where}: the gradient of a list is a list')
            return [*emitter.lines, f'        for (int64_t i = 0; i < s->n_{first.c}; i++)',
                    f'            if (td_node_wants(node, {place} + i) && td_give(&results[{place} + i], {value[1][1]}[i]))',
                    '                return -1;']
        if len(key) == 1:
            tensor = emitter.as_tensor(value)
            return [*emitter.lines, f'        if (td_give(&results[{place}], {tensor}))', '            return -1;']
        if value[0] != 'R' or value[1][0] != len(key):
            raise GradError(f'{node.where}: a joint formula must give {len(key)} results')
        out = emitter.lines
        for i, k in enumerate(key):
            out += [f'        if (td_node_wants(node, {edge[k]}) && {value[1][1]}[{i}] != TD_NONE)',
                    f'            results[{edge[k]}] = {value[1][1]}[{i}];',
                    '        else', f'            td_tensor_release({value[1][1]}[{i}]);']
        return out

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
        numbers; None for what is no single pass.  A formula that was seen before has its loops.  What one pass can compute is in the
        row, too, also where a loop for it would do no more than the operator that it calls."""
        shorter = isinstance(ast.parse(str(text).strip(), mode='eval').body, ast.IfExp)
        found = self.as_value(base, text, local, where, factor)
        if not found:
            return None
        text, tensors, scalars, n_steps = found
        listed = lambda tensors, scalars: (
            ', '.join(local[t or factor][1] for t in tensors),
            f'(const td_scalar[]){{{", ".join({"S": "{}", "d": "td_float({})"}[local[n][0]].format(local[n][1]) for n in scalars)}}}'
            if scalars else 'NULL')
        masks = [t for t in tensors if t in base.entry.get('masks', [])]
        # Both are the same product with what flows in, so that is `grad` in either.
        if name == base.c:
            self.keep_formula(base, what, operand, Data([re.sub(rf'^{factor}$', 'grad', t) for t in tensors], masks, scalars, where,
                                                        dtypes=DTYPES['float']), re.sub(rf'\b{factor}\b', 'grad', text))
        if n_steps < 2 or shorter:          # a choice by a number is made once, and often saves the pass
            return None
        plain = re.sub(rf'\b{factor}\b', '@', str(text).strip())
        if (base.c, plain) in self.loops_of:
            loops, in_order, scalars = self.loops_of[base.c, plain]
            return loops, len(tensors), *listed(in_order, scalars)
        loops = f'{name}_{what}_{operand}'
        row = self.pointwise_row(loops, {'default': text}, tensors, masks, scalars, ['float'], 'same', where)
        whose = f' .gradient_of = &row_{base.c}, .operand = "{operand}", .tangent = {str(what == "tangent").lower()},' if name == base.c else ''
        self.emit_pointwise(loops, f'{base.schema.name}_backward' if what == 'grad' else f'{base.schema.name}_tangent', len(tensors),
                            self.cost(text), 'TD_PROMOTE_DEFAULT', 'same',
                            sum(1 << i for i, t in enumerate(tensors) if t in masks), ['float'], row, members=whose, n_params=len(scalars))
        self.loops_of[base.c, plain] = loops, ['' if t == factor else t for t in tensors], scalars
        return loops, len(tensors), *listed(tensors, scalars)

    def as_value(self, base, text, local, where, factor):
        """A formula that one pass over elements computes, in the value language: (text, operands, numbers, how many steps); else None."""
        tree = AsValue().visit(ast.parse(str(text).strip(), mode='eval').body)
        text = ast.unparse(ast.fix_missing_locations(tree))
        tree = ast.parse(text, mode='eval').body
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
        formula = Formula(text, tensors, [t for t in tensors if t in base.entry.get('masks', [])], scalars, where)
        if not formula_functions_known(tree) or not all(formula.compiles_for(c) for c in GROUPS['float']):
            return None
        return text, tensors, scalars, sum(isinstance(n, (ast.BinOp, ast.Call, ast.UnaryOp, ast.Compare)) for n in ast.walk(tree))

    def record(self, op, base, operands, edge, node_c, n_edges, n_inputs, n_saved, has_state, before, after, clone, fail):
        tests = ' || '.join(f'td_any_wants_grad(n_{a.c}, {a.c})' if a.list else f'td_wants_grad({a.c})' for a in operands)
        if op.mutable and not any(a.name == 'self' for a in operands):
            tests += ' || td_wants_grad(self)'
        if op.kind == 'view':       # of a tensor of inference mode: one as well, whose history nobody could write to
            tests = f'({tests}) && !({operands[0].c}->flags & TD_FLAG_INFERENCE)'
        names = ', '.join(['keys & ~TD_KEYSET(TD_KEY_AUTOGRAD)', *op.names()])
        lines = [f'static {op.declaration("autograd_" + op.c, ["td_keyset keys"])}', '{']
        if op.mutable:
            lines += [f'    if (TD_UNLIKELY({op.mutable[0].c}->flags & TD_FLAG_INFERENCE) && td_check_inplace({op.mutable[0].c}, "{op.schema.name}"))',
                      '        return -1;']
        for a in () if 'grad_inplace' in base.entry else base.undifferentiated:
            lines += [f'    if (TD_UNLIKELY(td_wants_grad({a.c})) && td_refuse_grad("{base.schema.name}", "{a.name}"))', f'        return {fail};']
        lines += [f'    if (!({tests}))', f'        return invoke_{op.c}({names});']
        if 'real_gradient' in base.entry.get('flags', []) and not op.mutable:     # PyTorch looks at new results only
            lines += [f'    if (td_dtype_is_complex((td_dtype){operands[0].c}->dtype) && td_refuse_complex_grad("{base.schema.name}"))',
                      f'        return {fail};']
        if op.mutable:
            lines += [f'    if (td_check_inplace({op.mutable[0].c}, "{op.schema.name}"))', '        return -1;']
        listy = op.result == 'list'
        if listy:   # how many results there are is known afterwards
            lines += ['    td_keyset excluded = td_below_autograd();', f'    int status = invoke_{op.c}({names});',
                      '    td_end_below(excluded);', '    if (status)', '        return -1;']
        state_size = f'sizeof(struct state_{node_c})' if has_state else '0'
        if clone:
            lines += ['    TD_AUTO td_tensor *original = NULL;']
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
        for line in before:     # what self was before the write is copied only if a gradient needs it
            saves = re.match(r'    if \((.*) && td_node_save\(node, \d+, original\)\)', line) if clone else None
            if saves:
                lines += [f'    if ({saves[1]} && !original && !(original = td_clone_detached(self)))', '        goto fail;']
            lines.append(line)
        if listy:
            lines += after
            lines += ['    for (int64_t i = 0; i < results->count; i++)',
                      f'        if {has_gradients("results->items[i]")}',
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
            test = f'{has_gradients("result")} && ' if 'casts' in op.entry.get('flags', []) else ''
            lines += [f'    if ({test}td_set_history(result, node, 0))', '        goto fail_result;', '    td_node_release(node);', '    return result;',
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
                      f'        if (results[i] != TD_NONE && {has_gradients("results[i]")} &&',
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
            fused = (not several and op.kind == 'pointwise' and len(joint) == 1 and not underived(text) and
                     self.fuse_tangent(op, base, name, text, names, where))
            if underived(text):
                lines += [f'    if (td_tangent({operand}))', '        return td_error(TD_E_NOT_IMPLEMENTED, "Trying to use forward AD with '
                          f'{s.name} that does not support it because it has not been implemented yet.");']
                continue
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
        for argument in [*([] if several else ['result']), *op.names(), 'sums']:
            lines.append(f'    (void){argument};')
        lines += ['    return 0;', '}', '']
        test = ' || '.join(f'td_tangent({s.argument(a.strip()).c})' for key in formulas for a in key.split(','))
        call = ', '.join(['keys & ~TD_KEYSET(TD_KEY_FORWARD_AD)', *op.names()])
        lines += [f'static {op.declaration("forward_" + c, ["td_keyset keys"])}', '{']
        # A native operator's body may call others, whose tangents nobody needs.
        native = op.kind == 'native'
        begin = '    td_keyset before = td_forward_begin();'
        if native:
            lines += [f'    if (!({test}))', f'        return invoke_{c}({call});', begin]
        if several:
            lines += [f'    int status = invoke_{c}({call});', f'    td_tensor *sums[{n}] = {{0}};']
            lines += ['    if (status)', f'        return td_forward_end_all(before, status, 0, results, {n}, sums);'] if native else [
                f'    if (status || !({test}))', '        return status;', begin]
            lines += [f'    status = tangent_{c}({", ".join([*op.names(), "sums"])});',
                      f'    return td_forward_end_all(before, status, {len(s.results)}, results, {n}, sums);', '}', '']
        else:
            lines += [f'    td_tensor *result = invoke_{c}({call});', '    td_tensor *sum = NULL;']
            lines += ['    if (!result)', '        return td_forward_end(before, -1, NULL, NULL, false);'] if native else [
                f'    if (!result || !({test}))', '        return result;', begin]
            lines += [f'    int status = tangent_{c}({", ".join(["result", *op.names(), "&sum"])});',
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


# Operators of gradient formulas as the value language has them.
_COMPARE = {'eq': ast.Eq, 'ne': ast.NotEq, 'lt': ast.Lt, 'le': ast.LtE, 'gt': ast.Gt, 'ge': ast.GtE}
_NAMED = {'special_i0e': 'i0e', 'special_i1': 'i1', 'special_i1e': 'i1e', 'special_zeta': 'zeta',
          'special_xlog1py': 'xlog1py'}


class AsValue(ast.NodeTransformer):
    """eq(a, b) as a == b, masked_fill(x, m, v) as where(m, v, x), ...: what is left as it is has no inline, or has one of its name."""

    def visit_IfExp(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name('where'), [node.test, node.body, node.orelse], [])

    def visit_Call(self, node):
        self.generic_visit(node)
        name, args = getattr(node.func, 'id', None), node.args
        if node.keywords:
            return node
        if name in _COMPARE:
            return ast.Compare(args[0], [_COMPARE[name]()], [args[1]])
        if name in ('logical_and', 'logical_or'):
            return ast.BoolOp(ast.And() if name == 'logical_and' else ast.Or(), args)
        if name == 'logical_not':
            return ast.UnaryOp(ast.Not(), args[0])
        if name == 'zeros_like':
            return ast.Constant(0)
        if name == 'masked_fill':
            return ast.Call(ast.Name('where'), [args[1], args[2], args[0]], [])
        if name == 'floor_divide_mode':
            return ast.BinOp(args[0], ast.FloorDiv(), args[1])
        if name == 'trunc_divide':
            return ast.Call(ast.Name('trunc'), [ast.BinOp(args[0], ast.Div(), args[1])], [])
        if name == 'to' and ast.unparse(args[1]) == 'result.dtype':     # operands of one pass have one dtype
            return args[0]
        return ast.Call(ast.Name(_NAMED.get(name, name)), args, []) if name in _NAMED else node


def formula_functions_known(tree):
    """Whether every function of a fused formula has an inline."""
    known = {'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'sin', 'cos', 'tan', 'sinh', 'cosh', 'tanh', 'erf',
             'sqrt', 'rsqrt', 'sigmoid', 'where', 'abs', 'conj', 'sign', 'sgn', 'pow', 'maximum', 'minimum', 'square',
             'digamma', 'reciprocal', 'real', 'isnan', 'isfinite', 'trunc', 'i0', 'i0e', 'i1', 'i1e', 'zeta', 'xlogy', 'xlog1py'}
    return all(isinstance(n.func, ast.Name) and n.func.id in known for n in ast.walk(tree) if isinstance(n, ast.Call))
