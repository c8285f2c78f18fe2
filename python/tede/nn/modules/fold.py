"""Fold and Unfold: images to columns of sliding windows (im2col), and back (col2im)."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Columns put back into images, summed where windows overlap: the transpose of `Unfold`.

        output_size: (H, W) of the images.
        kernel_size, dilation, padding, stride: the windows; numbers, or pairs.

    Shape: (N, C * kernel area, L) or without N -> (N, C, H, W), where L is the number of windows: for each dimension
    ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, multiplied. A RuntimeError says which L
    fits.

    >>> nn.Fold(output_size=(4, 5), kernel_size=2)(tede.ones(1, 3 * 4, 12)).shape
    tede.Size([1, 3, 4, 5])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]
    output_size: int | tuple[int, ...]
    kernel_size: int | tuple[int, ...]
    dilation: int | tuple[int, ...]
    padding: int | tuple[int, ...]
    stride: int | tuple[int, ...]

    def __init__(self, output_size: int | tuple[int | None, ...], kernel_size: int | tuple[int, ...],
                 dilation: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0,
                 stride: int | tuple[int, ...] = 1) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")


class Unfold(Module):
    """The windows of images, each as a column (im2col): a convolution is a product with them.

        kernel_size, dilation, padding, stride: the windows; numbers, or pairs.

    Shape: (N, C, H, W) or (C, H, W) -> (N, C * kernel area, L), for L see `Fold`. `Fold` of it counts each element once
    for every window that holds it.

    >>> nn.Unfold(2)(tede.arange(9.).reshape(1, 1, 3, 3))[0].T
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.],
            [3., 4., 6., 7.],
            [4., 5., 7., 8.]])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]
    kernel_size: int | tuple[int, ...]
    dilation: int | tuple[int, ...]
    padding: int | tuple[int, ...]
    stride: int | tuple[int, ...]

    def __init__(self, kernel_size: int | tuple[int, ...], dilation: int | tuple[int, ...] = 1,
                 padding: int | tuple[int, ...] = 0, stride: int | tuple[int, ...] = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
                f"stride={self.stride}")
