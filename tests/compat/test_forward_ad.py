"""Forward mode, on tede and on PyTorch: dual numbers, views of them, writes to them, and both modes mixed."""
import importlib

import pytest


@pytest.fixture
def fw(lib):
    return importlib.import_module(lib.__name__ + ".autograd.forward_ad")


def close(a, b, tolerance=1e-5):
    return a.shape == b.shape and float((a - b).abs().max()) <= tolerance


def test_a_tangent_goes_along(lib, fw):
    x, t = lib.randn(3), lib.randn(3)
    with fw.dual_level():
        y = lib.sin(fw.make_dual(x, t)) * 2 + 1
        primal, tangent = fw.unpack_dual(y)
        assert close(primal, x.sin() * 2 + 1) and close(tangent, 2 * x.cos() * t)
        assert fw.unpack_dual(x).tangent is None
    with fw.dual_level():
        assert fw.unpack_dual(y).tangent is None


def test_levels_are_entered_one_at_a_time(lib, fw):
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(lib.ones(2), lib.ones(2))
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="different size than that of the original"):
            fw.make_dual(lib.ones(2), lib.ones(3))
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fw.make_dual(lib.ones(2, dtype=lib.int64), lib.ones(2))


def test_views_share_their_bases_tangent(lib, fw):
    with fw.dual_level():
        x = fw.make_dual(lib.zeros(2, 3), lib.ones(2, 3))
        row = x[1]
        row.mul_(0)
        assert fw.unpack_dual(x).tangent.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_tangent_is_copied_into_a_plain_tensor(lib, fw):
    with fw.dual_level():
        x = fw.make_dual(lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]))
        buffer = lib.zeros(3)
        buffer[1:].copy_(x)
        buffer.mul_(2)
        assert fw.unpack_dual(buffer).primal.tolist() == [0, 2, 4]
        assert fw.unpack_dual(buffer).tangent.tolist() == [0, 6, 8]
        buffer.zero_()
        assert fw.unpack_dual(buffer).tangent.tolist() == [0, 0, 0]


def test_detach_drops_the_tangent(lib, fw):
    with fw.dual_level():
        assert fw.unpack_dual(fw.make_dual(lib.ones(2), lib.ones(2)).detach()).tangent is None


def test_forward_over_reverse(lib, fw):
    x, t = lib.randn(4, dtype=lib.float64), lib.randn(4, dtype=lib.float64)
    leaf = x.clone().requires_grad_()
    with fw.dual_level():
        y = (fw.make_dual(leaf, t) ** 3).sum()
        g, = lib.autograd.grad(y, leaf, create_graph=True)
        assert close(g.detach(), 3 * x ** 2)
        assert close(fw.unpack_dual(g).tangent, 6 * x * t)


def test_reverse_over_forward(lib, fw):
    x, t = lib.randn(4, dtype=lib.float64), lib.randn(4, dtype=lib.float64)
    leaf = x.clone().requires_grad_()
    with fw.dual_level():
        tangent = fw.unpack_dual((fw.make_dual(leaf, t) ** 3).sum()).tangent
        g, = lib.autograd.grad(tangent, leaf)
    assert close(g, 6 * x * t)


def test_no_graph_is_made_of_a_forward_pass(lib, fw):
    with fw.dual_level():
        y = lib.tanh(fw.make_dual(lib.randn(3, 3), lib.randn(3, 3)) @ lib.randn(3, 3)).logsumexp(1)
        assert not y.requires_grad and not fw.unpack_dual(y).tangent.requires_grad


def test_complex_numbers(lib, fw):
    z, t = lib.randn(3, dtype=lib.complex128), lib.randn(3, dtype=lib.complex128)
    with fw.dual_level():
        d = fw.make_dual(z, t)
        assert close(fw.unpack_dual(d * d).tangent, 2 * z * t)
        assert close(fw.unpack_dual(d.exp()).tangent, z.exp() * t)
        assert close(fw.unpack_dual(d.abs()).tangent, (z.conj() * t).real / z.abs())


def test_a_primal_has_no_tangent_and_custom_functions_see_none(lib):
    fw = __import__(lib.__name__ + ".autograd.forward_ad", fromlist=["x"])

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            assert fw.unpack_dual(x.clone()).tangent is None
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx, x, y):
            return x, other

    x, other = lib.tensor(2.0), None
    with fw.dual_level():
        dual = fw.make_dual(x, lib.tensor(1.0))
        assert fw.unpack_dual(fw.unpack_dual(dual).primal.clone()).tangent is None
        first, second = Two.apply(dual, lib.tensor(3))
        assert fw.unpack_dual(first).tangent == 1 and fw.unpack_dual(second).tangent is None
        other = lib.tensor(1.0)
        with pytest.raises(RuntimeError, match="You should return None at that position instead"):
            Two.apply(dual, lib.tensor(3))


def test_tangents_keep_the_precision_of_double_numbers(lib):
    x, y = lib.tensor([1., 2.], dtype=lib.float64), lib.tensor([3., 4.], dtype=lib.float64)
    assert lib.allclose(lib.func.jvp(lambda a: lib.lerp(a, y, 0.4), (x,), (x,))[1], 0.6 * x, rtol=1e-15)
    assert lib.allclose(lib.func.grad(lambda a: lib.func.grad(lambda b: lib.lerp(b, y, 0.4).pow(2).sum())(a).sum())(x),
                        lib.full((2,), 0.72, dtype=lib.float64), rtol=1e-15)


def test_the_second_derivative_of_entropy_below_zero(lib):
    second = lib.func.grad(lib.func.grad(lib.special.entr))
    assert second(lib.tensor(-2.)).item() == 0.5 and second(lib.tensor(2.)).item() == -0.5


@pytest.mark.filterwarnings("ignore:var")
def test_the_variance_of_nothing_has_a_tangent_of_zero(lib):
    x = lib.ones(0, 2)
    value, tangent = lib.func.jvp(lambda a: lib.var(a, 0), (x,), (x,))
    assert value.isnan().all() and tangent.tolist() == [0, 0]


@pytest.mark.parametrize("dims", [(0, 0), (0, 1), (1, 2), (2, 1), (1, None)])
def test_a_view_has_the_tangent_that_a_write_gives_its_base_wherever_the_batch_is(lib, dims):
    func = importlib.import_module(lib.__name__ + ".func")

    def written(x, y):
        x = x.clone()
        view = x[0]
        x.copy_(y)
        return view, x

    def along(x, y, t):
        return func.jvp(lambda y: written(x, y), (y,), (t,))[1]
    x, y, t = lib.randn(3, 2, 6), lib.randn(3, 2, 6), lib.randn(3, 2, 6)
    if dims[1] is None:
        y, t = y[0], t[0]
    moved = [x.movedim(0, dims[0]).contiguous(), *(v if dims[1] is None else v.movedim(0, dims[1]).contiguous() for v in (y, t))]
    of_view, of_all = func.vmap(along, in_dims=(dims[0], dims[1], dims[1]))(*moved)
    assert lib.equal(of_all, t.expand(3, 2, 6)) and lib.equal(of_view, of_all[:, 0])


def test_a_view_taken_before_its_base_became_dual_has_its_tangent_in_levels(lib):
    x = lib.tensor([3., 4., 5.])

    def f(x):
        base = lib.zeros(3)
        view = base[0]
        base.copy_(x * x)
        return view * 2

    def written(x):
        base = x.clone()
        view = base[0]
        base[1:] = x[:2] * x[1]
        return view * base[1]
    assert lib.func.jacfwd(f)(x).tolist() == lib.func.jacrev(f)(x).tolist() == [12., 0., 0.]
    assert lib.func.hessian(f)(x).tolist() == [[4., 0., 0.], [0., 0., 0.], [0., 0., 0.]]
    assert lib.func.jacfwd(written)(x).tolist() == lib.func.jacrev(written)(x).tolist() == [24., 9., 0.]



def test_the_value_of_a_dual_number_has_no_tangent_whatever_its_base_has(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        y = lib.ones(3)
        view = y[0]
        y.copy_(forward_ad.make_dual(lib.ones(3), lib.ones(3)))
        for x in y, view, view * 2, y[1:]:
            value, tangent = forward_ad.unpack_dual(x)
            assert tangent is not None
            for primal in value, value * 2, value.reshape(-1)[0], value.detach():
                assert forward_ad.unpack_dual(primal).tangent is None


def test_running_statistics_have_no_tangents(lib):
    forward_ad = lib.autograd.forward_ad
    for moving in (0,), (1,), (1, 2), (0, 1), (0, 2), (0, 1, 2):
        with forward_ad.dual_level():
            given = [lib.randn(3, 2, 5), lib.randn(2), lib.rand(2) + 1]
            given = [forward_ad.make_dual(x, lib.rand(x.shape)) if i in moving else x for i, x in enumerate(given)]
            if 0 in moving and len(moving) > 1:
                with pytest.raises(RuntimeError, match="batch_norm is not differentiable wrt running_mean and running_var"):
                    lib.nn.functional.batch_norm(*given)
            else:
                assert (forward_ad.unpack_dual(lib.nn.functional.batch_norm(*given)).tangent is not None) == (0 in moving)


@pytest.mark.parametrize("alike", [
    lambda lib, v: v + 0.5, lambda lib, v: v - 1, lambda lib, v: v + lib.zeros(3, 2, dtype=v.dtype),
    lambda lib, v: lib.vmap(lambda q: q + 1)(v), lambda lib, v: v.to(lib.float64).sub(lib.ones(2))])
def test_a_write_does_not_reach_the_tangent_of_what_was_computed_from(lib, alike):
    """x + 1 and x have equal tangents, which mustn't be one."""
    x, t = lib.tensor([1.3, 2.], dtype=lib.float64), lib.tensor([.5, 1.], dtype=lib.float64)

    def written(v):
        y = alike(lib, v)
        return y, y.mul_(2) * v

    (y, product), (dy, tangent) = lib.func.jvp(written, (x,), (t,))
    assert close(dy, (2 * t).expand(y.shape), 1e-12) and close(tangent, 2 * t * x + y * t, 1e-12)
    assert t.tolist() == [.5, 1.] and close(product, y * x, 1e-12)
    assert close(lib.func.jacfwd(lambda v: written(v)[1])(x), lib.func.jacrev(lambda v: written(v)[1])(x), 1e-12)


@pytest.mark.parametrize("name", [
    "bessel_y1", "bessel_j0", "airy_ai", "modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "laguerre_polynomial_l",
    "shifted_chebyshev_polynomial_t"])
def test_numbers_without_a_derivative_go_to_out_under_a_dual_level(lib, name):
    fad, function = lib.autograd.forward_ad, getattr(lib.special, name)
    with fad.dual_level():
        dual = fad.make_dual(lib.tensor([.5, 1.5]), lib.ones(2))
        given = (dual, 2) if "polynomial" in name else (dual,)
        out = lib.zeros(2)
        assert function(*given, out=out) is out and lib.equal(out, function(*given)) and fad.unpack_dual(out).tangent is None
        with pytest.raises(NotImplementedError, match=f"Trying to use forward AD with special_{name}_out that does not support it because it is an out="):
            function(*given, out=fad.make_dual(lib.zeros(2), lib.ones(2)))


@pytest.mark.parametrize("call", [
    lambda lib, x, out: lib.sin(x, out=out), lambda lib, x, out: lib.add(1, x, out=out), lambda lib, x, out: lib.sum(x, 0, True, out=out),
    lambda lib, x, out: lib.eq(x, 1, out=out.bool()), lambda lib, x, out: lib.sign(x, out=out), lambda lib, x, out: lib.mm(x[None], x[:, None], out=out[None]),
    lambda lib, x, out: lib.cat([x], out=out), lambda lib, x, out: lib.stack([x], out=out[None]), lambda lib, x, out: lib.clamp(x, 0, 1, out=out),
    lambda lib, x, out: lib.logit(x, out=out), lambda lib, x, out: lib.mean(x, out=out), lambda lib, x, out: lib.linalg.vecdot(x, x, out=out),
    lambda lib, x, out: lib.max(x, x, out=out), lambda lib, x, out: lib.fft.irfft(x.to(lib.complex64), 1, out=out)])
def test_out_forms_refuse_operands_with_a_tangent(lib, call):
    fad = lib.autograd.forward_ad
    with fad.dual_level(), pytest.raises(NotImplementedError, match="Trying to use forward AD with .*_out that does not support it because it is an out="):
        call(lib, fad.make_dual(lib.tensor([.5]), lib.ones(1)), lib.zeros(1))


def test_out_forms_that_are_made_of_others_take_the_tangent_over(lib):
    """As they take over a history."""
    fad, x, t = lib.autograd.forward_ad, lib.tensor([[3., 4.], [1., 2.]]), lib.ones(2, 2)
    for function in (lib.linalg.norm, lib.linalg.matrix_norm, lambda x, **k: lib.inner(x, x, **k), lambda x, **k: lib.quantile(x, .5, **k)):
        with fad.dual_level():
            dual = fad.make_dual(x, t)
            primal, tangent = fad.unpack_dual(function(dual))
            out = lib.zeros(primal.shape)
            assert function(dual, out=out) is out and lib.equal(fad.unpack_dual(out).tangent, tangent) and lib.equal(fad.unpack_dual(out).primal, primal)
