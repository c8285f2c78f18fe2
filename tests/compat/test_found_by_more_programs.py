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


@pytest.mark.parametrize('n', [2, 5, 40, 200, 5000])
@pytest.mark.parametrize('name', ['float32', 'float64', 'bfloat16'])
def test_a_mean_beside_a_variance_is_infinite_where_the_infinity_comes_last(lib, name, n):
    for place, values, mean in [(-1, [INF], INF), (-1, [-INF], -INF), (0, [INF], NAN), (-2, [INF, INF], NAN), (-1, [NAN], NAN)]:
        x = lib.arange(n, dtype=lib.float32).remainder(7).to(getattr(lib, name))
        x[place:n + place + len(values) if place < 0 else len(values)] = lib.tensor(values, dtype=x.dtype)
        for found in lib.var_mean(x), lib.std_mean(x), lib.var_mean(x.expand(3, n).contiguous(), 1), lib.std_mean(x.expand(3, n).t().contiguous(), 0):
            lib.testing.assert_close(found[1].double().flatten(), lib.full((found[1].numel(),), mean, dtype=lib.float64), equal_nan=True)
            assert found[0].isnan().all()


def test_a_variance_whose_squares_leave_the_range_of_floats(lib):
    x = lib.tensor([3e19, -3e19, 3e19, -3e19] * 20)
    for y in x, x.reshape(1, -1).t().expand(-1, 3).contiguous():
        assert lib.allclose(lib.std(y, 0), lib.tensor(3e19), rtol=0.02)
    lib.testing.assert_close(lib.var_mean(lib.tensor([3e38, 2e38, 3e38]))[1], lib.tensor(8e38 / 3))


def test_a_determinant_is_that_of_the_transpose_of_rows(lib):
    x = lib.tensor([[-2., 1.5, 1.25], [-.25, -1.5, .5], [3., -INF, -1.]])
    assert lib.det(x) == -INF and lib.det(x.t()) == -INF and lib.det(x.t().contiguous()).isnan()
    assert lib.slogdet(x)[0] == -1 and lib.slogdet(x)[1] == INF


def test_a_norm_of_one_number_is_its_magnitude(lib):
    for dtype in lib.float32, lib.float64, lib.complex64:
        for p in 1e30, -1e30, 0.3, NAN:
            found = lib.linalg.vector_norm(lib.tensor([[-1.75], [.5], [0.]], dtype=dtype), p, dim=1)
            assert found.tolist() == [1.75, .5, 0.] and lib.norm(lib.tensor([-1.75], dtype=dtype), p) == 1.75
    assert lib.linalg.vector_norm(lib.tensor([[-1.75], [0.]]), 0, dim=1).tolist() == [1, 0]


def test_pivots_that_no_row_is_left_for(lib):
    for pivots in [1, 1, 1], [2, 2, 1, 2]:
        assert lib.lu_unpack(lib.zeros(2, 3), lib.tensor(pivots, dtype=lib.int32))[0].tolist() == [[0., 1.], [1., 0.]]
    assert lib.lu_unpack(lib.zeros(0, 3), lib.tensor([-5, 0, 7], dtype=lib.int32))[2].shape == (0, 3)
    with pytest.raises(RuntimeError, match='must be between 1 and'):
        lib.lu_unpack(lib.zeros(2, 3), lib.tensor([1, 3, 2], dtype=lib.int32))


def test_a_power_whose_products_are_refused(lib):
    for n in 2, 3, 5, 7:
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            lib.ones(2, 2, dtype=lib.bool).matrix_power(n)


def test_truth_values_without_elements_have_no_median_or_rank(lib):
    for name in 'median', 'nanmedian':
        with pytest.raises(NotImplementedError, match="\"median_out\" not implemented for 'Bool'"):
            getattr(lib, name)(lib.zeros(3, 0, dtype=lib.bool), 0)
    for atol in 0., lib.zeros(()):
        with pytest.raises(RuntimeError, match='other than float and double'):
            lib.linalg.matrix_rank(lib.zeros(0, 3, dtype=lib.bool), atol=atol)


def test_an_expanded_out_is_refused_whatever_its_shape(lib):
    for name, arguments in ('clamp', (1,)), ('nan_to_num', ()), ('add', (1,)):
        with pytest.raises(RuntimeError, match='more than one element of the written-to tensor'):
            getattr(lib, name)(lib.ones(2, 2, 1, 1), *arguments, out=lib.ones(1).expand(4))


def test_a_window_begins_at_zero(lib):
    for n in range(2, 40):
        assert lib.blackman_window(n, dtype=lib.float64)[0] == 0


def test_statistics_of_instances_have_one_dimension(lib):
    for mean, variance in (lib.ones(1, 1), lib.ones(1)), (lib.ones(1), lib.ones(1, 1)):
        with pytest.raises(RuntimeError, match='Number of dimensions of repeat dims'):
            lib.nn.functional.instance_norm(lib.ones(2, 1, 3), mean, variance)


def test_results_and_gradients_in_the_order_of_memory(lib):
    x = lib.ones(3, 4, 2, dtype=lib.complex64).permute(2, 1, 0)
    assert lib.rms_norm(x, [3]).stride() == (12, 3, 1)
    x = lib.ones(4, 3, 2, 2).permute(3, 2, 1, 0).requires_grad_()
    assert lib.autograd.grad(x.angle().sum(), [x])[0].stride() == x.stride()
