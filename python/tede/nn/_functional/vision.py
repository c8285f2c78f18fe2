"""Images: padding, resizing, sampling at given positions, and windows as columns."""
import warnings

from .._native import N, T
from ._common import ntuple


def pad(input: T.Tensor, pad: list[int] | tuple[int, ...], mode: str = "constant",
        value: T.Tensor | None = None) -> T.Tensor:
    """Widen the last dimensions: `pad` is (before, after) of the last one, then of the one before it, and so on.
    Negative cuts off.

        mode: "constant"; or "reflect", "replicate" or "circular", of at most three last dimensions.
        value: of a constant, else 0.

    >>> F.pad(tede.tensor([1., 2, 3]), (1, 2))
    tensor([0., 1., 2., 3., 0., 0.])
    """
    return N.pad(input, pad, mode, value)


def unfold(input: T.Tensor, kernel_size: int | tuple[int, ...], dilation: int | tuple[int, ...] = 1,
           padding: int | tuple[int, ...] = 0, stride: int | tuple[int, ...] = 1) -> T.Tensor:
    """The windows of images, each as a column (im2col): (N, C, H, W) -> (N, C * kernel area, L), where L is for each
    dimension ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, multiplied.

        kernel_size, dilation, padding, stride: numbers, or pairs.

    >>> F.unfold(tede.arange(9.).reshape(1, 1, 3, 3), 2)[0].T
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.],
            [3., 4., 6., 7.],
            [4., 5., 7., 8.]])
    """
    return N.im2col(input, ntuple(kernel_size, 2), ntuple(dilation, 2), ntuple(padding, 2), ntuple(stride, 2))


def fold(input: T.Tensor, output_size: int | tuple[int | None, ...], kernel_size: int | tuple[int, ...],
         dilation: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0,
         stride: int | tuple[int, ...] = 1) -> T.Tensor:
    """Columns put back in place, summed where windows overlap: (N, C * kernel area, L) -> (N, C, *output_size), the
    transpose of `unfold`.

        output_size, kernel_size, dilation, padding, stride: numbers, or pairs.

    >>> F.fold(tede.ones(1, 4, 4), output_size=3, kernel_size=2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    return N.col2im(input, ntuple(output_size, 2), ntuple(kernel_size, 2), ntuple(dilation, 2), ntuple(padding, 2),
                    ntuple(stride, 2))


# The native function for a mode and a number of spatial dimensions, and whether it takes align_corners.
_RESIZE = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d", ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "_upsample_nearest_exact1d", ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d",
    ("area", 1): "adaptive_avg_pool1d", ("area", 2): "adaptive_avg_pool2d", ("area", 3): "adaptive_avg_pool3d",
    ("linear", 1): "upsample_linear1d", ("bilinear", 2): "upsample_bilinear2d", ("trilinear", 3): "upsample_trilinear3d",
    ("bicubic", 2): "upsample_bicubic2d", ("lanczos", 2): "_upsample_lanczos2d_aa",
}


def _is_integer(value):
    if isinstance(value, T.Tensor):
        return not value.is_floating_point()
    return isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, float))


def interpolate(input: T.Tensor, size: int | tuple[int, ...] | None = None,
                scale_factor: float | tuple[float, ...] | None = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> T.Tensor:
    """Resize the spatial dimensions of (N, C, ...) to `size`, or by `scale_factor`; ValueError unless exactly one is
    given.

        mode: "nearest", "nearest-exact", "area" (1 to 3 spatial dimensions), "linear" (1), "bilinear", "bicubic",
            "lanczos" (2), "trilinear" (3).
        align_corners: whether the corners' centres stay where they are; for the modes with "linear" or "cubic".
        recompute_scale_factor: whether the factor is computed anew from the rounded size.
        antialias: widen the filter when shrinking; "bilinear", "bicubic", and "lanczos", which needs it.

    >>> F.interpolate(tede.tensor([[[1., 2]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                             "bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    n = input.dim() - 2
    output_size, factors = _resize_target(input, n, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if recompute_scale_factor or mode == "area" and output_size is None:
        output_size, factors = [int(input.size(i + 2) * factors[i]) for i in range(n)], None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and n == 2):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D "
                         "tensor as input")
    native = _RESIZE.get((mode, n))
    if native is None:
        _refuse_mode(mode, n)
    if mode == "area":
        return getattr(N, native)(input, output_size)
    if mode in ("nearest", "nearest-exact"):
        return getattr(N, native)(input, output_size, factors)
    if mode == "lanczos":
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    elif antialias:
        native = f"_{native}_aa"
    return getattr(N, native)(input, output_size, align_corners, factors)


def _resize_target(input, n, size, scale_factor):
    """(output size or None, scale factors or None), one number per spatial dimension."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    spatial = list(input.shape[2:])
    if size is not None:
        if not isinstance(size, (list, tuple)):
            return [size] * n, None
        if len(size) != n:
            raise ValueError("Input and output must have the same number of spatial dimensions, but got input with "
                             f"spatial dimensions of {spatial} and output size of {size}. Please provide input tensor in "
                             "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format.")
        if not all(_is_integer(value) for value in size):
            raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                            f"but got size with types {[type(value) for value in size]}")
        return size, None
    if not isinstance(scale_factor, (list, tuple)):
        return None, [scale_factor] * n
    if len(scale_factor) != n:
        raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got input with "
                         f"spatial dimensions of {spatial} and scale_factor of shape {scale_factor}. Please provide "
                         "input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.")
    return None, scale_factor


def _refuse_mode(mode, n):
    wanted = {"linear": 1, "bilinear": 2, "trilinear": 3}.get(mode)
    if wanted is not None and n in (1, 2, 3):
        raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs {wanted + 2}D input")
    raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n + 2}D) for the modes: "
                              "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact "
                              f"(got {mode})")


def upsample(input: T.Tensor, size: int | tuple[int, ...] | None = None,
             scale_factor: float | tuple[float, ...] | None = None, mode: str = "nearest",
             align_corners: bool | None = None) -> T.Tensor:
    """`interpolate` by its older name; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample(tede.tensor([[[1., 2]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: T.Tensor, size: int | tuple[int, ...] | None = None,
                     scale_factor: float | tuple[float, ...] | None = None) -> T.Tensor:
    """`interpolate` with mode="nearest", by its older name; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_nearest(tede.tensor([[[1., 2]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: T.Tensor, size: int | tuple[int, ...] | None = None,
                      scale_factor: float | tuple[float, ...] | None = None) -> T.Tensor:
    """`interpolate` with mode="bilinear" and align_corners=True, by its older name; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_bilinear(tede.tensor([[[[1., 2]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
                  stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _warn_align_corners():
    warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
                  "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
                  "details.", stacklevel=3)


def grid_sample(input: T.Tensor, grid: T.Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> T.Tensor:
    """``input`` at the positions of `grid`: (N, C, H, W) at (N, H_out, W_out, 2) -> (N, C, H_out, W_out); or (N, C, D,
    H, W) at (..., 3).

        grid: (x, y) or (x, y, z), from -1, the left or upper edge, to 1.
        mode: "bilinear" (of 3 dimensions trilinear), "nearest" or "bicubic" (of 2 dimensions).
        padding_mode: what is outside: "zeros", "border" or "reflection".
        align_corners: whether -1 and 1 are the centres of the corner pixels instead of their outer edges. None is
            False, and warns.

    >>> x = tede.arange(4.).reshape(1, 1, 2, 2)
    >>> F.grid_sample(x, tede.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.5000]]]])
    """
    modes = ("bilinear", "nearest", "bicubic")
    paddings = ("zeros", "border", "reflection")
    if mode not in modes:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
                         f"'{mode}'")
    if padding_mode not in paddings:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
                         f"but got: '{padding_mode}'")
    if align_corners is None:
        _warn_align_corners()
        align_corners = False
    return N.grid_sampler(input, grid, modes.index(mode), paddings.index(padding_mode), align_corners)


def affine_grid(theta: T.Tensor, size: int, align_corners: bool | None = None) -> T.Tensor:
    """The grid for `grid_sample` that an affine map makes: (N, 2, 3) -> (N, H, W, 2), or (N, 3, 4) -> (N, D, H, W, 3).

        theta: the matrices, of output positions to input positions.
        size: of the output, (N, C, H, W) or (N, C, D, H, W).
        align_corners: as for `grid_sample`.

    >>> F.affine_grid(tede.tensor([[[1., 0, 0], [0, 1, 0]]]), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if align_corners is None:
        _warn_align_corners()
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
                                  f"respectively. Got size {size}.")
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. "
                         f"Got {theta.shape}.")
    if align_corners and min(size[-n:]) == 1:
        warnings.warn("Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
                      "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
                      "affine_grid for details.", stacklevel=2)
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return N.affine_grid_generator(theta, size, align_corners)
