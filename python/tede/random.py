"""torch.random: seeding, and the state of the default generator (get_rng_state, fork_rng)."""
from tede._C import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401


class fork_rng:
    """Within it random numbers may be drawn; afterwards the state is what it was. Also a decorator."""

    def __init__(self, devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
        self.enabled = enabled and device_type != "meta"
        if self.enabled and devices is not None and list(devices):
            from tede import cuda
            cuda.get_rng_state()

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with fork_rng(enabled=self.enabled):
                return function(*args, **kwargs)
        return wrapped

    def __enter__(self):
        self.state = get_rng_state() if self.enabled else None

    def __exit__(self, *exception):
        if self.enabled:
            set_rng_state(self.state)


def thread_safe_generator():
    """The generator of a DataLoader's worker thread; None elsewhere."""
