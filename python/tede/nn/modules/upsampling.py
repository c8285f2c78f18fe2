"""Upsample and its relatives: images resized."""
from .. import functional as F
from .._native import T
from .module import Module

__all__ = ["Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


class Upsample(Module):
    """Images, or signals of one or three dimensions, resized to `size` or by `scale_factor`.

        size: of the output's spatial dimensions; a number for all.
        scale_factor: instead of size; a number for all, or one each.
        mode: "nearest" (of 3 to 5 dimensions), "linear" (3), "bilinear" or "bicubic" (4), "trilinear" (5), "area".
        align_corners: whether the corners' centres stay where they are; for the modes with "linear" or "cubic".
        recompute_scale_factor: whether the factor is computed anew from the rounded size.

    Shape: (N, C, *spatial) -> (N, C, *new). ValueError unless exactly one of size and scale_factor is there.

    >>> nn.Upsample(scale_factor=2)(tede.tensor([[[1., 2]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> nn.Upsample(size=(4, 6), mode="bilinear")(tede.ones(1, 1, 2, 3)).shape
    tede.Size([1, 1, 4, 6])
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]
    name: str
    size: int | tuple[int, ...] | None
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(self, size: int | tuple[int, ...] | None = None, scale_factor: float | tuple[float, ...] | None = None, mode: str = "nearest",
                 align_corners: bool | None = None, recompute_scale_factor: bool | None = None) -> None:
        super().__init__()
        self.name, self.size = type(self).__name__, size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def forward(self, input: T.Tensor) -> T.Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             recompute_scale_factor=self.recompute_scale_factor)

    def __setstate__(self, state):
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        target = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of (N, C, H, W) with mode="nearest".

        size, scale_factor: as there.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(tede.ones(1, 1, 2, 3)).shape
    tede.Size([1, 1, 4, 6])
    """

    def __init__(self, size: int | tuple[int, ...] | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of (N, C, H, W) with mode="bilinear" and align_corners=True.

        size, scale_factor: as there.

    >>> nn.UpsamplingBilinear2d(size=3)(tede.tensor([[[[0., 2], [4, 6]]]]))
    tensor([[[[0., 1., 2.],
              [2., 3., 4.],
              [4., 5., 6.]]]])
    """

    def __init__(self, size: int | tuple[int, ...] | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
