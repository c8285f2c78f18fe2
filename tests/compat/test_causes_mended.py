"""What random programs had found and the table of differences had named, as PyTorch does it."""
import math

import pytest


def refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---- defaults

LOSSES = 'kl_div hinge_embedding_loss'.split()


@pytest.mark.parametrize('name', LOSSES)
def test_a_loss_that_is_called_as_an_operator_is_not_reduced_by_default(lib, name):
    x, y = lib.ones(2, 3) / 2, lib.ones(2, 3)
    assert getattr(lib, name)(x, y).shape == (2, 3)
    assert getattr(lib, name)(x, y, reduction=1).shape == ()
    assert getattr(lib.nn.functional, name)(x, y).shape == ()
    assert getattr(lib.ops.aten, name)(x, y).shape == ()                # the schema's default: the mean


def test_other_losses_that_are_not_reduced_by_default(lib):
    x, y, sign = lib.ones(2, 3), lib.zeros(2, 3), lib.tensor([1, -1])
    assert lib.cosine_embedding_loss(x, y, sign).shape == (2,)
    assert lib.margin_ranking_loss(x, y, x).shape == (2, 3)
    assert lib.triplet_margin_loss(x, y, x).shape == (2,)
    assert lib.binary_cross_entropy_with_logits(x, y).shape == (2, 3)
    assert lib._C._nn.mse_loss(x, y).shape == (2, 3)
    assert lib.hinge_embedding_loss(lib.tensor([3, 4]), lib.tensor([1, -1])).tolist() == [3, 0]


# ---- out= with a history

def leaf(lib, *shape):
    return (lib.arange(12.)[:lib.ones(shape).numel()].reshape(shape) + 1).requires_grad_()


@pytest.mark.parametrize('name, shapes, more', [
    ('inner', [(2, 2), (2,)], ()), ('quantile', [(4,)], (.5,)), ('nanquantile', [(4,)], (.5,)), ('linalg.norm', [(2, 2)], ()),
    ('linalg.matrix_norm', [(2, 2)], (1,)), ('linalg.cond', [(2, 2)], ()), ('tensordot', [(2, 2), (2, 2)], (1,)),
    ('linalg.tensorsolve', [(2, 2), (2,)], ()), ('linalg.tensorinv', [(2, 2)], (1,)), ('nuclear_norm', [(2, 2)], ())])
def test_out_gets_the_history_of_what_is_computed(lib, name, shapes, more):
    function = lib
    for part in name.split('.'):
        function = getattr(function, part)
    operands, apart = [leaf(lib, *s) for s in shapes], [leaf(lib, *s) for s in shapes]
    wanted = function(*apart, *more)
    wanted.sum().backward()
    out = lib.zeros(wanted.shape)
    assert function(*operands, *more, out=out) is out and out.requires_grad and out._version == 1
    out.sum().backward()
    for a, b in zip(operands, apart, strict=True):
        assert lib.allclose(a.grad, b.grad)


def test_out_that_has_a_history_is_overwritten(lib):
    x, y, v = leaf(lib, 2, 2), leaf(lib, 2), leaf(lib, 2)
    out = v * 1
    lib.inner(x, y, out=out)
    out.sum().backward()
    assert v.grad.tolist() == [0, 0] and x.grad.tolist() == [[1, 2]] * 2
    refused(lambda: lib.inner(x, y, out=v), RuntimeError, 'a leaf Variable that requires grad')
    refused(lambda: lib.inner(x, y, out=lib.zeros(2, dtype=lib.int64)), RuntimeError, 'Expected the output tensor to have dtype')


@pytest.mark.parametrize('call', [
    lambda lib, x, out: lib.permute_copy(x, [1, 0], out=out), lambda lib, x, out: lib.softmax(x, 1, out=out),
    lambda lib, x, out: lib.log_softmax(x, 1, out=out), lambda lib, x, out: lib.slice_scatter(x, x, out=out),
    lambda lib, x, out: lib.conj_physical(x, out=out), lambda lib, x, out: lib.t_copy(x, out=out)])
def test_copies_into_out_may_need_a_gradient(lib, call):
    out = call(lib, leaf(lib, 2, 2), lib.zeros(2, 2))
    assert out.requires_grad and out._version == 1


@pytest.mark.parametrize('call', [
    lambda lib, out: lib.ones(2, out=out), lambda lib, out: lib.rand(2, out=out), lambda lib, out: lib.full((2,), 3., out=out),
    lambda lib, out: lib.arange(2, out=out), lambda lib, out: lib.linspace(0, 1, 2, out=out), lambda lib, out: lib.randperm(2, out=out),
    lambda lib, out: lib.heaviside(lib.ones(2), lib.ones(2), out=out)])
def test_what_needs_a_gradient_may_be_overwritten_by_new_numbers(lib, call):
    x = leaf(lib, 2)
    out = x * 1
    assert call(lib, out) is out and out.requires_grad
    refused(lambda: call(lib, x), RuntimeError, 'out=... arguments|a leaf Variable that requires grad')


def test_sums_of_bits_have_no_history(lib):
    x = leaf(lib, 2, 2)
    assert not lib.hash_tensor(x, out=lib.zeros((), dtype=lib.uint64)).requires_grad


# ---- where elements lie

@pytest.mark.parametrize('index, strides', [
    (([1, 0],), (6, 1, 3)), ((slice(None), [[1], [0]]), (1, 4, 4, 8)), ((slice(None), slice(None), [0, 1, 1]), (3, 12, 1)),
    (([0, 1], slice(None), [0, 1]), (3, 1)), ((None, [2]), (1, 3, 1, 3))])
def test_what_indices_pick_lies_as_the_source_does(lib, index, strides):
    x = lib.arange(24).reshape(2, 3, 4).permute(2, 1, 0)
    index = tuple(lib.tensor(i) if isinstance(i, list) else i for i in index)
    assert x[index].stride() == strides and x[index].tolist() == x.contiguous()[index].tolist()
    assert x.contiguous()[index].is_contiguous()


def test_a_convolution_of_one_batch_and_channel_has_plain_strides(lib):
    assert lib.conv_tbc(lib.ones(5, 1, 3), lib.ones(2, 3, 1), lib.ones(1)).stride() == (1, 1, 1)


# ---- other calls

def test_subtract_takes_its_factor_by_position_beside_a_number(lib):
    assert lib.subtract(lib.ones(2), 1, 3).tolist() == [-2, -2] and lib.ones(2).subtract_(2, 2).tolist() == [-3, -3]
    refused(lambda: lib.subtract(lib.ones(2), lib.ones(2), 3), TypeError, 'invalid combination')


def test_extremes_into_a_view_count_a_write(lib):
    values = lib.zeros(2)
    lib.max(lib.ones(3, 1), 0, out=(values[:1], lib.zeros(1, dtype=lib.int64)))
    assert values._version == 1 and values.tolist() == [1, 0]


def test_conjugated_gradients_of_complex_correlations(lib):
    x = lib.tensor([[1 + 2j, 2 - 1j, .5j], [0, 1j, 3]]).requires_grad_()
    x.corrcoef().adjoint().abs().sum().backward()
    assert x.grad.isfinite().all() and x.grad.abs().sum() > .1


def test_turned_and_shuffled_tensors_are_no_views(lib):
    x = lib.arange(8.).reshape(1, 4, 2, 1)
    with lib.no_grad():
        made = [lib.channel_shuffle(x, 2), lib.channel_shuffle(x, 1), lib.rot90(x, 1, [1, 2]), lib.rot90(x, 3, [1, 2]),
                lib.quantile(x, lib.tensor([.5, 1.])), lib.quantile(x, lib.tensor([1.])), lib.quantile(x, .5)]
    assert not any(y._is_view() for y in made)
    for y in made:
        y.mul_(lib.ones((), requires_grad=True))             # a view that was made so could not be written to
    assert made[2].stride() == (8, 1, 2, 1) and made[2].flatten().tolist() == [1, 3, 5, 7, 0, 2, 4, 6]
    assert made[0].flatten().tolist() == [0, 1, 4, 5, 2, 3, 6, 7] and made[1].tolist() == x.tolist()
    assert lib.quantile(x, lib.tensor([.25, .5]), 1).shape == (2, 1, 2, 1)


def test_gradients_of_turned_tensors_and_quantiles(lib):
    x = lib.arange(6.).reshape(2, 3).requires_grad_()
    w = lib.arange(6.).reshape(3, 2)
    ((lib.rot90(x) * w).sum() + (lib.quantile(x, lib.tensor([0., 1.]), 1).t() * w[:2]).sum()).backward()
    assert x.grad.tolist() == [[4, 2, 1], [7, 3, 4]]
    assert lib.func.vmap(lib.rot90)(x.detach().reshape(1, 2, 3)).shape == (1, 3, 2)
    assert lib.func.vmap(lambda y: lib.quantile(y, .5))(x.detach()).tolist() == [1, 4]


def test_the_smallest_of_nan_has_no_share(lib):
    for call in lib.amin, lib.amax, lambda x: lib.aminmax(x)[0]:
        x = lib.tensor([1., math.nan, 2.], requires_grad=True)
        call(x).backward()
        assert x.grad.isnan().all()
    x = lib.tensor([1., math.nan, 2.], requires_grad=True)
    x.min().backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_heights_at_points_of_more_dimensions(lib):
    assert lib.trapz(lib.ones(4), lib.ones(3, 3), dim=-1).shape == (3,)
    assert lib.trapezoid(lib.arange(4.), lib.arange(9.).reshape(3, 3), dim=-1).tolist() == [6 / 4 * 1 * 2, 9, 15]


def test_ranges_of_integers_have_integer_ends(lib):
    assert lib.range(.5, 2, dtype=lib.int8).tolist() == [0, 1, 2]
    assert lib.range(1.5, -2.5, -1, dtype=lib.int32).tolist() == [1, 0, -1, -2]
    assert lib.range(.9, 2.1, dtype=lib.uint8).tolist() == [0, 1, 2]


def test_padding_is_at_most_half_of_a_kernel_without_its_gaps(lib):
    x = lib.ones(1, 1, 4, 5)
    refused(lambda: lib.max_pool2d(x, [2, 1], [2, 2], [2, 0], [3, 2]), RuntimeError, 'padW = 0, padH = 2, kW = 1, kH = 2')
    refused(lambda: lib.max_pool3d(x[None], [1, 2, 1], None, [0, 2, 0], [1, 3, 1]), RuntimeError, 'kT: 1 kW: 1 kH: 2 padT: 0 padW: 0 padH: 2')


def test_what_is_refused_at_edges(lib):
    nan, x = math.nan, lib.zeros(2, 3, dtype=lib.complex64)
    refused(lambda: lib.nn.functional.smooth_l1_loss(lib.ones(2), lib.ones(2), beta=nan), RuntimeError, 'negative values for beta')
    refused(lambda: lib.linalg.matrix_norm(x, 1, dtype=lib.float32), RuntimeError, 'dtype should be complex')
    refused(lambda: lib.linalg.norm(x, 1, dim=[0, 1], dtype=lib.float32), RuntimeError, 'dtype should be complex')


def test_an_inverse_lies_in_rows_in_a_resized_out(lib):
    x = lib.tensor([[2., 1.], [1., 3.]])
    assert lib.linalg.tensorinv(x, 1, out=lib.zeros(0)).stride() == (2, 1)


def test_ranks_have_no_history(lib):
    x = leaf(lib, 2, 2)
    assert not lib.linalg.matrix_rank(x, 1e-5, out=lib.zeros((), dtype=lib.int64)).requires_grad


def test_a_loss_of_no_features(lib):
    x, weight = lib.ones(2, 0), lib.ones(2, 0)
    assert lib.nn.functional.linear_cross_entropy(x, weight, lib.tensor([0, 1])).item() == pytest.approx(math.log(2))


def test_indices_of_no_bag_are_in_none(lib):
    # The table that says each index's bag was memory as it was found.
    result = lib._embedding_bag(lib.arange(12.).view(4, 3), lib.tensor([1, 2, 3]), lib.tensor([], dtype=lib.int64), False, 1)
    assert result[1].tolist() == [-1, -1, -1] and result[0].shape == (0, 3)
