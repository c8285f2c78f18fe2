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


def calculate_gain(nonlinearity: str, param=None) -> float:
    """By how much initial values must be larger so that signals keep their size behind `nonlinearity`: 1 for "linear",
    "conv1d" and the like and "sigmoid", 5/3 for "tanh", ``sqrt(2)`` for "relu", ``sqrt(2 / (1 + param**2))`` for
    "leaky_relu" (param is the slope), 3/4 for "selu". ValueError for others.

    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
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
def uniform_(tensor: T.Tensor, a: float = 0.0, b: float = 1.0, generator: T.Generator | None = None) -> T.Tensor:
    """Fill with numbers drawn uniformly from `a` to `b`; gives the tensor. Nothing is recorded for gradients.

        generator: what draws; else the default one.

    >>> nn.init.uniform_(tede.empty(3), 2, 3).floor()
    tensor([2., 2., 2.])
    """
    with T.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable
def normal_(tensor: T.Tensor, mean: float = 0.0, std: float = 1.0, generator: T.Generator | None = None) -> T.Tensor:
    """Fill with numbers drawn from the normal distribution of `mean` and standard deviation `std`; gives the tensor.

        generator: what draws; else the default one.

    >>> nn.init.normal_(tede.empty(3)).shape
    tede.Size([3])
    """
    with T.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor: T.Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: T.Generator | None = None) -> T.Tensor:
    """Fill with numbers drawn from a normal distribution without what lies outside `a` to `b`; gives the tensor.

        a, b: bounds of the values, not multiples of `std`.
        generator: what draws; else the default one.

    Values are drawn again until they lie inside. Where most of the normal distribution lies outside, candidates are
    uniform on [a, b] instead, and kept with the density's probability. It warns where the mean is two deviations
    outside.

    >>> nn.init.trunc_normal_(tede.empty(100), std=0.02, a=-0.04, b=0.04).abs().max() <= 0.04
    tensor(True)
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
def constant_(tensor: T.Tensor, val: float) -> T.Tensor:
    """Fill with `val`; gives the tensor.

    >>> nn.init.constant_(tede.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    with T.no_grad():
        return tensor.fill_(val)


def ones_(tensor: T.Tensor) -> T.Tensor:
    """Fill with one; gives the tensor.

    >>> nn.init.ones_(tede.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: T.Tensor) -> T.Tensor:
    """Fill with zero; gives the tensor.

    >>> nn.init.zeros_(tede.empty(2))
    tensor([0., 0.])
    """
    with T.no_grad():
        return tensor.zero_()


def eye_(tensor: T.Tensor) -> T.Tensor:
    """Make a matrix the identity, as far as it goes: a linear layer that passes on its input. ValueError unless of 2
    dimensions.

    >>> nn.init.eye_(tede.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with T.no_grad():
        T.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor: T.Tensor, groups: int = 1) -> T.Tensor:
    """Make the weight of a convolution pass on its input, as many channels of it as there are: 1 in the window's
    centre, else 0.

        groups: those of the convolution; each is done by itself.

    ValueError unless of 3 to 5 dimensions, with the first divisible by groups.

    >>> nn.init.dirac_(tede.empty(1, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]]])
    """
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


def xavier_uniform_(tensor: T.Tensor, gain: float = 1.0, generator: T.Generator | None = None) -> T.Tensor:
    """Fill uniformly within ``±gain * sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio, 2010, "Understanding the
    difficulty of training deep feedforward neural networks").

    fan_in is the second size times the window, fan_out the first; ValueError below 2 dimensions. See `calculate_gain`.

    >>> nn.init.xavier_uniform_(tede.empty(3, 3)).abs().max() <= 1
    tensor(True)
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: T.Tensor, gain: float = 1.0, generator: T.Generator | None = None) -> T.Tensor:
    """Fill from the normal distribution of deviation ``gain * sqrt(2 / (fan_in + fan_out))`` (Glorot and Bengio, 2010,
    "Understanding the difficulty of training deep feedforward neural networks").

    fan_in is the second size times the window, fan_out the first; ValueError below 2 dimensions. See `calculate_gain`.

    >>> nn.init.xavier_normal_(tede.empty(3, 5)).shape
    tede.Size([3, 5])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor, gain):
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


@overridable
def kaiming_uniform_(tensor: T.Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: T.Generator | None = None) -> T.Tensor:
    """Fill uniformly within ``±gain * sqrt(3 / fan)`` (He et al., 2015, "Delving Deep into Rectifiers").

        a: the slope of "leaky_relu".
        mode: "fan_in" keeps the size of signals (fan: second size times the window), "fan_out" that of gradients (first
            size).
        nonlinearity: for `calculate_gain`.
        generator: what draws; else the default one.

    >>> nn.init.kaiming_uniform_(tede.empty(4, 6), nonlinearity="relu").abs().max() <= 1
    tensor(True)
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with T.no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(tensor: T.Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: T.Generator | None = None) -> T.Tensor:
    """Fill from the normal distribution of deviation ``gain / sqrt(fan)`` (He et al., 2015, "Delving Deep into
    Rectifiers").

        a, mode, nonlinearity, generator: as for `kaiming_uniform_`.

    >>> nn.init.kaiming_normal_(tede.empty(4, 6), mode="fan_out").shape
    tede.Size([4, 6])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with T.no_grad():
        return tensor.normal_(0, std, generator=generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor: T.Tensor, gain: float = 1, generator: T.Generator | None = None) -> T.Tensor:
    """Make a matrix (semi-)orthogonal, uniform among those there are (Saxe et al., 2013, "Exact solutions to the
    nonlinear dynamics of learning in deep linear neural networks"). Of more dimensions, all but the first are taken
    together.

        gain: the length of rows or columns.
        generator: what draws; else the default one.

    >>> w = nn.init.orthogonal_(tede.empty(3, 5))
    >>> (w @ w.T).allclose(tede.eye(3), atol=1e-6)
    True
    """
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


def sparse_(tensor: T.Tensor, sparsity: float, std: float = 0.01, generator: T.Generator | None = None) -> T.Tensor:
    """Fill a matrix with normal numbers, and set the part `sparsity` of each column to zero (Martens, 2010, "Deep
    learning via Hessian-free optimization"). ValueError unless of 2 dimensions.

    >>> (nn.init.sparse_(tede.empty(10, 2), 0.3) == 0).sum(0)
    tensor([3, 3])
    """
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
