"""What PyTorch's test tools take from here: a random state that is put back afterwards."""
import contextlib

from tede import get_rng_state, manual_seed, set_rng_state

__all__ = ["freeze_rng_state", "wrapper_set_seed"]


@contextlib.contextmanager
def freeze_rng_state():
    """The generator's state is afterwards what it was."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def wrapper_set_seed(op, *args, **kwargs):
    """``op(*args, **kwargs)`` with a fixed seed, which leaves the generator as it was."""
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
