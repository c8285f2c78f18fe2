"""PixelShuffle and PixelUnshuffle: channels rearranged into pixels, and back."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Channels spread over space: ``out[c, h * r + i, w * r + j] = x[c * r * r + i * r + j, h, w]`` (Shi et al., 2016,
    "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network").

        upscale_factor: r.

    Shape: (..., C * r * r, H, W) -> (..., C, H * r, W * r); a RuntimeError if the channels aren't divisible.

    >>> nn.PixelShuffle(2)(tede.arange(4.).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    __constants__ = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The reverse of `PixelShuffle`: pixels of each block of r x r gathered as channels.

        downscale_factor: r.

    Shape: (..., C, H * r, W * r) -> (..., C * r * r, H, W).

    >>> nn.PixelUnshuffle(2)(tede.ones(1, 3, 4, 6)).shape
    tede.Size([1, 12, 2, 3])
    """

    __constants__ = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
