"""Boxing and unboxing of C's arguments: a pair of functions for each signature, which all its operators share.

A signature's name says what it takes, a letter an argument: `t__ttotIi` gives a tensor for two tensors, one that may be
absent, ints and an int.  Capitals are lists, `o` goes before what is optional, `_` follows what is written to."""
import binascii
from dataclasses import replace

from .schema import types_of

LETTER = {'Tensor': 't', 'int': 'i', 'float': 'f', 'bool': 'b', 'Scalar': 's', 'str': 'z', 'ScalarType': 'd', 'Device': 'v',
          'MemoryFormat': 'm', 'Generator': 'g', 'Layout': 'l'}
PLAIN = {'bool': ('bool', 'integer'), 'int': ('int64_t', 'integer'), 'float': ('double', 'number'),
         'Scalar': ('td_scalar', 'scalar'), 'ScalarType': ('td_dtype', 'integer')}
FILES = 6


class Signature:
    def __init__(self, op):
        self.checks_layout = (op.parent or op).entry.get('takes_layout') != 'own'
        self.result, self.results = op.result, op.schema.results
        # Names of their own would make two of one signature.
        self.arguments = [replace(a, name=f'x{i}') if a.in_c else a for i, a in enumerate(op.schema.arguments)]
        arguments = ''.join(map(self.letter, self.arguments))
        n = len(self.results)
        result = {'tensor': 't', 'tuple': f't{n}', 'list': 'T', 'void': f'v{n}'}.get(self.result) or LETTER[self.results[0].type]
        self.name = f'{result}__{arguments}'
        self.neutral = replace(op, schema=replace(op.schema, arguments=self.arguments))

    def letter(self, a):
        if not a.in_c:
            return 'p' if a.type != 'Layout' else 'c' if self.checks_layout else 'u'
        letter = LETTER[a.type]
        return 'o' * a.optional + (letter.upper() if a.list else letter) + '_' * a.mutable

    def declaration(self):
        """Of both functions."""
        box = self.neutral.declaration(f'td_box_{self.name}', ['const td_op *op', 'td_keyset keys'])
        return f'td_unboxer td_unbox_{self.name};\n{box};'

    def unbox(self):
        """A kernel called with boxed arguments; its results boxed."""
        checks = ''.join(f'    if (td_check_layout(&a[{i}]))\n        return -1;\n' for i, a in enumerate(self.arguments)
                         if a.type == 'Layout' and not a.in_c and self.checks_layout)
        given = [code for i, a in enumerate(self.arguments) if a.in_c for code in a.unbox(f'a[{i}]')]
        types = types_of(self.neutral.parameters(['td_keyset keys']))
        call = lambda *more: f'(({self.neutral.returns}(*)({types}))kernel)({", ".join(["keys", *more, *given])})'
        n = len(self.results)
        if self.result == 'tensor':
            body = f'''    td_tensor *result = {call()};
    r[0] = (td_value){{.kind = TD_VALUE_TENSOR, .tensor = result}};
    return result ? 0 : -1;'''
        elif self.result == 'tuple':
            body = f'''    td_tensor *results[{n}];
    if ({call("results")})
        return -1;
    return td_values_from_tensors(r, {n}, results);'''
        elif self.result == 'list':
            body = f'''    td_tensor_list list;
    if ({call("&list")})
        return -1;
    r[0] = (td_value){{.kind = TD_VALUE_TENSORS, .count = (int32_t)list.count, .tensors = list.items}};
    return 0;'''
        elif self.result == 'plain':
            ctype, member = PLAIN[self.results[0].type]
            body = f'''    {ctype} result;
    if ({call("&result")})
        return -1;
    r[0] = (td_value){{.kind = TD_VALUE_{self.results[0].kind}, .{member} = result}};
    return 0;'''
        else:
            written = [i for i, a in enumerate(self.arguments) if a.mutable and not a.list][:n]
            keep = ''.join(f'    r[{j}] = (td_value){{.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(a[{i}].tensor)}};\n'
                           for j, i in enumerate(written))
            body = f'    if ({call()})\n        return -1;\n{keep}    return 0;'
        unused = ('' if n else '    (void)r;\n') + ('' if self.arguments else '    (void)a;\n')
        return f'''int td_unbox_{self.name}(td_kernel kernel, td_keyset keys, const td_value *a, td_value *r)
{{
{unused}{checks}{body}
}}
'''

    def box(self):
        """Arguments boxed for an operator's boxed kernels; their results as C gives them."""
        boxed = ', '.join(a.box() if a.in_c else '{0}' for a in self.arguments) or '{0}'
        n = len(self.results)
        if self.result == 'tensor':
            tail = '    return td_call_boxed(op, keys, a, r) ? NULL : r[0].tensor;'
        else:
            take = {'tuple': f'    for (int i = 0; i < {n}; i++)\n        results[i] = r[i].tensor;\n',
                    'list': '    *results = (td_tensor_list){r[0].count, (td_tensor **)r[0].tensors};\n',
                    'void': f'    td_values_release(r, {n});\n'}.get(self.result) or f'    *results = r[0].{PLAIN[self.results[0].type][1]};\n'
            tail = f'    if (td_call_boxed(op, keys, a, r))\n        return -1;\n{take}    return 0;'
        return f'''{self.neutral.declaration(f"td_box_{self.name}", ["const td_op *op", "td_keyset keys"])}
{{
    td_value a[] = {{{boxed}}}, r[{max(1, n)}];
{tail}
}}
'''


def files(families):
    """(name, text) of the files with all signatures' functions."""
    signatures = {s.name: s for groups in families.values() for group in groups for op in group for s in [Signature(op)]}
    parts = [[] for _ in range(FILES)]
    for name in sorted(signatures):       # a name's file stays the same when others come
        parts[binascii.crc32(name.encode()) % FILES].append(signatures[name])
    head = '/* Generated: boxing, by signature (codegen/boxing.py). */\n#include <tede/dispatch.h>\n#include <tede/list.h>\n#include "dispatch/outputs.h"\n\n'
    for i, part in enumerate(parts):
        yield f'boxing_{i}.c', head + ''.join(f'{s.declaration()}\n{s.unbox()}{s.box()}\n' for s in part)
