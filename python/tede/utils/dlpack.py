"""DLPack under its older names."""
from tede import from_dlpack  # noqa: F401

__all__ = ["from_dlpack"]


def to_dlpack(tensor):
    """A capsule that another library takes."""
    return tensor.__dlpack__()
