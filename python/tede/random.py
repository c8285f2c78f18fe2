"""The state of random numbers."""
from tede._C import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401


class fork_rng:
    """Within it random numbers may be drawn; afterwards the state is what it was."""

    def __init__(self, devices=None, enabled=True, **ignored):
        self.enabled = enabled

    def __enter__(self):
        self.state = get_rng_state() if self.enabled else None

    def __exit__(self, *exception):
        if self.enabled:
            set_rng_state(self.state)
