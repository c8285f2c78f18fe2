"""Activations as layers: ReLU, GELU, Softmax and the others."""
import warnings

from .. import functional as F
from .._native import N, T
from ..parameter import Parameter
from .module import Module
from ..._docs import completed

__all__ = ["Threshold", "ReLU", "RReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish",
           "ELU", "CELU", "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink",
           "MultiheadAttention", "PReLU", "Softsign", "Tanhshrink", "Softmin", "Softmax", "Softmax2d", "LogSoftmax"]  # noqa: F822  MultiheadAttention: by __getattr__


def _inplace(inplace, comma=", "):
    return f"{comma}inplace=True" if inplace else ""


class Threshold(Module):
    """``x`` where ``x > threshold``, elsewhere `value`.

        threshold, value: the two numbers.
        inplace: overwrite the input instead of making a tensor.

    Any shape; the output has the same.

    >>> nn.Threshold(1, 20)(tede.tensor([0.5, 1, 3]))
    tensor([20., 20.,  3.])
    """

    __constants__ = ["threshold", "value", "inplace"]
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace(self.inplace)}"


class _InplaceOnly(Module):
    """An activation whose only choice is whether to work in place."""

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _inplace(self.inplace, "")


class ReLU(_InplaceOnly):
    """``max(0, x)`` of each element.

        inplace: overwrite the input. Its old values are gone then, for other readers and for their gradients.

    Any shape; the output has the same. The gradient is 1 above zero, else 0.

    >>> nn.ReLU()(tede.tensor([-1., 0, 2]))
    tensor([0., 0., 2.])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return N.relu_(input) if self.inplace else N.relu(input)


class SiLU(_InplaceOnly):
    """``x * sigmoid(x)`` of each element, also called swish (Elfwing, Uchibe and Doya, 2017, "Sigmoid-Weighted Linear
    Units for Neural Network Function Approximation in Reinforcement Learning").

        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.SiLU()(tede.tensor([-1., 0, 2]))
    tensor([-0.2689,  0.0000,  1.7616])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.silu(input, self.inplace)


class Mish(_InplaceOnly):
    """``x * tanh(softplus(x))`` of each element (Misra, 2019, "Mish: A Self Regularized Non-Monotonic Activation
    Function").

        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.Mish()(tede.tensor([-1., 0, 2]))
    tensor([-0.3034,  0.0000,  1.9440])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.mish(input, self.inplace)


class SELU(_InplaceOnly):
    """``scale * (x if x > 0 else alpha * (exp(x) - 1))`` of each element, with scale 1.0507 and alpha 1.6733, so that
    outputs of layers drift to mean 0 and variance 1 (Klambauer et al., 2017, "Self-Normalizing Neural Networks").

        inplace: overwrite the input.

    Weights should begin with `init.kaiming_normal_(w, nonlinearity="linear")`, and dropout be `AlphaDropout`. Any
    shape; the output has the same.

    >>> nn.SELU()(tede.tensor([-1., 0, 1]))
    tensor([-1.1113,  0.0000,  1.0507])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InplaceOnly):
    """``x / 6 + 1/2`` held between 0 and 1: a sigmoid of straight lines.

        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.Hardsigmoid()(tede.tensor([-4., 0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InplaceOnly):
    """``x * hardsigmoid(x)`` of each element (Howard et al., 2019, "Searching for MobileNetV3").

        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.Hardswish()(tede.tensor([-4., 1, 4]))
    tensor([-0.0000, 0.6667, 4.0000])
    """

    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class RReLU(Module):
    """``x`` above zero, ``a * x`` below: while training `a` is drawn for each element uniformly from `lower` to
    `upper`, in evaluation it is their mean (Xu et al., 2015, "Empirical Evaluation of Rectified Activations in
    Convolutional Network").

        lower, upper: the range of slopes.
        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.RReLU(0.1, 0.3).eval()(tede.tensor([-1., 2]))
    tensor([-0.2000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]
    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_inplace(self.inplace)}"


class Hardtanh(Module):
    """``x`` held between `min_val` and `max_val`.

        min_val, max_val: the bounds; an AssertionError if they aren't in order.
        inplace: overwrite the input.
        min_value, max_value: older names of the bounds; they warn.

    Any shape; the output has the same.

    >>> nn.Hardtanh(-2, 2)(tede.tensor([-3., 0.5, 3]))
    tensor([-2.0000,  0.5000,  2.0000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float
    inplace: bool

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None, max_value: float | None = None) -> None:
        super().__init__()
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(f"keyword argument `{old}` is deprecated and renamed to `{old[:7]}`", FutureWarning,
                              stacklevel=2)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace(self.inplace)}"


class ReLU6(Hardtanh):
    """``min(max(0, x), 6)`` of each element.

        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.ReLU6()(tede.tensor([-1., 3, 8]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _inplace(self.inplace, "")


class Sigmoid(Module):
    """``1 / (1 + exp(-x))`` of each element: between 0 and 1.

    Any shape; the output has the same. For a loss of probabilities keep the logits and use `BCEWithLogitsLoss`, which
    doesn't lose digits.

    >>> nn.Sigmoid()(tede.tensor([-1., 0, 1]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return N.sigmoid(input)


class Tanh(Module):
    """``(exp(x) - exp(-x)) / (exp(x) + exp(-x))`` of each element: between -1 and 1.

    Any shape; the output has the same.

    >>> nn.Tanh()(tede.tensor([-1., 0, 1]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return N.tanh(input)


class _AlphaActivation(Module):
    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace(self.inplace)}"


class ELU(_AlphaActivation):
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below (Clevert et al., 2015, "Fast and Accurate Deep Network Learning
    by Exponential Linear Units").

        alpha: minus what very negative inputs become.
        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.ELU()(tede.tensor([-1., 0, 2]))
    tensor([-0.6321,  0.0000,  2.0000])
    """

    alpha: float
    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_AlphaActivation):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``: `ELU` whose slope at zero is 1 for every alpha (Barron,
    2017, "Continuously Differentiable Exponential Linear Units").

        alpha: minus what very negative inputs become; not 0.
        inplace: overwrite the input.

    Any shape; the output has the same.

    >>> nn.CELU(2.0)(tede.tensor([-1., 0, 2]))
    tensor([-0.7869,  0.0000,  2.0000])
    """

    alpha: float
    inplace: bool

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.celu(input, self.alpha, self.inplace)


class GLU(Module):
    """``a * sigmoid(b)``, where a and b are the halves of the input along `dim` (Dauphin et al., 2016, "Language
    Modeling with Gated Convolutional Networks").

        dim: the dimension that is halved.

    Shape: (..., 2 * M, ...) -> (..., M, ...); a RuntimeError if the size is odd.

    >>> nn.GLU()(tede.tensor([1., 2, 0, 0]))
    tensor([0.5000, 1.0000])
    """

    __constants__ = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """``x * P(X < x)`` for a standard normal X (Hendrycks and Gimpel, 2016, "Gaussian Error Linear Units").

        approximate: "none" computes ``x / 2 * (1 + erf(x / sqrt(2)))``; "tanh", which BERT and GPT-2 were trained with,
            ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.

    Any shape; the output has the same.

    >>> nn.GELU()(tede.tensor([-1., 0, 1]))
    tensor([-0.1587,  0.0000,  0.8413])
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: T.Tensor) -> T.Tensor:
        return N.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """``x`` where ``|x| > lambd``, elsewhere 0.

        lambd: half the width of the gap.

    Any shape; the output has the same.

    >>> nn.Hardshrink(1.0)(tede.tensor([-2., 0.5, 3]))
    tensor([-2.,  0.,  3.])
    """

    lambd: float

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` moved towards zero by `lambd`, no further than zero: ``sign(x) * max(|x| - lambd, 0)``.

        lambd: how far; at least 0.

    Any shape; the output has the same.

    >>> nn.Softshrink(1.0)(tede.tensor([-2., 0.5, 3]))
    tensor([-1.,  0.,  2.])
    """

    lambd: float

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """``x`` above zero, ``negative_slope * x`` below.

        negative_slope: the slope below zero.
        inplace: overwrite the input; not with a negative slope where gradients are wanted in PyTorch, here with any.

    Any shape; the output has the same.

    >>> nn.LeakyReLU(0.1)(tede.tensor([-1., 0, 2]))
    tensor([-0.1000,  0.0000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]
    inplace: bool
    negative_slope: float

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace(self.inplace)}"


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))`` of each element, without overflow for large ``|x|``.

    Any shape; the output has the same.

    >>> nn.LogSigmoid()(tede.tensor([-100., 0, 100]))
    tensor([-1.0000e+02, -6.9315e-01, -3.7835e-44])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.logsigmoid(input)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``: a smooth `ReLU`; `x` itself where ``beta * x > threshold``.

        beta: how sharply it bends.
        threshold: from where on the difference from x isn't computed.

    Any shape; the output has the same.

    >>> nn.Softplus()(tede.tensor([-1., 0, 30]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    __constants__ = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


@completed
class PReLU(Module):
    """``x`` above zero, ``weight * x`` below, with a weight that is learned (He et al., 2015, "Delving Deep into
    Rectifiers").

        num_parameters: 1, or the number of channels for a slope each.
        init: what the slopes begin with.
        <factory>

    Shape: (N, C, ...) -> the same; channels are dimension 1. `weight` has the shape (num_parameters,). A RuntimeError
    if that is neither 1 nor the number of channels. Weight decay would pull the slopes to zero, which isn't what is
    meant.

    >>> nn.PReLU()(tede.tensor([-1., 2]))
    tensor([-0.2500,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    __constants__ = ["num_parameters"]
    num_parameters: int

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(T.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to `init`."""
        with T.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """``x / (1 + |x|)`` of each element: between -1 and 1, slower to saturate than `Tanh`.

    Any shape; the output has the same.

    >>> nn.Softsign()(tede.tensor([-1., 0, 3]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)`` of each element.

    Any shape; the output has the same.

    >>> nn.Tanhshrink()(tede.tensor([-1., 0, 2]))
    tensor([-0.2384,  0.0000,  1.0360])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.tanhshrink(input)


class _AlongDim(Module):
    __constants__ = ["dim"]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """``exp(-x[i]) / sum over j of exp(-x[j])`` along `dim`: `Softmax` of ``-x``.

        dim: the dimension whose elements sum to 1. None chooses one by the number of dimensions, and warns.

    Any shape; the output has the same.

    >>> nn.Softmin(dim=0)(tede.tensor([1., 2, 3]))
    tensor([0.6652, 0.2447, 0.0900])
    """

    dim: int | None

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """``exp(x[i]) / sum over j of exp(x[j])`` along `dim`: positive numbers that sum to 1.

        dim: the dimension whose elements sum to 1. None chooses one by the number of dimensions, and warns.

    Any shape; the output has the same. Not for the input of `CrossEntropyLoss` (which takes logits) or `NLLLoss` (which
    takes `LogSoftmax`).

    >>> nn.Softmax(dim=0)(tede.tensor([1., 2, 3]))
    tensor([0.0900, 0.2447, 0.6652])
    """

    dim: int | None

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """``x[i] - log(sum over j of exp(x[j]))`` along `dim`: the logarithm of `Softmax`, computed without its overflow.

        dim: the dimension whose exponentials sum to 1. None chooses one by the number of dimensions, and warns.

    Any shape; the output has the same.

    >>> nn.LogSoftmax(dim=0)(tede.tensor([1., 2, 3]))
    tensor([-2.4076, -1.4076, -0.4076])
    """

    dim: int | None

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


@completed
class Softmax2d(Module):
    """`Softmax` over the channels at every position of an image.

    Shape: (N, C, H, W) or (C, H, W), the output has the same; ValueError for others.

    >>> nn.Softmax2d()(tede.zeros(1, 2, 1, 3))
    tensor([[[[0.5000, 0.5000, 0.5000]],
    <BLANKLINE>
             [[0.5000, 0.5000, 0.5000]]]])
    """

    def forward(self, input: T.Tensor) -> T.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


def __getattr__(name):
    if name == "MultiheadAttention":            # where PyTorch has it, and what its pickles name
        from .attention import MultiheadAttention
        return MultiheadAttention
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
