"""torch.random: seeding, and the state of the default generator (get_rng_state, fork_rng)."""
from tede._C import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: F401

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator"]


class fork_rng:
    """Within it random numbers may be drawn; afterwards the state is what it was. Also a decorator.

        devices: of which devices, beside the CPU; else all of `device_type`.
        enabled: False does nothing.

    >>> state = tede.get_rng_state()
    >>> with tede.random.fork_rng():
    ...     _ = tede.rand(3)
    >>> state.equal(tede.get_rng_state())
    True
    """

    def __init__(self, devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type=None):
        self.enabled = enabled and device_type != "meta"
        self.module, self.devices = None, ()
        if self.enabled and device_type != "cpu":
            self._find_devices(devices, device_type)

    def _find_devices(self, devices, device_type):
        """The module of the kind of device, and which of its generators are kept: all that there are, where nobody says."""
        import tede
        first = next(iter(devices), None) if devices is not None else None
        if device_type is None and first is not None and not isinstance(first, int):
            device_type = tede.device(first).type
        kind = device_type or str(tede.accelerator.current_accelerator() or "cuda")
        self.module = tede.get_device_module(kind)
        self.devices = list(range(self.module.device_count()) if devices is None else devices)

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with fork_rng(self.devices, enabled=self.enabled, device_type=self.module and self.module.__name__.rpartition(".")[2]):
                return function(*args, **kwargs)
        return wrapped

    def __enter__(self):
        if self.enabled:
            self.state, self.states = get_rng_state(), [self.module.get_rng_state(device) for device in self.devices]

    def __exit__(self, *exception):
        if self.enabled:
            set_rng_state(self.state)
            for device, state in zip(self.devices, self.states):
                self.module.set_rng_state(state, device)


def thread_safe_generator():
    """The generator of a `DataLoader`'s worker thread; None elsewhere.

    >>> tede.random.thread_safe_generator() is None
    True
    """
