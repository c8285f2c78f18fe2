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
    truths = lib.tensor([True, False])
    assert lib.bucketize(truths, lib.tensor([0., 1.])).tolist() == [1, 0]
    assert lib.searchsorted(lib.tensor([False, True]), lib.tensor([.5])).tolist() == [1]
    for x, y in (truths, truths), (lib.tensor(1j), lib.ones(1)):
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
