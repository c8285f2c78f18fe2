"""Linear, Bilinear, Identity and LazyLinear: linear maps."""
import math

from .. import functional as F
from .. import init
from .._native import T
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from ..._docs import completed

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input. It takes any arguments and ignores them, so that it can stand in for any layer.

    >>> nn.Identity(54, unused=True)(tede.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input: T.Tensor):
        return input


@completed
class Linear(Module):
    """``x @ weight.T + bias`` over the last dimension.

        in_features, out_features: the sizes of the last dimension of input and output.
        bias: whether one is added.
        <factory>

    Shape: (..., in_features) -> (..., out_features). `weight` is (out_features, in_features), `bias` (out_features);
    both begin uniform between ``-1 / sqrt(in_features)`` and ``1 / sqrt(in_features)``. A RuntimeError names both
    shapes if they don't fit, and both dtypes if these differ.

    >>> layer = nn.Linear(3, 2)
    >>> layer(tede.randn(5, 3)).shape
    tede.Size([5, 2])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('weight', (2, 3)), ('bias', (2,))]
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: T.Tensor

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(T.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(T.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``±1 / sqrt(in_features)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.size(1)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that PyTorch gives the output projection of attention."""


@completed
class Bilinear(Module):
    """``sum over i, j of x1[i] * weight[k, i, j] * x2[j] + bias[k]`` for each output k.

        in1_features, in2_features, out_features: the sizes of the last dimensions of both inputs and the output.
        bias: whether one is added.
        <factory>

    Shape: (..., in1_features) and (..., in2_features) -> (..., out_features), with equal dimensions in front. `weight`
    is (out_features, in1_features, in2_features); it and `bias` begin uniform within ``±1 / sqrt(in1_features)``.

    >>> nn.Bilinear(3, 4, 2)(tede.randn(5, 3), tede.randn(5, 4)).shape
    tede.Size([5, 2])
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]
    in1_features: int
    in2_features: int
    out_features: int
    weight: T.Tensor

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(T.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(T.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from ``±1 / sqrt(in1_features)``."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: T.Tensor, input2: T.Tensor) -> T.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


@completed
class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is that of the first input; the module is a `Linear` from then on.

        out_features, bias: as for `Linear`.
        <factory>

    Before the first call the parameters have no shape: make it before you hand them to an optimizer or count them.

    >>> layer = nn.LazyLinear(2)
    >>> _ = layer(tede.randn(5, 3))
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            with T.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features "
                                     f"from self.weight: {self.weight.shape[-1]}")
            self.in_features = input.shape[-1]
