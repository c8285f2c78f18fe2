"""grid_sampler.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:Default grid_sample and affine_grid behavior")
INSIDE = {"rtol": 1e-4, "atol": 1e-4}


def some(*sizes, dtype=tede.float32, scale=1.0, grad=True):
    return (scale * tede.randn(sizes)).to(dtype).requires_grad_(grad)


@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_images_and_volumes(agrees, mode, outside, align):
    def sample(x, grid):
        return F.grid_sample(x, grid, mode, outside, align)
    for dtype in (tede.float32, tede.float64) if outside == "reflection" else (tede.float32,):
        agrees(sample, some(2, 3, 5, 4, dtype=dtype), some(2, 7, 6, 2, dtype=dtype, scale=1.5), **INSIDE)
        agrees(sample, some(2, 3, 1, 1, dtype=dtype), some(2, 3, 2, 2, dtype=dtype, scale=1.5), **INSIDE)
        if mode != "bicubic":
            agrees(sample, some(2, 3, 5, 4, 3, dtype=dtype), some(2, 2, 3, 6, 3, dtype=dtype, scale=1.5), **INSIDE)


def test_gradients_of_one_operand(agrees):
    agrees(F.grid_sample, some(2, 3, 5, 4, grad=False), some(2, 7, 6, 2))
    agrees(F.grid_sample, some(2, 3, 5, 4), some(2, 7, 6, 2, grad=False))


@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16])
def test_halves(agrees, dtype):
    grid = tede.randint(-8, 9, (2, 7, 6, 2)) / 8
    agrees(F.grid_sample, some(2, 3, 5, 4, dtype=dtype), grid.to(dtype).requires_grad_(), rtol=2e-2, atol=2e-2)


def test_many_meet_at_an_element(agrees):
    agrees(F.grid_sample, some(1, 2, 3, 3), some(1, 40, 50, 2, scale=0.2), rtol=1e-4, atol=1e-3)


def test_positions_that_are_no_numbers(agrees):
    grid = tede.tensor([[math.nan, 0.1], [math.inf, 0.2], [-math.inf, 0.3], [1e30, -1e30]])
    agrees(F.grid_sample, some(1, 2, 3, 3), grid.view(1, 2, 2, 2).requires_grad_())
    grid = tede.cat([grid, tede.zeros(4, 1)], 1).view(1, 2, 2, 1, 3)
    agrees(F.grid_sample, some(1, 2, 3, 3, 3), grid.requires_grad_())


def test_strides_and_empty_operands(agrees):
    x, grid = some(2, 3, 5, 4), some(2, 7, 6, 2)
    agrees(F.grid_sample, x.mT, grid.transpose(1, 2))
    agrees(F.grid_sample, x.flip(-1).contiguous(memory_format=tede.channels_last), grid.flip(1))
    agrees(F.grid_sample, x[:1].expand(2, 3, 5, 4), grid[:, ::2])
    agrees(F.grid_sample, x[:0], grid[:0])
    agrees(F.grid_sample, x[:, :0], grid)
    agrees(F.grid_sample, x, grid[:, :0])


def test_affine_maps(agrees):
    agrees(lambda theta, x: F.grid_sample(x, F.affine_grid(theta, (2, 3, 6, 7))), some(2, 2, 3), some(2, 3, 5, 4), **INSIDE)


def test_mistakes(device):
    for on in ("cpu", device):
        x = tede.ones(2, 3, 4, 4, device=on)
        with pytest.raises(RuntimeError, match="same batch size"):
            F.grid_sample(x, tede.ones(1, 2, 2, 2, device=on))
        with pytest.raises(RuntimeError, match="expected scalar type"):
            F.grid_sample(x, tede.ones(2, 2, 2, 2, device=on, dtype=tede.float64))


def test_gradients_of_gradients(agrees):
    def slopes(x, grid):
        y = F.grid_sample(x * x, grid)
        return tede.autograd.grad(y, (x, grid), tede.ones_like(y), create_graph=True)
    agrees(slopes, some(1, 2, 4, 4), some(1, 3, 3, 2, scale=0.3), **INSIDE)
