"""Embeddings: tables whose rows are looked up by number."""
from .. import functional as F
from .. import init
from .._native import T
from ..parameter import Parameter
from .module import Module
from ..._docs import completed

__all__ = ["Embedding", "EmbeddingBag"]


def _resolve_padding(padding_idx, rows, name="Padding_idx"):
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


class _Table(Module):
    """A weight of one row per number, zero at `padding_idx`."""

    def _make_weight(self, weight, device, dtype, freeze=False):
        shape = [self.num_embeddings, self.embedding_dim]
        if weight is None:
            self.weight = Parameter(T.empty(shape, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw from the standard normal distribution; zero at `padding_idx`."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with T.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def _from_pretrained(cls, embeddings, freeze, **options):
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        table = cls(num_embeddings=rows, embedding_dim=columns, _weight=embeddings, **options)
        table.weight.requires_grad = not freeze
        return table


@completed
class Embedding(_Table):
    """``weight[i]`` for each integer i of the input: a table of vectors that are learned.

        num_embeddings, embedding_dim: rows and columns of `weight`, which begins standard normal.
        padding_idx: a row that begins as zeros and gets no gradient; negative counts from the end.
        max_norm, norm_type: rows that are looked up are first scaled down, in place, to this p-norm.
        scale_grad_by_freq: divide a row's gradient by how often the batch names it.
        sparse: the weight's gradient is a sparse tensor of the rows that were named; for `SGD`, `SparseAdam`,
            `Adagrad`.
        <factory>

    Shape: (*) of int32 or int64 -> (*, embedding_dim). Other dtypes are a RuntimeError, numbers outside of the table an
    IndexError.

    >>> table = nn.Embedding(10, 3, padding_idx=0)
    >>> table(tede.tensor([[1, 2], [4, 0]])).shape
    tede.Size([2, 2, 3])
    >>> table(tede.tensor(0))
    tensor([0., 0., 0.], grad_fn=<EmbeddingBackward0>)
    """

    __constants__ = ["num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq",
                     "sparse"]
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: T.Tensor
    freeze: bool
    sparse: bool

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: T.Tensor | None = None, _freeze: bool = False,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _resolve_padding(padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._make_weight(_weight, device, dtype, _freeze)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0,
                        scale_grad_by_freq=False, sparse=False):
        """An embedding that has the matrix `embeddings`, not a copy, as its weight.

            embeddings: (rows, columns); AssertionError for other ranks.
            freeze: whether it stays as it is (``weight.requires_grad = False``).

        The others are those of `Embedding`.

        >>> nn.Embedding.from_pretrained(tede.eye(3))(tede.tensor([2]))
        tensor([[0., 0., 1.]])
        """
        return cls._from_pretrained(embeddings, freeze, padding_idx=padding_idx, max_norm=max_norm, norm_type=norm_type,
                                    scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, _freeze=freeze)


@completed
class EmbeddingBag(_Table):
    """The sum, mean or maximum of ``weight[i]`` over the integers i of each bag, without making the rows in between.

        num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse: as for `Embedding`.
        mode: "sum", "mean" or "max".
        include_last_offset: `offsets` has one more element, the end of the last bag, as in CSR.
        padding_idx: a row that counts in no bag.
        <factory>

    Called as (input, offsets=None, per_sample_weights=None). Input (B, n): B bags of n, without offsets. Input (n,):
    bag k begins at offsets[k]. per_sample_weights, of the input's shape, multiply the rows where mode is "sum".

    Shape: -> (B, embedding_dim). An empty bag is zeros.

    >>> bags = nn.EmbeddingBag(10, 3, mode="sum")
    >>> bags(tede.tensor([1, 2, 4, 5, 4]), tede.tensor([0, 3])).shape
    tede.Size([2, 3])
    """

    __constants__ = ["num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse",
                     "include_last_offset", "padding_idx"]
    num_embeddings: int
    embedding_dim: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: T.Tensor
    mode: str
    sparse: bool
    include_last_offset: bool
    padding_idx: int | None

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                 _weight: T.Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
                 device: T.device | str | int | None = None, dtype: T.dtype | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.padding_idx = _resolve_padding(padding_idx, num_embeddings, "padding_idx")
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        self._make_weight(_weight, device, dtype)

    def forward(self, input: T.Tensor, offsets: T.Tensor | None = None,
                per_sample_weights: T.Tensor | None = None) -> T.Tensor:
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm!r}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type!r}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq!r}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx!r}"
        return text

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
                        mode="mean", sparse=False, include_last_offset=False, padding_idx=None):
        """A bag embedding that has the matrix `embeddings`, not a copy, as its weight, not trained if `freeze`.

        The others are those of `EmbeddingBag`.

        >>> nn.EmbeddingBag.from_pretrained(tede.eye(3))(tede.tensor([[0, 2]]))
        tensor([[0.5000, 0.0000, 0.5000]])
        """
        return cls._from_pretrained(embeddings, freeze, max_norm=max_norm, norm_type=norm_type,
                                    scale_grad_by_freq=scale_grad_by_freq, mode=mode, sparse=sparse,
                                    include_last_offset=include_last_offset, padding_idx=padding_idx)
