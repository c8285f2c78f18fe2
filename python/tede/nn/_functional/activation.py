"""Activations: elementwise functions, and softmax with its kin."""
import warnings

from .._native import N, T


def relu(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``max(0, input)``, elementwise; with inplace=True it overwrites the input.

    >>> F.relu(tede.tensor([-1., 0, 2]))
    tensor([0., 0., 2.])
    """
    return N.relu_(input) if inplace else N.relu(input)


def relu6(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``min(max(0, input), 6)``, elementwise; with inplace=True it overwrites the input.

    >>> F.relu6(tede.tensor([-1., 3, 8]))
    tensor([0., 3., 6.])
    """
    return N.relu6_(input) if inplace else N.relu6(input)


def threshold(input: T.Tensor, threshold: float, value: T.Tensor, inplace: bool = False) -> T.Tensor:
    """The input where it is above `threshold`, elsewhere `value`; with inplace=True it overwrites the input.

    >>> F.threshold(tede.tensor([0.5, 3]), 1, 20)
    tensor([20.,  3.])
    """
    return N.threshold_(input, threshold, value) if inplace else N.threshold(input, threshold, value)


def glu(input: T.Tensor, dim: int = -1) -> T.Tensor:
    """``a * sigmoid(b)``, where a and b are the halves of the input along `dim`, whose size must be even
    (RuntimeError).

    >>> F.glu(tede.tensor([1., 2, 0, 0]))
    tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return N.glu(input, dim)


def hardtanh(input: T.Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> T.Tensor:
    """The input held between `min_val` and `max_val`, a ValueError if these aren't in order; with inplace=True it
    overwrites the input.

    >>> F.hardtanh(tede.tensor([-3., 0.5, 3]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return N.hardtanh_(input, min_val, max_val) if inplace else N.hardtanh(input, min_val, max_val)


def elu(input: T.Tensor, alpha: float = 1.0, inplace: bool = False) -> T.Tensor:
    """The input above zero, ``alpha * (exp(input) - 1)`` below; with inplace=True it overwrites the input.

    >>> F.elu(tede.tensor([-1., 0, 2]))
    tensor([-0.6321,  0.0000,  2.0000])
    """
    return N.elu_(input, alpha) if inplace else N.elu(input, alpha)


def selu(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``1.0507 * (x if x > 0 else 1.6733 * (exp(x) - 1))``, elementwise: outputs of layers drift to mean 0 and variance
    1 (Klambauer et al., 2017, "Self-Normalizing Neural Networks"). With inplace=True it overwrites the input.

    >>> F.selu(tede.tensor([-1., 0, 1]))
    tensor([-1.1113,  0.0000,  1.0507])
    """
    return N.selu_(input) if inplace else N.selu(input)


def celu(input: T.Tensor, alpha: float = 1.0, inplace: bool = False) -> T.Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``, elementwise; with inplace=True it overwrites the input.

    >>> F.celu(tede.tensor([-1., 0, 2]), alpha=2.0)
    tensor([-0.7869,  0.0000,  2.0000])
    """
    return N.celu_(input, alpha) if inplace else N.celu(input, alpha)


def leaky_relu(input: T.Tensor, negative_slope: float = 0.01, inplace: bool = False) -> T.Tensor:
    """The input above zero, ``negative_slope * input`` below; with inplace=True it overwrites the input.

    >>> F.leaky_relu(tede.tensor([-1., 2]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return N.leaky_relu_(input, negative_slope) if inplace else N.leaky_relu(input, negative_slope)


def rrelu(input: T.Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> T.Tensor:
    """The input above zero; below, it times a slope that is drawn from `lower` to `upper` for each element if
    `training`, else is their mean.

    With inplace=True it overwrites the input.

    >>> F.rrelu(tede.tensor([-1., 2]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return N.rrelu_(input, lower, upper, training) if inplace else N.rrelu(input, lower, upper, training)


def hardsigmoid(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``input / 6 + 1/2`` held between 0 and 1; with inplace=True it overwrites the input.

    >>> F.hardsigmoid(tede.tensor([-4., 0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return N.hardsigmoid_(input) if inplace else N.hardsigmoid(input)


def hardswish(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``input * hardsigmoid(input)``, elementwise; with inplace=True it overwrites the input.

    >>> F.hardswish(tede.tensor([-4., 1, 4]))
    tensor([-0.0000, 0.6667, 4.0000])
    """
    return N.hardswish_(input) if inplace else N.hardswish(input)


def silu(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``input * sigmoid(input)``, elementwise; with inplace=True it overwrites the input.

    >>> F.silu(tede.tensor([-1., 0, 2]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    return N.silu_(input) if inplace else N.silu(input)


def mish(input: T.Tensor, inplace: bool = False) -> T.Tensor:
    """``input * tanh(softplus(input))``, elementwise; with inplace=True it overwrites the input.

    >>> F.mish(tede.tensor([-1., 0, 2]))
    tensor([-0.3034,  0.0000,  1.9440])
    """
    return N.mish_(input) if inplace else N.mish(input)


def tanhshrink(input: T.Tensor) -> T.Tensor:
    """``input - tanh(input)``, elementwise.

    >>> F.tanhshrink(tede.tensor([-1., 0, 2]))
    tensor([-0.2384,  0.0000,  1.0360])
    """
    return input - input.tanh()


def softsign(input: T.Tensor) -> T.Tensor:
    """``input / (1 + |input|)``, elementwise.

    >>> F.softsign(tede.tensor([-1., 0, 3]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    return input / (input.abs() + 1)


def tanh(input: T.Tensor) -> T.Tensor:
    """The hyperbolic tangent, elementwise; as `tede.tanh`.

    >>> F.tanh(tede.tensor([-1., 0, 1]))
    tensor([-0.7616,  0.0000,  0.7616])
    """
    return input.tanh()


def sigmoid(input: T.Tensor) -> T.Tensor:
    """``1 / (1 + exp(-input))``, elementwise; as `tede.sigmoid`.

    >>> F.sigmoid(tede.tensor([-1., 0, 1]))
    tensor([0.2689, 0.5000, 0.7311])
    """
    return input.sigmoid()


def _get_softmax_dim(name, ndim, stacklevel):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
                  "argument.", stacklevel=stacklevel + 1)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: T.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: T.dtype | None = None) -> T.Tensor:
    """``exp(x[i]) / sum over j of exp(x[j])`` along `dim`: positive numbers that sum to 1.

        dim: None chooses 0 or 1 by the number of dimensions, and warns.
        dtype: convert to this first; for halves, say, whose sums would overflow.

    >>> F.softmax(tede.tensor([1., 2, 3]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: T.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: T.dtype | None = None) -> T.Tensor:
    """`softmax` of ``-input``.

        dim, dtype: as there.

    >>> F.softmin(tede.tensor([1., 2, 3]), dim=0)
    tensor([0.6652, 0.2447, 0.0900])
    """
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input: T.Tensor, dim: int | None = None, _stacklevel: int = 3,
                dtype: T.dtype | None = None) -> T.Tensor:
    """``x[i] - log(sum over j of exp(x[j]))`` along `dim`: the logarithm of `softmax` without its overflow.

        dim, dtype: as there.

    >>> F.log_softmax(tede.tensor([1., 2, 3]), dim=0)
    tensor([-2.4076, -1.4076, -0.4076])
    """
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits: T.Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> T.Tensor:
    """A sample of a softened categorical distribution: ``softmax((logits + noise) / tau)`` along `dim`, with noise from
    the Gumbel distribution (Jang et al., 2016, "Categorical Reparameterization with Gumbel-Softmax").

        logits: log-probabilities, up to a constant.
        tau: the smaller, the nearer to one-hot.
        hard: give one-hot vectors, with the gradient of the soft sample.
        eps: has no effect; it warns.

    >>> F.gumbel_softmax(tede.randn(4, 3), hard=True).sum(-1)
    tensor([1., 1., 1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -T.empty_like(logits, memory_format=T.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = T.zeros_like(logits, memory_format=T.contiguous_format).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
