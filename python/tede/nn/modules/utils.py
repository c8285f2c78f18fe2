"""Sizes given as one number or several, under the names that PyTorch's programs import."""
from .._functional._common import ntuple


def _ntuple(n):
    return lambda value: ntuple(value, n)


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))
