"""ChannelShuffle: channels of several groups interleaved."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Channels of several groups interleaved: ``out[j * groups + i] = x[i * (C / groups) + j]`` (Zhang et al., 2017,
    "ShuffleNet").

        groups: how many; C must be divisible by it (RuntimeError).

    Shape: (N, C, ...) -> the same.

    >>> nn.ChannelShuffle(2)(tede.arange(6.).reshape(1, 6, 1)).flatten()
    tensor([0., 3., 1., 4., 2., 5.])
    """

    __constants__ = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
