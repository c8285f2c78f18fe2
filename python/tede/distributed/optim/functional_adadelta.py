"""Adadelta for gradients that are passed."""
from tede.optim import Adadelta

from .utils import functional_optim_map

_FunctionalAdadelta = functional_optim_map[Adadelta]
