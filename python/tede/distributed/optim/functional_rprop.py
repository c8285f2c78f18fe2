"""Rprop for gradients that are passed."""
from tede.optim import Rprop

from .utils import functional_optim_map

_FunctionalRprop = functional_optim_map[Rprop]
