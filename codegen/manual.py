"""The manual pages of operators: operators.json, which lies in the Python package and is read when somebody wants help.

A page is made of what the entries of a name say (`doc`, `args`, `shape`, `returns`, `raises`, `example`) and of what follows from them:
the types of arguments, dtypes, gradients.  Arguments that mean the same everywhere have their text here.  How it is called is added
by python/tede/_manual.py, which knows whether a function, a method or an in-place form is asked for."""
import functools
import json
import re
import textwrap

from .entries import EntryError, PLACES

WIDTH = 100
TYPES = {'Tensor': 'Tensor', 'int': 'int', 'float': 'float', 'bool': 'bool', 'Scalar': 'number', 'str': 'str', 'ScalarType': 'dtype',
         'Device': 'device', 'Layout': 'layout', 'MemoryFormat': 'memory format', 'Generator': 'Generator'}
LISTS = {'Tensor': 'sequence of Tensors', 'int': 'ints', 'float': 'floats', 'bool': 'bools', 'Scalar': 'numbers'}
COUNTS = {1: 'int or ints', 2: 'int or two ints', 3: 'int or three ints'}

# What arguments mean where the entry doesn't say it: by name, `name: type` where the type decides.
ARGUMENTS = {
    'self': 'the operand.',
    'other': 'the second operand.',
    'dim': 'the dimension to work along; negative ones count from the last.',
    'dim: ints': 'the dimensions to work along; negative ones count from the last. None, or none at all: all dimensions.',
    'keepdim': 'whether the dimensions that are reduced stay, with size 1.',
    'dtype': "the dtype of the result; without it the operator's usual one.",
    'layout': 'the layout of the result, strided unless said otherwise.',
    'device': 'where the result lies; without it the default device, or that of the tensor that it is made after.',
    'pin_memory': 'whether the memory is locked, so that copies to a device can go on by themselves.',
    'requires_grad': 'whether autograd notes what is done with the result.',
    'memory_format': 'how the elements lie in memory: ``contiguous_format``, ``preserve_format``, ``channels_last``, ``channels_last_3d``.',
    'generator': 'the source of random numbers; without it the default one of the device.',
    'out': "where the result is written to, which is also returned; it is resized where its shape differs. A call with it has no "
           'gradient.',
    'eps': 'a small number that keeps a divisor away from zero.',
    'correction': 'what is subtracted from the count of elements in the divisor: 1 gives the unbiased estimate (the default), 0 divides by '
                  'the count.',
    'unbiased': 'True: divide by the count less 1; False: by the count.',
    'weight': 'the weight of the layer.',
    'bias': 'what is added per output channel; None adds nothing.',
    'stride': 'the step of the window, per dimension or one for all.',
    'padding': 'how many zeros are put on both sides, per dimension or one for all.',
    'dilation': 'the distance between the elements of a window, per dimension or one for all.',
    'groups': 'into how many groups, which know nothing of one another, the channels are divided.',
    'kernel_size': 'the size of the window, per dimension or one for all.',
    'ceil_mode': 'whether a last window that begins inside of the operand, but ends outside, counts.',
    'count_include_pad': 'whether the zeros of the padding count as elements of a mean.',
    'divisor_override': 'what sums are divided by in place of the number of elements.',
    'output_padding': 'what is added to one side of the result, since several sizes give the same one in the other direction.',
    'output_size': 'the size of the result, per dimension or one for all; None keeps the size of the operand.',
    'reduction': 'what becomes of the losses: 0 (none) leaves one for each element, 1 (mean) gives their mean, 2 (sum) their sum.',
    'align_corners': 'whether the centres of the corner elements stay where they are; else it is the outer edges that stay.',
    'scale_factor': 'how many times as large the result is.',
    'scales': 'how many times as large the result is, in place of the ratio of sizes.',
    'scales_h': 'how many times as high the result is, in place of the ratio of sizes.',
    'scales_w': 'how many times as wide the result is, in place of the ratio of sizes.',
    'scales_d': 'how many times as deep the result is, in place of the ratio of sizes.',
    'training': 'whether the layer is being trained: random or batch-dependent parts are left out where it is False.',
    'train': 'whether the layer is being trained: what is random is left out where it is False.',
    'momentum': 'the share of the new batch in the running statistics.',
    'running_mean': 'the mean that is kept over batches; written in training, read otherwise.',
    'running_var': 'the variance that is kept over batches; written in training, read otherwise.',
    'cudnn_enabled': 'kept for programs that pass it; it changes nothing.',
    'cudnn_enable': 'kept for programs that pass it; it changes nothing.',
    'target': 'what the prediction is compared with.',
    'index': 'the positions, a tensor of int64.',
    'indices': 'the positions, a tensor of int64.',
    'mask': 'a tensor of bools, broadcast with the operand.',
    'size: ints': 'the sizes of the dimensions; a sequence, or one by one.',
    'n': 'the order or number, see above.',
    'p': 'the exponent or the probability, see above.',
    'descending': 'whether the largest comes first.',
    'stable': 'whether equal elements stay in their order.',
    'sorted': 'whether the result is in order.',
    'largest': 'whether the largest elements are wanted, or the smallest.',
    'min': 'the lower bound; None is no bound.',
    'max': 'the upper bound; None is no bound.',
    'upper': 'whether the upper triangle is meant, or the lower one.',
    'left': 'whether the unknown stands to the right of the matrix (``A @ X = B``), or to the left (``X @ A = B``).',
    'check_errors': 'whether a factorization that fails raises an error, which has to look at the numbers; else ``info`` says so.',
    'hermitian': 'whether the matrices are symmetric (Hermitian if complex): only their lower triangle is read.',
    'rtol': 'the tolerance relative to the largest.',
    'atol': 'the absolute tolerance.',
    'value': 'the number or tensor that is used.',
    'copy': 'whether a copy is made in any case.',
    'non_blocking': 'whether a copy between host and device may still be under way when the call returns.',
    'inplace': 'whether the operand is overwritten.',
    'implicit': 'kept for programs that pass it; it changes nothing.',
    'rounding_mode': "None divides truly, 'trunc' rounds the quotient towards zero, 'floor' down.",
    'offset': 'which diagonal: 0 is the main one, positive ones lie above it, negative ones below.',
    'diagonal': 'which diagonal: 0 is the main one, positive ones lie above it, negative ones below.',
    'dim1': 'the first of the two dimensions.',
    'dim2': 'the second of the two dimensions.',
    'dim0': 'the first of the two dimensions.',
    'axis0': 'the first of the two dimensions.',
    'axis1': 'the second of the two dimensions.',
    'tensors': 'the operands, in their order.',
    'normalized': 'whether the result is divided by the square root of its length.',
    'onesided': 'whether only the half of the spectrum that says all is there, as for real signals.',
    'fill_value': 'the number that all elements get.',
    'beta': 'what ``self`` is multiplied by; 0 leaves it out, whatever it holds.',
    'alpha': 'what the second operand is multiplied by first.',
    'alpha: beta': 'what the product is multiplied by.',
    'return_complex': 'must be True for complex results; real pairs are no longer made.',
    'sparse_grad': 'whether the gradient is a sparse tensor, which holds only the rows that were used.',
    'accumulate': 'whether values are added to what is there; else they replace it, and of several for one place the last stays.',
    'include_self': 'whether the elements that are there take part, or are only replaced.',
    'reduce': "how values for the same place are joined: 'sum', 'prod', 'mean', 'amax', 'amin'.",
    'norm': "where the factor 1/n is: 'backward' (the default) at the inverse transform, 'forward' at the forward one, 'ortho' half of it, "
            '1/sqrt(n), at both.',
    'is_coalesced': 'whether each index occurs once and they are in order; None: unknown.',
    'check_invariants': 'whether indices are checked.',
}
# The dtypes that are compared with PyTorch's results, by kind.
COMPARED = {'floating point': {'f2': 'float16', 'b2': 'bfloat16', 'f4': 'float32', 'f8': 'float64'}, 'complex': {'c8': 'complex64', 'c16': 'complex128'},
            'integers': {'u1': 'uint8', 'i4': 'int32', 'i8': 'int64'}, 'bool': {'?': 'bool'}}
KINDS = {'float': 'floating point', 'wide': 'float32 and float64', 'complex': 'complex', 'int': 'integers', 'bool': 'bool'}


def paragraphs(text):
    return [part for part in re.split(r'\n\s*\n', text.strip()) if part]


def summary(entry):
    """The first paragraph of `doc`, on one line: what headers, tables and td_op_info have."""
    text = paragraphs(entry.get('doc') or '')[:1]
    return ' '.join(text[0].split()) if text else ''


def wrapped(text, indent='', first=None):
    lines = textwrap.wrap(' '.join(str(text).split()), WIDTH, initial_indent=indent if first is None else first,
                          subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return '\n'.join(lines)


def flowed(text):
    """Prose at the page's width; what is indented, and lists, as they are."""
    return [part if re.match(r' |[-*] ', part) else wrapped(part) for part in paragraphs(text)]


def type_of(a):
    text = (COUNTS.get(a.size, f'int or {a.size} ints') if a.type == 'int' and a.size else LISTS[a.type]) if a.list else TYPES[a.type]
    return text


def text_of(a, own, others):
    """What is said of an argument: by the entry, by its type or the argument beside it, by its name."""
    if a.name in own:
        return own[a.name]
    keys = [f'{a.name}: ints'] * (a.list and a.type == 'int') + [f'{a.name}: {other}' for other in others] + [a.name]
    return next((ARGUMENTS[key] for key in keys if key in ARGUMENTS), None)


class Manual:
    """The pages by name, and what they lack."""

    def __init__(self, families, root):
        self.figures = {}
        lines = (root / 'docs' / 'parity.tsv').read_text().splitlines()
        for line in lines[2:]:
            entry, dtypes, *rest = line.split('\t')
            if dtypes != 'absent':
                self.figures.setdefault(entry.removeprefix('nn.functional.').replace('.', '_'), (dtypes.split(), rest[3] if len(rest) > 3 else ''))
        self.different = differences(root)
        self.groups = {}
        for family, groups in families.items():
            for group in groups if family != 'deprecated' else []:
                if not group[0].is_internal:
                    self.groups.setdefault(group[0].schema.name, []).append(group)
        self.pages, self.unexplained, self.examples = {}, {}, {}
        for name, groups in self.groups.items():
            self.pages[name] = self.page(name, groups)

    def page(self, name, groups):
        first = groups[0][0]
        if first.alias:
            return {'of': first.target.schema.name}
        if 'copy_of' in first.entry:
            return {'of': first.entry['copy_of'].schema.name, 'line': 'The result is new memory, not a view.'}
        entries = [g[0].entry for g in groups if not g[0].target and (g[0].variant != 'out' or len(groups) == 1)]
        if name.endswith('_') and name[:-1] in self.groups and not any('example' in e for e in entries):
            return {'of': name[:-1], 'in_place': True}
        text = list(dict.fromkeys(p for e in entries for p in flowed(e.get('doc') or '')))
        own, raises, examples, shape, returns = {}, {}, [], [], []
        for e in entries:
            if stray := set(e.get('args') or {}) - {a.name for g in groups for op in g for a in op.schema.arguments}:
                raise EntryError(f'{name}: args: no argument {", ".join(sorted(stray))}')
            own |= e.get('args') or {}
            raises |= e.get('raises') or {}
            examples += [e['example'].strip()] if 'example' in e else []
            shape += [e['shape']] if 'shape' in e else []
            returns += [e['returns']] if 'returns' in e else []
        page = {'text': '\n\n'.join(text), 'arguments': self.arguments(name, groups, own)}
        if spelled := {name: other for e in entries for name, other in e.get('spelled', {}).items()}:
            page['spelled'] = spelled
        if returns:
            page['returns'] = '\n'.join(wrapped(r, '    ') for r in dict.fromkeys(returns))
        shape = shape or shape_of(first)
        if shape:
            page['shape'] = '\n'.join(wrapped(s, '    ') for s in dict.fromkeys(shape))
        if dtypes := self.dtypes(name, first):
            page['dtypes'] = wrapped(dtypes, '    ')
        if gradient := self.gradient(name, [g[0] for g in groups if not g[0].target]):
            page['gradient'] = wrapped(gradient, '    ')
        if raises:
            page['raises'] = '\n'.join(wrapped(f'{error}: {text}', '        ', '    ') for error, text in raises.items())
        if different := [text for n in (name, *first.entry.get('alias', [])) for text in self.different.get(n, [])]:
            page['differences'] = '\n'.join(wrapped(text, '    ') for text in dict.fromkeys(different))
        if examples:
            page['example'] = textwrap.indent('\n'.join(dict.fromkeys(examples)), '    ')
        return page

    def arguments(self, name, groups, own):
        """[(name, its line)] of all overloads, each once."""
        seen, kinds = {}, {}
        for group in groups:
            for op in group:
                for a in op.schema.arguments:
                    if not a.out:
                        seen.setdefault(a.name, a)
                        kind = type_of(a)
                        if kind not in kinds.setdefault(a.name, []):
                            kinds[a.name].append(kind)
        lines, last = [], []
        if any(op.variant == 'out' for group in groups for op in group):
            several = len(groups[0][0].schema.results) > 1
            last.append(['out', wrapped(f'out ({"tuple of Tensors" if several else "Tensor"}, optional): {ARGUMENTS["out"]}', '        ', '    ')])
        if 'pin_memory' in seen:
            last.append(['requires_grad', wrapped(f'requires_grad (bool, optional): {ARGUMENTS["requires_grad"]}', '        ', '    ')])
        for a in sorted(seen.values(), key=lambda a: a.keyword_only):
            kind = ' or '.join(kinds[a.name])
            text = text_of(a, own, seen)
            if text is None:
                self.unexplained.setdefault(name, []).append(a.name)
                text = ''
            optional = ', optional' if a.optional or a.default is not None else ''
            lines.append([a.name, wrapped(f'{a.name} ({kind}{optional}): {text}', '        ', '    ')])
        return lines + last

    def dtypes(self, name, op):
        entry, figures = op.entry, self.figures.get(name, ([], ''))[0]
        text = ''
        if op.kind == 'pointwise':
            kinds = [KINDS[k] for k in entry.get('dtypes', ['float']) if KINDS.get(k)]
            text = listed(kinds) + '.' if kinds else ''
            if entry.get('promote') == 'to_float':
                text += ' Integers and bools are computed in the default floating point dtype.'
            if len(op.tensors) > 1 and entry.get('promote') not in ('first',):
                text += ' Operands of different dtypes are promoted to a common one.'
            text += {'bool': ' The result is bool.', 'real': ' Of complex numbers the result is real.'}.get(entry.get('out'), '')
        elif figures:
            text = listed(kinds_of(figures)) + '.'
        return text

    def gradient(self, name, ops):
        said = []
        for op in ops:
            grad = op.entry.get('grad')
            if isinstance(grad, dict):
                said += [n for key in grad for n in op.names_in(key) if grad[key] != 'none']
        if said:
            return 'of ' + listed([f'``{n}``' for n in dict.fromkeys(said)]) + '.'
        if any(op.kind == 'composite' and op.entry.get('grad') is None for op in ops):
            return 'through the operators that it is made of.' if self.figures.get(name, ([], ''))[1] else ''
        return 'none.' if ops and any(op.tensors for op in ops) else ''

    def lacking(self):
        """Public names whose page is one line without an example."""
        return sorted(n for n, page in self.pages.items() if not n.startswith('_') and 'of' not in page and
                      'example' not in page and len(paragraphs(page['text'])) < 2)

    def json(self):
        return json.dumps(self.pages, ensure_ascii=False, separators=(',', ':')) + '\n'


def listed(words):
    words = list(words)
    return words[0] if len(words) == 1 else ', '.join(words[:-1]) + ' and ' + words[-1]


def kinds_of(figures):
    """Dtypes in words: a kind where there are all of it."""
    for kind, dtypes in COMPARED.items():
        there = [name for short, name in dtypes.items() if short in figures]
        yield from [kind] if len(there) == len(dtypes) else there


def shape_of(op):
    """Of pointwise operators: what is broadcast."""
    if op.kind != 'pointwise' and 'pointwise' not in str(op.entry.get('batch', '')):
        return []
    tensors = [f'``{a.name}``' for a in op.tensors]
    return [f'the result has the shape of {tensors[0]}.'] if len(tensors) == 1 else \
        [f'{listed(tensors)} are broadcast to one shape, that of the result.']


@functools.cache
def differences(root):
    """{operator: [what docs/differences.md says of it]}"""
    section = (root / 'docs' / 'differences.md').read_text().partition('## What is different on purpose')[2].partition('\n## ')[0]
    found = {}
    for item in re.split(r'^- ', section, flags=re.M)[1:]:
        text = ' '.join(item.split()).replace('`', '``')
        for name in dict.fromkeys(re.findall(r'`(?:tede\.|torch\.)?([\w.]+?)(?:\([^`]*\))?`', item)):
            place = name.partition('.')[0]
            found.setdefault(name.replace('.', '_') if place in PLACES else name, []).append(text)
    return found
