"""Discrete Fourier transforms."""
from tede import _C
from tede._namespace import gather

gather(globals(), _C._fft, "fft_")
