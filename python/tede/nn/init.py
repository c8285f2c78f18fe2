"""torch.nn.init: initial values (xavier, kaiming, orthogonal, ...), drawn in place.

Each function draws from the random stream what PyTorch's draws, in the same order, so that a model made with the same
seed starts from the same numbers.
"""
import math
import warnings

from tede._override import overridable

from ._native import T

__all__ = ["calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
           "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse", "sparse_",
           "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_"]

_PLAIN_GAIN = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
               "sigmoid")


def calculate_gain(nonlinearity, param=None):
    """By how much initial values must be larger so that signals keep their size behind `nonlinearity`."""
    if nonlinearity in _PLAIN_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


@overridable
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Draw from the uniform distribution on [a, b)."""
    with T.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Draw from a normal distribution."""
    with T.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Draw from a normal distribution without what lies outside [a, b].

    Values are drawn again until they lie inside. Where most of the normal distribution lies outside, candidates are
    uniform on [a, b] instead, and kept with the density's probability.
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
                      "incorrect.", stacklevel=2)

    def below(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    with T.no_grad():
        if below((b - mean) / std) - below((a - mean) / std) > 0.3:
            return _redraw_normal(tensor, mean, std, a, b, generator)
        return _reject_uniform(tensor, mean, std, a, b, generator)


def _redraw_normal(tensor, mean, std, a, b, generator):
    low, high = tensor.new_tensor(a, device="cpu").item(), tensor.new_tensor(b, device="cpu").item()
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        result = T.where(outside, T.empty_like(result).normal_(mean, std, generator=generator), result)
    return tensor if result is tensor else tensor.copy_(result)


def _reject_uniform(tensor, mean, std, a, b, generator):
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    scratch, chance = T.empty_like(tensor), T.empty_like(tensor)

    def rejected(values):
        log_density = scratch.copy_(values).sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return chance.uniform_(generator=generator).log_().gt(log_density)

    result = tensor.uniform_(a, b, generator=generator)
    waiting = rejected(result)
    candidates = T.empty_like(tensor)
    while waiting.any():
        candidates.uniform_(a, b, generator=generator)
        result = T.where(waiting, candidates, result)
        waiting = T.where(waiting, rejected(candidates), waiting)
    return tensor if result is tensor else tensor.copy_(result)


@overridable
def constant_(tensor, val):
    """Fill with `val`."""
    with T.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fill with one."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Fill with zero."""
    with T.no_grad():
        return tensor.zero_()


def eye_(tensor):
    """The identity matrix: a linear layer that passes on its input."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with T.no_grad():
        T.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor, groups=1):
    """A convolution that passes on its input, as many channels of it as there are."""
    rank = tensor.ndimension()
    if rank not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    channels = sizes[0] // groups
    centre = tuple(size // 2 for size in sizes[2:])
    with T.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(channels, sizes[1])):
                tensor[(group * channels + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.size(1) * window, tensor.size(0) * window


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform, with variance ``2 * gain**2 / (fan_in + fan_out)`` (Glorot & Bengio, 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal, with variance ``2 * gain**2 / (fan_in + fan_out)`` (Glorot & Bengio, 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor, gain):
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


@overridable
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform, with variance ``gain**2 / fan`` (He et al., 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with T.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal, with variance ``gain**2 / fan`` (He et al., 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with T.no_grad():
        return tensor.normal_(0, std, generator=generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix, uniform among them (Saxe et al., 2013): Q of a QR of normal values."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flat.t_()
    q, r = T.linalg.qr(flat)
    q *= T.diag(r, 0).sign()                    # without it Q would not be uniform (Mezzadri, 2006)
    if rows < columns:
        q.t_()
    with T.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal values, with the fraction `sparsity` of each column set to zero (Martens, 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with T.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[T.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function):
    old, new = function.__name__[:-1], function.__name__

    def renamed(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    renamed.__name__, renamed.__doc__ = old, f"`{new}` by its old name."
    return renamed


uniform, normal, constant, eye, dirac = map(_deprecated, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_deprecated, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_deprecated, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_deprecated, (orthogonal_, sparse_))

# Names without meaning here that programs import nevertheless.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
