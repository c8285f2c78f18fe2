"""norm.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")
F = tede.nn.functional
close = {"rtol": 1e-4, "atol": 1e-4}


def rand(*shape, **kw):
    return tede.randn(*shape, **kw).requires_grad_()


@pytest.mark.parametrize("rows, n", [((), (7,)), ((5,), (300,)), ((40, 3), (8,)), ((2, 3), (4, 50)), ((0,), (6,)), ((2000,), (33,))])
@pytest.mark.parametrize("affine", [False, True])
def test_rows(agrees, rows, n, affine):
    w, b = (rand(*n), rand(*n)) if affine else (None, None)
    agrees(lambda x, w, b: F.layer_norm(x, n, w, b), rand(*rows, *n), w, b, **close)
    agrees(lambda x, w: F.rms_norm(x, n, w), rand(*rows, *n), w, **close)


@pytest.mark.parametrize("shape, groups", [((2, 6, 5, 4), 3), ((4, 8), 2), ((3, 6, 300), 1), ((2, 4, 40, 7), 4), ((0, 6, 5), 2)])
@pytest.mark.parametrize("affine", [False, True])
def test_groups(agrees, shape, groups, affine):
    w, b = (rand(shape[1]), rand(shape[1])) if affine else (None, None)
    agrees(lambda x, w, b: F.group_norm(x, groups, w, b), rand(*shape), w, b, **close)


@pytest.mark.parametrize("shape", [(6, 5), (3000, 4), (2, 3, 7), (4, 8, 30, 20), (8, 2, 90, 90)])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_channels(agrees, shape, training, affine):
    w, b = (rand(shape[1]), rand(shape[1])) if affine else (None, None)

    # The gradient of a weight is a sum of terms of both signs.
    close = {"rtol": 1e-4, "atol": 1e-4 + 3e-8 * math.prod(shape) / shape[1]}

    def step(x, w, b, mean, var):
        return F.batch_norm(x, mean, var, w, b, training, 0.3), mean, var
    agrees(step, rand(*shape) * 2 + 3, w, b, tede.randn(shape[1]), tede.rand(shape[1]) + 0.5, **close)
    if training:
        agrees(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), rand(*shape), w, b, **close)
        agrees(lambda x, w, b: F.batch_norm(x.transpose(0, -1).transpose(0, -1), None, None, w, b, True), rand(*shape), w, b, **close)


def test_dtypes(agrees):
    for dtype in (tede.float16, tede.bfloat16, tede.float64):
        x = tede.randn(4, 6, 9).to(dtype).requires_grad_()
        w, b = (tede.randn(9).to(dtype).requires_grad_() for _ in range(2))
        c, d = (tede.randn(6).to(dtype).requires_grad_() for _ in range(2))
        loose = {} if dtype == tede.float64 else {"rtol": 5e-2, "atol": 5e-2}
        agrees(lambda x, w, b: F.layer_norm(x, (9,), w, b), x, w, b, **loose)
        agrees(lambda x, w: F.rms_norm(x, (9,), w), x, w, **loose)
        agrees(lambda x, w, b: F.group_norm(x, 2, w, b), x, c, d, **loose)
        agrees(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x, c, d, **loose)
    agrees(lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, True), tede.randn(4, 6, 9).to(tede.bfloat16), tede.randn(6), tede.randn(6),
           tede.randn(6), tede.rand(6), rtol=2e-2, atol=2e-2)


def test_modules_keep_statistics(agrees):
    def train(x, y):
        norm = tede.nn.BatchNorm2d(3).to(x.device)
        norm(x), norm(y)
        return norm.running_mean, norm.running_var, norm.eval()(x).detach()
    agrees(train, tede.randn(5, 3, 4, 4), tede.randn(2, 3, 8, 8), **close)
    agrees(lambda x: tede.nn.InstanceNorm2d(3)(x), rand(2, 3, 6, 5), **close)


def test_only_the_gradients_that_are_wanted(agrees):
    agrees(lambda x, w, b: F.layer_norm(x, (6,), w, b), tede.randn(5, 6), rand(6), tede.randn(6), **close)
    agrees(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), tede.randn(5, 6), tede.randn(6), rand(6), **close)
    agrees(lambda x, w, b: F.group_norm(x, 2, w, b), rand(5, 6), tede.randn(6), tede.randn(6), **close)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16])
@pytest.mark.parametrize("n", [8, 20, 64, 1024, 1025, 9000])
def test_rows_in_packs(agrees, dtype, n):
    """Rows that are kept and longer ones, that begin at multiples of 16 bytes or don't, as weights do."""
    loose = {"rtol": 5e-2, "atol": 8e-2} if dtype == tede.bfloat16 else close
    x, w = tede.randn(40 * n + 1).to(dtype), tede.randn(2 * n + 1).to(dtype)
    for at in (0, 1):
        agrees(lambda x, w, b: F.layer_norm(x, (n,), w, b), x[at:at + 40 * n].view(40, n).detach().requires_grad_(), w[at:at + n].detach().requires_grad_(),
               w[n:2 * n].detach().requires_grad_(), **loose)


@pytest.mark.parametrize("plane", [(7, 7), (4, 4), (56, 56), (3,)])
def test_planes_in_packs(agrees, plane):
    shape = (5, 6, *plane)
    x, n = tede.randn(30 * math.prod(plane) + 1), 30 * math.prod(plane)
    near = {"rtol": 1e-4, "atol": 1e-4 + 3e-8 * 5 * math.prod(plane)}        # the gradient of a weight is a sum of terms of both signs
    for at in (0, 1):
        agrees(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x[at:at + n].view(shape).detach().requires_grad_(), rand(6), rand(6), **near)
        agrees(lambda x, w, b: F.group_norm(x, 3, w, b), x[at:at + n].view(shape).detach().requires_grad_(), rand(6), rand(6), **near)
    agrees(lambda x: F.batch_norm(x, None, None, None, None, True), x[:n].to(tede.bfloat16).view(shape), rtol=2e-2, atol=2e-2)
