"""Activations: elementwise functions, and softmax with its kin."""
import warnings

from .._native import N, T


def relu(input, inplace=False):
    """``max(0, x)``, elementwise."""
    return N.relu_(input) if inplace else N.relu(input)


def relu6(input, inplace=False):
    """``min(max(0, x), 6)``, elementwise."""
    return N.relu6_(input) if inplace else N.relu6(input)


def threshold(input, threshold, value, inplace=False):
    """``x`` where it is above `threshold`, elsewhere `value`."""
    return N.threshold_(input, threshold, value) if inplace else N.threshold(input, threshold, value)


def glu(input, dim=-1):
    """The first half along `dim` times the sigmoid of the second."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return N.glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """``x`` held between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return N.hardtanh_(input, min_val, max_val) if inplace else N.hardtanh(input, min_val, max_val)


def elu(input, alpha=1.0, inplace=False):
    """``x`` above zero, ``alpha * (exp(x) - 1)`` below."""
    return N.elu_(input, alpha) if inplace else N.elu(input, alpha)


def selu(input, inplace=False):
    """A scaled `elu` whose outputs keep mean zero and variance one (Klambauer et al., 2017)."""
    return N.selu_(input) if inplace else N.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``, elementwise."""
    return N.celu_(input, alpha) if inplace else N.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` above zero, ``negative_slope * x`` below."""
    return N.leaky_relu_(input, negative_slope) if inplace else N.leaky_relu(input, negative_slope)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """`leaky_relu` with a slope drawn from [lower, upper) for each element; their mean when not training."""
    return N.rrelu_(input, lower, upper, training) if inplace else N.rrelu(input, lower, upper, training)


def hardsigmoid(input, inplace=False):
    """``x / 6 + 1/2`` held between 0 and 1."""
    return N.hardsigmoid_(input) if inplace else N.hardsigmoid(input)


def hardswish(input, inplace=False):
    """``x * hardsigmoid(x)``, elementwise."""
    return N.hardswish_(input) if inplace else N.hardswish(input)


def silu(input, inplace=False):
    """``x * sigmoid(x)``, elementwise."""
    return N.silu_(input) if inplace else N.silu(input)


def mish(input, inplace=False):
    """``x * tanh(softplus(x))``, elementwise."""
    return N.mish_(input) if inplace else N.mish(input)


def tanhshrink(input):
    """``x - tanh(x)``, elementwise."""
    return input - input.tanh()


def softsign(input):
    """``x / (1 + |x|)``, elementwise."""
    return input / (input.abs() + 1)


def tanh(input):
    """The hyperbolic tangent, elementwise."""
    return input.tanh()


def sigmoid(input):
    """``1 / (1 + exp(-x))``, elementwise."""
    return input.sigmoid()


def _get_softmax_dim(name, ndim, stacklevel):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
                  "argument.", stacklevel=stacklevel + 1)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """``exp(x) / sum(exp(x))`` along `dim`, computed in `dtype` where one is given."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """`softmax` of ``-x``."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of `softmax`, without its overflow."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of a softened categorical distribution (Jang et al., 2016); `hard` gives one-hot rows.

    The gradient is that of the soft sample either way.
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
