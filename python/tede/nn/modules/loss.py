"""Losses as layers: the functions of `functional`, with their options kept."""
import math
import warnings

from .. import _reduction as _Reduction  # noqa: F401  where programs look for it
from .. import functional as F
from .._native import T
from .._functional._common import legacy_reduction
from .distance import PairwiseDistance
from .linear import Linear
from .module import Module
from ..._docs import completed

__all__ = ["L1Loss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "GaussianNLLLoss", "KLDivLoss", "MSELoss", "BCELoss",
           "BCEWithLogitsLoss", "HingeEmbeddingLoss", "MultiLabelMarginLoss", "SmoothL1Loss", "HuberLoss", "SoftMarginLoss",
           "CrossEntropyLoss", "LinearCrossEntropyLoss", "MultiLabelSoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss",
           "MultiMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "CTCLoss"]


class _Loss(Module):
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        legacy = size_average is not None or reduce is not None
        self.reduction = legacy_reduction(size_average, reduce) if legacy else reduction


class _WeightedLoss(_Loss):
    def __init__(self, weight: T.Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


@completed
class L1Loss(_Loss):
    """``|input - target|``, reduced.

        <reduction>

    Shape: two of one shape (others broadcast, with a warning) -> a number, or that shape where reduction is "none".

    >>> nn.L1Loss()(tede.tensor([1., 2]), tede.tensor([3., 2]))
    tensor(1.)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


@completed
class MSELoss(_Loss):
    """``(input - target)**2``, reduced.

        <reduction>

    Shape: two of one shape (others broadcast, with a warning) -> a number, or that shape where reduction is "none". The
    warning is worth reading: (N, 1) beside (N,) is a matrix of N * N differences.

    >>> nn.MSELoss()(tede.tensor([1., 2]), tede.tensor([3., 2]))
    tensor(2.)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


@completed
class CrossEntropyLoss(_WeightedLoss):
    """``-log softmax(input)[target]``, reduced: the loss of classifiers that give a logit (any number) for each class.

        weight: a factor for each class, (C,). The mean is then weighted: the sum divided by the targets' weights.
        ignore_index: a target that doesn't count, not in the mean either.
        label_smoothing: from 0 to 1: that part of the target is spread evenly over all classes.
        <reduction>

    Shape: input (N, C), (C,) or (N, C, d1, ...); target of classes (N), () or (N, d1, ...), of dtype int64 (or uint8),
    from 0 to C - 1; or of probabilities, in the input's shape and a floating point dtype -> a number, or the target's
    shape without C.

    Floating point targets in the shape of classes are a RuntimeError: convert with `.long()`. The input must not have
    gone through softmax.

    >>> logits = tede.tensor([[2., 0, 0], [0, 1, 0]])
    >>> nn.CrossEntropyLoss()(logits, tede.tensor([0, 2]))
    tensor(0.8955)
    >>> nn.CrossEntropyLoss()(logits, logits.softmax(1))
    tensor(0.8205)
    """

    ignore_index: int
    label_smoothing: float

    def __init__(self, weight: T.Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)


@completed
class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of ``Linear(in_features, num_classes)(input)``, as one module.

        in_features, num_classes, bias: of the linear layer.
        out_features: sizes of further dimensions of the logits, behind the classes.
        weight, ignore_index, label_smoothing: as for `CrossEntropyLoss`.
        options: a `LinearCrossEntropyOptions`; it changes nothing here.
        <reduction_only>
        <factory>

    Shape: input (N, in_features), target (N) -> a number, or (N) where reduction is "none".

    >>> nn.LinearCrossEntropyLoss(4, 3)(tede.randn(5, 4), tede.tensor([0, 1, 2, 1, 0])).shape
    tede.Size([])
    """

    num_classes: int
    out_features: tuple[int, ...]
    reduction: str
    ignore_index: int | None
    label_smoothing: float

    def __init__(self, in_features: int, num_classes: int, *, out_features: int = (), bias: bool = False,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None, reduction: str = "mean",
                 weight: T.Tensor | None = None, ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options=None) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias=bias, device=device,
                             dtype=dtype)

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        shape, linear = (self.num_classes, *self.out_features), self.linear
        bias = None if linear.bias is None else linear.bias.reshape(shape)
        return F.linear_cross_entropy(input, linear.weight.reshape((*shape, linear.in_features)), target,
                                      linear_bias=bias, weight=self.weight, reduction=self.reduction,
                                      ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
                                      options=self.options)

    def extra_repr(self) -> str:
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
                f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}")


@completed
class NLLLoss(_WeightedLoss):
    """``-weight[target] * input[target]``, reduced: `CrossEntropyLoss` for inputs that are log-probabilities already,
    those of `LogSoftmax`.

        weight: a factor for each class, (C,). The mean is then weighted: the sum divided by the targets' weights.
        ignore_index: a target that doesn't count, not in the mean either.
        <reduction>

    Shape: input (N, C), (C,) or (N, C, d1, ...), target (N), () or (N, d1, ...) of int64 -> a number, or the target's
    shape.

    >>> nn.NLLLoss()(tede.tensor([[0.7, 0.3]]).log(), tede.tensor([0]))
    tensor(0.3567)
    """

    ignore_index: int

    def __init__(self, weight: T.Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """`NLLLoss` by an older name, which warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     nn.NLLLoss2d()(tede.zeros(1, 2, 1, 1), tede.tensor([[[1]]]))
    tensor(0.)
    """

    def __init__(self, *args, **kwargs) -> None:
        warnings.warn("`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
                      "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
                      FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


@completed
class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts under Poisson distributions: ``exp(input) - target * input``, or with
    log_input=False ``input - target * log(input + eps)``.

        log_input: whether the input is the logarithm of the rate.
        full: add Stirling's approximation of ``log(target!)`` where the target is above 1; it doesn't change gradients.
        eps: keeps log(0) away where log_input is False.
        <reduction>

    Shape: two of one shape -> a number, or that shape.

    >>> nn.PoissonNLLLoss()(tede.tensor([0., 1]), tede.tensor([1., 3]))
    tensor(0.3591)
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(self, log_input=True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
                 reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
                                  reduction=self.reduction)


@completed
class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood under normal distributions: ``(log(max(var, eps)) + (input - target)**2 / max(var, eps))
    / 2``.

        full: add the constant ``log(2 * pi) / 2``.
        eps: the least variance. The limit is not part of the gradient.
        <reduction_only>

    Called as (input, target, var): var has the input's shape, that without the last dimension, or 1 in it, or is a
    number; ValueError where it is negative.

    >>> nn.GaussianNLLLoss()(tede.tensor([0., 1]), tede.tensor([1., 1]), tede.tensor([1., 4]))
    tensor(0.5966)
    """

    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: T.Tensor, target: T.Tensor, var: T.Tensor) -> T.Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


@completed
class KLDivLoss(_Loss):
    """The divergence ``target * (log(target) - input)`` of distributions; the input is log-probabilities.

        log_target: whether the target is log-probabilities, too.
        <reduction>

    Shape: two of one shape -> a number, or that shape. "mean" divides by all elements, which isn't the divergence's
    mean: take reduction="batchmean", the sum divided by the first size.

    >>> loss = nn.KLDivLoss(reduction="batchmean")
    >>> loss(tede.tensor([[0.5, 0.5]]).log(), tede.tensor([[0.9, 0.1]]))
    tensor(0.3681)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 log_target: bool = False) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


@completed
class BCELoss(_WeightedLoss):
    """``-weight * (target * log(input) + (1 - target) * log(1 - input))``, reduced: cross-entropy of probabilities of
    two classes.

        weight: a factor for each element, broadcast.
        <reduction>

    Shape: two of one shape, else a ValueError -> a number, or that shape. Inputs outside of 0 to 1 are a RuntimeError;
    logarithms are held above -100. Where the input comes from a sigmoid, `BCEWithLogitsLoss` is more accurate.

    >>> nn.BCELoss()(tede.tensor([0.8, 0.3]), tede.tensor([1., 0]))
    tensor(0.2899)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


@completed
class BCEWithLogitsLoss(_Loss):
    """``-weight * (pos_weight * target * log(s) + (1 - target) * log(1 - s))`` with ``s = sigmoid(input)``, reduced,
    computed without losing digits for large inputs.

        weight: a factor for each element, broadcast.
        pos_weight: a factor for positive targets, broadcast: above 1 for more recall, below for more precision.
        <reduction>

    Shape: two of one shape, else a ValueError -> a number, or that shape. Targets are floating point numbers from 0 to
    1.

    >>> nn.BCEWithLogitsLoss()(tede.tensor([2., -1]), tede.tensor([1., 0]))
    tensor(0.2201)
    """

    def __init__(self, weight: T.Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", pos_weight: T.Tensor | None = None) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight,
                                                  reduction=self.reduction)


@completed
class HingeEmbeddingLoss(_Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1; x is a distance.

        margin: how far apart those must be that don't belong together.
        <reduction>

    Shape: two of one shape -> a number, or that shape.

    >>> nn.HingeEmbeddingLoss()(tede.tensor([0.2, 0.3]), tede.tensor([1, -1]))
    tensor(0.4500)
    """

    margin: float

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


@completed
class MultiLabelMarginLoss(_Loss):
    """``sum over targets y, others j of max(0, 1 - (x[y] - x[j])) / C``: every target class above every other by 1.

        <reduction>

    Shape: input (N, C) or (C), target the same, of int64: class numbers, then -1 behind the last -> a number, or (N).

    >>> nn.MultiLabelMarginLoss()(tede.tensor([[0.1, 0.2, 0.4, 0.8]]), tede.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


@completed
class SmoothL1Loss(_Loss):
    """``d**2 / (2 * beta)`` where ``d = |input - target| < beta``, else ``d - beta / 2`` (Girshick, 2015, "Fast
    R-CNN").

        beta: where the square ends; 0 is `L1Loss`. Negative is a RuntimeError.
        <reduction>

    Shape: two of one shape -> a number, or that shape. It is `HuberLoss` divided by beta.

    >>> nn.SmoothL1Loss()(tede.tensor([0.5, 3]), tede.zeros(2))
    tensor(1.3125)
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


@completed
class HuberLoss(_Loss):
    """``d**2 / 2`` where ``d = |input - target| < delta``, else ``delta * (d - delta / 2)`` (Huber, 1964, "Robust
    Estimation of a Location Parameter").

        <reduction_only>
        delta: where the square ends; above 0.

    Shape: two of one shape -> a number, or that shape.

    >>> nn.HuberLoss()(tede.tensor([0.5, 3]), tede.zeros(2))
    tensor(1.3125)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


@completed
class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``, reduced; targets are 1 or -1.

        <reduction>

    Shape: two of one shape -> a number, or that shape.

    >>> nn.SoftMarginLoss()(tede.tensor([2., -1]), tede.tensor([1., -1]))
    tensor(0.2201)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


@completed
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of `BCEWithLogitsLoss`: each class is there or not, independently.

        weight: a factor for each class, (C,).
        <reduction>

    Shape: input and target (N, C), targets 0 or 1 -> a number, or (N).

    >>> nn.MultiLabelSoftMarginLoss()(tede.tensor([[2., -1]]), tede.tensor([[1., 0]]))
    tensor(0.2201)
    """

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


@completed
class CosineEmbeddingLoss(_Loss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

        margin: how similar those may be that don't belong together, from -1 to 1; 0 to 0.5 is usual.
        <reduction>

    Shape: two (N, D) and a target (N), or (D), (D) and () -> a number, or the target's shape.

    >>> nn.CosineEmbeddingLoss()(tede.tensor([[1., 0]]), tede.tensor([[1., 1]]), tede.tensor([1]))
    tensor(0.2929)
    """

    margin: float

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: T.Tensor, input2: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


@completed
class MarginRankingLoss(_Loss):
    """``max(0, -target * (x1 - x2) + margin)``: where the target is 1 x1 is to be the larger, where it is -1 x2.

        margin: by how much.
        <reduction>

    Shape: three of one shape -> a number, or that shape.

    >>> nn.MarginRankingLoss()(tede.tensor([1., 2]), tede.tensor([0., 3]), tede.tensor([1, 1]))
    tensor(0.5000)
    """

    margin: float

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: T.Tensor, input2: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


@completed
class MultiMarginLoss(_WeightedLoss):
    """``sum over j != y of weight[y] * max(0, margin - x[y] + x[j])**p / C``: the target class above the others by a
    margin.

        p: 1 or 2, else a ValueError.
        margin: by how much.
        weight: a factor for each class, (C,).
        <reduction>

    Shape: input (N, C) or (C), target (N) or () of int64 -> a number, or the target's shape.

    >>> nn.MultiMarginLoss()(tede.tensor([[0.1, 0.2, 0.4, 0.8]]), tede.tensor([3]))
    tensor(0.3250)
    """

    margin: float
    p: int

    def __init__(self, p: float = 1, margin: float = 1.0, weight: T.Tensor | None = None,
                 size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p, self.margin = p, margin

    def forward(self, input: T.Tensor, target: T.Tensor) -> T.Tensor:
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin, weight=self.weight,
                                   reduction=self.reduction)


@completed
class TripletMarginLoss(_Loss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` for the distance ``d(x, y) = ||x - y + eps||_p``
    (Balntas et al., 2016, "Learning local feature descriptors with triplets and shallow convolutional neural
    networks").

        margin: by how much the anchor shall be nearer to the positive; above 0, else a ValueError.
        p, eps: of the distance.
        swap: take the negative's distance to the positive, if that is less than to the anchor.
        <reduction>

    Shape: three (N, D) or (D) -> a number, or (N).

    >>> loss = nn.TripletMarginLoss()
    >>> loss(tede.tensor([[0., 0]]), tede.tensor([[1., 0]]), tede.tensor([[0., 1.5]]))
    tensor(0.5000)
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                 size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: T.Tensor, positive: T.Tensor, negative: T.Tensor) -> T.Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
                                     swap=self.swap, reduction=self.reduction)


@completed
class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of your own.

        distance_function: of two tensors, a tensor of their distances; None is `PairwiseDistance()`.
        margin, swap: as there.
        <reduction_only>

    Shape: three of one shape -> a number, or what the function gives.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(-1))
    >>> loss(tede.tensor([[0., 0]]), tede.tensor([[1., 0]]), tede.tensor([[0., 1.5]]))
    tensor(0.5000)
    """

    margin: float
    swap: bool

    def __init__(self, *, distance_function=None, margin: float = 1.0, swap: bool = False,
                 reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead")
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: T.Tensor, positive: T.Tensor, negative: T.Tensor) -> T.Tensor:
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=self.distance_function,
                                                   margin=self.margin, swap=self.swap, reduction=self.reduction)


@completed
class CTCLoss(_Loss):
    """Minus the log-probability of a target under all alignments with an input sequence (Graves et al., 2006,
    "Connectionist Temporal Classification"): symbols may last several steps, with blanks between.

        blank: the class that stands for no symbol.
        zero_infinity: zero instead of an infinite loss, and its gradient, for inputs too short for their target.
        <reduction_only>

    Called as (log_probs, targets, input_lengths, target_lengths): log_probs (T, N, C) from log_softmax; targets (N, S),
    or all behind each other in one dimension, without blanks; the lengths (N), tensors or tuples of ints. Without N:
    (T, C), (S), ().

    "mean" divides each loss by its target's length first. -> a number, or (N).

    >>> _ = tede.manual_seed(0)
    >>> log_probs = tede.randn(6, 2, 5).log_softmax(-1)
    >>> nn.CTCLoss()(log_probs, tede.tensor([[1, 2, 3], [2, 4, 0]]), (6, 6), (3, 2))
    tensor(2.6449)
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: T.Tensor, targets: T.Tensor, input_lengths: T.Tensor | tuple[int, ...],
                target_lengths: T.Tensor | tuple[int, ...]) -> T.Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                          self.zero_infinity)
