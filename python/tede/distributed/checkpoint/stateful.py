"""What has a state dict of its own."""
from typing import Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Has state_dict() and load_state_dict(state_dict)."""

    def state_dict(self): ...

    def load_state_dict(self, state_dict): ...
