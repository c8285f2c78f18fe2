"""What operators refuse of their arguments: a rule for each number, word and index.

The rules follow from the arguments' names, as these mean the same wherever they occur; an entry says what differs,
``requires: {n: any}``.  An argument that nothing is known of fails the generation, so that a new operator thinks of what it
refuses.  tools/fuzz_ops.py breaks each rule of each operator.

    dim       a dimension: outside of the operand's it is an IndexError
    count     less than 0 is refused
    positive  less than 1 is refused
    size      less than -1 is refused
    word      one of a few words, all others are refused
    index     a tensor of integers: what lies outside of the operand is refused
    any       every value means something, or what it means depends on the others: tried, and expected not to crash"""
RULES = 'dim', 'count', 'positive', 'size', 'word', 'index', 'any'
_BY_NAME = {
    'dim': 'dim dims dim0 dim1 dim2 axis axis0 axis1 dimension start_dim end_dim source destination',
    'count': 'num_samples num_classes minlength repeats',
    'positive': 'kernel_size groups dilation upscale_factor downscale_factor sections',
    'size': 'size',
    'word': 'norm reduce approximate UPLO indexing rounding_mode pad_mode side driver',
    'index': 'index indices',
    'any': 'output_size stride padding reduction n window_length s mode shape ignore_index output_padding offset normalized_shape '
           'high steps padding_idx edge_order pad N normalization blank storage_offset start step interpolation_mode padding_mode '
           'divisor_override low length num_layers input_sizes interpolation diagonal input_lengths target_lengths C HxW group k '
           'end row col B_shape ord num_weights to sizes shifts split_size split_sizes chunks base_size base_stride base_offset '
           'n_fft hop_length win_length bins p decimals correction bias_sizes physical_layout last_dim_size fill_value ind pow '
           'name equation path dims_self dims_other num_groups max_q max_k window_size_left window_size_right max_seqlen_q '
           'max_seqlen_k custom_mask_type window_size from r num_chunks ndim m ranks shapes input_size',
}
_RULE_OF = {name: rule for rule, names in _BY_NAME.items() for name in names.split()}


def requires(op):
    """{argument: rule} of an operator; raises ValueError for an argument that nothing is known of."""
    own = op.entry.get('requires') or {}
    unknown = [f'{name}: {rule}' for name, rule in own.items() if rule not in RULES or not op.schema.argument(name)]
    if unknown:
        raise ValueError(f'requires {unknown[0]!r} names no argument or none of the rules {", ".join(RULES)}')
    rules = {}
    for a in op.schema.arguments:
        if a.is_tensor:
            rule = own.get(a.name) or ('index' if a.name in ('index', 'indices') else None)
        elif a.type in ('int', 'str'):
            rule = own.get(a.name) or _RULE_OF.get(a.name)
            rule = 'any' if rule == 'index' else rule       # select(dim, index): it depends on dim
            if rule is None:
                raise ValueError(f'nothing is known of what {a.type} {a.name} must be: give the entry '
                                 f'`requires: {{{a.name}: rule}}`, a rule of {", ".join(RULES)}')
        else:
            rule = own.get(a.name)
        if rule:
            rules[a.name] = rule
    return rules
