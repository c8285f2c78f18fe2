"""What PyTorch's test tools take from here: a random state that is put back afterwards."""
from tede import manual_seed
from tede.testing._internal.common_utils import freeze_rng_state

__all__ = ["freeze_rng_state", "wrapper_set_seed"]


def wrapper_set_seed(op, *args, **kwargs):
    """``op(*args, **kwargs)`` with a fixed seed, which leaves the generator as it was."""
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
