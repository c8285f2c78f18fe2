"""Adagrad for gradients that are passed."""
from tede.optim import Adagrad

from .utils import functional_optim_map

_FunctionalAdagrad = functional_optim_map[Adagrad]
