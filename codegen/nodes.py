"""What the nodes of the gradient graph are called: programs and error messages show PyTorch's names.

An operator's words with capitals, also behind a digit (Log1P, MaxPool2D), then a number that distinguishes overloads.  The
number is 0 but for those in OTHERS, where an operator stands for an overload, or a part, that PyTorch names otherwise."""
import re

OTHERS = {
    'copy_': 'Copys', 'prod.dim_int': 'Prod1', 'max': 'Max1', 'min': 'Min1', 'median.dim': 'Median1',
    'nanmedian.dim': 'Nanmedian1', 'squeeze.dim': 'Squeeze1', 'squeeze.dims': 'Squeeze2', 'pow.Tensor_Tensor': 'Pow1',
    'pow.Scalar': 'Pow2', 'trunc_divide': 'Div2', 'index_fill.int_Tensor': 'IndexFill1', 'masked_fill_with': 'MaskedFill1',
    'scatter.value': 'Scatter1', 'clamp_both': 'Clamp1', 'clamp_min_same': 'Clamp1', 'clamp_max_same': 'Clamp1', 'square': 'Pow0',
    'nan_to_num_impl': 'NanToNum0', 'softshrink_impl': 'Softshrink0', 'nll_loss_forward': 'NllLoss0',
    'cross_entropy_rows': 'NllLoss0', '_pdist_forward': 'Pdist0',
}


def title(schema):
    """The name of the node of an operator's calls."""
    words = ''.join(w.capitalize() for w in schema.name.strip('_').split('_'))
    name = OTHERS.get(schema.full_name) or re.sub(r'(?<=[0-9])[a-z]', lambda m: m.group().upper(), words) + '0'
    return f'{name[:-1]}Backward{name[-1]}'
