"""More of what random programs (tools/fuzz_programs.py) have found, each on both libraries."""
import pytest

INF, NAN = float('inf'), float('nan')


@pytest.mark.parametrize('base', [-1., 0., -2.5, 0.5])
def test_logspace_with_any_base(lib, base):
    for dtype in lib.float32, lib.float64:
        lib.testing.assert_close(lib.logspace(1, 4, 4, base, dtype=dtype), lib.tensor([base ** k for k in (1, 2, 3, 4)], dtype=dtype))
    found = lib.logspace(1 + 1j, 2 - 1j, 3, base, dtype=lib.complex128)
    want = [0j if base == 0 else complex(base) ** z for z in (1 + 1j, 1.5 + 0j, 2 - 1j)]
    lib.testing.assert_close(found, lib.tensor(want, dtype=lib.complex128))
    assert lib.logspace(1, 3, 3, 0., dtype=lib.int64).tolist() == [0, 0, 0]


@pytest.mark.parametrize('eps, want', [
    (None, [NAN, INF, 1 / .1875, 4, INF, NAN]), (-1., [NAN, INF, 1 / .1875, 4, INF, NAN]), (0., [0, INF, 1 / .1875, 4, INF, 0]),
    (.3, [0, 0, 0, 4, 0, 0]), (.6, [0, 0, 0, 0, 0, 0])])
def test_logit_at_its_limits(lib, eps, want):
    x = lib.tensor([-.5, 0., .25, .5, 1., 2.], requires_grad=True)
    lib.logit(x, eps).sum().backward()
    lib.testing.assert_close(x.grad, lib.tensor(want, dtype=lib.float32), equal_nan=True)
    wide = lib.rand(4, 3, 2).permute(2, 1, 0)
    assert lib.logit(wide, eps).stride() == wide.stride()
    assert lib.logit(lib.tensor(3), .25).item() == lib.logit(lib.tensor(.75)).item()


@pytest.mark.parametrize('mode, shape', [('linear', (1, 1, 3)), ('bilinear', (1, 1, 1, 3)), ('trilinear', (1, 1, 1, 1, 3))])
def test_a_dimension_that_keeps_its_size_is_not_mixed(lib, mode, shape):
    """Neither are neighbours taken with a weight of 0, which would spread infinities, nor is a scale that rounds to the same size used."""
    x = lib.tensor([1., INF, 3.]).reshape(shape)
    found = lib.nn.functional.interpolate(x, size=shape[2:], mode=mode).flatten()
    assert found[0] == 1 and found[2] == 3
    y = lib.tensor([1., 5., 3.]).reshape(shape)
    for corners in False, True:
        assert lib.equal(lib.nn.functional.interpolate(y, scale_factor=1.2, mode=mode, align_corners=corners), y)


def test_a_number_that_the_dtype_cannot_hold_is_refused(lib):
    with pytest.raises(RuntimeError, match='without overflow'):
        lib.histc(lib.ones(3), min=0, max=1e40)
    assert lib.histc(lib.ones(3, dtype=lib.float64), 2, min=0, max=1e40).tolist() == [3, 0]
    for start, end in ((-1.5, 1 + 2j), (1j, 3)):
        with pytest.raises(RuntimeError, match='without overflow'):
            lib.range(start, end)


def test_windows_of_complex_numbers_have_at_most_one_element(lib):
    for window in lib.hann_window, lib.hamming_window, lib.blackman_window, lib.bartlett_window, lib.kaiser_window:
        assert window(0, dtype=lib.complex64).tolist() == [] and window(1, dtype=lib.complex64).tolist() == [1]
        with pytest.raises(RuntimeError):
            window(2, dtype=lib.complex64)


def test_integers_have_a_complex_nansum(lib):
    for dtype in lib.uint8, lib.int64, lib.bool:
        found = lib.tensor([[1, 0], [1, 1]]).to(dtype).nansum(0, dtype=lib.complex64)
        assert found.dtype is lib.complex64 and found.tolist() == [2, 1]
    with pytest.raises(NotImplementedError):
        lib.nansum(lib.ones(2), dtype=lib.complex64)


def test_halves_are_counted_between_given_edges(lib):
    for dtype in lib.float16, lib.bfloat16:
        edges = lib.tensor([-1.75, .5, 1.75], dtype=dtype)
        found = lib.histogram(lib.tensor([1.25, 0., 1.5], dtype=dtype), edges)
        assert found.hist.dtype is dtype and found.hist.tolist() == [1, 2]
        with pytest.raises(NotImplementedError, match='histogramdd'):
            lib.histogram(lib.ones(3, dtype=dtype), 4)


def test_nothing_has_any_dtype(lib):
    F = lib.nn.functional
    for dtype in lib.float16, lib.bfloat16:
        assert lib.pdist(lib.empty(2, 0, dtype=dtype)).tolist() == [0] and lib.pdist(lib.empty(1, 3, dtype=dtype)).numel() == 0
    assert F.adaptive_avg_pool2d(lib.ones(1, 3, 4, 5, dtype=lib.int64), 0).shape == (1, 3, 0, 0)
    assert F.max_unpool1d(lib.empty(0, 3, dtype=lib.bool), lib.empty(0, 3, dtype=lib.int64), 2).shape == (0, 6)
    assert F.max_unpool2d(lib.ones(1, 3, 2), lib.full((1, 3, 2), 9), -1, 1).shape == (1, 1, 0)
    for scan in lib.cummax, lib.cummin:
        assert scan(lib.empty(0), -2).values.numel() == 0
    for shape, rows in (((2, 0), 2), ((0, 2), 0)):
        p, lower, upper = lib.linalg.lu(lib.ones(shape), pivot=False)
        assert p.shape == (0,) and lower.shape == (rows, 0) and upper.shape == (0, shape[1])


def test_a_given_result_records_no_gradient(lib):
    for function in lib.max, lib.min:
        with pytest.raises(RuntimeError, match='automatic differentiation'):
            function(lib.ones(2, 2), 0, out=(lib.ones(2, requires_grad=True), lib.ones(2, dtype=lib.int64)))


def test_a_factor_does_not_hide_that_the_source_is_written_to(lib):
    for x in lib.ones(2), lib.empty(0)[..., ::2]:
        index = lib.arange(x.numel())
        with pytest.raises(RuntimeError, match='single memory location'):
            x.index_add_(0, index, x, alpha=2)


def test_unique_slices_may_be_written_to(lib):
    for unique in lambda x: x.unique_consecutive(dim=1), lambda x: lib.unique(x, dim=1):
        found = unique(lib.tensor([[1., 2., 4.]], requires_grad=True)[...])
        found[...] += found
        assert found.tolist() == [[2, 4, 8]] and found.requires_grad


def test_bilinear_wants_one_dtype(lib):
    for bias in lib.ones(2, dtype=lib.int32), lib.ones(2, dtype=lib.float64):
        with pytest.raises(RuntimeError, match='same dtype'):
            lib.bilinear(lib.ones(1, 2), lib.ones(1, 2), lib.ones(2, 2, 2), bias)


def test_strides_of_powers_and_attention(lib):
    x = lib.ones(4, 3, 2).permute(2, 1, 0)
    assert lib.float_power(2, x).stride() == lib.float_power(1, x).stride() == lib.pow(2, x).stride() == (12, 4, 1)
    assert lib.float_power(x, 2).stride() == x.stride()
    heads = lib.rand(3, 2, 4).permute(1, 0, 2)
    assert lib.nn.functional.scaled_dot_product_attention(heads, heads, heads).stride() == (12, 4, 1)


def test_none_is_one_argument_that_others_may_follow(lib):
    x = lib.tensor([[2., -2.5, .5], [1., 2., 3.]])
    for name in 'std', 'var':
        method, function = getattr(x, name), getattr(lib, name)
        assert method(None, False) == function(x, dim=None, unbiased=False) != method()
        assert method(None, False, True).shape == (1, 1)
    for name in 'sum', 'mean', 'nansum':
        assert getattr(x, name)(None, True).shape == (1, 1), name


def test_vander_counts_integers_in_int64(lib):
    for dtype in lib.uint8, lib.uint16, lib.int8:
        found = lib.linalg.vander(lib.tensor([6, 8], dtype=dtype), N=3)
        assert found.dtype is lib.int64 and found.tolist() == [[1, 6, 36], [1, 8, 64]]


def test_complex_numbers_have_no_order_even_where_there_are_none(lib):
    for function in lib.max, lib.min:
        with pytest.raises(RuntimeError, match='does not support complex input'):
            function(lib.empty(0, 3, dtype=lib.complex64), -1)
    assert lib.empty(0)[..., ::2].roll([2]).stride() == (2,)


def test_rrelu_adds_truth_values_to_a_truth_value(lib):
    x = lib.tensor([-1., 2.])
    assert lib.rrelu(x, True, True).tolist() == [-0.5, 2.] and lib.rrelu(x, False, True).tolist() == [-0.5, 2.]
    assert lib.rrelu(x, True, 2).tolist() == [-1.5, 2.] and lib.rrelu_(x.clone(), True, True).tolist() == [-0.5, 2.]
