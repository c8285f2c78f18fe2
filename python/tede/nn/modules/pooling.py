"""Pooling layers: maximum, average, Lp, fractional and adaptive pooling, and unpooling."""
from .. import functional as F
from .._native import T
from .._functional._common import ntuple
from ._ranks import of_ranks, sizes, text_of_rank
from .module import Module

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "AvgPool1d", "AvgPool2d",
           "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "AdaptiveMaxPool1d",
           "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    return_indices: bool
    ceil_mode: bool

    def __init__(self, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
                 padding: int | tuple[int, ...] = 0, dilation: int | tuple[int, ...] = 1, return_indices: bool = False,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: T.Tensor):
        return getattr(F, self._function)(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                                          self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class _MaxUnpoolNd(Module):
    _rank = 0

    def __init__(self, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
                 padding: int | tuple[int, ...] = 0) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, self._rank)
        self.stride = ntuple(stride if stride is not None else kernel_size, self._rank)
        self.padding = ntuple(padding, self._rank)

    def forward(self, input: T.Tensor, indices: T.Tensor,
                output_size: int | tuple[int | None, ...] | None = None) -> T.Tensor:
        return getattr(F, self._function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


_AVERAGE = """
The mean of each window, which moves over {last}.

    kernel_size: of the window: {one_of}; so are stride, padding.
    stride: how far it moves; None is the kernel's size.
    padding: what is added at both ends, zeros, at most half the kernel.
    ceil_mode: whether a window that the data fills in part counts.
    count_include_pad: whether the padding counts among the elements that the sum is divided by.DIVISOR

Shape: {shape} -> {out}, where each size becomes ``(size + 2 * padding - kernel_size) // stride + 1``, rounded up with
ceil_mode.

>>> nn.AvgPool{rank}d(2)(tede.ones(5, 3{n8})).shape
tede.Size([5, 3{n4}])
"""


class AvgPool1d(_AvgPoolNd):
    __doc__ = text_of_rank(_AVERAGE.replace("DIVISOR", ""), 1)


    kernel_size: int | tuple[int]
    stride: int | tuple[int]
    padding: int | tuple[int]
    ceil_mode: bool
    count_include_pad: bool

    def __init__(self, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
                 padding: int | tuple[int, ...] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, 1)
        self.stride = ntuple(stride if stride is not None else kernel_size, 1)
        self.padding = ntuple(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(self, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
                 padding: int | tuple[int, ...] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override=None) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: T.Tensor) -> T.Tensor:
        return getattr(F, self._function)(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                                          self.count_include_pad, self.divisor_override)

class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _rank = 0

    def __init__(self, kernel_size: int | tuple[int, ...], output_size: int | tuple[int | None, ...] | None = None,
                 output_ratio: float | tuple[float, ...] | None = None, return_indices: bool = False,
                 _random_samples: T.Tensor | None = None) -> None:
        super().__init__()
        n, name = self._rank, type(self).__name__
        if n == 3 and any(size <= 0 for size in ntuple(kernel_size, n)):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.kernel_size = ntuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = ntuple(output_size, n) if output_size is not None else None
        self.output_ratio = ntuple(output_ratio, n) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: T.Tensor):
        return getattr(F, self._function)(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                                          self._random_samples)

class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    norm_type: float
    ceil_mode: bool

    def __init__(self, norm_type: float, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: T.Tensor) -> T.Tensor:
        return getattr(F, self._function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]

    return_indices: bool

    def __init__(self, output_size: int | tuple[int | None, ...], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: T.Tensor):
        return getattr(F, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size: int | tuple[int | None, ...]) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: T.Tensor) -> T.Tensor:
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


_ADAPTIVE = """
WHAT of each window, windows being chosen so that the output has the size wanted, whatever the input's: window i of n
begins at ``floor(i * size / n)`` and ends before ``ceil((i + 1) * size / n)``.

    output_size: of {space}: {one_of}; None leaves a dimension as it is.MORE

Shape: {shape} -> {out}, of output_size.

>>> nn.NAME{rank}d(4)(tede.randn(5, 3{n7})).shape
tede.Size([5, 3{n4}])
"""


def _ratios(rank):
    return float | tuple[(float,) * rank]


def _output_sizes(rank):
    """None leaves a dimension as it is; the one of a sequence is always given."""
    return sizes(1) if rank == 1 else int | tuple[(int | None,) * rank] | None


MaxPool1d, MaxPool2d, MaxPool3d = of_ranks(
    _MaxPoolNd, "MaxPool{}d", """
The largest value of each window, which moves over {last}.

    kernel_size: of the window: {one_of}; so are stride, padding, dilation.
    stride: how far it moves; None is the kernel's size.
    padding: what is added at both ends, minus infinity, at most half the kernel.
    dilation: the distance between the window's elements.
    return_indices: give (values, indices) instead; `MaxUnpool{rank}d` takes them. An index counts through all of
        {space}.
    ceil_mode: whether a window that the data fills in part counts.

Shape: {shape} -> {out}, where each size becomes ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride +
1``, rounded up with ceil_mode. The gradient goes to the element that was chosen. NaN counts as largest.

>>> nn.MaxPool{rank}d(2)(tede.randn(5, 3{n8})).shape
tede.Size([5, 3{n4}])
""", "max_pool{}d",
    kernel_size=sizes, stride=sizes, padding=sizes, dilation=sizes)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = of_ranks(
    _MaxUnpoolNd, "MaxUnpool{}d", """
Puts the values of `MaxPool{rank}d` back where they were, among zeros.

    kernel_size, stride, padding: those of the pool.

Called as (input, indices, output_size=None), with the pool's indices; output_size tells sizes apart that were pooled to
the same.

Shape: {shape} -> {out}, where each size becomes ``(size - 1) * stride - 2 * padding + kernel_size``. Where two values
have one index, the last stays.

>>> x = tede.randn(1, 1{n4})
>>> values, indices = nn.MaxPool{rank}d(2, return_indices=True)(x)
>>> nn.MaxUnpool{rank}d(2)(values, indices).shape
tede.Size([1, 1{n4}])
""", "max_unpool{}d",
    kernel_size=sizes, stride=sizes, padding=sizes)
AvgPool2d, AvgPool3d = of_ranks(
    _AvgPoolWithDivisor, "AvgPool{}d", _AVERAGE.replace("DIVISOR", """
    divisor_override: divide the sum by this instead."""), "avg_pool{}d", (2, 3),
    kernel_size=sizes, stride=sizes, padding=sizes, ceil_mode=bool, count_include_pad=bool)
FractionalMaxPool2d, FractionalMaxPool3d = of_ranks(
    _FractionalMaxPoolNd, "FractionalMaxPool{}d", """
The largest value of each window, windows being at random positions that cover {last} (Graham, 2014, "Fractional
Max-Pooling").

    kernel_size: of the window: {one_of}.
    output_size: how many windows: {one_of}.
    output_ratio: instead: their number as a part of the input's size, above 0 and below 1.
    return_indices: give (values, indices) instead.

ValueError unless exactly one of output_size and output_ratio is there.

Shape: {shape} -> {out}, of output_size, or ``floor(size * output_ratio)``. Each call draws positions anew, in
evaluation too.

>>> nn.FractionalMaxPool{rank}d(2, output_size=4)(tede.randn(5, 3{n8})).shape
tede.Size([5, 3{n4}])
""",
    "fractional_max_pool{}d", (2, 3), kernel_size=sizes, return_indices=bool, output_size=sizes, output_ratio=_ratios)
LPPool1d, LPPool2d, LPPool3d = of_ranks(
    _LPPoolNd, "LPPool{}d", """
``(sum of x**p) ** (1 / p)`` of each window, which moves over {last}. Without absolute values: p is even, or the input
positive.

    norm_type: p; 1 is the sum, infinity the maximum.
    kernel_size: of the window: {one_of}; so is stride.
    stride: how far it moves; None is the kernel's size.
    ceil_mode: whether a window that the data fills in part counts.

Shape: {shape} -> {out}, where each size becomes ``(size - kernel_size) // stride + 1``, rounded up with ceil_mode.

>>> nn.LPPool{rank}d(2, kernel_size=2)(tede.ones(5, 3{n8})).shape
tede.Size([5, 3{n4}])
""", "lp_pool{}d", kernel_size=sizes, stride=sizes)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = of_ranks(
    _AdaptiveMaxPoolNd, "AdaptiveMaxPool{}d", _ADAPTIVE.replace("WHAT", "The largest value").replace("MORE", """
    return_indices: give (values, indices) instead.""").replace("NAME", "AdaptiveMaxPool"),
    "adaptive_max_pool{}d", output_size=_output_sizes)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = of_ranks(
    _AdaptiveAvgPoolNd, "AdaptiveAvgPool{}d",
    _ADAPTIVE.replace("WHAT", "The mean").replace("MORE", "").replace("NAME", "AdaptiveAvgPool"),
    "adaptive_avg_pool{}d", output_size=_output_sizes)
