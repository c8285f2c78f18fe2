"""Discrete Fourier transforms."""
from tede import _C
from tede._namespace import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tede._C._fft import *  # noqa: F403
gather(globals(), _C._fft, "fft_")
