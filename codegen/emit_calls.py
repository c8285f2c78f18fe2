"""For each C file a header (calls_<file>.h): the operators that it calls and the functions that entries expect of it.

Were there one header with every operator, a new entry would compile the whole library again.  With these, whose bytes
change only when what the file uses changes, it compiles what the entry itself gives."""
import functools
import pathlib
import re

from . import emit_public
from .entries import LAYOUT_KERNELS, fill_of, of_layouts

WORD = re.compile(r'\btd_[A-Za-z0-9_]+')
PASTED = re.compile(r'\btd_\w*(?:##\w+)+')
LOCAL = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class Prototypes:
    """What a C text needs declared, by the names in it."""

    def __init__(self, families):
        self.text, self.order, self.read = {}, {}, {}
        self.rules(op for groups in families.values() for group in groups for op in group)
        for groups in families.values():
            for group in groups:
                for op in group:
                    self.add('td_' + op.c, f'TD_API {op.declaration("td_" + op.c)}'
                             f'{" TD_MUST_USE" if op.returns == "int " else ""};')
                for short in emit_public.short_forms(group[0]):
                    self.add(re.search(r'(td_\w+)\(', short)[1], short)
                self.bodies(group[0])

    def add(self, name, text):
        self.text.setdefault(name, text)
        self.order.setdefault(name, len(self.order))

    def rules(self, operators):
        """Rules of batches, as entries name them; and those that follow from kinds and schemas."""
        texts = [op.entry.get('batch', '') for op in operators]
        for name in sorted({text.partition('(')[0] for text in texts} | {'pointwise', 'dims', 'inplace', 'loop', 'random'}):
            self.add(f'td_rule_{name}', f'struct td_batch;\nint td_rule_{name}(struct td_batch *b);')

    def bodies(self, op):
        """The functions that are written by hand, so that a wrong signature doesn't compile."""
        body = op.entry.get('body', op.c)
        if op.target or 'each' in op.entry or 'copy_of' in op.entry:
            return
        if op.entry.get('out_check') and 'reduces' not in op.entry:
            params = [p for a in op.schema.arguments if a.in_c for p in a.parameters()]
            outs = [f'td_tensor *out{i}' for i in range(len(op.schema.results))]
            self.add(f'td_out_check_{op.c}', f'int td_out_check_{op.c}({", ".join([*params, *outs])});')
        if of_layouts(op).get('nested') in ('kernel', 'below'):
            self.add('td_nested_' + body, op.declaration('td_nested_' + body) + ';')
        for prefix in sorted({LAYOUT_KERNELS.get(layout, 'sparse') for layout, word in of_layouts(op).items() if word == 'kernel' and layout != 'nested'}):
            self.add(f'td_{prefix}_{body}', op.declaration(f'td_{prefix}_{body}') + ';')
            if prefix == 'sparse' and 'sparse_into' in op.entry:
                self.add(f'td_sparse_{body}_into', f'int td_sparse_{body}_into({", ".join(["td_tensor *out", *op.parameters()])});')
        if 'fills' in op.entry:
            self.add('td_fill_' + op.entry['fills'], fill_of(op) + ' TD_MUST_USE;')
        if op.kind in ('native', 'composite', 'view'):
            self.add('td_op_' + body, op.declaration('td_op_' + body) + ';')
            if 'device' not in op.entry:
                self.add('td_on_device_' + body, op.on_device + ';')
        elif op.kind == 'kernel':
            for text in ([] if 'reduces' in op.entry else [op.meta]) + [op.cpu, op.on_device]:
                self.add(text[4:text.index('(')], text + ';')

    def named(self, text):
        """The functions that the text names; a text that many files include is read once."""
        if text in self.read:
            return self.read[text]
        names = {n for n in WORD.findall(text) if n in self.text}
        for pasted in PASTED.findall(text):      # a macro's td_max_pool##n##d: every name that it could be
            fits = re.compile(re.sub(r'##(\w+?)(?=##|$)(##)?', r'\\w+', pasted))
            names |= {n for n in self.text if fits.fullmatch(n)}
        self.read[text] = names
        return names

    def of(self, texts):
        """Declarations of all that the texts name, and of what the short forms among them call."""
        found, waiting = set(), list(texts)
        while waiting:
            names = self.named(waiting.pop()) - found
            found |= names
            waiting += [self.text[n] for n in names if self.text[n].startswith('static inline')]
        # Inlines last: they call what stands above them.
        return [self.text[n] for n in sorted(found, key=lambda n: (self.text[n].startswith('static'), self.order[n]))]


def header_name(path):
    """`src/ops/shape/stack.c` has `calls_ops_shape_stack.h`."""
    parts = pathlib.PurePath(path).with_suffix('').parts
    return 'calls_' + '_'.join(parts[1:]) + '.h'


@functools.cache
def read(path):
    """A file's text and the project's headers that it includes."""
    text = path.read_text()
    return text, LOCAL.findall(text)


@functools.cache
def exists(path):
    return path.exists()


def texts(root, path, seen):
    """A file's text and those of the project's headers that it includes, one after the other."""
    if path in seen or not exists(path):
        return
    seen.add(path)
    text, included = read(path)
    yield text
    for name in included:
        for base in (root / 'src', path.parent):
            yield from texts(root, base / name, seen)


def headers(root, sources, prototypes):
    """(name, text) of each source's header."""
    for source in sources:
        lines = prototypes.of(texts(root, root / source, set()))
        name = header_name(source)
        guard = name.upper().replace('.', '_')
        spec = '#include "dispatch/spec.h"\n' if any(re.search(r' td_(meta|cpu|on_device)_', line) for line in lines) else ''
        yield name, (f'/* Generated: the operators that {source} calls, and those it defines. */\n#ifndef {guard}\n#define {guard}\n'
                     f'#include <tede/dispatch.h>\n#include <tede/list.h>\n{spec}\n' + '\n'.join(lines) + '\n\n#endif\n')
