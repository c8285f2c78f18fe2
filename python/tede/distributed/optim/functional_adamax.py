"""Adamax for gradients that are passed."""
from tede.optim import Adamax

from .utils import functional_optim_map

_FunctionalAdamax = functional_optim_map[Adamax]
