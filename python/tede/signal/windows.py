"""Window functions: each is a formula of equally spaced numbers.

`sym` makes a symmetric window; without it the window is one period of a periodic one, whose first value would come
next.  What all of them check, and the options that they hand to the factories, is in `_Window`."""
from collections.abc import Iterable
from math import pi, sqrt

import tede
from .._docs import complete, completed

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]


def _torch(name):
    return str(name).replace("tede.", "torch.")


class _Window:
    """What a call asks for: the number of points and where they go."""

    def __init__(self, name, M, dtype, layout, device, requires_grad):
        dtype = tede.get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not tede.strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {_torch(layout)}")
        if dtype not in (tede.float32, tede.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {_torch(dtype)}")
        self.M, self.options = M, dict(dtype=dtype, device=device, requires_grad=requires_grad)

    def trivial(self, ones=False):
        """The window of no points, or with `ones` of one; None for others."""
        if self.M == 0:
            return tede.empty((0,), **self.options)
        return tede.ones((1,), **self.options) if ones and self.M == 1 else None

    def points(self, start, step):
        return tede.linspace(start=start, end=start + (self.M - 1) * step, steps=self.M, **self.options)


@completed
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """``exp(-|n - center| / tau)``.

        M: how many points, n = 0 to M - 1.
        center: else the middle; not for symmetric windows.
        tau: how slowly it falls, above 0.
        <window>

    >>> tede.signal.windows.exponential(5)
    tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    window = _Window("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if (trivial := window.trivial()) is not None:
        return trivial
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2.0
    return tede.exp(-tede.abs(window.points(-center / tau, 1 / tau)))


@completed
def cosine(M, *, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """Half a period of a sine: ``sin(pi * (n + 1/2) / M)``.

        M: how many points, n = 0 to M - 1.
        <window>

    >>> tede.signal.windows.cosine(5)
    tensor([0.3090, 0.8090, 1.0000, 0.8090, 0.3090])
    """
    window = _Window("cosine", M, dtype, layout, device, requires_grad)
    if (trivial := window.trivial()) is not None:
        return trivial
    step = pi / (M + 1 if not sym and M > 1 else M)
    return tede.sin(window.points(0.5 * step, step))


@completed
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """``exp(-n**2 / (2 * std**2))``, n counted from the middle.

        M: how many points, n = 0 to M - 1.
        std: above 0.
        <window>

    >>> tede.signal.windows.gaussian(5)
    tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    window = _Window("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if (trivial := window.trivial()) is not None:
        return trivial
    step = 1 / (std * sqrt(2))
    return tede.exp(-window.points(-(M if not sym and M > 1 else M - 1) / 2.0 * step, step) ** 2)


@completed
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """``i0(beta * sqrt(1 - t**2)) / i0(beta)``, t from -1 to 1 (Kaiser, 1974, "Nonrecursive digital filter design using
    the I0-sinh window function").

        M: how many points, n = 0 to M - 1.
        beta: how narrow it is, from 0.
        <window>

    >>> tede.signal.windows.kaiser(5)
    tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01, 5.2773e-05])
    """
    window = _Window("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if (trivial := window.trivial(ones=True)) is not None:
        return trivial
    # As a tensor of the window's dtype, so that the last point isn't a rounding error beyond it.
    beta = tede.tensor(beta, dtype=window.options["dtype"], device=device)
    end = tede.minimum(beta, -beta + (M - 1) * (2.0 * beta / (M if not sym else M - 1)))
    t = tede.linspace(start=-beta, end=end, steps=M, **window.options)
    return tede.i0(tede.sqrt(beta * beta - t ** 2)) / tede.i0(beta)


@completed
def bartlett(M, *, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """A triangle: ``1 - |2 * n / (M - 1) - 1|``, zero at the ends.

        M: how many points, n = 0 to M - 1.
        <window>

    >>> tede.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    window = _Window("bartlett", M, dtype, layout, device, requires_grad)
    if (trivial := window.trivial(ones=True)) is not None:
        return trivial
    return 1 - tede.abs(window.points(-1, 2 / (M if not sym else M - 1)))


@completed
def general_cosine(M, *, a, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """A sum of cosines: ``sum over i of (-1)**i * a[i] * cos(2 * pi * i * n / (M - 1))``.

        M: how many points, n = 0 to M - 1.
        a: the weights.
        <window>

    >>> tede.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    window = _Window("general_cosine", M, dtype, layout, device, requires_grad)
    if (trivial := window.trivial(ones=True)) is not None:
        return trivial
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    angles = window.points(0, 2 * pi / (M if not sym else M - 1))
    weights = tede.tensor([(-1) ** i * w for i, w in enumerate(a)], **window.options)
    orders = tede.arange(weights.shape[0], **window.options)
    return (weights.unsqueeze(-1) * tede.cos(orders.unsqueeze(-1) * angles)).sum(0)


@completed
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
    """A raised cosine: ``alpha - (1 - alpha) * cos(2 * pi * n / (M - 1))``.

        M: how many points, n = 0 to M - 1.
        alpha: the height of its middle line.
        <window>

    >>> tede.signal.windows.general_hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


_TEXT = """{doc}

    M: how many points, n = 0 to M - 1.
    <window>

>>> tede.signal.windows.{name}(4).shape
tede.Size([4])
"""


def _cosines(name, a, doc):
    def window(M, *, sym=True, dtype=None, layout=tede.strided, device=None, requires_grad=False):
        _Window(name, M, dtype, layout, device, requires_grad)      # the checks, under the window's own name
        return general_cosine(M, a=a, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    window.__name__ = window.__qualname__ = name
    window.__doc__ = complete(_TEXT.format(doc=doc, name=name))
    return window


hamming = _cosines("hamming", [0.54, 1.0 - 0.54],
                   "Hamming's raised cosine, ``0.54 - 0.46 * cos(2 * pi * n / (M - 1))``, which doesn't fall to zero.")
hann = _cosines("hann", [0.5, 0.5],
                "Hann's raised cosine, ``0.5 - 0.5 * cos(2 * pi * n / (M - 1))``, zero at the ends.")
blackman = _cosines("blackman", [0.42, 0.5, 0.08],
                    "Blackman's sum of three cosines, of 0, 1 and 2 periods, weighted 0.42, -0.5, 0.08.")
nuttall = _cosines("nuttall", [0.3635819, 0.4891775, 0.1365995, 0.0106411],
                   "Nuttall's sum of four cosines, of 0 to 3 periods, weighted 0.3635819, -0.4891775, 0.1365995, -0.0106411.")
