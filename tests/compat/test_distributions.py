"""Distributions: samples of a seed, densities, moments, divergences, transforms; the same in both libraries."""
import importlib
import importlib.util
import inspect
import warnings

import pytest


@pytest.fixture(autouse=True)
def quiet():
    if importlib.util.find_spec("torch"):       # whose compiler turns the checks off when another test loads it
        importlib.import_module("torch.distributions").Distribution.set_default_validate_args(True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def instances(lib):
    D, t = importlib.import_module(lib.__name__ + ".distributions"), lib.tensor
    positive, real, p = t([0.5, 1.0, 2.5]), t([-1.0, 0.3, 2.0]), t([0.2, 0.5, 0.9])
    rows, cov = t([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]), t([[2.0, 0.3], [0.3, 1.0]])
    return [
        D.Normal(real, positive), D.Laplace(real, positive), D.Cauchy(real, positive), D.Gumbel(real, positive),
        D.StudentT(t([1.5, 3., 5.]), real, positive), D.VonMises(real, positive), D.Exponential(positive),
        D.GeneralizedPareto(real, positive, t([-.3, 0., .2])), D.Gamma(positive, positive + 1), D.Chi2(positive * 2),
        D.InverseGamma(positive + 2, positive), D.FisherSnedecor(positive * 6, positive * 10), D.LogNormal(real, positive),
        D.HalfNormal(positive), D.HalfCauchy(positive), D.Pareto(positive, positive + 3), D.Weibull(positive, positive),
        D.Uniform(real, real + positive), D.Uniform(p, p + 0.05), D.Beta(positive, positive + 1),
        D.Dirichlet(t([[1., 2., 3.], [.5, .6, .7]])), D.Kumaraswamy(positive + 1, positive + 1),
        D.LogisticNormal(real, positive), D.ContinuousBernoulli(p), D.Bernoulli(p), D.Bernoulli(logits=real), D.Geometric(p),
        D.Binomial(5, p), D.NegativeBinomial(5, p), D.Poisson(positive), D.Categorical(rows), D.Categorical(logits=rows),
        D.OneHotCategorical(rows), D.OneHotCategoricalStraightThrough(rows), D.Multinomial(4, rows),
        D.RelaxedBernoulli(t(.5), p), D.RelaxedOneHotCategorical(t(.5), rows), D.MultivariateNormal(t([1., 2.]), cov),
        D.MultivariateNormal(lib.zeros(3, 2), precision_matrix=cov), D.LKJCholesky(3, t([1., 2.])),
        D.LowRankMultivariateNormal(lib.zeros(2), t([[1.], [.5]]), t([1., 2.])), D.Independent(D.Normal(real, positive), 1),
        D.MixtureSameFamily(D.Categorical(rows), D.Normal(lib.zeros(2, 3), lib.ones(2, 3) * positive)),
        D.TransformedDistribution(D.Normal(real, positive), [D.AffineTransform(1., 2.), D.SigmoidTransform()])]


def outcome(function):
    try:
        value = function()
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__
    return value.tolist() if hasattr(value, "tolist") else str(value).replace("tede.", "torch.")


def close(a, b):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(close, a, b))
    return a == pytest.approx(b, rel=2e-4, abs=2e-5, nan_ok=True) if isinstance(a, (int, float)) else a == b


def test_every_distribution_says_the_same(both):
    names = {name for name in importlib.import_module("torch.distributions").__all__}
    assert names <= set(importlib.import_module("tede.distributions").__all__)
    torch, tede = both[::-1]
    for a, b in zip(instances(torch), instances(tede)):
        lead = (2,) + tuple(a.batch_shape)
        torch.manual_seed(1)
        x = a.sample((4,)).tolist()
        for what, ask in (
                ("sample", lambda lib, d: (lib.manual_seed(3), d.sample((4,)))[1]),
                ("state afterwards", lambda lib, d: (lib.manual_seed(3), d.sample(), lib.rand(2))[2]),
                ("rsample", lambda lib, d: (lib.manual_seed(5), d.rsample((3,)))[1]),
                ("log_prob", lambda lib, d: d.log_prob(lib.tensor(x))), ("cdf", lambda lib, d: d.cdf(lib.tensor(x))),
                ("icdf", lambda lib, d: d.icdf(lib.full((2,) + tuple(d.batch_shape), 0.3))),
                ("mean", lambda lib, d: d.mean), ("variance", lambda lib, d: d.variance), ("mode", lambda lib, d: d.mode),
                ("entropy", lambda lib, d: d.entropy()), ("repr", lambda lib, d: repr(d)),
                ("support", lambda lib, d: repr(d.support)), ("expand", lambda lib, d: d.expand(lead)),
                ("expanded", lambda lib, d: d.expand(lead).log_prob(lib.tensor(x)[:1])),
                ("support values", lambda lib, d: d.enumerate_support()),
                ("outside", lambda lib, d: d.log_prob(lib.tensor(x) * 0 - 7.5)),
                ("wrong shape", lambda lib, d: d.log_prob(lib.ones(7, 11)))):
            assert close(outcome(lambda: ask(torch, a)), outcome(lambda: ask(tede, b))), (what, a)


def test_divergences_of_all_pairs(both):
    torch, tede = both[::-1]
    first, second = instances(torch), instances(tede)
    for i, p in enumerate(first):
        for k, q in enumerate(first):
            expected = outcome(lambda: torch.distributions.kl_divergence(p, q))
            assert close(expected, outcome(lambda: tede.distributions.kl_divergence(second[i], second[k]))), (p, q)


def test_gradients_pass_through_samples(lib):
    D = importlib.import_module(lib.__name__ + ".distributions")
    for make in (lambda a: D.Normal(a, a), lambda a: D.Gamma(a, a), lambda a: D.Beta(a, a), lambda a: D.Dirichlet(a),
                 lambda a: D.RelaxedBernoulli(lib.tensor(0.5), logits=a), lambda a: D.StudentT(a + 1), D.Exponential):
        a = lib.tensor([0.6, 1.5], requires_grad=True)
        make(a).rsample((3,)).square().sum().backward()
        assert a.grad.isfinite().all() and a.grad.abs().sum() > 0


SHAPES = [1e-3, 0.05, 0.5, 1.0, 2.0, 6.5, 7.9, 8.1, 20.0, 100.0, 1e3]


@pytest.mark.parametrize("name, places", [
    ("_standard_gamma_grad", [1e-8, 0.01, 0.5, 0.79, 0.81, 1.5, 5.0, 7.5, 8.5, 9.5, 45.0, 100.0, 950.0, 1100.0]),
    ("_dirichlet_grad", [1e-8, 0.01, 0.1, 0.3, 0.49, 0.5, 0.51, 0.7, 0.9, 0.95, 0.999])])
def test_how_samples_move_with_their_parameter(both, name, places):
    """On both sides of each border between the expansions. float32 is held to the exact values: PyTorch's own series lose
    all digits where the total is far larger than a parameter."""
    tede, torch = both

    def values(lib, dtype):
        def grid(values, *shape):
            return lib.tensor(values, dtype=lib.float64).to(getattr(lib, dtype)).reshape(shape)
        x, alpha, beta = grid(places, -1, 1, 1), grid(SHAPES, -1, 1), grid(SHAPES, -1)
        return lib._standard_gamma_grad(alpha, x) if "gamma" in name else lib._dirichlet_grad(x, alpha, alpha + beta)
    exact = values(torch, "float64").flatten().tolist()
    for dtype, tolerance in (("float64", 1e-8), ("float32", 2e-2)):
        assert values(tede, dtype).flatten().tolist() == pytest.approx(exact, rel=tolerance, abs=1e-6)
    for lib in both:
        for dtype, title in ((lib.float16, "Half"), (lib.int64, "Long")):
            x = lib.ones(3, dtype=dtype)
            with pytest.raises(NotImplementedError, match=f"\"{name}_cpu\" not implemented for '{title}'"):
                getattr(lib, name)(*[x, x] if "gamma" in name else [x, x, x])


def test_gradients_of_samples_are_those_of_pytorch(both):
    def gradients(lib):
        D = importlib.import_module(lib.__name__ + ".distributions")
        for make in (lambda a, b: D.Gamma(a, b), lambda a, b: D.Chi2(a + 0 * b), lambda a, b: D.StudentT(a, b), D.Beta,
                     lambda a, b: D.Dirichlet(lib.stack([a, b])), lambda a, b: D.InverseGamma(a, b), D.FisherSnedecor):
            a = lib.tensor([0.3, 1.5, 30.0], dtype=lib.float64, requires_grad=True)
            b = lib.tensor([2.0, 0.7, 12.0], dtype=lib.float64, requires_grad=True)
            lib.manual_seed(4)
            (make(a, b).rsample((5,)) * lib.arange(1.0, 6.0).reshape(5, *[1] * len(make(a, b).event_shape), 1)).sum().backward()
            yield a.grad.tolist(), b.grad.tolist()
    for mine, expected in zip(*map(gradients, both)):
        assert mine[0] == pytest.approx(expected[0], rel=1e-6) and mine[1] == pytest.approx(expected[1], rel=1e-6)


def test_gradients_of_samples_have_no_gradient(lib):
    a = lib.tensor([0.6, 1.5], requires_grad=True)
    slope, = lib.autograd.grad(lib._standard_gamma(a).sum(), a, create_graph=True)
    raised = None
    try:
        slope.sum().backward()
    except NotImplementedError as error:
        raised = str(error)
    assert raised == "the derivative for '_standard_gamma_grad' is not implemented."
    with pytest.raises(RuntimeError, match="derivative for aten::_sample_dirichlet is not implemented"):
        lib._sample_dirichlet(a).sum().backward()


def test_parameters_and_values_are_checked(lib):
    D = importlib.import_module(lib.__name__ + ".distributions")
    with pytest.raises(ValueError, match="Expected parameter scale .* to satisfy the constraint GreaterThan"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both."):
        D.Bernoulli()
    with pytest.raises(ValueError, match="Expected value argument .* to be within the support"):
        D.Categorical(lib.tensor([0.5, 0.5])).log_prob(lib.tensor(3))
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    with pytest.raises(NotImplementedError, match="KL"):
        D.kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0))
    assert inspect.isclass(D.Distribution) and not D.Poisson(1.0).has_rsample


def test_transforms_invert_and_know_their_jacobian(lib):
    D = importlib.import_module(lib.__name__ + ".distributions")
    x = lib.tensor([0.3, 0.7, 1.4], dtype=lib.float64)
    for t in (D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform(), D.SoftplusTransform(), D.PowerTransform(2.0),
              D.AffineTransform(1.0, -2.0), D.ComposeTransform([D.AffineTransform(1.0, 0.5), D.ExpTransform()])):
        y = t(x)
        assert lib.allclose(t.inv(y), x) and t.bijective
        slope = lib.autograd.functional.jacobian(t, x).diagonal()
        assert lib.allclose(t.log_abs_det_jacobian(x, y), slope.abs().log())
    for t in (D.StickBreakingTransform(), D.CorrCholeskyTransform()):
        y = t(x)
        assert lib.allclose(t.inv(y), x) and t.codomain.check(y).all() and t.forward_shape(x.shape) == y.shape
    for constraint in (D.constraints.positive, D.constraints.interval(-1.0, 2.0), D.constraints.simplex,
                       D.constraints.corr_cholesky, D.constraints.less_than(2.0)):
        assert constraint.check(D.transform_to(constraint)(x)).all()
    assert D.ExpTransform() == D.ExpTransform() and D.AffineTransform(1.0, 2.0) != D.AffineTransform(1.0, 3.0)


def test_the_slope_of_a_binomial_where_its_odds_are_even(lib):
    d = lib.distributions
    for total, value, slope in ((1.0, 0.0, -0.5), (3, 2.0, 0.5)):
        x = lib.tensor(0.0, requires_grad=True)
        d.Binomial(total, logits=x).log_prob(lib.tensor(value)).backward()
        assert x.grad == slope


def test_divergence_of_vectors_whose_parts_have_different_batches(lib):
    d = lib.distributions
    lib.manual_seed(0)
    p = d.LowRankMultivariateNormal(lib.randn(5, 2), lib.randn(5, 2, 1), lib.tensor([0.5, 1.0]))
    assert d.kl_divergence(p, p).abs().max() < 1e-5
    one = d.MultivariateNormal(lib.zeros(2), scale_tril=lib.tensor([[1.0, 0.0], [0.5, 2.0]]))
    factors = lib.tensor([[[1.0, 0.0], [0.25, 1.0]], [[2.0, 0.0], [0.0, 3.0]]])        # as many as there are columns
    both = d.MultivariateNormal(lib.zeros(2), scale_tril=factors)
    each = [d.kl_divergence(one, d.MultivariateNormal(lib.zeros(2), scale_tril=f)).item() for f in factors]
    assert d.kl_divergence(one, both).tolist() == pytest.approx(each)


def test_samples_have_no_tangent(lib):
    import importlib
    forward = importlib.import_module(lib.__name__ + ".autograd.forward_ad")
    for draw in (lambda x: lib.normal(x, x), lambda x: lib.normal(x, 2.0), lambda x: lib.normal(1.0, x), lib.bernoulli, lib.poisson):
        with forward.dual_level():
            x = forward.make_dual(lib.tensor(1.0), lib.tensor(1.0))
            assert forward.unpack_dual(draw(x)).tangent == 0
