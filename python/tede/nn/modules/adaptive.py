"""AdaptiveLogSoftmaxWithLoss: softmax over very many classes, rare ones in separate clusters (Grave et al., 2017)."""
from collections import namedtuple

from .. import functional as F
from .._native import T
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module
from ..._docs import completed

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


@completed
class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over very many classes in little time (Grave et al., 2017, "Efficient softmax approximation for GPUs"):
    frequent classes are in the head, the others in clusters of fewer features, which are computed for the rows that
    need them.

        in_features: features of the input.
        n_classes: how many; number 0 must be the most frequent one.
        cutoffs: where clusters begin, ascending from 1 to n_classes - 1 (ValueError).
        div_value: by how much the features of each cluster are fewer than of the one before.
        head_bias: whether the head has a bias.
        <factory>

    Called as (input (N, in_features), target (N)) -> a pair: `output` (N), the log-probability of each target, and
    `loss`, minus their mean. Targets out of range are a RuntimeError.

    >>> softmax = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
    >>> result = softmax(tede.randn(3, 8), tede.tensor([0, 5, 19]))
    >>> result.output.shape, result.loss.shape
    (tede.Size([3]), tede.Size([]))
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool

    def __init__(self, in_features: int, n_classes: int, cutoffs: list[int] | tuple[int, ...], div_value: float = 4.0,
                 head_bias: bool = False, device: T.device | str | int | None = None,
                 dtype: T.dtype | None = None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1
                or any(int(c) != c for c in cutoffs)):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                             "where each value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width, classes = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, width, bias=False, **where),
                                        Linear(width, classes, bias=False, **where)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for into, out in self.tail:
            into.reset_parameters()
            out.reset_parameters()

    def forward(self, input_: T.Tensor, target_: T.Tensor):
        """(log-probability of each target, mean loss)."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != target_.dim() + 1:
            raise RuntimeError(f"{target_.dim()}D target tensor expects {target_.dim() + 1}D input tensors, but found "
                               f"inputs with size {input_.size()}")
        batched = target_.dim() == 1
        if batched and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if target.numel() and not (0 <= target.min() and target.max() < self.n_classes):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                               f"[{target.min().item()}, {target.max().item()}] were found. ")
        head = F.log_softmax(self.head(input), dim=1)
        place, extra = target.clone(), input.new_zeros(target.size(0))
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            inner = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            inside = inner.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            extra = extra.index_add(0, rows, inside)
            place[rows] = self.shortlist_size + i
        output = head.gather(1, place.unsqueeze(1)).squeeze(1) + extra
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i in range(self.n_clusters):
            inner = F.log_softmax(self.tail[i](input), dim=1)
            parts.append(inner + head[:, self.shortlist_size + i].unsqueeze(1))
        return T.cat(parts, 1)

    def log_prob(self, input):
        """Log-probabilities of all classes: (N, in_features) -> (N, n_classes).

        >>> nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10]).log_prob(tede.randn(3, 8)).exp().sum(1).round(decimals=3).detach()
        tensor([1., 1., 1.])
        """
        return self._full_log_prob(input, self.head(input))

    def predict(self, input):
        """The likeliest class of each row: `log_prob(input).argmax(1)`, but clusters are computed only where the head
        points to one.

        >>> nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10]).predict(tede.randn(3, 8)).shape
        tede.Size([3])
        """
        head = self.head(input)
        best = T.argmax(head, dim=1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel():
            best[rows] = T.argmax(self._full_log_prob(input[rows], head[rows]), dim=1)
        return best
