"""Where a number of a trace comes from: the names that guards have for it."""
from dataclasses import dataclass

__all__ = ["Source", "LocalSource", "ConstantSource"]


class Source:
    """Something that name() names."""

    def is_ephemeral(self):
        return False


@dataclass(frozen=True)
class LocalSource(Source):
    """An argument of the function."""
    local_name: str
    is_input: bool = False

    def name(self):
        return f"L[{self.local_name!r}]"


@dataclass(frozen=True)
class ConstantSource(Source):
    """A name as it is."""
    source_name: str

    def name(self):
        return self.source_name
