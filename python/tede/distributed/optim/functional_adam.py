"""Adam for gradients that are passed."""
from tede.optim import Adam

from .utils import functional_optim_map

_FunctionalAdam = functional_optim_map[Adam]
