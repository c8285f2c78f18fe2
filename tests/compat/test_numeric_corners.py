"""Values and dtypes at the corners: halves, NaN, no elements, no dimensions, operands of several dtypes."""
import itertools
import math
import warnings

import pytest

nan, inf = math.nan, math.inf


@pytest.mark.parametrize('dtype, bits', [('float16', 10), ('bfloat16', 7)])
def test_nextafter_of_halves_is_their_own_neighbour(lib, dtype, bits):
    def after(a, b):
        return lib.nextafter(lib.tensor(a, dtype=dtype), lib.tensor(b, dtype=dtype))
    dtype = getattr(lib, dtype)
    info = lib.finfo(dtype)
    assert after([1., -1.], 2.).tolist() == [1 + 2 ** -bits, -1 + 2 ** -(bits + 1)]
    assert after([1., 0.], -2.).tolist() == [1 - 2 ** -(bits + 1), -info.tiny * 2 ** -bits]
    assert after([0., -0.], 1.).tolist() == [info.tiny * 2 ** -bits] * 2
    assert after([info.max, -info.max, inf, -inf], [inf, -inf, 0., 0.]).tolist() == [inf, -inf, info.max, -info.max]
    assert after([nan, 1.], [1., nan]).isnan().all() and after([3., -0.], [3., 0.]).tolist() == [3, 0]
    assert lib.nextafter(lib.ones(2, dtype=dtype), lib.tensor(2., dtype=lib.float64)).tolist() == [1 + 2 ** -bits] * 2
    x = lib.ones(3, dtype=dtype)[::2]
    assert x.nextafter_(lib.tensor(0., dtype=dtype)).tolist() == [1 - 2 ** -(bits + 1)] * 2
    wide = lib.nextafter(lib.ones(2, dtype=dtype), lib.zeros(2, dtype=dtype), out=lib.empty(2, dtype=lib.float64))
    assert wide.tolist() == [1 - 2 ** -(bits + 1)] * 2


def test_the_top_of_a_number_is_that_number_however_many_are_wanted(lib):
    for k, dtype in itertools.product((0, 1), (lib.float64, lib.float16, lib.int64)):
        values, indices = lib.topk(lib.tensor(67, dtype=dtype), k, 0)
        assert values.shape == indices.shape == () and values == 67 and indices == 0
    assert lib.topk(lib.tensor([.67]), 0, 0).values.shape == (0,)
    with pytest.raises(RuntimeError, match='out of range'):
        lib.topk(lib.tensor(1.), 2, 0)


def test_mode_counts_each_nan_once(lib):
    for row, value, index in (([1., nan, 3, nan, nan, 3], 1, 0), ([nan, nan, 1.], nan, 0), ([nan, 2, 1., 1], 1, 3), ([2, nan, 2, 1., 1], 1, 3),
                              ([1., nan, 1], 1, 0), ([nan], nan, 0), ([3., 1, 1, nan], 1, 2)):
        for dtype in lib.float32, lib.float64, lib.float16, lib.bfloat16:
            found = lib.mode(lib.tensor(row, dtype=dtype))
            assert str(found.values.item()) == str(float(value)) and found.indices == index


def test_nansum_to_integers_leaves_nan_out(lib):
    x = lib.tensor([1.7, nan, 1.7])
    assert lib.nansum(x, dtype=lib.int64) == 2 and lib.nansum(x, dtype=lib.int32).dtype == lib.int32
    assert lib.nansum(x, dtype=lib.bool).tolist() is True and lib.nansum(x * nan, dtype=lib.bool).tolist() is False
    assert lib.nansum(x.expand(4, 3), 0, dtype=lib.int64).tolist() == [4, 0, 4]
    assert lib.nansum(x.half(), dtype=lib.float64) == 2 * lib.tensor(1.7).half().double()
    with pytest.raises(NotImplementedError, match='nansum_cpu'):
        lib.nansum(x, dtype=lib.complex64)


def test_ldexp_multiplies_by_any_power_of_two(lib):
    found = lib.ldexp(lib.tensor([2.]), lib.tensor([1 + 2j]))
    assert lib.allclose(found, lib.tensor([4 * 2 ** 2j]))
    assert lib.ldexp(lib.tensor(1e-38), lib.tensor(130)) < 14 and lib.ldexp(lib.tensor(1e-38), lib.tensor(130.)) == inf
    assert lib.ldexp(lib.tensor([1.]), lib.tensor([.3], dtype=lib.bfloat16)).item() == lib.tensor(2 ** lib.tensor(.3).bfloat16().item()).bfloat16()
    with pytest.raises(NotImplementedError, match='ldexp_cpu_exp'):
        lib.ldexp(lib.tensor([1.]), lib.tensor([True]))
    with pytest.raises(RuntimeError, match="can't be cast"):
        lib.tensor([1.]).ldexp_(lib.tensor([3j]))


def test_conj_physical_of_real_numbers_is_self(lib):
    x = lib.ones(2, requires_grad=True)
    assert lib.conj_physical(x) is x
    assert lib.tensor([1]).conj_physical_().tolist() == [1]
    z = lib.tensor([1 + 2j])
    assert lib.conj_physical(z) is not z and lib.conj_physical(z).item() == 1 - 2j and not lib.conj_physical(z).is_conj()
    assert lib.conj_physical(z.conj()).item() == 1 + 2j and z.conj_physical_().item() == 1 - 2j
    z.requires_grad_()
    assert 'ConjPhysical' in str(lib.conj_physical(z).grad_fn)
    with pytest.raises(RuntimeError, match='Found dtype Double but expected Float'):
        lib.conj_physical(lib.ones(1), out=lib.empty(1, dtype=lib.float64))


def test_what_is_refused(lib):
    for method in 'abs_', 'absolute_':
        with pytest.raises(RuntimeError, match='In-place abs is not supported for complex tensors'):
            getattr(lib.tensor([1j]), method)()
    for value in nan, -.1, 1.1:
        with pytest.raises(RuntimeError, match='between 0 and 1'):
            lib.nn.functional.binary_cross_entropy(lib.tensor([value]), lib.tensor([1.]))
    for shift in lib.fft.fftshift, lib.fft.ifftshift:
        with pytest.raises(RuntimeError, match='`shifts` required'):
            shift(lib.tensor(1.))
        with pytest.raises(RuntimeError, match='`shifts` required'):
            shift(lib.ones(3), ())
        assert shift(lib.ones(0)).shape == (0,)


def test_indices_of_take_along_dim_wrap_around_along_a_dimension(lib):
    x = lib.tensor([1., 2])
    for index, value in (-1, 2), (-3, 2), (5, 2), (2, 1):
        assert lib.take_along_dim(x, lib.tensor([index]), 0).tolist() == [value]
    with pytest.raises(RuntimeError, match='index -1 is out of bounds'):
        lib.take_along_dim(x, lib.tensor([-1]))
    with pytest.raises(IndexError, match='no dimensions'):
        lib.take_along_dim(lib.tensor(1.), lib.tensor(0), 0)
    with pytest.raises(RuntimeError):
        lib.take_along_dim(lib.ones(0), lib.tensor([2]), 0)


def test_a_number_is_its_transpose(lib):
    x = lib.tensor(1.)
    for name in 'mT', 'mH':
        lib.set_warn_always(True)               # PyTorch warns once in a process, and another test may have been it
        with pytest.warns(UserWarning, match='0-D'):
            assert getattr(x, name) == 1
        lib.set_warn_always(False)
        with pytest.raises(RuntimeError, match='only supported on matrices'):
            getattr(lib.ones(1), name)


def test_softmax_of_no_elements_takes_any_dtype(lib):
    for dtype, f in itertools.product((lib.uint8, lib.bool, lib.complex64, lib.float32), (lib.softmax, lib.log_softmax)):
        assert f(lib.zeros(0, 3, dtype=dtype), 1).dtype == dtype


def test_bools_are_sorted_into_buckets_of_numbers(lib):
    bools = lib.tensor([True, False])
    assert lib.bucketize(bools, lib.tensor([0., 1.])).tolist() == [1, 0]
    assert lib.searchsorted(lib.tensor([False, True]), lib.tensor([.5])).tolist() == [1]
    for x, y in (bools, bools), (lib.tensor(1j), lib.ones(1)):
        with pytest.raises(NotImplementedError, match='searchsorted_out_cpu'):
            lib.bucketize(x, y)


def test_products_of_bools_multiply_nothing(lib):
    def ones(*shape):
        return lib.ones(shape, dtype=lib.bool)
    assert (ones(2, 0) @ ones(0, 2)).tolist() == [[False] * 2] * 2
    assert (ones(0, 2) @ ones(2, 3)).shape == (0, 3) and (ones(2, 0) @ ones(0)).tolist() == [False] * 2
    assert not (ones(3, 2, 0) @ ones(3, 0, 2)).any() and (ones(0, 2, 1) @ ones(0, 1, 2)).shape == (0, 2, 2)
    assert lib.addmv(ones(2), ones(2, 0), ones(0)).tolist() == [True] * 2
    assert not lib.nn.functional.linear(ones(2, 0), ones(2, 0)).any() and not lib.einsum('ij,jk', ones(2, 0), ones(0, 2)).any()
    assert not lib.tensordot(ones(2, 0), ones(0, 2), 1).any() and not lib.linalg.multi_dot([ones(2, 0), ones(0, 2)]).any()
    assert lib.matrix_power(ones(0, 0), 3).dtype == lib.bool
    for a, b in ((2, 1), (1, 2)), ((3, 2, 1), (3, 1, 2)), ((2, 1), (1,)), ((1,), (1,)):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            ones(*a) @ ones(*b)
    with pytest.raises(NotImplementedError):
        lib.dot(ones(0), ones(0))
    for beta in 1, 2:
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Bool"):
            lib.addmm(ones(2, 2), ones(2, 0), ones(0, 2), beta=beta)
    assert not lib.baddbmm(ones(3, 2, 2), ones(3, 2, 0), ones(3, 0, 2), beta=0).any()


def test_triangles_of_expanded_matrices_are_cut_in_place(lib):
    def memory(x):
        return x.tolist()
    assert lib.ones(1).expand(1, 1).tril_().tolist() == [[1]]
    assert lib.ones(1).expand(2, 2).tril_().tolist() == [[0, 0], [0, 0]]
    assert lib.ones(2, 2).expand(2, 2, 2).tril_().tolist() == [[[1, 0], [1, 1]]] * 2
    assert lib.ones(2, 1).expand(2, 2).tril_().tolist() == [[0, 0], [1, 1]]
    assert lib.arange(4.).as_strided((2, 2), (1, 1)).tril_().tolist() == [[0, 0], [0, 2]]
    assert lib.arange(1., 10).as_strided((2, 2, 2), (4, 1, 1)).triu_(1).tolist() == [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]
    with pytest.raises(RuntimeError, match='more than one element'):
        lib.ones(1).expand(1, 2, 1, 1).tril_()
    x = lib.arange(24.).reshape(2, 3, 4).permute(2, 0, 1)
    want = lib.triu(x, -1)
    assert lib.equal(x.triu_(-1), want)
    w = lib.ones(3, 3, requires_grad=True)
    y = w * 2
    y.tril_(-1).sum().backward()
    assert w.grad.tolist() == [[0, 0, 0], [2, 0, 0], [2, 2, 0]]


def test_copies_with_a_part_replaced_keep_their_strides(lib):
    x = lib.arange(24.).reshape(2, 3, 4).permute(2, 0, 1)
    assert lib.slice_scatter(x, lib.zeros(2, 2, 3), 0, 0, 2).stride() == x.stride()
    assert lib.select_scatter(x, lib.zeros(2, 3), 0, 0).stride() == x.stride()
    assert lib.diagonal_scatter(x, lib.zeros(3, 2), 0, 0, 1).stride() == x.stride()
    assert lib.select_scatter(lib.ones(4, 8)[:, ::2], lib.zeros(4), 0, 0).stride() == (8, 2)
    assert lib.select_scatter(lib.ones(4).expand(3, 4), lib.zeros(4), 0, 0).tolist() == [[0] * 4, [1] * 4, [1] * 4]
    assert lib.renorm(x, 2, 0, 1.).stride() == (6, 3, 1)
    assert lib.polar(x, x).stride() == lib.complex(x, x).stride() == x.stride()


# ---- losses of operands of two dtypes

LOSSES = {
    'huber_loss': {}, 'smooth_l1_loss': {}, 'mse_loss': {}, 'l1_loss': {}, 'binary_cross_entropy': {}, 'binary_cross_entropy_with_logits': {},
    'soft_margin_loss': {}, 'kl_div': {}, 'poisson_nll_loss': {}, 'hinge_embedding_loss': {}, 'gaussian_nll_loss': {'var': 1},
    'margin_ranking_loss': {'target': 1}}
DTYPES = ['bool', 'uint8', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64', 'complex64']


@pytest.mark.parametrize('name', LOSSES)
def test_dtypes_of_losses(both, name):
    def outcome(lib, a, b, reduction):
        x, y = (lib.tensor(values).to(getattr(lib, dtype)) for values, dtype in (([0., .5, 1.], a), ([1., 0., 1.], b)))
        more = {key: lib.ones(3) for key in LOSSES[name]}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')
                found = getattr(lib.nn.functional, name)(x, y, reduction=reduction, **more)
        except Exception as error:
            return type(error).__name__
        return str(found.dtype).partition('.')[2], [abs(v) for v in found.reshape(-1).tolist()]
    wrong = {}
    for a, b, reduction in itertools.product(DTYPES, DTYPES, ('none', 'mean')):
        tede, torch = (outcome(lib, a, b, reduction) for lib in both)
        if tede[0] != torch[0] or (isinstance(tede, tuple) and tede[1] != pytest.approx(torch[1], abs=.02, nan_ok=True)):
            wrong[a, b, reduction] = tede, torch
    assert not wrong


@pytest.mark.parametrize("spacing", [2 ** 62, 2 ** 63 - 1, -2 ** 63, -2 ** 62])
def test_a_spacing_is_doubled_without_wrapping(lib, spacing):
    found = lib.gradient(lib.arange(5, dtype=lib.float64), spacing=spacing)[0]
    assert found.tolist() == pytest.approx([1 / spacing] * 5)


def test_the_smallest_integer_has_a_negative(lib):
    x, y = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    lib.sub(x, y, alpha=-2 ** 63).sum().backward()
    assert y.grad.tolist() == [2.0 ** 63] * 2


def test_quantiles_take_no_more_elements_than_float32_counts(lib):
    x = lib.zeros(1).expand(2**24 + 1)
    for call in (lib.quantile, lib.nanquantile):
        with pytest.raises(RuntimeError, match="input tensor is too large"):
            call(x, .5)
        assert call(lib.zeros(2, 4), .5, dim=1).tolist() == [0, 0]


def test_unique_rows_of_large_unsigned_numbers_are_sorted(lib):
    big = 2**63 + 5
    rows = lib.tensor([[big, 1], [3, 2], [big, 1]], dtype=lib.uint64)
    found, counts = lib.unique(rows, dim=0, return_counts=True)
    assert found.tolist() == [[3, 2], [big, 1]] and counts.tolist() == [1, 2]


def test_upper_incomplete_gamma_keeps_its_digits_for_small_orders(lib):
    # a E1(x), up to terms of order a^2
    x, e1 = [1e-3, .1, .5, 1.], [6.331539364136149, 1.8229239584193907, .5597735947761608, .21938393439552029]
    found = lib.special.gammaincc(lib.full((4,), 1e-12, dtype=lib.float64), lib.tensor(x, dtype=lib.float64))
    tolerance = 1e-3 if lib.__name__ == "torch" else 1e-10      # PyTorch subtracts from 1
    assert found.tolist() == pytest.approx([1e-12 * e for e in e1], rel=tolerance)
    halves = lib.special.gammaincc(lib.tensor([.1, .125, .13], dtype=lib.float64), lib.tensor([.5, .5, .5], dtype=lib.float64))
    lower = lib.special.gammainc(lib.tensor([.1, .125, .13], dtype=lib.float64), lib.tensor([.5, .5, .5], dtype=lib.float64))
    lib.testing.assert_close(halves + lower, lib.ones(3, dtype=lib.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("values, expected", [([1., nan, -3.], [0., 0., 0.]), ([2., -2., 1.], [.5, -.5, 0.])])
def test_the_infinity_norm_of_nan_passes_no_gradient(lib, values, expected):
    for norm in (lambda x: lib.linalg.vector_norm(x, inf), lambda x: lib.norm(x, inf, dim=0)):
        x = lib.tensor(values, requires_grad=True)
        norm(x).backward()
        assert x.grad.tolist() == expected


def test_covariances_need_weights(lib):
    x = lib.arange(6.).reshape(2, 3)
    for weights in ({"fweights": lib.zeros(3, dtype=lib.int32)}, {"aweights": lib.zeros(3)}):
        with pytest.raises(RuntimeError, match="weights sum to zero, can't be normalized"):
            lib.cov(x, **weights)


def test_complex_correlations_are_no_larger_than_one(lib):
    x = lib.tensor([[1 + 1j, 2, 3j], [2 + 2j, 4, 6j]]) * 1.1
    parts = lib.view_as_real(lib.corrcoef(x))
    assert parts.abs().max() <= 1 and parts[..., 0].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_norms_of_halves_are_computed_in_float32(lib, name):
    x = lib.full((2, 4), 60000., dtype=getattr(lib, name))
    assert 1 / x.renorm(2, 0, 1.).float()[0, 0].item() == pytest.approx(2, rel=.01)       # the norm, 120000, is no half
    rows = lib.tensor([[3., 4.], [.1, .1]], dtype=x.dtype)
    assert rows.renorm(2, 0, 1.)[0].tolist() == (rows[0] * lib.tensor(.2, dtype=x.dtype)).tolist()      # the factor is rounded


@pytest.mark.parametrize("p, row", [(2., [.6, .8]), (inf, [.75, 1.]), (-inf, [1., 4 / 3]), (0., [1.5, 2.]), (1., [3 / 7, 4 / 7])])
def test_rows_are_shortened_by_any_norm(lib, p, row):
    for dtype in (lib.float32, lib.float64, lib.complex64, lib.float16):
        table = lib.tensor([[3., 4.], [.1, .1]], dtype=dtype)
        lib.embedding_renorm_(table, lib.tensor([[0, 0]], dtype=lib.int32), 1., p)
        lib.testing.assert_close(table[0], lib.tensor(row, dtype=dtype), rtol=1e-3, atol=0)
    turned = lib.tensor([[3 + 4j, 0], [.1, .1]])
    assert lib.embedding_renorm_(turned, lib.tensor([0]), 1., 2.)[0].tolist() == pytest.approx([.6 + .8j, 0], rel=1e-6)


def test_coordinates_of_a_gradient_are_all_used(lib):
    four = lib.arange(4.) ** 2
    with pytest.raises(RuntimeError, match="must match the size"):
        lib.gradient(four, spacing=(lib.arange(5.),))
    shorter, = lib.gradient(four, spacing=(lib.tensor([0., 1., 3.]),))
    assert shorter.tolist() == pytest.approx([1, 7 / 6, 17 / 6, 2.5])


def test_sections_that_are_refused_are_named(lib):
    with pytest.raises(RuntimeError, match="number of sections must be larger than 0, got -1"):
        lib.hsplit(lib.ones(4, 4), -1)
    for split in (lib.hsplit, lib.vsplit):
        with pytest.raises(RuntimeError, match="is not divisible by the split_size -3!"):
            split(lib.ones(4, 4), -3)


@pytest.mark.parametrize("name, title", [("float16", "c10::Half"), ("int64", "long int"), ("complex64", "c10::complex<float>"), ("uint8", "unsigned char")])
def test_dtypes_in_messages_are_those_of_c(lib, name, title):
    with pytest.raises(RuntimeError) as info:
        lib.gather(lib.ones(2, dtype=getattr(lib, name)), 0, lib.tensor([0]), out=lib.ones(1, dtype=lib.float64))
    assert f"Expected out tensor to have dtype {title}, but got double instead" in str(info.value)
    with pytest.raises(RuntimeError) as info:
        lib.mm(lib.ones(2, 2, dtype=getattr(lib, name)), lib.ones(2, 2))
    assert f"{title} != float" in str(info.value)


def test_repetitions_that_no_tensor_holds_are_refused(lib):
    with pytest.raises(RuntimeError, match="overflow"):
        lib.ones(2).repeat_interleave(2**62)


@pytest.mark.parametrize("heads", [(2, 1), (1, 2), (2, 4), (4, 2)])
def test_keys_and_values_may_be_grouped_differently(lib, heads):
    lib.manual_seed(0)
    q, k, v = lib.randn(1, 4, 3, 8), lib.randn(1, heads[0], 5, 8), lib.randn(1, heads[1], 5, 8)
    found = lib.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    wide = [x.repeat_interleave(4 // x.size(1), 1) for x in (k, v)]
    lib.testing.assert_close(found, lib.nn.functional.scaled_dot_product_attention(q, *wide))
    with pytest.raises(RuntimeError, match="must divide the number of heads in"):
        lib.nn.functional.scaled_dot_product_attention(q, k, lib.randn(1, 3, 5, 8), enable_gqa=True)


def test_losses_that_depend_on_a_phase_are_refused(lib):
    lib.manual_seed(0)
    a = lib.randn(3, 3, dtype=lib.complex128)
    cases = {"svd": (a, lambda r: r[0] @ r[2], lambda r: r[0]), "eigh": (a + a.mH, lambda r: r[1].abs(), lambda r: r[1]),
             "eig": (a, lambda r: r[1].abs(), lambda r: r[1])}
    for name, (matrix, free, bound) in cases.items():
        x = matrix.clone().requires_grad_()
        free(getattr(lib.linalg, name)(x)).abs().sum().backward()
        assert x.grad.isfinite().all()
        with pytest.raises(RuntimeError, match="ill-defined"):
            bound(getattr(lib.linalg, name)(x)).sum().abs().backward()


@pytest.mark.parametrize("name", ["float32", "float64", "complex64"])
def test_a_factor_of_zero_leaves_a_product_out(lib, name):
    dtype = getattr(lib, name)
    three, infinite, ones = (lib.full((30, 30), value, dtype=dtype) for value in (3., inf, 1.))
    for beta in (0, 1, 2):
        for found in (lib.addmm(three, infinite, ones, alpha=0, beta=beta), lib.addbmm(three, infinite[None], ones[None], alpha=0, beta=beta),
                      lib.baddbmm(three[None], infinite[None], ones[None], alpha=0, beta=beta)[0]):
            assert found.tolist() == (three * beta).tolist()
        if not dtype.is_complex:
            assert lib.addmv(three[0], infinite, ones[0], alpha=0, beta=beta).tolist() == (three[0] * beta).tolist()
    half = lib.addmm(three.real.half(), infinite.real.half(), ones.real.half(), alpha=0)
    assert half.isnan().all()


def test_halves_that_are_scattered_are_added_in_float32_and_rounded_once(lib):
    index, src = lib.zeros(2000, 3, dtype=lib.int64), lib.full((2000, 3), 0.1, dtype=lib.bfloat16)
    zeros = lib.zeros(4, 3, dtype=lib.bfloat16)
    for found in (zeros.scatter_add(0, index, src), zeros.index_add(0, index[:, 0], src), zeros.scatter_reduce(0, index, src, "sum")):
        assert found[0].tolist() == [200.] * 3
    assert zeros.index_add(0, index[:, 0].int(), src)[0].tolist() == [32.] * 3
    assert zeros[:, 0].index_add(0, index[:, 0], src[:, 0])[0] == 32
    assert zeros.index_put((index[:, 0],), src, accumulate=True)[0].tolist() == [32.] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert abs(zeros.index_reduce(0, index[:, 0], src, "mean")[0, 0].item() - 32 / 2000) < 1e-4


def test_a_mean_of_bags_of_halves_divides_the_rounded_sum(lib):
    weight = lib.tensor([[1.], [2.], [0.0390625 * 3 + 1]], dtype=lib.bfloat16)
    bag = lib.tensor([[0, 1, 2, 2, 2, 1, 0]])
    total = lib.nn.functional.embedding_bag(bag, weight, mode="sum")
    assert lib.equal(lib.nn.functional.embedding_bag(bag, weight, mode="mean"), total / 7)


def test_diff_of_order_zero_copies_to_its_own_dtype_alone(lib):
    x = lib.arange(4)
    with pytest.raises(RuntimeError, match="expected scalar_type Long but found Float"):
        lib.diff(x, 0, out=lib.empty(0))
    out = lib.empty(0, dtype=lib.int64)
    assert lib.diff(x, 0, out=out).tolist() == [0, 1, 2, 3]


def test_a_covariance_of_integers_has_the_dtype_of_its_weights(lib):
    x = lib.arange(6).reshape(2, 3)
    assert lib.cov(x, aweights=lib.ones(3, dtype=lib.float16)).dtype == lib.float16
    assert lib.cov(x, aweights=lib.ones(3, dtype=lib.float64)).dtype == lib.float64
    assert lib.cov(x).dtype == lib.float32


def test_histogramdd_takes_range_and_weight_by_position(lib):
    x = lib.tensor([[0., 0.], [.5, .5], [1, 1]])
    found = lib.histogramdd(x, [2, 2], [0., 1., 0., 2.], lib.ones(3), True)
    assert lib.allclose(found.hist, lib.tensor([[2 / 3, 0], [2 / 3, 2 / 3]]))
    assert type(found).__name__ == "histogramdd" and "return_types.histogramdd(\nhist=tensor(" in repr(found)


def nested(depth):
    data = 1.
    for _ in range(depth):
        data = [data]
    return data


@pytest.mark.parametrize("depth", [65, 128])
def test_more_than_64_dimensions_are_a_runtime_error(lib, depth):
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        lib.tensor(nested(depth)).amax(0)


def test_lists_129_deep_are_no_shape(lib):
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        lib.tensor(nested(129))


def test_convolutions_say_which_dtypes_differ(lib):
    conv = lib.nn.functional.conv1d
    with pytest.raises(RuntimeError, match=r"Input type \(CPUComplexFloatType\) and weight type \(torch.FloatTensor\) should be the same"):
        conv(lib.ones(1, 1, 4, dtype=lib.complex64), lib.ones(1, 1, 2))
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        conv(lib.ones(1, 1, 4, dtype=lib.bool), lib.ones(1, 1, 2))
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype, but got: float != double"):
        lib.nn.functional.linear(lib.ones(2, 2), lib.ones(2, 2, dtype=lib.float64))
