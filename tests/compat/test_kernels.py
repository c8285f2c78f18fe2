"""Kernels in the shapes where blocks, panels and vectors end: compared with NumPy's plainest formula."""
import itertools

import numpy as np
import pytest


@pytest.fixture
def random():
    return np.random.default_rng(5)


def close(got, wanted, tolerance=1e-4):
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize("k", [0, 1, 31, 385, 1000])     # 385 and 1000: more than one pass over k
@pytest.mark.parametrize("m, n", [(1, 1), (3, 33), (7, 5), (12, 32), (13, 65), (17, 10), (100, 100)])
def test_products_of_any_shape_and_step(lib, random, m, n, k):
    a, b, c = (random.standard_normal(s).astype("f") for s in ((m, k), (k, n), (m, n)))
    bias = random.standard_normal(n).astype("f")
    for turn_a, turn_b in itertools.product((False, True), repeat=2):
        x = lib.tensor(a.T.copy()).t() if turn_a else lib.tensor(a)
        y = lib.tensor(b.T.copy()).t() if turn_b else lib.tensor(b)
        close(x @ y, a @ b)
        close(lib.addmm(lib.tensor(c), x, y, beta=0.5, alpha=2), 0.5 * c + 2 * (a @ b))
        close(lib.nn.functional.linear(x, y.t(), lib.tensor(bias)), a @ b + bias)
    if k:
        close(lib.tensor(np.repeat(a, 2, 1))[:, ::2] @ lib.tensor(b), a @ b)


@pytest.mark.parametrize("m, n, k", [(1, 5, 3), (3, 16, 8), (8, 8, 8), (13, 47, 20), (6, 48, 0), (200, 20, 50)])
def test_many_small_products(lib, random, m, n, k):
    a, b, c = (random.standard_normal(s).astype("f") for s in ((5, m, k), (5, k, n + 3), (5, m, n)))
    y = lib.tensor(b)[:, :, :n]
    close(lib.bmm(lib.tensor(a), y), a @ b[:, :, :n])
    close(lib.baddbmm(lib.tensor(c), lib.tensor(a.swapaxes(1, 2).copy()).mT, y, beta=0.5, alpha=2),
          0.5 * c + 2 * (a @ b[:, :, :n]))
    close(lib.tensor(a) @ y[1:2], a @ b[1, :, :n])


def correlate(x, w, bias, stride, padding, dilation, groups):
    """2-d convolution, one position at a time."""
    x = np.pad(x.astype("d"), ((0, 0), (0, 0), *((p, p) for p in padding)))
    x, w = x.reshape(len(x), groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[3:], dilation)]
    out = [(n - r) // s + 1 for n, r, s in zip(x.shape[3:], reach, stride)]
    y = np.zeros((len(x), len(bias), *out))
    for i, j in np.ndindex(*out):
        part = x[..., i * stride[0]:i * stride[0] + reach[0]:dilation[0], j * stride[1]:j * stride[1] + reach[1]:dilation[1]]
        y[..., i, j] = np.einsum("ngchw,gochw->ngo", part, w).reshape(len(x), -1) + bias
    return y


@pytest.mark.parametrize("channels, out, groups", [(1, 3, 1), (5, 18, 1), (4, 4, 4), (6, 4, 2)])
@pytest.mark.parametrize("kernel, stride, padding, dilation", [
    ((3, 3), (1, 1), (1, 1), (1, 1)), ((3, 2), (2, 3), (2, 0), (1, 1)), ((2, 3), (1, 2), (1, 4), (3, 2)),
    ((1, 1), (2, 2), (0, 0), (1, 1)), ((5, 1), (1, 1), (0, 0), (2, 1))])
def test_convolution_and_its_gradients(lib, random, channels, out, groups, kernel, stride, padding, dilation):
    width = 29 if groups == channels else 11        # from 24 on, depthwise kernels go row by row
    x = random.standard_normal((2, channels, 13, width)).astype("f")
    w, bias = random.standard_normal((out, channels // groups, *kernel)).astype("f"), random.standard_normal(out).astype("f")
    tx, tw, tb = (lib.tensor(v, requires_grad=True) for v in (x, w, bias))
    y = lib.nn.functional.conv2d(tx, tw, tb, stride, padding, dilation, groups)
    wanted = correlate(x, w, bias, stride, padding, dilation, groups)
    close(y, wanted)
    # The gradients of sum(g y) are linear: their products with other inputs and weights are known.
    g = random.standard_normal(wanted.shape)
    dx, dw, db = lib.autograd.grad((y * lib.tensor(g.astype("f"))).sum(), (tx, tw, tb))
    other_x, other_w = random.standard_normal(x.shape), random.standard_normal(w.shape)
    none = np.zeros(out)
    for slope, other, there in ((dx, other_x, correlate(other_x, w, none, stride, padding, dilation, groups)),
                                (dw, other_w, correlate(x, other_w, none, stride, padding, dilation, groups))):
        np.testing.assert_allclose((slope.numpy() * other).sum(), (g * there).sum(), rtol=2e-3, atol=2e-2)
    close(db, g.sum((0, 2, 3)), 1e-3)


@pytest.mark.parametrize("width", [1, 9, 300])
def test_pools_see_nan_infinities_and_edges(lib, width):
    x = np.full((1, 1, 4, width), -np.inf, "f")
    x[0, 0, 2, width // 2] = np.nan
    values, places = lib.nn.functional.max_pool2d(lib.tensor(x), 2, 2, padding=1, return_indices=True)
    assert np.isnan(values.numpy()).sum() == 1
    assert places.numpy()[np.isnan(values.numpy())] == 2 * width + width // 2
    assert places[0, 0, 0, 0] == 0
    ones = lib.ones(1, 1, 4, width)
    counted = lib.nn.functional.avg_pool2d(ones, 3, 1, padding=1, count_include_pad=False).numpy()
    np.testing.assert_array_equal(counted, np.ones((1, 1, 4, width)))
    assert lib.nn.functional.avg_pool2d(ones, 3, 1, padding=1)[0, 0, 0, 0] == lib.tensor((4 if width > 1 else 2) / 9)


def windows(x, kernel, stride, padding, dilation, fill):
    """Each window of the rows and columns of x, in the order of their elements: [..., out, out, elements]."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
    reach = [(k - 1) * dilation + 1 for k in kernel]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return view.reshape(*view.shape[:4], -1)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("height, width", [(3, 5), (13, 13), (7, 26), (4, 33), (3, 300), (3, 1100)])
def test_pools_of_rows_of_any_length(lib, random, height, width, dtype):
    x = random.standard_normal((2, 3, height, width)).astype(dtype)
    inside = np.ones_like(x)
    places = np.broadcast_to(np.arange(height * width, dtype="d").reshape(height, width), x.shape)
    for kernel, stride, padding, dilation in (((2, 2), 2, 0, 1), ((3, 3), 1, 1, 1), ((3, 2), 3, 1, 1), ((2, 3), 2, 1, 1),
                                              ((2, 3), 1, 0, 1), ((2, 2), 2, 1, 2)):
        seen = windows(x, kernel, stride, padding, dilation, -np.inf)
        values, at = lib.nn.functional.max_pool2d(lib.tensor(x), kernel, stride, padding, dilation, return_indices=True)
        np.testing.assert_array_equal(values.numpy(), seen.max(-1))
        where = windows(places, kernel, stride, padding, dilation, -1)
        np.testing.assert_array_equal(at.numpy(), np.take_along_axis(where, seen.argmax(-1)[..., None], -1)[..., 0])
        if dilation == 1:
            count = windows(inside, kernel, stride, padding, 1, 0).sum(-1)
            mean = lib.nn.functional.avg_pool2d(lib.tensor(x), kernel, stride, padding, count_include_pad=False)
            close(mean, windows(x, kernel, stride, padding, 1, 0).sum(-1) / count)


@pytest.mark.parametrize("before, after", [(1, 40), (5, 5), (13, 26), (16, 33), (70, 131), (200, 7)])
def test_lines_are_interpolated_at_any_length(lib, random, before, after):
    x = random.standard_normal((2, 3, 2, before)).astype("d")
    at = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    low = np.minimum(at.astype(int), before - 1)
    part, high = at - low, np.minimum(low + 1, before - 1)
    wanted = x[..., low] * (1 - part) + x[..., high] * part
    for dtype in ("f", "d"):
        y = lib.nn.functional.interpolate(lib.tensor(x.astype(dtype)), size=(2, after), mode="bilinear")
        close(y, wanted, 1e-5 if dtype == "f" else 1e-12)


def test_an_expanded_index_adds_like_a_full_one(lib, random):
    to, src = random.integers(0, 5, 40), random.standard_normal((40, 6)).astype("f")
    wanted = np.zeros((5, 6), "f")
    np.add.at(wanted, to, src)
    index = lib.tensor(to)[:, None].expand(40, 6)
    close(lib.zeros(5, 6).scatter_add(0, index, lib.tensor(src)), wanted)
    close(lib.gather(lib.tensor(wanted), 0, index), wanted[to])
    with pytest.raises(RuntimeError, match="out of bounds"):
        lib.zeros(4, 6).scatter_add(0, index, lib.tensor(src))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex128"])
def test_masks_select_first_last_all_and_none(lib, dtype):
    x = np.arange(70).astype(dtype)
    for mask in (x.real < 1, x.real > 68, x.real >= 0, x.real < 0, x.real % 3 == 1):
        np.testing.assert_array_equal(lib.masked_select(lib.tensor(x), lib.tensor(mask)).numpy(), x[mask])
        np.testing.assert_array_equal(lib.nonzero(lib.tensor(mask)).numpy(), np.argwhere(mask))
        plane = mask.reshape(7, 10)
        np.testing.assert_array_equal(lib.nonzero(lib.tensor(plane)).numpy(), np.argwhere(plane))


@pytest.mark.parametrize("n", [0, 1, 47, 500, 5000])
def test_sorting_and_counting(lib, random, n):
    for x in (random.standard_normal(n).astype("f"), random.integers(-9, 9, n), random.integers(-2**60, 2**60, n)):
        np.testing.assert_array_equal(lib.argsort(lib.tensor(x), stable=True).numpy(), np.argsort(x, kind="stable"))
        values, inverse, counts = lib.unique(lib.tensor(x), return_inverse=True, return_counts=True)
        for mine, theirs in zip((values, inverse, counts), np.unique(x, return_inverse=True, return_counts=True)):
            np.testing.assert_array_equal(mine.numpy(), theirs)
    close(lib.cumsum(lib.ones(n, dtype=lib.float64) / 3, 0), np.cumsum(np.ones(n) / 3), 1e-12)


def test_short_pieces_join_in_turn(lib):
    parts = [np.arange(30 * k, dtype="i4").reshape(30, k) for k in (1, 3, 0, 2)]
    np.testing.assert_array_equal(lib.cat([lib.tensor(p) for p in parts], 1).numpy(), np.concatenate(parts, 1))
    rows = [np.arange(9000) + i for i in range(3)]
    np.testing.assert_array_equal(lib.stack([lib.tensor(r) for r in rows], 1).numpy(), np.stack(rows, 1))


def test_what_no_cache_holds(lib, random):
    """Results that are written past the caches: whole, in parts that don't begin with a cache line, and in place."""
    x = random.standard_normal(7_000_003).astype("f")
    t, odd = lib.tensor(x), lib.tensor(x)[1:-1]
    np.testing.assert_array_equal((t + t).numpy(), x + x)
    np.testing.assert_array_equal((odd > 0.5).numpy(), x[1:-1] > 0.5)
    out = lib.zeros(7_000_003)
    lib.mul(odd, 3, out=out[1:-1])
    np.testing.assert_array_equal(out.numpy(), np.pad(x[1:-1] * np.float32(3), 1))
    np.testing.assert_array_equal(odd.to(lib.float64).numpy(), x[1:-1].astype("d"))
    np.testing.assert_array_equal(lib.cat([odd, t]).numpy(), np.concatenate([x[1:-1], x]))
    np.testing.assert_array_equal(t.sub_(odd[0]).numpy(), x - x[1])
    rows, index = x[:6_400_000].reshape(-1, 64), random.integers(-90_000, 90_000, 60_000)
    np.testing.assert_array_equal(lib.tensor(rows)[lib.tensor(index)].numpy(), rows[index])
    np.testing.assert_array_equal(lib.tensor(rows)[:, 1:33][lib.tensor(index)].numpy(), rows[:, 1:33][index])


@pytest.mark.parametrize("columns", [7, 300, 40_000])
def test_a_column_or_a_number_on_either_side(lib, random, columns):
    m, c, v = (random.standard_normal(s).astype("f") for s in ((3, columns), (3, 1), columns))
    for left, right in ((m, c), (c, m), (m, c[1]), (c[1], m), (v, c[2, 0]), (m[:, ::2], c), (m.T.copy(), c.T.copy())):
        for op in ("__add__", "__sub__", "__mul__", "__truediv__"):
            wanted = getattr(np.asarray(left), op)(right)
            x, y = lib.tensor(left), lib.tensor(right)
            np.testing.assert_array_equal(getattr(x, op)(y).numpy(), wanted)
    x = lib.tensor(m)
    x -= lib.tensor(c)
    np.testing.assert_array_equal(x.numpy(), m - c)
    np.testing.assert_array_equal(lib.add(lib.tensor(m), lib.tensor(c), alpha=2).numpy(), m + 2 * c)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 3, 4, 17, 4099])
def test_elements_of_many_tensors_in_turn(lib, dtype, n):
    for parts in (4, 5, 16, 33):
        rows = [(np.arange(n) * 7 + i).astype(dtype) for i in range(parts)]
        np.testing.assert_array_equal(lib.stack([lib.tensor(r) for r in rows], 1).numpy(), np.stack(rows, 1))
        np.testing.assert_array_equal(lib.stack([lib.tensor(r[:-1]) for r in rows], -1).numpy(), np.stack(rows, -1)[:-1])


def test_many_elements_in_turn(lib):
    rows = [np.arange(1_700_000, dtype="f") + i for i in range(4)]      # written past the caches
    np.testing.assert_array_equal(lib.stack([lib.tensor(r) for r in rows], 1).numpy(), np.stack(rows, 1))


@pytest.mark.parametrize("rows, columns", [(2050, 2047), (33, 130_000), (130_000, 33)])
def test_large_matrices_turned_round(lib, random, rows, columns):
    x, y = random.standard_normal((rows, columns)).astype("f"), random.standard_normal((columns, rows)).astype("f")
    t, u = lib.tensor(x), lib.tensor(y)
    np.testing.assert_array_equal(t.T.contiguous().numpy(), x.T)
    np.testing.assert_array_equal(t.T.to(lib.float64, memory_format=lib.contiguous_format).numpy(), x.T)
    np.testing.assert_array_equal((t.T + u).numpy(), x.T + y)
    np.testing.assert_array_equal((u * t.T.double()).numpy(), y * x.T.astype("d"))
    np.testing.assert_array_equal((t.T[1:, ::2] - u[1:, ::2]).numpy(), x.T[1:, ::2] - y[1:, ::2])
