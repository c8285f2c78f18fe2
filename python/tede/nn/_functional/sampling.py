"""Reading images between their pixels, where the extension has no kernel for it: `grid_sample` and `affine_grid`.

Places come in coordinates from -1 to 1 and become pixel numbers; what lies outside is zero, the border's pixel, or what
a mirror would show. Each neighbouring pixel (a tap) is gathered by number and weighed; gradients follow from that.
"""
from itertools import product

from .._native import T


def affine_grid(theta, size, align_corners):
    """The places that the affine maps `theta`, (N, n, n + 1), send a regular grid of `size` to."""
    spatial = list(size[2:])
    lines = []
    for place, count in enumerate(spatial):
        if count <= 1:
            line = T.zeros(count, dtype=theta.dtype, device=theta.device)
        else:
            line = T.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
            line = line if align_corners else line * (count - 1) / count
        shape = [count if i == place else 1 for i in range(len(spatial))]
        lines.append(line.reshape(shape).expand(spatial))
    base = T.stack([*reversed(lines), T.ones_like(lines[0])], -1).reshape(1, -1, len(spatial) + 1)
    return (base @ theta.transpose(1, 2)).reshape(size[0], *spatial, len(spatial))


def _pixel(place, size, align_corners):
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


def _mirror(pixel, size, align_corners):
    """`pixel` thrown back at both ends: at the outermost pixels' centres, or at their outer edges."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return pixel * 0
    away = (pixel - low).abs()
    times = T.floor(away / span)
    rest = away - times * span
    return T.where(times % 2 == 0, rest, span - rest) + low


def _inside(pixel, size, padding, align_corners):
    """`pixel` moved onto the image, for the paddings that do so."""
    if padding == "reflection":
        pixel = _mirror(pixel, size, align_corners)
    return pixel if padding == "zeros" else pixel.clamp(0, size - 1)


def _tap(flat, pixels, sizes):
    """The image's values at whole `pixels`, one tensor per dimension; zero outside."""
    index, present = 0, None
    for pixel, size in zip(pixels, sizes):
        here = (pixel >= 0) & (pixel <= size - 1)
        present = here if present is None else present & here
        index = index * size + pixel.clamp(0, size - 1).long()
    count, channels = flat.shape[:2]
    where = index.reshape(count, 1, -1).expand(count, channels, -1)
    values = flat.gather(2, where).reshape(count, channels, *index.shape[1:])
    return values * present.to(values.dtype).unsqueeze(1)


def _cubic_weights(t):
    """Weights of the pixels at -1, 0, 1 and 2 for a place `t` behind pixel 0 (Keys, 1981, with a = -0.75)."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def grid_sample(input, grid, mode, padding, align_corners):
    """`input`, (N, C, ...), read at the places of `grid`, (N, ..., n): the last coordinate first."""
    sizes = list(input.shape[2:])
    n = len(sizes)
    if n not in (2, 3) or grid.dim() != input.dim():
        raise RuntimeError("grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input "
                           f"with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}")
    if grid.shape[-1] != n:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes "
                           f"{list(grid.shape)}")
    if grid.shape[0] != input.shape[0]:
        raise RuntimeError("grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
                           f"{list(input.shape)} and grid with sizes {list(grid.shape)}")
    if 0 in sizes:
        raise RuntimeError("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                           f"{list(input.shape)}")
    if mode == "bicubic" and n == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    flat = input.reshape(*input.shape[:2], -1)
    pixels = [_pixel(grid[..., n - 1 - d], sizes[d], align_corners) for d in range(n)]
    if mode == "bicubic":
        floors = [T.floor(pixel) for pixel in pixels]
        weights = [_cubic_weights(pixel - floor) for pixel, floor in zip(pixels, floors)]
        total = 0
        for steps in product(range(4), repeat=2):
            at = [_inside(floor + (step - 1), size, padding, align_corners)
                  for floor, step, size in zip(floors, steps, sizes)]
            total = total + _tap(flat, at, sizes) * (weights[0][steps[0]] * weights[1][steps[1]]).unsqueeze(1)
        return total
    pixels = [_inside(pixel, size, padding, align_corners) for pixel, size in zip(pixels, sizes)]
    if mode == "nearest":
        # The grid takes part with a gradient of zero, the sign's, as it does in PyTorch.
        return _tap(flat, [T.round(pixel) for pixel in pixels], sizes) + (T.sign(pixels[0]) * 0).unsqueeze(1)
    floors, total = [T.floor(pixel) for pixel in pixels], 0
    for corner in product((0, 1), repeat=n):
        weight = 1
        for pixel, floor, step in zip(pixels, floors, corner):
            weight = weight * (pixel - floor if step else floor + 1 - pixel)
        total = total + _tap(flat, [floor + step for floor, step in zip(floors, corner)], sizes) * weight.unsqueeze(1)
    return total
