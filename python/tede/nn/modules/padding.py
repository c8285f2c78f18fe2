"""Padding layers. A padding is one number for all sides, or (before, after) of the last dimension first."""
from .. import functional as F
from .._native import T
from .._functional._common import ntuple
from ._ranks import of_ranks, text_of_rank
from .module import Module

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
           "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]


class _PadNd(Module):
    __constants__ = ["padding"]
    _rank = 0
    _mode = ""

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self._rank)

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: T.Tensor) -> T.Tensor:
        low, high = self._rank + 1, self._rank + 2
        if input.dim() not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    value: float

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


def _text(name, what, more="", call="1"):
    return f"""
Pads {{last}} {what}.

    padding: how much: a number for all sides, or {{sides}}. Negative cuts off, where the mode allows it.
{more}
Shape: {{shape}} -> {{out}}, where each size grows by the padding of its two sides.

>>> nn.{name}Pad{{rank}}d({call})(tede.ones(5, 3{{n4}})).shape
tede.Size([5, 3{{n6}}])
"""


def _sides(rank):
    return tuple[(int, int) * rank]


CircularPad1d, CircularPad2d, CircularPad3d = of_ranks(
    _CircularPadNd, "CircularPad{}d", _text("Circular", "as if the data went round; at most by the size"), padding=_sides)
ConstantPad1d, ConstantPad2d, ConstantPad3d = of_ranks(
    _ConstantPadNd, "ConstantPad{}d", _text("Constant", "with `value`", "    value: the number.\n", "1, 0.0"), padding=_sides)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = of_ranks(
    _ReflectionPadNd, "ReflectionPad{}d",
    _text("Reflection", "with the data's mirror image, the outermost value not repeated; by less than the size"), padding=_sides)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = of_ranks(
    _ReplicationPadNd, "ReplicationPad{}d", _text("Replication", "with the outermost values"), padding=_sides)


class _Zeros:
    """What makes a ZeroPad of a ConstantPad."""

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad1d(_Zeros, ConstantPad1d):
    __doc__ = text_of_rank(_text("Zero", "with zeros"), 1)


class ZeroPad2d(_Zeros, ConstantPad2d):
    __doc__ = text_of_rank(_text("Zero", "with zeros"), 2)


class ZeroPad3d(_Zeros, ConstantPad3d):
    __doc__ = text_of_rank(_text("Zero", "with zeros"), 3)
