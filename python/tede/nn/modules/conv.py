"""Convolutions, of one to three spatial dimensions, and their transposes."""
import math

from .. import functional as F
from .. import init
from .._functional._common import ntuple
from .._native import T
from ..parameter import Parameter, UninitializedParameter
from ._ranks import of_ranks, text_of_rank
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
           "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"]

_PADDING_NAMES = ("same", "valid")
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels",
                     "out_channels", "kernel_size"]

    bias: T.Tensor | None
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    weight: T.Tensor

    _rank = 0

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...], padding: str | int | tuple[int, ...], dilation: int | tuple[int, ...],
                 transposed, output_padding: int | tuple[int, ...], groups: int, bias: bool, padding_mode: str,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in _PADDING_NAMES:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {set(_PADDING_NAMES)}")
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._padding_pairs()
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(T.empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(T.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _padding_pairs(self):
        """The padding as `F.pad` takes it: (before, after) of the last dimension first."""
        if not isinstance(self.padding, str):
            return [n for n in reversed(self.padding) for _ in (0, 1)]
        pairs = []
        for dilation, size in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = dilation * (size - 1) if self.padding == "same" else 0
            pairs += [total // 2, total - total // 2]
        return pairs

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``±1 / sqrt(inputs of one output)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    """What Conv1d, Conv2d and Conv3d share: all but the rank and the function."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] = 1, padding: str | int | tuple[int, ...] = 0,
                 dilation: int | tuple[int, ...] = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        n = self._rank
        padding = padding if isinstance(padding, str) else ntuple(padding, n)
        super().__init__(in_channels, out_channels, ntuple(kernel_size, n), ntuple(stride, n), padding,
                         ntuple(dilation, n), False, (0,) * n, groups, bias, padding_mode, device, dtype)

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), (0,) * self._rank
        return getattr(F, self._function)(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] = 1, padding: str | int | tuple[int, ...] = 0,
                 output_padding: int | tuple[int, ...] = 0, groups: int = 1, bias: bool = True,
                 dilation: int | tuple[int, ...] = 1, padding_mode: str = "zeros",
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._rank
        super().__init__(in_channels, out_channels, ntuple(kernel_size, n), ntuple(stride, n), ntuple(padding, n),
                         ntuple(dilation, n), True, ntuple(output_padding, n), groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None):
        """What to add at the end so that the output has `output_size`: several sizes shrink to the same input."""
        if output_size is None:
            return self.output_padding
        n, front = num_spatial_dims, 2 if input.dim() == num_spatial_dims + 2 else 1
        if len(output_size) == front + n:
            output_size = output_size[front:]
        if len(output_size) != n:
            raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {front + n} "
                             f"elements (got {len(output_size)})")
        dilation = dilation or (1,) * n
        least = [(input.size(d + front) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
                 for d in range(n)]
        most = [size + step - 1 for size, step in zip(least, stride)]
        for size, low, high in zip(output_size, least, most):
            if not low <= size <= high:
                raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {least} to "
                                 f"{most} (for an input of {input.size()[2:]})")
        return [size - low for size, low in zip(output_size, least)]

    def forward(self, input: T.Tensor, output_size: int | tuple[int | None, ...] | None = None) -> T.Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, self._rank,
                                     self.dilation)
        return getattr(F, self._function)(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                                          self.dilation)


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose number of input channels is that of the first input it meets."""

    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]

    def __init__(self, out_channels: int, *args, bias: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None, **kwargs) -> None:
        place = 5                                # of `bias` among `args`, which begin with kernel_size
        if len(args) > place:
            bias, args = args[place], (*args[:place], False, *args[place + 1:])
        else:
            kwargs["bias"] = False
        super().__init__(0, 0, *args, **kwargs)
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        ranks = (self._rank + 1, self._rank + 2)
        if input.dim() not in ranks:
            raise RuntimeError(f"Expected {ranks[0]}D (unbatched) or {ranks[1]}D (batched) input to {type(self).__name__}, "
                               f"but got input of size: {input.shape}")
        self.in_channels = input.shape[input.dim() - self._rank - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels // self.groups
        if self.transposed:
            first, second = self.in_channels, self.out_channels // self.groups
        self.weight.materialize((first, second, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


Conv1d, Conv2d, Conv3d = of_ranks(_Conv, "Conv{}d", """
``out[n, o] = bias[o] + sum over c of weight[o, c] * input[n, c]``, where * moves a window over {last} and sums products
(a cross-correlation: the kernel isn't turned round).

    in_channels, out_channels: channels of input and output.
    kernel_size: of the window: {one_of}; so are stride, padding, dilation.
    stride: how far the window moves.
    padding: what is added at both ends; "valid" is none, "same" what keeps the size (for stride 1, else a ValueError).
    dilation: the distance between the window's elements in the input.
    groups: input and output channels are divided into as many groups that don't see each other; both must be divisible
        by it (ValueError). As many as input channels: each has filters of its own.
    bias: whether one is added.
    padding_mode: "zeros", "reflect", "replicate" or "circular".
    <factory>

Shape: {shape} -> {out}, where C is in_channels, then out_channels, and each size of {space} becomes ``(size + 2 *
padding - dilation * (kernel_size - 1) - 1) // stride + 1``. `weight` is (out_channels, in_channels / groups,
*kernel_size), `bias` (out_channels); both begin uniform within ``±1 / sqrt(in_channels / groups * kernel elements)``.

A RuntimeError says what was expected where channels don't fit, where the padded input is smaller than the window, or
where input and weight differ in dtype.

>>> layer = nn.Conv{rank}d(3, 8, kernel_size=3, stride=2, padding=1)
>>> layer(tede.randn(5, 3{n16})).shape
tede.Size([5, 8{n8}])
>>> layer.weight.shape
tede.Size([8, 3{n3}])
""", "conv{}d")
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = of_ranks(_ConvTransposeNd, "ConvTranspose{}d", """
The transpose of `Conv{rank}d`, also called deconvolution: each input element adds ``element * weight`` to a window of
the output. It computes what the gradient of a convolution does, and so enlarges what that shrinks; it isn't its
inverse.

    in_channels, out_channels: channels of input and output.
    kernel_size: of the window: {one_of}; so are stride, padding, output_padding, dilation.
    stride: how far apart the windows of neighbouring elements are.
    padding: what is left out at both ends of the output.
    output_padding: what is added at the end of the output, less than stride or dilation: sizes that a convolution with
        a stride shrinks to the same are told apart by it. `forward(input, output_size)` finds it.
    groups: input and output channels are divided into as many groups that don't see each other (ValueError if they
        can't be).
    bias: whether one is added.
    dilation: the distance between the window's elements in the output.
    padding_mode: "zeros" only, else a ValueError.
    <factory>

Shape: {shape} -> {out}, where C is in_channels, then out_channels, and each size of {space} becomes
``(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``. `weight` is (in_channels,
out_channels / groups, *kernel_size), `bias` (out_channels).

>>> layer = nn.ConvTranspose{rank}d(8, 3, kernel_size=4, stride=2, padding=1)
>>> layer(tede.randn(5, 8{n8})).shape
tede.Size([5, 3{n16}])
""", "conv_transpose{}d")


_LAZY = """
`PLAIN` whose in_channels is that of the first input; the module is a `PLAIN` from then on.

    out_channels, kernel_size, ...: the arguments of `PLAIN` without in_channels.

Before the first call the parameters have no shape: make it before you hand them to an optimizer or count them.

>>> layer = nn.LazyPLAIN(8, kernel_size=3)
>>> _ = layer(tede.randn(5, 4{n16}))
>>> layer.in_channels
4
"""


def _lazy(plain):
    """The class that becomes `plain` when it meets its first input."""
    name = "Lazy" + plain.__name__
    return type(plain)(name, (_LazyConvXdMixin, plain), {
        "__module__": __name__, "__qualname__": name, "cls_to_become": plain,
        "__doc__": text_of_rank(_LAZY.replace("PLAIN", plain.__name__), plain._rank)})


LazyConv1d, LazyConv2d, LazyConv3d = map(_lazy, (Conv1d, Conv2d, Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = map(_lazy, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
