"""`nn.functional` beyond what the layers call: values, gradients, second gradients and errors.

Expected numbers are worked out by hand or by plain loops over the definition, so that they hold without PyTorch.
"""
import itertools
import math

import pytest


def numbers(lib, *shape, dtype=None):
    """Numbers between -1 and 1 that repeat nowhere near."""
    count = math.prod(shape)
    return (lib.arange(count, dtype=dtype or lib.float64) * 0.7).sin().reshape(shape)


def slope(lib, function, x, at, step=1e-6):
    """The derivative of a scalar function in one element of x, by differences."""
    up, down = x.clone(), x.clone()
    up.view(-1)[at] += step
    down.view(-1)[at] -= step
    return (function(up) - function(down)).item() / (2 * step)


def assert_slopes(lib, function, x, places):
    x = x.detach().clone().requires_grad_()
    gradient, = lib.autograd.grad(function(x), x)
    for at in places:
        assert gradient.view(-1)[at].item() == pytest.approx(slope(lib, function, x.detach(), at), abs=1e-6)


def second_gradients(lib, y, x):
    gradient, = lib.autograd.grad(y.sum(), x, create_graph=True)
    return lib.autograd.grad(gradient.sum(), x, allow_unused=True)[0]


# ---- activations

@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "hardshrink", "softshrink", "leaky_relu"])
def test_second_gradients_of_piecewise_linear_functions_are_zeros_not_absent(lib, F, name):
    x = lib.tensor([-2.0, 0.25, 3.0], requires_grad=True)
    assert second_gradients(lib, getattr(F, name)(x), x).tolist() == [0, 0, 0]


def test_rrelu_draws_slopes_for_what_is_not_positive(lib, F):
    x = lib.tensor([1.0, -1.0, -2.0, 3.0], requires_grad=True)
    y = F.rrelu(x, 0.25, 0.5, training=True)
    slopes = (y / x).tolist()
    assert slopes[0] == slopes[3] == 1 and all(0.25 <= s < 0.5 for s in slopes[1:3])
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(slopes)
    assert F.rrelu(x, 0.25, 0.5).tolist() == pytest.approx([1, -0.375, -0.75, 3])
    with pytest.raises(RuntimeError, match="Lower bound should be less than or equal to the upper bound"):
        F.rrelu(x, 0.5, 0.25)


def test_softshrink_refuses_a_negative_lambda(lib, F):
    with pytest.raises(RuntimeError, match=r"lambda must be in range \[0, 3.40282e\+38\] for input dtype Float"):
        F.softshrink(lib.ones(2), -1.0)


# ---- pooling

def test_unpooling_puts_maxima_back(lib, F):
    x = lib.tensor([[[[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]]])
    y, at = F.max_pool2d(x, 2, return_indices=True)
    assert F.max_unpool2d(y, at, 2).tolist() == [[[[0, 0, 0, 0], [0, 4, 0, 8]]]]
    with pytest.raises(RuntimeError, match="Found an invalid max index: "):
        F.max_unpool2d(y, at + 4, 1)
    with pytest.raises(RuntimeError, match="elements in indices should be type int64 but got: Int"):
        F.max_unpool2d(y, at.int(), 2)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_windows_begin_where_their_samples_say(lib, F, n):
    x = numbers(lib, 1, 1, *(6, 7, 8)[:n])
    sample = lib.tensor([[[0.3, 0.8, 0.5][:n]]], dtype=lib.float64)
    y, at = getattr(F, f"fractional_max_pool{n}d")(x, 2, output_size=3, return_indices=True, _random_samples=sample)
    order = sample[0, 0].tolist()[::-1] if n == 2 else sample[0, 0].tolist()
    begins = []
    for size, u in zip(x.shape[2:], order):
        alpha = (size - 2) / 2
        begins.append([int((i + u) * alpha) - int(u * alpha) for i in range(2)] + [size - 2])
    for place in itertools.product(range(3), repeat=n):
        window = x[0, 0][tuple(slice(begins[d][i], begins[d][i] + 2) for d, i in enumerate(place))]
        assert y[0, 0][place] == window.max()
    assert x.reshape(-1)[at.reshape(-1)].tolist() == y.reshape(-1).tolist()


@pytest.mark.parametrize("call, text", [
    (lambda lib, F: F.max_pool2d(lib.ones(1, 2, 4, 4), -1), "kernel size should be greater than zero, but got kH: -1 kW: -1"),
    (lambda lib, F: F.avg_pool3d(lib.ones(1, 2, 2, 2, 2), 3), r"input image \(T: 2 H: 2 W: 2\) smaller than kernel size"),
    (lambda lib, F: F.max_pool2d(lib.ones(1, 2, 2, 2), 3), r"Given input size: \(2x2x2\). Calculated output size: \(2x0x0\)"),
    (lambda lib, F: F.max_pool1d(lib.ones(1, 2, 5), 2, 0), r"max_pool1d\(\) stride must be greater than zero, but got 0"),
    (lambda lib, F: F.adaptive_avg_pool2d(lib.ones(1, 2, 3, 3), (-1, 2)), "but received {-1, 2}"),
])
def test_pooling_names_what_is_wrong(lib, F, call, text):
    with pytest.raises(RuntimeError, match=text):
        call(lib, F)


# ---- padding

def test_circular_padding_repeats_what_negative_padding_leaves(lib, F):
    x = lib.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert F.pad(x, (-1, 2), "circular").tolist() == [[2, 3, 4, 2, 3]]
    assert F.pad(x, (2, 1), "reflect").tolist() == [[3, 2, 1, 2, 3, 4, 3]]
    assert F.pad(x, (2, -1), "replicate").tolist() == [[1, 1, 1, 2, 3]]
    assert F.pad(x > 2, (1, 1), "circular").tolist() == [[True, False, False, True, True, False]]
    with pytest.raises(RuntimeError, match="Padding value causes wrapping around more than once"):
        F.pad(x, (5, 0), "circular")
    with pytest.raises(NotImplementedError, match="Padding size 4 is not supported for 2D input tensor"):
        F.pad(x, (1, 1, 1, 1), "reflect")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_gradients_of_padding_add_up_where_elements_came_from(lib, F, mode):
    x, pads = numbers(lib, 1, 2, 3, 4), (2, 1, 1, -1)
    weights = numbers(lib, *F.pad(x, pads, mode).shape)
    assert_slopes(lib, lambda x: (F.pad(x, pads, mode) * weights).sum(), x, range(0, 24, 5))


# ---- interpolation and sampling

def test_antialiasing_counts_every_element(lib, F):
    x = lib.zeros(1, 1, 1, 8)
    x[..., 3] = 8
    plain = F.interpolate(x, (1, 2), mode="bilinear")
    smooth = F.interpolate(x, (1, 2), mode="bilinear", antialias=True)
    assert smooth.sum() > 0 and smooth[0, 0, 0, 0] > smooth[0, 0, 0, 1] > 0
    assert plain.tolist() != smooth.tolist()
    flat = lib.full((1, 1, 7, 9), 3.0)
    for mode in ("bilinear", "bicubic"):
        assert F.interpolate(flat, (3, 4), mode=mode, antialias=True).tolist() == [[[[pytest.approx(3)] * 4] * 3]]


def test_a_size_of_zero_is_named_by_dimension(lib, F):
    with pytest.raises(RuntimeError, match=r"but got input \(H: 3, W: 4\) output \(H: 0, W: 2\)"):
        F.interpolate(lib.ones(1, 1, 3, 4), (0, 2))


@pytest.mark.parametrize("mode, padding, align", list(itertools.product(
    ["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [False, True])))
def test_grid_sample_differentiates_twice(lib, F, mode, padding, align):
    x, grid = numbers(lib, 1, 2, 3, 4), numbers(lib, 1, 2, 3, 2) * 1.3 + 0.03
    weights = numbers(lib, 1, 2, 2, 3)

    def of_image(x):
        return (F.grid_sample(x, grid, mode, padding, align) * weights).sum()

    def of_grid(grid):
        return (F.grid_sample(x, grid, mode, padding, align) * weights).sum()
    assert_slopes(lib, of_image, x, range(0, 24, 7))
    assert_slopes(lib, of_grid, grid, range(0, 12, 3))

    def slopes_of_grid(x):
        places = grid.detach().requires_grad_()
        loss = (F.grid_sample(x, places, mode, padding, align) * weights).sum()
        return lib.autograd.grad(loss, places, create_graph=True)[0].mul(numbers(lib, 1, 2, 3, 2)).sum()
    if mode != "nearest":
        assert_slopes(lib, slopes_of_grid, x, range(0, 24, 7))


def test_a_grid_made_from_the_image_keeps_its_own_share_of_second_gradients(lib, F):
    def loss(x):
        grid = lib.stack([x[0, 0] * 0.5, x[0, 0] * 0.3], -1).unsqueeze(0)
        return F.grid_sample(x, grid, align_corners=False).pow(2).sum()
    x = numbers(lib, 1, 1, 3, 3) + 0.1

    def slopes(x):
        x = x if x.requires_grad else x.detach().requires_grad_()
        return lib.autograd.grad(loss(x), x, create_graph=True)[0].mul(numbers(lib, 1, 1, 3, 3)).sum()
    assert_slopes(lib, slopes, x, range(9))


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_far_outside(lib, F, mode, align):
    """Coordinates that are not finite, or too large for an integer, among more places than go through the loops at once."""
    inf = float("inf")
    far = lib.tensor([float("nan"), inf, -inf, 1e30, -1e30, 1e6, -1e6, 0.9, -1.0, 0.0, 1.0000001, 3, -3, 5, -5] * 6)
    grid = lib.stack([far, far.flip(0) * 0.5], -1)[None, None].requires_grad_()
    x = lib.arange(60.0).reshape(1, 2, 5, 6).sin().requires_grad_()
    y = F.grid_sample(x, grid, mode, "zeros", align)
    y.sum().backward()
    one_by_one = [F.grid_sample(x, grid[:, :, i:i + 1], mode, "zeros", align) for i in range(90)]
    assert lib.equal(y.nan_to_num(7), lib.cat(one_by_one, -1).nan_to_num(7))
    assert (y[..., 3:7] == 0).all() and y.nan_to_num(0).any()
    assert x.grad.isfinite().all() and (grid.grad[0, 0, 3:7] == 0).all()
    # An element of zero times a weight without a value: in linear interpolation that is the other coordinate's slope.
    assert grid.grad[0, 0, :3].isnan().tolist() == [[mode == "bicubic", mode != "nearest"]] * 3


def test_affine_grids_reach_the_corners_when_aligned(lib, F):
    theta = lib.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = F.affine_grid(theta, (1, 1, 2, 3), align_corners=True)
    assert grid[0, 0].tolist() == [[-1, -1], [0, -1], [1, -1]]
    assert F.affine_grid(theta, (1, 1, 2, 2), align_corners=False)[0, 0].tolist() == [[-0.5, -0.5], [0.5, -0.5]]


# ---- losses

def all_alignments(log_probs, target, blank):
    """Minus the log likelihood of the target: the sum over every path that collapses to it."""
    total, steps, classes = 0.0, len(log_probs), len(log_probs[0])
    for path in itertools.product(range(classes), repeat=steps):
        if [k for k, _ in itertools.groupby(path) if k != blank] == target:
            total += math.exp(sum(log_probs[t][k] for t, k in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("target, blank", [([1, 2], 0), ([1, 1], 0), ([0], 2), ([], 0), ([2, 0, 1], 3)])
def test_ctc_loss_is_the_sum_over_all_alignments(lib, F, target, blank):
    log_probs = numbers(lib, 4, 1, 4).log_softmax(2)
    expected = all_alignments(log_probs[:, 0].tolist(), target, blank)
    loss = F.ctc_loss(log_probs, lib.tensor([target], dtype=lib.int64), (4,), (len(target),), blank, reduction="none")
    assert loss.tolist() == [pytest.approx(expected)]
    logits = numbers(lib, 4, 1, 4)
    assert_slopes(lib, lambda x: F.ctc_loss(x.log_softmax(2), lib.tensor([target], dtype=lib.int64), (4,), (len(target),), blank,
                                            reduction="sum"), logits, range(0, 16, 3))


def test_ctc_loss_without_an_alignment_is_infinite_or_zero(lib, F):
    log_probs = numbers(lib, 2, 1, 3).log_softmax(2).requires_grad_()
    arguments = lib.tensor([[1, 1]]), lib.tensor([2]), lib.tensor([2])
    assert F.ctc_loss(log_probs, *arguments, reduction="none").tolist() == [math.inf]
    loss = F.ctc_loss(log_probs, *arguments, zero_infinity=True)
    assert loss.item() == 0
    loss.backward()
    assert not log_probs.grad.any()
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 2, but got value 3"):
        F.ctc_loss(log_probs, lib.tensor([[1]]), (3,), (1,))


def test_margin_losses_against_their_definitions(lib, F):
    x = numbers(lib, 2, 3)
    rows, targets = x.tolist(), [2, 0]
    expected = [sum(max(0, 0.5 - r[t] + r[c]) ** 2 for c in range(3) if c != t) / 3 for r, t in zip(rows, targets)]
    assert F.multi_margin_loss(x, lib.tensor(targets), p=2, margin=0.5, reduction="none").tolist() == pytest.approx(expected)
    assert_slopes(lib, lambda x: F.multi_margin_loss(x, lib.tensor(targets), p=2, margin=0.5), x, range(6))
    labels = lib.tensor([[2, 0, -1], [1, -1, 0]])
    expected = [(sum(max(0, 1 - rows[0][t] + rows[0][1]) for t in (2, 0))) / 3,
                sum(max(0, 1 - rows[1][1] + rows[1][c]) for c in (0, 2)) / 3]
    assert F.multilabel_margin_loss(x, labels, reduction="none").tolist() == pytest.approx(expected)
    assert_slopes(lib, lambda x: F.multilabel_margin_loss(x, labels), x, range(6))
    with pytest.raises(RuntimeError, match="target out of range"):
        F.multi_margin_loss(x, lib.tensor([0, 3]))


def test_derivatives_that_are_not_there_say_so(lib, F):
    x = numbers(lib, 2, 3).requires_grad_()
    gradient, = lib.autograd.grad(F.multi_margin_loss(x, lib.tensor([0, 1])), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::multi_margin_loss_backward is not implemented"):
        lib.autograd.grad(gradient.sum(), x)


# ---- distances and norms

@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf])
def test_pdist_is_the_upper_triangle_of_all_distances(lib, F, p):
    x = numbers(lib, 4, 3)
    expected = [lib.linalg.vector_norm(x[i] - x[j], p).item() for i in range(4) for j in range(i + 1, 4)]
    assert F.pdist(x, p).tolist() == pytest.approx(expected)
    weights = numbers(lib, 6)
    if p:
        assert_slopes(lib, lambda x: (F.pdist(x, p) * weights).sum(), x, range(12))


def test_group_statistics_take_part_in_gradients(lib):
    x, one = numbers(lib, 2, 4, 3), lib.ones(4, dtype=lib.float64)

    def loss(x):
        y, mean, rstd = lib.native_group_norm(x, one, one, 2, 4, 3, 2, 1e-5)
        return y.pow(3).sum() + (mean * numbers(lib, 2, 2)).sum() + (rstd * numbers(lib, 2, 2)).sum()
    assert_slopes(lib, loss, x, range(0, 24, 5))
    x.requires_grad_()
    flags = [y.requires_grad for y in lib.native_layer_norm(x, (3,), None, None, 1e-5)]
    assert flags == [True, False, False]


def test_complex_rows_have_real_distances_and_complex_root_mean_squares(lib, F):
    z = lib.complex(numbers(lib, 2, 3), numbers(lib, 2, 3) + 1)
    w = lib.complex(numbers(lib, 2, 3) - 1, numbers(lib, 2, 3))
    distance = F.pairwise_distance(z, w)
    assert distance.dtype == lib.float64
    assert distance.tolist() == pytest.approx([sum(abs(a - b + 1e-6) ** 2 for a, b in zip(r, s)) ** 0.5
                                               for r, s in zip(z.tolist(), w.tolist())])
    row = z[0].tolist()
    scale = (sum(a * a for a in row) / 3 + 0.5) ** -0.5
    for got, a in zip(F.rms_norm(z, (3,), eps=0.5)[0].tolist(), row):
        assert got == pytest.approx(a * scale)


def test_products_of_groups(lib, F):
    a, b = numbers(lib, 8, 8, dtype=lib.float32), numbers(lib, 2, 8, 8, dtype=lib.float32)
    ends = lib.tensor([4, 8], dtype=lib.int32)
    expected = lib.cat([a[:4] @ b[0], a[4:] @ b[1]])
    assert lib.allclose(F.grouped_mm(a, b, offs=ends), expected, atol=1e-5)
    with pytest.raises(RuntimeError, match="contraction dimension of mat_a and mat_b must match"):
        F.grouped_mm(a[:, :4], b, offs=ends)


def test_gradients_of_convolutions_by_name(lib):
    f = lib.nn.functional
    assert f.grad is lib.nn.grad
    assert f.grad.conv2d_input((1, 1, 4, 4), lib.ones(1, 1, 3, 3), lib.ones(1, 1, 2, 2)).sum() == 36


def test_folding_into_less_than_a_window_is_refused_by_name(lib, F):
    for n, words in ((12, "calculated shape of the array of sliding blocks as \\(-4, -3\\), which is too small"),
                     (11, "match the calculated number of sliding blocks")):
        with pytest.raises(RuntimeError, match=words):
            F.fold(lib.ones(1, 12, n), output_size=(4, 5), kernel_size=(2, 2), stride=1, dilation=8, padding=0)


def test_sizes_to_resize_to_are_integers(lib, F):
    x = lib.ones(1, 1, 4)
    for size in 2.0, lib.tensor(2.0):
        for mode in "nearest", "area", "linear":
            with pytest.raises(TypeError, match="expected size to be one of int or"):
                F.interpolate(x, size=(size,), mode=mode)
    assert F.interpolate(x, size=(lib.tensor(2),)).shape == (1, 1, 2)


def test_statistics_of_nothing(lib):
    with pytest.raises(RuntimeError, match=r"input tensor must have at least one element, but got input_sizes = \[0, 1\]"):
        lib.batch_norm_update_stats(lib.rand(0, 1), lib.rand(1), lib.rand(1), 0.)


@pytest.mark.parametrize("size", [[6, 3, 4, 5], [6, 3, 4, 5, 5]])
def test_nothing_is_saved_for_the_gradient_of_a_regular_grid(lib, F, size):
    dims = len(size) - 2
    theta = lib.rand(6, dims, dims + 1, dtype=lib.float64, requires_grad=True)
    grid = F.affine_grid(theta, size, align_corners=False)
    weights = lib.rand(grid.shape, dtype=lib.float64)
    (first,), (second,) = lib.autograd.grad(grid, theta, weights), lib.autograd.grad(grid, theta, weights)
    assert lib.equal(first, second) and type(grid.grad_fn).__name__ == "AffineGridGeneratorBackward0"
    assert lib.allclose(first, lib.ops.aten.affine_grid_generator_backward(weights, size, False))

    def f(theta):
        return F.affine_grid(theta, size, align_corners=True)
    assert lib.autograd.gradcheck(f, (theta,), check_forward_ad=True, check_batched_grad=True) and lib.autograd.gradgradcheck(f, (theta,))
    both = lib.stack([theta, theta * 2]).detach()
    assert lib.allclose(lib.func.vmap(f)(both), lib.stack([f(x) for x in both]))
