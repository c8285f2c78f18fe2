"""PairwiseDistance and CosineSimilarity: distances between rows."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["PairwiseDistance", "CosineSimilarity"]


class PairwiseDistance(Module):
    """``||x1 - x2 + eps||_p`` over the last dimension.

        p: which norm.
        eps: added to each difference, so that the gradient is finite where the vectors agree.
        keepdim: leave the last dimension, of size 1.

    Shape: (..., D) and (..., D) -> (...).

    >>> nn.PairwiseDistance()(tede.tensor([[0., 0]]), tede.tensor([[3., 4]]))
    tensor([5.0000])
    """

    __constants__ = ["norm", "eps", "keepdim"]
    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: T.Tensor, x2: T.Tensor) -> T.Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """``x1 · x2 / (max(||x1||, eps) * max(||x2||, eps))`` along `dim`.

        dim: the dimension of the vectors.
        eps: the least length that a vector is taken to have.

    Shape: two of one shape, or broadcast -> without `dim`.

    >>> nn.CosineSimilarity(dim=-1)(tede.tensor([1., 0]), tede.tensor([1., 1]))
    tensor(0.7071)
    """

    __constants__ = ["dim", "eps"]
    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: T.Tensor, x2: T.Tensor) -> T.Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
