"""LinearCrossEntropyOptions: chunking and accumulation of `linear_cross_entropy`."""
from dataclasses import dataclass

from .._native import T

__all__ = ["LinearCrossEntropyOptions"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's options of `linear_cross_entropy`'s computation in chunks, checked as there.

        allow_retain_graph: whether the backward pass may run twice.
        batch_chunk_size: rows at once, or None.
        chunking_method: "auto", None, or "aspect_ratio:n".
        acc_policy: "auto", "accurate", "balanced" or "compact".
        acc_dtype: a floating point dtype, or None.

    The result doesn't depend on them. Here they change nothing else either: logits are computed at once, in the input's
    dtype, and the graph may be retained.

    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=128).chunking_method
    'auto'
    """

    __slots__ = ("allow_retain_graph", "batch_chunk_size", "chunking_method", "acc_policy", "acc_dtype")
    allow_retain_graph: bool
    batch_chunk_size: int
    chunking_method: str
    acc_policy: str
    acc_dtype: object

    def __init__(self, allow_retain_graph=False, batch_chunk_size=None, chunking_method="auto", acc_policy="auto",
                 acc_dtype=None) -> None:
        if acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {acc_policy!r}")
        if chunking_method not in (None, "auto"):
            name, colon, factor = chunking_method.partition(":")
            if name != "aspect_ratio" or colon and not (factor.isdigit() and int(factor) > 0):
                raise ValueError(f"invalid chunking_method: {chunking_method!r}")
        if batch_chunk_size is not None and not (isinstance(batch_chunk_size, int) and batch_chunk_size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {batch_chunk_size!r}")
        if acc_dtype not in (None, T.float16, T.bfloat16, T.float32, T.float64):
            raise ValueError("acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, "
                             f"torch.float64}}, got {acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically.")
        for name, value in zip(self.__slots__, (allow_retain_graph, batch_chunk_size, chunking_method, acc_policy, acc_dtype)):
            object.__setattr__(self, name, value)

    def __reduce__(self):
        return type(self), tuple(getattr(self, name) for name in self.__slots__)
