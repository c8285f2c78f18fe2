"""Helpers for modes of __torch_function__ and __torch_dispatch__."""
from tede._modes import _DisableTorchDispatch as no_dispatch  # noqa: F401


def all_same_mode(modes):
    """Whether they are one and the same."""
    return all(mode == modes[0] for mode in modes)
