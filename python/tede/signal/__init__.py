"""Signal processing: the window functions."""
from tede.signal import windows

__all__ = ["windows"]
