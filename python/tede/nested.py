"""Not there: see _absent."""
from tede._absent import module as _module

__getattr__ = _module("nested", "nested tensors aren't there; pad, or use nn.utils.rnn", ())
