"""Normalisation that doesn't look at other samples: over layers, groups or neighbouring channels."""
from .. import functional as F
from .. import init
from .._native import T
from ..parameter import Parameter
from .module import Module
from ..._docs import completed

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """``x[c] / (k + alpha / size * sum over neighbours j of x[j]**2) ** beta``, the neighbours being the `size`
    channels around c (Krizhevsky et al., 2012, "ImageNet Classification with Deep Convolutional Neural Networks").

        size: how many channels.
        alpha, beta, k: the numbers of the formula.

    Shape: (N, C, ...) -> the same, three dimensions at least (ValueError).

    >>> nn.LocalResponseNorm(2)(tede.ones(1, 4, 3)).shape
    tede.Size([1, 4, 3])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` by its older name, of (N, C, H, W) only.

        size, alpha, beta, k: as there.

    >>> nn.CrossMapLRN2d(2)(tede.ones(1, 4, 3, 3)).shape
    tede.Size([1, 4, 3, 3])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: T.Tensor) -> T.Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        return super().forward(input)


class _LayerBase(Module):
    """Weight, and bias where `_has_bias`, of the shape that is normalised over."""

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def _make(self, normalized_shape, eps, elementwise_affine, bias, device, dtype):
        if hasattr(normalized_shape, "__index__"):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        make = lambda: Parameter(T.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", make() if elementwise_affine else None)
        if bias is not None:
            self.register_parameter("bias", make() if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self._parameters.get("bias") is not None:
                init.zeros_(self.bias)


@completed
class LayerNorm(_LayerBase):
    """``(x - mean) / sqrt(var + eps) * weight + bias``, mean and variance (divided by n) being those of the last
    dimensions of each sample (Ba, Kiros and Hinton, 2016, "Layer Normalization").

        normalized_shape: the sizes of the last dimensions that are normalised over; a number is the last one.
        eps: keeps the root away from zero.
        elementwise_affine: whether there are `weight` (from 1) and `bias` (from 0), of normalized_shape.
        bias: whether there is a bias where there is a weight.
        <factory>

    Shape: (..., *normalized_shape) -> the same; a RuntimeError names both shapes otherwise. It does the same in
    training and evaluation.

    >>> nn.LayerNorm(4)(tede.tensor([[1., 2, 3, 4]]))
    tensor([[-1.3416, -0.4472,  0.4472,  1.3416]],
           grad_fn=<NativeLayerNormBackward0>)
    """

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(self, normalized_shape: int | list[int] | tuple[int, ...], eps: float = 1e-5,
                 elementwise_affine: bool = True, bias: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__()
        self._make(normalized_shape, eps, elementwise_affine, bias, device, dtype)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")


@completed
class RMSNorm(_LayerBase):
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions of each sample: `LayerNorm` without the mean
    (Zhang and Sennrich, 2019, "Root Mean Square Layer Normalization").

        normalized_shape: the sizes of the last dimensions; a number is the last one.
        eps: keeps the root away from zero; None is the smallest step of the input's dtype, `finfo(dtype).eps`.
        elementwise_affine: whether there is a `weight` (from 1).
        <factory>

    Shape: (..., *normalized_shape) -> the same.

    >>> nn.RMSNorm(2)(tede.tensor([[3., 4]]))
    tensor([[0.8485, 1.1314]], grad_fn=<FusedRmsNormBackward0>)
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(self, normalized_shape: int | list[int] | tuple[int, ...], eps: float | None = None,
                 elementwise_affine: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__()
        self._make(normalized_shape, eps, elementwise_affine, None, device, dtype)

    def forward(self, x: T.Tensor) -> T.Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@completed
class GroupNorm(Module):
    """``(x - mean) / sqrt(var + eps) * weight[c] + bias[c]``, mean and variance being those of each sample's group of
    channels (Wu and He, 2018, "Group Normalization").

        num_groups: the groups; `num_channels` must be divisible by it (ValueError). 1 is one norm over all channels, as
            many as channels is instance normalisation.
        num_channels: C.
        eps: keeps the root away from zero.
        affine: whether there are `weight` (from 1) and `bias` (from 0), a number per channel.
        bias: whether there is a bias where there is a weight.
        <factory>

    Shape: (N, C, ...) -> the same. It does the same in training and evaluation.

    >>> nn.GroupNorm(2, 6)(tede.randn(3, 6, 5)).shape
    tede.Size([3, 6, 5])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None, *,
                 bias: bool = True) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        make = lambda: Parameter(T.empty(num_channels, device=device, dtype=dtype))
        self.register_parameter("weight", make() if affine else None)
        self.register_parameter("bias", make() if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")
