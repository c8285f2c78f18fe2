"""Normalisation, dropout and embeddings."""
import warnings

from .._native import N, T
from .vision import pad


def _verify_batch_size(size):
    count = size[0]
    for n in size[2:]:
        count *= n
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(input: T.Tensor, running_mean: T.Tensor | None, running_var: T.Tensor | None,
               weight: T.Tensor | None = None, bias: T.Tensor | None = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> T.Tensor:
    """``(x - mean) / sqrt(var + eps) * weight[c] + bias[c]`` for each channel c: by the batch's mean and variance if
    `training`, else by the running ones.

        input: (N, C, ...).
        running_mean, running_var: (C); training moves them in place: ``(1 - momentum) * running + momentum * seen``.
        weight, bias: (C), or None.
        eps: keeps the root away from zero.

    ValueError if a training batch has one value per channel.

    >>> F.batch_norm(tede.tensor([[1.], [3]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return N.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(input: T.Tensor, running_mean: T.Tensor | None = None, running_var: T.Tensor | None = None,
                  weight: T.Tensor | None = None, bias: T.Tensor | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> T.Tensor:
    """``(x - mean) / sqrt(var + eps) * weight[c] + bias[c]`` by the mean and variance of each channel of each sample;
    with use_input_stats=False by the running ones.

        input: (N, C, ...), more than one element a channel (ValueError).
        running_mean, running_var: (C), moved by the batch's mean of them; or None.
        weight, bias: (C), or None.

    >>> F.instance_norm(tede.tensor([[[1., 3]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats:
        size, count = input.size(), 1
        for n in size[2:]:
            count *= n
        if count == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")
    return N.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def layer_norm(input: T.Tensor, normalized_shape: int | list[int] | tuple[int, ...], weight: T.Tensor | None = None,
               bias: T.Tensor | None = None, eps: float = 1e-5) -> T.Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions, those of `normalized_shape`, a list of
    their sizes.

        weight, bias: of that shape, or None.

    >>> F.layer_norm(tede.tensor([[1., 2, 3, 4]]), [4])
    tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
    """
    return N.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input: T.Tensor, normalized_shape: int | list[int] | tuple[int, ...], weight: T.Tensor | None = None,
             eps: float | None = None) -> T.Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimensions, those of `normalized_shape`.

        weight: of that shape, or None.
        eps: None is the smallest step of the input's dtype.

    >>> F.rms_norm(tede.tensor([[3., 4]]), [2])
    tensor([[0.8485, 1.1314]])
    """
    return N.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input: T.Tensor, num_groups: int, weight: T.Tensor | None = None, bias: T.Tensor | None = None,
               eps: float = 1e-5) -> T.Tensor:
    """``(x - mean) / sqrt(var + eps) * weight[c] + bias[c]`` by the mean and variance of each sample's groups of
    channels.

        input: (N, C, ...).
        num_groups: C must be divisible by it.
        weight, bias: (C), or None.

    >>> F.group_norm(tede.tensor([[1., 3, 5, 9]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _verify_batch_size([input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]])
    return N.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input: T.Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75,
                        k: float = 1.0) -> T.Tensor:
    """``x / (k + alpha / size * sum of squares of size neighbouring channels) ** beta``, of (N, C, ...), 3 dimensions
    at least (ValueError).

    >>> F.local_response_norm(tede.ones(1, 4, 3), size=2).shape
    tede.Size([1, 4, 3])
    """
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    squares, around = input.mul(input), (size // 2, (size - 1) // 2)
    if dim == 3:
        mean = N.avg_pool2d(pad(squares.unsqueeze(1), (0, 0, *around)), (size, 1), stride=1).squeeze(1)
    else:
        shape = input.size()
        squares = squares.view(shape[0], 1, shape[1], shape[2], -1)
        mean = N.avg_pool3d(pad(squares, (0, 0, 0, 0, *around)), (size, 1, 1), stride=1).squeeze(1).view(shape)
    return input / mean.mul(alpha).add(k).pow(beta)


def normalize(input: T.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
              out: T.Tensor | None = None) -> T.Tensor:
    """``input / max(||input||_p, eps)`` along `dim`: vectors of length one.

        out: a tensor for the result.

    >>> F.normalize(tede.tensor([[3., 4]]))
    tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return T.div(input, norm.clamp_min_(eps).expand_as(input), out=out)


# Dropout --------------------------------------------------------------------------------------------------------

def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: T.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> T.Tensor:
    """Zero each element with probability `p` and multiply the others by ``1 / (1 - p)``; nothing unless `training`.

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    `training` is True here and doesn't follow a module: pass ``self.training`` in a `forward`.

    >>> sorted(set(F.dropout(tede.ones(100), 0.5).tolist()))
    [0.0, 2.0]
    """
    _check_probability(p)
    return N.dropout_(input, p, training) if inplace else N.dropout(input, p, training)


def alpha_dropout(input: T.Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> T.Tensor:
    """Dropout for networks with `selu`: mean 0 and variance 1 stay. Nothing unless `training`, which is False here.

        p: from 0 to 1, else a ValueError.
        inplace: overwrite the input.

    >>> F.alpha_dropout(tede.randn(4), 0.2, training=True).shape
    tede.Size([4])
    """
    _check_probability(p)
    return N.alpha_dropout_(input, p, training) if inplace else N.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: T.Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> T.Tensor:
    """`alpha_dropout` of whole channels of (N, C, ...).

        p, training, inplace: as there.

    >>> F.feature_alpha_dropout(tede.randn(4, 3, 8), 0.2, training=True).shape
    tede.Size([4, 3, 8])
    """
    _check_probability(p)
    return N.feature_alpha_dropout_(input, p, training) if inplace else N.feature_alpha_dropout(input, p, training)


def _drop_channels(input, p, training, inplace):
    return N.feature_dropout_(input, p, training) if inplace else N.feature_dropout(input, p, training)


def _drop_unbatched(input, p, training, inplace):
    """Whole channels of an input without a batch dimension."""
    input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _drop_channels(input, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout1d(input: T.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> T.Tensor:
    """Zero whole channels of (N, C, L) or (C, L) with probability `p`, and multiply the others by ``1 / (1 - p)``.

        p, training, inplace: as for `dropout`.

    >>> F.dropout1d(tede.ones(4, 3, 10), 0.5).std(-1).max()
    tensor(0.)
    """
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d "
                           "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
                           "dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return (_drop_channels if input.dim() == 3 else _drop_unbatched)(input, p, training, inplace)


def _warn_rank(name, n, dim):
    warnings.warn(f"{name}: Received a {dim}-D input to {name}, which is deprecated and will result in an error in a "
                  "future release. To retain the behavior and silence this warning, please use dropout instead. Note "
                  f"that {name} exists to provide channel-wise dropout on inputs with {n} spatial dimensions, a channel "
                  f"dimension, and an optional batch dimension (i.e. {n + 1}D or {n + 2}D inputs).", stacklevel=3)


def dropout2d(input: T.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> T.Tensor:
    """Zero whole channels of (N, C, H, W) with probability `p`, and multiply the others by ``1 / (1 - p)``. An input of
    3 dimensions is taken for (N, C, L), with a warning, as in PyTorch.

        p, training, inplace: as for `dropout`.

    >>> F.dropout2d(tede.ones(4, 3, 5, 5), 0.5).std((-2, -1)).max()
    tensor(0.)
    """
    _check_probability(p)
    if input.dim() not in (3, 4):
        _warn_rank("dropout2d", 2, input.dim())
    if input.dim() == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is "
                      "desired - input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will "
                      "change in a future release to interpret the input as one without a batch dimension, i.e. shape "
                      "(C, H, W). To maintain the 1D channel-wise dropout behavior, please switch to using dropout1d "
                      "instead.", stacklevel=2)
    return _drop_channels(input, p, training, inplace)


def dropout3d(input: T.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> T.Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability `p`, and multiply the others by ``1 / (1
    - p)``.

        p, training, inplace: as for `dropout`.

    >>> F.dropout3d(tede.ones(2, 3, 4, 4, 4), 0.2).shape
    tede.Size([2, 3, 4, 4, 4])
    """
    _check_probability(p)
    if input.dim() not in (4, 5):
        _warn_rank("dropout3d", 3, input.dim())
    return (_drop_channels if input.dim() == 5 else _drop_unbatched)(input, p, training, inplace)


# Embeddings -----------------------------------------------------------------------------------------------------

def embedding(input: T.Tensor, weight: T.Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> T.Tensor:
    """``weight[input]``: rows of a matrix by number.

        input: (*) of int32 or int64, from 0 to rows - 1 (IndexError).
        weight: (rows, D).
        padding_idx: a row that gets no gradient.
        max_norm, norm_type: rows that are used are first scaled down, in place, to this p-norm.
        scale_grad_by_freq: divide a row's gradient by how often the batch names it.
        sparse: the weight's gradient is a sparse tensor.

    -> (*, D).

    >>> F.embedding(tede.tensor([2, 0]), tede.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding_idx += rows
    if max_norm is not None:
        input = input.contiguous()
        N.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return N.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def embedding_bag(input: T.Tensor, weight: T.Tensor, offsets: T.Tensor | None = None, max_norm: float | None = None,
                  norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: T.Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> T.Tensor:
    """Sums, means or maxima of bags of rows of `weight`, without the rows in between.

        input: (B, n), a bag each row; or (n), with bag k beginning at offsets[k].
        weight: (rows, D).
        mode: "sum", "mean" or "max".
        per_sample_weights: of the input's shape, multiply the rows; for "sum" (NotImplementedError else).
        include_last_offset: offsets has one more element, the end of the last bag.
        padding_idx: a row that counts in no bag.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for `embedding`.

    -> (B, D).

    >>> F.embedding_bag(tede.tensor([0, 2, 1]), tede.eye(3), tede.tensor([0, 2]), mode="sum")
    tensor([[1., 0., 1.],
            [0., 1., 0.]])
    """
    if weight.dtype == T.long and input.is_floating_point():
        warnings.warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, "
                      "...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must "
                         f"have the same shape as the input ({input.shape})")
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed "
                             f"length sequences. However, found offsets of type {type(offsets)}")
        offsets = T.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        include_last_offset, input = False, input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    modes = {"sum": 0, "mean": 1, "max": 2}
    if mode not in modes:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        N.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
                                  f"for mode='sum' (got mode='{mode}').")
    return N.embedding_bag(weight, input, offsets, scale_grad_by_freq, modes[mode], sparse, per_sample_weights,
                           include_last_offset, padding_idx)[0]
