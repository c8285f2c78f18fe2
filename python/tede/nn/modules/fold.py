"""Fold and Unfold: images to columns of sliding windows (im2col), and back (col2im)."""
from .. import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Columns put back into images, summed where windows overlap."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]
    output_size: int | tuple[int, ...]
    kernel_size: int | tuple[int, ...]
    dilation: int | tuple[int, ...]
    padding: int | tuple[int, ...]
    stride: int | tuple[int, ...]

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
                f"padding={self.padding}, stride={self.stride}")


class Unfold(Module):
    """The windows of images, each as a column."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]
    kernel_size: int | tuple[int, ...]
    dilation: int | tuple[int, ...]
    padding: int | tuple[int, ...]
    stride: int | tuple[int, ...]

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return (f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
                f"stride={self.stride}")
