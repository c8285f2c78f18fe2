"""What random programs of nine seeds, and of transforms, found, and how PyTorch does it."""
import pytest


def refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_factors_of_addr_are_of_the_result_dtype(lib):
    half, truth, whole = lib.ones(3, 3, dtype=lib.float16), lib.tensor([True] * 3), lib.tensor([3, 3, 3])
    assert half.addr(truth, truth, beta=2, alpha=2.5).tolist() == [[4.5] * 3] * 3
    assert half.addr(whole, truth, alpha=.5).dtype is half.t().addr(truth, truth, beta=.5).dtype is lib.float16
    assert lib.ones(3, 3, dtype=lib.int32).addr(half[0], half[0], beta=2.5).dtype is lib.float16
    assert lib.tensor(1., dtype=lib.float64).addr(lib.ones(3), lib.ones(2)).dtype is lib.float64
    assert half.addr(truth, truth, beta=0, alpha=2.5).dtype is lib.float16
    big = lib.tensor([2 ** 20], dtype=lib.int32)
    assert lib.zeros(1, 1, dtype=lib.float64).addr(big, big).tolist() == [[2. ** 40]]


def test_a_transform_along_no_dimension_is_another_tensor(lib):
    x = lib.tensor([1, 2j], requires_grad=True)
    y = lib.fft.fftn(x, dim=[])
    assert y is not x and not y.is_leaf and y.data_ptr() != x.data_ptr() and y.tolist() == x.tolist()
    y.abs().sum().backward()
    assert x.grad.tolist() == [1, 1j]
    assert lib.fft.ifftn(x.detach(), dim=[]).data_ptr() != x.data_ptr()


def test_randint_like_takes_a_tensor_without_dimensions(lib):
    refused(lambda: lib.randint_like(lib.ones(3), lib.tensor([2])), RuntimeError, 'high must be a scalar tensor and on CPU')
    assert lib.randint_like(lib.ones(3), lib.tensor(1)).tolist() == [0, 0, 0]


def test_ormqr_is_no_view(lib):
    y = lib.ormqr(lib.ones(3, 2), lib.ones(2, requires_grad=True), lib.ones(3, 2), True, False)
    assert not y._is_view() and y.stride() == (1, 3) and y.requires_grad
    assert not y.detach_().requires_grad


def test_as_strided_scatter_reaches_the_whole_storage(lib):
    x = lib.arange(9.).view(3, 3)
    assert x[0].as_strided_scatter(lib.zeros(3), [3], [1], 4).tolist() == [0, 1, 2]
    assert x[1].as_strided_scatter(lib.full((3,), 7.), [3], [1], 3).tolist() == [7, 7, 7] and x[1].tolist() == [3, 4, 5]
    refused(lambda: x[0].as_strided_scatter(lib.zeros(3), [3], [1], 7), RuntimeError, 'out of bounds')


def test_histograms_of_halves_over_a_range(lib):
    for dtype in lib.bfloat16, lib.float16:
        x = lib.tensor([2.75, 2.75, -1.], dtype=dtype)
        assert x.histogram(2, range=[1., 3.])[0].tolist() == [0, 2] and x.histogram(2, range=[1., 3.])[1].dtype is dtype
        refused(lambda: x.histogram(2), NotImplementedError, '"histogramdd" not implemented for')  # noqa: B023
        assert lib.histogram(x[:0], 2)[0].tolist() == [0, 0]


def test_indices_of_index_reduce_are_looked_at(lib):
    for reduce in 'mean', 'amin', 'prod':
        refused(lambda: lib.ones(2, 0).index_reduce(-2, lib.tensor([2, 2]), lib.ones(2, 0), reduce), IndexError, 'out of range')  # noqa: B023
    assert lib.ones(2, 0).index_reduce(-2, lib.tensor([1, 1]), lib.ones(2, 0), 'mean').shape == (2, 0)


def test_einsum_of_one_operand_sums(lib):
    x = lib.arange(3.).view(3, 1)
    y = lib.einsum('ij->i', x)
    assert y.tolist() == [0, 1, 2] and y.data_ptr() != x.data_ptr() and not y._is_view()
    assert lib.einsum('ij,j->i', x, lib.ones(1)).tolist() == [0, 1, 2]
    assert lib.einsum('ij->i', x.int()).dtype is lib.int64


def test_the_rank_of_no_truth_values(lib):
    refused(lambda: lib.linalg.matrix_rank(lib.zeros(0, 3, dtype=lib.bool), atol=1e-5), RuntimeError, "doesn't handle types other than")
    assert lib.linalg.matrix_rank(lib.zeros(0, 3), atol=1e-5).item() == 0


def test_lerp_is_stored_in_its_own_dtype_alone(lib):
    x = lib.ones(2)
    refused(lambda: lib.lerp(x, x, x, out=lib.ones(2, dtype=lib.float64)), RuntimeError, 'Found dtype Double but expected Float')
    assert lib.lerp(x, x, .5, out=lib.ones(2, dtype=lib.float64)).tolist() == [1, 1]


def test_a_gradient_of_nothing_depends_on_nothing(lib):
    x = lib.ones(1, requires_grad=True)
    y = x[1:]
    with lib.no_grad():
        y.div_(2.)
    y.abs().sum().backward(create_graph=True)
    assert x.grad.tolist() == [0] and not x.grad.requires_grad


def test_the_gradient_of_a_view_made_without_gradients_ends_there(lib):
    x = lib.ones(2, requires_grad=True)
    with lib.no_grad():
        view = x.view(-1)
    y = (view * view).sum()
    assert view.requires_grad and view.is_leaf and y.requires_grad
    y.backward()
    assert x.grad is None and view.grad is None
    assert lib.autograd.grad((view * x).sum(), [x, view], allow_unused=True)[1] is None
    refused(lambda: view.backward(lib.ones(2)), RuntimeError, 'element 0 of tensors does not require grad')
    refused(lambda: lib.autograd.graph.get_gradient_edge(view), AssertionError, 'Expected gradient function')
    view.requires_grad_()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3, 3] and x.grad is None


@pytest.mark.parametrize('name', ['vjp', 'jvp', 'vhp', 'hvp'])
def test_zeros_of_independent_functions_have_no_history(lib, name):
    x, other = lib.ones(3), lib.ones(3, requires_grad=True)
    function = (lambda v: other * 1) if name in ('vjp', 'jvp') else lambda v: other.sum()
    value, zeros = getattr(lib.autograd.functional, name)(function, x, x, create_graph=True)
    assert value.requires_grad and zeros.tolist() == [0, 0, 0] and not zeros.requires_grad


@pytest.mark.parametrize('name', ['smooth_l1_loss', 'huber_loss'])
def test_gradients_of_not_a_number_are_none(lib, name):
    x = lib.tensor([float('nan'), 1., 3.], requires_grad=True)
    target = lib.zeros(3, requires_grad=True)
    getattr(lib.nn.functional, name)(x, target, reduction='sum').backward()
    for gradient, sign in (x.grad, 1), (target.grad, -1):
        assert gradient[0].isnan() and gradient[1:].tolist() == [sign, sign]


def test_a_tangent_keeps_what_is_overwritten(lib):
    x, other = lib.tensor([1., 3.], requires_grad=True), lib.tensor([1., 2.])

    def function(v):
        w = v * 1
        w.mul_(v)
        return w.exp_()
    tangent = lib.func.jvp(function, (x,), (other,))[1]
    apart = lib.func.jvp(lambda v: (v * 1 * v).exp(), (x,), (other,))[1]
    assert lib.autograd.grad(tangent.sum(), x)[0].tolist() == pytest.approx(lib.autograd.grad(apart.sum(), x)[0].tolist())
    nested = lib.func.grad(lambda y: lib.func.jvp(function, (y,), (other,))[1].sum())(x.detach())
    other_way = lib.func.grad(lambda y: lib.func.jvp(lambda v: (v * v).exp(), (y,), (other,))[1].sum())(x.detach())
    assert nested.tolist() == pytest.approx(other_way.tolist())


def test_parts_of_conjugates_at_a_level(lib):
    x, unit = lib.ones(2), lib.ones(2) * 1j
    assert lib.func.vjp(lambda v: lib.complex(v, v).conj().imag, x)[0].tolist() == [-1, -1]
    assert lib.func.vjp(lambda v: unit.conj().imag, x)[0].tolist() == [-1, -1]
    assert lib.func.grad(lambda v: (v * unit).conj().imag.sum())(x).tolist() == [-1, -1]
    assert lib.func.jvp(lambda v: (v * unit).conj().real, (x,), (x,))[1].tolist() == [0, 0]
    assert lib.func.vjp(lambda v: lib.view_as_real((v * unit).conj().resolve_conj()), x)[0].tolist() == [[0, -1]] * 2


def doubled(lib):
    class Doubled(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            y = x.clone()
            y.mul_(2)
            return y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 + ctx.saved_tensors[0]
    return Doubled


def test_functions_within_functionalize(lib):
    function, x = doubled(lib), lib.ones(2)

    def whole(v):
        w = v * 1
        w.add_(1)
        return function.apply(w)
    functional = lib.func.functionalize(whole)
    if lib.__name__ == 'torch':
        return refused(lambda: functional(x), RuntimeError, 'NYI: Functionalize rule')
    assert functional(x).tolist() == [4, 4]
    assert lib.func.grad(lambda v: functional(v).sum())(x).tolist() == [5, 5]
    assert lib.func.functionalize(lib.func.grad(lambda v: whole(v).sum()))(x).tolist() == [5, 5]
    assert lib.vmap(functional)(lib.ones(3, 2)).tolist() == [[4, 4]] * 3


def test_functional_tensors_that_got_out(lib):
    kept = []
    lib.func.functionalize(lambda v: kept.append(v) or v * 2)(lib.ones(3))
    if lib.__name__ == 'tede':
        refused(lambda: kept[0] * 2, RuntimeError, 'outside of the functionalize')
        refused(lambda: kept[0].add_(2), RuntimeError, 'outside of the functionalize')


@pytest.mark.parametrize('view', ['x[0]', 'x[:1]', 'x.diagonal()', 'x.unfold(1, 2, 1)', 'x.select(1, 0)', 'x.unbind()[0]', 'x.split(1)[1]'])
def test_gradients_of_views_have_not_been_written_to(lib, view):
    x = lib.ones(2, 3, requires_grad=True)
    eval(view, {'x': x}).sum().backward()
    assert x.grad._version == 0
    with lib.no_grad():
        x.grad.mul_(2)
    assert x.grad._version == 1


def test_tolist_under_transforms(lib):
    func, x, seen = lib.func, lib.tensor([1., 2.]), []

    def f(x):
        seen.append((x.tolist(), (x > 1).tolist()))
        return (x * x).sum()
    func.grad(f)(x), func.jvp(f, (x,), (x,)), func.grad(lambda x: func.grad(f)(x).sum())(x)
    assert seen == [([1, 2], [False, True])] * 3
    refused(lambda: func.vmap(f)(x), RuntimeError, 'Cannot access data pointer')
    refused(lambda: func.grad(lambda x: func.vmap(f)(x).sum())(x), RuntimeError, 'Cannot access data pointer')


def test_linearize_takes_functions_that_write_and_differentiate(lib):
    x, c, state = lib.tensor([1., 2., 3.]), lib.ones(3), lib.zeros(())

    def f(x):
        state.add_(1)
        return c.clone().mul_(x) * lib.autograd.grad((x.requires_grad_() ** 3).sum(), x)[0]
    output, push = lib.func.linearize(f, x)
    assert output.tolist() == [3, 24, 81] and push(lib.ones(3)).tolist() == [9, 36, 81] and state.item() >= 2


def test_functionalized_copies_of_views_fill_out(lib):
    functionalize, x = lib.func.functionalize, lib.tensor([1., 2., 3.])
    assert functionalize(lambda x: lib.view_copy(x, (3,), out=lib.zeros(3)))(x).tolist() == [1, 2, 3]
    assert functionalize(lambda x: lib.unfold_copy(x, -1, 2, 5, out=lib.ones(1, 2)))(x).tolist() == [[1, 2]]
    assert functionalize(lambda x: lib.select_copy(x, 0, 1, out=lib.ones(())))(x).item() == 2


@pytest.mark.parametrize('remove', ['mutations', 'mutations_and_views'])
def test_functionalize_gives_an_argument_the_shape_that_it_got(lib, remove):
    def transposed(x):
        x.mul_(2)
        x.swapaxes_(0, 1)
        return x * 1
    x = lib.arange(6.).view(2, 3)
    y = lib.func.functionalize(transposed, remove=remove)(x)
    assert x.tolist() == y.tolist() == [[0, 6], [2, 8], [4, 10]]
    lib.func.functionalize(lambda x: x.unsqueeze_(0) * 1, remove=remove)(x)
    assert x.shape == (1, 3, 2)


def test_a_view_written_under_jacrev_under_vmap(lib):
    def f(x):
        y = x * 2
        y.unsqueeze(0).exp_()
        return y
    x = lib.tensor([[0., 1.], [2., 3.]])
    jacobian = lib.func.vmap(lib.func.jacrev(f))(x)
    assert lib.allclose(jacobian, lib.diag_embed(2 * (2 * x).exp()))


def test_jacobians_through_spectral_norm(lib):
    for norm in lib.nn.utils.parametrizations.spectral_norm, lib.nn.utils.spectral_norm:
        layer, x = norm(lib.nn.Linear(3, 3)), lib.ones(3)
        assert lib.func.jacrev(layer)(x).shape == lib.func.jacfwd(layer)(x).shape == lib.func.hessian(lambda x: layer(x).sum())(x).shape == (3, 3)  # noqa: B023
        assert len(lib.func.jacrev(lambda p: lib.func.functional_call(layer, p, x))(dict(layer.named_parameters()))) == 2  # noqa: B023
