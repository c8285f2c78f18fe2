"""What vmap costs: a rule's calls don't depend on the batch's size, and the loop over members is an exception."""
import pytest
import tede
from tede import nn

F, linalg = nn.functional, tede.linalg
INTO = {"v": (6,), "m": (6, 6), "i": (2, 4, 8), "c": (2, 8, 8)}
ROWS = tede.tensor([2, 0, 1])


def spd(a):
    return a @ a.mT + 6 * tede.eye(6)


RULES = {
    "pointwise": (lambda a, b: tede.where(a > b, a.exp() * b, a.clamp(min=0) + 2).pow(2), "m", "m"),
    "in place": (lambda a: a.clone().mul_(2).add_(1), "m"),
    "reductions": (lambda a: a.sum() + a.mean(1).amax() + a.std(0).prod() + a.logsumexp(1).sum() + a.norm(), "m"),
    "order": (lambda a: a.sort(1)[0] + a.cumsum(0) + a.topk(2, 1)[0].sum() + a.argmax(1), "m"),
    "products": (lambda a, b: a @ b @ b[0] + tede.einsum("ij,kj->ik", a, b)[0] + tede.dot(a[0], b[0]), "m", "m"),
    "views": (lambda a: a.t().reshape(3, 12).unsqueeze(0).expand(2, 3, 12).permute(2, 0, 1).flip(0).chunk(3)[1], "m"),
    "joins": (lambda a, b: tede.cat([a, tede.stack([a, b]).sum(0)], 1).roll(1, 0), "m", "m"),
    "indexing": (lambda a: a[ROWS, 1:4] + a.index_select(0, ROWS)[:, :3] + a.gather(0, ROWS[None])[0], "m"),
    "writes": (lambda a: a.clone().index_fill_(0, ROWS, 1.0).masked_fill(a > 0, 2.0).scatter(1, ROWS[None], 3.0), "m"),
    "convolution": (lambda a: F.conv1d(a, tede.ones(4, 4, 3)).relu(), "i"),
    "batched weights": (lambda a, w: F.conv1d(a, w[:, None, :3].expand(6, 4, 3)), "i", "m"),
    "pools": (lambda a: F.max_pool2d(F.avg_pool2d(a, 2), 2), "c"),
    "norms": (lambda a: F.group_norm(F.layer_norm(a, (8,)), 2), "i"),
    "batch norm": (lambda a: F.batch_norm(a, None, None, training=True), "i"),
    "losses": (lambda a: F.cross_entropy(a, tede.arange(6)) + F.mse_loss(a, a * 2) + F.smooth_l1_loss(a, a * 3), "m"),
    "softmax": (lambda a: a.softmax(1) + a.log_softmax(0), "m"),
    "attention": (lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None]), "m"),
    "embedding": (lambda a: F.embedding(ROWS, a), "m"),
    "padding": (lambda a: F.pad(F.pad(a, (1, 1)), (1, 1), "reflect"), "i"),
    "factorizations": (lambda a: linalg.cholesky(spd(a)) + linalg.inv(spd(a)) + linalg.svdvals(a) + linalg.eigvalsh(spd(a)), "m"),
    "solutions": (lambda a, b: linalg.solve(spd(a), b) + linalg.det(a) + linalg.slogdet(a)[1] + linalg.qr(a)[1], "m", "m"),
    "distances": (lambda a, b: tede.cdist(a, b), "m", "m"),
    "fft": (lambda a: tede.fft.fft2(a).abs(), "m"),
    "interpolation": (lambda a: F.interpolate(a[None], scale_factor=2), "c"),
    "spacing": (lambda a: tede.linspace(a[0], a[1], 5) + tede.logspace(0., a[2], 5), "v"),
    "selection": (lambda a: tede.masked_select(a, ROWS[:, None].expand(3, 2).reshape(6) > 0), "m"),
    "gradients": (tede.func.grad(lambda a: (a @ a).tanh().sum()), "m"),
    "tangents": (lambda a: tede.func.jvp(lambda x: F.layer_norm(x @ x, (6,)), (a,), (a,))[1], "m"),
    "hessians": (tede.func.hessian(lambda v: (v ** 3).sum() + v[0] * v[1]), "v"),
}


def calls(f, batches):
    with tede.profiler.profile() as seen:
        result = tede.func.vmap(f)(*batches)
    return [event.name for event in seen.events()], result


@pytest.mark.parametrize("name", RULES)
def test_a_batch_of_64_takes_the_calls_of_a_batch_of_2(name):
    f, *shapes = RULES[name]
    loops = tede._C._vmap_fallback_count()
    many = [tede.randn(64, *INTO[shape]) for shape in shapes]
    for_2, _ = calls(f, [x[:2] for x in many])
    for_64, together = calls(f, many)
    assert len(for_64) <= len(for_2), [name for name in for_64 if name not in for_2]
    assert tede._C._vmap_fallback_count() == loops
    apart = tede.stack([f(*(x[i] for x in many)) for i in (0, 40, 63)])
    assert tede.allclose(together[[0, 40, 63]], apart, atol=1e-3, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_what_reads_data_runs_once_per_member():
    x = tede.arange(6.).reshape(2, 3)
    loops = tede._C._vmap_fallback_count()
    assert tede.equal(tede.func.vmap(tede.combinations)(x), tede.stack([tede.combinations(row) for row in x]))
    assert tede._C._vmap_fallback_count() > loops
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        tede.func.vmap(tede.bincount)(tede.tensor([[0, 1], [2, 2]]))


def test_the_warning_names_the_operator_in_full():
    made = tede.library.Library("tede_batches", "DEF")
    made.define("doubled.twice(Tensor x) -> Tensor")
    made.impl("doubled.twice", lambda x: x * 2, "CPU")
    with pytest.warns(UserWarning, match=r"the batching rule for tede_batches::doubled\.twice\. Please"):
        assert tede.vmap(tede.ops.tede_batches.doubled.twice)(tede.ones(2, 3)).tolist() == [[2, 2, 2]] * 2


@pytest.mark.parametrize("chunks", [1, 2, 3, 9])
def test_a_batch_in_parts_gives_what_the_whole_gives(chunks):
    x = tede.randn(7, 3)
    parts = tede.func.chunk_vmap(lambda row: (row.sum(), row * 2), out_dims=(0, 1), chunks=chunks)(x)
    assert tede.allclose(parts[0], x.sum(1)) and tede.equal(parts[1], x.T * 2)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian", "mode"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_the_tangent_of_a_selected_element_is_one_gather(name, keepdim):
    forward_ad = tede.autograd.forward_ad
    x, t = tede.randn(3, 4), tede.randn(3, 4)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        with tede.profiler.profile() as seen:
            values, indices = getattr(tede, name)(dual, 1, keepdim)
        found = forward_ad.unpack_dual(values).tangent
    assert [event.name for event in seen.events()] == ["aten::" + name, "aten::gather"]
    index = indices if keepdim else indices.unsqueeze(1)
    assert found.shape == values.shape and tede.equal(found.reshape(-1), t.gather(1, index).reshape(-1))


def test_second_derivatives_pass_through_a_selected_element():
    x = tede.randn(3, 4, dtype=tede.float64, requires_grad=True)
    found = tede.func.jvp(tede.func.grad(lambda a: (a.max(1)[0] ** 3).sum()), (x.detach(),), (tede.ones(3, 4, dtype=tede.float64),))[1]
    backward = tede.func.grad(lambda a: tede.func.jvp(lambda b: (b.max(1)[0] ** 3).sum(), (a,), (tede.ones_like(a),))[1])(x.detach())
    assert tede.allclose(found, backward)


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, None), (None, 0, 0), (None, None, 0)])
def test_factors_without_and_right_sides_with_leading_dimensions(dims):
    a, b = tede.randn(3, 3, dtype=tede.float64), tede.randn(2, 3, 1, dtype=tede.float64)
    for factors, solve in ((linalg.ldl_factor(a @ a.mT), linalg.ldl_solve), (linalg.lu_factor(a), linalg.lu_solve)):
        batches = [x if dim is None else tede.stack([x] * 4) for x, dim in zip((*factors, b), dims)]
        assert tede.allclose(tede.func.vmap(solve, dims)(*batches), solve(*factors, b).expand(4, 2, 3, 1))


def test_numbers_between_ends_in_few_steps_and_whole():
    """PyTorch's have another dtype then."""
    start, end = tede.tensor([0.7, -1.6, 3.]), tede.tensor([9.2, 2., -2.])
    for steps in (0, 1, 4):
        for dtype in (tede.float32, tede.int64, tede.complex64):
            for make in (tede.linspace, tede.logspace):
                made = tede.vmap(lambda a, b: make(a, b, steps, dtype=dtype))(start, end)
                for i in range(3):
                    expected = make(start[i], end[i], steps, dtype=dtype)
                    assert made.dtype == dtype and tede.allclose(made[i], expected)


@pytest.mark.parametrize("at", [0, 1])
def test_as_strided_in_place_lays_out_each_member(at):
    x = tede.arange(12.).reshape(3, 4).movedim(0, at).contiguous()
    copied = [row.clone() for row in x.unbind(at)]
    laid_out = tede.vmap(lambda a: a.as_strided_((2, 2), (x.stride(1 - at), 2 * x.stride(1 - at))), in_dims=at)(x)
    assert laid_out.tolist() == [row.as_strided((2, 2), (1, 2)).tolist() for row in copied] and x.shape == (3, 2, 2)
    with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
        tede.vmap(lambda a: a.as_strided_((2,), (11,)))(tede.ones(3, 4))
