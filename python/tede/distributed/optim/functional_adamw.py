"""AdamW for gradients that are passed."""
from tede.optim import AdamW

from .utils import functional_optim_map

_FunctionalAdamW = functional_optim_map[AdamW]
