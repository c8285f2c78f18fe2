"""Corners of single operators: bounds that are tensors, sums in einsum, bytes interpolated, lists that may be None."""
import warnings

import pytest


def test_gradients_of_clamp_between_tensors(lib):
    def grads(x, low, high):
        tensors = [lib.tensor(v, requires_grad=True) for v in (x, low, high)]
        lib.clamp(*tensors).sum().backward()
        return [t.grad.tolist() for t in tensors]
    assert grads([1., 2., 3., 4.], [2., 2., 4., 4.], [2., 2., 3., 4.]) == [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]
    assert grads([0., 5., 1.], [1., 1., 1.], [2., 2., 2.]) == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize('dtype', ['int32', 'uint8', 'bool', 'int64'])
def test_einsum_sums_of_one_operand_are_int64(lib, dtype):
    x = lib.ones(3, 3).to(getattr(lib, dtype))
    assert lib.einsum('ij,kl->', x, x).dtype == lib.int64
    assert lib.einsum('ij,ij->ij', x, x).dtype == x.dtype
    if dtype != 'int64':
        with pytest.raises(RuntimeError, match='expected scalar type Long but found'):
            lib.einsum('ij,j->', x, x[0])


def test_einsum_promotes_where_nothing_is_summed(lib):
    assert lib.einsum('i,j->ij', lib.ones(2).int(), lib.ones(2)).dtype == lib.float32


@pytest.mark.parametrize('mode, antialias, size, want', [
    ('bilinear', True, (2, 3), [[40, 119, 198], [56, 135, 186]]),
    ('bilinear', False, (2, 3), [[31, 117, 203], [51, 137, 202]]),
    ('bicubic', True, (2, 3), [[34, 118, 205], [52, 139, 187]]),
    ('bicubic', False, (4, 3), [[22, 112, 202], [32, 122, 212], [42, 132, 230], [52, 142, 162]])])
def test_bytes_are_interpolated_with_whole_weights(lib, mode, antialias, size, want):
    x = (lib.arange(5 * 7) * 37 % 251).to(lib.uint8).reshape(1, 1, 5, 7)
    assert lib.nn.functional.interpolate(x, size=size, mode=mode, antialias=antialias)[0, 0].tolist() == want


def test_lists_that_are_empty_by_default_take_none(lib):
    x = lib.arange(6.).reshape(2, 3)
    assert lib.roll(x, 1, None).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert lib.amax(x, None) == 5 and x.amin(dim=None) == 0
    assert lib.max_pool2d(x[None, None], 2, None).shape == (1, 1, 1, 1)
    with pytest.raises(TypeError):
        lib.flip(x, None)


def test_unique_of_slices_without_elements(lib):
    for f in lib.unique, lib.unique_consecutive:
        assert f(lib.zeros(0, 3), dim=0).shape == (0, 3)
        with pytest.raises(RuntimeError, match='more than one'):
            f(lib.zeros(0, 0), dim=0)
        with pytest.raises(RuntimeError, match="aren't selected"):
            f(lib.zeros(3, 0), dim=0)


def test_stacked_channels_stay_last(lib):
    x = lib.arange(120.).reshape(2, 3, 4, 5).to(memory_format=lib.channels_last)
    for dim, strides in enumerate([(120, 60, 1, 15, 3), (120, 3, 1, 30, 6), (120, 1, 60, 15, 3), (120, 1, 30, 15, 3), (120, 40, 10, 2, 1)]):
        y = lib.stack([x, -x], dim)
        assert y.stride() == strides
        assert lib.equal(y.select(dim, 0), x) and lib.equal(y.select(dim, 1), -x)


@pytest.mark.parametrize('name', ['i1', 'i1e'])
def test_second_derivatives_of_bessel_functions_at_zero(lib, name):
    x = lib.zeros(1, requires_grad=True)
    slope, = lib.autograd.grad(getattr(lib.special, name)(x), x, create_graph=True)
    assert slope == 0.5 and lib.autograd.grad(slope, x)[0] == 0


def test_dropout_in_attention_drops_what_dropout_drops(lib):
    lib.manual_seed(0)
    q, k, v = lib.randn(3, 2, 4, 9, 8).unbind()
    lib.manual_seed(5)
    found = lib.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
    after = lib.rand(3)
    lib.manual_seed(5)
    root = 8 ** -0.25
    expected = lib.dropout(lib.softmax((q * root) @ (k * root).mT, -1), 0.3, True) @ v
    assert lib.equal(found, expected) and lib.equal(after, lib.rand(3))


@pytest.mark.parametrize('method', ['ortho', 'basic'])
@pytest.mark.parametrize('largest', [True, False])
def test_lobpcg_finds_the_extreme_eigenpairs(lib, method, largest):
    lib.manual_seed(0)
    A = lib.randn(30, 30, dtype=lib.float64)
    A = A @ A.mT + 3 * lib.eye(30, dtype=lib.float64)
    seen = []
    E, X = lib.lobpcg(A, k=2, largest=largest, method=method, tracker=lambda worker: seen.append(worker.ivars['istep']))
    want = lib.linalg.eigvalsh(A)
    want = want.flip(0)[:2] if largest else want[:2]
    assert lib.allclose(E, want) and seen == list(range(1, len(seen) + 1))
    assert lib.allclose(A @ X, X * E, atol=1e-3)


def test_lobpcg_of_pairs_batches_and_gradients(lib):
    lib.manual_seed(1)
    A = lib.randn(2, 12, 12, dtype=lib.float64)
    A = (A @ A.mT).requires_grad_()
    E, X = lib.lobpcg(A, k=3, X=lib.randn(2, 12, 3, dtype=lib.float64), tol=1e-12)
    weights = lib.arange(12., dtype=lib.float64)[:, None]
    ((E * lib.arange(1, 4)).sum() + (X * X * weights).sum()).backward()
    again = A.detach().clone().requires_grad_()
    values, vectors = lib.linalg.eigh(again)
    values, vectors = values.flip(-1)[..., :3], vectors.flip(-1)[..., :3]
    ((values * lib.arange(1, 4)).sum() + (vectors * vectors * weights).sum()).backward()
    assert lib.allclose(A.grad, (again.grad + again.grad.mT) / 2, atol=1e-8)
    B = lib.diag(lib.arange(1., 13., dtype=lib.float64))
    M = A.detach()[0]
    E, X = lib.lobpcg(M, k=2, B=B)
    assert lib.allclose(M @ X, B @ X * E, atol=1e-3 * float(E[0]))
    assert lib.allclose(lib.lobpcg(M.to_sparse(), k=2)[0], lib.lobpcg(M, k=2)[0])
    with pytest.raises(ValueError, match='not applicable when the number of A rows'):
        lib.lobpcg(lib.eye(5), k=2)


@pytest.mark.parametrize("queries, keys, heads, shared", [(129, 241, 4, 1), (25, 500, 2, 2), (100, 130, 2, 1), (7, 480, 2, 2)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [40, 257, 520])
def test_attention_is_its_products_at_the_edges_of_tiles(lib, queries, keys, heads, shared, width, causal):
    """Of tiles, panels and strips; half of the keys behind a mask of -inf, whose exponentials are exact zeros."""
    lib.manual_seed(3)
    q, k = lib.randn(2, heads, queries, width, dtype=lib.float64), lib.randn(2, shared, keys, width, dtype=lib.float64)
    v = lib.randn(2, shared, keys, 72, dtype=lib.float64)
    bias = lib.zeros(queries, keys, dtype=lib.float64)
    bias[:, keys // 2:] = -float("inf")
    if causal:
        bias = lib.zeros(queries, keys, dtype=lib.float64).masked_fill(
            lib.ones(queries, keys, dtype=lib.bool).tril().logical_not(), -float("inf"))
    scores = q @ k.expand(2, heads, keys, width).transpose(2, 3) / width ** 0.5 + bias
    expected = lib.softmax(scores, -1) @ v.expand(2, heads, keys, 72)
    for dtype, tolerance in ((lib.float64, 1e-13), (lib.float32, 1e-5)):
        operands = [x.to(dtype) for x in (q, k, v)]
        found = lib.nn.functional.scaled_dot_product_attention(
            *operands, attn_mask=None if causal else bias.to(dtype), is_causal=causal, enable_gqa=shared != heads)
        assert (found.double() - expected).abs().max().item() < tolerance


def test_exponentials_end_where_floats_do(lib):
    x = lib.tensor([-103.0, -103.9, -104.5, -1e30, -float("inf"), float("nan"), 88.7, 89.0] * 4)
    y = lib.exp(x).tolist()
    assert y[0] > 0 and y[1] > 0 and y[2:5] == [0, 0, 0] and y[5] != y[5] and y[6] < float("inf") == y[7]
    assert lib.softmax(lib.tensor([[0.0, -float("inf"), -200.0] * 16]), 1).tolist()[0] == [0.0625, 0.0, 0.0] * 16


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, float("inf")])
@pytest.mark.parametrize("left, right", [((3, 2), (4, 2)), ((70, 5), (130, 5)), ((2, 3, 7), (7, 7)), ((2, 1, 65, 33), (3, 64, 33)),
                                         ((0, 2), (4, 2)), ((3, 0), (4, 0)), ((5, 0, 3), (5, 2, 3)), ((200, 1), (1, 1))])
def test_cdist_is_the_norm_of_all_differences(lib, left, right, p):
    lib.manual_seed(5)
    for dtype in (lib.float32, lib.float64):
        a, b = lib.randn(left, dtype=dtype), lib.randn(right, dtype=dtype)
        got = lib.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist")
        differences = a.unsqueeze(-2) - b.unsqueeze(-3)
        want = differences.norm(p, dim=-1) if differences.shape[-1] else differences.sum(-1)
        assert got.dtype == dtype and got.shape == want.shape
        assert lib.allclose(got, want, rtol=1e-5, atol=1e-6)
        every_other = lib.cdist(a.flip(-1)[..., ::2, :], b.flip(-1), p, compute_mode="donot_use_mm_for_euclid_dist")
        assert lib.allclose(every_other, want[..., ::2, :], rtol=1e-5, atol=1e-6)
        recorded = lib.cdist(a.clone().requires_grad_(), b, p, compute_mode="donot_use_mm_for_euclid_dist")
        assert lib.allclose(recorded, got, rtol=1e-5, atol=1e-6)


def test_searches_among_nan(lib):
    """NaN sorts last; nothing is before one, and it is equal to nothing."""
    nan = float("nan")
    assert lib.isin(lib.tensor([1.0, 2.0, nan, 9.0] * 9), lib.tensor([nan, 1.0, 9.0, nan])).tolist() == [True, False, False, True] * 9
    assert lib.isin(lib.tensor([nan]), lib.tensor([nan, nan])).tolist() == [False]
    edges = lib.tensor([1.0, 2.0, 2.0, 5.0])
    wanted = [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, nan, float("inf"), -float("inf")] * 4
    assert lib.searchsorted(edges, lib.tensor(wanted)).tolist() == [0, 0, 1, 3, 3, 4, 4, 4, 0] * 4
    assert lib.searchsorted(edges, lib.tensor(wanted), right=True).tolist() == [0, 1, 3, 3, 4, 4, 4, 4, 0] * 4
    for n in range(20):
        x = lib.arange(n)
        assert lib.searchsorted(x, lib.arange(-1, n + 1)).tolist() == [0, *range(n), n]
        assert lib.searchsorted(x.flip(0), lib.arange(n), sorter=x.flip(0)).tolist() == list(range(n))


def test_bernoulli_is_written_to_any_dtype(lib):
    p = lib.tensor([0., 1., 1., 0.])
    for dtype in (lib.int64, lib.uint8, lib.bool, lib.float64):
        out = lib.empty(4, dtype=dtype)
        assert lib.bernoulli(p, out=out) is out and out.dtype == dtype and out.tolist() == [0, 1, 1, 0]


def test_normal_numbers_of_tensors_without_dimensions_are_rounded_at_each_step(lib):
    mean, std = lib.zeros((), dtype=lib.bfloat16), lib.tensor(1.3, dtype=lib.bfloat16)
    lib.manual_seed(3)
    z = lib.empty((), dtype=lib.bfloat16).normal_()
    lib.manual_seed(3)
    assert lib.normal(mean, std) == z * std


def test_in_place_forms_that_are_methods_alone(lib):
    for name in ("add_", "mul_", "eq_", "lerp_", "tril_", "sign_", "lgamma_", "masked_fill_", "maximum_", "angle_"):
        assert not hasattr(lib, name), name
    for name in ("maximum_", "fmax_", "angle_", "signbit_", "logaddexp_", "isposinf_"):
        assert not hasattr(lib.Tensor, name), name
    for name in ("sin_", "relu_", "clamp_", "addmv_", "xlogy_", "round_", "abs_"):
        assert hasattr(lib, name) and hasattr(lib.Tensor, name), name


def test_a_number_beside_doubles_is_not_rounded_to_float32(lib):
    x, at = lib.zeros(2, dtype=lib.float64), lib.tensor([0])
    assert x.scatter(0, at, 0.1).tolist() == x.index_fill(0, at, 0.1).tolist() == [0.1, 0]
    assert x.scatter(0, at, 0.1, reduce='add').tolist() == [0.1, 0]
    assert x.index_fill(0, at, 1e39)[0] == 1e39
    assert lib.isin(x + 0.1, 0.1).all() and lib.isin(0.1, x + 0.1) and lib.isin((x + 0.1).float(), 0.1).all()


@pytest.mark.parametrize('number', [2 ** 40, 1e39, 0.5, -1, float('nan'), 0.5j])
def test_what_is_not_zero_is_true_to_bool(lib, number):
    x, mask = lib.tensor([False, False, True]), lib.tensor([True, False, False])
    assert x.masked_fill(mask, number).tolist() == [True, False, True]
    assert x.clone().masked_fill_(mask, number).tolist() == [True, False, True]
    assert lib.zeros(20, dtype=lib.bool).masked_fill(lib.ones(2, 20, dtype=lib.bool), number).all()


def test_a_negative_alpha_is_true_to_bool(lib):
    x = lib.tensor([False, True, True])
    assert lib.add(x, x, alpha=-1).tolist() == x.clone().add_(x, alpha=-1).tolist() == x.tolist()
    assert lib.addr(x.expand(3, 3), x, x, alpha=-1)[1:].tolist() == [x.tolist()] * 2


def test_one_value_under_a_mask_is_one_write(lib):
    x = lib.arange(6.)
    for value in (3, lib.tensor([[7.]])):
        before = x._version
        x[x > 2] = value
        assert x._version == before + 1
    assert x.tolist() == [0, 1, 2, 7, 7, 7]


def test_index_add_cuts_its_factor_off_for_whole_numbers(lib):
    assert lib.tensor([1, 2]).index_add(0, lib.tensor([0]), lib.tensor([4]), alpha=2.5).tolist() == [9, 2]


def test_ends_of_unsigned_linspace_wrap_first(lib):
    assert lib.linspace(-1, 1, 3, dtype=lib.uint8).tolist() == [255, 128, 1]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16"])
def test_integers_are_not_divided_by_zero(lib, dtype):
    x = lib.arange(1, 5, dtype=getattr(lib, dtype))
    with_zero = x - lib.tensor([1, 0, 0, 0], dtype=x.dtype)
    for divide in (lambda a, b: a // b, lambda a, b: a % b, lib.fmod, lib.remainder, lib.floor_divide, lambda a, b: a.clone().floor_divide_(b),
                   lambda a, b: lib.div(a, b, rounding_mode="trunc"), lambda a, b: lib.div(a, b, rounding_mode="floor"),
                   lambda a, b: lib.fmod(a, b, out=lib.empty_like(a)), lambda a, b: a.clone().remainder_(b)):
        for zero in (0, lib.tensor(0), with_zero, with_zero[[1, 0, 2, 3]], with_zero.to(lib.int8), with_zero.flip(0).reshape(2, 2).t().reshape(4)):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                divide(x, zero)
        assert divide(x, x).tolist() in ([1] * 4, [0] * 4)
        assert divide(x[:0], 0).tolist() == []
    assert (x.double() // 0).tolist() == [float("inf")] * 4


def test_a_wide_divisor_that_becomes_zero_is_refused(lib):
    x = lib.tensor([7], dtype=lib.int32)
    for wide in (2 ** 40, lib.tensor(2 ** 40)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x % wide


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_minus_zero_stays_what_it_is_at_a_bound(lib, dtype):
    F = lib.nn.functional
    for n in (1, 3, 64, 67):
        x = lib.full((n,), -0.0, dtype=getattr(lib, dtype))
        for y in (F.relu(x), x.clone().relu_(), F.relu6(x), x.clamp(min=0), x.clamp(max=0), x.clamp(0, 2), x.clamp(-1, 0), F.hardtanh(x, 0, 1)):
            assert lib.signbit(y).all()
        assert not lib.signbit((-x).clamp(min=-0.0)).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_alpha_has_the_precision_of_halves(both, dtype):
    results = []
    for lib in both:
        x = lib.arange(64.0).to(getattr(lib, dtype))
        results.append([r.tolist() for r in (lib.add(x / 7, x / 3, alpha=0.3), lib.sub(x / 7, x / 3, alpha=0.3), lib.rsub(x / 7, x / 3, alpha=0.3),
                                             (x / 7).add_(x / 3, alpha=0.7))])
    assert results[0] == results[1]


def test_addcdiv_refuses_integers_by_integers_only(lib):
    x, n = lib.ones(2), lib.tensor([2, 4])
    assert lib.addcdiv(x, x, n).tolist() == [1.5, 1.25] and lib.addcdiv(x, n, x).tolist() == [3, 5]
    assert lib.addcdiv(n, n, n.float()).tolist() == [3, 5] and lib.addcdiv(x, lib.tensor(3), x).tolist() == [4, 4]
    for a, b in ((n, n), (n.bool(), n), (n, lib.tensor(2))):
        for call in (lambda: lib.addcdiv(x, a, b), lambda: x.clone().addcdiv_(a, b), lambda: lib.addcdiv(x, a, b, out=lib.empty(2))):
            with pytest.raises(RuntimeError, match="Integer division with addcdiv is no longer supported"):
                call()
