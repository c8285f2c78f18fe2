"""What an operator does besides computing, for td_op_traits: `autocast`, `tags`, `names`, `flops` and `decompose` of its entry, and what
follows from its kind and schema."""

DERIVED = {'inplace': 'inplace', 'out': 'out'}      # variants that are tags


class TraitError(ValueError):
    pass


POLICIES = 'lower_precision', 'fp32', 'promote', 'not', 'unsafe'
CHOICES = {'decompose': ('never', 'linear', 'matmul', 'square', 'dropout', 'dropout_', 'feature_dropout', 'feature_dropout_', 'alpha_dropout',
                         'alpha_dropout_', 'feature_alpha_dropout', 'feature_alpha_dropout_', 'lift_fresh',
                         'lift_fresh_copy'),
           'names': ('reduced', 'swapped', 'permuted', 'dropped', 'squeezed', 'product', 'kept')}
FORMATS = {'complex32': ['C32'], 'float8': ['F8_E4M3FN', 'F8_E5M2', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'], 'float8_e8m0fnu': ['F8_E8M0FNU'],
           'float4': ['F4_E2M1FN_X2'], 'bits': ['BITS1X8', 'BITS2X4', 'BITS4X2', 'BITS8', 'BITS16'],
           'quantized': ['QI8', 'QU8', 'QI32', 'QU4X2', 'QU2X4']}
OF_ONE = {'core', 'dynamic_output_shape'}
TAGS = {'core', 'nondeterministic_seeded', 'reduction', 'dynamic_output_shape', 'view_copy'}


def own(op, field):
    """The field of the entry that an operator is: its variants and other names have none, but go to it or cost the same."""
    text = op.entry.get(field) if op.parent is None and op.target is None else None
    if text and text not in CHOICES.get(field, (text,)):
        raise TraitError(f'{field}: {text!r} is none of {", ".join(CHOICES[field])}')
    return text


def autocast(op):
    """The members of td_op_traits for `autocast: fp32`, of all devices, or `autocast: {cpu: fp32, devices: promote}`."""
    entry = op.entry.get('autocast') if op.parent is None and op.target is None else None
    by = entry if isinstance(entry, dict) else {'cpu': entry, 'devices': entry}
    if entry and (not by or by.keys() - {'cpu', 'devices'} or set(by.values()) - set(POLICIES)):
        raise TraitError(f'autocast: {entry!r} is none of {", ".join(POLICIES)}, nor cpu and devices with one each')
    cpu, devices = by.get('cpu'), by.get('devices')
    words = {'autocast': cpu} if cpu else {}
    words |= {'autocast_devices': devices or 'not'} if devices != cpu else {}
    return {field: f'TD_AUTOCAST_{policy.upper()}' for field, policy in words.items()}


def root_of(op):
    """The entry that an operator is a variant or another name of."""
    while op.target or op.parent:
        op = op.target or op.parent
    return op


def formats(op):
    """The members of td_op_traits for `formats: {moved: [complex32, float8], unless: accumulate, widened: [complex32]}`, of all
    variants."""
    entry = root_of(op).entry.get('formats', {})
    lists = {how: names for how, names in entry.items() if how != 'unless'}
    if lists.keys() - {'moved', 'widened', 'known'} or {name for names in lists.values() for name in names} - FORMATS.keys():
        raise TraitError(f'formats: {entry!r} is not moved, widened and known with lists of {", ".join(FORMATS)}')
    if 'unless' in entry and entry['unless'] not in {a.name for a in op.schema.arguments if a.type == 'bool'}:
        raise TraitError(f'formats: unless: {entry["unless"]} is no bool among the arguments')
    if set(entry.get('widened', [])) - {'complex32', 'float8', 'float8_e8m0fnu'}:
        raise TraitError('formats: complex32 and float8 alone have a wider dtype')
    return {how: ' | '.join(f'1ull << TD_{dtype}' for name in names for dtype in FORMATS[name]) for how, names in lists.items()} | \
        ({'moved_unless': f'"{entry["unless"]}"'} if 'unless' in entry else {})


def pairs(op, field):
    """The argument and what the entry says of it in a field that is one, `shown: {dim: sum}`: a list of at most one pair."""
    entry = op.entry.get(field, {}) if op.parent is None and op.target is None else {}
    if len(entry) > 1 or entry.keys() - {a.name for a in op.schema.arguments}:
        raise TraitError(f'{field}: one of the arguments is expected, not {", ".join(entry)}')
    return list(entry.items())


def decompose(op):
    """What __torch_dispatch__ sees of an operator that is made of others: those (None), itself, or what a rule calls instead.  Copies of
    views are seen themselves; out= forms and other names are calls of what they stand for."""
    if op.family == 'copy':
        return 'never' if op.variant == 'functional' else None
    if op.variant == 'inplace' and op.parent and not op.target:
        return 'never' if own(op.parent, 'decompose') == 'never' else None
    return own(op, 'decompose')


def tags(op):
    """PyTorch's tags in the order of their names.  `tags: [core, core.Scalar]` is of the operator itself and of its overload Scalar;
    but for those in OF_ONE, tags are of all variants."""
    root = root_of(op)
    entry, flags = root.entry.get('tags', []), op.entry.get('flags', [])
    words = {word.partition('.')[0] for word in entry}
    if words - TAGS:
        raise TraitError(f'tags: {", ".join(sorted(words - TAGS))} is not known')
    found = words - OF_ONE if not op.target else set()
    if op is root:
        found |= words & OF_ONE & set(entry)
    elif op.schema.name == root.schema.name:
        found |= {word for word in words if f'{word}.{op.schema.overload}' in entry}
    if op.variant in DERIVED:
        found.add(op.variant)
    if op.kind == 'pointwise':
        found.add('pointwise')
    if 'inplace_view' in flags:
        found.add('inplace_view')
    if any(a.type == 'Generator' for a in op.schema.arguments):
        found.add('nondeterministic_seeded')
    if 'data_dependent' in flags:
        tensors = op.schema.results and op.schema.results[0].is_tensor
        found.add('dynamic_output_shape' if tensors or not op.schema.results else 'data_dependent_output')
    if op.family == 'copy':
        found.add('view_copy')
    return sorted(found)
