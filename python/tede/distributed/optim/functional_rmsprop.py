"""RMSprop for gradients that are passed."""
from tede.optim import RMSprop

from .utils import functional_optim_map

_FunctionalRMSprop = functional_optim_map[RMSprop]
