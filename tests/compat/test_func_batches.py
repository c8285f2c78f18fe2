"""vmap of what is easily got wrong: members must not see each other's memory, nested levels, 0-d members, Functions."""
import importlib
import pytest


def test_a_strided_view_stays_within_its_member(lib):
    x = lib.arange(45.).reshape(3, 5, 3)
    assert lib.vmap(lambda a: a.as_strided((3,), (4,)))(x).tolist() == [[0, 4, 8], [15, 19, 23], [30, 34, 38]]
    assert lib.vmap(lambda a: a.as_strided((0,), (1,), 99))(x).shape == (3, 0)
    for size, stride, offset, reached in [((5, 3), (3, 1), 1, r"\[1, 16\]"), ((2, 15), (15, 1), 0, r"\[0, 30\]")]:
        with pytest.raises(RuntimeError, match=rf"`result` can access some memory in range {reached}, but `tensor` can only access some "
                                               r"memory in range \[0, 15\]. This is not supported inside of vmap"):
            lib.vmap(lambda a: a.as_strided(size, stride, offset))(x)
    with pytest.raises(RuntimeError, match="`tensor` has no storage"):
        lib.vmap(lambda a: a.as_strided((1,), (1,)))(lib.ones(3, 0))


@pytest.mark.parametrize("scatter, source", [
    (lambda lib, a, s: lib.diagonal_scatter(a, s), (2,)),
    (lambda lib, a, s: lib.select_scatter(a, s, 0, 1), (2,)),
    (lambda lib, a, s: lib.select_scatter(a, s, -1, 0), (2,)),
    (lambda lib, a, s: lib.slice_scatter(a, s, 1, 0, 1), (2, 1)),
])
def test_scatters_of_nested_batches(lib, scatter, source):
    """Whichever of the two has a batch, at either level."""
    a, s = lib.arange(16.).reshape(4, 2, 2), lib.arange(100., 104.).reshape(2, 2)[:, :1 if len(source) == 2 else 2]
    sources = lib.stack([s.reshape(source) if s.numel() == 2 else s[0].reshape(source), -lib.ones(source), 2 * lib.ones(source)])
    by_source = lib.vmap(lambda x: lib.vmap(lambda y: scatter(lib, x, y))(sources))(a)
    by_self = lib.vmap(lambda y: lib.vmap(lambda x: scatter(lib, x, y))(a))(sources)
    only_source = lib.vmap(lib.vmap(lambda y: scatter(lib, a[0], y)))(sources.expand(2, *sources.shape))
    for i in range(4):
        for k in range(3):
            expected = scatter(lib, a[i], sources[k]).tolist()
            assert by_source[i, k].tolist() == expected and by_self[k, i].tolist() == expected
            if i == 0:
                assert only_source[1, k].tolist() == expected


@pytest.mark.parametrize("call", [
    lambda lib, b: lib.float_power(b, 2), lambda lib, b: lib.float_power(2, b), lambda lib, b: lib.xlogy(b, 2),
    lambda lib, b: lib.xlogy(2., b), lambda lib, b: lib.special.zeta(b, 2), lambda lib, b: lib.remainder(b, 2),
    lambda lib, b: lib.pow(3, b), lambda lib, b: lib.special.xlog1py(b, 2.),
])
def test_members_without_dimensions_beside_numbers(lib, call):
    x = lib.tensor([1., 2., 3.])
    together = lib.vmap(lambda b: call(lib, b))(x)
    assert together.dtype == call(lib, x).dtype and together.tolist() == call(lib, x).tolist()


@pytest.mark.parametrize("call", [
    lambda x: x.squeeze_(0), lambda x: x.squeeze_(), lambda x: x.t_(), lambda x: x.transpose_(0, -1),
])
def test_shapes_of_members_without_dimensions_change_in_place(lib, call):
    assert lib.vmap(lambda x: call(x.clone()))(lib.ones(3)).shape == (3,)
    with pytest.raises(IndexError, match="Dimension out of range"):
        lib.vmap(lambda x: x.clone().transpose_(0, 1))(lib.ones(3))


def test_empty_members_with_strides(lib):
    made = lib.vmap(lambda x: x.new_empty_strided((2, 0), (5, 1)))(lib.ones(3))
    assert made.shape == (3, 2, 0) and made.stride() == (0, 5, 1)


def test_data_is_not_for_members_of_a_batch(lib):
    def replace(x):
        x.data = lib.ones(3)
        return x
    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        lib.vmap(lambda x: x.data)(lib.ones(2, 3))
    with pytest.raises(RuntimeError, match="mutating directly with `.data` under vmap"):
        lib.vmap(replace)(lib.ones(2, 3))


def test_lists_among_several_results_of_an_operator(lib):
    from typing import List, Tuple

    @lib.library.custom_op("tede_batches::halves", mutates_args=())
    def halves(x: lib.Tensor) -> Tuple[List[lib.Tensor], int]:
        return [x / 2, x / 2], 2
    halves.register_vmap(lambda info, dims, x: (halves(x), ([dims[0], dims[0]], None)))
    x = lib.ones(3, 2)
    assert type(halves(x)) is tuple and type(halves(x)[0]) is list and type(lib.ops.tede_batches.halves(x)[0]) is list
    first, second = lib.vmap(lambda x: tuple(halves(x)[0]))(x)
    assert first.tolist() == second.tolist() == [[0.5, 0.5]] * 3


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_one_row_have_the_shape_of_its_target(lib, reduction):
    F, x = lib.nn.functional, lib.arange(10.).reshape(2, 5)
    for target in (lib.tensor([[4], [2]]), lib.tensor([4, 2])):
        expected = lib.stack([F.multi_margin_loss(x[i], target[i], reduction=reduction) for i in range(2)])
        together = lib.vmap(lambda a, t: F.multi_margin_loss(a, t, reduction=reduction))(x, target)
        assert together.shape == expected.shape and together.tolist() == expected.tolist()


# ---- Functions ---------------------------------------------------------------------------------------------------------

def cube(lib):
    class Cube(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x ** 3, 3 * x ** 2

        @staticmethod
        def setup_context(ctx, inputs, outputs):
            ctx.save_for_backward(inputs[0], outputs[1])
            ctx.save_for_forward(inputs[0], None, outputs[1])

        @staticmethod
        def backward(ctx, grad, grad_slope):
            x, slope = ctx.saved_tensors
            return grad * slope + 6 * grad_slope * x

        @staticmethod
        def jvp(ctx, tangent):
            x, nothing, slope = ctx.saved_tensors
            assert nothing is None
            return tangent * slope, 6 * tangent * x
    return lambda x: Cube.apply(x)[0]


def test_a_function_mapped_by_itself_has_tangents(lib):
    f, x, ones = cube(lib), lib.tensor([1., 2., 3.]), lib.ones(3)
    jvp, vmap, grad = lib.func.jvp, lib.func.vmap, lib.func.grad
    value, tangent = jvp(lambda x: vmap(f)(x), (x,), (ones,))
    assert value.tolist() == [1, 8, 27] and tangent.tolist() == [3, 12, 27]
    assert [t.tolist() for t in vmap(lambda a: jvp(f, (a,), (ones[0],)))(x)] == [[1, 8, 27], [3, 12, 27]]
    assert jvp(lambda x: vmap(grad(f))(x), (x,), (ones,))[1].tolist() == [6, 12, 18]
    assert vmap(grad(lambda a: jvp(f, (a,), (ones[0],))[1]))(x).tolist() == [6, 12, 18]
    assert vmap(vmap(f))(x.reshape(3, 1)).tolist() == [[1], [8], [27]]
    assert vmap(vmap(grad(f)))(x.reshape(3, 1)).tolist() == [[3], [12], [27]]


def test_a_mapped_function_says_what_has_no_gradient(lib):
    class Doubled(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return 2 * x, x + 1

        @staticmethod
        def setup_context(ctx, inputs, outputs):
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, grad, other):
            assert other is None
            return 2 * grad
    x = lib.tensor([1., 2.], requires_grad=True)
    lib.vmap(Doubled.apply)(x)[0].sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_tangents_of_what_a_function_writes_to(lib):
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp_()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])
            ctx.save_for_forward(output)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(ctx.saved_tensors[0])

        @staticmethod
        def vmap(info, dims, x):
            return Exp.apply(x), dims[0]
    x, ones = lib.tensor([0., 1., 2.]), lib.ones(3)

    def f(x):
        return Exp.apply(x.clone())
    for g in (f, lambda x: lib.vmap(f)(x)):
        value, tangent = lib.func.jvp(g, (x,), (ones,))
        assert value.tolist() == tangent.tolist() == x.exp().tolist()
        twice = lib.func.jvp(lambda y: lib.func.jvp(g, (y,), (ones,))[1], (x,), (ones,))
        assert twice[0].tolist() == x.exp().tolist()


def test_what_a_function_writes_to_may_have_had_no_tangent(lib):
    class Times(lib.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x.mul_(y)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])
            ctx.before = lib.ones(2) * 3

        @staticmethod
        def jvp(ctx, t, u):
            return t.add_(ctx.before * u)
    forward_ad = lib.autograd.forward_ad
    for run in ("level", "dual"):
        if run == "level":
            tangent = lib.func.jvp(lambda y: Times.apply(lib.full((2,), 3.), y), (lib.ones(2),), (lib.ones(2),))[1]
        else:
            with forward_ad.dual_level():
                tangent = forward_ad.unpack_dual(Times.apply(lib.full((2,), 3.), forward_ad.make_dual(lib.ones(2), lib.ones(2))))[1]
        assert tangent.tolist() == [3, 3]


@pytest.mark.parametrize("dims", [(-1, 0), (-1, None), (0, -1), (None, -1)])
@pytest.mark.parametrize("shape", [(4, 2, 2), (1, 4, 3, 3), (0, 4, 2, 2)])
def test_tangents_whose_batch_lies_elsewhere_are_reshaped(lib, dims, shape):
    def along(dim, start):
        size = shape if dim is None else (2, *shape) if dim == 0 else (*shape, 2)
        return lib.arange(float(start), start + lib.Size(size).numel()).reshape(size)

    def f(x, t):
        return lib.func.jvp(lambda x: lib.nn.functional.pixel_shuffle(x, 2), (x,), (t,))
    x, t = along(dims[0], 0), along(dims[1], 100)
    value, tangent = lib.vmap(f, dims)(x, t)
    for i in range(2):
        member = [y if d is None else y.select(d, i) for y, d in zip((x, t), dims)]
        assert value[i].tolist() == lib.nn.functional.pixel_shuffle(member[0], 2).tolist()
        assert tangent[i].tolist() == lib.nn.functional.pixel_shuffle(member[1], 2).tolist()


def test_pullbacks_of_members(lib):
    """vjp's pullback runs when its level has ended, within the batch."""
    x, places = lib.rand(2, 2, 3, 5, 4), lib.rand(2, 2, 3, 5, 2) * 2 - 1

    def pulled(x, places):
        value, pull = lib.func.vjp(lambda x, places: lib.nn.functional.grid_sample(x, places, align_corners=False), x, places)
        return pull(lib.ones(value.shape))
    together = lib.vmap(pulled)(x, places)
    for i in range(2):
        for whole, one in zip(together, pulled(x[i], places[i])):
            assert lib.allclose(whole[i], one, atol=1e-5)
    only = lib.vmap(lambda x: lib.func.vjp(lambda x: lib.nn.functional.grid_sample(x, places[0], align_corners=False), x)[1](
        lib.ones(2, 3, 3, 5))[0])(x)
    assert only.shape == x.shape


def test_numbers_between_ends_of_each_member(lib):
    """linspace and logspace whose ends are members, or one of them."""
    start, end = lib.tensor([0., -1., 3.]), lib.tensor([1., 2., -2.])
    for steps in (2, 5):
        for make in (lib.linspace, lambda *a, **k: lib.logspace(*a, base=2.0, **k)):
            both = lib.vmap(lambda a, b: make(a, b, steps))(start, end)
            first = lib.vmap(lambda a: make(a, 1.5, steps, dtype=lib.float64))(start)
            last = lib.vmap(lambda b: make(0.5, b, steps, dtype=lib.float64))(end)
            for i in range(3):
                assert lib.allclose(both[i], make(start[i], end[i], steps))
                assert lib.allclose(first[i], make(start[i], 1.5, steps, dtype=lib.float64))
                assert lib.allclose(last[i], make(0.5, end[i], steps, dtype=lib.float64))
    with pytest.raises(RuntimeError):
        lib.vmap(lambda a: lib.linspace(a, 1., 3))(lib.ones(2, 2))


def test_selections_by_one_mask_for_all(lib):
    x, mask = lib.arange(12.).reshape(2, 2, 3), lib.tensor([[True, False, True], [False, False, True]])
    assert lib.vmap(lambda a: lib.masked_select(a, mask))(x).tolist() == [[0, 2, 5], [6, 8, 11]]
    assert lib.vmap(lambda a: lib.masked_select(a, mask), in_dims=2)(lib.arange(6.).reshape(1, 3, 2)).tolist() == [[0, 4, 4], [1, 5, 5]]
    assert lib.vmap(lib.func.grad(lambda a: lib.masked_select(a, mask).pow(2).sum()))(x)[1].tolist() == [[12, 0, 16], [0, 0, 22]]
    masks = lib.stack([mask, ~mask])
    weights = lib.tensor([[1., 2, 3], [4, 5, 6]])
    found = lib.vmap(lib.func.grad(lambda s, a, m: (a.masked_scatter(m, s) * weights).sum()), in_dims=(None, 0, 0))(lib.arange(4.), x, masks)
    assert found.tolist() == [[1, 3, 6, 0], [2, 4, 5, 0]]


def test_one_batch_norm_with_weights_of_each_member(lib):
    """Statistics in training are updated once, since all members share the input."""
    x, weights = lib.arange(12.).reshape(3, 2, 2) ** 2, lib.tensor([[1., 2.], [3., 4.], [-1., 0.]])
    mean, var = lib.zeros(2), lib.ones(2)
    made = lib.vmap(lambda w: lib.nn.functional.batch_norm(x, mean, var, w, training=True))(weights)
    other_mean, other_var = lib.zeros(2), lib.ones(2)
    for i in range(3):
        used = (other_mean, other_var) if i == 0 else (lib.zeros(2), lib.ones(2))
        assert lib.allclose(made[i], lib.nn.functional.batch_norm(x, *used, weights[i], training=True), atol=1e-5)
    assert lib.allclose(mean, other_mean) and lib.allclose(var, other_var)


def test_resizing_members(lib):
    x = lib.arange(12.).reshape(2, 6)
    assert lib.vmap(lambda a: a.clone().resize_(3, 2))(x).tolist() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    with pytest.raises(RuntimeError, match="only supports None or Contiguous"):
        lib.vmap(lambda a: a.clone().resize_(1, 2, 1, 3, memory_format=lib.channels_last))(x)


@pytest.mark.parametrize("name, given, at, shape", [
    ("t_", (), 0, (2, 4, 3)), ("t_", (), 1, (4, 3, 2)), ("transpose_", (0, -1), 2, (3, 2, 4)), ("swapaxes_", (1, 0), -2, (4, 3, 2)),
    ("unsqueeze_", (0,), 0, (2, 1, 3, 4)), ("unsqueeze_", (0,), 1, (1, 2, 3, 4)), ("unsqueeze_", (1,), 1, (2, 3, 1, 4)),
    ("unsqueeze_", (1,), 2, (2, 1, 3, 4)), ("unsqueeze_", (-1,), 2, (2, 3, 4, 1)), ("unsqueeze_", (-3,), -1, (1, 2, 3, 4))])
def test_a_shape_changed_in_place_leaves_the_batch_where_it_is(lib, name, given, at, shape):
    """What the caller passed has the changed shape, the batch is between the dimensions that it was between, and one write counts."""
    x = lib.arange(24.).reshape(2, 3, 4)
    member = lib.arange(24.).reshape(2, 3, 4).select(at, 1)
    together = lib.vmap(lambda a: getattr(a, name)(*given), in_dims=at)(x)
    assert x.shape == shape and x._version == 1
    assert lib.equal(together[1], getattr(member, name)(*given)) and lib.equal(x.flatten().sort()[0], lib.arange(24.))


@pytest.mark.parametrize("given, at, shape", [
    ((), 2, (2, 3, 2)), ((0,), 0, (2, 3, 1, 2)), ((0,), 2, (2, 1, 3, 1, 2)), ((1,), 2, (2, 3, 1, 2)), ((-2,), 0, (2, 1, 3, 2)), (((1, 2),), 2, (2, 3, 2)),
    (((1, 2),), 3, (2, 3, 1, 2)), (((-1, 0),), 1, (2, 1, 3, 1, 2))])
def test_members_squeezed_in_place_leave_the_batch_where_it_is(lib, given, at, shape):
    x = lib.arange(12.).reshape(2, 1, 3, 1, 2)
    member = lib.arange(12.).reshape(2, 1, 3, 1, 2).select(at, 0)
    together = lib.vmap(lambda a: a.squeeze_(*given), in_dims=at)(x)
    assert x.shape == shape and x._version == 1 and lib.equal(together[0], member.squeeze(*given))


def test_a_refused_change_of_shape_leaves_the_tensor_as_it_was(lib):
    x = lib.zeros(2, 3, 4)
    for change in (lambda a: a.transpose_(0, 2), lambda a: a.squeeze_(2), lambda a: a.unsqueeze_(4)):
        with pytest.raises(IndexError, match="Dimension out of range"):
            lib.vmap(change, in_dims=1)(x)
        assert x.shape == (2, 3, 4) and x.is_contiguous()


def test_resized_members_at_another_dimension(lib):
    """PyTorch has no such rule. The batch stays where it was, or becomes the last dimension."""
    x, y = lib.arange(24.).reshape(2, 3, 4), lib.arange(24.).reshape(2, 3, 4)
    if lib.__name__ == "torch":
        with pytest.raises(RuntimeError, match="NYI: resize_ batch rule"):
            lib.vmap(lambda a: a.resize_(2, 2), in_dims=1)(x)
        return
    made = lib.vmap(lambda a: a.resize_(2, 2), in_dims=1)(x)
    assert x.shape == (2, 3, 2) and made.tolist() == x.transpose(0, 1).tolist()
    assert made.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]
    lib.vmap(lambda a: a.resize_(1), in_dims=2)(y)
    assert y.shape == (1, 4) and y.tolist() == [[0, 1, 2, 3]]


def test_one_answer_for_the_whole_batch(lib):
    def check(x):
        assert lib._is_all_true(x).item() is False and lib._is_any_true(x).item() is True
        return x
    lib.vmap(lib.vmap(check))(lib.tensor([[True, False], [True, True]]))


def test_windows_and_hashes_of_numbers(lib):
    assert lib.func.jacrev(lambda a: a.unfold(0, 1, 1))(lib.tensor(2.)).tolist() == [1.0]
    assert lib.vmap(lambda a: a.unfold(0, 1, 1))(lib.arange(3.)).tolist() == [[0], [1], [2]]
    hashes = lib.vmap(lib.hash_tensor)(lib.arange(3.))
    assert hashes.tolist() == [lib.hash_tensor(lib.tensor(float(i))).item() for i in range(3)]


def test_derivatives_of_solves_with_factors_of_each_member(lib):
    """By way of vmap: outside of it, and twice."""
    L = lib.tensor([[2., 0.], [1., 3.]], dtype=lib.float64)
    factors, sides = lib.stack([L, 1.5 * L]), lib.ones(2, 2, dtype=lib.float64)

    def solve(l):
        return lib.cholesky_solve(sides, l)
    tangent = lib.func.jvp(lib.vmap(solve), (factors,), (factors,))[1]
    assert lib.allclose(tangent, lib.func.jvp(solve, (factors,), (factors,))[1]) and (tangent != 0).all()
    plain = factors.clone().requires_grad_()
    solve(plain).sum().backward()
    assert lib.allclose(lib.func.grad(lambda f: lib.vmap(solve)(f).sum())(factors), plain.grad)
    one = lib.tensor([[2.]], dtype=lib.float64)
    assert lib.allclose(lib.func.hessian(lib.cholesky_inverse)(one), lib.full((1,) * 6, 6 / 16, dtype=lib.float64))


def test_statistics_kept_outside_of_nested_derivatives(lib):
    x = (lib.arange(12., dtype=lib.float64).reshape(2, 2, 3) / 7).cos()
    mean, var = lib.zeros(2, dtype=lib.float64), lib.ones(2, dtype=lib.float64)

    def f(a):
        return lib.nn.functional.instance_norm(a, mean, var).sin().sum()
    assert lib.func.hessian(f)(x).shape == (2, 2, 3, 2, 2, 3)
    assert lib.allclose(mean, 0.1 * x.mean((0, 2)))


def test_jacobians_of_nothing(lib):
    empty = lib.ones(0, 2)
    for jacobian in (lib.func.jacrev, lib.func.hessian):
        assert jacobian(lambda a: a * a)(empty).numel() == 0
    assert lib.func.jacrev(lambda a: a * a)(empty).shape == (0, 2, 0, 2)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_gradients_of_recurrent_layers_per_sample(lib, nn, kind):
    if lib.__name__ == "torch" and kind != "LSTM":
        pytest.skip("PyTorch writes steps into memory without a batch")
    layer, x = getattr(nn, kind)(3, 4, batch_first=True), lib.randn(2, 5, 3)
    parameters = dict(layer.named_parameters())

    def loss(parameters, x):
        return lib.func.functional_call(layer, parameters, (x.unsqueeze(0),))[0].square().sum()
    per_sample = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(2):
        alone = lib.func.grad(loss)(parameters, x[i])
        for name in parameters:
            lib.testing.assert_close(per_sample[name][i], alone[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_recurrent_layer_leaves_gradients_per_sample(lib, nn, kind, batch_first):
    if lib.__name__ == "torch" and kind == "LSTM":
        pytest.skip("PyTorch's formula is for another library's layer")
    call = importlib.import_module(f"{lib.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads

    class First(nn.Module):         # PyTorch takes modules with one result
        def __init__(self):
            super().__init__()
            self.layer = getattr(nn, kind)(3, 4, batch_first=batch_first)

        def forward(self, x):
            return self.layer(x)[0]
    module, x = First(), lib.randn(2, 2, 3)
    call(module, batch_first=batch_first)(x).square().sum().backward()
    each = {name: p.grad_sample for name, p in module.named_parameters()}
    if lib.__name__ == "tede":      # with its hidden states, whose batch is the second dimension
        for p in module.parameters():
            del p.grad_sample
        call(module.layer, batch_first=batch_first)(x)[0].square().sum().backward()
        for name, p in module.named_parameters():
            lib.testing.assert_close(p.grad_sample, each[name])
    module(x).square().sum().backward()
    for name, p in module.named_parameters():
        lib.testing.assert_close(each[name].sum(0), p.grad, rtol=1e-4, atol=1e-5)
