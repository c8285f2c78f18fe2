"""Losses. Each takes `reduction`: "mean", "sum", or "none" for one value per element or sample.

`size_average` and `reduce` are PyTorch's older arguments for the same; they still work, with a warning.
"""
import math
import warnings

from .._native import N, T
from ._common import legacy_reduction, reduce_loss, reduction_number


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """Minus the logarithm of the probability that `softmax(input)` gives to the target class (or classes)."""
    return N.cross_entropy_loss(input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index,
                                label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the entry of `input`, log-probabilities, that belongs to the target class."""
    return N.nll_loss_nd(input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification (Graves et al., 2006): minus the log-likelihood of unaligned targets."""
    return N.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction_number(reduction),
                      zero_infinity)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """Minus the log-likelihood of counts under Poisson distributions with the (logarithms of) rates `input`."""
    number = reduction_number(reduction, size_average, reduce)
    return N.poisson_nll_loss(input, target, log_input, full, eps, number)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log-likelihood of `target` under normal distributions with means `input` and variances `var`."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * T.ones_like(input)
    elif T.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = T.unsqueeze(var, -1)
        elif not (input.ndim == var.ndim and sum(v for i, v in zip(input.size(), var.size()) if i != v) == 1):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with T.no_grad():
        var.clamp_(min=eps)                     # outside the graph: the gradient is that of the variance given
    loss = 0.5 * (T.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """``target * (log(target) - input)``: the divergence of log-probabilities `input` from `target`.

    "batchmean" is the one that divides by the number of samples, as the definition does.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    elif reduction == "mean":
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size."
                      "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                      "'mean' will be changed to behave the same as 'batchmean' in the next major release.", stacklevel=2)
    per_sample = reduction == "batchmean"
    loss = N.kl_div(input, target, reduction_number("sum" if per_sample else reduction), log_target=log_target)
    return loss / input.size(0) if per_sample and input.dim() != 0 else loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """``-(t * log(x) + (1 - t) * log(1 - x))`` for probabilities x."""
    number = reduction_number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) "
                         "is deprecated. Please ensure they have the same size.")
    if weight is not None:
        weight = weight.expand(T.broadcast_shapes(target.size(), weight.size()))
    return N.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """`binary_cross_entropy` of ``sigmoid(x)``, without its overflow."""
    number = reduction_number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return N.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """`cross_entropy` of ``linear(input, linear_weight, linear_bias)``, classes first where there are more dims."""
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    features, shape = input.shape[-1], tuple(linear_weight.shape[:-1])
    if features != linear_weight.shape[-1]:
        raise RuntimeError("expected equal input and linear_weight last dimensions (in_features), got "
                           f"{features} and {linear_weight.shape[-1]}, respectively")
    if linear_bias is not None and tuple(linear_bias.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(linear_bias.shape)}")
    if len(shape) > 1 and input.dim() == 1:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires "
                           f"batched input, (N, {features}), got unbatched input with shape {tuple(input.shape)}")
    logits_shape = (*input.shape[:-1], *shape)
    if tuple(target.shape) == logits_shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = N.linear(input, linear_weight.reshape(math.prod(shape), features), bias).reshape(logits_shape)
    return cross_entropy(logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
                         reduction=reduction, label_smoothing=label_smoothing)


def _broadcast(input, target):
    if target.size() != input.size():
        warnings.warn(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This "
                      "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                      stacklevel=3)
        return T.broadcast_tensors(input, target)
    return input, target


def _weighted(errors, weight, input, reduction, by_weight):
    """`errors` times `weight`, reduced; the mean divides by the sum of weights if `by_weight`, else by the count."""
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")
    errors = errors * weight
    if reduction == "mean" and by_weight:
        return T.sum(errors) / T.sum(weight)
    return reduce_loss(errors, reduction)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared difference."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    expanded, wanted = _broadcast(input, target)
    if weight is not None:
        return _weighted(T.pow(expanded - wanted, 2), weight, input, reduction, by_weight=True)
    return N.mse_loss(expanded, wanted, reduction_number(reduction))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute difference."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    expanded, wanted = _broadcast(input, target)
    if weight is not None:
        return _weighted(T.abs(expanded - wanted), weight, input, reduction, by_weight=True)
    return N.l1_loss(expanded, wanted, reduction_number(reduction))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``0.5 * d**2 / beta`` for differences below `beta`, ``d - 0.5 * beta`` above."""
    expanded, wanted = _broadcast(input, target)
    number = reduction_number(reduction, size_average, reduce)
    if beta == 0.0:
        return N.l1_loss(expanded, wanted, number)
    return N.smooth_l1_loss(expanded, wanted, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """``0.5 * d**2`` for differences below `delta`, ``delta * (d - 0.5 * delta)`` above."""
    expanded, wanted = _broadcast(input, target)
    if weight is None:
        return N.huber_loss(expanded, wanted, reduction_number(reduction), delta)
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    return _weighted(N.huber_loss(expanded, wanted, 0, delta), weight, input, reduction, by_weight=False)


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """``max(0, -target * (x1 - x2) + margin)``: target 1 wants x1 the larger, -1 x2."""
    number = reduction_number(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                           f"{input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    return N.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""
    return N.hinge_embedding_loss(input, target, margin, reduction_number(reduction, size_average, reduce))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Hinge loss of several target classes per sample, listed in front of the first -1 of `target`."""
    number = reduction_number(reduction, size_average, reduce)
    return N.multilabel_margin_loss(input, target, number)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * x))``."""
    return N.soft_margin_loss(input, target, reduction_number(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """`binary_cross_entropy_with_logits`, the mean over classes."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    loss = -(target * N.log_sigmoid(input) + (1 - target) * N.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    classes = input.dim() - 1
    return reduce_loss(loss.sum(dim=classes) / input.size(classes), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    return N.cosine_embedding_loss(input1, input2, target, margin, reduction_number(reduction, size_average, reduce))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Hinge loss of one target class per sample, to the power `p`."""
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return N.multi_margin_loss(input, target, p, margin, weight, number)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    """``max(0, |anchor - positive| - |anchor - negative| + margin)`` in `p`-norms."""
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return N.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """`triplet_margin_loss` with a distance of your own."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
                           f"{negative.ndim}D inputs")
    distance = N.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = T.minimum(far, distance(positive, negative))
    return reduce_loss(T.clamp_min(margin + near - far, 0), reduction)
