"""Padding layers. A padding is one number for all sides, or (before, after) of the last dimension first."""
from .. import functional as F
from .._functional._common import ntuple
from .module import Module

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
           "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]


class _PadNd(Module):
    __constants__ = ["padding"]
    _rank = 0
    _mode = ""

    def __init__(self, padding):
        super().__init__()
        self.padding = ntuple(padding, 2 * self._rank)

    def forward(self, input):
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input):
        low, high = self._rank + 1, self._rank + 2
        if input.dim() not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension as if the data went round."""

    padding: tuple[int, int]

    _rank = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions as if the data went round."""

    padding: tuple[int, int, int, int]

    _rank = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions as if the data went round."""

    padding: tuple[int, int, int, int, int, int]

    _rank = 3


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    value: float

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with `value`."""

    padding: tuple[int, int]

    _rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with `value`."""

    padding: tuple[int, int, int, int]

    _rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with `value`."""

    padding: tuple[int, int, int, int, int, int]

    _rank = 3


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with its mirror image."""

    padding: tuple[int, int]

    _rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with their mirror image."""

    padding: tuple[int, int, int, int]

    _rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with their mirror image."""

    padding: tuple[int, int, int, int, int, int]

    _rank = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its outermost values."""

    padding: tuple[int, int]

    _rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their outermost values."""

    padding: tuple[int, int, int, int]

    _rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their outermost values."""

    padding: tuple[int, int, int, int, int, int]

    _rank = 3


class ZeroPad1d(ConstantPad1d):
    """Pads the last dimension with zeros."""

    padding: tuple[int, int]

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad2d(ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    padding: tuple[int, int, int, int]

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ZeroPad3d(ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    padding: tuple[int, int, int, int, int, int]

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr
