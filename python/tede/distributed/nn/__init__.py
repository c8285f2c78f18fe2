"""torch.distributed.nn: collectives with gradients."""
from tede._compat import fill as _fill
from tede.distributed.nn.functional import *  # noqa: F403

_fill(globals())
