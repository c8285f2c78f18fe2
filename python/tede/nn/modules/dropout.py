"""Dropout layers: active in training mode only."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """While training, zeroes each element with probability `p` and multiplies the others by ``1 / (1 - p)``, so that
    the expected value stays; in evaluation, nothing (Hinton et al., 2012, "Improving neural networks by preventing
    co-adaptation of feature detectors").

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    Any shape; the output has the same. ``module.eval()`` turns it off.

    >>> layer = nn.Dropout(0.5)
    >>> sorted(set(layer(tede.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(tede.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels: each (n, c) is kept, times ``1 / (1 - p)``, or all zero.

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    Shape: (N, C, L) or (C, L) -> the same.

    >>> nn.Dropout1d(0.5)(tede.ones(4, 3, 10)).std(-1).max()
    tensor(0.)
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels: each (n, c) is kept, times ``1 / (1 - p)``, or all zero. Neighbouring pixels are
    alike, so zeroing one of them would hide little.

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    Shape: (N, C, H, W) -> the same. Of three dimensions the first is taken for N, with a warning, as in PyTorch.

    >>> nn.Dropout2d(0.5)(tede.ones(4, 3, 10, 10)).std((-2, -1)).max()
    tensor(0.)
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels: each (n, c) is kept, times ``1 / (1 - p)``, or all zero.

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    Shape: (N, C, D, H, W) or (C, D, H, W) -> the same.

    >>> nn.Dropout3d(0.2)(tede.ones(2, 3, 4, 4, 4)).shape
    tede.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout for networks with `SELU`: elements become that function's negative limit instead of zero, and all are
    scaled and moved so that mean 0 and variance 1 stay (Klambauer et al., 2017, "Self-Normalizing Neural Networks").

        p: from 0 to 1, else a ValueError.
        inplace: kept for PyTorch's signature; the input is never overwritten.

    Any shape; the output has the same.

    >>> nn.AlphaDropout(0.2).eval()(tede.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

        p: from 0 to 1, else a ValueError.
        inplace: kept for PyTorch's signature; the input is never overwritten.

    Shape: (N, C, ...) -> the same.

    >>> nn.FeatureAlphaDropout(0.2)(tede.randn(4, 3, 8)).shape
    tede.Size([4, 3, 8])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
