"""SGD for gradients that are passed."""
from tede.optim import SGD

from .utils import functional_optim_map

_FunctionalSGD = functional_optim_map[SGD]
