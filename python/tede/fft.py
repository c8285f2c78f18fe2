"""tede.fft: discrete Fourier transforms."""
from tede import _C
from tede._C import Tensor  # noqa: F401
from tede._namespace import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tede._C._fft import *  # noqa: F403
gather(globals(), _C._fft, "fft_")
__all__ = ("fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift "
           "Tensor").split()
