"""What the nodes of the gradient graph are called: programs and error messages show PyTorch's names.

An operator's words with capitals, also behind a digit (Log1P, MaxPool2D), then a number that distinguishes overloads.  The number is 0,
unless the entry says otherwise (`node: Max1`): an operator may stand for an overload, or a part, that PyTorch names otherwise."""
import re


def title(op):
    """The name of the node of an operator's calls."""
    words = ''.join(w.capitalize() for w in op.schema.name.strip('_').split('_'))
    name = op.entry.get('node') or re.sub(r'(?<=[0-9])[a-z]', lambda m: m.group().upper(), words) + '0'
    return f'{name[:-1]}Backward{name[-1]}'
