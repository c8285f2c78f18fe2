"""kl_divergence(p, q) = E_p[log p - log q].

Pairs of one family have formulas of their own. Most pairs of different families go by one idea: the divergence is
-H(p) - E_p[log q], and the expectation of log q needs only a moment or two of p: its mean and variance for a normal q, its
mean for an exponential one, its mean and E[log x] for a gamma one, and E[exp(-x / scale)] for a Gumbel one. Where p reaches
beyond q's support, the divergence is infinite.
"""
import math
import warnings

import tede
from tede.distributions.bounded import Beta, ContinuousBernoulli, Dirichlet, Uniform
from tede.distributions.compound import Independent, TransformedDistribution
from tede.distributions.continuous import Cauchy, Gumbel, Laplace, Normal
from tede.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from tede.distributions.distribution import ExponentialFamily
from tede.distributions.multivariate import (
    LowRankMultivariateNormal, MultivariateNormal, _log_diagonal, _lowrank_logdet, _lowrank_mahalanobis, _mahalanobis)
from tede.distributions.positive import Exponential, Gamma, HalfNormal, Pareto
from tede.distributions.utils import euler_constant, sum_rightmost

__all__ = ["register_kl", "kl_divergence"]

inf = math.inf
_KL_REGISTRY, _KL_MEMOIZE = {}, {}


def register_kl(type_p, type_q):
    """A decorator: the function is `kl_divergence` for these types and those made from them. Where several fit, the
    most special is taken.

        type_p, type_q: classes (TypeError).

    >>> class Coin(tede.distributions.Bernoulli):
    ...     pass
    >>> @tede.distributions.register_kl(Coin, Coin)
    ... def between_coins(p, q):
    ...     return tede.zeros(p.batch_shape)
    >>> tede.distributions.kl_divergence(Coin(0.3), Coin(0.5))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):          # any class: a package's own distributions need not be made from ours
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(fun):
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun
    return decorator


def _nearer(a, b):
    """Whether the pair of types a is more special than b, the first type counting first."""
    for x, y in zip(a, b):
        if x is not y:
            return issubclass(x, y)
    return True


def _best(pairs):
    best = pairs[0]
    for pair in pairs[1:]:
        if _nearer(pair, best):
            best = pair
    return best


def _dispatch_kl(type_p, type_q):
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return NotImplemented
    left = _best(matches)
    right = _best([pair[::-1] for pair in matches])[::-1]
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
                      f"{right[1].__name__})", RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p, q):
    """``E[log p(x) - log q(x)]`` for x of p: the Kullback-Leibler divergence, for each element of the batch.
    NotImplementedError if no formula is known for the two classes: see `register_kl`.

    >>> p, q = tede.distributions.Normal(0.0, 1.0), tede.distributions.Normal(1.0, 1.0)
    >>> tede.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _dispatch_kl(*key)
    fun = _KL_MEMOIZE[key]
    if fun is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return fun(p, q)


# ---- p and q of one family ---------------------------------------------------------------------------------------------

@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed using "
                                  "Bregman divergences")
    at = [x.detach().requires_grad_() for x in p._natural_params]
    log_normal = p._log_normalizer(*at)
    gradients = tede.autograd.grad(log_normal.sum(), at, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - log_normal
    for a, b, gradient in zip(at, q._natural_params, gradients):
        result = result - sum_rightmost((b - a) * gradient, len(q.event_shape))
    return result


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p, q):
    softplus = tede.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one[q.probs == 0] = inf
    one[p.probs == 0] = 0
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zero[q.probs == 1] = inf
    zero[p.probs == 1] = 0
    return one + zero


@register_kl(Binomial, Binomial)
def _kl_binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    kl[p.total_count > q.total_count] = inf
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehot(p, q):
    return _kl_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric(p, q):
    return -p.entropy() - tede.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli(p, q):
    def constant(d):
        return d._cont_bern_log_norm() + tede.log1p(-d.probs)
    return p.mean * (p.logits - q.logits) + constant(p) - constant(q)


def _log_beta(*parts):
    return sum(x.lgamma() for x in parts) - sum(parts).lgamma()


@register_kl(Beta, Beta)
def _kl_beta(p, q):
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    return (_log_beta(q.concentration1, q.concentration0) - _log_beta(p.concentration1, p.concentration0) +
            (p.concentration1 - q.concentration1) * p.concentration1.digamma() +
            (p.concentration0 - q.concentration0) * p.concentration0.digamma() + (total_q - total_p) * total_p.digamma())


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    return (total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1) +
            ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1))


@register_kl(Exponential, Exponential)
def _kl_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _kl_gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log() + q.concentration.lgamma() - p.concentration.lgamma() +
            (p.concentration - q.concentration) * p.concentration.digamma() +
            (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Normal, Normal)
def _kl_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal(p, q):
    return _kl_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * tede.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p, q):
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _kl_pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    result[p.scale < q.scale] = inf
    return result


@register_kl(Uniform, Uniform)
def _kl_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = inf
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- normal vectors: half of log det ratio + trace + distance - dimensions --------------------------------------------------

def _parts(d):
    """(log det of the covariance, function from x to |x| in its metric, factors whose outer products add up to it)"""
    if isinstance(d, LowRankMultivariateNormal):
        w, diagonal, k = d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag, d._capacitance_tril
        return (_lowrank_logdet(w, diagonal, k), lambda x: _lowrank_mahalanobis(w, diagonal, x, k),
                [w, tede.diag_embed(diagonal.sqrt())])
    factor = d._unbroadcasted_scale_tril
    return 2 * _log_diagonal(factor), lambda x: _mahalanobis(factor, x), [factor]


def _kl_vectors(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be "
                         "computed")
    logdet_p, _, factors = _parts(p)
    logdet_q, distance, _ = _parts(q)
    wide = tede.broadcast_shapes(p.batch_shape, q.batch_shape)          # else a factor's columns meet q's batch
    trace = sum(distance(factor.expand(wide + factor.shape[-2:]).mT.movedim(-2, 0)).sum(0) for factor in factors)
    return 0.5 * (logdet_q - logdet_p + trace + distance(q.loc - p.loc) - p.event_shape[0])


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_kl_vectors)


# ---- p and q of different families: -H(p) - E_p[log q] ----------------------------------------------------------------------

def _batch_of(p):
    return next(iter(getattr(p, name) for name in ("loc", "rate", "scale", "probs", "concentration1") if hasattr(p, name)))


def _infinite(p, q):
    return tede.full_like(_batch_of(p), inf)


def _xlogx(x):
    return tede.special.xlogy(x, x)


def _mean_log(p):
    """E[log x]"""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -p.rate.log() - euler_constant
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_xlogx(p.high) - _xlogx(p.low)) / (p.high - p.low) - 1             # Uniform


def _exp_moment(p, s):
    """log E[exp(-x / s)]"""
    if isinstance(p, Normal):
        return -p.loc / s + 0.5 * (p.scale / s).pow(2)
    if isinstance(p, Exponential):
        return -(1 + (p.rate * s).reciprocal()).log()
    if isinstance(p, Gumbel):
        return -p.loc / s + (1 + p.scale / s).lgamma()
    if isinstance(p, Gamma):
        return -p.concentration * (1 + (p.rate * s).reciprocal()).log()
    return (s / (p.high - p.low) * (tede.exp(-p.low / s) - tede.exp(-p.high / s))).log()       # Uniform


def _to_normal(p, q):
    variance = q.scale.pow(2)
    return -p.entropy() + 0.5 * (2 * math.pi * variance).log() + (p.variance + (p.mean - q.loc).pow(2)) / (2 * variance)


def _to_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _to_gamma(p, q):
    return (-p.entropy() + q.concentration.lgamma() - q.concentration * q.rate.log() -
            (q.concentration - 1) * _mean_log(p) + q.rate * p.mean)


def _to_gumbel(p, q):
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + tede.exp(q.loc / q.scale + _exp_moment(p, q.scale))


def _to_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    return tede.where((q.low > 0) | (q.high < 1), inf, result)


def _to_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits - tede.log1p(-q.probs) - q._cont_bern_log_norm()


def _within(function, condition):
    """`function` where a condition on p and q holds, infinite elsewhere."""
    def kl(p, q):
        return tede.where(condition(p, q), function(p, q), inf)
    return kl


def _positive(p, q):
    return p.low >= 0


def _uniform_to_beta(p, q):
    width = p.high - p.low
    other = (_xlogx(1 - p.low) - _xlogx(1 - p.high)) / width - 1              # E[log(1 - x)]
    return (-p.entropy() + _log_beta(q.concentration1, q.concentration0) - (q.concentration1 - 1) * _mean_log(p) -
            (q.concentration0 - 1) * other)


def _uniform_to_pareto(p, q):
    return -p.entropy() - (q.alpha * q.scale.pow(q.alpha)).log() + (q.alpha + 1) * _mean_log(p)


def _normal_to_laplace(p, q):
    ratio = (p.loc - q.loc) / p.scale
    distance = (math.sqrt(2 / math.pi) * p.scale * tede.exp(-0.5 * ratio.pow(2)) +
                (p.loc - q.loc) * tede.erf(math.sqrt(0.5) * ratio))             # E|x - loc|
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


for _p, _q, _function in (
        [(p, Normal, _to_normal) for p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform)] +
        [(p, Exponential, _to_exponential) for p in (Beta, ContinuousBernoulli, Gamma)] +
        [(p, Gamma, _to_gamma) for p in (Beta, Exponential)] +
        [(p, Gumbel, _to_gumbel) for p in (Exponential, Gamma, Gumbel, Normal, Uniform)] +
        [(p, Uniform, _to_uniform) for p in (Beta, ContinuousBernoulli)] +
        [(Beta, ContinuousBernoulli, _to_continuous_bernoulli), (Normal, Laplace, _normal_to_laplace),
         (Pareto, Exponential, _within(_to_exponential, lambda p, q: p.alpha > 1)),
         (Pareto, Gamma, _within(_to_gamma, lambda p, q: p.alpha > 1)),
         (Pareto, Normal, _within(_to_normal, lambda p, q: p.alpha > 2)),
         (Uniform, Beta, _within(_uniform_to_beta, lambda p, q: (p.high <= 1) & (p.low >= 0))),
         (Uniform, ContinuousBernoulli, _within(_to_continuous_bernoulli, lambda p, q: (p.high < 1) & (p.low > 0))),
         (Uniform, Exponential, _within(_to_exponential, _positive)), (Uniform, Gamma, _within(_to_gamma, _positive)),
         (Uniform, Pareto, _within(_uniform_to_pareto, lambda p, q: p.low >= q.scale))] +
        [(p, q, _infinite) for p in (Gumbel, Laplace, Normal)
         for q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)] +
        [(p, q, _infinite) for p in (Exponential, Gamma) for q in (Beta, ContinuousBernoulli, Pareto, Uniform)] +
        [(p, Pareto, _infinite) for p in (Beta, ContinuousBernoulli)] +
        [(Pareto, q, _infinite) for q in (Beta, ContinuousBernoulli, Uniform)] +
        [(Poisson, q, _infinite) for q in (Bernoulli, Binomial)]):
    register_kl(_p, _q)(_function)
del _p, _q, _function
