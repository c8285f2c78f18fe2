"""Losses. Each takes `reduction`: "mean", "sum", or "none" for one value per element or sample.

`size_average` and `reduce` are PyTorch's older arguments for the same; they still work, with a warning.
"""
import math
import warnings
from collections.abc import Callable
from typing import Any

from .._native import N, T
from ._common import legacy_reduction, reduce_loss, reduction_number
from ..._docs import completed


@completed
def cross_entropy(input: T.Tensor, target: T.Tensor, weight: T.Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> T.Tensor:
    """``-log softmax(input)[target]``, reduced: the loss of a classifier's logits.

        input: (N, C), (C,) or (N, C, d1, ...).
        target: classes, (N), () or (N, d1, ...) of int64 from 0 to C - 1; or probabilities in the input's shape.
        weight: a factor for each class, (C,); the mean is then weighted.
        ignore_index: a target that doesn't count.
        label_smoothing: that part of the target is spread over all classes.
        <reduction>

    >>> F.cross_entropy(tede.tensor([[2., 0, 0]]), tede.tensor([0]))
    tensor(0.2395)
    """
    return N.cross_entropy_loss(input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index,
                                label_smoothing)


@completed
def nll_loss(input: T.Tensor, target: T.Tensor, weight: T.Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> T.Tensor:
    """``-weight[target] * input[target]``, reduced, for log-probabilities: what `cross_entropy` is after `log_softmax`.

        input: (N, C), (C,) or (N, C, d1, ...).
        target: classes, (N), () or (N, d1, ...) of int64.
        weight: a factor for each class, (C,); the mean is then weighted.
        ignore_index: a target that doesn't count.
        <reduction>

    >>> F.nll_loss(tede.tensor([[0.7, 0.3]]).log(), tede.tensor([0]))
    tensor(0.3567)
    """
    return N.nll_loss_nd(input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index)


@completed
def ctc_loss(log_probs: T.Tensor, targets: T.Tensor, input_lengths: T.Tensor | tuple[int, ...],
             target_lengths: T.Tensor | tuple[int, ...], blank: int = 0, reduction: str = "mean",
             zero_infinity: bool = False) -> T.Tensor:
    """Minus the log-probability of targets under all alignments with their inputs (Graves et al., 2006, "Connectionist
    Temporal Classification").

        log_probs: (T, N, C), or (T, C), from `log_softmax`.
        targets: (N, S), or all behind each other in one dimension, without blanks.
        input_lengths, target_lengths: (N) each; tensors or tuples of ints.
        blank: the class that stands for no symbol.
        zero_infinity: zero instead of an infinite loss, and its gradient.
        <reduction_only>

    "mean" divides each loss by its target's length first.

    >>> log_probs = tede.zeros(4, 1, 3).log_softmax(-1)
    >>> F.ctc_loss(log_probs, tede.tensor([[1, 2]]), (4,), (2,))
    tensor(0.8432)
    """
    return N.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction_number(reduction),
                      zero_infinity)


@completed
def poisson_nll_loss(input: T.Tensor, target: T.Tensor, log_input: T.Tensor = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> T.Tensor:
    """Minus the log-likelihood of counts: ``exp(input) - target * input``, or with log_input=False ``input - target *
    log(input + eps)``.

        full: add Stirling's approximation of ``log(target!)``.
        <reduction>

    >>> F.poisson_nll_loss(tede.tensor([0., 1]), tede.tensor([1., 3]))
    tensor(0.3591)
    """
    number = reduction_number(reduction, size_average, reduce)
    return N.poisson_nll_loss(input, target, log_input, full, eps, number)


@completed
def gaussian_nll_loss(input: T.Tensor, target: T.Tensor, var: T.Tensor, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> T.Tensor:
    """``(log(max(var, eps)) + (input - target)**2 / max(var, eps)) / 2``, reduced.

        var: in the input's shape, that without the last dimension or with 1 there, or a number; ValueError where
            negative.
        full: add ``log(2 * pi) / 2``.
        <reduction_only>

    >>> F.gaussian_nll_loss(tede.tensor([0., 1]), tede.tensor([1., 1]), 1.0)
    tensor(0.2500)
    """
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


@completed
def kl_div(input: T.Tensor, target: T.Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> T.Tensor:
    """``target * (log(target) - input)``, reduced: the divergence of log-probabilities `input` from `target`.

        log_target: whether the target is log-probabilities, too.
        <reduction>

    "batchmean" divides by the number of samples, as the definition does; "mean", which divides by all elements, warns.

    >>> F.kl_div(tede.tensor([[0.5, 0.5]]).log(), tede.tensor([[0.9, 0.1]]), reduction="batchmean")
    tensor(0.3681)
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


@completed
def binary_cross_entropy(input: T.Tensor, target: T.Tensor, weight: T.Tensor | None = None,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> T.Tensor:
    """``-weight * (target * log(input) + (1 - target) * log(1 - input))``, reduced, for probabilities; logarithms are
    held above -100.

        target: of the input's shape, else a ValueError.
        weight: broadcast to it.
        <reduction>

    >>> F.binary_cross_entropy(tede.tensor([0.8, 0.3]), tede.tensor([1., 0]))
    tensor(0.2899)
    """
    number = reduction_number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) "
                         "is deprecated. Please ensure they have the same size.")
    if weight is not None:
        weight = weight.expand(T.broadcast_shapes(target.size(), weight.size()))
    return N.binary_cross_entropy(input, target, weight, number)


@completed
def binary_cross_entropy_with_logits(input: T.Tensor, target: T.Tensor, weight: T.Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None,
                                     reduction: str = "mean", pos_weight: T.Tensor | None = None) -> T.Tensor:
    """`binary_cross_entropy` of ``sigmoid(input)``, without losing digits.

        target: of the input's shape, else a ValueError; floating point numbers.
        weight: a factor for each element, broadcast.
        pos_weight: a factor for positive targets, broadcast.
        <reduction>

    >>> F.binary_cross_entropy_with_logits(tede.tensor([2., -1]), tede.tensor([1., 0]))
    tensor(0.2201)
    """
    number = reduction_number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return N.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


@completed
def linear_cross_entropy(input: T.Tensor, linear_weight: T.Tensor, target: T.Tensor, *,
                         linear_bias: T.Tensor | None = None, weight: T.Tensor | None = None, reduction: str = "mean",
                         ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None) -> T.Tensor:
    """`cross_entropy` of ``linear(input, linear_weight, linear_bias)``.

        input: (N, features) or (features).
        linear_weight: (C, features), or (C, d1, ..., features) for logits (N, C, d1, ...).
        target, weight, ignore_index, label_smoothing: as for `cross_entropy`.
        linear_bias: of linear_weight's shape without features.
        options: a `LinearCrossEntropyOptions`; it changes nothing here.
        <reduction_only>

    >>> F.linear_cross_entropy(tede.ones(2, 4), tede.zeros(3, 4), tede.tensor([0, 2]))
    tensor(1.0986)
    """
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


@completed
def mse_loss(input: T.Tensor, target: T.Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: T.Tensor | None = None) -> T.Tensor:
    """``weight * (input - target)**2``, reduced. Shapes that differ broadcast, with a warning.

        <reduction>
        weight: of the input's shape; the mean divides by its sum.

    >>> F.mse_loss(tede.tensor([1., 2]), tede.tensor([3., 2]))
    tensor(2.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    expanded, wanted = _broadcast(input, target)
    if weight is not None:
        return _weighted(T.pow(expanded - wanted, 2), weight, input, reduction, by_weight=True)
    return N.mse_loss(expanded, wanted, reduction_number(reduction))


@completed
def l1_loss(input: T.Tensor, target: T.Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: T.Tensor | None = None) -> T.Tensor:
    """``weight * |input - target|``, reduced. Shapes that differ broadcast, with a warning.

        <reduction>
        weight: of the input's shape; the mean divides by its sum.

    >>> F.l1_loss(tede.tensor([1., 2]), tede.tensor([3., 2]))
    tensor(1.)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    expanded, wanted = _broadcast(input, target)
    if weight is not None:
        return _weighted(T.abs(expanded - wanted), weight, input, reduction, by_weight=True)
    return N.l1_loss(expanded, wanted, reduction_number(reduction))


@completed
def smooth_l1_loss(input: T.Tensor, target: T.Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> T.Tensor:
    """``d**2 / (2 * beta)`` where ``d = |input - target| < beta``, else ``d - beta / 2``, reduced.

        <reduction>

    >>> F.smooth_l1_loss(tede.tensor([0.5, 3]), tede.zeros(2))
    tensor(1.3125)
    """
    expanded, wanted = _broadcast(input, target)
    number = reduction_number(reduction, size_average, reduce)
    if beta == 0.0:
        return N.l1_loss(expanded, wanted, number)
    return N.smooth_l1_loss(expanded, wanted, number, beta)


@completed
def huber_loss(input: T.Tensor, target: T.Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: T.Tensor | None = None) -> T.Tensor:
    """``d**2 / 2`` where ``d = |input - target| < delta``, else ``delta * (d - delta / 2)``, reduced.

        <reduction_only>
        weight: of the input's shape; the mean still divides by the number of elements.

    >>> F.huber_loss(tede.tensor([0.5, 3]), tede.zeros(2))
    tensor(1.3125)
    """
    expanded, wanted = _broadcast(input, target)
    if weight is None:
        return N.huber_loss(expanded, wanted, reduction_number(reduction), delta)
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    return _weighted(N.huber_loss(expanded, wanted, 0, delta), weight, input, reduction, by_weight=False)


@completed
def margin_ranking_loss(input1: T.Tensor, input2: T.Tensor, target: T.Tensor, margin: float = 0,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> T.Tensor:
    """``max(0, -target * (input1 - input2) + margin)``, reduced: where the target is 1 input1 is to be the larger,
    where -1 input2.

        <reduction>

    >>> F.margin_ranking_loss(tede.tensor([1., 2]), tede.tensor([0., 3]), tede.tensor([1, 1]))
    tensor(0.5000)
    """
    number = reduction_number(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                           f"{input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    return N.margin_ranking_loss(input1, input2, target, margin, number)


@completed
def hinge_embedding_loss(input: T.Tensor, target: T.Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> T.Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1, reduced.

        <reduction>

    >>> F.hinge_embedding_loss(tede.tensor([0.2, 0.3]), tede.tensor([1, -1]))
    tensor(0.4500)
    """
    return N.hinge_embedding_loss(input, target, margin, reduction_number(reduction, size_average, reduce))


@completed
def multilabel_margin_loss(input: T.Tensor, target: T.Tensor, size_average: bool | None = None,
                           reduce: bool | None = None, reduction: str = "mean") -> T.Tensor:
    """``sum over targets y, others j of max(0, 1 - (x[y] - x[j])) / C``, reduced.

        input: (N, C) or (C).
        target: the same, of int64: classes, then -1 behind the last.
        <reduction>

    >>> F.multilabel_margin_loss(tede.tensor([0.1, 0.2, 0.4, 0.8]), tede.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """
    number = reduction_number(reduction, size_average, reduce)
    return N.multilabel_margin_loss(input, target, number)


@completed
def soft_margin_loss(input: T.Tensor, target: T.Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> T.Tensor:
    """``log(1 + exp(-target * input))``, reduced; targets are 1 or -1.

        <reduction>

    >>> F.soft_margin_loss(tede.tensor([2., -1]), tede.tensor([1., -1]))
    tensor(0.2201)
    """
    return N.soft_margin_loss(input, target, reduction_number(reduction, size_average, reduce))


@completed
def multilabel_soft_margin_loss(input: T.Tensor, target: T.Tensor, weight: T.Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> T.Tensor:
    """The mean over classes, the last dimension, of `binary_cross_entropy_with_logits`, reduced.

        weight: a factor for each class, (C,).
        <reduction>

    >>> F.multilabel_soft_margin_loss(tede.tensor([[2., -1]]), tede.tensor([[1., 0]]))
    tensor(0.2201)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    loss = -(target * N.log_sigmoid(input) + (1 - target) * N.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    classes = input.dim() - 1
    return reduce_loss(loss.sum(dim=classes) / input.size(classes), reduction)


@completed
def cosine_embedding_loss(input1: T.Tensor, input2: T.Tensor, target: T.Tensor, margin: float = 0,
                          size_average: bool | None = None, reduce: bool | None = None,
                          reduction: str = "mean") -> T.Tensor:
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1, reduced.

        input1, input2: (N, D) or (D).
        target: (N) or ().
        <reduction>

    >>> F.cosine_embedding_loss(tede.tensor([[1., 0]]), tede.tensor([[1., 1]]), tede.tensor([1]))
    tensor(0.2929)
    """
    return N.cosine_embedding_loss(input1, input2, target, margin, reduction_number(reduction, size_average, reduce))


@completed
def multi_margin_loss(input: T.Tensor, target: T.Tensor, p: float = 1, margin: float = 1.0,
                      weight: T.Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                      reduction: str = "mean") -> T.Tensor:
    """``sum over j != y of weight[y] * max(0, margin - x[y] + x[j])**p / C``, reduced.

        input: (N, C) or (C).
        target: (N) or () of int64.
        p: 1 or 2, else a ValueError.
        weight: a factor for each class, (C,).
        <reduction>

    >>> F.multi_margin_loss(tede.tensor([[0.1, 0.2, 0.4, 0.8]]), tede.tensor([3]))
    tensor(0.3250)
    """
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return N.multi_margin_loss(input, target, p, margin, weight, number)


@completed
def triplet_margin_loss(anchor: T.Tensor, positive: T.Tensor, negative: T.Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> T.Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, reduced, for ``d(x, y) = ||x - y + eps||_p``.

        margin: above 0, else a ValueError.
        swap: take the negative's distance to the positive, if that is less than to the anchor.
        <reduction>

    >>> F.triplet_margin_loss(tede.tensor([[0., 0]]), tede.tensor([[1., 0]]), tede.tensor([[0., 1.5]]))
    tensor(0.5000)
    """
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return N.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


@completed
def triplet_margin_with_distance_loss(anchor: T.Tensor, positive: T.Tensor, negative: T.Tensor, *,
                                      distance_function: Callable[[T.Tensor, T.Tensor], T.Tensor] | None = None,
                                      margin: float = 1.0, swap: bool = False, reduction: str = "mean") -> T.Tensor:
    """`triplet_margin_loss` with a distance of your own.

        distance_function: of two tensors, a tensor of their distances; None is `pairwise_distance`.
        margin, swap: as there.
        <reduction_only>

    >>> far = lambda x, y: (x - y).abs().amax(-1)
    >>> F.triplet_margin_with_distance_loss(tede.zeros(1, 2), tede.ones(1, 2), tede.zeros(1, 2), distance_function=far)
    tensor(2.)
    """
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
